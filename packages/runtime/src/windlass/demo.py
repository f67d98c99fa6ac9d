"""An agent to try things with: no key, no network, no cost."""

from typing import Final

from windlass.agent import Agent
from windlass.tools import tool

DEMO_MODEL: Final = "demo/paced"


@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is in a city; nobody is asked, because it only reads."""
    return f"Rain all day in {city or 'Oslo'}, 9 degrees."


@tool(mode="external", effect="once")
async def send_mail(text: str) -> str:
    """Send a mail; it leaves the house, so a person is asked first."""
    return "The mail is on its way."


agent: Final = Agent(
    "demo",
    model=DEMO_MODEL,
    description="Shows what an agent can do, without any model.",
    instructions="Help, with the tools that you are given.",
    tools=[weather, send_mail],
    subagents=[
        Agent("scribe", model=DEMO_MODEL, description="Writes things down.", instructions="Write it down.")
    ],
)
"""A scripted model, a tool that reads, one that asks, and a subagent."""
