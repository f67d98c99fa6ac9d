"""An inbox item that the journal refuses does not block the session."""

from typing import Any, Final

import pytest
from tests.faults.scene import Scene, agent_of, ends_of, records_of

from windlass import Agent, AgentRuntime, Rejected, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.adapters.journals.rules import rejection
from windlass.limits import INBOX_ITEM_BYTES_MAX, RECORD_BYTES_MAX
from windlass.ports.inbox import NewRun, Posted
from windlass.ports.journal import Appended, Batch
from windlass.testing import ScriptedModel, call, say
from windlass_protocol import InputResponse, JsonObject, RunRequest, RunResult

POISON: Final = "poison"
WAIT_S: Final = 100.0


class PickyStore(MemoryStore):
    """A store that never takes a record that says a certain word."""

    def __init__(self, word: str = POISON) -> None:
        super().__init__()
        self.word = word

    async def append(self, batch: Batch) -> Appended:
        if any(self.word in f"{draft.data} {draft.run_id}" for draft in batch.drafts):
            raise rejection("a record is not taken")
        return await super().append(batch)


def shop() -> Agent:
    """An agent that mails when the message is `mail`."""

    @tool(mode="external")
    async def mail() -> str:
        """Send a mail; the default policy asks first."""
        return "sent"

    def write(messages: Any) -> Any:
        is_asked = messages[-1].role == "user" and "mail" in str(messages[-1].content)
        return call("mail") if is_asked else say("done")

    return agent_of(ScriptedModel(write), [mail])


async def ask(runtime: AgentRuntime, text: str, run_id: str) -> RunResult:
    return await (await runtime.start_run("shop", text, session_id="s1", run_id=run_id)).wait(timeout=WAIT_S)


def test_a_start_that_the_journal_refuses_fails_and_the_session_goes_on() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            bad = await ask(runtime, POISON, "r1")
            assert (bad.status, bad.error and bad.error.message) == ("failed", "a record is not taken")
            assert (await runtime.run_snapshot("r1")).status == "failed"
            assert (await ask(runtime, "hello", "r2")).status == "completed"
            assert ends_of(await records_of(scene.store)) == ["run.failed"]

    Scene(store=PickyStore()).play(story)


def test_a_start_of_which_nothing_is_taken_is_left_out_and_the_session_goes_on() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            await runtime.start_run("shop", "hello", session_id="s1", run_id="r-poison")
            assert (await ask(runtime, "hello", "r2")).status == "completed"

    Scene(store=PickyStore("r-poison")).play(story)


def test_a_start_that_is_refused_behind_a_run_that_waits_does_not_end_that_run() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            first = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(first)
            second = await runtime.start_run("shop", POISON, session_id="s1", run_id="r2")
            await second.cancel(reason="late")
            assert (await second.wait(timeout=WAIT_S)).status == "cancelled"
            await first.answer((await first.open_requests())[0].request_id, "approve")
            assert (await first.wait(timeout=WAIT_S)).status == "completed"

    Scene(store=PickyStore()).play(story)


def test_an_answer_that_the_journal_refuses_does_not_count_and_another_does() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            handle = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(handle)
            request_id = (await handle.open_requests())[0].request_id
            await handle.answer(request_id, "deny", text=POISON)
            async for event in handle.events():
                if event.type == "approval.candidate":
                    break
            await handle.answer(request_id, "approve")
            assert (await handle.wait(timeout=WAIT_S)).status == "completed"
            results = [one for one in await records_of(scene.store) if one.type == "action.result"]
            assert [one.data["status"] for one in results] == ["completed"]

    Scene(store=PickyStore()).play(story)


def test_the_answer_of_a_message_that_the_journal_refuses_is_noted_and_does_not_count() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            handle = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(handle)
            request_id = (await handle.open_requests())[0].request_id
            answer = InputResponse(request_id=request_id, option_id="approve")
            await runtime.steer("shop", POISON, session_id="s1", responses=[answer])
            assert (await handle.wait(timeout=WAIT_S)).status == "completed"
            records = await records_of(scene.store)
            [noted] = [one.data for one in records if one.type == "approval.candidate"]
            assert (noted["requestId"], str(noted["answerId"]).partition(":")[0]) == (request_id, "steer")
            assert len(noted) == 2, "and nothing of the answer"
            results = [one.data["status"] for one in records if one.type == "action.result"]
            assert results == ["rejected"]

    Scene(store=PickyStore()).play(story)


def test_a_cancel_with_a_refused_reason_cancels_without_the_reason() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            handle = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(handle)
            await handle.cancel(reason=POISON)
            assert (await handle.wait(timeout=WAIT_S)).status == "cancelled"

    Scene(store=PickyStore()).play(story)


# items that cannot be folded


class SpoilingStore(MemoryStore):
    """A store that drops the message field of inbox items with a certain text."""

    async def post(
        self, session_id: str, *, kind: str, key: str, body: JsonObject, run: NewRun | None = None
    ) -> Posted:
        if body.get("message") == POISON:
            body = {**body, "messageId": ""}
        return await super().post(session_id, kind=kind, key=key, body=body, run=run)


def test_an_unfoldable_message_fails_the_run_it_would_start_and_no_other() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            await ask(runtime, "hello", "r1")
            await runtime.steer("shop", POISON, session_id="s1", message_id="m1")
            await runtime.steer("shop", "well", session_id="s1", message_id="m2")
            assert (await ask(runtime, "hello", "r2")).status == "completed"
            bad = await runtime.handle("steer/s1/m1").wait(timeout=WAIT_S)
            assert bad.error is not None
            assert "could not be driven: BodyError" in bad.error.message
            assert "well" in str(await records_of(scene.store)), "and the items that came with it are taken"

    Scene(store=SpoilingStore()).play(story)


def test_an_unfoldable_message_does_not_end_the_running_run() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            handle = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(handle)
            await runtime.steer("shop", POISON, session_id="s1", message_id="m1")
            assert (await handle.wait(timeout=WAIT_S)).status == "completed"
            assert "could not be kept" in str(await records_of(scene.store))

    Scene(store=SpoilingStore()).play(story)


async def _waiting(handle: Any) -> None:
    async for event in handle.events():
        if event.type == "run.waiting":
            return


# limits of posted items


@pytest.mark.promise("L1")
def test_the_largest_start_that_is_taken_can_be_recorded() -> None:
    turn_id = "t" * 500

    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            taken, refused, handle = INBOX_ITEM_BYTES_MAX - 4_096, RECORD_BYTES_MAX, None
            while taken + 1 < refused:
                size = (taken + refused) // 2
                try:
                    handle = await runtime.start_run("shop", "x" * size, run_id=f"r{size}", turn_id=turn_id)
                    taken = size
                except Rejected:
                    refused = size
            assert handle is not None
            assert (await handle.wait(timeout=WAIT_S)).status == "completed"

    Scene().play(story)


@pytest.mark.parametrize("message_id", ["", "a\nb", "x" * 513])
def test_a_name_of_a_message_that_the_wire_cannot_hold_is_refused(message_id: str) -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            request = RunRequest(run_id="r1", agent_id="shop", input="hello", session_id="s1")
            with pytest.raises(Rejected, match="message_id must be 1 to 512 characters"):
                await runtime.core.starts.steer(request, message_id=message_id)
            assert await scene.store.sessions() == ()

    Scene().play(story)


@pytest.mark.parametrize("name", ["run_id", "session_id", "turn_id"])
def test_a_name_that_would_be_masked_is_refused_before_anything_is_written(name: str) -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            given: Any = {name: "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"}
            with pytest.raises(Rejected, match=f"{name} would be masked") as caught:
                await runtime.start_run("shop", "hello", **given)
            assert "ghp_" not in str(caught.value)
            assert await scene.store.sessions() == ()

    Scene().play(story)


def test_one_request_is_not_answered_twice_at_once() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            handle = await runtime.start_run("shop", "mail", session_id="s1", run_id="r1")
            await _waiting(handle)
            request_id = (await handle.open_requests())[0].request_id
            answer = InputResponse(request_id=request_id, option_id="approve")
            with pytest.raises(Rejected, match="twice"):
                await runtime.handle("r1").answer_all([answer] * 1_100)
            await runtime.handle("r1").answer_all([answer])
            assert (await handle.wait(timeout=WAIT_S)).status == "completed"

    Scene().play(story)


def test_a_change_of_the_state_that_the_journal_refuses_is_left_out() -> None:
    async def story(scene: Scene) -> None:
        async with scene.runtime([shop()]) as runtime:
            await ask(runtime, "hello", "r1")
            await runtime.sessions.change_state("s1", {"word": POISON})
            await runtime.sessions.change_state("s1", {"other": 1})
            assert (await ask(runtime, "hello", "r2")).status == "completed"
            assert await runtime.sessions.state("s1") == {"other": 1}

    Scene(store=PickyStore()).play(story)
