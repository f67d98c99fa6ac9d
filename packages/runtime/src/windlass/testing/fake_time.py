"""An event loop that never waits: time jumps to the next moment.

Sleeps of the FakeClock and timeouts of asyncio pass alike, so an hour of retries takes a moment, and the
order of everything is the same in every run. It is for code that lives in the event loop alone: a thread or a
socket needs real time, and the loop cannot know how much.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Final, TypeVar

from windlass.testing.clock import FakeClock

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
