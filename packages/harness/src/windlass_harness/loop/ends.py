"""Ends of a run: the terminal records of its turn, its run and its session."""

from typing import Final

from windlass_harness.loop import failures, people, programs
from windlass_harness.loop import subagents as family
from windlass_harness.loop.events import CancelRequested, Draft, Moment, RunRefused, RunWithdrawn
from windlass_harness.loop.notes import CallNotes, number_in
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import INTERRUPTED, NOT_EXECUTED, STOPPED_READING, Call, CallStage
from windlass_harness.views.runs import RunState
from windlass_protocol import BudgetName, EffectClass, ErrorInfo, InputOutcome, JsonObject, ParentRun, RunMode

Ending = tuple[Draft, ...]
RUN_CANCELLED: Final = "The run was cancelled."
RUN_ENDED: Final = "The run ended."


def completed(state: LoopState, output: str, *, now: Moment) -> Ending:
    """Return the end of a completed run."""
    notes = state.run_notes
    data: JsonObject = {"output": output}
    if notes.is_validated:
        data["structuredOutput"] = notes.structured
    value = notes.structured if notes.is_validated else output
    session = ("session.completed", {"output": value})
    return _end(state, now, turn=("turn.completed", {}), run=("run.completed", data), session=session)


def failed(state: LoopState, error: ErrorInfo, *, now: Moment) -> Ending:
    """Return the end of a failed run."""
    words: JsonObject = {"code": error.kind.value, "message": error.message}
    info: JsonObject = {"error": _caused(state, error)}
    session = ("session.failed", words)
    return _end(state, now, turn=("turn.failed", words), run=("run.failed", info), session=session)


def cancelled(state: LoopState, now: Moment) -> Ending:
    """Return the end of a cancelled run."""
    words: JsonObject = {"code": "cancelled", "message": RUN_CANCELLED}
    session = ("session.failed", words)
    run = state.session.run
    data: JsonObject = {} if run is None or run.cancel_reason is None else {"reason": run.cancel_reason}
    calls = _under_way(state)
    if calls:
        error = failures.outcome_unknown([call.tool_name for call in calls])
        data["error"] = _caused(state, error, call_id=calls[0].call_id)
    return _end(state, now, turn=("turn.cancelled", {}), run=("run.cancelled", data), session=session)


def exhausted(state: LoopState, names: tuple[BudgetName, ...], *, now: Moment) -> Ending:
    """Return the end of a run that used up a budget."""
    run, used = state.session.run, state.run_notes.spent
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
    ended: JsonObject = {**facts, "error": _caused(state, error)}
    turn, ending = ("turn.failed", words), ("run.budget_exhausted", ended)
    return (told, *_end(state, now, turn=turn, run=ending, session=("session.failed", words)))


def _caused(state: LoopState, error: ErrorInfo, *, call_id: str | None = None) -> JsonObject:
    """Return the wire form of an error with the ids of all that it belongs to.

    The call is the first one without a result, unless it is given; the request is the first open one.
    """
    run, place = state.session.run, state.place()
    assert run is not None, "no run has begun"
    ids: JsonObject = {"sessionId": run.session_id, "runId": run.run_id}
    ids |= {name: value for name, value in place.items() if name != "sequence"}
    calls = [one.call_id for one in state.session.history.open_calls()] if call_id is None else [call_id]
    if calls:
        ids["callId"] = calls[0]
    requests = [*state.session.requests, *state.session.family.proxied]
    if requests:
        ids["requestId"] = requests[0]
    data: JsonObject = error.model_dump(mode="json", by_alias=True)
    known = data.get("causalIds")
    data["causalIds"] = {**ids, **known} if isinstance(known, dict) else ids
    return data


def _spent(facts: JsonObject, name: BudgetName) -> tuple[int, int]:
    """Return how much of a budget was used, and its limit."""
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
    """Return the calls that have begun and may have taken effect."""
    return [call for call in _started(state) if not state.is_unbegun(call) and not _only_reads(state, call)]


def _only_reads(state: LoopState, call: Call) -> bool:
    """Whether a call only reads; a subagent call never counts as a read."""
    return call.effect is EffectClass.READ and state.note(call.call_id).child is None


def _started(state: LoopState) -> list[Call]:
    return [call for call in state.session.history.open_calls() if call.stage is CallStage.STARTED]


def _unfinished(state: LoopState, call: Call, now: Moment) -> Draft:
    """Return the result of a call that has none when its run ends.

    It is unknown, unless the call only reads or never began.
    """
    result: JsonObject = {**family.result_of(state, call, output=None), "isError": True}
    error: JsonObject = {"code": OUTCOME_UNKNOWN, "message": INTERRUPTED}
    if state.is_unbegun(call):
        error = {"code": "cancelled", "message": NOT_EXECUTED}
    elif (program := state.note(call.call_id).program) is not None and program.is_tool_at_rest:
        error = {"code": "cancelled", "message": _STOPPED_ASKING}
    elif program is not None and not program.is_tool:
        error = {"code": "cancelled", "message": _stopped_program(state, call)}
    elif _only_reads(state, call):
        error = {"code": "cancelled", "message": STOPPED_READING}
    data: JsonObject = {"result": result, "status": "failed", "error": error, **state.place_of(call)}
    return state.draft("action.result", data, now=now)


def _stopped_program(state: LoopState, call: Call) -> str:
    """Return what the model is told about a program that its run did not let end."""
    begun = programs.begun_calls(state, call)
    return f"No result: the program was stopped{f'. {begun}' if begun else ' before a call of it began.'}"


_STOPPED_ASKING: Final = "No result: the tool waited for a person's answer when its work was ended."
OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""Error code of a call that was running when its run ended: it may have taken effect."""
_NEXT: _Fact = ("session.waiting", {"wait": "next-user-message"})


def _end(state: LoopState, now: Moment, *, turn: _Fact, run: _Fact, session: _Fact) -> Ending:
    """Return the terminal records of the turn, the run and the session.

    The session of a task ends with its run; a conversation stays open. Requests that are open are closed.
    """
    ending = state.session.run
    assert ending is not None, "no run has begun"
    notes = state.run_notes
    usage: JsonObject = {"usage": {**notes.usage}} if notes.usage else {}
    is_task = ending.mode is RunMode.TASK
    kind, data = session if is_task else _NEXT
    ended = state.draft(run[0], {"runId": ending.run_id, **run[1], **usage}, now=now)
    return (
        *people.withdrawn(state, now, reason=RUN_ENDED),
        *(_unfinished(state, call, now) for call in _started(state)),
        state.draft(turn[0], {**turn[1], **state.turn_place(), **usage}, now=now),
        family.told_end(ending, family.cancelled(state, ended), used=notes.spent, taint=state.session.taint),
        Draft(kind, now.at, data),
    )


def facts_of(body: JsonObject) -> JsonObject:
    """Return the `run.started` data of a start body."""
    return {name: value for name, value in body.items() if name not in _NOT_OF_THE_RUN}


SAID: Final = ("message", "parts", "context", "messageId", "sender")
_NOT_OF_THE_RUN: Final = frozenset({*SAID, "contract", "session", "turnId", "responses", "givenMs"})


def ended_unstarted(state: LoopState, event: RunWithdrawn | RunRefused, *, now: Moment) -> list[Draft]:
    """Return the end of a run that never started: withdrawn or refused."""
    run_id, agent_id = str(event.body["runId"]), str(event.body["agentId"])
    if run_id in state.session.run_ids:
        return []
    data: JsonObject = {"runId": run_id, "unstarted": facts_of(event.body)}
    if isinstance(event, RunRefused):
        data["error"] = event.error.model_dump(mode="json", by_alias=True)
        return [_told(event, Draft("run.failed", now.at, data, run_id=run_id, agent_id=agent_id))]
    if event.reason is not None:
        data["reason"] = event.reason
    asked = cancel_facts(run_id, event)
    return [
        Draft("run.cancel_requested", now.at, asked, run_id=run_id, agent_id=agent_id),
        _told(event, Draft("run.cancelled", now.at, data, run_id=run_id, agent_id=agent_id)),
    ]


def _told(event: RunWithdrawn | RunRefused, ended: Draft) -> Draft:
    above = event.body.get("parent")
    if above is None:
        return ended
    run_id, agent_id = str(event.body["runId"]), str(event.body["agentId"])
    parent = ParentRun.model_validate(above)
    run = RunState(run_id, agent_id, parent.session_id, started_at=ended.at, parent=parent)
    return family.told_end(run, ended)


def cancel_facts(run_id: str, event: CancelRequested | RunWithdrawn) -> JsonObject:
    """Return the data of the record that a cancel was requested."""
    data: JsonObject = {"runId": run_id}
    if event.by is not None:
        data["by"] = event.by
    if event.reason is not None:
        data["reason"] = event.reason
    return data


_NOT_AGAIN: Final = "The call was interrupted: it may or may not have taken effect, and is not run again."


def denied(state: LoopState, call: Call, *, note: CallNotes, now: Moment) -> Draft:
    """Return the result of a call that was denied by a person, expired or withdrawn."""
    words = {
        InputOutcome.EXPIRED: "The approval request expired.",
        InputOutcome.CANCELLED: "The request for approval was withdrawn.",
        InputOutcome.IGNORED: "The request for approval was skipped by a new message.",
    }
    denial = f"A person denied the call: {note.reason}" if note.reason else "A person denied the call."
    message = words.get(note.outcome or InputOutcome.DENIED, denial)
    return refused(state, call, now=now, code="denied", message=message)


def refused(state: LoopState, call: Call, *, now: Moment, code: str, message: str) -> Draft:
    """Return the result of a call that was refused."""
    if call.stage is CallStage.STARTED and not state.is_unbegun(call):
        message = f"{_NOT_AGAIN} {message}"
    return people.rejected(state, call, now=now, code=code, message=message)
