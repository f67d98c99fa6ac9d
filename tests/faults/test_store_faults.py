"""A store that fails in every way: nothing is lost, nothing happens twice."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import pytest
from tests.depth import some
from tests.faults.rig import Plot, make_agent, plain, runtime_on
from tests.faults.scene import Scene, records_of
from tests.faults.verdict import Violation, judge

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.system import SystemClock, chance, new_id
from windlass.engine.writing.writer import SessionWriter
from windlass.errors import Ambiguous, Conflict, Rejected, Unavailable
from windlass.ports.clock import Clock
from windlass.ports.feed import CursorExpired
from windlass.ports.journal import Appended, Batch
from windlass.ports.machine import Machine
from windlass.sqlite.store import SqliteStore
from windlass.testing import Failpoints, FaultRates, FaultyStore, seeded_random

T = TypeVar("T")

SEED: Final = 20260201
APPENDS_MIN: Final = some(10_000)
SESSIONS: Final = some(56)
RUNS: Final = 4
STEPS: Final = ("look", "note", "pay", "look+note+pay") * 5
SQLITE_STEPS: Final = ("look", "pay+send", "note", "send", "pay")
WAIT_S: Final = 10_000.0
"""Of fake time."""


@dataclass(slots=True)
class Notes:
    """A ledger in memory."""

    facts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def write(self, **facts: object) -> None:
        self.facts.append({**facts})


async def insist(call: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Do something that may be repeated until the store lets it happen."""
    while True:
        try:
            return await call()
        except (Unavailable, Ambiguous):
            await clock.sleep(0.2)


@dataclass(slots=True)
class Client:
    """A client that starts runs and follows them despite store faults."""

    runtime: AgentRuntime
    agent: Agent
    clock: Clock
    acks: Notes

    async def play(self, plot: Plot) -> None:
        """Run a plot to its end, and answer its requests."""
        handle = await insist(
            lambda: self.runtime.start_run(
                self.agent, plot.message, session_id=plot.session_id, run_id=plot.run_id
            ),
            self.clock,
        )
        self.acks.write(what="start", run=plot.run_id)
        seen = 0

        async def follow() -> None:
            nonlocal seen
            async for event in handle.events(after=seen):
                if event.index is None:
                    facts = {"session": plot.session_id, "type": event.type, "data": event.data}
                    self.acks.write(what="event", seq=event.seq, **facts)
                    seen = event.seq or seen
                if event.type == "run.waiting":
                    await insist(self._answer(plot.run_id), self.clock)

        await insist(follow, self.clock)
        result = await insist(lambda: handle.wait(timeout=WAIT_S), self.clock)
        self.acks.write(what="result", run=plot.run_id, status=result.status, output=result.output)

    def _answer(self, run_id: str) -> Callable[[], Awaitable[None]]:
        async def answer() -> None:
            handle = self.runtime.handle(run_id)
            for request in await handle.open_requests():
                try:
                    await handle.answer(request.request_id, "retry", responder="tester")
                except Conflict:
                    continue

        return answer


async def rounds(store: FaultyStore, machine: Machine, plots: Sequence[Sequence[Plot]]) -> list[Violation]:
    """Play sequences of plots concurrently; return the violations."""
    acks, ledger = Notes(), Notes()
    agent = make_agent(Failpoints(), ledger)
    runtime = runtime_on(store, [agent], machine=machine)
    client = Client(runtime, agent, machine.clock, acks)
    await insist(runtime.core.resume, machine.clock)

    async def one_by_one(each: Sequence[Plot]) -> None:
        for plot in each:
            await client.play(plot)

    await asyncio.gather(*(one_by_one(each) for each in plots))
    store.is_faulty = False
    names = [each[0].session_id for each in plots]
    sessions = {name: [plain(one) for one in await records_of(store, name)] for name in names}
    await runtime.aclose()
    runs = [plot.run_id for each in plots for plot in each]
    return judge(sessions, runs, acks=acks.facts, ledger=ledger.facts)[0]


def plots_of(sessions: int, runs: int, steps: Sequence[str]) -> list[list[Plot]]:
    return [[Plot(f"s{at}", f"r{at}-{run}", tuple(steps)) for run in range(runs)] for at in range(sessions)]


def play_in_memory(
    plots: Sequence[Sequence[Plot]], *, seed: int, rates: FaultRates
) -> tuple[FaultyStore, list[Violation]]:
    scene = Scene(seed=seed)
    store = FaultyStore(MemoryStore(), random=seeded_random(seed), clock=scene.clock, rates=rates)

    async def story(scene: Scene) -> list[Violation]:
        machine = Machine(scene.clock, new_id, seeded_random(seed + 1))
        async with asyncio.timeout(WAIT_S * 10):
            return await rounds(store, machine, plots)

    return store, scene.play(story)


@pytest.mark.promise("J3")
@pytest.mark.promise("J5")
@pytest.mark.parametrize("seed", [SEED])
def test_thousands_of_appends_on_a_faulty_store_lose_and_repeat_nothing(seed: int) -> None:
    store, wrong = play_in_memory(plots_of(SESSIONS, RUNS, STEPS), seed=seed, rates=FaultRates())
    assert not wrong, f"seed {seed}: {wrong[:5]}"
    assert store.calls["append"] >= APPENDS_MIN
    share = store.faults["hide"] / sum(store.calls[name] for name in ("append", "claim", "post"))
    assert 0.03 < share < 0.07, store.faults


@pytest.mark.parametrize("seed", range(SEED, SEED + 5))
def test_a_store_that_fails_every_other_time_only_costs_time(seed: int) -> None:
    rates = FaultRates(refuse=0.15, lose=0.15, hide=0.15, slow=0.05)
    _, wrong = play_in_memory(plots_of(3, 2, STEPS[:6]), seed=seed, rates=rates)
    assert not wrong, f"seed {seed}: {wrong[:5]}"


def test_appends_on_a_faulty_sqlite_store_lose_and_repeat_nothing(tmp_path: Path) -> None:
    async def main() -> tuple[FaultyStore, list[Violation]]:
        clock = SystemClock()
        inner = await SqliteStore.open(tmp_path / "app.db", durability="process")
        rates = FaultRates(delay_s=0.01)
        store = FaultyStore(inner, random=seeded_random(SEED), clock=clock, rates=rates)
        async with asyncio.timeout(300):
            return store, await rounds(store, Machine(clock, new_id, chance), plots_of(12, 1, SQLITE_STEPS))

    store, wrong = asyncio.run(main())
    assert not wrong, f"seed {SEED}: {wrong[:5]}"
    assert store.calls["append"] > 150


async def nothing_there(self: SessionWriter, batch: Batch) -> Appended | None:
    """Look nowhere, and say that nothing was written."""
    return None


async def surely_there(self: SessionWriter, batch: Batch) -> Appended | None:
    """Look nowhere, and say that it was written."""
    return Appended(batch.expected_seq + 1, 1)


def test_the_test_finds_a_writer_that_takes_ambiguous_for_success() -> None:
    found: set[str] = set()
    with patch.object(SessionWriter, "_look", surely_there):
        # Not every seed leaves a write in doubt that did not happen.
        for seed in range(SEED, SEED + 4):
            try:
                _, wrong = play_in_memory(plots_of(4, 1, STEPS[:8]), seed=seed, rates=FaultRates())
                found |= {one.rule for one in wrong}
            except TimeoutError:
                # The run waits for ever for what was lost.
                found.add("lost")
            except Rejected as error:
                # A reader was shown a record that the journal does not have; it finds out while it reads, or
                # when it opens again at its cursor.
                if not isinstance(error, CursorExpired) and "cursor beyond the end" not in str(error):
                    raise
                found.add("lost")
    assert found & {"lost", "gap", "repeated", "results"}


def test_a_writer_that_takes_ambiguous_for_failure_is_refused_and_reads_again() -> None:
    # The fence makes this mistake harmless: a repeated append is refused, and the session is read again.
    with patch.object(SessionWriter, "_look", nothing_there):
        _, wrong = play_in_memory(plots_of(4, 1, STEPS[:8]), seed=SEED, rates=FaultRates())
    assert not wrong


def test_faulty_reads_are_unavailable_and_writes_may_be_ambiguous() -> None:
    async def story(scene: Scene) -> None:
        rates = FaultRates(refuse=0, lose=0.5, hide=0.5, slow=0)
        store = FaultyStore(MemoryStore(), random=seeded_random(3), clock=scene.clock, rates=rates)
        for _ in range(20):
            with pytest.raises(Unavailable):
                await store.session("s1")
            with pytest.raises(Ambiguous):
                await store.enlist("o1", now_ms=0)
        assert store.faults["refuse"] == 20
        assert store.faults["lose"] + store.faults["hide"] == 20
        store.is_faulty = False
        assert await store.session("s1") is None

    Scene().play(story)


def test_a_faulty_store_delays_refuses_loses_or_hides_a_call() -> None:
    async def story(scene: Scene) -> None:
        slow = FaultRates(refuse=0, lose=0, hide=0, slow=1, delay_s=7)
        inner = MemoryStore()
        store = FaultyStore(inner, random=seeded_random(3), clock=scene.clock, rates=slow)
        await store.enlist("o1", now_ms=0)
        assert scene.clock.monotonic() == 7
        cases = ((FaultRates(refuse=1), False), (FaultRates(0, 1), False), (FaultRates(0, 0, 1), True))
        for rates, is_done in cases:
            store = FaultyStore(inner, random=seeded_random(3), clock=scene.clock, rates=rates)
            name = f"s-{rates.refuse}-{rates.lose}-{rates.hide}"
            with pytest.raises((Unavailable, Ambiguous)):
                await store.claim(name, "o1", now_ms=0)
            assert (await inner.session(name) is not None) is is_done

    Scene().play(story)
