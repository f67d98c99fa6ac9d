"""Wall clock and randomness for callers without an event loop.

Separate from `system`, because the recorder must be cheap to import and asyncio is not.
"""

import os
import time
from datetime import UTC, datetime
from typing import Final

_MS_PER_S: Final = 1_000
_NS_PER_MS: Final = 1_000_000


def now_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return time.time_ns() // _NS_PER_MS


def now() -> datetime:
    """Return the wall-clock time in UTC."""
    return datetime.now(UTC)


def elapsed_ms() -> int:
    """Return milliseconds since an arbitrary moment; never decreases."""
    return time.monotonic_ns() // _NS_PER_MS


def random_hex(chars: int) -> str:
    """Return random hexadecimal digits; `chars` must be even."""
    return os.urandom(chars // 2).hex()


class Stamps:
    """Timestamps of records: 2026-01-31T09:30:00.250Z.

    Each second is formatted once: a recorder writes thousands of records in a second.
    """

    def __init__(self) -> None:
        self._last: tuple[int, str] = (-1, "")

    def now(self) -> str:
        """Return the wall-clock time in UTC."""
        second, ms = divmod(now_ms(), _MS_PER_S)
        # Read once: another thread may replace it.
        last = self._last
        if last[0] != second:
            last = self._last = second, datetime.fromtimestamp(second, UTC).isoformat()[:19]
        return f"{last[1]}.{ms:03d}Z"


def day_and_time() -> str:
    """Return the wall-clock time in UTC for file names: 20260131_093000."""
    return datetime.fromtimestamp(now_ms() // _MS_PER_S, UTC).strftime("%Y%m%d_%H%M%S")
