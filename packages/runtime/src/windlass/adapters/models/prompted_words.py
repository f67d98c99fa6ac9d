"""One step as JSON: what a model without tools is told, and what it may answer."""

from collections.abc import Sequence
from typing import Final, cast

from pydantic_core import to_json

from windlass.adapters.models.turns import Turns, system_count
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject, JsonValue, ToolCall

FINAL: Final = "final"
TOOL: Final = "tool"
ARGUMENTS: Final = "args"
_NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
_WORDS: Final = (
    "You work step by step. Each of your answers is one JSON object and nothing else: no prose, no fence.\n"
    'To use a tool, answer {"tool": name, "args": arguments}; you are told its result, and go on.\n'
    'When you need no tool, or have every result you need, answer {"final": your words to the user}.\n'
    "The tools, with the JSON Schema of their arguments:\n"
)


def step_schema(tools: Sequence[JsonObject]) -> JsonObject:
    """Return the schema of one step: the call of one of the tools, or the final words."""
    shapes: list[JsonValue] = []
    definitions: JsonObject = {}
    for at, tool in enumerate(tools):
        schema = cast(JsonObject, tool.get("inputSchema") or _NO_ARGUMENTS)
        prefix = f"tool{at}_"
        inner = {name: value for name, value in schema.items() if name != "$defs"}
        for name, value in cast(JsonObject, schema.get("$defs") or {}).items():
            definitions[prefix + name] = _moved(value, prefix)
        shapes.append(_object({TOOL: {"const": tool["name"]}, ARGUMENTS: _moved(inner, prefix)}))
    shapes.append(_object({FINAL: {"type": "string"}}))
    return {"anyOf": shapes, **({"$defs": definitions} if definitions else {})}


def _object(properties: JsonObject) -> JsonObject:
    required: list[JsonValue] = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _moved(schema: JsonValue, prefix: str) -> JsonValue:
    """Return a schema whose references lead to where its definitions are now."""
    if isinstance(schema, list):
        return [_moved(item, prefix) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _moved(value, prefix) for name, value in schema.items()}
    ref = moved.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        moved["$ref"] = f"#/$defs/{prefix}{ref.removeprefix('#/$defs/')}"
    return moved


def prompted(
    messages: Sequence[LLMMessage], tools: Sequence[JsonObject], *, turns: Turns[LLMMessage]
) -> list[LLMMessage]:
    """Return the messages without calls and results: both are told in words."""
    first = system_count(messages)
    system = [message.content for message in messages[:first] if message.content]
    words = "\n\n".join([*system, _WORDS + "\n".join(_tool(tool) for tool in tools)])
    return [LLMMessage("system", words), *turns.of(messages[first:])]


def _tool(tool: JsonObject) -> str:
    described = f": {tool['description']}" if tool.get("description") else ""
    return f"- {tool['name']}{described}\n  {_json(tool.get('inputSchema') or _NO_ARGUMENTS)}"


def _plain(message: LLMMessage) -> LLMMessage:
    match message.role:
        case "assistant":
            steps = [_step(call) for call in message.tool_calls] or [_json({FINAL: message.content})]
            return LLMMessage("assistant", "\n".join(steps))
        case "tool":
            verb = "failed" if message.is_error else "returned"
            return LLMMessage("user", f"Tool {message.name or 'unknown'} {verb}: {message.content}")
        case _:
            return message


def _step(call: ToolCall) -> str:
    return _json({TOOL: call.name, ARGUMENTS: call.arguments})


def take_words(turns: list[LLMMessage], message: LLMMessage) -> None:
    """Add a message in words to what one role says in a row: small models want turns."""
    told, last = _plain(message), turns[-1] if turns else None
    if last is not None and last.role == told.role and not last.parts and not told.parts:
        turns[-1] = LLMMessage(told.role, f"{last.content}\n\n{told.content}")
    else:
        turns.append(told)


def _json(value: JsonValue) -> str:
    return to_json(value).decode()
