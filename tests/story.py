"""A story of a test: a coroutine that must end."""

import asyncio
from collections.abc import Coroutine
from typing import Final, TypeVar

T = TypeVar("T")

STORY_S_MAX: Final = 300
"""A guard against a hang, not a claim about speed."""


def play(story: Coroutine[object, object, T]) -> T:
    """Run a story to its end; one that hangs fails."""

    async def guarded() -> T:
        async with asyncio.timeout(STORY_S_MAX):
            return await story

    return asyncio.run(guarded())
