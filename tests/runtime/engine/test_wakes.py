"""Wakes: who drives a session, which wakes are done, and what becomes of those that are lost."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from tests.faults.rig import runtime_on
from tests.faults.scene import Scene, ends_of, records_of
from tests.runtime.engine.test_owners import SharedStore, asks, talks, waiting

from windlass import Agent, AgentRuntime, LLMMessage
from windlass.engine.driving.engine import LOST_PER_SWEEP_MAX, REWAKE_TIMES_MAX, SWEEP_S
from windlass.errors import Unavailable
from windlass.limits import OWNER_LEASE_MS
from windlass.ports.journal import Standing
from windlass.ports.machine import Machine
from windlass.ports.wakes import Drive, NotParked, Parked
from windlass.testing import Answer, ScriptedModel, call, fail, say, seeded_random, sequential_ids
from windlass_harness.loop.rules import AWAKE_MS_MAX
from windlass_protocol import ErrorKind, RetryClass, RunStatus

WAIT_S: Final = 100.0
LOST_AFTER_MS: Final = 5_000


class Queue:
    """An engine of wakes that only notes them; the test calls `drive`."""

    lost_after_ms = LOST_AFTER_MS

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.lost: list[str] = []
        self.drive: Drive | None = None
        self.is_closed = False

    async def open(self, drive: Drive | None) -> None:
        self.drive = drive

    def wake(self, session_id: str, *, is_lost: bool = False) -> None:
        self.woken.append(session_id)
        if is_lost:
            self.lost.append(session_id)

    async def aclose(self) -> None:
        self.is_closed = True

    async def call(self, session_id: str = "s") -> Parked:
        assert self.drive is not None
        return await self.drive(session_id)


class Fleet:
    """Processes on one store and one clock, each with its side of the queue."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._count = 0

    def process(self, agents: Iterable[Agent], queue: Queue | None, *, drives: bool = True) -> AgentRuntime:
        self._count += 1
        machine = Machine(self.scene.clock, sequential_ids(f"p{self._count}"), seeded_random(1))
        store = SharedStore(self.scene.store)
        return runtime_on(store, agents, machine=machine, wakes=queue, is_driving=drives)


def test_a_process_that_does_not_drive_starts_answers_and_cancels_and_claims_nothing() -> None:
    async def story(scene: Scene) -> None:
        fleet, api, worker = Fleet(scene), Queue(), Queue()
        async with fleet.process([asks("A")], api, drives=False) as front:
            assert api.drive is None
            handle = await front.start_run("A", "go", session_id="s", run_id="r1")
            await front.start_run("A", "go", session_id="t", run_id="r2")
            await scene.clock.sleep(10 * SWEEP_S)
            assert await handle.status() is RunStatus.PENDING
            row = await scene.store.session("s")
            assert row is not None
            assert (row.epoch, row.owner_id) == (0, None)
            async with fleet.process([asks("A")], worker):
                parked = await worker.call()
                assert (parked.agent_id, parked.status, parked.wake_in_ms) == ("A", "waiting", None)
                await front.handle("r1").answer(await waiting(handle), "approve")
                await front.cancel_run("r2")
                assert (await worker.call()).status == "completed"
                assert (await worker.call("t")).status == "cancelled"
                assert (await handle.wait(timeout=WAIT_S)).output == "A is done"
        assert api.woken == ["s", "t", "s", "t"]
        assert api.is_closed

    Scene().play(story)


def test_without_an_engine_of_wakes_sweeps_find_what_a_process_that_does_not_drive_has_posted() -> None:
    async def story(scene: Scene) -> None:
        fleet = Fleet(scene)
        async with (
            fleet.process([talks("A")], None, drives=False) as front,
            fleet.process([talks("A")], None) as back,
        ):
            await front.start_run("A", "go", session_id="s", run_id="r1")
            assert (await back.handle("r1").wait(timeout=WAIT_S)).output == "A says"

    Scene().play(story)


def test_a_lost_wake_is_repeated_less_and_less_often_until_the_session_is_driven() -> None:
    async def story(scene: Scene) -> None:
        fleet, api, worker = Fleet(scene), Queue(), Queue()
        async with (
            fleet.process([talks("A")], api, drives=False) as front,
            fleet.process([talks("A")], worker),
        ):
            handle = await front.start_run("A", "go", session_id="s")
            await scene.clock.sleep(LOST_AFTER_MS / 1_000 - SWEEP_S)
            assert worker.woken == []
            await scene.clock.sleep(3 * SWEEP_S)
            assert worker.woken == ["s"]
            await scene.clock.sleep(20 * LOST_AFTER_MS / 1_000)
            assert worker.woken == ["s"] * 4  # after 5, 15, 35 and 75 seconds
            await scene.clock.sleep(3_600)
            worker.woken.clear()
            await scene.clock.sleep(2 * REWAKE_TIMES_MAX * LOST_AFTER_MS / 1_000)
            assert len(worker.woken) in (1, 2), "what was due for hours is not left for hours"
            assert not api.lost
            assert {*worker.lost} == {"s"}
            await worker.call()
            assert (await handle.wait(timeout=WAIT_S)).output == "A says"
            worker.woken.clear()
            await scene.clock.sleep(50 * LOST_AFTER_MS / 1_000)
            assert worker.woken == []

    Scene().play(story)


def test_a_sweep_repeats_a_bounded_number_of_wakes_and_the_next_one_continues() -> None:
    async def story(scene: Scene) -> None:
        fleet, worker = Fleet(scene), Queue()
        sessions = [f"s{number}" for number in range(LOST_PER_SWEEP_MAX + 3)]
        async with (
            fleet.process([talks("A")], Queue(), drives=False) as front,
            fleet.process([talks("A")], worker),
        ):
            for name in sessions:
                await front.start_run("A", "go", session_id=name)
            counts: set[int] = set()
            while len(worker.woken) < len(sessions):
                await scene.clock.sleep(SWEEP_S)
                counts.add(len(worker.woken))
            assert counts == {0, LOST_PER_SWEEP_MAX, len(sessions)}
            assert {*worker.lost} == {*sessions}

    Scene().play(story)


def test_a_session_that_waits_for_a_time_says_when_and_is_woken_if_that_is_forgotten() -> None:
    async def story(scene: Scene) -> None:
        fleet, worker = Fleet(scene), Queue()
        away = Unavailable(
            "away",
            kind=ErrorKind.PROVIDER_FAILURE,
            retry=RetryClass.RETRYABLE,
            retry_after_ms=2 * AWAKE_MS_MAX,
        )
        answers = iter([fail(away), say("back")])
        agent = Agent("A", model=ScriptedModel(lambda _: next(answers)))
        async with fleet.process([agent], worker) as runtime:
            handle = await runtime.start_run("A", "go", session_id="s")
            parked = await worker.call()
            assert parked.status == "waiting"
            assert parked.wake_in_ms is not None
            assert 0 < parked.wake_in_ms <= 3 * AWAKE_MS_MAX
            await scene.clock.sleep(parked.wake_in_ms / 1_000 + LOST_AFTER_MS / 1_000 + 3 * SWEEP_S)
            assert worker.woken == ["s", "s"]
            await worker.call()
            assert (await handle.wait(timeout=WAIT_S)).output == "back"

    Scene().play(story)


def test_a_wake_during_a_drive_is_the_drive_under_way_which_reads_the_inbox_again() -> None:
    async def story(scene: Scene) -> None:
        fleet, worker, gate = Fleet(scene), Queue(), asyncio.Event()
        agent = Agent("A", model=ScriptedModel(lambda _: Answer("said", gate=gate)))
        async with fleet.process([agent], worker) as runtime:
            await runtime.start_run("A", "go", session_id="s", run_id="r1")
            assert worker.drive is not None
            first = asyncio.ensure_future(worker.drive("s"))
            await scene.clock.sleep(1.0)
            await runtime.start_run("A", "go", session_id="s", run_id="r2")
            second = asyncio.ensure_future(worker.drive("s"))
            gate.set()
            assert await first == await second
            assert {await runtime.handle(one).status() for one in ("r1", "r2")} == {RunStatus.COMPLETED}

    Scene().play(story)


def test_a_process_that_was_fenced_off_does_not_acknowledge() -> None:
    async def story(scene: Scene) -> None:
        fleet, old, new, gate = Fleet(scene), Queue(), Queue(), asyncio.Event()
        slow = Agent("A", model=ScriptedModel(lambda _: Answer("late", gate=gate)))
        async with fleet.process([slow], old) as frozen:
            await frozen.start_run("A", "go", session_id="s", run_id="r1")
            assert old.drive is not None
            drive = asyncio.ensure_future(old.drive("s"))
            await scene.clock.sleep(1.0)
            # Its heartbeat is as old as that of a process that was stopped for longer than its lease.
            row = await scene.store.session("s")
            assert row is not None
            assert row.owner_id is not None
            await scene.store.enlist(row.owner_id, now_ms=_now_ms(scene) - OWNER_LEASE_MS)
            async with fleet.process([talks("A")], new):
                assert (await new.call()).status == "completed"
            gate.set()
            with pytest.raises(NotParked):
                await drive
            assert ends_of(await records_of(scene.store, "s")) == ["run.completed"]

    Scene().play(story)


def test_a_session_of_a_living_owner_of_a_missing_agent_or_of_a_process_that_stops_is_not_acknowledged() -> (
    None
):
    async def story(scene: Scene) -> None:
        fleet, one, two, gate = Fleet(scene), Queue(), Queue(), asyncio.Event()
        slow = Agent("A", model=ScriptedModel(lambda _: Answer("late", gate=gate)))
        async with fleet.process([talks("B")], two):
            runtime = fleet.process([slow], one)
            await runtime.core.resume()
            await runtime.start_run("A", "go", session_id="s", run_id="r1")
            with pytest.raises(NotParked, match="does not have the agent"):
                await two.call()
            assert one.drive is not None
            drive = asyncio.ensure_future(one.drive("s"))
            await scene.clock.sleep(1.0)
            with pytest.raises(NotParked, match="another owner"):
                await two.call()
            await runtime.aclose()
            with pytest.raises(NotParked, match="stops"):
                await drive
            with pytest.raises(NotParked, match="stops"):
                await one.call()
        row = await scene.store.session("s")
        assert row is not None
        assert (row.standing, row.owner_id) == (Standing.RUNNING, None)

    Scene().play(story)


def test_a_subagent_and_its_caller_are_woken_through_the_port() -> None:
    async def story(scene: Scene) -> None:
        fleet, worker = Fleet(scene), Queue()
        helper = talks("helper")

        def write(messages: Sequence[LLMMessage]) -> Answer:
            return say("told") if messages[-1].role == "tool" else call("helper", {"message": "help"})

        boss = Agent("boss", model=ScriptedModel(write), subagents=[helper])
        async with fleet.process([boss], worker) as runtime:
            handle = await runtime.start_run("boss", "go", session_id="s")
            driven: list[str] = []
            while not driven or driven != worker.woken:
                driven.append(worker.woken[len(driven)])
                await worker.call(driven[-1])
            assert (await handle.wait(timeout=WAIT_S)).output == "told"
            assert len(set(driven)) == 2
            assert driven[0] == driven[-1] == "s"

    Scene().play(story)


def _now_ms(scene: Scene) -> int:
    return int(scene.clock.now().timestamp() * 1_000)
