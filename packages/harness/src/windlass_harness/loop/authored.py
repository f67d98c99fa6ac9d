"""The authored state of a session: values that tools keep between their calls."""

from typing import Final

from pydantic_core import to_json

from windlass_harness.loop.events import CallReturned, Draft, Moment, StateChange, StateGiven
from windlass_harness.loop.state import LoopState
from windlass_protocol import ActionStatus, JsonObject
from windlass_protocol.frozen import frozen

STATE_KEYS_MAX: Final = 1_024
"""Of one session."""
STATE_BYTES_MAX: Final = 262_144
"""All keys and values of one session, as JSON."""
STATE_TOO_LARGE: Final = "state_too_large"
"""The code of a call whose changes would not fit."""


def changed(values: JsonObject, change: StateChange) -> JsonObject:
    """Return the state after a change; the one before is not touched."""
    kept = {key: value for key, value in values.items() if key not in change.removed}
    return {**kept, **change.values}


def state_problem(values: JsonObject, change: StateChange) -> str | None:
    """Say why a change does not fit; a change that only takes away always does."""
    if not change.values:
        return None
    after = changed(values, change)
    if len(after) > STATE_KEYS_MAX:
        return f"the state of the session would have {len(after):,} keys, limit {STATE_KEYS_MAX:,}"
    size = len(to_json(after))
    if size > STATE_BYTES_MAX:
        return f"the state of the session would have {size:,} bytes, limit {STATE_BYTES_MAX:,}"
    return None


@frozen
class Kept:
    """What a call came to, and the record of what it changed."""

    returned: CallReturned
    drafts: tuple[Draft, ...] = ()


def keep(state: LoopState, event: CallReturned, *, now: Moment) -> Kept:
    """Draft what a call changed; one whose changes do not fit has failed."""
    if event.state is None:
        return Kept(event)
    problem = state_problem(state.session.authored, event.state)
    if problem is None:
        return Kept(event, (state.draft("session.state_changed", event.state.data, now=now),))
    told = f"The call was made, but what it wanted to remember was not kept: {problem}"
    failed = CallReturned(
        event.call_id,
        ActionStatus.FAILED,
        None,
        code=STATE_TOO_LARGE,
        message=told,
        duration_ms=event.duration_ms,
    )
    return Kept(failed)


def given(state: LoopState, event: StateGiven, *, now: Moment) -> list[Draft]:
    """Draft what somebody outside changes; what does not fit any more is left out."""
    if state_problem(state.session.authored, event.change) is not None:
        return []
    data = event.change.data
    if state.run is None:
        # It belongs to the session alone: the run before it has ended.
        return [Draft("session.state_changed", now.at, data)]
    return [state.draft("session.state_changed", data, now=now)]
