"""The system clock, ids, randomness and environment variables."""

import asyncio
import os
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Final

_TIME_BYTES: Final = 6
_RANDOM_BYTES: Final = 16


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return once that many seconds have passed."""
        await asyncio.sleep(seconds)


def new_id() -> str:
    """Return a name that nobody else has: the time and 128 random bits.

    It is hexadecimal; names of later milliseconds sort behind earlier ones, which keeps indexes compact.
    """
    stamp = (time.time_ns() // 1_000_000).to_bytes(_TIME_BYTES)
    return (stamp + secrets.token_bytes(_RANDOM_BYTES)).hex()


def chance() -> float:
    """Return a number from 0 up to, and without, 1."""
    return random.random()


def variable(name: str) -> str | None:
    """Return a variable of the environment; None if it is not set."""
    return os.environ.get(name)
