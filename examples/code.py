"""Code mode: a program of the model waits for a person over a restart; needs windlass-runtime[code]."""

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path

from windlass import Agent, AgentRuntime, Approval, tool
from windlass.testing import ScriptedModel, by_history, call, say

PROGRAM = """
import asyncio
names = ["anchor", "buoy", "chain"]
stock = await asyncio.gather(*[in_stock(name) for name in names])
missing = [name for name, count in zip(names, stock) if count == 0]
print("missing:", ", ".join(missing))
await asyncio.gather(*[order(name, pieces=5) for name in missing])
"""


@tool(mode="read")
async def in_stock(name: str) -> int:
    """Return how many pieces of a thing are in stock."""
    print("look for", name)
    return {"anchor": 0, "buoy": 7}.get(name, 0)


@tool(mode="external")
async def order(name: str, pieces: int) -> str:
    """Order pieces of a thing."""
    return f"ordered {pieces} of {name}"


def keeper() -> Agent:
    """An agent whose model is a script; with a key, write model="openai/gpt-5" instead."""
    model = ScriptedModel(by_history([call("run_code", {"code": PROGRAM}), say("The stock is complete.")]))
    return Agent("keeper", model=model, tools=[in_stock, order], code_mode=True)


async def main(folder: Path) -> None:
    async with AgentRuntime.open(folder / "stock.db", agents=[keeper()]) as runtime:
        handle = await runtime.start_run("keeper", "Complete the stock.", session_id="s1", run_id="r1")
        async for event in handle.events():
            if event.type == "run.waiting":
                break
    print("closed: the program waits in the database")
    async with AgentRuntime.open(folder / "stock.db", agents=[keeper()]) as runtime:
        handle = runtime.handle("r1")
        async for request in handle.requests():
            if isinstance(request, Approval):
                print("approve", request.arguments)
                await request.approve()
        print((await handle.wait()).output)
        print((await runtime.sessions.history("s1")).items[-2].content)


if __name__ == "__main__":
    if find_spec("pydantic_monty") is None:
        sys.exit('This example needs the extra code: pip install "windlass-runtime[code]"')
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
