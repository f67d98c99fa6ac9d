"""Failpoints: counted places of a program, at any of which it can be ended."""

import os
import signal
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TypeVar

from windlass.testing.wrapped_store import FullStore, WrappedStore

T = TypeVar("T")


def end_process(name: str) -> None:
    """End the process at once, as a crash does: nothing is written, closed or told."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failpoints:
    """Counts the points that a program passes, and does something at one of them.

    Points are counted, not timed: the same program with the same number ends at the same place. Any thread
    may pass one. Run once without a number to learn from `passed` how many there are.
    """

    def __init__(self, at: int | None = None, *, act: Callable[[str], None] = end_process) -> None:
        if at is not None and at < 1:
            raise ValueError(f"the first point has number 1, found {at}")
        self._at = at
        self._act = act
        self._lock = Lock()
        self.passed: list[str] = []
        """The names of all points so far, in their order."""

    def hit(self, name: str) -> None:
        """Pass a point."""
        with self._lock:
            self.passed.append(name)
            is_it = len(self.passed) == self._at
        if is_it:
            self._act(name)


class FailpointStore(WrappedStore):
    """A store with three points around every call.

    `… asked`: nothing has happened. `… done`: it has happened, and the caller does not know. `… told`: the
    caller knows, and has gone on until it waits for something else.
    """

    def __init__(self, inner: FullStore, points: Failpoints) -> None:
        super().__init__(inner)
        self.points = points

    async def _pass(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.points.hit(f"{name} asked")
        result = await call()
        self.points.hit(f"{name} done")
        get_running_loop().call_soon(self.points.hit, f"{name} told")
        return result
