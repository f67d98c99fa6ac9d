"""What time it is, as records write it."""

from datetime import datetime

from windlass.ports.clock import Clock
from windlass_harness.loop.events import Moment


def moment(clock: Clock) -> Moment:
    """Return what time it is."""
    now = clock.now()
    return Moment(stamp(now), int(now.timestamp() * 1000))


def stamp(now: datetime) -> str:
    """Return a moment as the wire writes it, to the millisecond."""
    return now.isoformat(timespec="milliseconds")[:23] + "Z"
