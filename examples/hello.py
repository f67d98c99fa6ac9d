"""The smallest agent: one tool, and one line to run it."""

from windlass import Agent, tool


@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is."""
    return "rain all day"


# "demo/…" plays a model by rules, offline. A real one: model="openai/gpt-5" and OPENAI_API_KEY.
agent = Agent("guide", model="demo/guide", tools=[weather])

# In a program that is asynchronous already: result = await agent.run("…")
result = agent.run_sync("How is the weather in Oslo?")
print(result.output)
