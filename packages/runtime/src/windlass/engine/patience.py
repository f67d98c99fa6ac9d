"""Waiting: for a store that did nothing, and for a model that is silent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.errors import Ambiguous, Unavailable
from windlass.ports.clock import Clock

T = TypeVar("T")

ATTEMPTS_MAX: Final = 5
RETRY_DELAY_S: Final = 0.05
"""Before the second attempt; each wait is twice the one before it."""
_IDLE_SLACK: Final = 0.05
"""The part of the idle limit by which it may be too short."""


async def patiently(call: Callable[[], Awaitable[T]], clock: Clock) -> T:
    """Make a call that may be repeated, again and again if it fails, but not for ever.

    Raises:
        Unavailable: it failed each time.
        Ambiguous: it may have happened the last time.
    """
    for attempt in range(ATTEMPTS_MAX - 1):
        try:
            return await call()
        except (Ambiguous, Unavailable):
            await clock.sleep(RETRY_DELAY_S * 2**attempt)
    return await call()


def put_off(
    loop: asyncio.AbstractEventLoop, limit: asyncio.Timeout, *, idle_s: float, latest: float
) -> Callable[[], None]:
    """Return what puts a limit off with every chunk.

    Not to the millisecond, which would be dear.
    """
    touched = loop.time()

    def on_chunk() -> None:
        nonlocal touched
        now = loop.time()
        if now - touched > idle_s * _IDLE_SLACK:
            touched = now
            limit.reschedule(min(latest, now + idle_s))

    return on_chunk
