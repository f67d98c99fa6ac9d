"""A clock that stands still until a test moves it."""

import asyncio
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final

from windlass.ports.clock import IDLE

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDING_S: Final = 1e-9
"""Moments this close are one: sums of fractions of a second are not exact."""


class FakeClock:
    """A Clock whose time passes when a test says so.

    Whoever sleeps is woken in the order of the moments they sleep until; of two with the same moment, the one
    that slept first. In `run_in_fake_time` the time passes by itself whenever nothing else is left to do.
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError("start needs a time zone; write datetime(..., tzinfo=UTC)")
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0
        self._shift = timedelta()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._idle: set[asyncio.Future[None]] = set()
        """Sleepers that expect nothing."""
        self._count = 0
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return self._start + timedelta(seconds=self._elapsed) + self._shift

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was moved that far."""
        if seconds <= 0:
            return
        future = asyncio.get_running_loop().create_future()
        self._count += 1
        heappush(self._sleepers, (self._elapsed + seconds, self._count, future))
        if self._watchers:
            self._tell_watchers()
        task = asyncio.current_task()
        if task is not None and task.get_name() == IDLE:
            self._idle.add(future)
            future.add_done_callback(self._idle.discard)
        await future

    def advance(self, seconds: float) -> None:
        """Let time pass and wake everybody whose moment has come.

        They run when the caller next waits; one that sleeps again sleeps from the new time on.
        """
        if seconds < 0:
            raise ValueError(f"time does not go back: advance takes 0 or more seconds, found {seconds}")
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + _ROUNDING_S:
            _, _, future = heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as a machine that corrects its time does."""
        self._shift += timedelta(seconds=seconds)

    @property
    def sleepers(self) -> int:
        """How many sleep."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_wake(self) -> float | None:
        """The seconds until the first of them wakes; None if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heappop(self._sleepers)
        return max(0.0, self._sleepers[0][0] - self._elapsed) if self._sleepers else None

    @property
    def is_idle(self) -> bool:
        """Whether somebody sleeps, and all who do expect nothing when they wake."""
        return bool(self._idle) and all(
            future.done() or future in self._idle for _, _, future in self._sleepers
        )

    async def until_sleeping(self, count: int = 1) -> None:
        """Return once at least so many sleep."""
        if self.sleepers >= count:
            return
        future = asyncio.get_running_loop().create_future()
        self._watchers.append((count, future))
        await future

    def _tell_watchers(self) -> None:
        sleepers = self.sleepers
        for count, future in self._watchers:
            if count <= sleepers and not future.done():
                future.set_result(None)
        self._watchers = [watcher for watcher in self._watchers if not watcher[1].done()]
