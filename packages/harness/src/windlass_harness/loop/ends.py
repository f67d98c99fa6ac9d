"""Ends of a run: the terminal records of its turn, its run and its session."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from windlass_harness.loop import failures, people, programs, subagents
from windlass_harness.loop.events import CancelRequested, Draft, Moment, RunRefused, RunWithdrawn, StartItem
from windlass_harness.loop.notes import CallNotes
from windlass_harness.loop.rules import NO_RUN_LIMITS, RunLimit
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import INTERRUPTED, NOT_EXECUTED, STOPPED_READING, Call, CallStage
from windlass_harness.views.runs import RunEnd, RunState
from windlass_protocol import (
    BudgetLimits,
    BudgetName,
    CausalIds,
    EffectClass,
    ErrorInfo,
    InputOutcome,
    JsonObject,
    ParentRun,
    RunMode,
)
from windlass_protocol.bodies import read_body
from windlass_protocol.generated import records

Ending = tuple[Draft, ...]
RUN_CANCELLED: Final = "The run was cancelled."
RUN_ENDED: Final = "The run ended."


def complete_run(state: LoopState, output: str, *, now: Moment) -> Ending:
    """Return the end of a completed run."""
    notes, ending = state.run_notes, _Ending(state)
    run = records.RunCompleted(
        run_id=ending.run.run_id,
        output=output,
        structured_output=notes.structured if notes.is_validated else UNSET,
        usage=notes.known_usage,
    )
    value = notes.structured if notes.is_validated else output
    turn = records.TurnCompleted(usage=notes.known_usage, **state.turn_place)
    return ending.drafts(now, turn=turn, run=run, session=records.SessionCompleted(output=value))


def fail_run(state: LoopState, error: ErrorInfo, *, now: Moment) -> Ending:
    """Return the end of a failed run."""
    ending = _Ending(state)
    run = records.RunFailed(
        run_id=ending.run.run_id, error=_with_causes(state, error), usage=state.run_notes.known_usage
    )
    return ending.broken(now, error.kind.value, error.message, run=run)


def cancel_run(state: LoopState, now: Moment) -> Ending:
    """Return the end of a cancelled run."""
    ending, calls, error = _Ending(state), _under_way(state), None
    if calls:
        unknown = failures.outcome_unknown([call.tool_name for call in calls])
        error = _with_causes(state, unknown, call_id=calls[0].call_id)
    usage = state.run_notes.known_usage
    run = records.RunCancelled(
        run_id=ending.run.run_id, reason=ending.run.cancel_reason, error=error, usage=usage
    )
    turn = records.TurnCancelled(usage=usage, **state.turn_place)
    session = records.SessionFailed(code="cancelled", message=RUN_CANCELLED)
    return ending.drafts(now, turn=turn, run=run, session=session)


def exhaust_budget(
    state: LoopState,
    names: tuple[BudgetName, ...],
    *,
    now: Moment,
    needed: int | None = None,
    run_limits: Mapping[BudgetName, RunLimit] = NO_RUN_LIMITS,
) -> Ending:
    """Return the end of a run that used up a budget; `needed` is what its next answer may cost at least.

    `run_limits` are the limits of each run that its budget comes from.
    """
    ending, spent = _Ending(state), state.run_notes.spent
    run_id, limits = ending.run.run_id, ending.run.budget
    assert limits is not None, "only a run with a budget can use it up"
    used = records.BudgetUsage(
        tokens_used=spent.tokens_used,
        steps_used=spent.steps_used,
        tool_calls_used=spent.tool_calls_used,
        cost_micros_used=spent.cost_micros_used,
        wall_ms_used=state.wall_ms(now),
    )
    error = failures.out_of_budget(
        [(name, *_amounts_of(used, limits, name)) for name in names], needed=needed, run_limits=run_limits
    )
    budget_body = records.BudgetExhausted(exceeded=[*names], used=used, limits=limits, run_id=run_id)
    run = records.RunBudgetExhausted(
        run_id=run_id,
        exceeded=[*names],
        used=used,
        limits=limits,
        error=_with_causes(state, error),
        usage=state.run_notes.known_usage,
    )
    return (
        state.draft(budget_body, now=now),
        *ending.broken(now, "budget_exhausted", error.message, run=run),
    )


def exhaust_shared(
    state: LoopState, error: ErrorInfo, exceeded: Sequence[BudgetName], *, now: Moment
) -> Ending:
    """Return the end of a run whose next answer does not fit a limit that it shares with other runs."""
    ending, spent = _Ending(state), state.run_notes.spent
    used = records.BudgetUsage(
        tokens_used=spent.tokens_used,
        steps_used=spent.steps_used,
        tool_calls_used=spent.tool_calls_used,
        cost_micros_used=spent.cost_micros_used,
        wall_ms_used=state.wall_ms(now),
    )
    run = records.RunBudgetExhausted(
        run_id=ending.run.run_id,
        exceeded=[*exceeded],
        used=used,
        limits=ending.run.budget or BudgetLimits(),
        error=_with_causes(state, error),
        usage=state.run_notes.known_usage,
    )
    return ending.broken(now, "budget_exhausted", error.message, run=run)


def _with_causes(state: LoopState, error: ErrorInfo, *, call_id: str | None = None) -> ErrorInfo:
    """Return an error with the ids of all that it belongs to.

    The call is the first one without a result, unless it is given; the request is the first open one.
    """
    run, turn = state.session.run, state.session.turn
    assert run is not None, "no run has begun"
    assert turn is not None, "no turn has begun"
    calls = [call.call_id for call in state.session.history.open_calls()] if call_id is None else [call_id]
    requests = [*state.session.requests, *state.session.family.proxied]
    ids = CausalIds(
        session_id=run.session_id,
        run_id=run.run_id,
        turn_id=turn.turn_id,
        step_index=turn.step_index,
        call_id=calls[0] if calls else None,
        request_id=requests[0] if requests else None,
    )
    if error.causal_ids is not None:
        causal_ids = error.causal_ids
        ids = ids.model_copy(update={name: getattr(causal_ids, name) for name in causal_ids.model_fields_set})
    return error.model_copy(update={"causal_ids": ids})


def _amounts_of(used: records.BudgetUsage, limits: BudgetLimits, name: BudgetName) -> tuple[int, int]:
    """Return how much of a budget was used, and its limit."""
    amounts = {
        BudgetName.TOKENS: (used.tokens_used, limits.max_tokens),
        BudgetName.STEPS: (used.steps_used, limits.max_steps),
        BudgetName.TOOL_CALLS: (used.tool_calls_used, limits.max_tool_calls),
        BudgetName.COST: (used.cost_micros_used, limits.max_cost_micros),
        BudgetName.WALL: (used.wall_ms_used, limits.max_wall_ms),
    }
    spent, limit = amounts[name]
    return spent, limit or 0


def _under_way(state: LoopState) -> list[Call]:
    """Return the calls that have begun and may have taken effect."""
    return [
        call
        for call in _open_started_calls(state)
        if not state.is_unbegun(call) and not _only_reads(state, call)
    ]


def _only_reads(state: LoopState, call: Call) -> bool:
    """Whether a call only reads; a subagent call never counts as a read."""
    return call.effect is EffectClass.READ and state.note(call.call_id).child is None


def _open_started_calls(state: LoopState) -> list[Call]:
    return [call for call in state.session.history.open_calls() if call.stage is CallStage.STARTED]


def _close_call(state: LoopState, call: Call, now: Moment) -> Draft:
    """Return the result of a call that has none when its run ends.

    It is unknown, unless the call only reads or never began.
    """
    code, message = OUTCOME_UNKNOWN, INTERRUPTED
    if state.is_unbegun(call):
        code, message = _CANCELLED, NOT_EXECUTED
    elif (program := state.note(call.call_id).program) is not None and program.is_tool_at_rest:
        code, message = _CANCELLED, _STOPPED_WAITING
    elif program is not None and not program.is_tool:
        code, message = _CANCELLED, _program_message(state, call)
    elif _only_reads(state, call):
        code, message = _CANCELLED, STOPPED_READING
    return subagents.fail_call(state, call, records.ActionError(code=code, message=message), now=now)


def _program_message(state: LoopState, call: Call) -> str:
    """Return what the model is told about a program that its run did not let end."""
    begun = programs.describe_calls(state, call)
    return f"No result: the program was stopped{f'. {begun}' if begun else ' before a call of it began.'}"


_STOPPED_WAITING: Final = (
    "No result: the tool waited for an answer, a time or an event when its work was ended."
)
OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""Error code of a call that was running when its run ended: it may have taken effect."""
_CANCELLED: Final = "cancelled"
_NEXT: Final = records.SessionWaiting(wait="next-user-message")
_SessionEnd = records.SessionCompleted | records.SessionFailed
_TurnEnd = records.TurnCompleted | records.TurnFailed | records.TurnCancelled


class _Ending:
    """The end of the current run."""

    def __init__(self, state: LoopState) -> None:
        run = state.session.run
        assert run is not None, "no run has begun"
        self.run = run
        self._state = state

    def broken(
        self, now: Moment, code: str, message: str, *, run: records.RunFailed | records.RunBudgetExhausted
    ) -> Ending:
        """Return the terminal records of a run that did not succeed."""
        turn = records.TurnFailed(code=code, message=message, usage=run.usage, **self._state.turn_place)
        session = records.SessionFailed(code=code, message=message)
        return self.drafts(now, turn=turn, run=run, session=session)

    def drafts(self, now: Moment, *, turn: _TurnEnd, run: RunEnd, session: _SessionEnd) -> Ending:
        """Return the terminal records of the turn, the run and the session.

        The session of a task ends with its run; a conversation stays open. Requests that are open are closed.
        """
        state, taint = self._state, self._state.session.taint
        last = session if self.run.mode is RunMode.TASK else _NEXT
        ended = subagents.cancel_children(state, state.draft(run, now=now))
        return (
            *people.close_all_requests(state, now, reason=RUN_ENDED),
            *(_close_call(state, call, now) for call in _open_started_calls(state)),
            state.draft(turn, now=now),
            subagents.report_end(
                self.run,
                ended,
                used=state.run_notes.spent,
                settled=state.run_notes.unknown_micros,
                taint=taint,
            ),
            Draft(last.TYPE, now.at, last),
        )


def facts_of(body: JsonObject) -> JsonObject:
    """Return the `run.started` data of a start body."""
    return {name: value for name, value in body.items() if name not in _OTHER_FIELDS}


_MESSAGE_FIELDS: Final = ("message", "parts", "context", "messageId", "sender", "delivery")
_OTHER_FIELDS: Final = frozenset({*_MESSAGE_FIELDS, "contract", "session", "turnId", "responses", "givenMs"})


def end_unstarted(state: LoopState, event: RunWithdrawn | RunRefused, *, now: Moment) -> list[Draft]:
    """Return the end of a run that never started: withdrawn or refused."""
    item = read_body(StartItem, event.body)
    run_id, agent_id, facts = item.run_id, item.agent_id, facts_of(event.body)
    if run_id in state.session.run_ids:
        return []
    unstarted = read_body(records.RunStarted, facts)
    if isinstance(event, RunRefused):
        body = records.RunFailed(run_id=run_id, error=event.error, unstarted=unstarted)
        return [_tell_parent(item, Draft(body.TYPE, now.at, body, run_id=run_id, agent_id=agent_id))]
    cancel_request = cancel_body(run_id, event)
    body = records.RunCancelled(run_id=run_id, reason=event.reason, unstarted=unstarted)
    return [
        Draft(cancel_request.TYPE, now.at, cancel_request, run_id=run_id, agent_id=agent_id),
        _tell_parent(item, Draft(body.TYPE, now.at, body, run_id=run_id, agent_id=agent_id)),
    ]


def _tell_parent(item: StartItem, ended: Draft) -> Draft:
    if item.parent is None:
        return ended
    parent = ParentRun.model_validate(item.parent)
    run = RunState(item.run_id, item.agent_id, parent.session_id, started_at=ended.at, parent=parent)
    return subagents.report_end(run, ended)


def cancel_body(run_id: str, event: CancelRequested | RunWithdrawn) -> records.RunCancelRequested:
    """Return the record that a cancel was requested."""
    return records.RunCancelRequested(run_id=run_id, by=event.by, reason=event.reason)


_NOT_AGAIN: Final = "The call was interrupted: it may or may not have taken effect, and is not run again."


def deny_call(state: LoopState, call: Call, *, note: CallNotes, now: Moment) -> Draft:
    """Return the result of a call that was denied by a person, expired or withdrawn."""
    messages = {
        InputOutcome.EXPIRED: "The approval request expired.",
        InputOutcome.CANCELLED: "The request for approval was withdrawn.",
        InputOutcome.IGNORED: "The request for approval was skipped by a new message.",
    }
    denial = (
        f"A person denied the call: {note.denial_reason}"
        if note.denial_reason
        else "A person denied the call."
    )
    message = messages.get(note.approval_outcome or InputOutcome.DENIED, denial)
    return refuse_call(state, call, now=now, code="denied", message=message)


def refuse_call(state: LoopState, call: Call, *, now: Moment, code: str, message: str) -> Draft:
    """Return the result of a call that was refused."""
    if call.stage is CallStage.STARTED and not state.is_unbegun(call):
        message = f"{_NOT_AGAIN} {message}"
    return people.reject_call(state, call, now=now, code=code, message=message)
