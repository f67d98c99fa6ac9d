"""Messages as Chat Completions has them."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from pydantic_core import to_json

from windlass.adapters.models.names import wire_call_id, wire_name
from windlass.adapters.models.parts import Media, Text, check_newest, contents
from windlass.adapters.models.settings import ModelSettings
from windlass.adapters.models.turns import Turns, system_count
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject, JsonValue, ToolCall

_NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}


def openai_body(
    model: str,
    messages: list[JsonObject],
    *,
    tools: Sequence[JsonObject],
    temperature: float | None,
    settings: ModelSettings,
    max_tokens_name: str,
) -> JsonObject:
    """Return the body of a request."""
    body: JsonObject = {
        "model": model,
        "messages": cast(list[JsonValue], messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
    if temperature is not None:
        body["temperature"] = temperature
    if settings.max_tokens is not None:
        body[max_tokens_name] = settings.max_tokens
    if settings.output is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {
                "name": "output",
                "schema": settings.output,
                "strict": is_strict(settings.output),
            },
        }
    return {**body, **(settings.body or {})}


def openai_turns(reasoning_field: str | None) -> Turns[JsonObject]:
    """Return what keeps the conversations of a provider as Chat Completions has them."""
    return Turns(partial(_take, reasoning_field))


def openai_messages(messages: Sequence[LLMMessage], turns: Turns[JsonObject]) -> list[JsonObject]:
    """Return the messages; those that say nothing are left out, systems' are joined.

    Raises:
        Rejected: a part of the newest message cannot be sent.
    """
    check_newest(messages, _limit)
    first = system_count(messages)
    words = "\n\n".join(message.content for message in messages[:first] if message.content)
    said = turns.of(messages[first:])
    return [{"role": "system", "content": words}, *said] if words else said


def _take(reasoning_field: str | None, turns: list[JsonObject], message: LLMMessage) -> None:
    converted = _message(message, reasoning_field)
    if converted is None:
        return
    if message.role == "system" and turns and turns[-1]["role"] == "system":
        turns[-1] = {"role": "system", "content": f"{turns[-1]['content']}\n\n{message.content}"}
    else:
        turns.append(converted)


def _message(message: LLMMessage, reasoning_field: str | None) -> JsonObject | None:
    match message.role:
        case "system":
            return {"role": "system", "content": message.content} if message.content else None
        case "user":
            return {"role": "user", "content": _user(message)}
        case "assistant":
            if not message.content and not message.tool_calls:
                return None
            said: JsonObject = {"role": "assistant", "content": message.content or None}
            if message.tool_calls:
                said["tool_calls"] = [_call(call) for call in message.tool_calls]
            if reasoning_field is not None and message.reasoning:
                said[reasoning_field] = message.reasoning
            return said
        case "tool":
            # The API has no field for a failure, so the text has to tell it.
            text = f"Error: {message.content}" if message.is_error else message.content
            return {"role": "tool", "tool_call_id": wire_call_id(message.tool_call_id or ""), "content": text}


def _user(message: LLMMessage) -> JsonValue:
    parts = list(contents(message, _limit))
    if all(isinstance(part, Text) for part in parts):
        return "\n\n".join(part.text for part in parts if isinstance(part, Text))
    return [_part(part) for part in parts]


def _limit(part: Media) -> str | None:
    if part.is_image or part.url is None:
        return None
    return "Chat Completions takes no files by their address: send the file as a data URL"


def _part(part: Text | Media) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.is_image:
        return {"type": "image_url", "image_url": {"url": part.url or part.data_url}}
    return {"type": "file", "file": {"filename": part.filename or "file", "file_data": part.data_url}}


def _call(call: ToolCall) -> JsonObject:
    arguments = to_json(call.arguments).decode()
    function: JsonObject = {"name": wire_name(call.name), "arguments": arguments}
    return {"id": wire_call_id(call.id), "type": "function", "function": function}


def _tool(tool: JsonObject) -> JsonObject:
    function: JsonObject = {
        "name": wire_name(str(tool["name"])),
        "parameters": tool.get("inputSchema") or _NO_ARGUMENTS,
    }
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def is_strict(schema: JsonValue) -> bool:
    """Whether a schema keeps to what strict structured output demands of objects."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        names = set(properties) if isinstance(properties, dict) else set[str]()
        required = schema.get("required")
        given = {str(name) for name in required} if isinstance(required, list) else set[str]()
        if schema.get("additionalProperties") is not False or given != names:
            return False
    return all(is_strict(value) for value in schema.values())
