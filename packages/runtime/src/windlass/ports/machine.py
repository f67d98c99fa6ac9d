"""The port of the machine: time, ids and chance in one value."""

from collections.abc import Callable

from windlass.ports.clock import Clock, IdFactory, Random
from windlass.ports.stalls import LoopWatch
from windlass_protocol.frozen import sealed


@sealed
class Machine:
    """The clock, id factory and random source of a runtime."""

    clock: Clock
    new_id: IdFactory
    random: Random
    watch: Callable[[], LoopWatch] | None = None
    """Begins to watch the event loop of a runtime for stalls; None: it is not watched."""
