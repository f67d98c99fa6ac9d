"""Undo: runs that reverse the calls of an earlier run, and interrupted calls that are reversed.

A tool may name the tool that reverses its calls; the intent of each call records that name. A run that
reverses calls has their list in its start. It calls no model: each step makes one call of an undo tool,
newest first, which is judged, recorded and performed like every other call. The idempotency key of such a
call follows from the key of the call that it reverses: it is the same in every attempt and every such run.
"""

from typing import Final, cast

from pydantic import JsonValue

from windlass_harness.loop import ends, failures, subagents
from windlass_harness.loop.events import Draft, Moment, Plan, joined
from windlass_harness.loop.notes import CallNotes
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call
from windlass_protocol import ActionStatus, JsonObject, RecoveryChoice, ToolOutputType

UNDONE: Final = "undone"
"""Error code of an interrupted call that was reversed."""
_UNDONE: Final = "The call was interrupted, so it may or may not have taken effect. It was then reversed."


def key_of(idempotency_key: str) -> str:
    """Return the id and the idempotency key of the call that reverses a call."""
    return joined("undo", idempotency_key)


def own_key(state: LoopState, call: Call) -> str | None:
    """Return the idempotency key of a call that reverses another one; None for other calls."""
    run, parent = state.run, None if call.parent_id is None else state.call(call.parent_id)
    if parent is not None and state.note(parent.call_id).choice is RecoveryChoice.UNDO:
        return key_of(parent.idempotency_key or "")
    return call.call_id if run is not None and run.undo is not None else None


def action(*, undo_name: str, call: JsonObject) -> JsonObject:
    """Return the call that reverses a call; `call` has the fields of an item of the list in the start."""
    given: JsonObject = {
        "call_id": call["callId"],
        "tool_name": call["toolName"],
        "arguments": call["arguments"],
        "result": call.get("result"),
        "idempotency_key": call["idempotencyKey"],
    }
    return {
        "kind": "tool-call",
        "callId": key_of(str(call["idempotencyKey"])),
        "toolName": undo_name,
        "input": {"call": given},
    }


def next_step(state: LoopState, *, now: Moment) -> Plan:
    """Return the next step of a run that reverses calls: a call, the last message, or the failure."""
    run, notes, turn = state.run, state.run_notes, state.session.turn
    assert run is not None
    assert run.undo is not None
    assert turn is not None
    calls, done = cast(list[JsonObject], run.undo["calls"]), notes.budget.steps_used
    if done >= len(calls) and notes.unreversed:
        return Plan(ends.failed(state, failures.not_reversed(notes.unreversed, len(calls)), now=now))
    index = 0 if turn.step_index is None else turn.step_index + 1
    place = state.place(index)

    def draft(kind: str, data: JsonObject) -> Draft:
        return Draft(kind, now.at, {**data, **place}, run.run_id, run.agent_id, turn.turn_id, index, 1)

    count: JsonObject = {"promptMessageCount": len(state.session.history.messages)}
    started = draft("step.started", count)
    if done >= len(calls):
        said = f"Reversed {len(calls)} call{'s' * (len(calls) > 1)} of run {run.undo['runId']}."
        told = draft("message.completed", {"message": said, "finishReason": "stop"})
        return Plan((started, told, draft("step.completed", {"finishReason": "stop"})))
    one = calls[done]
    made: list[JsonValue] = [action(undo_name=str(one["undoName"]), call=one)]
    asked = draft("actions.requested", {"actions": made})
    return Plan((started, asked, draft("step.completed", {"finishReason": "tool-calls"})))


def advance(state: LoopState, call: Call, note: CallNotes, *, now: Moment) -> list[Draft] | None:
    """Return the next records of an interrupted call that a person chose to reverse; None if that failed.

    First the call that reverses it is requested; once that has ended, the interrupted call has its result.
    """
    made = [one for one in state.session.history.calls_of(call.call_id) if one.tool_name == note.undo]
    if len(made) < note.reversals:
        return [_requested(state, call, note, tried=len(made), now=now)]
    output = made[-1].output
    if output is None:
        return []
    if output.type not in (ToolOutputType.TEXT, ToolOutputType.JSON):
        return None
    result: JsonObject = {**subagents.result_of(state, call, output=None), "isError": True}
    error: JsonObject = {"code": UNDONE, "message": _UNDONE}
    data: JsonObject = {"result": result, "status": ActionStatus.FAILED.value, "error": error}
    return [state.draft("action.result", {**data, **state.place_of(call)}, now=now)]


def _requested(state: LoopState, call: Call, note: CallNotes, *, tried: int, now: Moment) -> Draft:
    made = action(
        undo_name=note.undo or "",
        call={
            "callId": call.call_id,
            "toolName": call.tool_name,
            "arguments": call.input if call.arguments is None else call.arguments,
            "idempotencyKey": call.idempotency_key,
        },
    )
    if tried:
        made["callId"] = joined(str(made["callId"]), str(tried))
    data: JsonObject = {"actions": [made], **state.place_of(call), "parentCallId": call.call_id}
    return state.draft("actions.requested", data, now=now)
