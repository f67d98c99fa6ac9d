"""A drain: tool calls under way end, the session keeps its owner until then, and nothing new begins."""

import asyncio
import logging
from dataclasses import replace

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import AgentRuntime, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.rules import unavailable
from windlass.engine.writing.writer import DELAY_S_MAX
from windlass.limits import DRAIN_S_MAX, OWNER_LEASE_MS
from windlass.ports.journal import Appended, Batch
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.testing.models import by_history

LONG_S = 4 * OWNER_LEASE_MS / 1_000
"""A call that takes longer than the lease of its owner."""


class OpenStore(MemoryStore):
    """A store that several runtimes share: none of them closes it."""

    async def aclose(self) -> None:
        pass


class FullStore(OpenStore):
    """A store that cannot be written for a while."""

    is_full = False

    async def append(self, batch: Batch) -> Appended:
        if self.is_full:
            raise unavailable("disk full")
        return await super().append(batch)


class Bank:
    """A `once` tool that takes its time, and a ledger of what it did."""

    def __init__(self, scene: Scene, takes_s: float = LONG_S, *, calls: int = 1, at_once: int = 10) -> None:
        self.scene = scene
        self.takes_s = takes_s
        self.calls = calls
        self.at_once = at_once
        self.begun = asyncio.Event()
        self.paid: list[str] = []

    def runtime(self, *, drain_s: float) -> AgentRuntime:
        @tool(mode="safe_write", effect="once", concurrency=self.at_once, timeout=1_000)
        async def pay(item: str) -> str:
            """Pay."""
            self.begun.set()
            await self.scene.clock.sleep(self.takes_s)
            self.paid.append(item)
            return f"paid {item}"

        asked = [call("pay", {"item": f"item {number}"}) for number in range(self.calls)]
        model = ScriptedModel(by_history([sum(asked, Answer()), say("done")]))
        made = self.scene.runtime([agent_of(model, [pay])])
        return AgentRuntime(replace(made.core.ports, drain_s=drain_s))

    async def start(self, runtime: AgentRuntime) -> None:
        await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        await self.begun.wait()

    async def finish(self, *, drain_s: float) -> tuple[str, int]:
        """Continue in the next process; return the status of the run and the number of its requests."""
        async with self.runtime(drain_s=drain_s) as runtime:
            handle = runtime.handle("r1")
            async for event in handle.events():
                if event.type == "input.requested":
                    break
            return str(await handle.status()), len(await runtime.sessions.open_requests("s1"))


@pytest.mark.promise("J5")
def test_a_call_that_ends_within_the_drain_is_recorded_and_no_person_is_asked() -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene)
        runtime = bank.runtime(drain_s=LONG_S + 1)
        await bank.start(runtime)
        await runtime.aclose()
        assert bank.paid == ["item 0"]
        assert await bank.finish(drain_s=1) == ("completed", 0)
        assert bank.paid == ["item 0"]

    Scene(store=OpenStore()).play(story)


@pytest.mark.promise("J5")
def test_a_result_is_durable_while_the_drain_waits_for_another_call() -> None:
    async def story(scene: Scene) -> None:
        begun = asyncio.Event()

        @tool(mode="safe_write", effect="once", timeout=10_000)
        async def pay(seconds: int) -> str:
            """Pay."""
            begun.set()
            await scene.clock.sleep(seconds)
            return "paid"

        calls = call("pay", {"seconds": 5}) + call("pay", {"seconds": 5_000})
        made = scene.runtime([agent_of(ScriptedModel([calls]), [pay])])
        runtime = AgentRuntime(replace(made.core.ports, drain_s=DRAIN_S_MAX))
        await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        await begun.wait()
        draining = asyncio.create_task(runtime.drain())
        await scene.clock.sleep(10)
        kinds = [record.type for record in await records_of(scene.store)]
        assert (kinds.count("action.started"), kinds.count("action.result")) == (2, 1)
        assert not draining.done()
        runtime.core.end_drain()
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


@pytest.mark.promise("J5")
@pytest.mark.parametrize(("full_s", "end"), [(25, ("completed", 0)), (60, ("waiting", 1))])
def test_a_result_is_written_in_the_drain_as_soon_as_the_store_can_be_written(
    full_s: int, end: tuple[str, int]
) -> None:
    store = FullStore()

    async def story(scene: Scene) -> None:
        bank = Bank(scene, takes_s=5)
        runtime = bank.runtime(drain_s=40)
        await bank.start(runtime)
        store.is_full = True
        began = scene.clock.monotonic()
        closing = asyncio.create_task(runtime.aclose())
        await scene.clock.sleep(full_s)
        store.is_full = False
        await closing
        assert scene.clock.monotonic() - began <= full_s + DELAY_S_MAX
        assert await bank.finish(drain_s=1) == end
        assert bank.paid == ["item 0"]

    Scene(store=store).play(story)


def test_a_call_that_outlives_the_drain_is_given_up_and_its_id_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene)
        runtime = bank.runtime(drain_s=25)
        await bank.start(runtime)
        began = scene.clock.monotonic()
        with caplog.at_level(logging.INFO, "windlass"):
            await runtime.aclose()
        assert scene.clock.monotonic() - began == pytest.approx(25)
        assert bank.paid == []
        lines = [one for one in caplog.messages if "drain" in one]
        assert lines == [f"draining: 1 call under way, up to {left} s" for left in (25, 15, 5)]
        assert await bank.finish(drain_s=1) == ("waiting", 1)
        call_id = next(one.data["callId"] for one in await records_of(scene.store) if "callId" in one.data)
        assert any("s1" in one and str(call_id) in one for one in caplog.messages)

    Scene(store=OpenStore()).play(story)


def test_end_drain_ends_a_drain_at_once() -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene)
        runtime = bank.runtime(drain_s=DRAIN_S_MAX)
        await bank.start(runtime)
        draining = asyncio.create_task(runtime.drain())
        await scene.clock.sleep(5)
        assert not draining.done()
        began = scene.clock.monotonic()
        runtime.core.end_drain()
        await draining
        assert scene.clock.monotonic() == began
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


@pytest.mark.promise("J5")
def test_another_process_cannot_take_a_session_during_a_drain_longer_than_the_lease() -> None:
    async def story(scene: Scene) -> None:
        bank, rival = Bank(scene), Bank(scene)
        runtime = bank.runtime(drain_s=DRAIN_S_MAX)
        await bank.start(runtime)
        draining = asyncio.create_task(runtime.drain())
        # The rival sweeps all the time, for longer than a lease.
        other = rival.runtime(drain_s=1)
        async with other:
            result = await other.handle("r1").wait()
        await draining
        assert (str(result.status), bank.paid, rival.paid) == ("completed", ["item 0"], [])
        kinds = [record.type for record in await records_of(scene.store)]
        assert kinds.count("session.claimed") <= 2
        assert "input.requested" not in kinds
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


def test_a_runtime_that_drains_still_starts_and_answers_for_others_to_drive() -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene)
        runtime = bank.runtime(drain_s=DRAIN_S_MAX)
        await bank.start(runtime)
        draining = asyncio.create_task(runtime.drain())
        await scene.clock.sleep(1)
        handle = await runtime.start_run("shop", "more", session_id="s2", run_id="r2")
        await scene.clock.sleep(5)
        assert str(await handle.status()) == "pending", "a process that drains takes no session"
        async with bank.runtime(drain_s=1) as other:
            assert str((await other.handle("r2").wait()).status) == "completed"
            assert str((await handle.wait()).status) == "completed", "its readers see what others write"
        await draining
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


def test_a_run_that_is_cancelled_during_the_drain_does_not_hold_it_up() -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene)
        runtime = bank.runtime(drain_s=DRAIN_S_MAX)
        await bank.start(runtime)
        began = scene.clock.monotonic()
        draining = asyncio.create_task(runtime.drain())
        await scene.clock.sleep(1)
        await runtime.handle("r1").cancel()
        await draining
        assert scene.clock.monotonic() - began < LONG_S
        async with bank.runtime(drain_s=1) as other:
            assert str((await other.handle("r1").wait()).status) == "cancelled"
        assert ends_of(await records_of(scene.store)) == ["run.cancelled"]
        assert "input.requested" not in [record.type for record in await records_of(scene.store)]
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


@pytest.mark.parametrize("drain_s", [0.0, DRAIN_S_MAX])
def test_a_model_call_is_handed_over_at_once(drain_s: float) -> None:
    async def story(scene: Scene) -> None:
        slow = ScriptedModel([replace(say("late"), delay_s=10_000.0)], clock=scene.clock)
        made = scene.runtime([agent_of(slow)])
        runtime = AgentRuntime(replace(made.core.ports, drain_s=drain_s))
        handle = await runtime.start_run("shop", "go", session_id="s1", run_id="r1")
        async for event in handle.events():
            if event.type == "step.started":
                break
        began = scene.clock.monotonic()
        await runtime.drain()
        assert scene.clock.monotonic() == began
        async with scene.runtime([agent_of(ScriptedModel([say("done")]))]) as other:
            assert (await other.handle("r1").wait()).output == "done"
        await runtime.aclose()

    Scene(store=OpenStore()).play(story)


def test_calls_that_wait_for_their_turn_are_left_to_the_next_process() -> None:
    async def story(scene: Scene) -> None:
        bank = Bank(scene, takes_s=10, calls=3, at_once=1)
        runtime = bank.runtime(drain_s=100)
        await bank.start(runtime)
        await runtime.aclose()
        assert len(bank.paid) == 1
        assert await bank.finish(drain_s=1) == ("completed", 0)
        assert sorted(bank.paid) == ["item 0", "item 1", "item 2"]

    Scene(store=OpenStore()).play(story)
