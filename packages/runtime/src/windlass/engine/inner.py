"""What touches nothing is done at once, and broken off if nobody wants it."""

import asyncio
from collections.abc import Awaitable, Callable

from windlass_harness.loop.events import LoopEvent


class Inner:
    """Waits for what the driver does itself, such as judging a call.

    Somebody may ring meanwhile: `is_unwanted` is asked then, and if it says so the wait is broken off.
    """

    def __init__(self, is_unwanted: Callable[[], Awaitable[bool]]) -> None:
        self._is_unwanted = is_unwanted
        self._waiter: asyncio.Task[object] | None = None
        self._lookout: asyncio.Task[None] | None = None
        self._is_broken_off = False

    async def do(self, work: Awaitable[LoopEvent]) -> LoopEvent | None:
        """Return what came of some work; None if it was broken off."""
        self._waiter = waiter = asyncio.current_task()
        assert waiter is not None, "a driver is a task"
        self._is_broken_off = False
        try:
            event = await work
        except asyncio.CancelledError:
            # Somebody else may have cancelled the driver as well.
            if not self._is_broken_off or waiter.uncancel():
                raise
            event = None
        else:
            if self._is_broken_off:
                waiter.uncancel()
        finally:
            self._waiter = None
            lookout, self._lookout = self._lookout, None
            if lookout is not None:
                await lookout
        return event

    def ring(self) -> None:
        """Find out whether the work is still wanted."""
        if self._waiter is not None and self._lookout is None:
            self._lookout = asyncio.create_task(self._look())

    async def _look(self) -> None:
        if await self._is_unwanted():
            self.break_off()

    def break_off(self) -> None:
        """Wait no longer."""
        if self._waiter is not None and not self._is_broken_off:
            self._is_broken_off = True
            self._waiter.cancel()
