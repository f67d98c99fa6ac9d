"""Requests of event loops to a thread that writes, and the way back of their results."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from windlass.errors import AgentError
from windlass_protocol.frozen import mutable

TransactionT = TypeVar("TransactionT")


@mutable(eq=False)
class Job(Generic[TransactionT]):
    """A request of a caller, for the thread that writes."""

    work: Callable[[TransactionT], object]
    size_bytes: int
    loop: asyncio.AbstractEventLoop | None
    """The event loop of the caller; None for work of the thread itself."""
    future: asyncio.Future[object] | None = None
    """The future of the caller; None if it does not wait."""
    sessions: tuple[str, ...] = ()
    """The sessions that it changes, as far as they are known in advance."""
    records: int = 0
    items: int = 0
    """The most positions and item numbers that it needs."""
    result: object = None
    error: AgentError | None = None
    is_in_doubt: bool = False
    """Whether its commit failed in a way that leaves open whether it was written."""

    def perform(self, transaction: TransactionT) -> None:
        """Run the request; its refusal is its result."""
        self.error, self.is_in_doubt = None, False
        try:
            self.result = self.work(transaction)
        except AgentError as error:
            self.error = error


def answer(jobs: Sequence[Job[Any]]) -> None:
    """Give the callers their results, from another thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, answered in by_loop.items():
        # A closed loop has no callers left.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, answered)


def settle(jobs: Sequence[Job[Any]]) -> None:
    """Give the callers of one event loop their results, in its own thread."""
    for job in jobs:
        if job.future is None or job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
