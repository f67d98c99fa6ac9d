"""Fake clocks, fake event-loop time, seeded randomness and ids."""

import asyncio
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final, TypeVar

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


T = TypeVar("T")

REAL_WAIT_S_MAX: Final = 10.0
"""How long to wait for a thread or a socket before the test is taken for stuck."""
TURNS_MAX: Final = 50_000
"""How often the event loop may turn at one moment before the test is taken for busy for ever."""

IDLE_S_MAX: Final = 600.0
"""How long nobody but the keepers of runtimes may wake before the test is taken for stuck.

Longer than an owner that is gone is waited for.
"""


def run_in_fake_time(main: Coroutine[object, object, T], *, clock: FakeClock) -> T:
    """Run a coroutine to its end, as `asyncio.run` does, in the time of the clock.

    Raises:
        RuntimeError: everybody waits, and there is no moment to wait for, apart from those at which a runtime
            looks around; or somebody is busy for ever.
    """
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(main)


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time is that of a clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._fake_clock = clock
        super().__init__(_Jump(clock))

    def time(self) -> float:
        return self._fake_clock.monotonic()


class _Jump(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = 0
        """Since time passed last."""
        self._idle_s = 0.0
        """How long nobody has waited for a moment but those who only look around."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            self._turns += 1
            if self._turns > TURNS_MAX:
                self._turns = 0
                raise RuntimeError(f"busy: time has stood still for {TURNS_MAX:,} turns of the event loop")
            return ready
        self._turns = 0
        waits = [wait for wait in (timeout, self._clock.next_wake) if wait is not None]
        if waits:
            self._pass(max(0.0, min(waits)), is_idle=timeout is None and self._clock.is_idle)
            return ready
        ready = super().select(REAL_WAIT_S_MAX)
        if not ready:
            raise RuntimeError("stuck: everybody waits, nobody sleeps, and there is no timeout")
        return ready

    def _pass(self, seconds: float, *, is_idle: bool) -> None:
        self._idle_s = self._idle_s + seconds if is_idle else 0.0
        if self._idle_s > IDLE_S_MAX:
            self._idle_s = 0.0
            raise RuntimeError(
                f"stuck: for {IDLE_S_MAX:,.0f} s nobody has waited for a moment, and no session wants to be "
                "woken at one: what the test waits for does not come by itself, as an answer to a request"
            )
        self._clock.advance(seconds)


_MASK: Final = 2**64 - 1
_DOUBLE_BITS: Final = 53


@dataclass(slots=True)
class SequentialIds:
    """An id factory that counts: id-1, id-2, id-3 …"""

    prefix: str = "id"
    count: int = 0

    def __call__(self) -> str:
        """Return the next name."""
        self.count += 1
        return f"{self.prefix}-{self.count}"


@dataclass(slots=True)
class SeededRandom:
    """Chance from a seed (SplitMix64): the same numbers in every version of Python."""

    seed: int = 0

    def __call__(self) -> float:
        """Return a number from 0 up to, and without, 1."""
        self.seed = (self.seed + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.seed
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        return (mixed >> (64 - _DOUBLE_BITS)) / 2**_DOUBLE_BITS


def sequential_ids(prefix: str = "id") -> SequentialIds:
    """Return an id factory that counts from 1."""
    return SequentialIds(prefix)


def seeded_random(seed: int) -> SeededRandom:
    """Return a source of chance that repeats."""
    return SeededRandom(seed & _MASK)
