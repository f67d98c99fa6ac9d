"""The demo model."""

import pytest
from tests.models.wire import Collected, collect, play

from windlass import Agent, AgentRuntime, LLMMessage, tool
from windlass.models import DemoModel
from windlass_protocol import JsonObject, JsonValue, RunStatus, encode

WEATHER: JsonObject = {
    "name": "get_weather",
    "description": "",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
PAY: JsonObject = {"name": "pay", "description": "", "inputSchema": None}


def said(text: str, *tools: JsonObject) -> Collected:
    return play(lambda: collect(DemoModel().stream([LLMMessage("user", text)], tools=tools)))


def test_the_demo_model_lists_its_tools() -> None:
    assert "get_weather, pay" in said("Hello", WEATHER, PAY).text
    assert "no tools" in said("Hello").text
    assert "no tools" in play(lambda: collect(DemoModel().stream([]))).text


def test_the_demo_model_calls_the_tool_that_the_message_names_first() -> None:
    heard = said("pay for it, then get weather", WEATHER, PAY)
    assert (heard.calls[0][1], heard.finish) == ("pay", "tool-calls")
    heard = said("Get weather, please, and pay", WEATHER, PAY)
    assert heard.calls == {0: ["demo-1", "get_weather", '{"city":"Get weather, please, and pay"}']}
    assert heard.text == "I will use get_weather. "


def test_text_comes_word_by_word_and_always_alike() -> None:
    async def work() -> list[str]:
        stream = DemoModel().stream([LLMMessage("user", "Hello")])
        return [chunk.content_delta async for chunk in stream if chunk.content_delta]

    assert len(play(work)) > 5
    assert play(work) == play(work)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 7}, 7),
        ({"default": None}, None),
        ({"enum": ["a", "b"]}, "a"),
        ({"examples": [3]}, 3),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ({"type": "string", "maxLength": 3}, "use"),
        ({"type": "number", "minimum": 0.5}, 0.5),
        ({"type": "integer"}, 1),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"type": "object"}, {}),
        ({"$ref": "#/$defs/X"}, {}),
        (True, {}),
    ],
)
def test_arguments_fit_simple_schemas(schema: JsonObject, value: JsonValue) -> None:
    inputs: JsonObject = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    model = DemoModel()

    async def work() -> object:
        asked: JsonObject = {"name": "thing", "description": "", "inputSchema": inputs}
        heard = await collect(model.stream([LLMMessage("user", "use thing")], tools=[asked]))
        return heard.calls[0][2]

    assert play(work) == encode({"x": value}).decode()


@tool(mode="read")
async def clock() -> str:
    """Tell the time."""
    return "noon" * 200


@tool(mode="destructive")
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"wiped {disk}"


def test_the_tour_of_the_demo_model_shows_a_call_and_an_approval() -> None:
    agent = Agent("guide", model="demo/tour", tools=[clock, wipe])

    async def work() -> tuple[RunStatus, str, int]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Give me a tour")
            asked = 0
            async for event in handle.events():
                if event.type == "input.requested":
                    [request] = await handle.open_requests()
                    await handle.answer(request.request_id, "approve")
                    asked += 1
            result = await handle.wait()
            return result.status, result.output or "", asked

    status, output, asked = play(work)
    assert (status, asked) == (RunStatus.COMPLETED, 1)
    assert "clock says: noonnoon" in output
    assert "wipe says: wiped Give me a tour" in output
    assert "…" in output


def test_the_demo_model_reports_a_failed_call() -> None:
    agent = Agent("guide", model="demo/tour", tools=[wipe])
    result = play(lambda: agent.run("wipe it"))
    assert "wipe did not work" in (result.output or "")


def test_the_repr_of_a_demo_model_has_its_name() -> None:
    assert repr(DemoModel("tour")) == "DemoModel('tour')"
