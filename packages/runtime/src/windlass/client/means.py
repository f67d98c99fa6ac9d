"""What the client takes from the machine, and tests give it."""

from dataclasses import dataclass, field

from windlass import parts
from windlass.ports.clock import Clock, IdFactory, Random


@dataclass(frozen=True, slots=True)
class Means:
    """Time, names and chance."""

    clock: Clock = field(default_factory=parts.SystemClock)
    new_id: IdFactory = parts.new_id
    """Makes idempotency keys."""
    chance: Random = parts.chance
    """Spreads the waits of many clients."""
