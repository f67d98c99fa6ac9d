"""The demo agent: needs no key and no network."""

from typing import Annotated, Final

from pydantic import Field

from windlass.agent import Agent
from windlass.tools import tool
from windlass.tools.context import ToolContext

DEMO_MODEL: Final = "demo/paced"


@tool(mode="read")
async def weather(city: Annotated[str, Field(examples=["Oslo"])]) -> str:
    """Say what the weather is in a city; it needs no approval, because it only reads."""
    return f"Rain all day in {city}, 9 degrees."


@tool(mode="external", effect="idempotent")
async def pay(cents: int, ctx: ToolContext) -> str:
    """Pay; it acts outside of the session, so a person is asked first."""
    return f"paid {cents} cents, receipt {ctx.idempotency_key}."


agent: Final = Agent(
    "demo",
    model=DEMO_MODEL,
    description="Plays a model by rules: name a tool, weather or pay, or say tour.",
    instructions="Help, with the tools that you are given.",
    tools=[weather, pay],
    subagents=[
        Agent("scribe", model=DEMO_MODEL, description="Writes things down.", instructions="Write it down.")
    ],
)
"""An agent with a scripted model, a tool that reads, a tool that asks, and a subagent."""
