"""What time it is, as records write it."""

from datetime import datetime

from windlass.ports.clock import Clock
from windlass_harness.loop.events import Moment
from windlass_harness.loop.state import LoopState


def moment(clock: Clock) -> Moment:
    """Return what time it is."""
    now = clock.now()
    return Moment(stamp(now), int(now.timestamp() * 1000))


def stamp(now: datetime) -> str:
    """Return a moment as the wire writes it, to the millisecond."""
    return now.isoformat(timespec="milliseconds")[:23] + "Z"


def time_left_ms(state: LoopState, clock: Clock, *, most_ms: int) -> int:
    """Return how long an effect may take before the budget of its run is used up."""
    limit_ms = state.run_notes.limits.max_wall_ms
    return most_ms if limit_ms is None else max(0, min(most_ms, limit_ms - state.wall_ms(moment(clock))))
