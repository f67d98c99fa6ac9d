"""Session state: values that tools keep between their calls."""

from typing import Final

from msgspec import Struct
from pydantic_core import to_json

from windlass_harness.loop.events import CallReturned, Draft, Moment, StateChange, StateGiven
from windlass_harness.loop.state import LoopState
from windlass_protocol import ActionStatus, JsonObject

STATE_KEYS_MAX: Final = 1_024
"""Keys per session."""
STATE_BYTES_MAX: Final = 262_144
"""Bytes of all keys and values of a session, as JSON."""
STATE_TOO_LARGE: Final = "state_too_large"
"""Error code of a call that fails because its state changes exceed the limits."""


def apply_change(values: JsonObject, change: StateChange) -> JsonObject:
    """Return the state after a change; the input is not modified."""
    remaining = {key: value for key, value in values.items() if key not in change.removed}
    return {**remaining, **change.values}


def state_problem(values: JsonObject, change: StateChange) -> str | None:
    """Return why a change exceeds the limits, or None; a change that only deletes never does."""
    if not change.values:
        return None
    after = apply_change(values, change)
    if len(after) > STATE_KEYS_MAX:
        return f"the state of the session would have {len(after):,} keys, limit {STATE_KEYS_MAX:,}"
    size = len(to_json(after))
    if size > STATE_BYTES_MAX:
        return f"the state of the session would have {size:,} bytes, limit {STATE_BYTES_MAX:,}"
    return None


class Kept(Struct, frozen=True):
    """The result of a call, and the record of its state changes."""

    returned: CallReturned
    drafts: tuple[Draft, ...] = ()


def keep(state: LoopState, event: CallReturned, *, now: Moment) -> Kept:
    """Draft the state changes of a call; the call fails if they exceed the limits."""
    if event.state is None:
        return Kept(event)
    problem = state_problem(state.session.authored, event.state)
    if problem is None:
        return Kept(event, (state.draft(event.state.body, now=now),))
    message = f"The call ran, but its changes to the session state were not stored: {problem}"
    failed = CallReturned(
        event.call_id,
        ActionStatus.FAILED,
        None,
        code=STATE_TOO_LARGE,
        message=message,
        duration_ms=event.duration_ms,
    )
    return Kept(failed)


def take_change(state: LoopState, event: StateGiven, *, now: Moment) -> list[Draft]:
    """Draft state changes of the application; changes that no longer fit are dropped."""
    if state_problem(state.session.authored, event.change) is not None:
        return []
    body = event.change.body
    if state.run is None:
        # A record of the session alone: its last run has ended.
        return [Draft(body.TYPE, now.at, body)]
    return [state.draft(body, now=now)]
