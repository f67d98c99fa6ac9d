"""The system clock, ids, randomness and environment variables."""

import asyncio
import os
import random
import secrets
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from windlass.ports.clock import Clock, TimedStore

_TIME_BYTES: Final = 6
_RANDOM_BYTES: Final = 16


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never decreases."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class StoreClock:
    """A clock that shows the time of a store: all machines that share the store have the same time."""

    def __init__(self, clock: Clock, store: TimedStore) -> None:
        self._clock = clock
        self._store = store

    def now(self) -> datetime:
        """Return the wall-clock time of the store, in UTC."""
        return self._clock.now() + timedelta(milliseconds=self._store.ahead_ms)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never decreases."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return once that many seconds have passed by the monotonic clock."""
        await self._clock.sleep(seconds)


def clock_of(store: object, clock: Clock) -> Clock:
    """Return the clock for all who share a store: that of the store, if it has one."""
    return StoreClock(clock, store) if isinstance(store, TimedStore) else clock


def new_id() -> str:
    """Return a unique id: the time and 128 random bits, in hexadecimal.

    Later ids sort after earlier ones, which keeps indexes compact.
    """
    stamp = (time.time_ns() // 1_000_000).to_bytes(_TIME_BYTES)
    return (stamp + secrets.token_bytes(_RANDOM_BYTES)).hex()


def chance() -> float:
    """Return a number from 0 (included) to 1 (excluded)."""
    return random.random()


def variable(name: str) -> str | None:
    """Return an environment variable; None if it is not set."""
    return os.environ.get(name)


_PR_SET_DUMPABLE: Final = 4
_ENV_START: Final = 47
"""The place of `env_start` in /proc/self/stat, behind the name of the program; `env_end` follows."""


def hide_environment() -> None:
    """Hide the variables of this process from processes of the same user; on Linux alone.

    `/proc/PID/environ` becomes empty, and without root the memory of the process cannot be read. This process
    and its children keep their variables. Programs that start other programs call it once, when they start.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - few programs need it

    # The C library gets copies, so that nothing needs the block that the kernel shows.
    for name, value in os.environ.items():
        os.putenv(name, value)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
