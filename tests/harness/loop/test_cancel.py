"""Cancelling: at every stage, once, and never the wrong run."""

from tests.harness.loop.stage import (
    ASK,
    STOP,
    JsonObject,
    Session,
    World,
    asked,
    begin_all,
    call,
    calls,
    error,
    judge_all,
    judged,
    run_asked,
    says,
)
from tests.harness.loop.test_take_calls import outputs

from windlass_harness.loop.events import (
    CancelRequested,
    JudgeCall,
    RunRefused,
    RunWithdrawn,
    Stopped,
)
from windlass_harness.views import fold_runs
from windlass_harness.views.history import NOT_EXECUTED
from windlass_protocol import (
    CausalIds,
    EffectClass,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    RetryClass,
)

CANCEL = CancelRequested("r1", by="ann", reason="enough")
ENDING = ["turn.cancelled", "run.cancelled", "session.waiting"]


def cancel(session: Session) -> None:
    assert session.tell(CANCEL) == ["run.cancel_requested"]
    assert session.tell(CANCEL) == [], "once is enough"
    assert session.tell(CancelRequested("r2")) == [], "another run"


def assert_cancelled(session: Session) -> None:
    assert session.turn() == []
    assert (session.end, session.types[-3:]) == ("cancelled", ENDING)
    assert session.tell(CANCEL) == [], "it has ended"


def test_an_idle_session_has_nothing_to_cancel() -> None:
    assert Session().tell(CANCEL) == []
    assert World([[says()]]).drive(Session(), run_asked()).tell(CANCEL) == []


def test_a_run_may_be_cancelled_before_its_first_step() -> None:
    session = asked()
    cancel(session)
    assert session.data("run.cancel_requested") == {"runId": "r1", "by": "ann", "reason": "enough"}
    assert_cancelled(session)


def test_a_cancel_may_say_nothing_but_its_run() -> None:
    session = asked()
    session.tell(CancelRequested("r1"))
    assert session.data("run.cancel_requested") == {"runId": "r1"}


def test_a_task_that_is_cancelled_is_over() -> None:
    session = asked(mode="task")
    cancel(session)
    session.turn()
    assert session.data("session.failed")["code"] == "cancelled"


def test_calls_of_an_answer_that_comes_after_the_cancel_are_not_made() -> None:
    session = asked()
    (effect,) = session.turn()
    cancel(session)
    session.done(effect, calls(call("send")))
    assert_cancelled(session)
    assert outputs(session) == [("c-send", NOT_EXECUTED)]


def test_a_model_call_that_is_abandoned_leaves_nothing() -> None:
    session = asked()
    (effect,) = session.turn()
    cancel(session)
    del session.under_way[effect.key]
    assert_cancelled(session)


def test_a_judgement_after_the_cancel_begins_nothing() -> None:
    session = asked(calls(call("send")))
    (effect,) = session.turn()
    assert isinstance(effect, JudgeCall)
    cancel(session)
    assert session.done(effect, judged(effect)) == []
    assert_cancelled(session)
    assert outputs(session) == [("c-send", NOT_EXECUTED)]


def test_a_run_that_fails_while_a_request_is_open_closes_it() -> None:
    session = asked(calls(call("pay")))
    judge_all(session, ASK)
    session.turn()
    (request_id,) = session.state.session.requests
    wrote = session.tell(Stopped(error()))
    assert wrote[:2] == ["input.resolved", "approval.settled"]
    assert session.data("approval.settled") == {
        "requestId": request_id,
        "outcome": "cancelled",
        "reason": "The run ended.",
    }
    assert session.end == "failed"
    found = ErrorInfo.model_validate(session.data("run.failed")["error"])
    assert found.causal_ids == CausalIds(
        session_id="s1", run_id="r1", turn_id="turn_0", step_index=0, call_id="c-pay", request_id=request_id
    )


def test_a_run_that_is_cancelled_during_a_call_names_the_call_with_an_unknown_outcome() -> None:
    session = asked(calls(call("ask"), call("send", "b")))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(first, judged(first, ASK))
    session.done(second, judged(second, kind=EffectClass.ONCE))
    session.turn()
    session.tell(CANCEL)
    session.under_way.clear()
    session.turn()
    found = ErrorInfo.model_validate(session.data("run.cancelled")["error"])
    assert found.causal_ids == CausalIds(
        session_id="s1", run_id="r1", turn_id="turn_0", step_index=0, call_id="b"
    )


def test_a_run_that_is_to_fail_may_still_be_cancelled() -> None:
    session = asked(calls(call("look", "a"), call("stop", "b")))
    first, second = session.turn()
    assert isinstance(first, JudgeCall)
    assert isinstance(second, JudgeCall)
    session.done(first, judged(first))
    session.turn()
    session.done(second, judged(second, STOP))
    cancel(session)
    session.under_way.clear()
    assert_cancelled(session)


def withdrawn(run_id: str = "r2", **more: str) -> RunWithdrawn:
    body: JsonObject = {"runId": run_id, "agentId": "helper", "message": "secretly", "mode": "task"}
    return RunWithdrawn(body, **more)


def test_a_run_that_is_cancelled_before_its_turn_ends_without_touching_the_one_under_way() -> None:
    session = asked(calls(call("pay")))
    judge_all(session, ASK)
    session.turn()
    before = (session.state.run, session.state.session.requests, session.state.session.waiting)
    assert session.tell(withdrawn(by="ann", reason="late")) == ["run.cancel_requested", "run.cancelled"]
    assert (session.state.run, session.state.session.requests, session.state.session.waiting) == before
    assert session.data("run.cancel_requested") == {"runId": "r2", "by": "ann", "reason": "late"}
    assert session.data("run.cancelled") == {
        "runId": "r2",
        "reason": "late",
        "unstarted": {"runId": "r2", "agentId": "helper", "mode": "task"},
    }
    assert session.plan().is_empty
    runs = fold_runs(session.records).runs
    assert (runs["r1"].status, runs["r2"].status) == ("waiting", "cancelled")
    assert runs["r2"].result is not None
    assert runs["r2"].is_cancel_requested


ERROR = ErrorInfo(
    code=ErrorCode.REJECTED,
    kind=ErrorKind.JOURNAL_FAILURE,
    retry=RetryClass.NOT_RETRYABLE,
    message="record too large",
)


def refused(run_id: str = "r2") -> RunRefused:
    return RunRefused({"runId": run_id, "agentId": "helper"}, ERROR)


def test_a_run_that_cannot_begin_ends_without_touching_the_one_under_way() -> None:
    session = asked(calls(call("pay")))
    judge_all(session, ASK)
    session.turn()
    before = (session.state.run, session.state.session.requests, session.state.session.waiting)
    assert session.tell(refused()) == ["run.failed"]
    assert (session.state.run, session.state.session.requests, session.state.session.waiting) == before
    runs = fold_runs(session.records).runs
    assert (runs["r1"].status, runs["r2"].status) == ("waiting", "failed")
    assert runs["r2"].result is not None
    assert runs["r2"].result.error == ERROR
    assert not runs["r2"].is_cancel_requested


def test_a_run_that_has_begun_cannot_be_refused() -> None:
    session = asked()
    assert session.tell(refused("r1")) == []


def test_a_run_cancelled_during_a_read_ends_without_an_ambiguous_error_and_with_the_reason() -> None:
    session = asked(calls(call("look")))
    begin_all(session)
    session.tell(CancelRequested("r1", "ann", "The customer has left."))
    session.under_way.clear()
    session.turn()
    (data,) = session.all("action.result")
    assert isinstance(data["error"], dict)
    assert "nothing was changed" in str(data["error"]["message"])
    result = fold_runs(session.records).runs["r1"].result
    assert result is not None
    assert (result.status, result.error, result.reason) == ("cancelled", None, "The customer has left.")


def test_a_run_cancelled_without_a_call_under_way_ends_without_an_error() -> None:
    session = asked()
    cancel(session)
    session.under_way.clear()
    session.turn()
    assert "error" not in session.data("run.cancelled")
