"""Functions of the application that wait: workflows, and tools that ask, sleep or wait for an event.

Their waits are calls that the loop settles itself: a time that has come, an event that was sent to the run.
An event is a record; the oldest call of `wait_for` with its name takes it, at once or when the function comes
to that call. `undo_calls` reverses the calls of a workflow, newest first, as a run that reverses calls does,
with the same keys.
"""

from typing import Final

from pydantic import JsonValue

from windlass_harness.loop import ends, failures, people, subagents
from windlass_harness.loop.events import CallSettlement, Draft, EventSent, Moment, ProgramDiverged, join_ids
from windlass_harness.loop.notes import SLEEP, UNDO_CALLS, WAIT_FOR
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.undo import UndoneCall, action, key_of, undone_key
from windlass_harness.times import ceil_ms_of
from windlass_harness.views.history import Call
from windlass_protocol import ActionStatus, JsonObject, ToolOutputType
from windlass_protocol.generated import records

NOT_REVERSED: Final = "not_reversed"
_DONE: Final = (ToolOutputType.TEXT, ToolOutputType.JSON)
"""Output types of calls that completed."""


def take_event(state: LoopState, event: EventSent, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the record of an event; none if its run has ended, or if its key was there before."""
    run, notes, key = state.run, state.run_notes, event.body.key
    if run is None or run.run_id != event.body.run_id or state.is_ending or key in notes.event_keys:
        return []
    if notes.event_count >= rules.workflow_events_max:
        return [*ends.fail_run(state, failures.too_many_events(rules), now=now)]
    return [state.draft(event.body, now=now)]


def take_divergence(state: LoopState, event: ProgramDiverged, *, now: Moment, rules: Rules) -> list[Draft]:
    """Return the request of a workflow that went another way than its records: it waits for a person."""
    call, program = state.call(event.call_id), state.note(event.call_id).program
    if call is None or program is None or program.end is not None or event.taken < program.taken:
        return []
    assert call.effect is not None, "a program has begun"
    request = people.divergence_request(state, call, event.message, responders=rules.responders)
    body = records.RecoveryEffectFound(
        call_id=call.call_id,
        effect=call.effect,
        tool_name=call.tool_name,
        idempotency_key=call.idempotency_key,
        request_id=request.request_id,
        begun=False,
    )
    return [state.draft(body, now=now), people.request_record(state, [request], now=now)]


def settle(state: LoopState, call: Call, *, now: Moment) -> CallSettlement | None:
    """Return what becomes of a call that the loop settles itself; None for other calls."""
    program = None if call.parent_id is None else state.note(call.parent_id).program
    if program is None or not program.is_of_application:
        return None
    if call.tool_name == UNDO_CALLS and program.is_workflow:
        return CallSettlement(_reverse_calls(state, call, now=now))
    return _end_wait(state, call, now=now) if call.tool_name in (SLEEP, WAIT_FOR) else None


def _end_wait(state: LoopState, call: Call, *, now: Moment) -> CallSettlement:
    """Return the result of a call that waits for a time, or for an event; or until when it waits."""
    event = _next_event(state, call) if call.tool_name == WAIT_FOR else None
    if event is not None:
        return CallSettlement([_result(state, call, event, now=now)])
    until = call.input.get("until") if isinstance(call.input, dict) else None
    until_ms = None if until is None else ceil_ms_of(str(until))
    if until_ms is None or now.ms < until_ms:
        return CallSettlement(wake_at_ms=until_ms)
    return CallSettlement([_result(state, call, None, now=now)])


def _next_event(state: LoopState, call: Call) -> JsonObject | None:
    """Return the event that a call takes; None if there is none, or if an older call takes it."""
    name = _event_name(call)
    kept_events = state.run_notes.events.get(name)
    if not kept_events:
        return None
    waiting = (inner for inner in state.session.history.open_calls() if inner.tool_name == WAIT_FOR)
    first = next(inner for inner in waiting if _event_name(inner) == name)
    return {"name": name, "data": kept_events[0]} if first.call_id == call.call_id else None


def _event_name(call: Call) -> str:
    return str(call.input.get("name")) if isinstance(call.input, dict) else ""


def _result(state: LoopState, call: Call, output: JsonValue, *, now: Moment) -> Draft:
    body = records.ActionResult(
        result=subagents.result_of(state, call, output=output),
        status=ActionStatus.COMPLETED,
        **state.place_of(call),
    )
    return state.draft(body, now=now)


def _reverse_calls(state: LoopState, call: Call, *, now: Moment) -> list[Draft]:
    """Return the call that reverses the next call of a workflow, or the result if none is left."""
    reversals = state.session.history.calls_of(call.call_id)
    if reversals and reversals[-1].output is None:
        return []
    calls = state.session.history.calls_of(call.parent_id or "")
    undone = {undone_key(inner) for inner in reversals}
    for earlier in calls:
        if earlier.tool_name == UNDO_CALLS:
            undone |= {
                undone_key(inner)
                for inner in state.session.history.calls_of(earlier.call_id)
                if _is_done(inner)
            }
    for made in reversed(calls):
        key = made.idempotency_key
        if key is None or key in undone or not _is_done(made) or state.note(made.call_id).undo is None:
            continue
        return [_request_draft(state, call, made, key=key, now=now)]
    failed = [inner.tool_name for inner in reversals if not _is_done(inner)]
    if failed:
        message = f"Not reversed: {', '.join(dict.fromkeys(failed))}. Their calls failed or were denied."
        error = records.ActionError(code=NOT_REVERSED, message=message)
        return [subagents.fail_call(state, call, error, now=now)]
    return [_result(state, call, {"reversed": len(reversals)}, now=now)]


def _is_done(call: Call) -> bool:
    return call.output is not None and call.output.type in _DONE


def _request_draft(state: LoopState, call: Call, made: Call, *, key: str, now: Moment) -> Draft:
    undone = UndoneCall(
        call_id=made.call_id,
        tool_name=made.tool_name,
        arguments=made.input if made.arguments is None else made.arguments,
        idempotency_key=key,
        result=None if made.output is None else made.output.value,
    )
    call_id = key_of(key)
    while state.session.history.knows(call_id):
        # An earlier attempt to reverse it failed.
        call_id = join_ids(call_id, "again")
    name = state.note(made.call_id).undo or ""
    body = records.ActionsRequested(
        actions=[action(undone, undo_name=name, call_id=call_id)],
        parent_call_id=call.call_id,
        **state.place(call.step_index),
    )
    return state.draft(body, now=now)
