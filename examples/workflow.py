"""Workflows: the model writes a program that gives work to agents, which work at the same time.

Needs the extra code: pip install "windlass-runtime[code]".
"""

import asyncio
import sys
from importlib.util import find_spec

from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, by_history, call, say

PROGRAM = """
import asyncio
topics = ["ports", "tides", "winds"]
notes = await asyncio.gather(*[researcher(f"Write a note on {topic}.") for topic in topics])
await editor("Make one text of these notes: " + " ".join(notes))
"""
all_three = asyncio.Barrier(3)


@tool(mode="read")
async def library() -> str:
    """Look into the library; opens when three readers are there."""
    await all_three.wait()
    return "A book."


async def main() -> None:
    researcher = Agent(
        "researcher", model=ScriptedModel(by_history([call("library"), say("A note.")])), tools=[library]
    )
    editor = Agent("editor", model=ScriptedModel(by_history([say("One text.")])))
    model = ScriptedModel([call("run_workflow", {"code": PROGRAM}), say("The text is done.")])
    boss = Agent("boss", model=model, subagents=[researcher, editor], workflow=True)
    async with AgentRuntime.in_memory([boss]) as runtime:
        handle = await runtime.start_run(boss, "Write about sailing.", session_id="text")
        print((await handle.wait()).output)
        for child in sorted(await runtime.sessions.descendants("text"), key=lambda one: one.name):
            print(child.name, child.status)


if find_spec("pydantic_monty") is None:
    sys.exit('This example needs the extra code: pip install "windlass-runtime[code]"')
asyncio.run(main())
