"""Requests to people: approvals and recovery decisions, bound to their request."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from tests.harness.loop.stage import (
    ALLOW,
    ASK,
    DENY,
    USED,
    VERSION,
    JsonObject,
    Session,
    World,
    asked,
    begin_all,
    call,
    calls,
    hash_of,
    interrupt,
    judge_all,
    judged,
    moment,
    returned,
    run_asked,
    says,
)
from tests.harness.loop.test_take_calls import outputs

from windlass_harness.loop.events import (
    AnswersGiven,
    ApprovalRequest,
    CallModel,
    CancelRequested,
    JudgeCall,
    RequestDispatched,
    RunTool,
)
from windlass_harness.loop.notes import CONSENTED, Grant
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.record import Record
from windlass_harness.tracing import fold_trace
from windlass_harness.views.chat import fold_chat
from windlass_harness.views.decisions import fold_decisions
from windlass_harness.views.stream import CallSettled, ChatFold
from windlass_protocol import InputResponse

HASH = hash_of({"n": 1})


def asking(approval_request: ApprovalRequest | None = None, *, two: bool = False) -> Session:
    """A session that waits for consent to a payment, or to two."""
    payments = [call("pay", n=1), *([call("pay", "c-2", n=2)] if two else [])]
    session = asked(calls(*payments))
    judge_all(session, ASK, approval_request=approval_request or ApprovalRequest("May I pay?"))
    session.turn()
    return session


def request(session: Session, at: int = 0) -> JsonObject:
    found = session.all("input.requested")[at]["requests"]
    assert isinstance(found, list)
    assert isinstance(found[0], dict)
    return found[0]


def answer(session: Session, option: str | None = "approve", **more: str | None) -> list[str]:
    request_id = more.pop("request_id", None) or str(request(session)["requestId"])
    response = InputResponse.model_validate({"request_id": request_id, "option_id": option, **more})
    return session.tell(AnswersGiven((response,)))


SETTLED = ["input.resolved", "approval.settled"]
NOTED = ["approval.candidate"]


def test_a_request_shows_the_call_and_is_bound_to_its_arguments() -> None:
    session = asking(ApprovalRequest("Pay 1?", expires_at=moment(90_000).at, responders=("ann", "bob")))
    assert request(session) == {
        "requestId": "approval:r1:0:c-pay:1",
        "action": {"kind": "tool-call", "callId": "c-pay", "toolName": "pay", "input": {"n": 1}},
        "prompt": "Pay 1?",
        "display": "confirmation",
        "options": [
            {"id": "approve", "label": "Approve", "style": "primary"},
            {"id": "approve_session", "label": "Approve every call of pay in this session"},
            {"id": "deny", "label": "Deny", "style": "danger"},
        ],
        "allowFreeform": True,
        "kind": "approval",
        "argumentsHash": HASH,
        "expiresAt": moment(90_000).at,
        "responders": ["ann", "bob"],
    }
    assert session.types[-4:] == ["policy.decided", "input.requested", "turn.waiting", "run.waiting"]
    waits: JsonObject = {"runId": "r1", "on": "input", "requestIds": ["approval:r1:0:c-pay:1"]}
    assert session.data("run.waiting") == {**waits, "usage": USED}


def test_names_made_of_long_names_are_not_too_long() -> None:
    session = World([[calls(call("pay", "c" * 512))], [says()]]).drive(Session(), run_asked("r" * 512))
    assert session.end == "completed"
    assert str(request(session)["requestId"]).startswith("sha256:")
    assert str(session.data("action.started")["idempotencyKey"]).startswith("sha256:")


def test_a_grant_for_the_session_is_offered_only_if_it_may_be() -> None:
    options = request(asking(ApprovalRequest("Pay?", can_grant_session=False)))["options"]
    assert isinstance(options, list)
    assert [one["id"] for one in options if isinstance(one, dict)] == ["approve", "deny"]


def test_an_approved_call_is_judged_with_the_consent_and_runs() -> None:
    session = asking()
    assert answer(session, responder="ann", text="fine") == SETTLED
    assert session.data("approval.settled") == {
        "requestId": "approval:r1:0:c-pay:1",
        "outcome": "approved",
        "responder": "ann",
        "reason": "fine",
    }
    (effect,) = session.turn()
    assert session.types[-1] == "run.resumed"
    assert effect == JudgeCall("c-pay", "pay", {"n": 1}, approved_hash=HASH, approved_policy=VERSION)
    assert isinstance(effect, JudgeCall)
    session.done(effect, judged(effect))
    assert [type(one) for one in session.turn()] == [RunTool]


def test_a_consent_counts_for_one_judgement() -> None:
    session = asking()
    answer(session)
    judge_all(session, ASK)
    assert request(session, 1)["requestId"] == "approval:r1:0:c-pay:2", "asked anew, by another name"
    assert session.turn() == []
    assert answer(session) == NOTED, "the first consent is used up"
    assert answer(session, request_id="approval:r1:0:c-pay:2") == SETTLED


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "A person denied the call."), ("too dear", "A person denied the call: too dear")],
)
def test_a_denied_call_is_not_made(text: str | None, told: str) -> None:
    session = asking()
    assert answer(session, "deny", text=text) == SETTLED
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("c-pay", told)]
    assert "action.started" not in session.types


def test_a_request_expires_at_its_moment_and_not_before() -> None:
    session = asking(ApprovalRequest("Pay?", expires_at=moment(5_000).at))
    assert session.plan().wake_at_ms == moment(5_000).ms
    session.ms = 4_999
    assert session.turn() == []
    session.ms = 5_000
    assert answer(session) == NOTED, "too late"
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("c-pay", "The approval request expired.")]
    assert session.data("run.resumed")["reason"] == "expired"
    assert session.data("approval.settled")["outcome"] == "expired"


def test_an_answer_in_the_last_moment_counts() -> None:
    session = asking(ApprovalRequest("Pay?", expires_at=moment(5_000).at))
    session.ms = 4_999
    assert answer(session) == SETTLED


def test_a_denial_given_before_the_deadline_counts_when_taken_after_it() -> None:
    session = asking(ApprovalRequest("Pay?", expires_at=moment(5_000).at))
    session.ms = 9_000
    late = InputResponse(
        request_id=str(request(session)["requestId"]), option_id="deny", text="not this month"
    )
    assert session.tell(AnswersGiven((late,), given_ms=moment(5_000).ms)) == NOTED
    assert session.tell(AnswersGiven((late,), given_ms=moment(4_999).ms)) == SETTLED
    session.turn()
    assert outputs(session) == [("c-pay", "A person denied the call: not this month")]


def test_an_approval_given_before_the_deadline_and_taken_after_it_is_asked_again() -> None:
    session = asking(ApprovalRequest("Pay?", expires_at=moment(5_000).at))
    session.ms = 9_000
    yes = InputResponse(request_id=str(request(session)["requestId"]), option_id="approve")
    assert session.tell(AnswersGiven((yes,), given_ms=moment(4_999).ms)) == SETTLED
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    assert judge.approved_hash is None


def test_one_request_may_expire_while_another_waits() -> None:
    session = asked(calls(call("pay", n=1), call("pay", "c-2", n=2)))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(
        first, judged(first, ASK, approval_request=ApprovalRequest("?", expires_at=moment(5_000).at))
    )
    session.done(second, judged(second, ASK))
    session.turn()
    session.ms = 5_000
    assert session.turn() == []
    assert session.types[-2:] == ["turn.waiting", "run.waiting"]
    assert session.data("run.waiting")["requestIds"] == ["approval:r1:0:c-2:1"]


def test_the_records_name_the_answer_that_settled_a_request_and_those_that_did_not() -> None:
    session = asking()
    name = "approval:r1:0:c-pay:1"
    yes = InputResponse(request_id=name, option_id="approve", responder="ann")
    other = InputResponse(
        request_id=name, option_id="approve", responder="bob", text="ok", arguments={"n": 2}
    )
    assert session.tell(AnswersGiven((yes,), answer_id="answer:1")) == SETTLED
    assert session.tell(AnswersGiven((other,), answer_id="answer:2")) == NOTED
    [resolution] = cast(list[JsonObject], session.data("input.resolved")["resolutions"])
    assert resolution["answerId"] == "answer:1"
    assert session.data("approval.candidate") == {
        "requestId": name,
        "responder": "bob",
        "optionId": "approve",
        "text": "ok",
        "arguments": {"n": 2},
        "answerId": "answer:2",
    }


def test_an_answer_counts_once() -> None:
    session = asking()
    yes = InputResponse(request_id="approval:r1:0:c-pay:1", option_id="approve")
    no = InputResponse(request_id="approval:r1:0:c-pay:1", option_id="deny", responder="eve")
    assert session.tell(AnswersGiven((yes, no))) == [*SETTLED, *NOTED]
    assert session.data("approval.candidate") == {
        "requestId": "approval:r1:0:c-pay:1",
        "responder": "eve",
        "optionId": "deny",
    }
    assert session.tell(AnswersGiven((no,))) == NOTED
    assert session.records[-1].run_id == "r1", "the run goes on, and it asked"
    assert session.state.note("c-pay").approval_outcome == "approved"


def test_an_answer_after_the_end_of_its_run_is_a_record_of_the_session_alone() -> None:
    session = asking()
    late = AnswersGiven((InputResponse(request_id="approval:r1:0:c-pay:1", option_id="approve"),))
    session.tell(CancelRequested("r1"))
    session.turn()
    assert session.end == "cancelled"
    assert session.tell(late) == NOTED
    noted = session.records[-1]
    assert (noted.run_id, noted.agent_id, noted.turn_id, noted.step_index) == (None, None, None, None)
    session.tell(run_asked("r2"))
    session.turn()
    assert session.tell(late) == NOTED
    assert session.records[-1].run_id is None, "nor of a run that never asked"


@pytest.mark.parametrize(
    "response",
    [
        {"option_id": "approve", "responder": "eve"},
        {"option_id": "approve"},
        {"option_id": "approve", "responder": "ann", "arguments_hash": hash_of({"n": 9})},
        {"option_id": "approve_all", "responder": "ann"},
        {"option_id": None, "responder": "ann"},
        {"option_id": None, "responder": "ann", "text": "yes, approved"},
        {"option_id": "approve", "responder": "ann", "request_id": "approval:r1:0:c-pay:2"},
        {"option_id": "approve", "responder": "ann", "request_id": "approval:r2:0:c-pay:1"},
    ],
)
def test_an_answer_that_does_not_fit_its_request_is_only_noted(response: dict[str, str | None]) -> None:
    session = asking(ApprovalRequest("Pay?", responders=("ann",)))
    option = response.pop("option_id")
    assert answer(session, option, **response) == NOTED
    assert session.turn() == []
    assert answer(session, responder="ann", arguments_hash=HASH) == SETTLED


def test_a_grant_for_the_session_is_remembered_for_its_tool() -> None:
    session = asking()
    answer(session, "approve_session")
    assert session.data("approval.settled")["grant"] == "session"
    assert session.state.grants == {"approval:r1:0:c-pay:1": Grant("helper", "pay", VERSION)}
    loaded = load_loop(dump_loop(session.state))
    assert loaded is not None
    assert loaded.grants == session.state.grants
    assert loaded.is_granted("pay", VERSION)
    assert not loaded.is_granted("pay", "v2"), "the rules have changed"
    assert not loaded.is_granted("send", VERSION)
    assert not Session().state.is_granted("pay", VERSION), "there is no run"


def test_calls_that_are_approved_go_on_while_others_wait() -> None:
    session = asking(two=True)
    assert session.types.count("run.waiting") == 1
    answer(session)
    judge_all(session)
    (run,) = session.turn()
    session.done(run, returned("c-pay"))
    assert session.turn() == []
    assert session.types.count("run.waiting") == 2
    assert session.data("run.waiting")["requestIds"] == ["approval:r1:0:c-2:1"]


def test_a_request_of_no_kind_is_answered_as_a_question() -> None:
    session = asked(calls(call("look")))
    action: JsonObject = {"kind": "tool-call", "callId": "c-look", "toolName": "look", "input": {}}
    asks: JsonObject = {"requestId": "q", "action": action, "prompt": "?", "display": "text"}
    place: JsonObject = {"sequence": 0, "turnId": "turn_0", "stepIndex": 0}
    session.write("input.requested", {"requests": [{**asks, "allowFreeform": True}], **place})
    approval: JsonObject = {"options": [{"id": "approve", "label": "Yes"}, {"id": "deny", "label": "No"}]}
    like_an_approval = Session(session.records)
    assert answer(session, None, request_id="q", text="so") == ["input.resolved", "action.result"]
    assert session.turn() == [CallModel(1, 1)]
    like_an_approval.write("input.requested", {"requests": [{**asks, **approval, "requestId": "a"}], **place})
    assert answer(like_an_approval, "approve", request_id="a") == ["input.resolved"]


# after a crash


def parked() -> Session:
    """A session that lost its owner during a `once` call."""
    session = asked(calls(call("send", n=1)))
    begin_all(session)
    after = interrupt(session, len(session.records))
    after.turn()
    return after


def test_a_once_call_that_was_interrupted_is_put_before_a_person() -> None:
    session = parked()
    assert session.types[-5:] == [
        "recovery.started",
        "recovery.effect_found",
        "input.requested",
        "turn.waiting",
        "run.waiting",
    ]
    asks = request(session)
    assert (asks["requestId"], asks["kind"]) == ("recovery:r1:0:c-send:1", "recovery")
    assert session.data("recovery.effect_found") == {
        "callId": "c-send",
        "effect": "once",
        "toolName": "send",
        "idempotencyKey": "r1/0/c-send",
        "requestId": "recovery:r1:0:c-send:1",
    }
    assert session.plan().wake_at_ms is None


def test_a_parked_call_is_not_found_again_by_the_next_owner() -> None:
    session = parked()
    after = interrupt(session, len(session.records), epoch=3)
    assert after.turn() == []
    assert after.types == session.types


def test_a_call_that_is_to_be_retried_is_not_if_the_policy_has_changed_its_mind() -> None:
    session = parked()
    answer(session, "retry")
    judge_all(session, DENY)
    assert session.turn() == [CallModel(1, 1)]
    ((_, said),) = outputs(session)
    assert "may or may not have taken effect" in str(said)
    assert str(said).endswith("not allowed")


def test_a_retry_that_needs_consent_anew_waits_for_it_and_may_be_denied() -> None:
    session = parked()
    answer(session, "retry")
    judge_all(session, ASK)
    assert session.turn() == []
    again = interrupt(session, len(session.records), epoch=3)
    assert again.turn() == []
    answer(again, "deny", request_id=str(request(again, 1)["requestId"]))
    assert again.turn() == [CallModel(1, 1)]


def test_only_configured_responders_may_decide_about_an_interrupted_call() -> None:
    session = asked(calls(call("send", n=1)), rules=Rules(responders=("boss",)))
    begin_all(session)
    after = interrupt(session, len(session.records))
    after.turn()
    assert answer(after, "retry", responder="intern") == ["approval.candidate"]
    assert answer(after, "retry", responder="boss") == ["input.resolved", "recovery.effect_settled"]


def test_a_consent_counts_for_a_call_that_is_repeated_by_itself() -> None:
    session = asked(calls(call("put", n=1)))
    judge_all(session, ALLOW.model_copy(update={"code": CONSENTED}))
    session.turn()
    after = interrupt(session, len(session.records))
    (effect,) = after.turn()
    assert effect == JudgeCall(
        "c-put", "put", {"n": 1}, approved_hash=hash_of({"n": 1}), approved_policy=VERSION
    )
    assert after.types[-1] == "recovery.effect_found"


def test_a_skipped_call_without_a_result_of_an_early_journal_reads_the_same() -> None:
    session = parked()
    answer(session, "skip")
    kept = [record for record in session.records if record.type != "action.result"]
    assert len(kept) == len(session.records) - 1
    early = [replace(record, seq=seq) for seq, record in enumerate(kept, 1)]

    def views(records: Sequence[Record]) -> dict[str, object]:
        state = LoopState()
        for record in records:
            state.apply(record)
        changes = ChatFold().apply_all(records)
        settled = [(one.key, one.output, one.is_known) for one in changes if isinstance(one, CallSettled)]
        assert len(settled) == 1
        (decided,) = fold_decisions(records).runs.values()
        return {
            "model": state.session.history.messages,
            "stream": settled,
            "trace": [(span.name, span.attrs) for span in fold_trace(records).spans],
            "decisions": [(one.id, one.outcome) for one in decided.decisions],
            "problems": [one.description for one in decided.problems or ()],
            "chat": [(one.role, one.content, one.tool_result) for one in fold_chat(records).messages],
        }

    assert views(session.records) == views(early)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('{"id": 7}', {"id": 7}),
        ("sent as 7", "sent as 7"),
        ("null", None),
        ("NaN", "NaN"),
        ("1" + "0" * 30, "1" + "0" * 30),
        ("[" * 49 + "]" * 49, "[" * 49 + "]" * 49),
        ("[1,", "[1,"),
    ],
)
def test_a_result_may_be_supplied(text: str | None, output: object) -> None:
    session = parked()
    assert answer(session, "supply", text=text) == [
        "input.resolved",
        "recovery.effect_settled",
        "action.result",
    ]
    assert session.turn() == [CallModel(1, 1)]
    assert outputs(session) == [("c-send", output)]


def test_a_recovery_is_decided_by_an_option_only() -> None:
    session = parked()
    assert answer(session, None, text="run it again") == NOTED
    assert answer(session, "approve") == NOTED
    assert session.turn() == []


@pytest.mark.parametrize("text", [None, ""])
def test_supplying_a_result_needs_a_text(text: str | None) -> None:
    session = parked()
    assert answer(session, "supply", text=text) == ["approval.candidate"]


def test_the_question_about_an_interrupted_call_names_it() -> None:
    (request,) = parked().state.session.requests.values()
    assert request.prompt.startswith("The call of send was interrupted")


# requests taken to people


def test_a_request_that_was_dispatched_is_noted_and_the_next_one_is_not() -> None:
    session = asking()
    assert session.tell(RequestDispatched("another")) == []
    assert not session.state.note("c-pay").is_dispatched
    assert session.tell(RequestDispatched("approval:r1:0:c-pay:1")) == ["approval.dispatched"]
    assert session.data("approval.dispatched") == {"requestId": "approval:r1:0:c-pay:1"}
    assert session.state.note("c-pay").is_dispatched
    assert session.plan().is_empty, "the run waits as before"
    answer(session)
    assert session.tell(RequestDispatched("approval:r1:0:c-pay:1")) == [], "it is not open any more"
    judge_all(session, ASK)
    assert not session.state.note("c-pay").is_dispatched, "it was asked anew"
