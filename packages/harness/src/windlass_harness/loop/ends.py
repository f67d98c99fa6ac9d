"""How a run ends: one terminal record, the turn's before the run's."""

from typing import Final

from windlass_harness.loop import failures, family
from windlass_harness.loop.drafts import Draft
from windlass_harness.loop.events import Moment
from windlass_harness.loop.notes import number_in
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import INTERRUPTED, NOT_EXECUTED, STOPPED_READING, Call, CallStage
from windlass_protocol import BudgetName, EffectClass, ErrorInfo, JsonObject, RunMode

Ending = tuple[Draft, ...]


def completed(state: LoopState, output: str, *, now: Moment) -> Ending:
    """Return the end of a run that did what it was asked."""
    notes = state.run_notes
    data: JsonObject = {"output": output}
    if notes.is_validated:
        data["structuredOutput"] = notes.structured
    value = notes.structured if notes.is_validated else output
    session = ("session.completed", {"output": value})
    return _end(state, now, turn=("turn.completed", {}), run=("run.completed", data), session=session)


def failed(state: LoopState, error: ErrorInfo, *, now: Moment) -> Ending:
    """Return the end of a run that could not go on."""
    words: JsonObject = {"code": error.kind.value, "message": error.message}
    info: JsonObject = {"error": error.model_dump(mode="json", by_alias=True)}
    session = ("session.failed", words)
    return _end(state, now, turn=("turn.failed", words), run=("run.failed", info), session=session)


def cancelled(state: LoopState, now: Moment) -> Ending:
    """Return the end of a run that somebody did not want any more."""
    words: JsonObject = {"code": "cancelled", "message": "The run was cancelled."}
    session = ("session.failed", words)
    run = state.session.run
    data: JsonObject = {} if run is None or run.cancel_reason is None else {"reason": run.cancel_reason}
    names = [call.tool_name for call in _under_way(state)]
    if names:
        data["error"] = failures.outcome_unknown(names).model_dump(mode="json", by_alias=True)
    return _end(state, now, turn=("turn.cancelled", {}), run=("run.cancelled", data), session=session)


def exhausted(state: LoopState, names: tuple[BudgetName, ...], *, now: Moment) -> Ending:
    """Return the end of a run that has used all it may use."""
    run, used = state.session.run, state.run_notes.budget
    assert run is not None
    assert run.budget is not None, "only a run with a budget can use it up"
    facts: JsonObject = {
        "exceeded": [name.value for name in names],
        "used": {
            "tokensUsed": used.tokens_used,
            "stepsUsed": used.steps_used,
            "toolCallsUsed": used.tool_calls_used,
            "costMicrosUsed": used.cost_micros_used,
            "wallMsUsed": state.wall_ms(now),
        },
        "limits": run.budget.model_dump(mode="json", by_alias=True),
    }
    error = failures.out_of_budget([(name, *_spent(facts, name)) for name in names])
    words: JsonObject = {"code": "budget_exhausted", "message": error.message}
    told = state.draft("budget.exhausted", {**facts, "runId": run.run_id}, now=now)
    ended: JsonObject = {**facts, "error": error.model_dump(mode="json", by_alias=True)}
    turn, ending = ("turn.failed", words), ("run.budget_exhausted", ended)
    return (told, *_end(state, now, turn=turn, run=ending, session=("session.failed", words)))


def _spent(facts: JsonObject, name: BudgetName) -> tuple[int, int]:
    """What was used of a budget that ran out, and what was allowed."""
    used, limits = facts["used"], facts["limits"]
    assert isinstance(used, dict)
    assert isinstance(limits, dict)
    of_used, of_limit = _FIELDS[name]
    return number_in(used, of_used), number_in(limits, of_limit)


_FIELDS: Final = {
    BudgetName.TOKENS: ("tokensUsed", "maxTokens"),
    BudgetName.STEPS: ("stepsUsed", "maxSteps"),
    BudgetName.TOOL_CALLS: ("toolCallsUsed", "maxToolCalls"),
    BudgetName.COST: ("costMicrosUsed", "maxCostMicros"),
    BudgetName.WALL: ("wallMsUsed", "maxWallMs"),
}
_Fact = tuple[str, JsonObject]


def _under_way(state: LoopState) -> list[Call]:
    """The calls that have begun, and may have changed something nobody will hear of."""
    return [call for call in _started(state) if not state.is_unbegun(call) and not _only_reads(state, call)]


def _only_reads(state: LoopState, call: Call) -> bool:
    """Whether a call changes nothing; a subagent only counts as a read."""
    return call.effect is EffectClass.READ and state.note(call.call_id).child is None


def _started(state: LoopState) -> list[Call]:
    return [call for call in state.session.history.open_calls() if call.stage is CallStage.STARTED]


def _unfinished(state: LoopState, call: Call, now: Moment) -> Draft:
    """The result of a call whose run ends first.

    It is unknown, unless the call changed nothing or never began.
    """
    result: JsonObject = {**family.result_of(state, call, output=None), "isError": True}
    error: JsonObject = {"code": OUTCOME_UNKNOWN, "message": INTERRUPTED}
    if state.is_unbegun(call):
        error = {"code": "cancelled", "message": NOT_EXECUTED}
    elif _only_reads(state, call):
        error = {"code": "cancelled", "message": STOPPED_READING}
    data: JsonObject = {"result": result, "status": "failed", "error": error, **state.place(call.step_index)}
    return state.draft("action.result", data, now=now)


OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""Code of the result of a call that was under way when its run ended: it may have taken effect."""
_NEXT: _Fact = ("session.waiting", {"wait": "next-user-message"})


def _end(state: LoopState, now: Moment, *, turn: _Fact, run: _Fact, session: _Fact) -> Ending:
    """The turn, the run, and what that means for the session.

    A task is over, a conversation goes on.
    """
    ending = state.session.run
    assert ending is not None, "no run has begun"
    notes = state.run_notes
    usage: JsonObject = {"usage": {**notes.usage}} if notes.usage else {}
    is_task = ending.mode is RunMode.TASK
    kind, data = session if is_task else _NEXT
    ended = state.draft(run[0], {"runId": ending.run_id, **run[1], **usage}, now=now)
    return (
        *(_unfinished(state, call, now) for call in _started(state)),
        state.draft(turn[0], {**turn[1], **state.turn_place(), **usage}, now=now),
        family.told_end(ending, family.cancelled(state, ended), used=notes.budget, taint=state.session.taint),
        Draft(kind, now.at, data),
    )
