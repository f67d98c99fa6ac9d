"""Interruption limits: an effect that always ends its process is not repeated without end."""

import pytest
from tests.harness.loop.stage import (
    ASK,
    CONSENT,
    DENY,
    Session,
    asked,
    begin_all,
    call,
    calls,
    interrupt,
    judge_all,
    moment,
    returned,
    run_asked,
    says,
)

from windlass_harness.loop.events import (
    AnswersGiven,
    ApprovalRequest,
    CallModel,
    CallReturned,
    CallUnbegun,
    CancelRequested,
    IsolationEnded,
    JudgeCall,
    RunTool,
    SessionClaimed,
    SessionReleased,
)
from windlass_harness.loop.outage import (
    ISOLATED_INTERRUPTIONS_MAX,
    SHARED_INTERRUPTIONS_MAX,
)
from windlass_harness.loop.outage import (
    crashes as crashes_of,
)
from windlass_harness.loop.rules import AWAKE_MS_MAX, INTERRUPTIONS_MAX, Rules
from windlass_protocol import ActionStatus, ErrorInfo, InputResponse


def crash(session: Session) -> Session:
    """The process ends; the next one has nothing but the records."""
    return interrupt(session, len(session.records), epoch=session.epoch + 1)


def crashes(session: Session, times: int) -> Session:
    """The process ends whenever something has begun."""
    for _ in range(times):
        assert judge_all(session) or session.under_way, "something begins"
        session.turn()
        session = crash(session)
    return session


def begun(tool: str, rules: Rules | None = None) -> Session:
    """A session in which a call of a tool has just begun, and its process ended."""
    session = asked(calls(call(tool)), rules=rules or Rules())
    assert [effect.tool_name for effect in begin_all(session)] == [tool]
    return crash(session)


@pytest.mark.parametrize("tool", ["look", "put"])
def test_a_call_that_ends_its_process_each_time_is_asked_about_in_the_end(tool: str) -> None:
    session = crashes(begun(tool), INTERRUPTIONS_MAX - 1)
    assert session.turn() == []
    assert session.types.count("action.started") == INTERRUPTIONS_MAX
    assert session.types[-4:] == ["recovery.effect_found", "input.requested", "turn.waiting", "run.waiting"]
    (request,) = session.state.session.requests.values()
    assert request.kind == "recovery"
    assert [option.id for option in request.options or ()] == ["retry", "skip", "supply"]
    assert f"{INTERRUPTIONS_MAX} times" in request.prompt
    assert session.data("recovery.effect_found")["requestId"] == request.request_id
    again = crash(session)
    assert again.turn() == [], "and the question outlives a crash"
    assert again.types.count("input.requested") == 1


def test_calls_are_counted_each_for_itself_and_an_end_of_one_ends_its_count() -> None:
    session = asked(calls(call("look"), call("put")))
    first, _ = begin_all(session)
    session.done(first, CallReturned(first.call_id, ActionStatus.COMPLETED, "found"))
    session = crashes(crash(session), INTERRUPTIONS_MAX - 1)
    session.turn()
    (request,) = session.state.session.requests.values()
    assert request.action.call_id == "c-put"


def test_the_interruption_limit_comes_from_the_rules() -> None:
    session = begun("look", Rules(interruptions_max=1))
    assert session.turn() == []
    assert session.types.count("action.started") == 1
    assert len(session.state.session.requests) == 1


def ended(session: Session) -> ErrorInfo:
    session.turn()
    assert session.end == "failed"
    return ErrorInfo.model_validate(session.data("run.failed")["error"])


def test_an_owner_that_lets_go_in_order_does_not_count() -> None:
    session = Session()
    session.tell(run_asked())
    for _ in range(3 * INTERRUPTIONS_MAX):
        (effect,) = session.turn()
        assert isinstance(effect, CallModel)
        assert session.tell(SessionReleased()) == ["step.retrying"]
        assert session.data("step.retrying")["code"] == "handed_over"
        session = crash(session)
        assert session.types[-1] == "step.retrying", "nothing has to be recovered"
    (effect,) = session.turn()
    session.done(effect, says())
    session.turn()
    assert session.end == "completed"


def test_a_handover_records_nothing_about_effects_of_an_older_owner() -> None:
    session = Session()
    session.tell(run_asked())
    session.turn()
    session = crash(session)
    assert session.tell(SessionReleased()) == []
    idle = Session()
    assert idle.tell(SessionReleased()) == []
    running = asked(calls(call("look")))
    assert isinstance(begin_all(running)[0], RunTool)
    assert running.tell(SessionReleased()) == []


# calls that never began


def test_a_call_that_never_began_is_made_by_the_next_owner_however_often_it_is_passed_on() -> None:
    session = asked(calls(call("send")))
    for _ in range(3 * INTERRUPTIONS_MAX):
        (effect,) = begin_all(session)
        assert session.done(effect, CallUnbegun(effect.call_id)) == ["recovery.effect_found"]
        assert session.data("recovery.effect_found")["begun"] is False
        assert session.tell(CallUnbegun(effect.call_id)) == [], "once is enough"
        session = crash(session)
        assert session.types[-1] == "recovery.effect_found", "nothing has to be recovered"
    (effect,) = begin_all(session)
    session.done(effect, returned(effect.call_id))
    (model,) = session.turn()
    assert isinstance(model, CallModel)


def test_only_a_call_that_has_not_ended_can_have_not_begun() -> None:
    session = asked(calls(call("send")))
    assert session.tell(CallUnbegun("c-send")) == [], "it was not approved"
    (effect,) = begin_all(session)
    session.done(effect, returned(effect.call_id))
    assert session.tell(CallUnbegun("c-send")) == []


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_run_that_ends_says_which_calls_never_began(attempts: int) -> None:
    session = asked(calls(call("put")))
    for _ in range(attempts - 1):
        begin_all(session)
        session = crash(session)
    (effect,) = begin_all(session)
    session.done(effect, CallUnbegun(effect.call_id))
    session.tell(CancelRequested("r1"))
    session.turn()
    error = session.data("action.result")["error"]
    assert isinstance(error, dict)
    assert error["code"] == ("cancelled" if attempts == 1 else "outcome_unknown")
    assert ("error" in session.data("run.cancelled")) == (attempts > 1)


@pytest.mark.parametrize("ms", [4_999, 5_000])
def test_a_call_that_never_began_has_not_used_its_consent_nor_does_that_outlive_its_request(ms: int) -> None:
    session = asked(calls(call("send")))
    judge_all(session, ASK, approval_request=ApprovalRequest("May I?", expires_at=moment(5_000).at))
    session.turn()
    (request_id,) = session.state.session.requests
    session.tell(AnswersGiven((InputResponse(request_id=request_id, option_id="approve"),)))
    judge_all(session, CONSENT)
    (effect,) = session.turn()
    session.done(effect, CallUnbegun("c-send"))
    session.ms = ms
    session = crash(session)
    (judge,) = session.turn()
    assert isinstance(judge, JudgeCall)
    assert (judge.approved_hash is None) == (ms == 5_000)


def test_a_call_that_never_began_and_is_denied_now_was_not_interrupted() -> None:
    session = asked(calls(call("send")))
    (effect,) = begin_all(session)
    session.done(effect, CallUnbegun(effect.call_id))
    session = crash(session)
    judge_all(session, DENY)
    error = session.data("action.result")["error"]
    assert error == {"code": "no", "message": "not allowed"}


# processes that end while other runs are at work


def crash_with_others(session: Session) -> Session:
    """The process ends while other sessions are at work too."""
    again = Session(session.records, epoch=session.epoch + 1, rules=session.rules, ms=session.ms)
    again.tell(SessionClaimed(again.epoch, "recovery", is_alone=False))
    return again


def test_a_model_call_is_not_blamed_for_a_process_that_others_shared() -> None:
    session = Session()
    session.tell(run_asked())
    pauses: list[int] = []
    for _ in range(SHARED_INTERRUPTIONS_MAX - 1):
        session.turn()
        assert CallModel.key in session.under_way
        session = crash_with_others(session)
        assert session.data("recovery.started")["shared"] is True
        session.turn()
        told = session.data("step.retrying")
        assert (told["code"], told["shared"]) == ("interrupted", True)
        pauses.append(int(str(told["delayMs"])))
        session.pass_ms(pauses[-1])
    assert pauses[0] == 0, "a first end of the process delays nothing"
    assert all(500 * 2**at <= pause <= 1_500 * 2**at for at, pause in enumerate(pauses[1:8]))
    assert max(pauses) <= 900_000
    waits = session.all("run.waiting")
    assert len(waits) == sum(pause > AWAKE_MS_MAX for pause in pauses) > 0
    assert waits[-1]["on"] == "recovery"
    assert "process ended" in str(waits[-1]["reason"])
    (effect,) = session.turn()
    session.done(effect, says())
    session.turn()
    assert session.end == "completed"


def test_only_ends_of_a_process_without_others_are_counted() -> None:
    session = Session()
    session.tell(run_asked())
    for _ in range(INTERRUPTIONS_MAX - 1):
        session.turn()
        session = crash_with_others(session)
        session.turn()
        session.pass_ms(900_000)
        session.turn()
        session = crash(session)
    error = ended(crashes(session, 1))
    assert error.details == {"reason": "interrupted_too_often", "attempts": INTERRUPTIONS_MAX}


def test_a_model_call_is_not_repeated_for_ever_beside_others() -> None:
    session = Session()
    session.tell(run_asked())
    for _ in range(SHARED_INTERRUPTIONS_MAX):
        session.turn()
        session = crash_with_others(session)
        session.turn()
        session.pass_ms(900_000)
    assert f"The process ended {SHARED_INTERRUPTIONS_MAX} times" in ended(session).message


# suspects


def take_over(
    session: Session, *, is_alone: bool = False, is_isolated: bool = False, survived: tuple[int, ...] = ()
) -> Session:
    """Another owner takes the session over."""
    again = Session(session.records, epoch=session.epoch + 1, rules=session.rules, ms=session.ms)
    claimed = SessionClaimed(
        again.epoch, "recovery", is_alone=is_alone, is_isolated=is_isolated, survived=survived
    )
    again.tell(claimed)
    return again


def suspect() -> Session:
    """A session whose model call was interrupted twice beside others, and which is the only suspect now."""
    session = Session()
    session.tell(run_asked())
    session.turn()
    session = take_over(session)
    session.turn()
    assert len(crashes_of(session.state)) == 1
    session = take_over(session, is_isolated=True)
    assert session.data("recovery.started")["isolated"] is True
    session.turn()
    assert session.data("step.retrying")["delayMs"] == 0, "it has waited for its turn"
    assert CallModel.key in session.under_way
    return session


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_suspect_that_ends_a_process_without_other_suspects_is_not_repeated(is_alone: bool) -> None:
    session = take_over(suspect(), is_alone=is_alone)
    assert f"The process ended {ISOLATED_INTERRUPTIONS_MAX} times" in ended(session).message


def test_a_suspect_that_outlives_its_turn_is_blamed_like_others() -> None:
    session = suspect()
    assert session.tell(IsolationEnded()) == ["recovery.completed"]
    assert session.tell(IsolationEnded()) == []
    session = take_over(session)
    session.turn()
    assert int(str(session.data("step.retrying")["delayMs"])) > 0


def test_a_suspect_whose_call_ends_is_none_any_more() -> None:
    session = suspect()
    (effect,) = session.under_way.values()
    session.done(effect, says())
    assert crashes_of(session.state) == ()
    session.turn()
    assert session.end == "completed"


# owners that lose a session and go on


def test_an_owner_that_went_on_did_not_end() -> None:
    session = begun("look")
    for _ in range(3 * INTERRUPTIONS_MAX):
        judge_all(session)
        session.turn()
        session = take_over(session, is_alone=True, survived=tuple(range(session.epoch + 1)))
        assert crashes_of(session.state) == ()
        session.turn()
        pause = session.data("recovery.effect_found").get("delayMs") or 0
        assert int(str(pause)) <= 10_500
        session.pass_ms(10_500)
    assert not session.state.session.requests, "no person is asked"
    assert "input.requested" not in session.types


def test_an_owner_is_known_to_have_gone_on_only_later() -> None:
    session = Session()
    session.tell(run_asked())
    for _ in range(INTERRUPTIONS_MAX - 1):
        session.turn()
        session = crash(session)
    session.turn()
    assert len(crashes_of(session.state)) == INTERRUPTIONS_MAX - 1
    session = take_over(session, is_alone=True, survived=tuple(range(session.epoch)))
    session.turn()
    assert len(crashes_of(session.state)) == 1
    waits = session.all("run.waiting")
    assert all("taken from its process" in str(wait["reason"]) for wait in waits)
