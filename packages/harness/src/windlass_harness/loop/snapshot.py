"""The loop's state as bytes, so that long sessions need not be folded anew."""

from dataclasses import dataclass

from windlass_harness.loop.compacted import Compacting
from windlass_harness.loop.notes import CallNotes, Grant, RunNotes
from windlass_harness.loop.state import LoopState
from windlass_harness.views.fold import dump_state, load_state
from windlass_harness.views.runs import Deliveries
from windlass_harness.views.session import SessionState


@dataclass(frozen=True, slots=True)
class LoopSnapshot:
    """All that a loop knows."""

    session: SessionState
    notes: dict[str, CallNotes]
    run_notes: RunNotes
    grants: dict[str, Grant]
    deliveries: Deliveries
    compacting: Compacting


def dump_loop(state: LoopState) -> bytes:
    """Return the state as bytes."""
    return dump_state(
        LoopSnapshot(
            state.session.freeze(),
            state.notes,
            state.run_notes,
            state.grants,
            state.deliveries,
            state.compacting,
        )
    )


def load_loop(snapshot: bytes) -> LoopState | None:
    """Return the state in a snapshot; None if it has to be folded anew."""
    found = load_state(LoopSnapshot, snapshot)
    if found is None:
        return None
    state = LoopState(found.session)
    state.notes = found.notes
    state.run_notes = found.run_notes
    state.grants = found.grants
    state.deliveries = found.deliveries
    state.compacting = found.compacting
    return state
