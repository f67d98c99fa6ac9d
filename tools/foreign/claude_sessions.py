"""The suite of the Claude Agent SDK for session stores: 14 contracts, in memory and on SQLite."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from claude_agent_sdk.testing import run_session_store_conformance

from tools.foreign.counts import Counts
from windlass.foreign.claude_agent_sdk import WindlassSessionStore
from windlass.parts import MemoryStore

CONTRACTS = 14


async def main(folder: Path) -> Counts:
    """Run the suite on both stores; each contract has a new one."""
    counts, numbers = Counts(), count()
    async with AsyncExitStack() as stack:

        async def on_sqlite() -> WindlassSessionStore:
            path = folder / f"{next(numbers)}.db"
            return await stack.enter_async_context(WindlassSessionStore.open(path))

        for name, make in {
            "memory": lambda: WindlassSessionStore(MemoryStore()),
            "sqlite": on_sqlite,
        }.items():
            try:
                # It raises at the first contract that is broken, and skips none: all methods are there.
                await run_session_store_conformance(make)
                counts.passed += CONTRACTS
            except AssertionError as error:
                counts.check(name, f"a contract is broken: {error}")
    return counts


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        asyncio.run(main(Path(place))).show()
