"""The results of calls that are not made, or not again."""

from typing import Final

from windlass_harness.loop.drafts import Draft
from windlass_harness.loop.events import Moment
from windlass_harness.loop.notes import CallNotes
from windlass_harness.loop.state import LoopState
from windlass_harness.views.history import Call, CallStage
from windlass_protocol import InputOutcome, JsonObject

_NOT_AGAIN: Final = "The call was interrupted: it may or may not have taken effect, and is not run again."


def denied(state: LoopState, call: Call, *, note: CallNotes, now: Moment) -> Draft:
    """Return the result of a call that people did not consent to."""
    words = {
        InputOutcome.EXPIRED: "Nobody approved the call in time.",
        InputOutcome.CANCELLED: "The request for approval was withdrawn.",
        InputOutcome.IGNORED: "The person went on without answering the request for approval.",
    }
    denial = f"A person denied the call: {note.reason}" if note.reason else "A person denied the call."
    message = words.get(note.outcome or InputOutcome.DENIED, denial)
    return refused(state, call, now=now, code="denied", message=message)


def refused(state: LoopState, call: Call, *, now: Moment, code: str, message: str) -> Draft:
    """Return the result of a call that was not made, or not again."""
    if call.stage is CallStage.STARTED and not state.is_unbegun(call):
        message = f"{_NOT_AGAIN} {message}"
    result: JsonObject = {
        "kind": "tool-result",
        "callId": call.call_id,
        "toolName": call.tool_name,
        "output": None,
        "isError": True,
    }
    error: JsonObject = {"code": code, "message": message}
    data: JsonObject = {
        "result": result,
        "status": "rejected",
        "error": error,
        **state.place(call.step_index),
    }
    return state.draft("action.result", data, now=now)
