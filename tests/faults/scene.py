"""A runtime in fake time, for faults that need no process to die."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.faults.rig import runtime_on

from windlass import Agent, AgentRuntime, LLMProvider
from windlass.adapters.journals.memory import MemoryStore
from windlass.ports.journal import Appended, Batch
from windlass.ports.machine import Machine
from windlass.sqlite.store import SqliteStore
from windlass.testing import FakeClock, run_in_fake_time, seeded_random, sequential_ids
from windlass.testing.stores import FullStore, WrappedStore
from windlass.tools import Tool
from windlass_harness.record import Record
from windlass_harness.views.runs import RUN_ENDS

GUARD_S: Final = 100_000.0
"""In fake time: a longer wait means a hang."""


@dataclass(slots=True)
class Scene:
    """A store, a clock and a runtime."""

    clock: FakeClock = field(default_factory=FakeClock)
    store: FullStore = field(default_factory=MemoryStore)
    seed: int = 1

    def runtime(self, agents: Iterable[Agent]) -> AgentRuntime:
        machine = Machine(self.clock, sequential_ids(f"id-{id(self)}"), seeded_random(self.seed))
        return runtime_on(self.store, agents, machine=machine)

    def play(self, story: Callable[["Scene"], Awaitable[Any]]) -> Any:
        """Run a story to its end in fake time; nothing that it began may be left."""

        async def main() -> Any:
            async with asyncio.timeout(GUARD_S):
                made = await story(self)
            left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
            assert not left, f"left behind: {left}"
            return made

        return run_in_fake_time(main(), clock=self.clock)


class KillingStore(WrappedStore):
    """A store that ends the process before or after the append of this number."""

    def __init__(self, inner: SqliteStore, number: int, *, is_durable: bool) -> None:
        super().__init__(inner)
        self._left = number
        self._is_durable = is_durable

    async def append(self, batch: Batch) -> Appended:
        self._left -= bool(batch.drafts)
        if self._left == 0 and not self._is_durable:
            os.kill(os.getpid(), signal.SIGKILL)
        appended = await super().append(batch)
        if self._left == 0 and batch.drafts:
            os.kill(os.getpid(), signal.SIGKILL)
        return appended


def agent_of(model: LLMProvider, tools: Sequence[Tool[..., Any]] = ()) -> Agent:
    return Agent("shop", model=model, tools=list(tools))


async def records_of(store: FullStore, session_id: str = "s1") -> list[Record]:
    """Return all records of a session."""
    records: list[Record] = []
    while more := await store.read(session_id, after=records[-1].seq if records else 0):
        records += more
    return records


def ends_of(records: Iterable[Record], run_id: str = "r1") -> list[str]:
    """Return the terminal records of a run."""
    return [record.type for record in records if record.type in RUN_ENDS and record.run_id == run_id]
