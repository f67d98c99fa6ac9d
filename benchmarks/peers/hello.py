"""A complete small program: one agent with one tool, one run. Timed from the start of the interpreter.

The model is a script, so that the time is that of the imports and of Windlass.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, call, say


@tool(mode="read")
async def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"rain in {city}"


def _agent() -> Agent:
    script = [call("weather", {"city": "Oslo"}), say("It rains.")]
    return Agent("guide", model=ScriptedModel(script), tools=[weather])


async def _run(runtime: AgentRuntime) -> None:
    async with runtime:
        handle = await runtime.start_run("guide", "How is the weather in Oslo?")
        assert (await handle.wait()).output == "It rains."


def in_memory() -> None:
    """Run the agent in memory."""
    asyncio.run(_run(AgentRuntime.in_memory([_agent()])))


def on_sqlite() -> None:
    """Run the agent on a new SQLite file."""

    async def run(path: Path) -> None:
        await _run(await AgentRuntime.open(path, agents=[_agent()]))

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "hello.db"))
