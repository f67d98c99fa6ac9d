"""Trying again when a store did nothing."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.errors import Ambiguous, Unavailable
from windlass.ports.clock import Clock

T = TypeVar("T")

ATTEMPTS_MAX: Final = 5
RETRY_DELAY_S: Final = 0.05
"""Before the second attempt; each wait is twice the one before it."""


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
