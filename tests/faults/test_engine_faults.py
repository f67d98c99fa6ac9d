"""The engine under faults of the store, of tools and of other processes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from tests.faults.rig import runtime_on
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import Ambiguous, Rejected, RunStatus, ToolContext, Unavailable, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.rules import store_stopped
from windlass.engine.writing.writer import ATTEMPTS_MAX, DELAY_S_MAX
from windlass.limits import OWNER_LEASE_MS, TOOL_OUTPUT_CHARS_MAX
from windlass.ports.journal import Appended, Batch
from windlass.sqlite.store import SqliteStore
from windlass.testing import FakeClock, ScriptedModel, by_history, call, say
from windlass.testing.stores import FullStore, WrappedStore
from windlass_harness.loop.events import Draft
from windlass_harness.record import Record
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T")
Fault = Callable[[str], str | None]
WAIT_S: Final = 1_000.0
START_MS: Final = int(FakeClock().now().timestamp() * 1000)


class FaultingStore(WrappedStore):
    """A store that fails when a test says so; `lose` and `hide` leave doubt."""

    def __init__(self, inner: FullStore, fault: Fault) -> None:
        super().__init__(inner)
        self.fault = fault

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        fault = self.fault(name)
        facts: dict[str, Any] = {"kind": ErrorKind.JOURNAL_FAILURE, "retry": RetryClass.RETRYABLE}
        if fault == "refuse":
            raise Unavailable("refused", **facts)
        if fault == "reject":
            raise Rejected("rejected", **facts)
        if fault == "lose":
            raise Ambiguous("lost", **facts)
        made = await call()
        if fault == "hide":
            raise Ambiguous("hidden", **facts)
        return made


class Plan:
    """Faults by name of a call and how often it was made."""

    def __init__(self, **faults: dict[int, str]) -> None:
        self._faults = faults
        self.calls: dict[str, int] = {}

    def __call__(self, name: str) -> str | None:
        self.calls[name] = self.calls.get(name, 0) + 1
        return self._faults.get(name, {}).get(self.calls[name])


def every(fault: str) -> dict[int, str]:
    return dict.fromkeys(range(1, 10_000), fault)


def work_once(plan: Fault, *, output: str = "worked") -> tuple[str, list[str], list[Record]]:
    """Run one tool; return the status of the run, the effects and the records."""
    scene = Scene()
    inner = MemoryStore()
    scene.store = FaultingStore(inner, plan)
    effects: list[str] = []

    @tool(mode="safe_write", effect="once", description="Work.")
    async def work(ctx: ToolContext) -> str:
        effects.append(ctx.idempotency_key)
        await scene.clock.sleep(5)
        return output

    async def story(scene: Scene) -> tuple[str, list[str], list[Record]]:
        agent = agent_of(ScriptedModel(by_history([call("work"), say("done")])), [work])
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            result = await handle.wait(timeout=WAIT_S)
            return result.status, effects, await records_of(inner)

    return scene.play(story)


APPENDS: Final = range(1, 5)
"""The appends of a run with one tool: begun, asked for, done, ended."""


@pytest.mark.parametrize("fault", ["refuse", "lose", "hide"])
@pytest.mark.parametrize("at", APPENDS)
def test_an_append_that_fails_once_is_made_once(fault: str, at: int) -> None:
    status, effects, _ = work_once(Plan(append={at: fault}))
    assert (status, len(effects)) == ("completed", 1)


@pytest.mark.parametrize("at", APPENDS)
def test_a_failed_read_back_of_an_ambiguous_append_is_repeated(at: int) -> None:
    plan = Plan(append={at: "hide"})

    def fault(name: str) -> str | None:
        found = plan(name)
        return "refuse" if name == "read" and plan.calls.get("append") == at and first() else found

    reads = iter(range(10))

    def first() -> bool:
        return next(reads) == 0

    status, effects, _ = work_once(fault)
    assert (status, len(effects)) == ("completed", 1)


class StolenStore(WrappedStore):
    """A store in which a session is taken away when an append is in doubt."""

    append_count = 0

    async def append(self, batch: Batch) -> Appended:
        self.append_count += 1
        if self.append_count != 3:
            return await super().append(batch)
        late_ms = START_MS + 10 * OWNER_LEASE_MS
        await self.inner.enlist("thief", now_ms=late_ms)
        theirs = await self.inner.claim("s1", "thief", now_ms=late_ms)
        note = Draft("approval.candidate", "2026-01-01T00:00:00.000Z", {"requestId": "x"})
        await self.inner.append(Batch(theirs, batch.expected_seq, (note,), is_last=True))
        raise Ambiguous("in doubt", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.REPAIR_NEEDED)


def test_a_record_of_another_writer_is_not_taken_for_our_lost_append() -> None:
    scene = Scene(store=StolenStore(MemoryStore()))
    attempts: list[int] = []

    @tool(mode="read", effect="read", description="Look.")
    async def look(ctx: ToolContext) -> str:
        attempts.append(ctx.attempt)
        return "seen"

    async def story(scene: Scene) -> None:
        agent = agent_of(ScriptedModel(by_history([call("look"), say("done")])), [look])
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED
            records = await records_of(scene.store)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert attempts == [1, 2]

    scene.play(story)


def test_a_terminal_record_with_an_ambiguous_append_is_shown() -> None:
    # The last append is written, but its outcome stays unknown: the driver's later appends and reads fail.
    plan = Plan(append={4: "hide"})

    def fault(name: str) -> str | None:
        found = plan(name)
        is_in_doubt = plan.calls.get("append", 0) == 4 and plan.calls.get("claim", 0) == 1
        return "refuse" if name == "read" and is_in_doubt else found

    status, effects, records = work_once(fault)
    assert (status, len(effects)) == ("completed", 1)
    assert plan.calls["claim"] == 2
    assert ends_of(records) == ["run.completed"]


def test_a_session_that_cannot_be_driven_for_a_while_is_driven_later() -> None:
    status, effects, _ = work_once(Plan(claim=dict.fromkeys(range(1, 100), "refuse")))
    assert (status, len(effects)) == ("completed", 1)


@pytest.mark.parametrize("fault", ["refuse", "lose"])
def test_a_tool_result_is_kept_until_a_full_disk_has_space_again(fault: str) -> None:
    minutes_5 = range(3, 3 + 5 * 60)
    status, effects, records = work_once(Plan(append=dict.fromkeys(minutes_5, fault)))
    assert (status, len(effects)) == ("completed", 1)
    assert "recovery.started" not in [record.type for record in records]


def test_a_result_that_cannot_be_kept_holds_up_a_close_for_the_time_of_a_drain_at_most() -> None:
    plan = Plan(append=dict.fromkeys(range(3, 10_000), "refuse"))
    scene = Scene()
    scene.store = FaultingStore(MemoryStore(), plan)
    worked = asyncio.Event()

    @tool(mode="safe_write", effect="once", description="Work.")
    async def work() -> str:
        worked.set()
        return "worked"

    async def story(scene: Scene) -> None:
        agent = agent_of(ScriptedModel(by_history([call("work"), say("done")])), [work])
        async with scene.runtime([agent]) as runtime:
            await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await worked.wait()
            await scene.clock.sleep(60)
            closed = scene.clock.monotonic()
        assert scene.clock.monotonic() - closed <= runtime.core.ports.drain_s + 2 * DELAY_S_MAX

    scene.play(story)
    assert plan.calls["append"] > 30, "it was tried until then"


def test_a_store_that_has_stopped_for_good_is_not_waited_for() -> None:
    class StoppedStore(WrappedStore):
        async def append(self, batch: Batch) -> Appended:
            if any(draft.type == "action.result" for draft in batch.drafts):
                raise store_stopped("the disk is gone")
            return await super().append(batch)

    scene = Scene()
    scene.store = StoppedStore(MemoryStore())

    @tool(mode="safe_write", effect="once", description="Work.")
    async def work() -> str:
        return "worked"

    async def story(scene: Scene) -> None:
        agent = agent_of(ScriptedModel(by_history([call("work"), say("done")])), [work])
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            with pytest.raises(Unavailable, match="the disk is gone"):
                await handle.wait(timeout=WAIT_S)
            assert scene.clock.monotonic() < 10

    scene.play(story)


def test_an_inbox_that_cannot_be_read_at_once_is_read_later() -> None:
    # The first time it is read, nothing is under way yet.
    plan = Plan(pending=dict.fromkeys(range(2, ATTEMPTS_MAX + 1), "refuse"))
    status, effects, _ = work_once(plan)
    assert (status, len(effects)) == ("completed", 1)
    assert plan.calls["claim"] == 1


def test_an_owner_that_was_taken_for_dead_enlists_again() -> None:
    plan = Plan(claim={1: "reject"})
    status, effects, _ = work_once(plan)
    assert (status, len(effects)) == ("completed", 1)
    assert plan.calls["enlist"] >= 2


def test_a_run_with_a_rejected_record_fails() -> None:
    status, effects, _ = work_once(Plan(append={3: "reject"}))
    assert (status, len(effects)) == ("failed", 1)


def test_driving_a_session_that_rejects_every_record_is_given_up() -> None:
    plan = Plan(append=every("reject"))
    scene = Scene()
    scene.store = FaultingStore(MemoryStore(), plan)

    async def story(scene: Scene) -> None:
        agent = agent_of(ScriptedModel([say("done")]))
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            with pytest.raises(TimeoutError):
                await handle.wait(timeout=WAIT_S)

    scene.play(story)
    assert plan.calls["append"] < 50


@pytest.mark.parametrize(("fault", "is_kept"), [("refuse", True), ("reject", False)])
def test_a_large_result_survives_a_content_store_that_fails(fault: str, is_kept: bool) -> None:
    puts = {2: fault} if is_kept else dict.fromkeys(range(2, 100), fault)
    output = "x" * (TOOL_OUTPUT_CHARS_MAX + 10)
    status, effects, records = work_once(Plan(put=puts), output=output)
    assert (status, len(effects)) == ("completed", 1)
    [result] = [record for record in records if record.type == "action.result"]
    assert ("contentRef" in result.data) is is_kept


def test_a_runtime_closes_also_when_the_store_is_out_of_reach() -> None:
    status, _, _ = work_once(Plan(retire=every("refuse"), save=every("refuse")))
    assert status == "completed"


def test_a_tool_that_breaks_off_by_itself_has_failed_and_is_not_repeated() -> None:
    effects: list[int] = []

    @tool(mode="safe_write", effect="once", description="Waits for a task that is cancelled.")
    async def breaks(ctx: ToolContext) -> str:
        effects.append(ctx.attempt)
        inner = asyncio.ensure_future(asyncio.Event().wait())
        inner.cancel()
        await inner
        return "never"

    async def story(scene: Scene) -> None:
        agent = agent_of(ScriptedModel(by_history([call("breaks"), say("done")])), [breaks])
        async with scene.runtime([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            assert (await handle.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED
        assert effects == [1]

    Scene().play(story)


def test_a_cancel_from_another_process_is_noticed(tmp_path: Path) -> None:
    """Two runtimes on one file: one drives, the other watches and cancels."""
    begun = asyncio.Event()

    @tool(mode="safe_write", effect="once", description="Waits.")
    async def waits() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async def main() -> None:
        agent = agent_of(ScriptedModel(by_history([call("waits")])), [waits])
        stores = [await SqliteStore.open(tmp_path / "app.db", durability="process") for _ in range(2)]
        async with (
            asyncio.timeout(300),
            runtime_on(stores[0], [agent]) as first,
            runtime_on(stores[1], [agent]) as second,
        ):
            await first.start_run(agent, "go", session_id="s1", run_id="r1")
            await begun.wait()
            handle = second.handle("r1")
            await handle.cancel()
            assert (await handle.wait(timeout=300)).status is RunStatus.CANCELLED

    asyncio.run(main())
