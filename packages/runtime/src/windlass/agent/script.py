"""`Agent.run_sync`: run a coroutine from a program without an event loop."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from windlass.errors import Rejected
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T")

_is_loading: Final = ContextVar("windlass_is_loading", default=False)


@contextmanager
def while_loading() -> Generator[None]:
    """Refuse `run_sync` while a module is imported for its agents."""
    before = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(before)


def run_sync(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end, in a program without an event loop.

    Raises:
        Rejected: an event loop is running already, or a module is imported for its agents.
    """
    problem = _problem()
    if not problem:
        return asyncio.run(work)
    work.close()
    raise Rejected(problem, kind=ErrorKind.INVALID_STATE_TRANSITION, retry=RetryClass.NOT_RETRYABLE)


def _problem() -> str:
    """Return why `run_sync` cannot run here; empty if it can."""
    if _is_loading.get():
        return 'run_sync is called while the module is imported; put it under: if __name__ == "__main__":'
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return "run_sync cannot be used inside an event loop; write await agent.run(…) instead"
