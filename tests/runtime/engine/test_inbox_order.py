"""Items of one inbox are taken in order, and none is lost."""

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.rules import rejection
from windlass.engine.driving.engine import SWEEP_S
from windlass.ports.journal import Appended, Batch
from windlass.ports.model import LLMMessage
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, say
from windlass.testing.stores import WrappedStore
from windlass_protocol import JsonObject, RunStatus

WAIT_S: Final = 100.0
WORDS: Final = "Do this instead."


class SharedStore(WrappedStore):
    """A store that two runtimes use: who did not write looks once a second."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.changes = 0

    async def change_token(self) -> int:
        self.changes += 1
        return self.changes

    async def aclose(self) -> None:
        pass


def echoing(messages: Sequence[LLMMessage]) -> Answer:
    """Never ends the first answer, and echoes later messages."""
    words = str(messages[-1].content)
    return Answer("…", gate=asyncio.Event()) if words == "wait" else say(f"heard {words}")


async def running(scene: Scene, handle: RunHandle) -> None:
    while await handle.status() is not RunStatus.RUNNING:
        await scene.clock.sleep(0.01)


async def ended(scene: Scene, runtime: AgentRuntime, run_id: str) -> str:
    """Wait for a run that has not begun yet."""
    for _ in range(100):
        await scene.clock.sleep(0.1)
        if await scene.store.run(run_id) is not None:
            break
    return (await runtime.handle(run_id).wait(timeout=WAIT_S)).output


def test_a_message_posted_with_a_cancel_of_the_running_run_starts_the_next_run() -> None:
    async def story(scene: Scene) -> None:
        async with (
            scene.runtime([agent_of(ScriptedModel(echoing))]) as owner,
            Scene(scene.clock, scene.store).runtime([agent_of(ScriptedModel(echoing))]) as other,
        ):
            first = await owner.start_run("shop", "wait", session_id="s1", run_id="r1")
            await running(scene, first)
            await other.cancel_run("r1")
            await other.steer("shop", WORDS, session_id="s1", message_id="m1")
            assert await ended(scene, owner, "steer/s1/m1") == f"heard {WORDS}"
            assert ends_of(await records_of(scene.store)) == ["run.cancelled"]

    Scene(store=SharedStore()).play(story)


@pytest.mark.parametrize("is_ended", [False, True], ids=["a start", "a run that has ended"])
def test_a_message_after_a_cancel_of_another_run_is_taken(is_ended: bool) -> None:
    async def story(scene: Scene) -> None:
        async with (
            scene.runtime([agent_of(ScriptedModel(echoing))]) as owner,
            Scene(scene.clock, scene.store).runtime([agent_of(ScriptedModel(echoing))]) as other,
        ):
            first = await owner.start_run("shop", "wait", session_id="s1", run_id="r1")
            await running(scene, first)
            await other.start_run("shop", "two", session_id="s1", run_id="r2")
            cancelled = "r0" if is_ended else "r2"
            await scene.store.post("s1", kind="cancel", key="c", body={"runId": cancelled})
            await other.steer("shop", WORDS, session_id="s1", message_id="m1")
            await scene.clock.sleep(2 * SWEEP_S)
            spoken = [one for one in await records_of(scene.store) if WORDS in str(one.data)]
            assert [one.run_id for one in spoken] == ["r1"], "the running run takes them"
            await first.cancel()
            assert (await first.wait(timeout=WAIT_S)).status is RunStatus.CANCELLED

    Scene(store=SharedStore()).play(story)


def test_a_message_with_a_taken_run_id_starts_a_run_with_another_id() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([agent_of(ScriptedModel(echoing))]) as runtime:
            taken = await runtime.start_run("shop", "hello", session_id="s2", run_id="steer/s1/m1")
            await taken.wait(timeout=WAIT_S)
            first = await runtime.start_run("shop", "hello", session_id="s1", run_id="r1")
            await first.wait(timeout=WAIT_S)
            await runtime.steer("shop", WORDS, session_id="s1", message_id="m1")
            last = await runtime.start_run("shop", "last", session_id="s1", run_id="r2")
            assert (await last.wait(timeout=WAIT_S)).output == "heard last"
            begun = [one.run_id for one in await records_of(scene.store) if one.type == "run.started"]
            assert begun == ["r1", "steer/s1/m1/3", "r2"]
            assert (await runtime.handle("steer/s1/m1/3").wait(timeout=WAIT_S)).output == f"heard {WORDS}"

    Scene().play(story)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("cancel", {"reason": 1}),
        ("answer", {"responses": "yes"}),
        ("answer", {"responses": [{"requestId": 1}]}),
        ("dispatched", {}),
        ("feedback", {"runId": "r1", "score": "high"}),
        ("child_asks", {"runId": "r1"}),
        ("child_ended", {}),
        ("steer", {"agentId": "shop", "message": "x"}),
        ("steer", {"runId": "r0", "agentId": "shop", "message": ["x"]}),
        ("start", {"agentId": "shop", "message": "x"}),
        ("start", {"runId": "r0", "agentId": "shop", "message": ["x"]}),
    ],
)
def test_an_item_with_a_malformed_body_does_not_stop_its_session(kind: str, body: JsonObject) -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([agent_of(ScriptedModel(echoing))]) as runtime:
            first = await runtime.start_run("shop", "one", session_id="s1", run_id="r1")
            await first.wait(timeout=WAIT_S)
            await scene.store.post("s1", kind=kind, key="malformed", body=body)
            last = await runtime.start_run("shop", "last", session_id="s1", run_id="r2")
            assert (await last.wait(timeout=WAIT_S)).output == "heard last"
            assert await scene.store.pending("s1") == ()

    Scene().play(story)


class OnceStore(MemoryStore):
    """A store that refuses the first batch in which a certain run starts."""

    is_refused = False

    async def append(self, batch: Batch) -> Appended:
        starts = any(draft.type == "run.started" and draft.run_id == "last" for draft in batch.drafts)
        if starts and not self.is_refused:
            self.is_refused = True
            raise rejection("a record is not taken")
        return await super().append(batch)


def test_a_start_after_a_compaction_waits_without_spinning_also_under_quarantine() -> None:
    async def story(scene: Scene) -> None:
        gate = asyncio.Event()

        def write(messages: Sequence[LLMMessage]) -> Answer:
            is_summary = str(messages[0].content).startswith("You write a checkpoint")
            return Answer("short", gate=gate) if is_summary else say("ok " * 3_000)

        async with scene.runtime([agent_of(ScriptedModel(write))]) as runtime:
            for number in range(14):
                text = f"{number} " + "words " * 3_000
                handle = await runtime.start_run("shop", text, session_id="s1", run_id=f"r{number}")
                await handle.wait(timeout=WAIT_S)
            await runtime.sessions.compact("s1")
            last = await runtime.start_run("shop", "next", session_id="s1", run_id="last")
            await scene.clock.sleep(2 * SWEEP_S)  # fake time passes only when no task spins
            gate.set()
            assert (await last.wait(timeout=WAIT_S)).status is RunStatus.COMPLETED
            assert isinstance(scene.store, OnceStore)
            assert scene.store.is_refused

    Scene(store=OnceStore()).play(story)
