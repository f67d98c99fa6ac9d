"""Running something asynchronous in a script that is not."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar, cast

from windlass.definitions import kind_of
from windlass.errors import Rejected
from windlass.refusals import bad_request
from windlass_protocol import ErrorKind, RetryClass

T = TypeVar("T")


def run_sync(work: Coroutine[object, object, T] | Awaitable[T]) -> T:
    """Run something asynchronous to its end, in a script.

    Raises:
        Rejected: an event loop is running already; await it there.
    """
    if not isinstance(cast(object, work), Awaitable):
        raise bad_request(f"run_sync takes something to await, such as agent.run(…), found {kind_of(work)}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_finish(work))
    if isinstance(work, Coroutine):
        work.close()
    raise Rejected(
        "run_sync cannot be used inside an event loop; write await instead",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    )


async def _finish(work: Awaitable[T]) -> T:
    return await work
