"""An agent with incomplete answers, and a Builder that improves it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

from tests.clocks import RisingClock

from windlass import Agent, AgentRuntime, Budget, LLMMessage, LLMUsage, tool
from windlass.adapters.system import chance, new_id
from windlass.ledger import Builder, Contains, Goal
from windlass.ports.machine import Machine
from windlass.runtime.options import RunOptions
from windlass.testing import ScriptedModel, call, say
from windlass.testing.models import Answer, Writer
from windlass_protocol import JsonObject, encode

GOAL = Goal(
    "parcels",
    "Customers learn where their parcel is, with its number.",
    criteria=[Contains("parcel-", name="number")],
)
BETTER = "Say where parcels are. Always name the number of the parcel."
FIX: JsonObject = {
    "changes": [{"part": "instructions", "text": BETTER}],
    "rationale": "It never says the number.",
    "evidence": ["run-1"],
}
looked_up: list[str] = []
"""The real lookups, so that tests see whether a replay calls tools."""


@tool(mode="read")
async def find_parcel(customer: str) -> dict[str, str]:
    """Find the parcel of a customer."""
    looked_up.append(customer)
    if customer == "Nobody":
        raise LookupError("no such customer")
    return {"number": f"parcel-{customer}", "place": "Oslo"}


def clerk_script(messages: Sequence[LLMMessage]) -> Answer:
    """Look the parcel up; name its number only if the instructions say so."""
    told = [one for one in messages if one.role == "tool"]
    usage = LLMUsage(input_tokens=10, output_tokens=2, cost_micros=3)
    if not told:
        customer = [one for one in messages if one.role == "user"][-1].content.split()[-1]
        return say("", usage=usage) + call("find_parcel", {"customer": customer})
    if told[-1].is_error:
        return say("I cannot find it.", usage=usage)
    number = told[-1].content if "number of the parcel" in messages[0].content else "It"
    return say(f"{number} is in Oslo.", usage=usage)


def clerk(script: Writer = clerk_script, **more: object) -> Agent:
    given: dict[str, object] = {
        "model": ScriptedModel(script),
        "tools": [find_parcel],
        "instructions": "Say where parcels are.",
        **more,
    }
    return Agent("clerk", **given)  # pyright: ignore[reportArgumentType] any parts


def proposer(*answers: JsonObject | str) -> ScriptedModel:
    """A model that reads first, and then gives answers in turn, each in its own run."""

    def script(messages: Sequence[LLMMessage]) -> Answer:
        turns = [one for one in messages if one.role == "assistant" and not one.tool_calls]
        if not any(one.role == "assistant" for one in messages):
            return (
                call("goal_overview", {"goal_id": "parcels"})
                + call("list_failures", {"goal_id": "parcels"})
                + call("list_runs", {"goal_id": "parcels"})
                + call("read_run", {"run_id": "run-1"})
                + call("read_run", {"run_id": "ghost"})
                + call("read_agent", {"agent_id": "clerk"})
                + call("compare_versions", {"goal_id": "parcels", "old": "a", "new": "b"})
            )
        found = answers[min(len(turns), len(answers) - 1)]
        return say(found if isinstance(found, str) else encode(found).decode())

    return ScriptedModel(script)


@asynccontextmanager
async def opened(
    agent: Agent,
    *,
    path: Path | None = None,
    customers: Sequence[str] = ("Ada", "Bob", "Cyd"),
    **more: object,
) -> AsyncGenerator[AgentRuntime]:
    """A runtime with a run for each customer, each a millisecond or more after the one before."""
    more.setdefault("machine", Machine(RisingClock(), new_id, chance))
    if path is None:
        runtime = AgentRuntime.in_memory([agent], **more)  # pyright: ignore[reportArgumentType] any parts
    else:
        runtime = await AgentRuntime.open(path, agents=[agent], **more)  # pyright: ignore[reportArgumentType] any parts
    async with runtime:
        for at, customer in enumerate(customers, 1):
            await run(runtime, f"Where is the parcel of {customer}", run_id=f"run-{at}", goal_id="parcels")
        looked_up.clear()
        yield runtime


async def run(runtime: AgentRuntime, message: str, **options: Unpack[RunOptions]) -> None:
    handle = await runtime.start_run("clerk", message, **options)
    await handle.wait(timeout=300)


def builder(runtime: AgentRuntime, *answers: JsonObject | str, goal: Goal = GOAL) -> Builder:
    return Builder(proposer(*(answers or (FIX,))), runtime=runtime, goals=[goal], budget=Budget(max_steps=30))
