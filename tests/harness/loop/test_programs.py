"""Programs in the loop: their calls, pauses, results and ends; and what a new owner finds."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic_core import to_json
from tests.harness.loop.stage import Session, asked, call, calls, interrupt, returned, says

from windlass_harness.loop.events import (
    AnswersGiven,
    CallJudged,
    CallReturned,
    CancelRequested,
    Effect,
    JudgeCall,
    ProgramEnded,
    ProgramPaused,
    RunProgram,
    RunTool,
    SessionClaimed,
    SessionReleased,
)
from windlass_harness.loop.notes import ProgramVariables
from windlass_harness.loop.rules import INTERRUPTIONS_MAX, RequestedCall, Rules
from windlass_harness.loop.state import LoopState, dump_loop, load_loop
from windlass_harness.views.session import fold_session
from windlass_protocol import (
    ActionStatus,
    AllowDecision,
    EffectClass,
    InputResponse,
    JsonObject,
    JsonValue,
    RecoveryChoice,
    ToolMessage,
    ToolMode,
)
from windlass_protocol.bodies import data_of
from windlass_protocol.generated import records

CODE: JsonObject = {"code": "…"}
SNAPSHOT = records.ContentRef(content_id="s", hash="sha256:" + "0" * 64, size_bytes=4)


def allow(
    call_id: str, *, interpreter: str | None = None, effect: EffectClass = EffectClass.READ
) -> CallJudged:
    return CallJudged(
        call_id,
        AllowDecision(code="ok", reason="It may.", policy_refs=()),
        effect=effect,
        mode=ToolMode.READ,
        arguments=CODE if interpreter else {"item": "x"},
        arguments_hash="sha256:" + "1" * 64,
        interpreter=interpreter,
    )


def begun(rules: Rules | None = None, *beside: RequestedCall) -> tuple[Session, RunProgram]:
    """A session in which a program begins."""
    program = RequestedCall("p", "run_code", CODE)
    session = asked(calls(program, *beside), rules=rules or Rules())
    for effect in session.turn():
        assert isinstance(effect, JudgeCall)
        kind = "monty/1" if effect.call_id == "p" else None
        session.done(effect, allow(effect.call_id, interpreter=kind))
    (effect,) = (one for one in session.turn() if isinstance(one, RunProgram))
    return session, effect


def inner(*names: str) -> tuple[RequestedCall, ...]:
    return tuple(RequestedCall("", name, {"item": name}) for name in names)


def tools(effects: Sequence[Effect]) -> list[str]:
    return [effect.call_id for effect in effects if isinstance(effect, RunTool)]


def start_all(session: Session, effect: EffectClass = EffectClass.READ) -> list[RunTool]:
    """Allow and begin every call that is asked for."""
    for one in session.turn():
        assert isinstance(one, JudgeCall)
        assert one.is_inner
        session.done(one, allow(one.call_id, effect=effect))
    return [one for one in session.turn() if isinstance(one, RunTool)]


def ended(output: JsonValue = 5) -> CallReturned:
    return CallReturned("p", ActionStatus.COMPLETED, output)


def due(session: Session) -> RunProgram:
    (effect,) = (one for one in session.turn() if isinstance(one, RunProgram))
    return effect


def test_a_program_takes_results_in_the_order_of_their_records_and_ends() -> None:
    session, effect = begun()
    assert (effect.calls, effect.results, effect.taken) == ((), (), 0)
    pause = ProgramPaused("p", 0, inner("look", "see"), "monty/1", SNAPSHOT, "half")
    assert session.done(effect, pause) == ["program.paused", "actions.requested"]
    assert session.data("actions.requested")["parentCallId"] == "p"
    first, second = start_all(session)
    assert (first.call_id, second.call_id) == ("p/0", "p/1")
    session.done(second, returned(second.call_id, output={"n": 2}))
    effect = due(session)
    assert [one.call_id for one in effect.results] == ["p/1"]
    assert (effect.snapshot, effect.printed, effect.taken) == (SNAPSHOT, "half", 0)
    assert effect.calls == (("p/0", "look", {"item": "look"}), ("p/1", "see", {"item": "see"}))
    assert session.done(effect, ProgramPaused("p", 1, printed="half a line")) == ["program.paused"]
    assert session.data("program.paused")["printed"] == " a line"
    assert session.turn() == []
    session.done(first, returned(first.call_id))
    effect = due(session)
    assert [one.call_id for one in effect.results] == ["p/1", "p/0"]
    assert effect.snapshot is None
    assert session.done(effect, ProgramEnded(ended(), 2)) == ["action.result"]
    (step,) = session.turn()
    session.done(step, says())
    session.turn()
    assert session.end == "completed"


def test_the_history_has_the_program_and_no_call_of_it() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("look")))
    (one,) = start_all(session)
    session.done(one, returned(one.call_id))
    session.done(due(session), ProgramEnded(ended(), 1))
    messages = fold_session(session.records).history.messages
    (result,) = (message for message in messages if isinstance(message, ToolMessage))
    assert [part.tool_call_id for part in result.content if part.type == "tool-result"] == ["p"]
    assert "p/0" not in str(messages)


def test_a_failed_program_that_ended_with_open_calls_fails_after_them() -> None:
    session, effect = begun()
    failed = CallReturned(
        "p", ActionStatus.FAILED, None, code="program_failed", message="oops", content=SNAPSHOT
    )
    session.done(effect, ProgramEnded(failed, 0, inner("look")))
    (one,) = start_all(session)
    session.done(one, returned(one.call_id))
    session.turn()
    data = session.data("action.result")
    told = "oops\nCalls of it that had begun: look (1). Their effects remain."
    assert (data["status"], data["error"]) == ("failed", {"code": "program_failed", "message": told})
    assert data["contentRef"] == data_of(SNAPSHOT)


def test_a_failed_program_without_words_fails() -> None:
    session, effect = begun()
    session.done(effect, ProgramEnded(CallReturned("p", ActionStatus.FAILED, None), 0))
    assert session.data("action.result")["error"] == {"code": "failed", "message": "It failed."}


def crash(session: Session, *, is_alone: bool = True) -> Session:
    """The process ends; the next one has nothing but the records."""
    after = Session(session.records, epoch=session.epoch + 1, rules=session.rules, ms=session.ms)
    after.tell(SessionClaimed(after.epoch, "recovery", is_alone=is_alone))
    return after


def test_ends_of_a_process_are_counted_from_the_last_pause_of_a_program() -> None:
    session, _ = begun()
    for _ in range(INTERRUPTIONS_MAX - 1):
        session = crash(session)
    session.done(due(session), ProgramPaused("p", 0, inner("look")))
    (one,) = start_all(session)
    session.done(one, returned(one.call_id))
    for _ in range(INTERRUPTIONS_MAX - 1):
        assert [one.call_id for one in due(session).results] == ["p/0"]
        session = crash(session)
    session.done(due(session), ProgramEnded(ended(), 1))
    assert session.data("action.result")["status"] == "completed"
    assert session.end is None


def test_the_run_of_a_program_that_ends_its_process_fails_after_the_calls_that_are_under_way() -> None:
    session, effect = begun(Rules(interruptions_max=1))
    session.done(effect, ProgramPaused("p", 0, inner("look", "see")))
    first, second = start_all(session)
    session.done(first, returned(first.call_id))
    session = crash(session)
    session.under_way[second.key] = second
    assert session.turn() == []
    assert session.end is None
    session.done(second, returned(second.call_id))
    # Its result gave the program to the new owner, so that nothing was interrupted there.
    assert [one.call_id for one in due(session).results] == ["p/0", "p/1"]


def test_a_program_is_run_again_after_a_pause_when_others_shared_its_process() -> None:
    session, effect = begun()
    for times in range(2 * INTERRUPTIONS_MAX):
        session = crash(session, is_alone=False)
        if times:
            assert session.turn() == []
            wake_at_ms = session.plan().wake_at_ms
            assert wake_at_ms is not None
            session.pass_ms(wake_at_ms - session.now.ms)
        assert due(session) == effect
        assert session.data("recovery.effect_found")["shared"] is True
    assert session.end is None


def test_a_program_that_is_released_in_order_was_not_interrupted() -> None:
    session, effect = begun()
    for _ in range(3 * INTERRUPTIONS_MAX):
        assert session.tell(SessionReleased()) == ["recovery.effect_found"]
        assert session.data("recovery.effect_found")["begun"] is False
        assert session.tell(SessionReleased()) == [], "once is enough"
        session = crash(session)
        assert "recovery.started" not in session.types
        assert due(session) == effect
    for _ in range(INTERRUPTIONS_MAX):
        session = crash(session)
        session.turn()
    assert session.end == "failed", "an end of the process after a release counts"


def test_a_skipped_call_is_a_result_of_the_program() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("pay")))
    start_all(session, effect=EffectClass.ONCE)
    session = interrupt(session, len(session.records), epoch=2)
    session.turn()
    (request,) = session.state.session.requests
    answer = InputResponse(request_id=request, option_id=RecoveryChoice.SKIP.value)
    session.tell(AnswersGiven((answer,)))
    (result,) = due(session).results
    assert (result.call_id, result.code) == ("p/0", "skipped")
    # An early journal has the decision alone.
    state = LoopState()
    kept = [record for record in session.records if record.type != "action.result"]
    for seq, record in enumerate(kept, 1):
        state.apply(replace(record, seq=seq))
    program = state.note("p").program
    assert program is not None
    assert program.results == [result]


def test_too_many_calls_end_the_program() -> None:
    for event in (
        ProgramPaused("p", 0, inner("a", "b", "c")),
        ProgramEnded(ended(), 0, inner("a", "b", "c")),
    ):
        session, effect = begun(Rules(program_calls_max=2))
        assert session.done(effect, event) == ["action.result"]
        error = session.data("action.result")["error"]
        assert isinstance(error, dict)
        assert error["code"] == "too_many_calls"


def test_an_event_that_is_out_of_date_is_dropped() -> None:
    session, effect = begun()
    assert session.tell(ProgramPaused("unknown", 0)) == []
    assert session.tell(ProgramEnded(CallReturned("unknown", ActionStatus.COMPLETED, 1), 0)) == []
    session.done(effect, ProgramPaused("p", 0, inner("look")))
    assert session.tell(ProgramPaused("p", 0)) == []
    session.tell(CancelRequested("r1"))
    assert session.tell(ProgramPaused("p", 1)) == []
    assert session.tell(ProgramEnded(ended(), 1)) == []


def test_an_id_that_the_model_chose_for_another_call_is_not_used() -> None:
    session, effect = begun(None, call("look", "p/0"))
    session.done(effect, ProgramPaused("p", 0, inner("see")))
    (action,) = session.data("actions.requested")["actions"]  # type: ignore[misc]
    assert isinstance(action, dict)
    assert action["callId"] == "p%2F0/again"


def test_subagents_of_a_program_are_subagent_calls() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, (RequestedCall("", "helper", {"message": "go"}, "helper"),)))
    assert session.data("actions.requested")["actions"] == [
        {
            "kind": "subagent-call",
            "callId": "p/0",
            "name": "helper",
            "subagentName": "helper",
            "input": {"message": "go"},
        }
    ]


def stopped(session: Session) -> str:
    session.tell(CancelRequested("r1"))
    session.turn()
    results = (record.data for record in session.records if record.type == "action.result")
    (data,) = (data for data in results if '"p"' in to_json(data["result"]).decode())
    error = data["error"]
    assert isinstance(error, dict)
    return str(error["message"])


def test_a_program_that_is_stopped_tells_which_calls_had_begun() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("look", "look", "see")))
    for one in start_all(session):
        session.done(one, returned(one.call_id))
    session.done(due(session), ProgramPaused("p", 3, inner("later")))
    told = "No result: the program was stopped. Calls of it that had begun: look (2), see (1). "
    assert stopped(session) == f"{told}Their effects remain."


def test_a_program_that_is_stopped_at_once_tells_that_no_call_had_begun() -> None:
    session, effect = begun()
    session.done(effect, ProgramPaused("p", 0, inner("look")))
    assert stopped(session) == "No result: the program was stopped before a call of it began."


def test_variables_of_a_program_are_what_the_next_one_begins_with() -> None:
    session, effect = begun()
    assert effect.variables is None
    variables = ProgramVariables("monty/1", SNAPSHOT, ("total",))
    assert session.done(effect, ProgramEnded(ended(), 0, variables=variables)) == ["program.ended"]
    session.done(session.turn()[0], calls(RequestedCall("q", "run_code", CODE)))
    (judge,) = session.turn()
    session.done(judge, allow("q", interpreter="monty/1"))
    assert due(session).variables == variables
    loaded = load_loop(dump_loop(session.state))
    assert loaded is not None
    assert loaded.variables == variables
    assert interrupt(session, len(session.records), epoch=2).state.variables == variables


def test_calls_of_an_unknown_program_are_kept() -> None:
    session = asked(calls(call("look")))
    place: JsonObject = {"sequence": 0, "turnId": "turn_0", "stepIndex": 0}
    action: JsonObject = {"kind": "tool-call", "callId": "x/0", "toolName": "see", "input": {}}
    session.write("actions.requested", {"actions": [action], "parentCallId": "x", **place})
    session.write("program.paused", {"callId": "x", "taken": 0, "interpreter": "monty 1", **place})
    session.write("program.ended", {"callId": "x", "taken": 0, "status": "completed", "output": 1, **place})
    assert "x/0" in [one.call_id for one in session.state.session.history.open_calls()]
