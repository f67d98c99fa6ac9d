"""Stalls of the event loop: they are seen, named, counted and logged once."""

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, tool
from windlass.adapters import loop_watch
from windlass.adapters.loop_watch import (
    COLLECTIONS_PER_COUNT,
    GARBAGE_MAX,
    LATEST_MAX,
    STALL_S,
    WHOLE_S,
    LoopThread,
    RuntimeWatch,
    SettledHeap,
    StallCounts,
)
from windlass.parts import loop_stalls
from windlass.ports.machine import Stall, StallTotals
from windlass.testing import ScriptedModel, call, say


class Machine:
    """A loop that stands still when it is told, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.counts = StallCounts()

    async def watch(self) -> LoopThread:
        loop = asyncio.get_running_loop()
        return LoopThread(loop, counts=self.counts, monotonic=lambda: self.now_s)

    def stand_still(self, watch: LoopThread, seconds: float, *, looks: int = 1) -> None:
        """Keep the loop, while another thread looks at it."""
        for _ in range(looks):
            self.now_s += seconds / looks
            looking = threading.Thread(target=watch.look)
            looking.start()
            looking.join()


async def turns() -> None:
    """Let the loop run what is due."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_stall_is_counted_once_with_its_session_code_and_final_duration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Machine()

    async def slow(watch: LoopThread) -> None:
        watch.look()
        machine.stand_still(watch, 4.0, looks=8)

    async def story() -> StallTotals:
        watch = await machine.watch()
        await asyncio.create_task(slow(watch), name="windlass session s1")
        await turns()
        watch.look()
        await turns()
        watch.look()
        return machine.counts.totals()

    with caplog.at_level(logging.WARNING, logger="windlass.loop"):
        totals = play(story())
    assert (totals.count, totals.total_ms, totals.longest_ms) == (1, 4_000, 4_000)
    (stall,) = totals.latest
    assert (stall.duration_ms, stall.session_id, stall.task) == (4_000, "s1", "windlass session s1")
    assert stall.code.startswith(f"{__name__}:Machine.stand_still:"), "and not threading, which waits"
    assert [record.getMessage() for record in caplog.records] == [
        f"the event loop stood still for 4000 ms: session s1, task windlass session s1, at {stall.code}"
    ]


def test_a_stall_that_goes_on_is_logged_before_its_end(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    logged: list[list[str]] = []

    async def endless(watch: LoopThread) -> None:
        watch.look()
        for _ in range(45):
            machine.stand_still(watch, 1.0)
            logged.append([record.getMessage() for record in caplog.records])

    async def story() -> None:
        watch = await machine.watch()
        for name in ("s1", "s2"):
            await asyncio.create_task(endless(watch), name=f"windlass session {name}")
            await turns()
            watch.look()
            await turns()

    with caplog.at_level(logging.WARNING, logger="windlass.loop"):
        play(story())
    assert [len(messages) for messages in logged[:11]] == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]
    messages = [record.getMessage() for record in caplog.records]
    for session_id, shown in (("s1", messages[:5]), ("s2", messages[5:])):
        lasted = [message.partition(" ms")[0].rpartition(" ")[2] for message in shown]
        assert lasted == ["5000", "10000", "20000", "40000", "45000"]
        assert all("and still does" in message for message in shown[:4])
        place = (
            f"session {session_id}, task windlass session {session_id}, at {__name__}:Machine.stand_still:"
        )
        assert all(place in message for message in shown)
    assert machine.counts.totals().count == 2


@pytest.mark.parametrize(("seconds", "count"), [(STALL_S - 0.001, 0), (STALL_S, 1)])
def test_a_delay_at_the_limit_is_a_stall(seconds: float, count: int) -> None:
    machine = Machine()

    async def story() -> int:
        watch = await machine.watch()
        watch.look()
        machine.stand_still(watch, seconds)
        await turns()
        watch.look()
        return machine.counts.totals().count

    assert play(story()) == count


def test_a_stall_that_nobody_looked_at_has_a_duration_and_no_name() -> None:
    machine = Machine()

    async def story() -> StallTotals:
        watch = await machine.watch()
        watch.look()
        machine.now_s += 1.0
        await turns()
        watch.look()
        return machine.counts.totals()

    assert play(story()).latest == (Stall(1_000, None, "", ""),)


def test_an_idle_loop_has_no_stalls_and_only_the_newest_are_kept() -> None:
    machine = Machine()

    async def story() -> None:
        watch = await machine.watch()
        for _ in range(100):
            watch.look()
            await turns()
            machine.now_s += STALL_S

    play(story())
    assert machine.counts.totals() == StallTotals()
    for number in range(LATEST_MAX + 5):
        machine.counts.add(Stall(300 + number, None, "", ""))
    totals = machine.counts.totals()
    assert (totals.count, len(totals.latest)) == (LATEST_MAX + 5, LATEST_MAX)
    assert totals.latest[-1].duration_ms == totals.longest_ms == 300 + LATEST_MAX + 4


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "windlass-loop-watch"]


def test_runtimes_of_a_loop_share_a_thread_which_ends_with_the_last_of_them() -> None:
    async def story() -> None:
        agent = Agent("a", model=ScriptedModel([]))
        async with AgentRuntime.in_memory([agent]):
            (thread,) = watching()
            async with AgentRuntime.in_memory([agent]):
                assert watching() == [thread]
            assert watching() == [thread]
        await asyncio.to_thread(thread.join)
        assert watching() == []

    play(story())


def test_a_watch_is_released_once() -> None:
    async def story() -> None:
        first, second = RuntimeWatch(), RuntimeWatch()
        first.release()
        first.release()
        (thread,) = watching()
        second.release()
        await asyncio.to_thread(thread.join)

    play(story())


def test_the_thread_ends_with_a_loop_that_is_closed_without_a_release() -> None:
    async def story() -> threading.Thread:
        RuntimeWatch()
        return watching()[-1]

    play(story()).join()
    assert not watching()


def test_a_tool_that_blocks_the_loop_is_named_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real thread: the tool keeps the loop until the thread has looked at it."""
    looked, counts = threading.Event(), StallCounts()
    running: Callable[[LoopThread], tuple[str, str]] = LoopThread._sample_loop  # pyright: ignore[reportPrivateUsage]

    def traced(thread: LoopThread) -> tuple[str, str]:
        sample = running(thread)
        looked.set()
        return sample

    @tool(mode="read")
    async def block() -> str:
        """Block the event loop."""
        looked.wait()
        return "done"

    monkeypatch.setattr(LoopThread, "_sample_loop", traced)
    counted, add = asyncio.Event(), StallCounts.add

    async def story() -> Stall:
        loop = asyncio.get_running_loop()

        def count(_: StallCounts, stall: Stall) -> None:
            add(counts, stall)
            loop.call_soon_threadsafe(counted.set)

        monkeypatch.setattr(StallCounts, "add", count)
        agent = Agent("a", model=ScriptedModel([call("block"), say("done")]), tools=[block])
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "go", session_id="s-blocked")).wait(timeout=300)
            await counted.wait()
        return counts.totals().latest[0]

    stall = play(story())
    assert stall.session_id == "s-blocked"
    assert stall.code.startswith(f"{__name__}:")
    assert "block" in stall.code


def test_the_counts_of_the_process_are_what_parts_tells() -> None:
    before = loop_stalls().count
    loop_watch.COUNTS.add(Stall(251, None, "", ""))
    assert loop_stalls().count == before + 1


class Collected:
    """A heap with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.heap = SettledHeap(lambda: self.now_s)


@pytest.fixture
def collected() -> Iterator[Collected]:
    collected = Collected()
    gc.collect()
    collected.heap.start()
    yield collected
    collected.heap.stop()
    gc.collect()


class Node:
    """Refers to itself: only a garbage collection frees it."""

    def __init__(self) -> None:
        self.itself = self


def forgotten_node() -> "weakref.ref[Node]":
    """Return a node that became garbage after a collection had exempted it."""
    node = Node()
    gc.collect()
    return weakref.ref(node)


def test_a_full_collection_walks_only_what_was_made_since_the_last_one(collected: Collected) -> None:
    made = [[number] for number in range(1_000)]
    gc.collect()
    walked_next = {id(item) for item in gc.get_objects()}
    assert not walked_next.intersection(map(id, made)), "it exempted them"
    assert gc.get_objects(generation=2) == []
    node = weakref.ref(Node())
    gc.collect()
    assert node() is None, "what is garbage at the first collection after it was made goes"


def test_exempt_garbage_goes_after_an_hour(collected: Collected) -> None:
    node = forgotten_node()
    collected.now_s += WHOLE_S - 1
    gc.collect()
    gc.collect()
    assert node() is not None
    collected.now_s += 1
    gc.collect()
    gc.collect()
    assert node() is None
    assert gc.get_objects(generation=2) == [], "and all is exempt again"


def test_exempt_garbage_goes_when_there_may_be_much_of_it(collected: Collected) -> None:
    node = forgotten_node()
    for _ in range(2 * COLLECTIONS_PER_COUNT):
        gc.collect()
    assert node() is not None
    more = [[number] for number in range(max(GARBAGE_MAX, gc.get_freeze_count()))]
    for _ in range(COLLECTIONS_PER_COUNT + 1):
        gc.collect()
    assert node() is None
    assert len(more) < gc.get_freeze_count(), "and all is exempt again"


def test_a_heap_that_stops_exempts_nothing() -> None:
    heap = SettledHeap()
    heap.start()
    heap.start()
    node = forgotten_node()
    heap.stop()
    gc.collect()
    assert node() is None
    assert gc.get_freeze_count() == 0
