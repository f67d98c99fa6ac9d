"""Tools made of a JSON Schema and a function that takes JSON."""

import asyncio

import pytest

from windlass import Rejected, ToolCall, ToolContext, ToolRouter
from windlass.tools import json_tool
from windlass_protocol import JsonObject, ToolResult

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
    "required": ["city"],
    "additionalProperties": False,
}


async def weather(arguments: JsonObject, context: ToolContext) -> object:
    return {"for": arguments, "call": context.call_id}


def dispatch(arguments: JsonObject) -> ToolResult:
    router = ToolRouter([json_tool(weather, SCHEMA, mode="read", description="Say it.")])
    call = ToolCall(id="c1", name="weather", arguments=arguments)
    return asyncio.run(router.dispatch(call))


def test_a_schema_is_passed_on_as_it_is_and_the_function_gets_json() -> None:
    made = json_tool(weather, SCHEMA, name="look", description="Say it.")
    assert made.definition == {"name": "look", "description": "Say it.", "inputSchema": SCHEMA}
    result = dispatch({"city": "Oslo", "days": 7})
    assert result.data == {"for": {"city": "Oslo", "days": 7}, "call": "c1"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "the top: missing properties: city"),
        ({"city": 5}, "/city: expected string, found integer"),
        ({"city": "Oslo", "days": 8}, "/days: maximum is 7"),
        ({"city": "Oslo", "more": "hunter2"}, "/more: not allowed here"),
    ],
)
def test_the_error_for_arguments_that_miss_the_schema_quotes_no_values(
    arguments: JsonObject, problem: str
) -> None:
    said = dispatch(arguments).error or ""
    assert problem in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "string"}, "arguments are an object"),
        ({}, "arguments are an object"),
        ({"type": "object", "$ref": "https://example.com/x"}, "must stay inside the schema"),
        ({"type": "object", "properties": 5}, "not a JSON Schema"),
        ({"type": "object", "description": "x" * 70_000}, "limit"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: JsonObject, problem: str) -> None:
    with pytest.raises(Rejected, match=problem):
        json_tool(weather, schema)


def test_a_tool_can_be_registered_where_it_is_made() -> None:
    router = ToolRouter()
    made = json_tool(weather, SCHEMA, router=router)
    assert router.get("weather") is made
