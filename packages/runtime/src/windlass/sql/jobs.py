"""Requests of event loops to a thread that writes, and the way back of their results."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

from windlass.errors import AgentError
from windlass_protocol.frozen import mutable

TransactionT = TypeVar("TransactionT")

SETTLED_AT_ONCE: Final = 8
"""Callers that go on in one turn of the event loop."""


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


_ANSWERED: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, deque[Job[Any]]]()
"""Requests whose callers have not gone on yet, by their event loops."""


def settle(jobs: Sequence[Job[Any]]) -> None:
    """Give the callers of one event loop their results, in its own thread and in this order.

    Hundreds may have waited for one transaction: each turn of the loop lets some of them go on.
    """
    loop = asyncio.get_running_loop()
    answered = _ANSWERED.setdefault(loop, deque())
    is_under_way = bool(answered)
    answered.extend(jobs)
    if not is_under_way:
        _settle_some(loop, answered)


def _settle_some(loop: asyncio.AbstractEventLoop, answered: deque[Job[Any]]) -> None:
    for _ in range(min(SETTLED_AT_ONCE, len(answered))):
        _settle_one(answered.popleft())
    if answered:
        loop.call_soon(_settle_some, loop, answered)


def _settle_one(job: Job[Any]) -> None:
    if job.future is None or job.future.done():
        return
    if job.error is None:
        job.future.set_result(job.result)
    else:
        job.future.set_exception(job.error)
