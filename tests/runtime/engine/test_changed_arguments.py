"""Arguments that a provider changes after it has sent them: the tool runs with those that are recorded."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from windlass import Agent, AgentRuntime, LLMMessage, LLMStreamChunk, tool
from windlass.testing import call, say
from windlass.testing.models import ScriptedModel
from windlass_protocol import JsonObject, ToolCall


class Careless(ScriptedModel):
    """Changes the arguments of a call after the chunk of the call."""

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk
            if isinstance(chunk.tool_call_delta, ToolCall):
                chunk.tool_call_delta.arguments["cents"] = 5


def test_a_tool_runs_with_the_arguments_that_are_recorded() -> None:
    ran: list[int] = []

    @tool(mode="read")
    async def pay(cents: int) -> str:
        """Pay."""
        ran.append(cents)
        return "paid"

    async def story() -> list[object]:
        answers = [call("pay", {"cents": number}, call_id=f"c{number}") for number in range(3)]
        agent = Agent("shop", model=Careless([*answers, say("Done.")]), tools=[pay])
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "Pay.", run_id="r1")).wait(timeout=300)
            events = [event async for event in runtime.handle("r1").events()]
        return [event.data["actions"] for event in events if event.type == "actions.requested"]

    recorded = asyncio.run(story())
    assert ran == [5, 5, 5]
    assert all("'input': {'cents': 5}" in str(one) for one in recorded), recorded
