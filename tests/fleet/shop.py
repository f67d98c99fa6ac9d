"""A process of a fleet, for tests of processes that end, stand still, are cut off or have a wrong clock.

python -m tests.fleet.shop STORE FOLDER [--lease-ms MS] [--ahead-s SECONDS] [--sessions-max NUMBER]

Each call of a tool writes its run and its process to the file `calls` in the folder.
"""

import argparse
import asyncio
import os
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.adapters.journals import rules
from windlass.adapters.system import SystemClock
from windlass.engine import clocks
from windlass.engine.driving import engine
from windlass.testing import ScriptedModel, by_history, call, say

LOOK_S: Final = 0.02
WORK_S: Final = 1.0
"""How long a call of `work` takes that is not held."""


def shop(folder: Path) -> Agent[Any, Any]:
    """An agent with tools for each kind of trouble; the message names the tool."""

    def note(ctx: ToolContext) -> None:
        with (folder / "calls").open("ab", buffering=0) as file:
            file.write(f"{ctx.run_id} {os.getpid()}\n".encode())

    @tool(mode="read", effect="idempotent")
    async def work(ctx: ToolContext) -> str:
        """Work for a while."""
        note(ctx)
        await asyncio.sleep(WORK_S)
        return "worked"

    @tool(mode="read", effect="idempotent")
    async def wait(ctx: ToolContext) -> str:
        """Work until the file `release` is there."""
        note(ctx)
        while not (folder / "release").exists():  # noqa: ASYNC110 - another process
            await asyncio.sleep(LOOK_S)
        return "waited"

    @tool(mode="read", effect="idempotent")
    async def poison(ctx: ToolContext) -> str:
        """End the process."""
        note(ctx)
        await asyncio.sleep(WORK_S / 4)
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    @tool(mode="external", effect="once")
    async def pay(ctx: ToolContext) -> str:
        """Pay; a person must allow it."""
        note(ctx)
        return "paid"

    model = ScriptedModel(
        lambda messages: by_history([call(str(messages[0].content).split()[-1]), say("done")])(messages)
    )
    return Agent("shop", model=model, tools=[work, wait, poison, pay])


def set_clock(ahead: timedelta) -> None:
    """Let the clock of this machine be ahead."""
    now = SystemClock.now

    def wrong(self: SystemClock) -> datetime:
        return now(self) + ahead

    SystemClock.now = wrong


async def main(store: str, folder: Path, sessions_max: int) -> None:
    """Drive runs until the process is ended."""
    agent = shop(folder)
    async with AgentRuntime.open(store, agents=[agent], sessions_max=sessions_max) as runtime:
        sys.stdout.write("open\n")
        sys.stdout.flush()
        # Three sweeps and a heartbeat.
        await asyncio.sleep(3 * engine.SWEEP_S)
        assert runtime is not None
        sys.stdout.write("swept\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lease-ms", type=int, default=rules.OWNER_LEASE_MS)
    parser.add_argument("--ahead-s", type=float, default=0.0)
    parser.add_argument("--sessions-max", type=int, default=100)
    given = parser.parse_args()
    for module in (rules, clocks, engine):
        module.OWNER_LEASE_MS = given.lease_ms  # pyright: ignore[reportAttributeAccessIssue] a constant for all others
    set_clock(timedelta(seconds=given.ahead_s))
    asyncio.run(main(given.store, given.folder, given.sessions_max))
