"""The port of the machine: time, ids and chance in one value, and the stalls of its event loops."""

from collections.abc import Callable
from typing import Protocol

from windlass.ports.clock import Clock, IdFactory, Random
from windlass_protocol.frozen import sealed


@sealed
class Stall:
    """One stall, without any data of what was processed."""

    duration_ms: int
    """From a signal to the loop until its answer: up to 250 ms less than the stall."""
    session_id: str | None
    """The session whose task ran; None if it was another task."""
    task: str
    """The name of that task; empty if a callback ran, or the stall ended before it was looked at."""
    code: str
    """The innermost frame outside of the standard library, as `module:function:line`; empty like `task`."""


@sealed
class StallTotals:
    """Stalls of all event loops of the process, since it started."""

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0
    latest: tuple[Stall, ...] = ()
    """The newest ones, the last one last."""


class LoopWatch(Protocol):
    """Watches the event loop of a runtime until it is released."""

    def release(self) -> None:
        """Stop watching, unless another runtime of the loop goes on."""
        ...


@sealed
class Machine:
    """The clock, id factory and random source of a runtime."""

    clock: Clock
    new_id: IdFactory
    random: Random
    watch: Callable[[], LoopWatch] | None = None
    """Begins to watch the event loop of a runtime for stalls; None: it is not watched."""
