"""Fake clocks, fake event-loop time, seeded randomness and ids."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Final, TypeVar

from windlass.ports.clock import IDLE
from windlass.tools.calling import CONVERSIONS
from windlass_protocol.frozen import mutable

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDING_S: Final = 1e-9
"""Times this close count as equal: sums of fractions of a second are not exact."""


class FakeClock:
    """A Clock with a time that a test controls.

    Sleepers are woken in the order of their wake times; for equal times, in the order in which they went to
    sleep. In `run_in_fake_time` the time advances by itself whenever all tasks wait.
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError("start needs a time zone; write datetime(..., tzinfo=UTC)")
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0
        self._shift = timedelta()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._idle: set[asyncio.Future[None]] = set()
        """Sleepers that only poll."""
        self._count = 0
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the wall-clock time."""
        return self._start + timedelta(seconds=self._elapsed) + self._shift

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was advanced that far."""
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
        """Advance the time and wake all sleepers that are due.

        They run when the caller next awaits; one that sleeps again sleeps from the new time.
        """
        if seconds < 0:
            raise ValueError(f"advance takes 0 or more seconds, found {seconds}")
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + _ROUNDING_S:
            _, _, future = heappop(self._sleepers)
            if not future.done():
                future.set_result(None)

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, like a machine that corrects its time."""
        self._shift += timedelta(seconds=seconds)

    @property
    def sleepers(self) -> int:
        """The number of sleepers."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_wake(self) -> float | None:
        """The seconds until the first sleeper wakes; None without sleepers."""
        while self._sleepers and self._sleepers[0][2].done():
            heappop(self._sleepers)
        return max(0.0, self._sleepers[0][0] - self._elapsed) if self._sleepers else None

    @property
    def is_idle(self) -> bool:
        """Whether there are sleepers, and all of them only poll."""
        return bool(self._idle) and all(
            future.done() or future in self._idle for _, _, future in self._sleepers
        )

    async def until_sleeping(self, count: int = 1) -> None:
        """Return once at least `count` tasks sleep."""
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
"""How long to wait for a thread or a socket before the test counts as stuck."""
TURNS_MAX: Final = 50_000
"""Iterations of the event loop without time passing before the test counts as busy for ever."""

IDLE_S_MAX: Final = 600.0
"""How long only the pollers of runtimes may wake before the test counts as stuck.

It is longer than the lease of a dead owner.
"""


def check_no_loop(name: str) -> None:
    """Refuse a function that runs an event loop of its own while one is running in this thread.

    Raises:
        RuntimeError: an event loop is running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{name}() runs an event loop of its own, and one is running in this thread; "
        f"write await asyncio.to_thread({name}, …)"
    )


def run_in_fake_time(main: Coroutine[object, object, T], *, clock: FakeClock) -> T:
    """Run a coroutine to its end, as `asyncio.run` does, in the time of the clock.

    Raises:
        RuntimeError: all tasks wait and none has a wake time, apart from the polling of a runtime; a task is
            busy for ever; or an event loop is running in this thread.
    """
    try:
        check_no_loop("run_in_fake_time")
    except RuntimeError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(main)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop with the time of a clock."""

    def __init__(self, clock: FakeClock) -> None:
        self._fake_clock = clock
        super().__init__(_Jump(clock))

    def time(self) -> float:
        return self._fake_clock.monotonic()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - of asyncio
        """Wait for the threads without the timeout of Python 3.12 and later: the clock would jump to it."""
        await super().shutdown_default_executor()


class _Jump(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = 0
        """Iterations since time passed last."""
        self._idle_s = 0.0
        """How long only pollers have slept."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            self._turns += 1
            if self._turns > TURNS_MAX:
                self._turns = 0
                raise RuntimeError(f"busy: no time has passed in {TURNS_MAX:,} iterations of the event loop")
            return ready
        self._turns = 0
        if CONVERSIONS.count and (ready := super().select(REAL_WAIT_S_MAX)):
            # Time stands still while a thread masks or serialises a large value.
            return ready
        waits = [wait for wait in (timeout, self._clock.next_wake) if wait is not None]
        if waits:
            self._pass(max(0.0, min(waits)), is_idle=timeout is None and self._clock.is_idle)
            return ready
        ready = super().select(REAL_WAIT_S_MAX)
        if not ready:
            raise RuntimeError("stuck: all tasks wait, none sleeps, and there is no timeout")
        return ready

    def _pass(self, seconds: float, *, is_idle: bool) -> None:
        self._idle_s = self._idle_s + seconds if is_idle else 0.0
        if self._idle_s > IDLE_S_MAX:
            self._idle_s = 0.0
            raise RuntimeError(
                f"stuck: for {IDLE_S_MAX:,.0f} s only pollers have slept, and no session has a wake time: "
                "the test waits for an event that nothing will cause, such as an answer to a request or an "
                "event of a workflow (send={name: data})"
            )
        self._clock.advance(seconds)


_MASK: Final = 2**64 - 1
_DOUBLE_BITS: Final = 53


@mutable
class SequentialIds:
    """An id factory that counts: id-1, id-2, id-3 …"""

    prefix: str = "id"
    count: int = 0

    def __call__(self) -> str:
        """Return the next id."""
        self.count += 1
        return f"{self.prefix}-{self.count}"


@mutable
class SeededRandom:
    """Random numbers from a seed (SplitMix64): the same in every version of Python."""

    seed: int = 0

    def __call__(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
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
    """Return a random source that repeats."""
    return SeededRandom(seed & _MASK)
