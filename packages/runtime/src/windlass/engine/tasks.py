"""The effects of a session that are under way, each in a task of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from windlass.ports.clock import Clock
from windlass_harness.loop.effects import Effect, is_errand
from windlass_harness.loop.events import LoopEvent

GRACE_S: Final = 2.0
"""How long an effect that was cancelled may take to end."""


class Tasks:
    """Effects under way, and how long they may take to end once told to."""

    def __init__(self, clock: Clock, bell: asyncio.Event) -> None:
        self._clock = clock
        self._bell = bell
        self.under_way: dict[str, asyncio.Task[LoopEvent]] = {}
        self.errands: dict[str, asyncio.Task[LoopEvent]] = {}
        """What is done for runs that have ended; cancelling the next run does not touch it."""
        self._gives_up: asyncio.Task[None] | None = None
        self._is_stopping = False

    def __bool__(self) -> bool:
        return bool(self.under_way or self.errands)

    @property
    def has_done(self) -> bool:
        """Whether one is done that nobody has collected."""
        return any(task.done() for task in (*self.under_way.values(), *self.errands.values()))

    def start(self, effect: Effect, work: Callable[[], Awaitable[LoopEvent]]) -> None:
        """Perform an effect."""
        task = asyncio.create_task(self._rung(work), name=f"windlass {effect.key}")
        (self.errands if is_errand(effect) else self.under_way)[effect.key] = task
        task.add_done_callback(self._on_done)

    async def _rung(self, work: Callable[[], Awaitable[LoopEvent]]) -> LoopEvent:
        try:
            return await work()
        finally:
            # Now and not when the task is done: the driver wakes right after that.
            self._bell.set()

    def _on_done(self, task: "asyncio.Task[LoopEvent]") -> None:
        # One that was cancelled before it began never got to the bell.
        if task.cancelled():
            self._bell.set()

    def collect(self) -> list[LoopEvent]:
        """Return what came of those that are done."""
        events: list[LoopEvent] = []
        for tasks in (self.under_way, self.errands):
            for key, task in [*tasks.items()]:
                if task.done():
                    del tasks[key]
                    if not task.cancelled():
                        events.append(task.result())
        if not self.under_way and not (self._is_stopping and self.errands):
            self._end_grace()
        return events

    def cancel(self) -> None:
        """Tell those of the run under way to end, and wait for that, but not for ever."""
        if self.under_way and self._gives_up is None:
            for task in self.under_way.values():
                task.cancel()
            self._set_limit()

    def stop(self, *keys: str) -> None:
        """Wait for nothing for ever any more; those named are told to end at once."""
        self._is_stopping = True
        for key, task in self.under_way.items():
            if key in keys:
                task.cancel()
        if self:
            self._set_limit()

    def _set_limit(self) -> None:
        if self._gives_up is None:
            self._gives_up = asyncio.create_task(self._clock.sleep(GRACE_S))
            self._gives_up.add_done_callback(self._on_grace_over)

    def _on_grace_over(self, grace: "asyncio.Task[None]") -> None:
        if not grace.cancelled():
            self.abandon(with_errands=self._is_stopping)

    def _end_grace(self) -> None:
        """Give up on nothing any more: all that was told to end has ended."""
        if self._gives_up is not None:
            self._gives_up.cancel()
            self._gives_up = None

    def abandon(self, *, with_errands: bool = True) -> None:
        """Care no more about effects that do not end; what they still do is not recorded."""
        for tasks in (self.under_way, self.errands) if with_errands else (self.under_way,):
            for task in tasks.values():
                task.cancel()
            tasks.clear()
        self._end_grace()
        self._bell.set()
