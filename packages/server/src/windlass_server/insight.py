"""What recorded runs of a tenant tell: opened when somebody first asks."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from windlass import AgentRuntime
from windlass.ledger import BuilderQuery
from windlass_server.improving import Improving
from windlass_server.settings import ImproveSettings

T = TypeVar("T")


class Insight:
    """The ledger of a tenant, and what is made of it, for its routes."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._query: BuilderQuery | None = None
        self._improving: Improving | None = None

    @property
    def working(self) -> int:
        """How many proposals are being made or tried."""
        return 0 if self._improving is None else self._improving.working

    async def ask(self, question: Callable[[BuilderQuery], T]) -> T:
        """Ask the ledger something, in a thread: it catches up with the journal first."""
        if self._query is None:
            self._query = BuilderQuery(runtime=self._runtime)
        return await asyncio.to_thread(question, self._query)

    def improving(self, settings: ImproveSettings) -> Improving:
        """Return who sees to proposals."""
        if self._improving is None:
            self._improving = Improving(self._runtime, settings)
        return self._improving

    async def aclose(self) -> None:
        """Let go of the files."""
        if self._improving is not None:
            await self._improving.aclose()
        if self._query is not None:
            await asyncio.to_thread(self._query.close)
