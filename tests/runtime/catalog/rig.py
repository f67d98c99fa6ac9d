"""Helpers of the catalogue tests."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.ports.model import LLMUsage
from windlass.runtime.handle import RunHandle
from windlass.testing import Answer, ScriptedModel, by_history, call, say

GUARD_S = 300
USAGE = LLMUsage(input_tokens=12, output_tokens=5, cost_micros=40)
made: list[str] = []
"""The calls of tools, in order."""


@tool(mode="read")
async def look(item: str) -> str:
    """Look for a thing."""
    made.append(f"look {item}")
    return "long " * 30_000 if item == "book" else f"{item} is there"


@tool(mode="external")
async def pay(cents: int) -> str:
    """Pay; the default policy asks first."""
    made.append(f"pay {cents}")
    return f"paid {cents}"


@tool(mode="safe_write")
async def note(text: str, context: ToolContext) -> str:
    """Keep a text in the session."""
    made.append(f"note {text}")
    context.state["text"] = text
    return "noted"


def agent(*answers: Answer, name: str = "clerk", **parts: object) -> Agent:
    """An agent that says these things by how far a session has come."""
    told = (replace(answer, usage=answer.usage or LLMUsage()) for answer in answers)
    model = ScriptedModel(by_history(told if answers else (say("done", usage=USAGE),)))
    return Agent(name, model=model, tools=[look, pay, note], **parts)  # pyright: ignore[reportArgumentType] - parts of an agent by name


PAYS = (call("look", {"item": "bill"}), call("pay", {"cents": 9}), say("Paid.", usage=USAGE), say("More."))
"""Looks, asks a person, pays, and has an answer for one message more."""

Story = Callable[[AgentRuntime], Awaitable[None]]


@asynccontextmanager
async def opened(path: Path | None, *agents: Agent) -> AsyncGenerator[AgentRuntime]:
    """A runtime on a file, or in memory."""
    made.clear()
    if path is None:
        runtime = AgentRuntime.in_memory(agents)
        await runtime.core.resume()
    else:
        runtime = await AgentRuntime.open(path, agents=agents, durability="process")
    async with runtime:
        yield runtime


def play(story: Story, path: Path | None, *agents: Agent) -> None:
    """Let a story happen to a fresh runtime; one that hangs fails."""

    async def main() -> None:
        async with asyncio.timeout(GUARD_S), opened(path, *agents) as runtime:
            await story(runtime)

    asyncio.run(main())


async def until(handle: RunHandle, kind: str) -> int:
    """Wait for an event of a run; return its number."""
    async for event in handle.events():
        if event.type == kind:
            return event.seq or 0
    raise AssertionError(f"the run ended without {kind}")


async def lines_of(runtime: AgentRuntime, session_id: str = "s1") -> list[str]:
    """A session as lines."""
    return [line async for line in runtime.sessions.export(session_id)]


def sealed(lines: list[str]) -> list[str]:
    """Lines with a checksum that fits them."""
    total = sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    return [*lines, json.dumps({"kind": "end", "lines": len(lines), "sha256": total})]


async def approve(handle: RunHandle) -> None:
    """Say yes to everything that a run asks."""
    for request in await handle.open_requests():
        await handle.answer(request.request_id, "approve")
