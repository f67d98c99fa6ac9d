"""A process that is forked from one that used threads has threads of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.faults.forks import run_story

from windlass.tools.calling import in_masking_thread, in_own_thread, in_thread

CallIn = Callable[[Callable[[], int]], Awaitable[int]]


@pytest.mark.parametrize("call_in", [in_thread, in_own_thread, in_masking_thread])
def test_a_forked_process_calls_functions_in_threads(tmp_path: Path, call_in: CallIn) -> None:
    async def ask() -> int:
        return await call_in(lambda: 7)

    assert asyncio.run(ask()) == 7
    child = run_story(ask, tmp_path / "report")
    assert child.is_fine
    assert child.report == 7
