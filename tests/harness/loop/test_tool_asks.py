"""Tools that ask people, approvals with changed arguments, and calls that are reversed, in the loop."""

from dataclasses import replace

import pytest
from tests.harness.loop.stage import (
    ASK,
    DENY,
    Session,
    asked,
    call,
    calls,
    interrupt,
    judged,
    moment,
    returned,
    run_asked,
)

from windlass_harness.loop.advance import advance
from windlass_harness.loop.events import (
    AnswersGiven,
    CallAsks,
    CallModel,
    CallReturned,
    CancelRequested,
    EventSent,
    JudgeCall,
    RunTool,
    ToolWaits,
    WaitResult,
)
from windlass_harness.loop.people import refusal
from windlass_harness.loop.rules import RequestedCall, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.undo import key_of
from windlass_protocol import ActionStatus, EffectClass, InputResponse, JsonObject, JsonValue, ToolMessage
from windlass_protocol.bodies import data_of
from windlass_protocol.generated import records


def begun(
    effect: EffectClass = EffectClass.IDEMPOTENT, *, undo: str | None = None, rules: Rules | None = None
) -> tuple[Session, RunTool]:
    """A session in which a call of `book` runs."""
    session = asked(calls(call("book", city="Oslo")), rules=rules or Rules())
    return session, go_on(session, effect, undo=undo)


def go_on(
    session: Session, effect: EffectClass = EffectClass.IDEMPOTENT, *, undo: str | None = None
) -> RunTool:
    """Judge the only call that is to be judged; return the tool that runs then."""
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    session.done(judge, replace(judged(judge, kind=effect), undo=undo))
    (run,) = session.turn()
    assert isinstance(run, RunTool)
    return run


def asks(run: RunTool, *prompts: str) -> ToolWaits:
    questions = [CallAsks(run.call_id, {"prompt": one}, one, responders=("ann",)) for one in prompts]
    return ToolWaits(run.call_id, tuple(questions))


def reply(session: Session, request_id: str, text: str) -> list[str]:
    response = InputResponse(request_id=request_id, text=text, responder="ann")
    return session.tell(AnswersGiven((response,)))


def choose(session: Session, option_id: str, **more: JsonValue) -> list[str]:
    (request,) = session.state.session.requests.values()
    given = {"requestId": request.request_id, "optionId": option_id, "responder": "ann", **more}
    return session.tell(AnswersGiven((InputResponse.model_validate(given, by_alias=True, by_name=False),)))


def test_a_tool_that_asks_rests_until_all_its_questions_are_answered() -> None:
    session, run = begun(EffectClass.ONCE)
    drafted = session.done(run, asks(run, "From?", "To?"))
    assert drafted == ["program.paused", "actions.requested", "input.requested"]
    assert session.turn() == []
    assert session.data("run.waiting")["on"] == "input"
    first, second = session.state.session.requests
    reply(session, second, "Rome")
    assert session.turn() == []
    reply(session, first, "Oslo")
    again = go_on(session, EffectClass.ONCE)
    assert (again.attempt, again.idempotency_key) == (2, run.idempotency_key)
    assert again.waited == (
        WaitResult("ask_question", {"prompt": "From?"}, {"status": "answered", "text": "Oslo"}),
        WaitResult("ask_question", {"prompt": "To?"}, {"status": "answered", "text": "Rome"}),
    )
    session.done(again, returned(again.call_id, "booked"))
    assert session.turn() == [CallModel(1, 1)]
    assert isinstance(session.state.session.history.messages[-1], ToolMessage)


def test_the_policy_may_ask_or_deny_before_a_tool_goes_on() -> None:
    session, run = begun()
    session.done(run, asks(run, "From?"))
    (request_id,) = session.state.session.requests
    reply(session, request_id, "Oslo")
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    session.done(judge, judged(judge, ASK))
    assert session.turn() == []
    choose(session, "approve")
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    session.done(judge, judged(judge, DENY))
    assert session.turn() == [CallModel(1, 1)]


def test_events_of_a_tool_that_rests_or_ended_change_nothing() -> None:
    session, run = begun()
    session.done(run, asks(run, "From?"))
    assert session.tell(asks(run, "To?")) == []
    assert session.tell(replace(asks(run, "To?"), call_id="other")) == []
    session.tell(CancelRequested("r1"))
    assert session.tell(asks(run, "To?")) == []


def test_a_tool_that_asks_too_much_fails() -> None:
    session, run = begun(rules=Rules(program_calls_max=1))
    assert session.done(run, asks(run, "From?", "To?")) == ["action.result"]
    assert session.data("action.result")["error"]["code"] == "too_many_calls"  # type: ignore[index]


@pytest.mark.parametrize(("is_answered", "told"), [(False, "waited for an answer"), (True, "interrupted")])
def test_the_end_of_a_run_says_whether_a_tool_waited_or_ran(is_answered: bool, told: str) -> None:
    session, run = begun()
    session.done(run, asks(run, "From?"))
    if is_answered:
        (request_id,) = session.state.session.requests
        reply(session, request_id, "Oslo")
        again = go_on(session)
        session.under_way.pop(again.key)
    session.tell(CancelRequested("r1"))
    session.turn()
    assert session.end == "cancelled"
    assert told in session.data("action.result")["error"]["message"]  # type: ignore[index]


def test_lines_of_a_tool_are_recorded_with_its_result() -> None:
    session, run = begun()
    session.done(run, replace(returned(run.call_id), log=("one", "two")))
    assert session.data("action.result")["log"] == ["one", "two"]


def test_a_pause_of_an_unknown_program_is_ignored() -> None:
    session, run = begun()
    place = session.state.place()
    body = records.ProgramPaused(call_id="other", taken=0, interpreter="monty/1", **place)
    session.write(body.TYPE, data_of(body))
    assert session.state.note("other").program is None
    assert run.waited == ()


def sleeping(run: RunTool, until: str) -> ToolWaits:
    return ToolWaits(run.call_id, (RequestedCall("", "sleep", {"until": until}),))


def test_a_tool_that_sleeps_rests_until_its_time_and_the_run_says_when_to_wake() -> None:
    session, run = begun(EffectClass.ONCE)
    until = session.now.at.replace("Z", "100Z")
    assert session.done(run, sleeping(run, until)) == ["program.paused", "actions.requested"]
    assert session.turn() == []
    assert session.data("run.waiting")["on"] == "timer"
    assert session.plan().wake_at_ms == session.now.ms + 1, "not a part of a millisecond early"
    session.pass_ms(1)
    again = go_on(session, EffectClass.ONCE)
    assert again.waited == (WaitResult("sleep", {"until": until}, None),)


def test_a_tool_that_waits_for_an_event_takes_the_oldest_of_its_name() -> None:
    session, run = begun()
    for number in (1, 2):
        session.tell(EventSent(records.RunEventReceived(run_id="r1", name="paid", data=number)))
    session.done(run, ToolWaits(run.call_id, (RequestedCall("", "wait_for", {"name": "paid"}),)))
    again = go_on(session)
    assert again.waited == (WaitResult("wait_for", {"name": "paid"}, {"name": "paid", "data": 1}),)
    assert session.state.run_notes.events == {"paid": [2]}


def test_the_timeout_of_an_event_ends_the_wait_without_one() -> None:
    session, run = begun()
    arguments: JsonObject = {"name": "paid", "until": moment(1_000).at}
    session.done(run, ToolWaits(run.call_id, (RequestedCall("", "wait_for", arguments),)))
    assert session.turn() == []
    session.pass_ms(1_000)
    assert go_on(session).waited == (WaitResult("wait_for", arguments, None),)


# changed arguments


def approving() -> Session:
    session = asked(calls(call("pay", cents=900)))
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    session.done(judge, judged(judge, ASK))
    session.turn()
    return session


def test_a_call_is_judged_with_the_arguments_that_a_person_approved() -> None:
    session = approving()
    assert choose(session, "approve", arguments={"cents": 5}) == [
        "input.resolved",
        "approval.settled",
        "message.received",
    ]
    assert session.data("approval.settled")["arguments"] == {"cents": 5}
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    assert (judge.input, judge.is_changed) == ({"cents": 5}, True)
    session.done(judge, judged(judge))
    (run,) = session.turn()
    assert isinstance(run, RunTool)
    assert run.arguments == {"cents": 5}
    session.done(run, returned(run.call_id))
    session.turn()
    context = session.data("message.received")["context"]
    assert isinstance(context, list)
    assert str(context[0]).endswith('The approved arguments are: {"cents":5}')


def test_a_change_is_forgotten_when_a_person_is_asked_again() -> None:
    session = approving()
    choose(session, "approve", arguments={"cents": 5})
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    session.done(judge, judged(judge, ASK))
    session.turn()
    choose(session, "approve")
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    assert (judge.input, judge.is_changed) == ({"cents": 5}, False)


def test_only_the_option_approve_changes_arguments() -> None:
    session = approving()
    (request,) = session.state.session.requests.values()
    response = InputResponse(request_id=request.request_id, option_id="deny", arguments={"cents": 5})
    assert "only with the option approve" in str(refusal(request, response, now_ms=0))
    question = request.model_copy(update={"kind": "question", "arguments_hash": None})
    response = response.model_copy(update={"option_id": "approve"})
    assert "no approval" in str(refusal(question, response, now_ms=0))


def test_a_role_of_the_responder_may_be_among_the_responders() -> None:
    (request,) = approving().state.session.requests.values()
    request = request.model_copy(update={"responders": ("approver",)})
    response = InputResponse(request_id=request.request_id, option_id="approve", responder="ann")
    assert refusal(request, response, now_ms=0) is not None
    assert refusal(request, response.model_copy(update={"roles": ("approver",)}), now_ms=0) is None


# undo


def item(number: int) -> JsonObject:
    return {
        "callId": f"c{number}",
        "toolName": "book",
        "undoName": "unbook",
        "arguments": {"city": "Oslo"},
        "result": "booked",
        "idempotencyKey": f"r0/{number}/c",
    }


def undoing(*items: JsonObject) -> Session:
    session = Session()
    session.tell(run_asked("u1", undo={"runId": "r0", "calls": [*items]}))
    return session


def test_a_run_that_reverses_calls_makes_one_call_a_step_and_asks_no_model() -> None:
    session = undoing(item(2), item(1))
    for number in (2, 1):
        run = go_on(session)
        key = key_of(f"r0/{number}/c")
        assert (run.call_id, run.idempotency_key, run.tool_name) == (key, key, "unbook")
        given = run.arguments["call"]
        assert isinstance(given, dict)
        assert (given["result"], given["idempotency_key"]) == ("booked", f"r0/{number}/c")
        session.done(run, returned(run.call_id))
    assert session.turn() == []
    assert (session.end, session.data("run.completed")["output"]) == (
        "completed",
        "Reversed 2 calls of run r0.",
    )
    assert "modelId" not in session.data("step.started")


def test_a_run_that_could_not_reverse_a_call_goes_on_and_fails_at_its_end() -> None:
    session = undoing(item(2), item(1))
    run = go_on(session)
    session.done(run, CallReturned(run.call_id, ActionStatus.FAILED, None, code="failed", message="closed"))
    run = go_on(session)
    after = interrupt(session, len(session.records))
    run = go_on(after)
    after.done(run, returned(run.call_id))
    after.turn()
    assert after.end == "failed"
    assert "1 of 2 calls were not reversed: unbook." in after.data("run.failed")["error"]["message"]  # type: ignore[index]


def test_a_loaded_session_knows_which_calls_were_not_reversed() -> None:
    session = undoing(item(2), item(1))
    run = go_on(session)
    session.done(run, CallReturned(run.call_id, ActionStatus.FAILED, None, code="failed", message="closed"))
    run = go_on(session)
    state = LoopState()
    state.apply_all(session.records)
    assert state.run_notes.unreversed == ["unbook"]
    assert advance(session.state, {run.key}, now=session.now).is_empty


def interrupted() -> Session:
    session, _ = begun(EffectClass.ONCE, undo="unbook")
    after = interrupt(session, len(session.records))
    after.turn()
    (request,) = after.state.session.requests.values()
    assert [one.id for one in request.options or ()] == ["retry", "skip", "supply", "undo"]
    return after


def test_an_interrupted_call_is_reversed_by_a_call_of_its_own() -> None:
    session = interrupted()
    assert choose(session, "undo") == ["input.resolved", "recovery.effect_settled"]
    run = go_on(session, EffectClass.ONCE)
    key = key_of("r1/0/c-book")
    assert (run.tool_name, run.call_id, run.idempotency_key) == ("unbook", key, key)
    assert run.arguments["call"] == {
        "call_id": "c-book",
        "tool_name": "book",
        "arguments": {"city": "Oslo"},
        "result": None,
        "idempotency_key": "r1/0/c-book",
    }
    assert session.turn() == []
    session.done(run, returned(run.call_id))
    assert session.turn() == [CallModel(1, 1)]
    assert session.data("action.result")["error"]["code"] == "undone"  # type: ignore[index]


def test_a_reversal_that_fails_asks_again_and_the_next_one_has_the_same_key() -> None:
    session = interrupted()
    choose(session, "undo")
    run = go_on(session, EffectClass.ONCE)
    session.done(run, CallReturned(run.call_id, ActionStatus.FAILED, None, code="failed", message="closed"))
    session.turn()
    choose(session, "undo")
    again = go_on(session, EffectClass.ONCE)
    assert again.call_id != run.call_id
    assert again.idempotency_key == run.idempotency_key
    session.done(again, returned(again.call_id))
    assert session.turn() == [CallModel(1, 1)]
