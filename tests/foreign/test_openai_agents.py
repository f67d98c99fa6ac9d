"""Agents of the OpenAI Agents SDK inside workflows, and their sessions on each store."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.contracts.stores import AnyStore, Play

pytest.importorskip("agents.models.interface", reason="make foreign installs openai-agents")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from windlass import AgentRuntime, Approval, Question
from windlass.foreign.openai_agents import WindlassSession, durable, tools_of
from windlass.testing import crash_everywhere
from windlass.workflow import WorkflowContext, workflow
from windlass.workflow.testing import check_workflow

DONE: Counter[str] = Counter()
QUIET = RunConfig(tracing_disabled=True)


class Script(Model):
    """A model that calls tools one after the other, and then says what they returned."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self.calls = calls

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        asked = options["input"] if "input" in options else args[1]
        items = asked if isinstance(asked, list) else []
        results = [item["output"] for item in items if item.get("type") == "function_call_output"]
        output: Any
        if len(results) < len(self.calls):
            name, arguments = self.calls[len(results)]
            output = ResponseFunctionToolCall(
                arguments=arguments, call_id=f"c{name}{len(results)}", name=name, type="function_call"
            )
        else:
            text = ResponseOutputText(text=" ".join(map(str, results)), type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        return ModelResponse(output=[output], usage=Usage(requests=1, input_tokens=5), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


@function_tool
async def find(name: str) -> str:
    """Find an item."""
    DONE["find"] += 1
    return f"found {name}"


@function_tool(needs_approval=True)
async def buy(item: str) -> str:
    """Buy an item."""
    DONE["buy"] += 1
    return f"bought {item}"


async def is_large(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
    return arguments["count"] > 10


@function_tool(needs_approval=is_large)
def order(count: int) -> str:
    """Order more."""
    return f"ordered {count}"


clerk = Agent(
    name="clerk", model=Script(("order", '{"count": 5}'), ("order", '{"count": 50}')), tools=[order]
)
seller = Agent(
    name="seller",
    model=Script(("find", '{"name": "tea"}'), ("buy", '{"item": "tea"}')),
    tools=[find, buy],
    handoffs=[clerk],
)
shop = durable(seller, options={"find": {"mode": "read"}, "buy": {"effect": "idempotent"}})
supply = durable(clerk)
passing = durable(Agent(name="passing", model=Script(("transfer_to_clerk", "{}")), handoffs=[clerk]))


@workflow
async def sale(ctx: WorkflowContext, text: str) -> str:
    return (await Runner.run(shop, text, run_config=QUIET)).final_output


@workflow
async def restock(ctx: WorkflowContext) -> str:
    return (await Runner.run(supply, "more", run_config=QUIET)).final_output


@workflow
async def passed(ctx: WorkflowContext) -> str:
    result = await Runner.run(passing, "more", run_config=QUIET)
    return result.last_agent.name


def test_a_tool_that_needs_approval_is_a_request() -> None:
    async def main() -> None:
        DONE.clear()
        async with AgentRuntime.in_memory([sale]) as runtime:
            run = await runtime.start_run(sale, "tea")
            async for request in run.requests():
                assert isinstance(request, Approval)
                assert (request.tool_name, request.arguments) == ("seller__buy", {"item": "tea"})
                await request.approve(by="ann")
            assert (await run.wait()).output == "found tea bought tea"
            assert DONE == {"find": 1, "buy": 1}
            run = await runtime.start_run(sale, "tea")
            async for request in run.requests():
                assert isinstance(request, Approval)
                await request.deny("no more tea", by="ann")
            assert "no more tea" in str((await run.wait()).output)

    asyncio.run(main())


def test_a_tool_that_decides_which_calls_need_approval_asks_for_those() -> None:
    async def main() -> None:
        async with AgentRuntime.in_memory([restock]) as runtime:
            run = await runtime.start_run(restock)
            async for request in run.requests():
                assert isinstance(request, Question)
                assert request.prompt == 'order({"count": 50})'
                await request.choose("approve", by="ann")
            assert (await run.wait()).output == "ordered 5 ordered 50"

    asyncio.run(main())


def test_after_a_crash_at_any_point_no_call_that_has_a_result_is_made_again() -> None:
    DONE.clear()
    crashes = list(crash_everywhere(sale, "tea"))
    assert {crash.result.output for crash in crashes} == {"found tea bought tea"}
    assert len(crashes) <= DONE["buy"] <= len(crashes) + 4
    assert check_workflow(restock).output == "ordered 5 ordered 50"


def test_agents_that_it_hands_over_to_are_durable_too() -> None:
    assert check_workflow(passed).output == "clerk"
    assert [tool.name for tool in tools_of(passing)] == ["passing__model", "clerk__model", "clerk__order"]
    assert tools_of(clerk) == ()


def test_outside_of_a_workflow_the_agent_is_as_it_was() -> None:
    result = asyncio.run(Runner.run(shop, "tea", run_config=QUIET))
    assert [item.name for item in result.interruptions] == ["buy"]
    plain = asyncio.run(Runner.run(seller, "tea", run_config=QUIET))
    assert [item.name for item in plain.interruptions] == ["buy"]


def test_a_session_keeps_the_items_of_several_processes(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        sessions = WindlassSession("s/1", store), WindlassSession("s/1", other)
        items: list[Any] = [{"role": "user", "content": str(number)} for number in range(9)]
        for number in range(0, 9, 3):
            await sessions[number % 2].add_items(items[number : number + 3])
        assert await sessions[0].get_items() == items
        assert await sessions[1].get_items(limit=4) == items[-4:]
        assert [await sessions[1].pop_item() for _ in range(4)] == items[:-5:-1]
        assert await sessions[0].get_items() == items[:5]
        await asyncio.gather(*(session.add_items([items[8]]) for session in sessions * 3))
        assert await sessions[0].get_items() == [*items[:5], *[items[8]] * 6]
        await sessions[0].clear_session()
        assert await sessions[1].get_items() == []
        assert await sessions[1].pop_item() is None

    play(story)


def test_a_run_of_the_sdk_uses_a_session(play: Play) -> None:
    async def story(store: AnyStore, other: AnyStore) -> None:
        agent = Agent(name="plain", model=Script())
        await Runner.run(agent, "a", session=WindlassSession("s", store), run_config=QUIET)
        await Runner.run(agent, "b", session=WindlassSession("s", other), run_config=QUIET)
        items: Any = await WindlassSession("s", store).get_items()
        assert [item.get("role") for item in items] == ["user", "assistant"] * 2

    play(story)
