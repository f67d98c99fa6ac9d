"""Clocks for tests."""

from datetime import datetime, timedelta

from windlass.adapters.system import SystemClock


class RisingClock(SystemClock):
    """A clock that is five milliseconds later each time it is read, so that no two runs begin at one time."""

    def __init__(self) -> None:
        super().__init__()
        self._reads = 0

    def now(self) -> datetime:
        self._reads += 1
        return super().now() + timedelta(milliseconds=5 * self._reads)
