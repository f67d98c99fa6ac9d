"""An agent with a slow `once` tool, for deploys: it waits at the till, or for some seconds.

At the till, the socket `DEPLOY_TILL`, the tool says who it is and ends when it is answered. Otherwise it
takes `DEPLOY_TOOL_S` seconds, and writes when it begins and ends to `DEPLOY_LEDGER`, a file of all processes.
"""

import asyncio
import os
from pathlib import Path

from windlass import Agent, ToolContext, tool
from windlass.testing import ScriptedModel, by_history, call, say


@tool(mode="safe_write", effect="once", timeout=600)
async def pay(ctx: ToolContext) -> str:
    """Pay, once and for all."""
    till = os.environ.get("DEPLOY_TILL")
    if till is None:
        _note("begun", ctx.idempotency_key)
        await asyncio.sleep(float(os.environ["DEPLOY_TOOL_S"]))
        _note("ended", ctx.idempotency_key)
        return "paid"
    reader, writer = await asyncio.open_unix_connection(till)
    writer.write(f"{os.getpid()} {ctx.idempotency_key}\n".encode())
    receipt = await reader.readline()
    writer.close()
    return receipt.decode().strip()


def _note(what: str, key: str) -> None:
    with Path(os.environ["DEPLOY_LEDGER"]).open("ab", buffering=0) as file:
        file.write(f"{what} {key} {os.getpid()}\n".encode())


agent = Agent(
    "counter", model=ScriptedModel(by_history([call("pay"), call("pay"), say("done")])), tools=[pay]
)
