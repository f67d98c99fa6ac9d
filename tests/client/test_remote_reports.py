"""Reports of a remote agent, and the answers sent back to it."""

import asyncio
from typing import Any

import pytest

from windlass.client import RunInfo
from windlass.client.remote import ROUNDS_MAX, RemoteModel, RemoteRequest, Report, reply_to, report_of
from windlass.errors import Rejected
from windlass.limits import OPTION_CHARS_MAX, QUESTION_CHARS_MAX
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import InputRequest, RunResult, RunSnapshot

QUESTION: dict[str, Any] = {
    "prompt": "Run pay?",
    "options": [{"id": "approve", "label": "Yes"}, {"id": "deny", "label": "No"}],
}


def info(status: str, *requests: InputRequest, result: dict[str, Any] | None = None) -> RunInfo:
    known = {"runId": "r", "agentId": "a", "status": status, "packageId": "p", "sessionId": "s"}
    more = {"packageFingerprint": "", "routeId": "x", "modelId": "y", "cancellationRequested": False}
    run = RunSnapshot.model_validate({**known, **more})
    ended = None if result is None else RunResult.model_validate({"runId": "r", "status": status, **result})
    return RunInfo(run=run, result=ended, requests=requests)


def asking(**more: Any) -> InputRequest:
    action: dict[str, Any] = {"kind": "tool-call", "callId": "c", "toolName": "pay", "input": {}}
    given: dict[str, Any] = {
        "requestId": "q",
        "action": action,
        "prompt": "Run pay?",
        "display": "select",
        **more,
    }
    return InputRequest.model_validate(given)


def test_a_run_is_reported_when_it_ended_or_has_an_unanswered_request() -> None:
    assert report_of(info("running")) is None
    assert report_of(info("waiting")) is None
    assert report_of(info("running", asking())) is None
    assert report_of(info("waiting", asking(isAnswered=True))) is None
    report = report_of(info("waiting", asking(isAnswered=True), asking(requestId="q2")))
    assert report is not None
    assert report.asked is not None
    assert report.asked.request_id == "q2"


def test_a_question_here_is_no_larger_than_a_question_may_be() -> None:
    option = {"id": "x" * (OPTION_CHARS_MAX + 1), "label": "too long to be picked"}
    known = {"id": "yes", "label": "y" * 1_000}
    asks = asking(prompt="?" * 10_000, options=[option, known], kind="question")
    report = report_of(info("waiting", asks))
    assert report is not None
    assert report.asked is not None
    question = report.asked.question
    assert len(str(question["prompt"])) == QUESTION_CHARS_MAX
    assert str(question["prompt"]).endswith("the whole request is on the server]")
    assert question["options"] == [{"id": "yes", "label": "y" * OPTION_CHARS_MAX}]


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "approval"},
        {},
        {"kind": "question", "argumentsHash": "sha256:" + "0" * 64},
        {"kind": "question"},
    ],
)
def test_an_approval_that_is_too_long_to_show_can_only_be_denied_by_the_caller(more: dict[str, Any]) -> None:
    options = [{"id": "approve", "label": "Yes"}, {"id": "deny", "label": "No"}]
    asks = asking(prompt="x" * QUESTION_CHARS_MAX + "; rm -rf /", options=options, allowFreeform=True, **more)
    report = report_of(info("waiting", asks))
    assert report is not None
    assert report.asked is not None
    question = report.asked.question
    assert question["options"] == [{"id": "deny", "label": "Deny"}]
    assert question["allow_freeform"] is False
    assert len(str(question["prompt"])) == QUESTION_CHARS_MAX
    assert "Approve it on the server, or deny it." in str(question["prompt"])


def test_consent_that_is_shown_whole_can_be_given_here() -> None:
    options = [{"id": "approve", "label": "Yes"}, {"id": "deny", "label": "No"}]
    report = report_of(info("waiting", asking(prompt="x" * QUESTION_CHARS_MAX, options=options)))
    assert report is not None
    assert report.asked is not None
    assert report.asked.question["options"] == options


def test_data_that_no_result_can_hold_is_an_error() -> None:
    report = report_of(info("completed", result={"output": "", "structuredOutput": ["x" * 100_000]}))
    assert report is not None
    assert (report.output, report.error) == (None, "its data is too large: limit 90,000 bytes")


@pytest.mark.parametrize(
    ("question", "answered", "option", "text"),
    [
        (QUESTION, {"optionId": "approve"}, "approve", None),
        (QUESTION, {"optionId": "deny", "text": "Too dear."}, "deny", "Too dear."),
        (QUESTION, {"status": "ignored"}, "deny", None),
        ({"prompt": "Which?", "options": []}, {"status": "ignored"}, None, "No person answered."),
        ({"prompt": "Which?"}, {"text": "Blue."}, None, "Blue."),
    ],
)
def test_an_unanswered_approval_is_sent_back_as_a_denial(
    question: dict[str, Any], answered: dict[str, Any], option: str | None, text: str | None
) -> None:
    asked = RemoteRequest(request_id="q", arguments_hash="h", question=question)
    reply = reply_to(Report(run_id="r", asked=asked), answered)
    assert (reply.run_id, reply.request_id, reply.arguments_hash) == ("r", "q", "h")
    assert (reply.option_id, reply.text) == (option, text)


async def reachable() -> None:
    """The probe of a server that answers."""


def going_on(*messages: LLMMessage) -> list[LLMStreamChunk]:
    async def main() -> list[LLMStreamChunk]:
        tools: list[dict[str, Any]] = [{"name": "ask_question"}]
        told = [LLMMessage("user", "Go."), *messages]
        return [chunk async for chunk in RemoteModel("m", reachable).stream(told, tools=tools)]

    return asyncio.run(main())


def test_a_question_that_cannot_be_asked_fails_the_remote_call() -> None:
    report = Report(run_id="r", asked=RemoteRequest(request_id="q", question=QUESTION))
    before = LLMMessage("tool", report.model_dump_json(), name="remote")
    with pytest.raises(Rejected, match="did not complete: two options have the same id"):
        going_on(
            before, LLMMessage("tool", "two options have the same id", name="ask_question", is_error=True)
        )


def test_a_server_that_asks_without_end_is_given_up() -> None:
    report = Report(run_id="r", asked=RemoteRequest(request_id="q", question=QUESTION)).model_dump_json()
    asks = LLMMessage("tool", report, name="remote")
    answered = LLMMessage("tool", '{"optionId": "approve"}', name="ask_question")
    rounds = [asks, answered] * (ROUNDS_MAX - 1)
    assert going_on(*rounds, asks)
    with pytest.raises(Rejected, match="too many questions: limit 100"):
        going_on(*rounds, asks, answered, asks)
    assert going_on(*rounds, asks, answered, LLMMessage("user", "Something else."), asks)
