"""The messages of the model, in order."""

import pytest
from hypothesis import given, settings
from tests.harness.compaction.histories import orphans
from tests.harness.views.journal import Facts, Journal, at, request, sessions, streams

from windlass_harness.compaction import MessageOrigin, apply, completion_data, origin_of, plan
from windlass_harness.record import Record
from windlass_harness.views import CallStage, fold_session
from windlass_harness.views.history import NOT_EXECUTED
from windlass_protocol import (
    AssistantMessage,
    CompactionConfig,
    ModelMessage,
    ReasoningPart,
    ToolMessage,
    ToolOutput,
    ToolResultPart,
    UserMessage,
)
from windlass_protocol.bodies import data_of


def history(journal: Journal) -> tuple[ModelMessage, ...]:
    return fold_session(journal.records).session.history


def roles(journal: Journal) -> list[str]:
    return [message.role for message in history(journal)]


def outputs(message: ModelMessage) -> list[tuple[str, ToolOutput]]:
    assert isinstance(message, ToolMessage)
    return [(part.tool_call_id, part.output) for part in message.content if isinstance(part, ToolResultPart)]


def parts(message: ModelMessage) -> list[str]:
    assert isinstance(message, AssistantMessage)
    assert not isinstance(message.content, str)
    return [part.type for part in message.content]


def test_context_precedes_its_message_and_is_marked_by_origin() -> None:
    journal = Journal().begin()
    data = {"message": "hi", "context": ["noon", "rain"], "sequence": 0, "turnId": "t0"}
    journal.add("message.received", data)
    said = history(journal)
    assert [message.content for message in said] == ["the task", "noon", "rain", "hi"]
    assert [origin_of(message) for message in said] == [
        None,
        MessageOrigin.CONTEXT,
        MessageOrigin.CONTEXT,
        None,
    ]


def test_parts_of_a_users_message_are_kept() -> None:
    picture = {"type": "image", "image": "sha256-1"}
    data = {
        "message": "look",
        "parts": [{"type": "text", "text": "look"}, picture],
        "sequence": 0,
        "turnId": "t0",
    }
    said = history(Journal().add("message.received", data))[0]
    assert isinstance(said, UserMessage)
    assert [part.type for part in said.content if not isinstance(part, str)] == ["text", "image"]


def test_a_message_without_words_adds_no_empty_message() -> None:
    data = {"message": "", "context": ["noon"], "sequence": 0, "turnId": "t0"}
    assert [message.content for message in history(Journal().add("message.received", data))] == ["noon"]


def test_a_plain_answer_is_one_message_of_text() -> None:
    assert history(Journal().begin().answer(text="hello"))[1:] == (AssistantMessage(content="hello"),)


def test_an_answer_holds_reasoning_words_and_calls_in_the_order_they_came() -> None:
    journal = Journal().begin().start()
    journal.add("reasoning.completed", {"reasoning": "hm", "providerMetadata": {"p": {"sig": 1}}, **at()})
    journal.say("I look.").ask("a", "b").end().result("a").result("b")
    answer = history(journal)[1]
    assert parts(answer) == ["reasoning", "text", "tool-call", "tool-call"]
    assert answer.content[0] == ReasoningPart(text="hm", provider_options={"p": {"sig": 1}})


def test_nothing_said_adds_nothing() -> None:
    assert roles(Journal().begin().start().say(None).end()) == ["user"]


def test_parts_that_were_reported_before_are_not_taken_twice() -> None:
    journal = Journal().begin().start()
    journal.add("reasoning.completed", {"reasoning": "hm", **at()}).ask("a")
    reasoning, words = {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "I look."}
    asked: Facts = {"type": "tool-call", "toolCallId": "a", "toolName": "look", "input": {}}
    searched: Facts = {**asked, "toolCallId": "p", "providerExecuted": True}
    journal.say("I look.", parts=[reasoning, words, asked, searched]).end().result("a")
    said = history(journal)
    assert parts(said[1]) == ["tool-call", "reasoning", "text", "tool-call"]
    assert [call_id for call_id, _ in outputs(said[2])] == ["a"], "the provider answers its own call"


def test_results_are_in_the_order_of_their_calls() -> None:
    journal = Journal().begin().answer("a", "b", "c").result("c", 3).result("a", 1).result("b", 2)
    assert [(call_id, output.value) for call_id, output in outputs(history(journal)[-1])] == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]


def test_a_call_enters_the_history_together_with_its_result() -> None:
    journal = Journal().begin().answer("a", "b").result("b")
    assert roles(journal) == ["user"]
    assert roles(journal.result("a")) == ["user", "assistant", "tool"]


def test_the_first_result_of_a_call_counts() -> None:
    journal = (
        Journal()
        .begin()
        .answer("a", "b")
        .result("a", 1)
        .result("a", 2)
        .run("a")
        .result("b", 3)
        .result("b", 4)
    )
    assert [output.value for _, output in outputs(history(journal)[-1])] == [1, 3]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"output": "text"}, {"type": "text", "value": "text"}),
        ({"output": {"a": 1}}, {"type": "json", "value": {"a": 1}}),
        ({"output": None}, {"type": "json", "value": None}),
        ({"output": "bad", "status": "failed"}, {"type": "error-text", "value": "bad"}),
        ({"output": {"a": 1}, "status": "failed"}, {"type": "error-json", "value": {"a": 1}}),
        (
            {"output": None, "status": "failed", "error": {"code": "E", "message": "no disk"}},
            {"type": "error-text", "value": "no disk"},
        ),
        (
            {"output": "", "status": "failed", "error": {"code": "E", "message": "no disk"}},
            {"type": "error-text", "value": ""},
        ),
        ({"output": None, "status": "failed"}, {"type": "error-json", "value": None}),
        (
            {"output": None, "status": "rejected"},
            {"type": "execution-denied", "reason": "Tool execution was denied."},
        ),
        (
            {"output": None, "status": "rejected", "error": {"code": "E", "message": "not on Sundays"}},
            {"type": "execution-denied", "reason": "not on Sundays"},
        ),
    ],
)
def test_a_result_is_an_output_an_error_or_a_refusal(
    record: dict[str, object], expected: dict[str, object]
) -> None:
    journal = Journal().begin().answer("a").result("a", **record)
    assert outputs(history(journal)[-1])[0][1] == ToolOutput.model_validate(expected)


def test_a_completed_result_that_says_it_is_an_error_is_one() -> None:
    found = {"kind": "subagent-result", "callId": "a", "subagentName": "s", "output": "no", "isError": True}
    journal = Journal().begin().answer("a")
    journal.add("action.result", {"result": found, "status": "completed", **at()})
    assert outputs(history(journal)[-1])[0][1].type == "error-text"


@pytest.mark.parametrize("failed", ["step.failed", "step.retrying"])
def test_an_attempt_that_failed_leaves_nothing_of_its_answer(failed: str) -> None:
    journal = Journal().begin().start().say("half an ans").ask("a")
    facts = (
        {"code": "E", "message": "cut", "attempt": 1, "delayMs": 1}
        if failed == "step.retrying"
        else {
            "code": "E",
            "message": "cut",
        }
    )
    journal.add(failed, {**facts, **at()})
    assert roles(journal) == ["user"]
    assert fold_session(journal.records).calls == ()
    journal.start(attempt=2).say("whole").end()
    assert history(journal)[1:] == (AssistantMessage(content="whole"),)


def test_a_crash_in_the_middle_of_an_answer_leaves_nothing_of_it() -> None:
    journal = Journal().begin().start().say("half an ans").start(attempt=2).say("whole").end()
    assert history(journal)[1:] == (AssistantMessage(content="whole"),)


def test_started_calls_of_a_failed_step_stay_in_the_history() -> None:
    journal = Journal().begin().start().ask("a", "b", "c").run("a").run("b").result("b", "done")
    journal.add("step.failed", {"code": "E", "message": "cut", **at()})
    assert roles(journal) == ["user"], "the result of the first call is still unknown"
    journal.result("a", "late")
    assert roles(journal) == ["user", "assistant", "tool"]
    assert [output.value for _, output in outputs(history(journal)[-1])] == ["late", "done", NOT_EXECUTED]


def test_a_failure_after_the_answer_was_complete_takes_nothing_back() -> None:
    journal = Journal().begin().answer(text="42").add("step.failed", {"code": "E", "message": "m", **at()})
    assert roles(journal) == ["user", "assistant"]


def test_an_answer_without_a_start_is_taken_all_the_same() -> None:
    journal = Journal().begin().say("one", 0).end(0).say("two", 1).ask("a", step=1).end(1).result("a")
    assert roles(journal) == ["user", "assistant", "assistant", "tool"]


def test_a_message_during_a_step_comes_after_it() -> None:
    journal = Journal().begin().start()
    steer = {"message": "steer", "sequence": 0, "turnId": "t0", "delivery": "steer"}
    journal.add("message.received", steer).say("I look.").ask("a").end()
    assert roles(journal) == ["user"]
    journal.result("a")
    assert roles(journal) == ["user", "assistant", "tool", "user"]


def test_an_answer_cut_off_by_the_end_of_the_run_is_dropped() -> None:
    journal = Journal().begin().start().say("half").add("run.cancelled", {"runId": "r1"})
    assert roles(journal) == ["user"]
    assert not fold_session(journal.records).is_answering


def test_the_answer_to_a_question_is_its_result() -> None:
    journal = Journal().begin().answer("q")
    journal.add("input.requested", {"requests": [request("r", "q", kind="question")], **at()})
    given = {"requestId": "r", "optionId": "blue", "text": "the blue one", "responder": "ann"}
    resolution = {"requestId": "r", "outcome": "answered", "response": given}
    journal.add("input.resolved", {"resolutions": [resolution], **at()})
    answer = outputs(history(journal)[-1])[0][1]
    assert answer.value == {"status": "answered", "optionId": "blue", "text": "the blue one"}


@pytest.mark.parametrize(
    ("asked", "resolved", "is_question"),
    [
        ({}, {}, True),
        ({"kind": "question"}, {}, True),
        ({}, {"kind": "question"}, True),
        ({"kind": "approval"}, {}, False),
        ({"kind": "recovery"}, {}, False),
        ({"options": [{"id": "deny", "label": "No"}, {"id": "approve", "label": "Yes"}]}, {}, False),
        ({"options": [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}]}, {}, True),
    ],
)
def test_an_ignored_resolution_is_a_result_for_questions_only(
    asked: dict[str, object], resolved: dict[str, object], is_question: bool
) -> None:
    journal = Journal().begin().answer("q")
    journal.add("input.requested", {"requests": [request("r", "q", **asked)], **at()})
    resolution = {"requestId": "r", "outcome": "ignored", **resolved}
    journal.add("input.resolved", {"resolutions": [resolution], **at()})
    state = fold_session(journal.records)
    assert state.requests == ()
    if is_question:
        assert outputs(state.session.history[-1])[0][1].value == {"status": "ignored"}
    else:
        assert [one.stage for one in state.calls] == [CallStage.REQUESTED]


def test_an_answer_to_an_unknown_question_is_ignored() -> None:
    journal = Journal().begin()
    resolution = {"requestId": "gone", "outcome": "answered", "kind": "question"}
    journal.add("input.resolved", {"resolutions": [resolution], **at()})
    assert roles(journal) == ["user"]


def test_a_call_that_only_shows_in_a_request_belongs_to_its_step() -> None:
    journal = Journal().begin().answer("a")
    journal.add("input.requested", {"requests": [request("r", "q"), request("s", "a")], **at()})
    assert [one.call_id for one in fold_session(journal.records).calls] == ["a", "q"]
    journal.result("q", "blue").result("a", "ok")
    assert [call_id for call_id, _ in outputs(history(journal)[-1])] == ["a", "q"]


def test_a_request_about_a_call_of_an_earlier_step_is_not_a_second_call() -> None:
    journal = Journal().begin().answer("a").start(1)
    journal.add("input.requested", {"requests": [request("r", "a", kind="recovery")], **at(1)})
    assert [one.call_id for one in fold_session(journal.records).calls] == ["a"]


def test_a_request_after_its_step_was_finished_is_a_call_of_its_own() -> None:
    journal = Journal().begin().answer(text="Let me ask.")
    journal.add("input.requested", {"requests": [request("r", "q")], **at()}).result("q", "blue")
    assert roles(journal) == ["user", "assistant", "assistant", "tool"]


def test_ids_may_be_used_again_in_another_step() -> None:
    journal = Journal().begin().answer("call_0").result("call_0", 1)
    journal.answer("call_0", step=1).result("call_0", 2)
    said = history(journal)
    assert [outputs(said[place])[0][1].value for place in (2, 4)] == [1, 2]


def test_a_result_belongs_to_the_newest_call_of_its_id() -> None:
    journal = Journal().begin().answer("x", "y").answer("x", step=1).result("x", "new").result("y", "other")
    journal.add("run.cancelled", {"runId": "r1"})
    said = history(journal)
    assert [output.value for place in (2, 4) for _, output in outputs(said[place])] == [
        NOT_EXECUTED,
        "other",
        "new",
    ]


def test_clearing_the_context_empties_the_history_and_keeps_open_calls() -> None:
    journal = Journal().begin().answer("a", "b").run("a")
    journal.add("message.received", {"message": "steer", "sequence": 0, "turnId": "t0"}).add(
        "context.cleared"
    )
    assert roles(journal) == []
    assert [one.call_id for one in fold_session(journal.records).calls] == ["a", "b"]
    assert roles(journal.result("a").result("b")) == ["assistant", "tool"]


def test_a_compaction_is_repeated_as_it_was_planned() -> None:
    journal = Journal().begin()
    for step in range(30):
        journal.answer(f"c{step}", step=step).result(f"c{step}", "data " * 300)
    before = history(journal)
    config = CompactionConfig(threshold=3000, recent_window_size=4)
    made = plan(before, config, on_compaction=[UserMessage(content="todo")])
    data = completion_data(made, "the summary", model_id="m", sequence=0, turn_id="t0")
    journal.add("compaction.completed", data_of(data))
    assert history(journal) == apply(made, before, summary="the summary")
    assert len(history(journal)) < len(before)


def test_a_compaction_may_only_shorten_results() -> None:
    journal = Journal().begin().answer("a").result("a", "x" * 5000)
    data = {"modelId": "m", "sequence": 0, "turnId": "t0", "trimmedCallIds": ["a"], "resultCharsMax": 300}
    journal.add("compaction.completed", data)
    assert len(str(outputs(history(journal)[-1])[0][1].value)) == 300


@given(records=streams())
def test_no_random_stream_leaves_a_call_without_its_result(records: list[Record]) -> None:
    assert orphans(fold_session(records).session.history) == []


@settings(max_examples=50)
@given(records=sessions())
def test_a_session_keeps_every_answer_and_every_word_of_the_user(records: list[Record]) -> None:
    state = fold_session(records)
    said = state.session.history
    received = [record.data["message"] for record in records if record.type == "message.received"]
    assert [message.content for message in said if isinstance(message, UserMessage)] == received
    completed = [record for record in records if record.type == "step.completed"]
    assert sum(isinstance(message, AssistantMessage) for message in said) == len(completed)
    results = [record for record in records if record.type == "action.result"]
    assert sum(len(message.content) for message in said if isinstance(message, ToolMessage)) == len(results)
    assert "half an answer" not in str(said)
    assert state.calls == ()
