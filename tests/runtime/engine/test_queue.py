"""Runs that wait for the run before them cost nothing and start in their turn."""

import asyncio
from typing import Any, Final

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import Agent, AgentRuntime, tool
from windlass.engine.driving.engine import SWEEP_S
from windlass.ports.journal import Appended, Batch, Standing
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, call, say
from windlass.testing.stores import WrappedStore
from windlass_protocol import RunStatus

WAIT_S: Final = 100.0


class KeptStore(WrappedStore):
    """A store that survives its runtimes, and counts its writes."""

    append_count = 0

    async def append(self, batch: Batch) -> Appended:
        self.append_count += 1
        return await super().append(batch)

    async def aclose(self) -> None:
        pass


def shop() -> Agent:
    """An agent that asks before it mails, in its first run; then it only talks."""

    @tool(mode="external")
    async def mail() -> str:
        """Send a mail; the default policy asks first."""
        return "sent"

    def write(messages: Any) -> Any:
        at = max(index for index, message in enumerate(messages) if message.role == "user")
        is_first = sum(message.role == "user" for message in messages) == 1
        is_asked = any(message.role == "assistant" for message in messages[at:])
        return call("mail") if is_first and not is_asked else say(f"done {messages[at].content}")

    return agent_of(ScriptedModel(write), [mail])


async def waiting(handle: RunHandle) -> None:
    async for event in handle.events():
        if event.type == "run.waiting":
            return


async def queued(runtime: AgentRuntime) -> tuple[RunHandle, RunHandle]:
    """A run that waits for a person, and one behind it."""
    first = await runtime.start_run("shop", "one", session_id="s1", run_id="r1")
    await waiting(first)
    second = await runtime.start_run("shop", "two", session_id="s1", run_id="r2")
    return first, second


async def approve(handle: RunHandle) -> None:
    (request,) = await handle.open_requests()
    await handle.answer(request.request_id, "approve")


def drivers() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("windlass session")]


def kept(scene: Scene) -> KeptStore:
    scene.store = KeptStore(scene.store)
    return scene.store


def test_a_session_with_a_queued_run_behind_one_that_waits_for_a_person_is_parked() -> None:
    async def story(scene: Scene) -> None:
        store = kept(scene)
        async with scene.runtime([shop()]) as runtime:
            first, second = await queued(runtime)
            await scene.clock.sleep(2 * SWEEP_S)
            assert drivers() == []
            row = await store.session("s1")
            assert row is not None
            assert (row.standing, row.owner_id) == (Standing.WAITING, None)
            written = store.append_count
            await scene.clock.sleep(100 * SWEEP_S)
            assert store.append_count == written, "and it is not polled"
            assert await second.status() is RunStatus.PENDING
            await approve(first)
            assert (await first.wait(timeout=WAIT_S)).output == "done one"
            assert (await second.wait(timeout=WAIT_S)).output == "done two"

    Scene().play(story)


def test_a_queued_run_starts_in_its_turn_after_a_restart() -> None:
    async def story(scene: Scene) -> None:
        store = kept(scene)
        async with scene.runtime([shop()]) as runtime:
            await queued(runtime)
        async with scene.runtime([shop()]) as runtime:
            await scene.clock.sleep(2 * SWEEP_S)
            assert drivers() == []
            first, second = runtime.handle("r1"), runtime.handle("r2")
            await approve(first)
            assert (await second.wait(timeout=WAIT_S)).output == "done two"
            assert (await first.wait(timeout=WAIT_S)).output == "done one"
        records = await records_of(store)
        assert ends_of(records, "r1") == ends_of(records, "r2") == ["run.completed"]

    Scene().play(story)


def test_a_queued_run_starts_when_the_one_before_it_is_cancelled() -> None:
    async def story(scene: Scene) -> None:
        kept(scene)
        async with scene.runtime([shop()]) as runtime:
            first, second = await queued(runtime)
            await scene.clock.sleep(2 * SWEEP_S)
            await first.cancel()
            assert (await first.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED
            assert (await second.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED

    Scene().play(story)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "after a restart"])
def test_a_queued_run_that_is_cancelled_ends_at_once_and_the_one_before_it_does_not_notice(
    is_restarted: bool,
) -> None:
    async def story(scene: Scene) -> None:
        store = kept(scene)
        async with scene.runtime([shop()]) as runtime:
            first, second = await queued(runtime)
            await scene.clock.sleep(2 * SWEEP_S)
            if is_restarted:
                body: dict[str, Any] = {"runId": "r2", "by": "ann", "reason": "too late"}
                await store.post("s1", kind="cancel", key="cancel:r2", body=body)
            else:
                await second.cancel(by="ann", reason="too late")
                assert (await second.wait(timeout=1)).status is RunStatus.CANCELLED
        async with scene.runtime([shop()]) as runtime:
            first, second = runtime.handle("r1"), runtime.handle("r2")
            assert (await second.wait(timeout=1)).status is RunStatus.CANCELLED
            assert await second.status() is RunStatus.CANCELLED
            snapshot = await runtime.run_snapshot("r2")
            assert (snapshot.status, snapshot.agent_id) == (RunStatus.CANCELLED, "shop")
            assert snapshot.cancellation_requested
            shown = [event async for event in second.events()]
            assert [event.type for event in shown] == ["run.cancel_requested", "run.cancelled"]
            assert shown[0].data == {"runId": "r2", "by": "ann", "reason": "too late"}
            assert await first.status() is RunStatus.WAITING
            await scene.clock.sleep(2 * SWEEP_S)
            assert drivers() == []
            again = await runtime.start_run("shop", "two", session_id="s1", run_id="r2")
            assert (await again.wait(timeout=1)).status is RunStatus.CANCELLED, (
                "the same start is the same run"
            )
            await second.cancel()
            await approve(first)
            assert (await first.wait(timeout=WAIT_S)).output == "done one"
            third = await runtime.start_run("shop", "three", session_id="s1", run_id="r3")
            assert (await third.wait(timeout=WAIT_S)).output == "done three"
        records = await records_of(store)
        assert ends_of(records, "r2") == ["run.cancelled"]
        assert "run.started" not in [record.type for record in records if record.run_id == "r2"]
        assert ends_of(records, "r1") == ends_of(records, "r3") == ["run.completed"]

    Scene().play(story)


def test_of_several_queued_runs_the_cancelled_one_is_left_out_while_a_model_answers() -> None:
    async def story(scene: Scene) -> list[str]:
        gate = asyncio.Event()
        agent = agent_of(ScriptedModel([Answer("one", gate=gate), say("three")]))
        async with scene.runtime([agent]) as runtime:
            handles = [
                await runtime.start_run(agent, "go", session_id="s1", run_id=run_id)
                for run_id in ("r1", "r2", "r3")
            ]
            await handles[1].cancel()
            assert (await handles[1].wait(timeout=1)).status is RunStatus.CANCELLED
            assert await handles[0].status() is RunStatus.RUNNING
            gate.set()
            return [(await handle.wait(timeout=WAIT_S)).output for handle in handles]

    assert Scene().play(story) == ["one", "", "three"]
