"""`run_sync`: run a coroutine from a synchronous script."""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar, cast

from windlass.errors import Rejected, kind_of
from windlass.refusals import bad_request
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


def run_sync(work: Coroutine[object, object, T] | Awaitable[T]) -> T:
    """Run an awaitable to its end, in a script.

    Raises:
        Rejected: an event loop is running already; await it there. Or the module is imported for its agents,
            by a server or a command.
    """
    if not isinstance(cast(object, work), Awaitable):
        raise bad_request(f"run_sync takes an awaitable, such as agent.run(…), found {kind_of(work)}")
    problem = _problem()
    if not problem:
        return asyncio.run(_finish(work))
    if isinstance(work, Coroutine):
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
    return "run_sync cannot be used inside an event loop; write await instead"


async def _finish(work: Awaitable[T]) -> T:
    return await work
