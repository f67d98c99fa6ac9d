"""Edge cases of a step."""

import asyncio
from hashlib import sha256

import pytest
from tests.steps.steps_rig import Stage, inside, new_session, play, staged

from windlass.errors import Rejected
from windlass.ports.model import LLMUsage
from windlass.steps import ToolLoopHarnessConfig, create_tool_loop_harness
from windlass.testing import FakeClock, ScriptedModel, call, fail, say
from windlass.tools import tool
from windlass_protocol import (
    ContentRef,
    FilePart,
    InputResponse,
    JsonObject,
    ModelReference,
    RunMode,
    StepInput,
    TextPart,
    UserMessage,
)

SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def resolve(reference: ModelReference) -> ScriptedModel:
    return ScriptedModel([say("Hi.")])


CONFIG = ToolLoopHarnessConfig(mode=RunMode.CONVERSATION, tools={}, resolve_model=resolve)


def test_the_clock_of_the_machine_is_used_unless_another_is_given() -> None:
    step = create_tool_loop_harness(CONFIG)
    result = asyncio.run(step(new_session(), StepInput(message="Hi.")))
    assert result.session.history[-1].content == "Hi."


def test_a_tool_that_cancels_itself_is_a_failed_call() -> None:
    @tool(mode="read")
    async def quit() -> str:  # noqa: A001 - a tool may be called anything
        """Break off."""
        raise asyncio.CancelledError

    stage = staged(call("quit"), say("Sorry."), tools={"quit": quit})
    play(stage.send("Go."), stage)
    assert inside(stage.data("action.result")[0], "error", "code") == "cancelled"


def test_a_tool_that_ignores_its_timeout_is_abandoned() -> None:
    ends = asyncio.Event()

    @tool(mode="read", timeout=0.05)
    async def stubborn() -> str:
        """Ignore every cancellation."""
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    async def story() -> None:
        await stage.send("Go.")
        ends.set()

    stage = staged(call("stubborn"), say("It hangs."), tools={"stubborn": stubborn})
    play(story(), stage)
    (result,) = stage.data("action.result")
    assert inside(result, "error", "code") == "timeout"
    assert stage.types[-1] == "session.waiting"


def test_a_model_that_breaks_off_by_itself_is_asked_again() -> None:
    stage = staged(fail(asyncio.CancelledError()), say("Here."))
    play(stage.send("Go."), stage)
    assert stage.session.history[-1].content == "Here."


def test_a_cancelled_step_ends() -> None:
    stage = Stage()

    @tool(mode="read")
    async def wait() -> str:
        """Wait."""
        await stage.clock.sleep(1_000)
        return ""

    stage.harness(ScriptedModel([call("wait")]), tools={"wait": wait})

    async def story() -> None:
        task = asyncio.create_task(stage.send("Go."))
        await stage.clock.until_sleeping()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(story(), stage)


class Shelf:
    """Keeps content in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(
        self, content: bytes, *, media_type: str = "application/json", session_id: str | None = None
    ) -> ContentRef:
        """Keep bytes."""
        name = f"sha256:{sha256(content).hexdigest()}"
        self.kept[name] = content
        return ContentRef(content_id=name, hash=name, size_bytes=len(content), media_type=media_type)

    async def get(self, ref: ContentRef) -> bytes:
        """Return bytes."""
        return self.kept[ref.hash]


def test_a_large_result_is_kept_where_the_host_says() -> None:
    @tool(mode="read")
    async def long() -> str:
        """Return a long text."""
        return "x" * 500_000

    shelf = Shelf()
    stage = staged(call("long"), say("Long."), tools={"long": long}, content=shelf)
    play(stage.send("Go."), stage)
    assert len(shelf.kept) == 1
    assert inside(stage.data("action.result")[0], "contentRef", "hash") in shelf.kept


def test_a_message_in_place_of_an_answer_ignores_the_request() -> None:
    stage = staged(call("guarded", {"x": 1}), say("Ok."))
    play(stage.send("Go."), stage)
    picture = FilePart(data="data:text/plain,d", media_type="text/plain")
    play(stage.send(StepInput(message=(TextPart(text="Look:"), picture), context=("Fri",))), stage)
    assert stage.requests == ()
    assert stage.data("action.result")[0]["status"] == "rejected"
    assert [message.role for message in stage.session.history[1:]] == [
        "assistant",
        "tool",
        "user",
        "user",
        "assistant",
    ]
    assert [part.type for part in inside_parts(stage)] == ["text", "file"]


def test_a_file_part_without_a_readable_address_is_refused() -> None:
    stage = staged(say("Hi."))
    unreadable = FilePart(data="d", media_type="text/plain")
    with pytest.raises(Rejected, match="data URL"):
        play(stage.send(StepInput(message=(unreadable,))), stage)
    assert stage.events == []


def inside_parts(stage: Stage) -> list[TextPart | FilePart]:
    users = [message for message in stage.session.history if isinstance(message, UserMessage)]
    assert not isinstance(users[-1].content, str)
    return [part for part in users[-1].content if isinstance(part, TextPart | FilePart)]


def test_a_compaction_clears_the_token_count_of_the_provider() -> None:
    history = [UserMessage(content="word " * 2_000) for _ in range(4)]
    stage = staged(
        say("Counted."), fail(ValueError("x")), session=new_session(threshold=4_000, history=history)
    )
    known = {"last_known_input_tokens": 9_000, "last_known_prompt_message_count": 4}
    compaction = stage.session.compaction.model_copy(update=known)
    stage.session = stage.session.model_copy(update={"compaction": compaction})
    play(stage.send("Next?"), stage)
    assert "compaction.completed" in stage.types
    assert stage.session.compaction.last_known_input_tokens is None


def test_each_turn_counts_its_own_usage_and_repairs() -> None:
    usage = LLMUsage(input_tokens=5, output_tokens=1)
    wrong, right = say('{"n": "x"}'), say('{"n": 1}')
    stage = staged(
        wrong, wrong, wrong, right, say("Hi.", usage=usage), say("Ho.", usage=usage), output_repairs_max=1
    )
    play(stage.send(StepInput(message="Go.", output_schema=SCHEMA)), stage)
    play(stage.send("Again."), stage)
    play(stage.send("Hi."), stage)
    play(stage.send("Ho."), stage)
    assert [data["attempt"] for data in stage.data("output.rejected")] == [1, 1]
    assert [data["attempts"] for data in stage.data("output.failed")] == [2]
    assert [data.get("usage") for data in stage.data("turn.completed")[1:]] == [
        {"inputTokens": 5, "outputTokens": 1}
    ] * 2


def test_a_temperature_of_the_model_is_used() -> None:
    model = ScriptedModel([say("Hi.")])
    stage = Stage(clock=FakeClock()).harness(model)
    reference = ModelReference(id="mock/model", options={"temperature": 0.2})
    agent = stage.session.agent.model_copy(update={"model_reference": reference})
    stage.session = stage.session.model_copy(update={"agent": agent})
    play(stage.send("Hi."), stage)
    assert model.requests[0].temperature == 0.2


def test_an_answer_in_other_words_neither_consents_nor_denies() -> None:
    stage = staged(call("guarded", {"x": 1}), say("Ok."))
    play(stage.send("Go."), stage)
    words = InputResponse(request_id=stage.requests[0].request_id, text="sure, why not")
    play(stage.send(StepInput(input_responses=(words,))), stage)
    assert len(stage.requests) == 1
    assert stage.data("input.resolved") == []
    assert len(stage.data("approval.candidate")) == 1
