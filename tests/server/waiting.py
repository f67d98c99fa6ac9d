"""Polling for a condition."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.server.rig import TICK_S, TIMEOUT_S


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Return once something is so."""
    for _ in range(int(TIMEOUT_S / TICK_S)):
        if await is_so():
            return
        await asyncio.sleep(TICK_S)
    raise AssertionError("it never came to be so")
