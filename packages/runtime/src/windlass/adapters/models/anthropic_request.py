"""Messages as the Messages API has them."""

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from windlass.adapters.models.anthropic_thoughts import REDACTED, THINKING, thoughts_of
from windlass.adapters.models.names import wire_call_id, wire_name
from windlass.adapters.models.parts import Media, Text, check_newest, contents
from windlass.adapters.models.settings import MAX_TOKENS, ModelSettings
from windlass.adapters.models.turns import Turns, system_count
from windlass.ports.model import LLMMessage
from windlass_protocol import JsonObject, JsonValue

_CACHED: Final[JsonObject] = {"type": "ephemeral"}
_NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
_SILENCE: Final = "(nothing)"
"""In place of a message that says nothing, which the API refuses."""


def anthropic_body(
    model: str,
    messages: Sequence[LLMMessage],
    *,
    turns: Turns[JsonObject],
    tools: Sequence[JsonObject],
    temperature: float | None,
    settings: ModelSettings,
) -> JsonObject:
    """Return the body of a request.

    Raises:
        Rejected: a part of the newest message cannot be sent.
    """
    check_newest(messages)
    first = system_count(messages)
    system = [_text(one.content) for one in messages[:first] if one.content.strip()]
    said = anthropic_messages(messages[first:], turns)
    thinks = _thinks(settings) and _may_think(messages, model)
    if _thinks(settings) and not thinks:
        said = [_without_thoughts(turn) for turn in said]
    definitions = [_tool(tool) for tool in tools]
    if settings.is_cached:
        _mark(system, definitions, said)
    body: JsonObject = {
        "model": model,
        "max_tokens": settings.max_tokens or MAX_TOKENS,
        "messages": cast(list[JsonValue], said),
        "stream": True,
    }
    if system:
        body["system"] = cast(list[JsonValue], system)
    if definitions:
        body["tools"] = cast(list[JsonValue], definitions)
    if temperature is not None:
        body["temperature"] = min(temperature, 1.0)
    if settings.output is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": settings.output}}
    body.update(settings.body or {})
    if not thinks:
        body.pop("thinking", None)
    return body


def anthropic_turns(model: str, settings: ModelSettings) -> Turns[JsonObject]:
    """Return what keeps the conversations of a provider as the Messages API has them.

    A model that thinks gets back what it thought, signed.
    """
    return Turns(partial(_take, model if _thinks(settings) else None))


def anthropic_messages(messages: Sequence[LLMMessage], turns: Turns[JsonObject]) -> list[JsonObject]:
    """Return the messages as turns of user and assistant, beginning with the user."""
    said = turns.of(messages)
    if not said or said[0]["role"] == "assistant":
        said.insert(0, {"role": "user", "content": [_text(_SILENCE)]})
    return said


def _take(thinks_as: str | None, turns: list[JsonObject], message: LLMMessage) -> None:
    role = "assistant" if message.role == "assistant" else "user"
    blocks = _blocks(message)
    if not blocks:
        return
    if thinks_as is not None and role == "assistant":
        blocks = [*thoughts_of(message, thinks_as), *blocks]
    if turns and turns[-1]["role"] == role:
        blocks = [*cast(list[JsonObject], turns.pop()["content"]), *blocks]
    turns.append({"role": role, "content": cast(list[JsonValue], _ordered(blocks))})


def _thinks(settings: ModelSettings) -> bool:
    return "thinking" in (settings.body or {})


def _without_thoughts(turn: JsonObject) -> JsonObject:
    blocks = cast(list[JsonObject], turn["content"])
    said = [block for block in blocks if block["type"] not in (THINKING, REDACTED)]
    return {**turn, "content": cast(list[JsonValue], said)}


def _ordered(blocks: list[JsonObject]) -> list[JsonObject]:
    """Results come before everything else that the user says."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _blocks(message: LLMMessage) -> list[JsonObject]:
    match message.role:
        case "system":
            # The API has a place for them at the beginning only.
            words = message.content.strip()
            return [_text(f"<system>\n{words}\n</system>")] if words else []
        case "user":
            return [_part(part) for part in contents(message)] or [_text(_SILENCE)]
        case "assistant":
            text = message.content.rstrip()
            said = [_text(text)] if text else []
            for call in message.tool_calls:
                said.append(
                    {
                        "type": "tool_use",
                        "id": wire_call_id(call.id),
                        "name": wire_name(call.name),
                        "input": call.arguments,
                    }
                )
            return said
        case "tool":
            result: JsonObject = {
                "type": "tool_result",
                "tool_use_id": wire_call_id(message.tool_call_id or ""),
            }
            if message.content:
                result["content"] = message.content
            if message.is_error:
                result["is_error"] = True
            return [result]


def _part(part: Text | Media) -> JsonObject:
    if isinstance(part, Text):
        # A block of white space alone is refused like an empty one.
        return _text(part.text if part.text.strip() else _SILENCE)
    source: JsonObject
    if part.url is not None:
        source = {"type": "url", "url": part.url}
    else:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    if part.is_image:
        return {"type": "image", "source": source}
    block: JsonObject = {"type": "document", "source": source}
    if part.filename:
        block["title"] = part.filename
    return block


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _tool(tool: JsonObject) -> JsonObject:
    definition: JsonObject = {
        "name": wire_name(str(tool["name"])),
        "input_schema": tool.get("inputSchema") or _NO_ARGUMENTS,
    }
    if tool.get("description"):
        definition["description"] = tool["description"]
    return definition


def _mark(system: list[JsonObject], tools: list[JsonObject], said: list[JsonObject]) -> None:
    """Say up to where the prompt may be cached: in four places, which is the limit."""
    for blocks in (system, tools):
        if blocks:
            blocks[-1]["cache_control"] = {**_CACHED}
    for role in ("user", "assistant"):
        at = next((at for at in reversed(range(len(said))) if said[at]["role"] == role), None)
        if at is not None:
            # Turns are kept for the next request, whose end is elsewhere.
            *before, last = cast(list[JsonObject], said[at]["content"])
            said[at] = {"role": role, "content": [*before, {**last, "cache_control": {**_CACHED}}]}


def _may_think(messages: Sequence[LLMMessage], model: str) -> bool:
    """Whether the model may think aloud before it goes on.

    Between a call and its result the API wants the thoughts back that led to the first call since somebody
    spoke, signed. A model whose thoughts are not there as it wrote them goes on without thinking.
    """
    if not messages or messages[-1].role != "tool":
        return True
    since = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), -1)
    first = next((one for one in messages[since + 1 :] if one.role == "assistant"), None)
    return first is not None and bool(thoughts_of(first, model))
