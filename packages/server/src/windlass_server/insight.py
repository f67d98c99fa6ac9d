"""What recorded runs of a tenant tell: opened when somebody first asks."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from windlass import AgentRuntime
from windlass.recorder import BuilderQuery

T = TypeVar("T")


class Insight:
    """The ledger of a tenant, for its routes."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._query: BuilderQuery | None = None

    async def ask(self, question: Callable[[BuilderQuery], T]) -> T:
        """Ask the ledger something, in a thread: it catches up with the journal first."""
        if self._query is None:
            self._query = BuilderQuery(runtime=self._runtime)
        return await asyncio.to_thread(question, self._query)

    async def aclose(self) -> None:
        """Let go of the files."""
        if self._query is not None:
            await asyncio.to_thread(self._query.close)
