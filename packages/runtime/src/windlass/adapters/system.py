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
        """Return seconds since an arbitrary moment; never decreases."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


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
