"""Hooks of the run itself: when they are due, and that they are due once."""

from dataclasses import replace
from typing import Any

from tests.harness.loop.stage import ASK, Session, call, calls, judged, run_asked, says

from windlass_harness.loop.events import (
    AnswersGiven,
    CallHooks,
    CallRefused,
    CancelRequested,
    CheckOutput,
    Effect,
    HooksRan,
    JudgeCall,
    OutputChecked,
    is_errand,
)
from windlass_harness.loop.notes import HookNotes
from windlass_harness.loop.rules import (
    AFTER_APPROVAL_DECISION,
    AFTER_RUN_TERMINAL,
    BEFORE_RUN_COMPLETE,
    BEFORE_TOOL_CALL,
    ON_RUN_CANCEL_REQUESTED,
    RUN_STARTING,
    Rules,
)
from windlass_protocol import (
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    HookStatus,
    InputResponse,
    JsonObject,
    RetryClass,
)
from windlass_protocol.generated import records

STOP: JsonObject = ErrorInfo(
    code=ErrorCode.DENIED,
    kind=ErrorKind.HOOK_FAILURE,
    retry=RetryClass.NOT_RETRYABLE,
    message="hook h failed",
).model_dump(mode="json", by_alias=True)
CONTRACT: JsonObject = {
    "schemaId": "answer",
    "schemaVersion": {"major": 1, "minor": 0, "patch": 0},
    "schema": {"type": "integer"},
}


def session(*points: str, vetoes: int = 3) -> Session:
    return Session(rules=Rules(hook_points=frozenset(points), completion_vetoes_max=vetoes))


def note(point: str, call_id: str | None = None, **more: Any) -> records.HookCompleted:
    return records.HookCompleted(
        hook_id="h", point=point, status=HookStatus.COMPLETED, call_id=call_id, **more
    )


def ran(point: str, *, veto: str | None = None, context: tuple[str, ...] = (), **more: Any) -> HooksRan:
    told: dict[str, Any] = {"vetoed": True} if veto else {}
    return HooksRan(point, "r1", (note(point, **told, **more),), veto=veto, context=context)


def points(effects: list[Effect]) -> list[str]:
    return [effect.point for effect in effects if isinstance(effect, CallHooks)]


def begun(*at: str, **more: int) -> Session:
    found = session(*at, **more)
    found.tell(run_asked())
    return found


def answer(one: Session, text: str = "done") -> None:
    """Let the model answer."""
    (effect,) = one.turn()
    one.done(effect, says(text))


def test_the_first_model_call_waits_for_the_start_hooks_and_gets_their_context() -> None:
    one = begun(RUN_STARTING)
    (effect,) = one.turn()
    assert isinstance(effect, CallHooks)
    assert (effect.point, effect.run.run_id, is_errand(effect)) == (RUN_STARTING, "r1", False)
    assert "step.started" not in one.types
    assert one.done(effect, ran(RUN_STARTING, context=("be kind",))) == ["hook.completed", "message.received"]
    answer(one)
    assert one.data("message.received")["context"] == ["be kind"]
    assert one.turn() == []
    assert one.end == "completed"


def test_a_hook_that_adds_nothing_leaves_only_its_own_record() -> None:
    one = begun(RUN_STARTING)
    (effect,) = one.turn()
    assert one.done(effect, ran(RUN_STARTING)) == ["hook.completed"]


def test_a_hook_that_stops_the_run_ends_it_with_its_own_error() -> None:
    one = begun(RUN_STARTING)
    (effect,) = one.turn()
    one.done(effect, ran(RUN_STARTING, stop=ErrorInfo.model_validate(STOP), context=("too late?",)))
    assert one.turn() == []
    assert one.end == "failed"
    assert one.data("run.failed")["error"] == {
        **STOP,
        "causalIds": {"sessionId": "s1", "runId": "r1", "turnId": "turn_0"},
    }


def test_a_completion_that_is_vetoed_goes_back_to_the_model_with_the_reason() -> None:
    one = begun(BEFORE_RUN_COMPLETE)
    answer(one)
    (effect,) = one.turn()
    assert points([effect]) == [BEFORE_RUN_COMPLETE]
    assert one.done(effect, ran(BEFORE_RUN_COMPLETE, veto="no tests")) == [
        "hook.completed",
        "message.received",
    ]
    told = one.data("message.received")
    assert told["delivery"] == "correction"
    assert "no tests" in str(told["context"])
    answer(one, "tested")
    (effect,) = one.turn()
    one.done(effect, ran(BEFORE_RUN_COMPLETE))
    assert one.turn() == []
    assert one.end == "completed"


def test_completion_can_be_vetoed_only_so_often_also_across_crashes() -> None:
    one = begun(BEFORE_RUN_COMPLETE, vetoes=2)
    for number in range(3):
        answer(one)
        one = Session(one.records, epoch=2 + number, rules=one.rules)
        (effect,) = one.turn()
        one.done(effect, ran(BEFORE_RUN_COMPLETE, veto="never"))
    assert one.turn() == []
    assert one.end == "failed"
    error = one.data("run.failed")["error"]
    assert isinstance(error, dict)
    assert error["kind"] == "policy_denial"
    assert "over 2 times: never" in str(error["message"])


def test_a_veto_that_was_recorded_counts_once_though_the_crash_came_right_after() -> None:
    one = begun(BEFORE_RUN_COMPLETE)
    answer(one)
    (effect,) = one.turn()
    one.done(effect, ran(BEFORE_RUN_COMPLETE, veto="no"))
    again = Session(one.records, epoch=2, rules=one.rules)
    assert points(again.turn()) == []
    assert again.state.run_notes.hooked.vetoes == 1


def typed(*at: str) -> Session:
    one = session(*at)
    one.tell(run_asked(contract=CONTRACT))
    answer(one, "5")
    return one


def test_a_typed_output_that_is_vetoed_is_valid_but_never_published() -> None:
    one = typed(BEFORE_RUN_COMPLETE)
    (effect,) = one.turn()
    assert isinstance(effect, CheckOutput)
    checked = OutputChecked(
        5, hash="sha256:" + "a" * 64, veto="too small", notes=(note(BEFORE_RUN_COMPLETE, vetoed=True),)
    )
    assert one.done(effect, checked) == ["hook.completed", "output.validated", "message.received"]
    assert one.data("output.validated")["hash"] == "sha256:" + "a" * 64
    answer(one, "7")
    (effect,) = one.turn()
    one.done(effect, OutputChecked(7, notes=(note(BEFORE_RUN_COMPLETE),)))
    assert one.turn() == []
    assert [data["result"] for data in one.all("result.completed")] == [7]
    assert one.data("run.completed")["structuredOutput"] == 7


def asked(*at: str) -> tuple[Session, str]:
    one = begun(*at)
    (effect,) = one.turn()
    one.done(effect, calls(call("pay")))
    (judge,) = one.turn()
    assert isinstance(judge, JudgeCall)
    one.done(judge, judged(judge, ASK))
    assert one.turn() == []
    (request_id,) = one.state.session.requests
    return one, request_id


def decide(one: Session, request_id: str, option: str) -> list[Effect]:
    response = InputResponse(request_id=request_id, option_id=option, responder="ann")
    one.tell(AnswersGiven((response,)))
    return one.turn()


def test_each_decision_about_a_call_is_seen() -> None:
    one, request_id = asked(AFTER_APPROVAL_DECISION)
    (effect,) = decide(one, request_id, "approve")
    one.done(effect, HooksRan(AFTER_APPROVAL_DECISION, "r1", (note(AFTER_APPROVAL_DECISION, "c-pay"),)))
    (judge,) = one.turn()
    assert isinstance(judge, JudgeCall)
    one.done(judge, judged(judge, ASK))
    (request_id,) = one.state.session.requests
    assert points(decide(one, request_id, "approve")) == [AFTER_APPROVAL_DECISION]


def test_arguments_that_a_hook_changed_are_those_of_every_later_judgement() -> None:
    one = begun(BEFORE_TOOL_CALL)
    (effect,) = one.turn()
    one.done(effect, calls(call("later", cents=9), call("look")))
    later, look = one.turn()
    assert isinstance(later, JudgeCall)
    assert isinstance(look, JudgeCall)
    one.done(look, judged(look))
    changed = note(BEFORE_TOOL_CALL, later.call_id, changed=True, change={"arguments": {"cents": 3}})
    decision = judged(JudgeCall(later.call_id, "later", {"cents": 3}), ASK)
    one.done(later, replace(decision, notes=(changed,)))
    assert one.state.run_notes.hooked.has(BEFORE_TOOL_CALL, later.call_id)
    assert not one.state.run_notes.hooked.has(BEFORE_TOOL_CALL, look.call_id)
    assert one.state.run_notes.hooked.arguments == {later.call_id: {"cents": 3}}


def test_hooks_see_that_a_run_is_cancelled_before_its_end_is_written() -> None:
    one = begun(ON_RUN_CANCEL_REQUESTED)
    (model,) = one.turn()
    one.tell(CancelRequested("r1"))
    assert one.turn() == []
    del one.under_way[model.key]
    (effect,) = one.turn()
    assert points([effect]) == [ON_RUN_CANCEL_REQUESTED]
    assert one.end is None
    assert one.done(effect, ran(ON_RUN_CANCEL_REQUESTED)) == ["hook.completed"]
    assert one.turn() == []
    assert one.end == "cancelled"


def test_the_result_of_a_start_hook_is_only_recorded_if_the_run_was_cancelled_meanwhile() -> None:
    one = begun(RUN_STARTING)
    (effect,) = one.turn()
    one.tell(CancelRequested("r1"))
    assert one.done(effect, ran(RUN_STARTING, context=("more",))) == ["hook.completed"]


def test_hooks_of_a_run_that_has_ended_are_noted_with_its_name_and_belong_to_no_other() -> None:
    one = begun()
    answer(one)
    one.turn()
    one.tell(run_asked("r2"))
    late = HooksRan(AFTER_RUN_TERMINAL, "r1", (note(AFTER_RUN_TERMINAL),), agent_id="helper")
    assert one.tell(late) == ["hook.completed"]
    assert (one.records[-1].run_id, one.records[-1].agent_id) == ("r1", "helper")
    assert not one.state.run_notes.hooked.has(AFTER_RUN_TERMINAL)


def test_records_of_hooks_that_say_nothing_useful_change_nothing() -> None:
    one = begun()
    one.write(
        "hook.failed",
        {"hookId": "h", "point": "p", "status": "failed", "error": {"code": "c", "message": "m"}},
    )
    assert one.state.run_notes.hooked == HookNotes()


def test_a_change_without_arguments_leaves_them() -> None:
    one = begun(BEFORE_TOOL_CALL)
    (effect,) = one.turn()
    one.done(effect, calls(call("look")))
    (judge,) = one.turn()
    assert isinstance(judge, JudgeCall)
    odd = (note(BEFORE_TOOL_CALL, judge.call_id, change={"arguments": 5}),)
    one.done(judge, CallRefused(judge.call_id, "failed", "no", odd))
    assert one.state.run_notes.hooked.arguments == {}
