"""Threads for tools that are not async.

The threads of asyncio are not used: a tool that hangs would keep the program from ending. These end with the
program, and there are never more than `THREADS_MAX` of them; the calls beyond wait for their turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import TypeVar

from windlass.tool_limits import OWN_THREADS_MAX, THREADS_MAX

T = TypeVar("T")


class _Threads:
    """Threads that wait for work, started when all others are busy."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = Semaphore(0)
        self._lock = Lock()
        self._count = 0

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if self._count >= self._most:
                return
            self._count += 1
        Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.release()


_THREADS = _Threads("windlass-tool", THREADS_MAX)
_OWN = _Threads("windlass-own", OWN_THREADS_MAX)


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread, with the context variables of the caller.

    Cancelling stops the waiting, and the call if it has not begun; a thread cannot be stopped.
    """
    return await _called(_THREADS, function)


async def in_own_thread(function: Callable[[], T]) -> T:
    """Do work of our own in a thread: tools that hang do not hold it up."""
    return await _called(_OWN, function)


async def _called(threads: _Threads, function: Callable[[], T]) -> T:
    future: Future[T] = Future()
    threads.submit(partial(_settle, future, partial(copy_context().run, function)))
    return await asyncio.wrap_future(future)


def _settle(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except (StopIteration, SystemExit, KeyboardInterrupt) as error:
        # asyncio would lose the first, and end the program because of the others.
        future.set_exception(RuntimeError(f"the tool raised {type(error).__name__}"))
    except BaseException as error:  # noqa: BLE001 - the tool boundary, in its thread
        future.set_exception(error)
