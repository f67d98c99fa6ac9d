"""A team: a captain asks two others at once, each in a session of its own."""

import asyncio

from windlass import Agent, AgentRuntime, tool
from windlass.testing import ScriptedModel, by_history, call, say


@tool(mode="read")
async def tide(port: str) -> str:
    """Say when the tide is high."""
    return "high at noon"


# Scripts in place of models. A real one: model="anthropic/claude-sonnet-4-5" and ANTHROPIC_API_KEY.
pilot = Agent(
    "pilot",
    description="Knows the ports and their tides.",
    model=ScriptedModel(by_history([call("tide", {"port": "Oslo"}), say("Leave Oslo at noon.")])),
    tools=[tide],
)
cook = Agent(
    "cook",
    description="Knows what a crew eats.",
    model=ScriptedModel(by_history([say("Two days of soup are on board.")])),
)
both = call("pilot", {"message": "When can we leave Oslo?"}) + call("cook", {"message": "Is there food?"})
captain = Agent(
    "captain",
    model=ScriptedModel(by_history([both, say("We sail at noon, with soup.")])),
    subagents=[pilot, cook],  # the model sees each as a tool of its name
)


async def main() -> None:
    async with AgentRuntime.in_memory([captain]) as runtime:
        handle = await runtime.start_run(captain, "Can we sail?")
        async for event in handle.events():
            if event.type == "subagent.called":
                print("captain asks", event.data["name"])
            if event.type == "subagent.completed":
                print(f"{event.data['subagentName']}: {event.data['output']}")
        print("captain:", (await handle.wait()).output)


asyncio.run(main())
