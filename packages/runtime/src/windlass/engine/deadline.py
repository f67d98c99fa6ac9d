"""Waiting for code of the host, but never longer than it may take."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final, Generic, TypeVar, cast

from windlass.errors import is_for_us

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """It came to its end."""

    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    """It failed."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Late:
    """The time was over; it was told to end, and nobody waits for that."""


async def cut(
    work: Coroutine[object, object, T], timeout_s: float | Callable[[], float], *, is_patient: bool = False
) -> Returned[T] | Raised | Late:
    """Do some work within a time; whatever it raises is in the answer.

    `asyncio.timeout` would wait for work that does not end when it is cancelled; this does not. A time that
    may be put off is given as what is left of it. Only cancelling the caller gets out, and cancels the work
    too; a patient caller waits for the work to end then, until it is cancelled again.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    task = loop.create_task(_guarded(work, over))
    watch = _Watch(loop, over, timeout_s)
    try:
        await over
    except asyncio.CancelledError:
        if not is_patient or task.done():
            _leave(task)
            raise
        return await _ended(task)
    finally:
        watch.timer.cancel()
    if task.done() and not task.cancelled():
        return task.result()
    _leave(task)
    return Late()


class _Watch:
    """Looks at the clock for whoever waits; one timer costs less than `asyncio.wait`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        over: asyncio.Future[None],
        timeout_s: float | Callable[[], float],
    ) -> None:
        self._loop = loop
        self._over = over
        self._timeout_s = timeout_s
        self.timer = loop.call_later(timeout_s() if callable(timeout_s) else timeout_s, self._look)

    def _look(self) -> None:
        left_s = self._timeout_s() if callable(self._timeout_s) else 0.0
        if left_s > _TICK_S:
            self.timer = self._loop.call_later(left_s, self._look)
        else:
            _end(self._over)


async def _ended(task: asyncio.Task[T]) -> T:
    """Tell a task to end, and wait for that."""
    task.cancel()
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        _leave(task)
        raise
    return task.result()


class TooLate(Exception):
    """Whoever was waited for took longer than it may."""


async def within(value: T | Awaitable[T], timeout_ms: int) -> T:
    """Return a value that may have to be waited for, but not longer than this.

    Raises:
        TooLate: the time was over.
    """
    if not isawaitable(value):
        return cast(T, value)
    match await cut(_waited(value), timeout_ms / 1_000):
        case Returned(found):
            return found
        case Raised(error):
            raise error
        case _:
            raise TooLate


async def _waited(value: Awaitable[T]) -> T:
    return await value


async def _guarded(work: Coroutine[object, object, T], over: asyncio.Future[None]) -> Returned[T] | Raised:
    task = asyncio.current_task()
    try:
        return Returned(await work)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return Raised(error)
    except BaseException as error:  # the boundary to the host's code
        if is_for_us(error):
            raise
        return Raised(error)
    finally:
        # Whoever waits wakes when this task is done, without a turn of the loop between.
        _end(over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _leave(task: asyncio.Task[object]) -> None:
    """Let a task end by itself; it is held until then, so that it is not lost."""
    task.cancel()
    _LEFT.add(task)
    task.add_done_callback(_LEFT.discard)


_TICK_S: Final = 0.001
"""Less than that is no time to wait for: clocks count in parts of it."""
_LEFT: Final[set[asyncio.Task[object]]] = set()


class Inner:
    """Waits for what the driver does itself, like judging a call.

    Somebody may ring meanwhile: `is_unwanted` is asked then, and if it says so the wait is broken off.
    """

    def __init__(self, is_unwanted: Callable[[], Awaitable[bool]]) -> None:
        self._is_unwanted = is_unwanted
        self._waiter: asyncio.Task[object] | None = None
        self._lookout: asyncio.Task[None] | None = None
        self._is_broken_off = False
        self._is_rung = False
        """Whether somebody rang while nothing was waited for."""

    async def do(self, work: Awaitable[T]) -> T | None:
        """Return what came of some work; None if it was broken off."""
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None, "a driver is a task"
        self._is_broken_off = False
        if self._is_rung:
            self.ring()
        try:
            found = await work
        except asyncio.CancelledError:
            # Somebody else may have cancelled the driver as well.
            if not self._is_broken_off or waiter.uncancel():
                raise
            found = None
        else:
            if self._is_broken_off:
                waiter.uncancel()
        finally:
            self._waiter = None
            lookout, self._lookout = self._lookout, None
            if lookout is not None:
                await lookout
        return found

    def ring(self) -> None:
        """Find out whether the work is still wanted."""
        self._is_rung = self._waiter is None
        if self._waiter is not None and self._lookout is None:
            self._lookout = asyncio.create_task(self._look())

    async def _look(self) -> None:
        if await self._is_unwanted():
            self.break_off()

    def break_off(self) -> None:
        """Wait no longer."""
        self._is_rung = self._waiter is None
        if self._waiter is not None and not self._is_broken_off:
            self._is_broken_off = True
            self._waiter.cancel()
