"""The agent that a server has when it is given none: no key, no network."""

from windlass import Agent, ToolContext, tool


@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is."""
    return "rain all day"


@tool(mode="external", effect="idempotent")
async def pay(cents: int, ctx: ToolContext) -> str:
    """Pay; somebody has to agree first."""
    return f"paid {cents} cents, receipt {ctx.idempotency_key}"


demo = Agent(
    "demo",
    model="demo/guide",
    tools=[weather, pay],
    description="Plays a model by rules: name a tool, weather or pay, or say tour.",
)
