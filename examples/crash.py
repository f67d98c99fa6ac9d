"""Kill a run in the middle of a tool, start it again, and do nothing twice."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
FOLDER.mkdir(parents=True, exist_ok=True)
LEDGER = FOLDER / "ledger.txt"  # what really happened in the world


def happened(what: str) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(what + "\n")


@tool(mode="safe_write", effect="once")
async def book(city: str) -> str:
    """Book a room. After a crash it is never run again by itself."""
    happened(f"booked a room in {city}")
    return "room 7"


@tool(mode="safe_write", effect="idempotent")
async def pay(cents: int, ctx: ToolContext) -> str:
    """Pay. After a crash it is run again with the same key."""
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # the power goes out
    happened(f"paid {cents} cents, key {ctx.idempotency_key}, attempt {ctx.attempt}")
    return "paid"


async def main() -> None:
    script = [call("book", {"city": "Oslo"}), call("pay", {"cents": 9900}), say("Done.")]
    model = ScriptedModel(by_history(script))
    agent = Agent("travel", model=model, tools=[book, pay])
    async with AgentRuntime.open(FOLDER / "app.db", agents=[agent]) as runtime:
        handle = await runtime.start_run(agent, "Book a room in Oslo.", run_id="trip-1")
        result = await handle.wait(timeout=30)
        print(f"{result.status}: {result.output}", flush=True)


if len(sys.argv) > 1:
    asyncio.run(main())
else:
    for attempt in (1, 2):
        child = subprocess.run([sys.executable, __file__, str(FOLDER)], check=False)
        print(f"process {attempt} ended with {child.returncode}", flush=True)
    print(LEDGER.read_text(), end="")
