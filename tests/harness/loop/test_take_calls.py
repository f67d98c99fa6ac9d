"""Calls: judged, begun, refused, put off, and done in any order."""

from itertools import permutations

import pytest
from tests.harness.loop.stage import (
    ASK,
    DEFER,
    DENY,
    MODIFY,
    STOP,
    USED,
    JsonObject,
    Session,
    World,
    asked,
    begin_all,
    call,
    calls,
    hash_of,
    judge_all,
    judged,
    moment,
    returned,
    run_asked,
    says,
)

from windlass_harness.loop.events import (
    CallModel,
    CallRefused,
    CallReturned,
    JudgeCall,
    RunTool,
)
from windlass_harness.loop.rules import DEFER_MS_MIN, RequestedCall, Rules
from windlass_harness.views.history import NOT_EXECUTED
from windlass_harness.views.payloads import DENIED
from windlass_protocol import ActionStatus, DeferDecision, FinishReason, Taint, ToolMessage, ToolResultPart
from windlass_protocol.bodies import data_of
from windlass_protocol.generated import records

THREE = calls(call("look", "a"), call("put", "b"), call("send", "c"))


def outputs(session: Session) -> list[tuple[str, object]]:
    """The results that the model sees, in their order."""
    return [
        (part.tool_call_id, part.output.reason or part.output.value)
        for message in session.state.session.history.messages
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]


def test_a_call_is_judged_then_begun_then_run() -> None:
    session = asked(calls(call("send", n=1)))
    (effect,) = session.turn()
    assert effect == JudgeCall("c-send", "send", {"n": 1})
    assert isinstance(effect, JudgeCall)
    assert session.turn() == [], "one judgement at a time"
    assert session.done(effect, judged(effect)) == ["policy.decided", "action.started"]
    (run,) = session.turn()
    assert run == RunTool("c-send", "send", {"n": 1}, idempotency_key="r1/0/c-send", step_index=0, attempt=1)
    assert session.turn() == [], "nor is it run twice"
    assert session.data("action.started") == {
        "callId": "c-send",
        "toolName": "send",
        "effect": "read",
        "idempotencyKey": "r1/0/c-send",
        "argumentsHash": hash_of({"n": 1}),
        "mode": "read",
        "sequence": 0,
        "turnId": "turn_0",
        "stepIndex": 0,
    }


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_parallel_calls_may_finish_in_any_order(order: tuple[int, ...]) -> None:
    session = asked(THREE)
    effects = begin_all(session)
    assert [effect.call_id for effect in effects] == ["a", "b", "c"]
    for at in order[:-1]:
        session.done(effects[at], returned(effects[at].call_id, at))
        assert session.turn() == [], "the model waits for all of them"
    session.done(effects[order[-1]], returned(effects[order[-1]].call_id, order[-1]))
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("a", 0), ("b", 1), ("c", 2)]


def test_a_call_that_fails_is_a_result() -> None:
    session = asked(calls(call("look", "a"), call("look", "b"), call("look", "c")))
    first, second, third = begin_all(session)
    failed = CallReturned("a", ActionStatus.FAILED, None, code="timeout", message="too slow", duration_ms=9)
    session.done(first, failed)
    assert session.data("action.result")["error"] == {"code": "timeout", "message": "too slow"}
    session.done(second, CallReturned("b", ActionStatus.FAILED, {"partly": 1}))
    assert session.data("action.result")["error"] == {"code": "failed", "message": "The call failed."}
    session.done(third, returned("c"))
    assert outputs(session) == [("a", "too slow"), ("b", {"partly": 1}), ("c", "found")]


def test_a_result_may_say_where_all_of_it_is() -> None:
    session = asked(calls(call("look")))
    (effect,) = begin_all(session)
    ref = records.ContentRef(content_id="c1", hash=hash_of(1), size_bytes=3)
    session.done(effect, CallReturned(effect.call_id, ActionStatus.COMPLETED, "a…z", content=ref))
    assert session.data("action.result")["contentRef"] == data_of(ref)


def test_a_result_records_its_taint() -> None:
    session = asked(calls(call("look")))
    (effect,) = begin_all(session)
    tainted = CallReturned(effect.call_id, ActionStatus.COMPLETED, "found", taint=(Taint.UNTRUSTED,))
    session.done(effect, tainted)
    assert session.data("action.result")["taint"] == ["untrusted"]
    assert session.state.session.taint == {"untrusted"}


def test_calls_that_cannot_be_made_are_counted_and_bounded() -> None:
    wrong = [calls(RequestedCall("c", "look", "{not json"))]
    rules = Rules(refusals_max=2)
    session = World([wrong, wrong, [says()]]).drive(Session(rules=rules), run_asked())
    assert session.end == "completed"
    session = World([wrong, wrong, wrong, [says()]]).drive(Session(rules=rules), run_asked())
    assert session.end == "failed"
    assert "over 2 times in a row" in str(session.data("turn.failed")["message"])


def test_a_denied_call_is_rejected_with_the_reason_and_not_made() -> None:
    session = asked(calls(call("banned")))
    judge_all(session, DENY)
    assert session.types[-2:] == ["policy.decided", "action.result"]
    result = session.data("action.result")
    assert (result["status"], result["error"]) == ("rejected", {"code": "no", "message": "not allowed"})
    assert outputs(session) == [("c-banned", "not allowed")]
    assert DENIED not in str(outputs(session))
    assert session.turn() == [CallModel(1, 1)]


def test_a_modified_call_runs_with_the_arguments_of_the_policy() -> None:
    session = asked(calls(call("safer", n=1)))
    judge_all(session, MODIFY)
    assert session.data("action.started")["arguments"] == {"safe": True}
    (effect,) = session.turn()
    assert isinstance(effect, RunTool)
    assert effect.arguments == {"safe": True}


def test_a_policy_may_stop_the_run() -> None:
    session = asked(calls(call("look", "a"), call("stop", "b"), call("look", "c")))
    for effect in session.turn():
        assert isinstance(effect, JudgeCall)
        session.done(effect, judged(effect, STOP if effect.tool_name == "stop" else MODIFY))
    assert session.turn() == []
    assert session.end == "failed"
    error = session.data("run.failed")["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["kind"], error["message"]) == ("denied", "policy_denial", "enough")
    assert error["policyRefs"]
    assert outputs(session)[1:] == [("b", NOT_EXECUTED), ("c", NOT_EXECUTED)]


def test_a_stopped_run_ends_when_the_calls_that_run_are_done() -> None:
    session = asked(calls(call("look", "a"), call("stop", "b")))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(first, judged(first))
    (run,) = session.turn()
    session.done(second, judged(second, STOP))
    assert session.turn() == []
    assert session.end is None
    assert session.done(run, returned("a", 1)) == ["action.result"]
    session.turn()
    assert session.end == "failed"
    assert outputs(session) == [("a", 1), ("b", NOT_EXECUTED)]


def test_a_call_put_off_is_judged_again_when_its_time_has_come() -> None:
    session = asked(calls(call("later")))
    judge_all(session, DEFER)
    assert session.turn() == []
    assert session.types[-2:] == ["turn.waiting", "run.waiting"]
    assert session.data("run.waiting") == {"runId": "r1", "on": "timer", "usage": USED}
    wake = session.plan().wake_at_ms
    assert wake == moment(session.ms + 60_000).ms
    session.pass_ms(59_999)
    assert session.turn() == []
    session.pass_ms(1)
    assert [type(effect) for effect in session.turn()] == [JudgeCall]
    assert session.data("run.resumed") == {"runId": "r1", "reason": "ready", "epoch": 1}


def test_a_call_put_off_for_no_time_still_waits_a_little() -> None:
    session = asked(calls(call("later")))
    judge_all(session, DeferDecision(code="later", reason="busy", policy_refs=()))
    session.turn()
    assert session.plan().wake_at_ms == moment(session.ms + DEFER_MS_MIN).ms


def test_other_calls_go_on_while_one_is_put_off() -> None:
    session = asked(calls(call("later", "a"), call("look", "b")))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(first, judged(first, DEFER))
    session.done(second, judged(second))
    (run,) = session.turn()
    assert run.key == "call:b"
    assert "run.waiting" not in session.types
    session.done(run, returned("b"))
    session.turn()
    assert session.types[-1] == "run.waiting"


def test_a_call_that_was_put_off_is_judged_again_while_another_is_under_way() -> None:
    session = asked(calls(call("later", "a"), call("look", "b")))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(first, judged(first, DEFER))
    session.done(second, judged(second))
    ends_at = moment(session.ms + 60_000).ms
    assert session.plan().wake_at_ms == ends_at
    (run,) = session.turn()
    assert run.key in session.under_way
    assert session.plan().wake_at_ms == ends_at
    session.pass_ms(60_000)
    assert [effect.key for effect in session.turn()] == [first.key]


def test_a_judgement_that_comes_twice_begins_a_call_once() -> None:
    session = asked(calls(call("send")))
    (effect,) = judge_all(session)
    assert session.tell(judged(effect)) == []
    assert session.tell(judged(effect, ASK)) == []
    assert session.tell(CallRefused("c-send", "unknown_tool", "?")) == []
    assert session.types.count("action.started") == 1


def test_a_call_id_may_come_again_in_a_later_step() -> None:
    world = World([[calls(call("send", "same"))], [calls(call("send", "same"))], [says()]])
    session = world.drive(Session(), run_asked())
    assert world.ledger == ["r1/0/same", "r1/1/same"]
    assert session.end == "completed"


def test_arguments_that_are_no_object_are_run_as_none() -> None:
    session = asked(calls(RequestedCall("c", "look", "text")))
    (effect,) = begin_all(session)
    assert effect.arguments == {}


def test_an_answer_says_why_it_ended() -> None:
    session = asked(calls(call("look")))
    assert session.data("step.completed")["finishReason"] == FinishReason.TOOL_CALLS
    assert session.data("step.completed")["latencyMs"] == 5


def test_a_decision_about_something_else_than_a_call_is_passed_over() -> None:
    session = asked(calls(call("send")))
    decision: JsonObject = {"decision": "deny", "code": "no", "reason": "no", "policyRefs": []}
    session.write("policy.decided", {"stage": "run_start", "decision": decision})
    assert session.state.notes == {}
    assert len(judge_all(session)) == 1


def test_a_result_that_comes_again_while_other_calls_run_is_not_written_again() -> None:
    session = asked(calls(call("send", "a"), call("send", "b")))
    first, second = begin_all(session)
    assert session.done(first, returned("a", 1)) == ["action.result"]
    assert session.tell(returned("a", 2)) == []
    session.done(second, returned("b"))
    assert outputs(session) == [("a", 1), ("b", "found")]
