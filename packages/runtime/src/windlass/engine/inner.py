"""What touches nothing is done at once, and broken off if nobody wants it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


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
