"""Undo: runs that reverse the calls of an earlier run, and interrupted calls that are reversed.

A tool may name the tool that reverses its calls; the intent of each call records that name. A run that
reverses calls has their list in its start. It calls no model: each step makes one call of an undo tool,
newest first, which is judged, recorded and performed like every other call. The idempotency key of such a
call follows from the key of the call that it reverses: it is the same in every attempt and every such run.
"""

from collections.abc import Sequence
from typing import Final

from windlass_harness.loop import ends, failures, subagents
from windlass_harness.loop.events import Draft, Moment, Plan, join_ids
from windlass_harness.loop.notes import UNDO_CALLS, CallNotes
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call
from windlass_protocol import FinishReason, JsonObject, RecoveryChoice, ToolOutputType
from windlass_protocol.bodies import Body, Part, read_body
from windlass_protocol.generated import records

UNDONE: Final = "undone"
"""Error code of an interrupted call that was reversed."""
_UNDONE: Final = "The call was interrupted, so it may or may not have taken effect. It was then reversed."


def key_of(idempotency_key: str) -> str:
    """Return the id and the idempotency key of the call that reverses a call."""
    return join_ids("undo", idempotency_key)


def own_key(state: LoopState, call: Call) -> str | None:
    """Return the idempotency key of a call that reverses another one; None for other calls."""
    run, parent = state.run, None if call.parent_id is None else state.call(call.parent_id)
    if parent is not None and state.note(parent.call_id).recovery_choice is RecoveryChoice.UNDO:
        return key_of(parent.idempotency_key or "")
    if parent is not None and parent.tool_name == UNDO_CALLS:
        return key_of(undone_key(call))
    return call.call_id if run is not None and run.undo is not None else None


def undone_key(reversal: Call) -> str:
    """Return the idempotency key of the call that a call reverses, as its arguments name it."""
    undone = reversal.input.get("call") if isinstance(reversal.input, dict) else None
    return str(undone.get("idempotency_key")) if isinstance(undone, dict) else ""


class UndoneCall(Part, frozen=True, kw_only=True):
    """A call that a run reverses, as the list in its start has it."""

    call_id: str
    tool_name: str
    arguments: records.JsonValue
    idempotency_key: str
    result: records.JsonValue = None
    undo_name: str = ""


class Undo(Part, frozen=True, kw_only=True):
    """The list in the start of a run that reverses calls."""

    run_id: str
    calls: Sequence[UndoneCall]


def action(call: UndoneCall, *, undo_name: str, call_id: str | None = None) -> records.ToolCallAction:
    """Return the call that reverses a call."""
    arguments: JsonObject = {
        "call_id": call.call_id,
        "tool_name": call.tool_name,
        "arguments": call.arguments,
        "result": call.result,
        "idempotency_key": call.idempotency_key,
    }
    return records.ToolCallAction(
        call_id=key_of(call.idempotency_key) if call_id is None else call_id,
        tool_name=undo_name,
        input={"call": arguments},
    )


def next_step(state: LoopState, *, now: Moment) -> Plan:
    """Return the next step of a run that reverses calls: a call, the last message, or the failure."""
    run, notes = state.run, state.run_notes
    assert run is not None
    assert run.undo is not None
    undo = read_body(Undo, run.undo)
    calls, done = undo.calls, notes.budget.steps_used
    if done >= len(calls) and notes.unreversed:
        return Plan(ends.fail_run(state, failures.not_reversed(notes.unreversed, len(calls)), now=now))
    if done >= len(calls):
        text = f"Reversed {len(calls)} call{'s' * (len(calls) > 1)} of run {undo.run_id}."
        return plan_step(state, text, now=now)
    return plan_step(state, action(calls[done], undo_name=calls[done].undo_name), now=now)


def plan_step(state: LoopState, answer: records.ToolCallAction | str, *, now: Moment) -> Plan:
    """Return a step that no model writes: a call, or the last message of the run."""
    run, turn = state.run, state.session.turn
    assert run is not None
    assert turn is not None
    index = 0 if turn.step_index is None else turn.step_index + 1
    step_fields = state.place(index)
    is_last = isinstance(answer, str)
    reason = FinishReason.STOP if is_last else FinishReason.TOOL_CALLS
    bodies: tuple[Body, ...] = (
        records.StepStarted(prompt_message_count=len(state.session.history.messages), **step_fields),
        records.MessageCompleted(message=answer, finish_reason=reason, **step_fields)
        if is_last
        else records.ActionsRequested(actions=[answer], **step_fields),
        records.StepCompleted(finish_reason=reason, **step_fields),
    )
    return Plan(
        tuple(
            Draft(body.TYPE, now.at, body, run.run_id, run.agent_id, turn.turn_id, index, 1)
            for body in bodies
        )
    )


def advance(state: LoopState, call: Call, note: CallNotes, *, now: Moment) -> list[Draft] | None:
    """Return the next records of an interrupted call that a person chose to reverse; None if that failed.

    First the call that reverses it is requested; once that has ended, the interrupted call has its result.
    """
    made = [inner for inner in state.session.history.calls_of(call.call_id) if inner.tool_name == note.undo]
    if len(made) < note.reversals:
        return [_request_draft(state, call, note, tried=len(made), now=now)]
    output = made[-1].output
    if output is None:
        return []
    if output.type not in (ToolOutputType.TEXT, ToolOutputType.JSON):
        return None
    error = records.ActionError(code=UNDONE, message=_UNDONE)
    return [subagents.fail_call(state, call, error, now=now)]


def _request_draft(state: LoopState, call: Call, note: CallNotes, *, tried: int, now: Moment) -> Draft:
    undone = UndoneCall(
        call_id=call.call_id,
        tool_name=call.tool_name,
        arguments=call.input if call.arguments is None else call.arguments,
        idempotency_key=call.idempotency_key or "",
    )
    key = key_of(undone.idempotency_key)
    made = action(undone, undo_name=note.undo or "", call_id=join_ids(key, str(tried)) if tried else key)
    body = records.ActionsRequested(
        actions=[made], parent_call_id=call.call_id, **state.place(call.step_index)
    )
    return state.draft(body, now=now)
