"""Ports for time and ids."""

from datetime import datetime
from typing import Final, Protocol

IDLE: Final = "windlass keeper, idle"
"""The name of a task that sleeps only to look around later: nothing that it knows of is going to happen.

A clock for tests tells a test that waits for ever by it.
"""


class Clock(Protocol):
    """What time it is, and how to let time pass."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC; it may jump in both directions."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once that many seconds have passed by the monotonic clock."""
        ...


class IdFactory(Protocol):
    """Where new names come from."""

    def __call__(self) -> str:
        """Return a name that nobody else has.

        At least 128 random bits, safe in addresses and file names.
        """
        ...


class Random(Protocol):
    """Where chance comes from."""

    def __call__(self) -> float:
        """Return a number from 0 up to, and without, 1."""
        ...
