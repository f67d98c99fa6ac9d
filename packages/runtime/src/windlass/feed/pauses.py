"""Pauses of readers between two reads of live deltas."""

from asyncio import Future, ensure_future
from collections.abc import Coroutine
from math import ceil
from typing import Final

from windlass.ports.clock import Clock

PAUSE_STEPS: Final = 5
"""A pause is up to a fifth longer than asked for: readers whose pauses end in one step share a timer."""


class LivePause:
    """A pause that readers share; it ends once its time has passed, or its last reader has left."""

    __slots__ = ("_readers", "_waits", "is_over", "timer")

    def __init__(self, sleep: Coroutine[object, object, None]) -> None:
        self.is_over = False
        self.timer = ensure_future(sleep)
        self._readers = 0
        self._waits: set[Future[None]] = set()
        self.timer.add_done_callback(self._end)

    def join(self) -> None:
        """Add a reader."""
        self._readers += 1

    def leave(self) -> None:
        """Remove a reader; without any the timer is stopped."""
        self._readers -= 1
        if not self._readers:
            self.is_over = True
            self.timer.cancel()

    def wake(self, wait: Future[None]) -> None:
        """Complete a future at the end of the pause."""
        self._waits.add(wait)

    def forget(self, wait: Future[None]) -> None:
        """Undo `wake`."""
        self._waits.discard(wait)

    def _end(self, timer: "Future[None]") -> None:
        self.is_over = True
        for wait in self._waits:
            if not wait.done():
                wait.set_result(None)
        self._waits.clear()


class LivePauses:
    """The pauses of all readers of a feed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[tuple[float, int], LivePause] = {}

    def begin(self, seconds: float) -> LivePause:
        """Begin a pause of at least that many seconds for one more reader."""
        now, step = self._clock.monotonic(), seconds / PAUSE_STEPS
        key = (seconds, ceil((now + seconds) / step))
        pause = self._pauses.get(key)
        if pause is None or pause.is_over:
            pause = self._pauses[key] = LivePause(self._clock.sleep(key[1] * step - now))
            pause.timer.add_done_callback(lambda timer: self._forget(key, timer))
        pause.join()
        return pause

    def _forget(self, key: tuple[float, int], timer: "Future[None]") -> None:
        pause = self._pauses.get(key)
        if pause is not None and pause.timer is timer:
            del self._pauses[key]
