"""Model calls in steps: prompts, retries and failures."""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest
from tests.steps.steps_rig import Stage, add, inside, new_session, play, staged

from windlass.errors import Corrupt, Rejected, Unavailable
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage
from windlass.testing import Answer, ScriptedModel, call, fail, say
from windlass.tools import tool
from windlass.tools.context import STEPS_KEY
from windlass_harness.redact import Redactor
from windlass_harness.retry import RetryPolicy
from windlass_protocol import (
    ErrorInfo,
    ErrorKind,
    Event,
    JsonObject,
    ModelMessage,
    ModelReference,
    ReasoningPart,
    RetryClass,
    RunMode,
    RuntimeIdentity,
    StepInput,
    SystemMessage,
    TextPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)

BUSY = Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
WRONG_KEY = Rejected(
    "no such key",
    kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
    retry=RetryClass.HOST_CONFIGURATION_NEEDED,
)
NO_MODEL = Rejected("no such model", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
FAILED = ["step.failed", "turn.failed", "run.failed", "session.waiting"]


def attempts(stage: Stage, event_type: str) -> list[int | None]:
    return [event.meta.attempt for event in stage.events if event.type == event_type]


def test_a_busy_model_is_asked_again_after_waits_that_grow() -> None:
    stage = staged(fail(BUSY), fail(BUSY, after="half"), say("Here."))
    play(stage.send("Hi."), stage)
    retries = stage.data("step.retrying")
    assert [data["attempt"] for data in retries] == [1, 2]
    first, second = (int(str(data["delayMs"])) for data in retries)
    assert 160 <= first <= 240
    assert 320 <= second <= 480
    assert stage.clock.monotonic() == pytest.approx((first + second) / 1000)
    assert attempts(stage, "message.completed") == [3]
    assert attempts(stage, "step.started") == [1, 2, 3]
    assert stage.steps == 1


def test_events_of_another_attempt_have_other_names() -> None:
    first, second = staged(say("Hi.")), staged(say("Hi."), attempt=2)
    for stage in (first, second):
        play(stage.send("Hi."), stage)
    ids = [[event.meta.id for event in stage.events] for stage in (first, second)]
    assert not set(ids[0]) & set(ids[1])
    assert len(set(ids[0])) == len(ids[0])
    assert attempts(second, "turn.started") == [2]


def test_a_model_that_stays_busy_leaves_a_conversation_that_can_go_on() -> None:
    stage = staged(*[fail(BUSY)] * 2, say("Better now."), retry=RetryPolicy(max_attempts=2))
    assert play(stage.send("Hi."), stage).next is None
    assert stage.types[-4:] == FAILED
    assert stage.data("step.failed")[0]["code"] == "provider_failure"
    play(stage.send("Again?"), stage)
    assert [data["turnId"] for data in stage.data("turn.started")] == ["turn_0", "turn_1"]
    assert stage.types[-1] == "session.waiting"


def test_a_model_that_stays_busy_ends_a_task() -> None:
    stage = staged(fail(BUSY), retry=RetryPolicy(max_attempts=1), mode=RunMode.TASK)
    play(stage.send("Hi."), stage)
    assert stage.types[-4:] == [*FAILED[:3], "session.failed"]
    assert stage.done.is_error is True
    assert stage.done.output == "busy"


@pytest.mark.parametrize("error", [WRONG_KEY, NO_MODEL, ValueError("a slip in a provider")])
def test_no_failure_of_a_model_ends_a_conversation(error: Exception) -> None:
    stage = staged(fail(error), say("Mended."))
    assert play(stage.send("Hi."), stage).next is None
    play(stage.send("Now?"), stage)
    assert stage.types[-3:] == ["turn.completed", "run.completed", "session.waiting"]


class ExitingModel:
    """A model that raises SystemExit."""

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        yield LLMStreamChunk(content_delta="Good")
        raise SystemExit(3)


def test_a_model_that_would_end_the_process_fails_its_turn_alone() -> None:
    stage = staged(resolve_model=lambda _: ExitingModel())
    assert play(stage.send("Hi."), stage).next is None
    assert stage.types[-4:] == FAILED


def test_an_unavailable_model_is_a_failed_step() -> None:
    def unavailable(reference: ModelReference) -> ScriptedModel:
        raise WRONG_KEY

    stage = staged(resolve_model=unavailable)
    assert play(stage.send("Hi."), stage).next is None
    assert stage.types[-4:] == FAILED


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(), "the model's answer has neither text nor calls"),
        (Answer(" \n"), "the model's answer has neither text nor calls"),
        (Answer(reasoning="Hm."), "the model's answer has neither text nor calls"),
        (Answer(finish_reason="unheard_of"), "the model's answer has neither text nor calls"),
        (Answer("I look.", finish_reason="tool_calls"), "the model announced calls and made none"),
    ],
)
def test_an_empty_answer_is_a_fault_of_the_provider_that_is_retried(answer: Answer, message: str) -> None:
    stage = staged(answer, say("Here."))
    play(stage.send("Hi."), stage)
    assert stage.session.history[-1].content == "Here."
    assert [told["message"] for told in stage.data("step.retrying")] == [message]
    stage = staged(*[answer] * 8)
    play(stage.send("Hi."), stage)
    assert stage.types[-4:] == FAILED
    (failed,) = stage.data("run.failed")
    error = ErrorInfo.model_validate(failed["error"])
    assert (error.kind, error.details) == (ErrorKind.PROVIDER_FAILURE, {"fault": "empty"})


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_empty_answer_that_was_cut_off_is_not_asked_for_again(reason: str) -> None:
    stage = staged(Answer(finish_reason=reason))
    play(stage.send("Hi."), stage)
    assert stage.data("step.retrying") == []
    assert stage.data("run.failed")


def test_an_empty_answer_after_a_call_is_retried_and_the_call_is_not_repeated() -> None:
    stage = staged(call("now"), Answer(), say("It is noon."))
    play(stage.send("Hi."), stage)
    assert stage.session.history[-1].content == "It is noon."
    assert len(stage.data("action.result")) == 1


def test_a_long_wait_before_a_retry_is_spent_in_the_step() -> None:
    busy = Unavailable(
        "busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE, retry_after_ms=120_000
    )
    stage = staged(fail(busy), say("Here."))
    play(stage.send("Hi."), stage)
    assert stage.session.history[-1].content == "Here."
    assert stage.steps == 1
    assert stage.clock.monotonic() >= 120


def test_rules_in_the_history_stay_where_they_are() -> None:
    history: Sequence[ModelMessage] = (UserMessage(content="old"), SystemMessage(content="Be brief."))
    model = ScriptedModel([say("Hi.")])
    stage = Stage(session=new_session(history=history)).harness(model)
    play(stage.send("Hi."), stage)
    assert [(one.role, one.content) for one in model.requests[0].messages] == [
        ("system", "You help."),
        ("user", "old"),
        ("system", "Be brief."),
        ("user", "Hi."),
    ]


def test_an_agent_without_instructions_sends_no_system_message() -> None:
    model = ScriptedModel([say("Hi.")])
    stage = Stage(session=new_session(system="")).harness(model)
    play(stage.send("Hi."), stage)
    assert [one.role for one in model.requests[0].messages] == ["user"]


def test_context_comes_before_the_message() -> None:
    model = ScriptedModel([say("Hi.")])
    stage = Stage().harness(model)
    play(stage.send(StepInput(message="Hi.", context=("It is Friday.",))), stage)
    assert [one.content for one in model.requests[0].messages[1:]] == ["It is Friday.", "Hi."]


def test_a_message_of_parts_is_recorded_as_text_and_as_parts() -> None:
    stage = staged(say("Hi."))
    play(stage.send(StepInput(message=(TextPart(text="a"), TextPart(text="b")))), stage)
    assert stage.data("message.received")[0]["message"] == "a\nb"
    assert stage.data("message.received")[0]["parts"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_without_anything_to_do_a_step_does_nothing() -> None:
    stage = staged()
    assert play(stage.send(), stage).next is None
    assert play(stage.send(StepInput(context=("It is Friday.",))), stage).next is None
    assert stage.events == []
    assert len(stage.session.history) == 1


def test_provider_data_is_kept_with_the_reasoning() -> None:
    stage = staged(Answer("Two.", provider_data={"me": 1}))
    play(stage.send("1 + 1?"), stage)
    assert stage.data("reasoning.completed")[0]["providerMetadata"] == {"me": 1}
    part = stage.session.history[-1].content[0]
    assert isinstance(part, ReasoningPart)
    assert part.provider_options == {"me": 1}


def test_reasoning_is_shown_and_kept() -> None:
    stage = staged(say("Two.", reasoning="One and one."))
    play(stage.send("1+1?"), stage)
    assert stage.data("reasoning.completed")[0]["reasoning"] == "One and one."
    assert stage.data("reasoning.appended")[0]["reasoningDelta"]
    assert len(stage.session.history[-1].content) == 2


def test_deltas_never_repeat_text() -> None:
    model = ScriptedModel([say("one two three four")], chunk_chars=3)
    stage = Stage().harness(model)
    play(stage.send("Count."), stage)
    deltas = stage.data("message.appended")
    assert "".join(str(data["messageDelta"]) for data in deltas) == "one two three four"
    assert all("messageSoFar" not in data for data in deltas)


def test_the_identity_of_the_runtime_is_recorded_once() -> None:
    stage = staged(say("Hi."), say("Ho."), runtime_identity=RuntimeIdentity(agent_id="clerk"))
    play(stage.send("Hi."), stage)
    play(stage.send("Ho."), stage)
    (started,) = stage.data("session.started")
    assert started["runtime"] == {"agentId": "clerk"}
    assert inside(started, "agent", "system") == stage.session.agent.system
    assert {event.agent_id for event in stage.events} == {"clerk"}


def test_a_failing_event_handler_does_not_fail_the_step(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(event: Event, messages: Sequence[ModelMessage] | None) -> None:
        raise RuntimeError("the password is 1234")

    stage = staged(call("add", {"a": 1, "b": 1}), say("Two."), handle_event=broken)
    with caplog.at_level(logging.WARNING):
        play(stage.send("1+1?"), stage)
    assert stage.session.history[-1].content == "Two."
    assert "RuntimeError on turn.completed" in caplog.text
    assert "1234" not in caplog.text


def test_steps_run_without_an_event_handler() -> None:
    stage = staged(say("Hi."), handle_event=None)
    play(stage.send("Hi."), stage)
    assert stage.session.history[-1].content == "Hi."


def test_the_messages_that_the_model_reads_come_with_the_beginning_of_a_step() -> None:
    seen: list[tuple[str, int]] = []

    def take(event: Event, messages: Sequence[ModelMessage] | None) -> None:
        if messages is not None:
            seen.append((event.type, len(messages)))

    stage = staged(call("add", {"a": 1, "b": 1}), say("Two."), handle_event=take)
    play(stage.send("1+1?"), stage)
    assert seen == [("step.started", 1), ("step.started", 3)]


def test_secrets_are_masked_in_every_event_and_in_tool_results() -> None:
    @tool(mode="read")
    async def leak() -> str:
        """Tell."""
        return "it is hunter22-secret"

    stage = staged(
        say("take hunter22-secret ") + call("leak"),
        say("Done."),
        tools={"leak": leak},
        redactor=Redactor(secrets=["hunter22-secret"]),
    )
    play(stage.send("Tell hunter22-secret."), stage)
    assert "hunter22" not in "".join(event.model_dump_json() for event in stage.events)
    assert "hunter22" not in stage.session.history[2].model_dump_json()


def test_calls_that_cannot_be_made_are_shown_with_their_failure() -> None:
    stage = staged(call("ad", {}) + call("add", {"a": "x"}), say("Sorry."))
    play(stage.send("Add."), stage)
    assert inside(stage.data("actions.requested")[0], "actions", 1, "toolName") == "add"
    assert [data["status"] for data in stage.data("action.result")] == ["failed", "failed"]


def test_results_are_shown_as_they_come_and_kept_in_the_order_of_the_calls() -> None:
    stage = Stage()

    @tool(mode="read")
    async def wait(seconds: int) -> int:
        """Wait."""
        await stage.clock.sleep(seconds)
        return seconds

    answer = call("wait", {"seconds": 3}) + call("wait", {"seconds": 1})
    stage.harness(ScriptedModel([answer, say("Done.")]), tools={"wait": wait})
    play(stage.send("Wait."), stage)
    assert [inside(data, "result", "output") for data in stage.data("action.result")] == [1, 3]
    message = stage.session.history[2]
    assert isinstance(message, ToolMessage)
    assert [part.output.value for part in message.content if isinstance(part, ToolResultPart)] == [3, 1]
    assert stage.clock.monotonic() == 3


def test_a_tool_keeps_to_as_many_calls_at_a_time_as_it_allows() -> None:
    stage = Stage()

    @tool(mode="read", concurrency=1)
    async def wait(seconds: int) -> int:
        """Wait."""
        await stage.clock.sleep(seconds)
        return seconds

    answer = call("wait", {"seconds": 3}) + call("wait", {"seconds": 1})
    stage.harness(ScriptedModel([answer, say("Done.")]), tools={"wait": wait})
    play(stage.send("Wait."), stage)
    assert stage.clock.monotonic() == 4


def test_a_message_in_the_middle_of_a_turn_joins_it() -> None:
    stage = staged(call("add", {"a": 1, "b": 1}), say("Two."))

    async def story() -> None:
        assert stage.step is not None
        first = await stage.step(stage.session, StepInput(message="1+1?"))
        assert callable(first.next)
        second = await first.next(first.session, StepInput(message="Quick!"))
        assert second.next is None

    play(story(), stage)
    assert stage.data("message.received")[1]["delivery"] == "steer"
    assert len(stage.data("turn.started")) == 1


def test_a_large_result_is_cut_for_the_model() -> None:
    @tool(mode="read")
    async def long() -> str:
        """Return a long text."""
        return "x" * 500_000

    stage = staged(call("long"), say("Long."), tools={"long": long})
    play(stage.send("Go."), stage)
    assert len(stage.session.history[2].model_dump_json()) < 200_000


def test_a_state_that_no_step_wrote_is_refused() -> None:
    session = new_session().model_copy(update={"state": {STEPS_KEY: {"isTurnOpen": "maybe"}}})
    stage = staged(session=session)
    with pytest.raises(Corrupt, match="not what a step of this release wrote"):
        play(stage.send("Hi."), stage)


def test_the_state_of_others_is_left_alone() -> None:
    session = new_session().model_copy(update={"state": {"todo": ["a"]}})
    stage = staged(say("Hi."), session=session)
    play(stage.send("Hi."), stage)
    assert stage.session.state is not None
    assert stage.session.state["todo"] == ["a"]


def test_programs_need_an_interpreter() -> None:
    with pytest.raises(Rejected, match="need an interpreter"):
        staged(code_mode=True)
    with pytest.raises(Rejected, match="steps keep no variables"):
        staged(code_mode="session")  # type: ignore[arg-type]
    with pytest.raises(Rejected, match="need an interpreter"):
        staged(workflow=True)


def test_a_configuration_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(Rejected, match="from 1"):
        staged(attempt=0)
    with pytest.raises(Rejected, match="0 or more"):
        staged(output_repairs_max=-1)


def test_the_number_of_tokens_that_the_provider_counted_is_remembered() -> None:
    stage = staged(say("Hi.", usage=LLMUsage(input_tokens=7, output_tokens=2)), tools={"add": add})
    play(stage.send("Hi."), stage)
    assert stage.session.compaction.last_known_input_tokens == 7
    assert stage.session.compaction.last_known_prompt_message_count == 1
    assert stage.data("turn.completed")[0]["usage"] == {"inputTokens": 7, "outputTokens": 2}
