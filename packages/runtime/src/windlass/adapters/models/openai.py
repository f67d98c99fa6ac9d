"""OpenAI, and every server with a compatible Chat Completions API."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from pydantic_core import to_json

from windlass.adapters.models.errors import malformed
from windlass.adapters.models.messages import (
    Media,
    Text,
    Turns,
    check_newest,
    contents,
    names_back,
    system_count,
    wire_call_id,
    wire_name,
)
from windlass.adapters.models.transport import (
    Address,
    Environment,
    Line,
    ModelSettings,
    ServedModel,
    need_extra,
    need_key,
)
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue, ToolCall

_REASONING: Final = ("reasoning_content", "reasoning")
"""Where servers put what a model thinks aloud; OpenAI's own tells nothing."""


class OpenAIReader:
    """Reads one stream; `is_finished` once the server said why it stopped."""

    __slots__ = ("_calls", "_ids", "_is_refusal", "_names", "is_finished")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._ids: list[str] = []
        """The id of each call so far, by our own index."""
        self._calls: dict[int, int] = {}
        """Our index of the call that the server's index stands for now."""
        self._is_refusal = False
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Give what an event says.

        Raises:
            Unavailable: it is not what the format allows.
        """
        usage = event.get("usage")
        if isinstance(usage, dict):
            yield LLMStreamChunk(usage=_usage(usage))
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise malformed("an event has no choices")
        for choice in choices:
            if not isinstance(choice, dict):
                raise malformed("a choice is no object")
            # Some servers send null in place of an object that is empty.
            yield from self._delta(choice.get("delta") or {})
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.is_finished = True
                yield LLMStreamChunk(finish_reason="refusal" if self._is_refusal else reason)

    def _delta(self, delta: JsonValue) -> Iterator[LLMStreamChunk]:
        if not isinstance(delta, dict):
            raise malformed("a delta is no object")
        for name in _REASONING:
            if delta.get(name):
                yield LLMStreamChunk(reasoning_delta=self._text(delta[name]))
                break
        if delta.get("content"):
            yield LLMStreamChunk(content_delta=self._text(delta["content"]))
        if delta.get("refusal"):
            self._is_refusal = True
            yield LLMStreamChunk(content_delta=self._text(delta["refusal"]))
        calls = delta.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                raise malformed("tool calls are no list")
            for call in calls:
                yield LLMStreamChunk(tool_call_delta=self._call(call))

    def _text(self, value: JsonValue) -> str:
        if not isinstance(value, str):
            raise malformed("a piece of text is no text")
        if self.is_finished:
            raise malformed("the answer goes on after its end")
        return value

    def _call(self, call: JsonValue) -> ToolCallDelta:
        if not isinstance(call, dict) or self.is_finished:
            raise malformed("a tool call is no object, or comes after the end")
        function = call.get("function") or {}
        if not isinstance(function, dict):
            raise malformed("the function of a call is no object")
        call_id, name = call.get("id"), function.get("name")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            raise malformed("the arguments of a call are no text")
        index = self._index(call.get("index"), call_id if isinstance(call_id, str) else "")
        return ToolCallDelta(
            index,
            id=self._ids[index] or None,
            name=self._names.get(name, name) if isinstance(name, str) and name else None,
            arguments_delta=arguments if isinstance(arguments, str) else "",
        )

    def _index(self, theirs: JsonValue, call_id: str) -> int:
        """Return our index of a call.

        Theirs is not enough: there are servers that leave it out, or give every call the same one.
        """
        place = theirs if isinstance(theirs, int) else max(self._calls, default=0)
        ours = self._calls.get(place)
        if ours is None or (call_id and self._ids[ours] and call_id != self._ids[ours]):
            self._ids.append(call_id)
            ours = self._calls[place] = len(self._ids) - 1
        elif call_id:
            self._ids[ours] = call_id
        return ours


def _usage(usage: JsonObject) -> LLMUsage:
    read = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    return LLMUsage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=read if read is not None else _count(usage, "prompt_cache_hit_tokens"),
        cache_write_tokens=_count(usage.get("prompt_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
    )


def _count(counts: JsonValue, name: str) -> int | None:
    value = cast(JsonObject, counts).get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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


KEY: Final = "OPENAI_API_KEY"
BASE_URL: Final = "OPENAI_BASE_URL"
OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""What is sent to a server that needs no key: the SDK insists on one."""


class OpenAICompatProvider(ServedModel):
    """A model behind Chat Completions: OpenAI, vLLM, llama.cpp, Ollama and others.

    The key is `api_key` or the variable OPENAI_API_KEY, the address `base_url` or OPENAI_BASE_URL; a server
    at another address than OpenAI's needs no key. Nothing is tried again here: the loop does that.

    Raises:
        Unavailable: the extra `windlass[openai]` or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = os.environ,
        route_id: str = "openai",
    ) -> None:
        need_extra("openai", route_id)
        url = base_url or environment.get(BASE_URL) or OPENAI
        key = api_key or environment.get(KEY) or (None if url == OPENAI else _NO_KEY)
        # Other servers hold all that the model says to the schema, so that it can call nothing.
        self.holds_beside_tools = url == OPENAI
        self._max_tokens_name = "max_completion_tokens" if url == OPENAI else "max_tokens"
        address = Address(url, need_key(key, KEY, route_id=route_id, maker=type(self).__name__))
        client = ("windlass.adapters.models.openai_client", "OpenAIClient")
        super().__init__(model, Line(*client, address, settings or ModelSettings(), KEY), route_id=route_id)
        self._turns = openai_turns(self._settings.reasoning_field)

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        return openai_body(
            self.model_id,
            openai_messages(messages, self._turns),
            tools=tools,
            temperature=temperature,
            settings=self._settings,
            max_tokens_name=self._max_tokens_name,
        )

    def _reader(self, tools: Sequence[JsonObject]) -> OpenAIReader:
        return OpenAIReader(names_back(tools))
