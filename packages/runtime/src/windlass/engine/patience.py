"""Trying again when a store did nothing."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.errors import Ambiguous, Unavailable
from windlass.ports.clock import Clock
from windlass_protocol import RetryClass

T = TypeVar("T")

ATTEMPTS_MAX: Final = 5
RETRY_DELAY_S: Final = 0.05
"""Before the second attempt; each wait is twice the one before it."""


DELAY_S_MAX: Final = 1.0
DEAR_S_MAX: Final = 600.0
"""How long what cannot be had again is tried to be kept, as when a disk is full."""


async def patiently(
    call: Callable[[], Awaitable[T]], clock: Clock, *, is_dear: Callable[[], bool] = lambda: False
) -> T:
    """Make a call that may be repeated, again and again if it fails, but not for ever.

    For as long as it is dear it is repeated up to ten minutes, unless the store says that it never will.

    Raises:
        Unavailable: it failed each time.
        Ambiguous: it may have happened the last time.
    """
    attempts, until_s = 0, clock.monotonic() + DEAR_S_MAX
    while True:
        attempts += 1
        try:
            return await call()
        except (Ambiguous, Unavailable) as error:
            is_passing = isinstance(error, Ambiguous) or error.retry is RetryClass.RETRYABLE
            is_worth_it = is_passing and is_dear() and clock.monotonic() < until_s
            if attempts >= ATTEMPTS_MAX and not is_worth_it:
                raise
        await clock.sleep(min(RETRY_DELAY_S * 2 ** min(attempts - 1, ATTEMPTS_MAX), DELAY_S_MAX))
