"""The demo model: scripted rules, offline and deterministic."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Final, cast

from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage, ModelPrice, ToolCallDelta
from windlass_protocol import FinishReason, JsonObject, JsonValue, ToolCall, encode

RESULT_CHARS_MAX: Final = 400
"""Characters of a tool result that the answer repeats."""
_WORDS: Final = re.compile(r"[a-z0-9]+")
_PIECES: Final = re.compile(r"\S+\s*|\s+")
_PLACE: Final = re.compile(r"\b(?:in|to|at|for) ([A-Z]\w+(?: [A-Z]\w+)*)")
_ALL: Final = frozenset({"everything", "all", "tour", "demo"})
_LEVELS_MAX: Final = 8
_NESTED: Final = frozenset({"anyOf", "oneOf"})
_PLAIN: Final[dict[str, JsonValue]] = {"boolean": False, "array": [], "null": None}


class DemoModel:
    """An LLMProvider for tours, tests and first steps: no key, no network.

    It calls the tools that the user names, in their order, one at a time, and then reports the results; for
    the word `tour` it calls each tool once. It calls tools that need approval and subagents too. For any
    other message it introduces itself. `pace_s` is the pause between two words.
    """

    def __init__(self, model: str = "demo", *, pace_s: float = 0.0) -> None:
        self.route_id = "demo"
        self.model_id = model
        self.pace_s = pace_s
        self.prices = ModelPrice(0, 0)

    def __repr__(self) -> str:
        return f"DemoModel({self.model_id!r})"

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        text, call = _answer(messages, tuple(tools or ()))
        for piece in _PIECES.findall(text):
            await asyncio.sleep(self.pace_s)
            yield LLMStreamChunk(content_delta=piece)
        if call is not None:
            arguments = encode(call.arguments).decode()
            yield LLMStreamChunk(tool_call_delta=ToolCallDelta(0, id=call.id, name=call.name))
            yield LLMStreamChunk(tool_call_delta=ToolCallDelta(0, arguments_delta=arguments))
        chars = sum(len(message.content) for message in messages)
        usage = LLMUsage(input_tokens=chars // 4 + 1, output_tokens=len(text) // 4 + 1)
        reason = FinishReason.STOP if call is None else FinishReason.TOOL_CALLS
        yield LLMStreamChunk(finish_reason=reason, usage=usage)


def _answer(messages: Sequence[LLMMessage], tools: Sequence[JsonObject]) -> tuple[str, ToolCall | None]:
    last_request = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    request = messages[last_request].content if last_request >= 0 else ""
    since = messages[last_request + 1 :]
    called = [call.name for message in since for call in message.tool_calls]
    todo = [tool for tool in _find_tools(request, tools) if tool["name"] not in called]
    results = [message for message in since if message.role == "tool"]
    if todo:
        tool = todo[0]
        number = sum(len(message.tool_calls) for message in messages) + 1
        arguments = cast(JsonObject, _value(tool.get("inputSchema") or {}, request))
        call = ToolCall(id=f"demo-{number}", name=str(tool["name"]), arguments=arguments)
        return f"I will use {tool['name']}. ", call
    if results:
        return "\n".join(_describe_results(results)), None
    return _introduction(tools), None


def _find_tools(request: str, tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the tools that a request names, in their order in the request."""
    request_words = _WORDS.findall(request.lower())
    if _ALL & set(request_words):
        return list(tools)
    positions: list[tuple[int, JsonObject]] = []
    for tool in tools:
        name = _WORDS.findall(str(tool["name"]).lower())
        at = next(
            (at for at in range(len(request_words)) if name and request_words[at : at + len(name)] == name),
            None,
        )
        if at is not None:
            positions.append((at, tool))
    return [tool for _, tool in sorted(positions, key=lambda position: position[0])]


def _describe_results(results: Sequence[LLMMessage]) -> Iterator[str]:
    for result in results:
        text = result.content
        excerpt = text if len(text) <= RESULT_CHARS_MAX else f"{text[:RESULT_CHARS_MAX]}…"
        yield f"{result.name or 'The tool'} {'did not work' if result.is_error else 'says'}: {excerpt}"


def _introduction(tools: Sequence[JsonObject]) -> str:
    if not tools:
        return "I am a demo without a model behind it, and I have no tools. Give me one and name it."
    names = ", ".join(str(tool["name"]) for tool in tools)
    return f"I am a demo without a model behind it. Name one of my tools, or say tour: {names}."


def _value(schema: JsonValue, request: str, level: int = 0) -> JsonValue:
    """Return a value that fits a simple schema.

    A string is the message of the user; with examples, the place that the message names, or the first
    example.
    """
    if not isinstance(schema, dict) or level > _LEVELS_MAX:
        return {}
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    location = _PLACE.search(request)
    if location is not None and schema.get("type") == "string" and "examples" in schema:
        return location[1]
    for name in ("enum", "examples", "anyOf", "oneOf"):
        choices = schema.get(name)
        if isinstance(choices, list) and choices:
            return _value(choices[0], request, level + 1) if name in _NESTED else choices[0]
    match schema.get("type"):
        case "string":
            longest = schema.get("maxLength")
            return request[:longest] if isinstance(longest, int) else request
        case "integer" | "number":
            return schema.get("minimum", 1)
        case str(kind) if kind in _PLAIN:
            return _PLAIN[kind]
        case _:
            return _object(schema, request, level)


def _object(schema: JsonObject, request: str, level: int) -> JsonObject:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return {}
    return {str(name): _value(properties.get(str(name)), request, level + 1) for name in required}
