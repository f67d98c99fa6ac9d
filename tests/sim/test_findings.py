"""Bugs that the simulator found, each as a test of its own."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from windlass import Agent, AgentRuntime, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.policy import allow_start
from windlass.errors import Unavailable
from windlass.feed import Feed
from windlass.ports.inbox import InboxItem, NewRun
from windlass.ports.journal import Batch, Standing
from windlass.testing import FakeClock, ScriptedModel, call, fail, run_in_fake_time, say
from windlass_harness.loop.events import Draft
from windlass_harness.loop.rules import Rules
from windlass_harness.retry import RetryPolicy
from windlass_protocol import ErrorKind, RetryClass, RunStatus

T = TypeVar("T")
DAY_S: Final = 86_400.0
PATIENCE_S: Final = 60.0
_BUSY: Final = Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
_PATIENT: Final = Rules(retry=RetryPolicy(base_delay_ms=20_000, max_delay_ms=20_000))


class Scene:
    """A runtime in fake time, on a store that can be looked at."""

    def __init__(self, model: ScriptedModel) -> None:
        self.clock, self.store = FakeClock(), MemoryStore()

        @tool(mode="read")
        async def slow() -> str:
            """Take a second."""
            await self.clock.sleep(1.0)
            return "done"

        self.agent = Agent("helper", model=model, tools=[slow])
        self.runtime = self.runtime_again()

    def runtime_again(self) -> AgentRuntime:
        builder = AgentRuntime.builder().options(clock=self.clock).journal(self.store).content(self.store)
        builder.event_bus(Feed(self.store, self.clock)).policy(allow_start).agent(self.agent)
        builder.options(rules=_PATIENT)
        return builder.build()

    def play(self, story: Coroutine[Any, Any, T]) -> T:
        async def guarded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await story

        return run_in_fake_time(guarded(), clock=self.clock)

    async def standing(self) -> Standing | None:
        row = await self.store.session("s1")
        return None if row is None else row.standing


def test_a_driver_in_a_timed_wait_does_not_spin_when_an_item_arrives() -> None:
    """A cancelled timer woke its session, which cancelled the next timer, without end."""
    scene = Scene(ScriptedModel([fail(_BUSY), say("one"), say("two")]))

    async def story() -> list[str | None]:
        async with scene.runtime as runtime:
            first = await runtime.start_run("helper", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(2.0)
            second = await runtime.start_run("helper", "go", session_id="s1", run_id="r2")
            return [(await handle.wait()).output for handle in (first, second)]

    # Fake time does not pass while a task spins: the loop gives up after a number of turns.
    assert scene.play(story()) == ["one", "two"]


def test_a_runtime_can_be_closed_while_a_tool_runs_and_an_item_arrives() -> None:
    """It went round and round without ever waiting for the tool."""
    scene = Scene(ScriptedModel([call("slow"), say("one"), say("two")]))

    async def story() -> list[str]:
        runtime = scene.runtime
        await runtime.start_run("helper", "go", session_id="s1", run_id="r1")
        await scene.clock.sleep(0.5)
        await runtime.start_run("helper", "go", session_id="s1", run_id="r2")
        await runtime.aclose()
        scene.store._is_closed = False  # pyright: ignore[reportPrivateUsage] - it is the same machine
        return [record.type for record in await scene.store.read("s1")]

    assert "action.result" in scene.play(story())


def test_a_tool_that_was_given_up_on_while_closing_does_not_begin_again() -> None:
    """The store was slow, so the session turned once more after giving up its tool."""
    clock, store = FakeClock(), SlowStore()
    begun: list[str] = []

    @tool(mode="safe_write", effect="once")
    async def pay() -> str:
        """Take very long."""
        begun.append("pay")
        await clock.sleep(100.0)
        return "paid"

    async def story() -> None:
        agent = Agent("helper", model=ScriptedModel([call("pay"), say("one")]), tools=[pay])
        builder = AgentRuntime.builder().options(clock=clock).journal(store).content(store).agent(agent)
        runtime = builder.event_bus(Feed(store, clock)).policy(allow_start).build()
        await runtime.start_run("helper", "go", session_id="s1", run_id="r1")
        await clock.sleep(1.0)
        store.clock = clock
        await runtime.start_run("helper", "go", session_id="s1", run_id="r2")
        await clock.sleep(1.0)
        await runtime.aclose()

    run_in_fake_time(story(), clock=clock)
    assert begun == ["pay"]


class SlowStore(MemoryStore):
    """A store with an inbox that takes ten seconds to read, once it has a clock."""

    clock: FakeClock | None = None

    async def pending(self, session_id: str, *, after: int = 0, limit: int = 64) -> tuple[InboxItem, ...]:
        if self.clock is not None:
            await self.clock.sleep(10.0)
        return await super().pending(session_id, after=after, limit=limit)


def test_a_pause_is_not_longer_because_the_clock_was_put_back() -> None:
    scene = Scene(ScriptedModel([fail(_BUSY), say("one")]))

    async def story() -> tuple[str | None, object]:
        async with scene.runtime as runtime:
            handle = await runtime.start_run("helper", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(2.0)
            scene.clock.jump(-DAY_S)
            result = await handle.wait()
            records = await scene.store.read("s1")
            return result.output, next(one.data["delayMs"] for one in records if "delayMs" in one.data)

    output, pause_ms = scene.play(story())
    assert output == "one"
    assert isinstance(pause_ms, int)
    assert pause_ms > 5_000
    assert scene.clock.monotonic() * 1_000 >= pause_ms, "the pause is not shorter either"


def test_a_session_in_a_short_wait_stays_running_for_the_next_owner() -> None:
    """Only the wall clock would wake one that waits, and it may have been put back."""
    scene = Scene(ScriptedModel([fail(_BUSY), say("one")]))

    async def story() -> Standing | None:
        async with scene.runtime as runtime:
            await runtime.start_run("helper", "go", session_id="s1", run_id="r1")
            await scene.clock.sleep(2.0)
            return await scene.standing()

    assert scene.play(story()) is Standing.RUNNING


def test_a_replay_sees_records_that_another_process_has_just_written() -> None:
    """The replay used the known position of other readers, which were behind."""
    store, clock = MemoryStore(), FakeClock()

    async def story() -> list[str]:
        feed = Feed(store, clock)
        await store.enlist("other", now_ms=0)
        await store.post("s1", kind="start", key="r1", body={}, run=NewRun("r1", "a", "f"))
        claim = await store.claim("s1", "other", now_ms=0)
        at = "2026-01-01T00:00:00.000Z"
        first = Draft("session.started", at, {})
        await store.append(Batch(claim, 0, (first,)))
        follower = feed.subscribe_session("s1")
        assert (await anext(follower)).type == "session.started"
        waiting = asyncio.ensure_future(anext(follower))
        await clock.sleep(1.0)
        began = Draft("run.started", at, {"runId": "r1", "agentId": "a"}, run_id="r1")
        await store.append(Batch(claim, 1, (began,), runs=(("r1", RunStatus.RUNNING),)))
        seen = [event.type async for event in feed.replay_run_from_cursor("r1")]
        waiting.cancel()
        return seen

    assert run_in_fake_time(story(), clock=clock) == ["run.started"]


def test_a_forgotten_reader_is_collected_in_silence() -> None:
    """It left a topic that was already removed; pytest reports exceptions raised there."""
    store, clock = MemoryStore(), FakeClock()

    async def read(feed: Feed, me: list[object]) -> None:
        stream = feed.subscribe_session("s1")
        me.append(stream)
        try:
            await anext(stream)
        finally:
            await stream.aclose()

    async def story() -> None:
        feed = Feed(store, clock)
        me: list[object] = []
        reading = read(feed, me)
        me.append(reading)
        reading.send(None)
        # It holds itself, so only the collector finds it, together with its topic.
        del reading, me
        gc.collect()
        assert feed.topic_count == 0

    run_in_fake_time(story(), clock=clock)
