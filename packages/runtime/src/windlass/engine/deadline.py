"""Deadlines: time limits of application code, and waits that a cancel interrupts."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from inspect import isawaitable
from math import inf
from typing import Final, Generic, TypeVar, cast

from windlass.errors import is_for_us
from windlass_protocol.frozen import frozen, sealed

T = TypeVar("T")


@sealed
class Returned(Generic[T]):
    """The work returned a value."""

    value: T


@frozen
class Raised:
    """It failed."""

    error: BaseException


@frozen
class TimedOut:
    """The time limit passed; the work was cancelled and is not awaited."""


async def run_with_deadline(
    work: Coroutine[object, object, T], timeout_s: float | Callable[[], float], *, is_patient: bool = False
) -> Returned[T] | Raised | TimedOut:
    """Run work with a time limit; errors are returned, not raised.

    Unlike `asyncio.timeout` it does not wait for work that ignores cancellation. Pass a callable as
    `timeout_s` if the deadline can move. Cancelling the caller cancels the work; with `is_patient` the caller
    then waits for the work to end, until it is cancelled again.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    caller = asyncio.current_task()
    # Named like the task of the caller: a stall of the event loop is logged with the name of its task.
    task = loop.create_task(_run_until(work, over), name=None if caller is None else caller.get_name())
    watch = _Watch(loop, over, timeout_s)
    try:
        await over
    except asyncio.CancelledError:
        if not is_patient or task.done():
            _leave(task)
            raise
        return await _cancel_and_wait(task)
    finally:
        watch.timer.cancel()
    if task.done() and not task.cancelled():
        return task.result()
    _leave(task)
    return TimedOut()


class _Watch:
    """Polls a movable deadline; one timer is cheaper than `asyncio.wait`."""

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


async def _cancel_and_wait(task: asyncio.Task[T]) -> T:
    """Cancel a task and wait for its end."""
    task.cancel()
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        _leave(task)
        raise
    return task.result()


class DeadlineExceeded(Exception):
    """The awaited code exceeded its time limit."""


async def await_within(value: T | Awaitable[T], timeout_ms: int) -> T:
    """Return a value; if it is awaitable, wait for at most `timeout_ms`.

    Raises:
        TooLate: the time limit passed.
    """
    if not isawaitable(value):
        return cast(T, value)
    match await run_with_deadline(_await_value(value), timeout_ms / 1_000):
        case Returned(result):
            return result
        case Raised(error):
            raise error
        case _:
            raise DeadlineExceeded


async def _await_value(value: Awaitable[T]) -> T:
    return await value


async def _run_until(work: Coroutine[object, object, T], over: asyncio.Future[None]) -> Returned[T] | Raised:
    task = asyncio.current_task()
    try:
        return Returned(await work)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return Raised(error)
    except BaseException as error:  # boundary to application code
        if is_for_us(error):
            raise
        return Raised(error)
    finally:
        # Complete the future here: the waiter wakes one turn of the event loop earlier.
        _end(over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _leave(task: asyncio.Task[object]) -> None:
    """Abandon a task; a reference is kept until it ends, so that it is not garbage-collected."""
    task.cancel()
    _LEFT.add(task)
    task.add_done_callback(_LEFT.discard)


LEAVE_S: Final = 0.5
"""How long cancelled code may take to end before it is abandoned."""
_TICK_S: Final = 0.001
"""Clock resolution: a shorter remainder counts as no time left."""
_LEFT: Final[set[asyncio.Task[object]]] = set()


class Deadlines:
    """The time limits of all effects of a runtime, watched by one timer of the event loop.

    Effects end long before their limits, so a timer per effect would be set and cancelled for nothing.
    The one timer is set for the earliest limit and stays when that limit is removed.
    """

    def __init__(self) -> None:
        self._open: dict[TimeLimit, None] = {}
        """In the order in which they were added, so that limits of one moment expire in a fixed order."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._at = inf

    def limit(self, seconds: float, on_left: Callable[[], None] | None = None) -> "TimeLimit":
        """Return a time limit for the block of a `with` statement; see `TimeLimit`."""
        return TimeLimit(self, seconds, on_left)

    def add(self, limit: "TimeLimit") -> None:
        """Start watching a limit."""
        if limit.loop is not self._loop:
            # A program may run several event loops in turn; the timer of an ended one never fires.
            self._open.clear()
            self._loop, self._timer, self._at = limit.loop, None, inf
        self._open[limit] = None
        if limit.at < self._at:
            self._arm(limit.loop, limit.at)

    def drop(self, limit: "TimeLimit") -> None:
        """Stop watching a limit."""
        self._open.pop(limit, None)

    def _arm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at = loop.call_at(at, self._tick, loop), at

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, self._at = None, inf
        now = loop.time() + _TICK_S
        for limit in [limit for limit in self._open if limit.at <= now]:
            del self._open[limit]
            # A callback of its own: an error of one must not stop the others.
            loop.call_soon(limit.expire)
        if self._open and self._timer is None:
            self._arm(loop, min(limit.at for limit in self._open))


class TimeLimit:
    """A time limit of the current task, as `asyncio.timeout` sets one.

    When it expires, the task is cancelled and the block raises TimeoutError. If the block has not ended
    `LEAVE_S` later, `on_left` is called once and the block is abandoned.
    """

    __slots__ = (
        "_before", "_deadlines", "_is_closed", "_on_left", "_task", "at", "is_left", "is_over", "loop",
    )  # fmt: skip

    def __init__(self, deadlines: Deadlines, seconds: float, on_left: Callable[[], None] | None) -> None:
        task = asyncio.current_task()
        assert task is not None, "a time limit needs a task"
        self._deadlines = deadlines
        self._task = task
        self._on_left = on_left
        self._before = 0
        self._is_closed = False
        self.loop = asyncio.get_running_loop()
        self.at = self.loop.time() + seconds
        """The deadline, in event-loop time; can be moved."""
        self.is_over = False
        self.is_left = False

    def __enter__(self) -> "TimeLimit":
        self._before = self._task.cancelling()
        self._deadlines.add(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._is_closed = True
        self._deadlines.drop(self)
        if self.is_over:
            left = self._task.uncancel()
            if isinstance(error, asyncio.CancelledError) and left <= self._before:
                raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the task; at the second call, abandon the block."""
        if self._is_closed:
            return
        if not self.is_over:
            self.is_over = True
            self._task.cancel()
            if self._on_left is not None:
                self.at = self.loop.time() + LEAVE_S
                self._deadlines.add(self)
        elif self._on_left is not None:
            self.is_left = True
            self._on_left()


class Interruptible:
    """Awaits work of the driver itself, such as policy decisions; a cancel interrupts it.

    When an item arrives meanwhile, `is_unwanted` says whether to interrupt the work.
    """

    def __init__(self, is_unwanted: Callable[[], Awaitable[bool]]) -> None:
        self._is_unwanted = is_unwanted
        self._waiter: asyncio.Task[object] | None = None
        self._lookout: asyncio.Task[None] | None = None
        self._is_broken_off = False
        self._is_rung = False
        """Whether an item arrived while no work was running."""

    async def do(self, work: Awaitable[T]) -> T | None:
        """Return the result of some work; None if it was interrupted."""
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None, "a driver is a task"
        self._is_broken_off = False
        if self._is_rung:
            self.ring()
        try:
            result = await work
        except asyncio.CancelledError:
            # The driver itself may have been cancelled too.
            if not self._is_broken_off or waiter.uncancel():
                raise
            result = None
        else:
            if self._is_broken_off:
                waiter.uncancel()
        finally:
            self._waiter = None
            lookout, self._lookout = self._lookout, None
            if lookout is not None:
                await lookout
        return result

    def ring(self) -> None:
        """Check whether to interrupt the work."""
        self._is_rung = self._waiter is None
        if self._waiter is not None and self._lookout is None:
            self._lookout = asyncio.create_task(self._look())

    async def _look(self) -> None:
        if await self._is_unwanted():
            self.break_off()

    def end(self) -> None:
        """Ask no more whether work is unwanted: none follows, and what was asked can be freed at once."""
        self._is_unwanted = _is_never_unwanted

    def break_off(self) -> None:
        """Interrupt the work."""
        self._is_rung = self._waiter is None
        if self._waiter is not None and not self._is_broken_off:
            self._is_broken_off = True
            self._waiter.cancel()


async def _is_never_unwanted() -> bool:
    return False
