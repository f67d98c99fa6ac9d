"""Waiting for code of the host, but never longer than it may take."""

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final, Generic, TypeVar, cast

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


async def cut(work: Coroutine[object, object, T], timeout_s: float) -> Returned[T] | Raised | Late:
    """Do some work within a time; whatever it raises is in the answer.

    `asyncio.timeout` would wait for work that does not end when it is cancelled; this does not. Only
    cancelling the caller gets out, and cancels the work too.
    """
    task = asyncio.create_task(_guarded(work))
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if task.done() and not task.cancelled():
        return task.result()
    _leave(task)
    return Late()


def is_told_to_end() -> bool:
    """Whether this task was cancelled from outside; if not, whoever it waited for was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


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


async def _guarded(work: Coroutine[object, object, T]) -> Returned[T] | Raised:
    task = asyncio.current_task()
    try:
        return Returned(await work)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return Raised(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the host's code
        return Raised(error)


def _leave(task: asyncio.Task[object]) -> None:
    """Let a task end by itself; it is held until then, so that it is not lost."""
    task.cancel()
    _LEFT.add(task)
    task.add_done_callback(_LEFT.discard)


_LEFT: Final[set[asyncio.Task[object]]] = set()
