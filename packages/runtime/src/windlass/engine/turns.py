"""Whose turn it is, of tools that allow only so many calls at the same time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from windlass.tools import Tool
from windlass.tools.router import ToolGates


class Turns:
    """The turns of the calls of one session.

    One that keeps something in the session lasts until that is recorded: the next call sees it.
    """

    def __init__(self, gates: Callable[[], ToolGates]) -> None:
        self._gates = gates
        self._lasting: set[str] = set()
        self._over: dict[str, asyncio.Semaphore] = {}
        """Gates of calls that are done, and whose turns last."""

    @asynccontextmanager
    async def of(self, tool: Tool[..., object], call_id: str) -> AsyncGenerator[None]:
        """Wait for the turn of a call, and let the next one have it after."""
        gate = self._gates().of(tool)
        if not isinstance(gate, asyncio.Semaphore):
            yield
            return
        await gate.acquire()
        try:
            yield
        finally:
            if call_id in self._lasting:
                self._lasting.remove(call_id)
                self._over[call_id] = gate
            else:
                gate.release()

    def last(self, call_id: str) -> None:
        """Let the turn of a call last until its result is recorded."""
        self._lasting.add(call_id)

    def recorded(self, is_open: Callable[[str], bool]) -> None:
        """Let the next have their turns, after calls that have their results."""
        for call_id in [one for one in self._over if not is_open(one)]:
            self._over.pop(call_id).release()
