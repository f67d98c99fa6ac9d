"""Workflows in the loop: events, calls that are reversed, and functions that went another way."""

from dataclasses import replace

from tests.harness.loop.stage import Session, asked, calls, moment
from tests.harness.loop.test_programs import allow, due, inner, start_all

from windlass_harness.loop.events import (
    AnswersGiven,
    CallJudged,
    CallReturned,
    EventSent,
    JudgeCall,
    ProgramDiverged,
    ProgramEnded,
    ProgramPaused,
    RunProgram,
    RunTool,
    SessionClaimed,
)
from windlass_harness.loop.people import is_divergence
from windlass_harness.loop.rules import RequestedCall, Rules
from windlass_protocol import ActionStatus, EffectClass, InputResponse
from windlass_protocol.generated import records


def event(name: str = "paid", data: object = 1, *, key: str | None = None, run_id: str = "r1") -> EventSent:
    return EventSent(records.RunEventReceived(run_id=run_id, name=name, data=data, key=key))  # pyright: ignore[reportArgumentType]


def waits(*names: object) -> tuple[RequestedCall, ...]:
    return tuple(RequestedCall("", "wait_for", {"name": str(name)}) for name in names)


def begun(rules: Rules | None = None) -> tuple[Session, RunProgram]:
    session = asked(calls(RequestedCall("p", "order", {})), rules=rules or Rules())
    (judge,) = session.turn()
    session.done(judge, allow("p", interpreter="workflow/order@1"))
    (effect,) = session.turn()
    assert isinstance(effect, RunProgram)
    return session, effect


def results(session: Session) -> list[object]:
    return [body["result"]["output"] for body in session.all("action.result")]  # pyright: ignore[reportIndexIssue, reportArgumentType, reportCallIssue, reportOptionalSubscript]


def test_an_event_is_taken_by_the_oldest_call_that_waits_for_its_name() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, waits("paid", "shipped", "paid"), "workflow/order@1"))
    assert session.turn() == [], "nothing decides about a wait"
    assert session.tell(event(data=1)) == ["run.event_received"]
    assert session.tell(event(data=2)) == ["run.event_received"]
    session.turn()
    assert results(session) == [{"name": "paid", "data": 1}, {"name": "paid", "data": 2}]


def test_an_event_that_comes_before_is_kept_and_its_key_counts_once() -> None:
    session, effect = begun()
    assert session.tell(event(key="a")) == ["run.event_received"]
    assert session.tell(event(key="a")) == []
    assert session.tell(event(run_id="another")) == []
    session.done(effect, ProgramPaused("p", 0, waits("paid"), "workflow/order@1"))
    effect = due(session)
    assert results(session) == [{"name": "paid", "data": 1}]
    assert session.tell(event(key="a")) == []
    session.done(effect, ProgramEnded(CallReturned("p", ActionStatus.COMPLETED, 5), 1))
    assert results(session)[-1] == 5


def test_a_wait_that_ended_without_an_event_leaves_the_next_one() -> None:
    session, effect = begun()
    timed = RequestedCall("", "wait_for", {"name": "paid", "until": moment(1_000).at})
    session.done(effect, ProgramPaused("p", 0, (timed,), "workflow/order@1"))
    session.turn()
    session.pass_ms(1_000)
    effect = due(session)
    session.tell(event())
    session.done(effect, ProgramPaused("p", 1, waits("paid"), "workflow/order@1"))
    session.turn()
    assert results(session) == [None, {"name": "paid", "data": 1}]


def test_too_many_events_fail_the_run() -> None:
    session, effect = begun(Rules(workflow_events_max=1))
    session.tell(event())
    session.done(effect, ProgramPaused("p", 0, waits("shipped"), "workflow/order@1"))
    assert "run.failed" in session.tell(event())
    assert session.tell(event()) == []


def test_a_call_of_that_name_by_a_program_of_a_model_is_a_call_of_a_tool() -> None:
    session = asked(calls(RequestedCall("p", "run_code", {})))
    (judge,) = session.turn()
    session.done(judge, allow("p", interpreter="monty/1"))
    session.done(due(session), ProgramPaused("p", 0, (*waits("paid"), *inner("look")), "monty/1"))
    session.tell(event())
    assert [one.key for one in session.turn()] == ["judge:p/0", "judge:p/1"]


def with_undo(session: Session) -> None:
    for effect in session.turn():
        assert isinstance(effect, JudgeCall)
        judged: CallJudged = replace(allow(effect.call_id, effect=EffectClass.IDEMPOTENT), undo="cancel")
        session.done(effect, judged)
    for effect in session.turn():
        assert isinstance(effect, RunTool)
        session.done(effect, CallReturned(effect.call_id, ActionStatus.COMPLETED, "done"))


def undo_calls(session: Session, taken: int) -> list[str]:
    """Let the workflow reverse its calls; return what is reversed, in order."""
    undo = RequestedCall("", "undo_calls", {})
    effect = session.under_way.get("call:p") or due(session)
    session.done(effect, ProgramPaused("p", taken, (undo,), "workflow/order@1"))
    return reverse_all(session)


def reverse_all(session: Session, *, status: ActionStatus = ActionStatus.COMPLETED) -> list[str]:
    keys: list[str] = []
    while judges := [one for one in session.turn() if isinstance(one, JudgeCall)]:
        (judge,) = judges
        session.done(judge, replace(allow(judge.call_id), arguments=judge.input))  # pyright: ignore[reportArgumentType]
        (run,) = session.turn()
        assert isinstance(run, RunTool)
        keys.append(run.idempotency_key)
        session.done(run, CallReturned(run.call_id, status, "gone", code="failed", message="No."))
    return keys


def test_calls_are_reversed_newest_first_with_keys_that_follow_from_theirs_and_once() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("book", "pay"), "workflow/order@1"))
    with_undo(session)
    keys = undo_calls(session, 2)
    assert keys == ["undo/r1%2F0%2Fp%2F1", "undo/r1%2F0%2Fp%2F0"]
    assert results(session)[-1] == {"reversed": 2}
    assert undo_calls(session, 3) == []
    assert results(session)[-1] == {"reversed": 0}


def test_a_call_that_could_not_be_reversed_fails_the_undo_and_is_tried_again_by_the_next() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("book"), "workflow/order@1"))
    with_undo(session)
    undo = RequestedCall("", "undo_calls", {})
    session.done(due(session), ProgramPaused("p", 1, (undo,), "workflow/order@1"))
    assert len(reverse_all(session, status=ActionStatus.FAILED)) == 1
    error = session.data("action.result")["error"]
    assert isinstance(error, dict)
    assert error["code"] == "not_reversed"
    assert len(undo_calls(session, 2)) == 1
    assert results(session)[-1] == {"reversed": 1}


def diverged(rules: Rules | None = None) -> tuple[Session, str]:
    session, effect = begun(rules)
    session.done(effect, ProgramPaused("p", 0, inner("look"), "workflow/order@1"))
    (run,) = start_all(session)
    session.done(run, CallReturned(run.call_id, ActionStatus.COMPLETED, 1))
    session = Session(session.records, epoch=2, ms=10)
    session.tell(SessionClaimed(2, "crashed"))
    effect = due(session)
    assert session.done(effect, ProgramDiverged("p", 1, "Call 0 was look, and is see.")) == [
        "recovery.effect_found",
        "input.requested",
    ]
    (request,) = session.state.session.requests.values()
    assert "Call 0 was look, and is see." in request.prompt
    assert is_divergence(request)
    assert session.turn() == []
    return session, request.request_id


def answer(request_id: str, option_id: str) -> AnswersGiven:
    return AnswersGiven((InputResponse(request_id=request_id, option_id=option_id),))


def test_a_function_that_went_another_way_is_run_again_when_a_person_says_so() -> None:
    session, request_id = diverged()
    session.tell(answer(request_id, "retry"))
    effect = due(session)
    assert len(effect.results) == 1
    session.done(effect, ProgramEnded(CallReturned("p", ActionStatus.COMPLETED, 5), 1))
    assert results(session)[-1] == 5


def test_a_function_that_went_another_way_fails_the_run_when_a_person_says_so() -> None:
    session, request_id = diverged()
    session.tell(answer(request_id, "skip"))
    session.turn()
    assert session.end == "failed"
    assert "went another way" in str(session.data("run.failed")["error"])


def test_a_divergence_that_is_out_of_date_is_dropped() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("look"), "workflow/order@1"))
    for call_id, taken in (("other", 0), ("p", -1)):
        assert session.tell(ProgramDiverged(call_id, taken, "x")) == []
