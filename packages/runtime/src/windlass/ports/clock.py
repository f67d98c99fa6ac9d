"""Ports for time and ids, and the tasks that wait for them."""

import asyncio
from collections.abc import Coroutine
from datetime import datetime
from typing import Final, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")

IDLE: Final = "windlass keeper, idle"
"""The name of a task that sleeps only to poll again later.

The test clock uses it to detect a test that waits for ever.
"""


def begin_task(
    tasks: set[asyncio.Task[T]], work: Coroutine[object, object, T], *, name: str | None = None
) -> asyncio.Task[T]:
    """Begin a task; the set holds it until it ends, for the event loop would let it be collected."""
    task = asyncio.create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


class Clock(Protocol):
    """Wall-clock time, monotonic time and sleep."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC; it may jump in both directions."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never decreases."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once that many seconds have passed by the monotonic clock."""
        ...


@runtime_checkable
class TimedStore(Protocol):
    """A store with a clock of its own, by which leases and times that are due are judged."""

    @property
    def ahead_ms(self) -> int:
        """How far the clock of the store is ahead of that of this machine; 0 if they hardly differ."""
        ...


class IdFactory(Protocol):
    """Creates unique ids."""

    def __call__(self) -> str:
        """Return a unique id with at least 128 random bits, safe in URLs and file names."""
        ...


class Random(Protocol):
    """A source of random numbers."""

    def __call__(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        ...
