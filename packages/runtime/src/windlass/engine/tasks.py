"""Tasks of a session: each effect runs in one of its own, with a grace when it is cancelled."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Final, TypeAlias

from windlass.engine.tool_calls.results import broken_off, failure_result
from windlass.ports.clock import Clock
from windlass_harness.loop.events import (
    CallModel,
    Compact,
    CompactionBroken,
    Effect,
    LoopEvent,
    ModelFailed,
    RunTool,
    is_errand,
)

EffectTask: TypeAlias = "asyncio.Task[LoopEvent | None]"
GRACE_S: Final = 2.0
"""Grace of a cancelled effect before it is abandoned."""
Performed = Coroutine[object, object, LoopEvent | None]
"""An effect that is performed; None: it has passed its work on (`Tasks.take_over`)."""


class Tasks:
    """Tasks of the effects in progress, and the grace period of cancelled ones."""

    def __init__(self, clock: Clock, session_id: str) -> None:
        self._clock = clock
        # Like the task of the driver: a stall of the event loop is logged with its session.
        self._name = f"windlass session {session_id}"
        self.ring: Callable[[], None] = lambda: None
        """Called when an effect has ended."""
        self._cancelled: set[EffectTask] = set()
        self._effects: dict[str, Effect] = {}
        """The effects in progress, by their keys."""
        self.under_way: dict[str, EffectTask] = {}
        self.errands: dict[str, EffectTask] = {}
        """Effects for runs that have ended; cancelling the next run does not touch them."""
        self._grace: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self.under_way or self.errands)

    @property
    def has_done(self) -> bool:
        """Whether an effect has ended and its event has not been collected."""
        for task in self.under_way.values():
            if task.done():
                return True
        return any(task.done() for task in self.errands.values()) if self.errands else False

    def start(self, effect: Effect, perform: Callable[[Effect], Performed]) -> None:
        """Perform an effect."""
        tasks, key = self.errands if is_errand(effect) else self.under_way, effect.key
        self._effects[key] = effect
        # Without the layers of `create_task`; a task factory of the application is not asked.
        tasks[key] = asyncio.Task(
            self._perform(perform, effect), loop=asyncio.get_running_loop(), name=self._name
        )

    def take_over(self, key: str, task: EffectTask, finish: Callable[[], Performed]) -> None:
        """Finish an effect in another task, and leave its own to itself; nothing if it was dropped."""
        if self.under_way.get(key) is not task:
            return
        _LEFT.add(task)
        task.add_done_callback(_forget_left)
        self.under_way[key] = asyncio.create_task(self._perform(finish), name=self._name)

    async def _perform(self, perform: Callable[..., Performed], *effects: Effect) -> LoopEvent | None:
        try:
            return await perform(*effects)
        finally:
            # Here and not in a done callback: the driver is then woken one turn of the event loop earlier.
            self.ring()

    def collect(self) -> list[LoopEvent]:
        """Return the events of the effects that have ended."""
        events: list[LoopEvent] = []
        for tasks in (self.under_way, self.errands):
            for key, task in [*tasks.items()]:
                if task.done():
                    del tasks[key]
                    effect = self._effects.pop(key)
                    if not task.cancelled():
                        event = task.result()
                        if event is not None:
                            events.append(event)
                    elif task not in self._cancelled:
                        # Cancelled by the code that it ran: the effect may have happened.
                        events += _broken_off(effect)
                    self._cancelled.discard(task)
        if self._grace is not None and not self.under_way:
            self._end_grace()
        return events

    def cancel(self) -> None:
        """Cancel the effects of the run under way, and wait for their end for the grace at most."""
        if self.under_way and self._grace is None:
            self.cancel_all(self.under_way.values())
            self._begin_grace()

    def stop(self, *keys: str) -> None:
        """Cancel the effects that are named: the next owner of the session performs them."""
        self.cancel_all([task for key, task in self.under_way.items() if key in keys])

    @property
    def awaited(self) -> list[Effect]:
        """The effects in progress that were not cancelled."""
        tasks = {**self.under_way, **self.errands}
        return [effect for key, effect in self._effects.items() if tasks[key] not in self._cancelled]

    def is_cancelled(self) -> bool:
        """Return whether the current task was cancelled by the engine, not by the code that it runs."""
        return asyncio.current_task() in self._cancelled

    async def drop_stray_cancel(self) -> None:
        """Take back a cancel of the current task by the code that it ran, which has returned nevertheless."""
        task = asyncio.current_task()
        if task is None or task in self._cancelled:
            return
        with suppress(asyncio.CancelledError):
            # A cancel that is pending is raised here.
            await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
        while task.cancelling() and task not in self._cancelled:
            task.uncancel()

    def cancel_all(self, tasks: Iterable[EffectTask]) -> None:
        """Cancel tasks of effects."""
        for task in tasks:
            self._cancelled.add(task)
            task.cancel()
        # A task that is cancelled before its first turn does not ring; it has ended when this is called.
        asyncio.get_running_loop().call_soon(self.ring)

    def _begin_grace(self) -> None:
        if self._grace is None:
            self._grace = asyncio.create_task(self._clock.sleep(GRACE_S))
            self._grace.add_done_callback(self._on_grace_over)

    def _on_grace_over(self, grace: "asyncio.Task[None]") -> None:
        if not grace.cancelled():
            self.abandon(with_errands=False)

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def abandon(self, *, with_errands: bool = True) -> None:
        """Abandon effects that do not end; their results are not recorded."""
        for tasks in (self.under_way, self.errands) if with_errands else (self.under_way,):
            self.cancel_all(tasks.values())
            for key in tasks:
                del self._effects[key]
            tasks.clear()
        self._end_grace()
        self.ring()


def _broken_off(effect: Effect) -> list[LoopEvent]:
    """Return the event of an effect that the code of the application has cancelled."""
    match effect:
        case RunTool():
            return [failure_result(effect.call_id, "cancelled", message=CANCELLED.format(effect.tool_name))]
        case CallModel():
            return [ModelFailed(broken_off("answer"))]
        case Compact():
            return [CompactionBroken(broken_off("summary"))]
        case _:
            # A delivery without a result is recorded as unknown, and the others touch nothing.
            return []


CANCELLED: Final = "{} cancelled itself; its outcome is unknown"


def _forget_left(task: EffectTask) -> None:
    _LEFT.discard(task)
    if not task.cancelled():
        # Retrieved, so that the event loop does not report it as lost.
        task.exception()


_LEFT: Final[set[EffectTask]] = set()
"""Abandoned tasks, referenced until they end: the event loop holds them weakly."""
