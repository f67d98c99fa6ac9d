"""A process that owns a session and works on it until it is killed; started by `test_dead_owners`.

python -m tests.faults.busy_owner STORE EFFECTS
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.adapters.journals import rules
from windlass.engine import clocks
from windlass.engine.driving import engine
from windlass.testing import ScriptedModel, by_history, call, say

LEASE_MS: Final = 3_600_000
"""So long that no lease ends in a test."""
MESSAGE: Final = "work"


def lengthen_leases() -> None:
    """Make leases last an hour, in this process."""
    for module in (rules, clocks, engine):
        module.OWNER_LEASE_MS = LEASE_MS  # pyright: ignore[reportAttributeAccessIssue] a constant for all others


def worker(effects: Path) -> Agent:
    """An agent whose tool works for ever the first time, and is done the second time."""

    @tool(mode="read", effect="idempotent")
    async def work(ctx: ToolContext) -> str:
        """Work."""
        with effects.open("ab", buffering=0) as file:
            file.write(b"w")
            is_first = file.tell() == 1
        if is_first:
            await asyncio.Event().wait()
        return "worked"

    return Agent("worker", model=ScriptedModel(by_history([call("work"), say("done")])), tools=[work])


async def main(store: str, effects: Path) -> None:
    """Start a run, and work on it."""
    agent = worker(effects)
    async with AgentRuntime.open(store, agents=[agent]) as runtime:
        await runtime.start_run(agent, MESSAGE, run_id="r1", session_id="s1")
        await asyncio.Event().wait()


if __name__ == "__main__":
    lengthen_leases()
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
