"""The Responses API of OpenAI.

Requests are stateless: the conversation is sent whole, and the server stores nothing. Reasoning comes back
encrypted, is recorded with the answer, and is sent with the next request.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from pydantic_core import to_json

from windlass.models.batches import BATCH_TIER, BatchedModel, OpenAIBatches
from windlass.models.errors import error_event, stream_error
from windlass.models.messages import (
    NO_ARGUMENTS,
    Media,
    Text,
    TurnCache,
    check_newest,
    contents,
    count_of,
    data_of,
    make_provider_data,
    names_back,
    object_of,
    own_cost_micros,
    system_count,
    text_of,
    wire_call_id,
    wire_name,
)
from windlass.models.openai import KEY, Names, is_strict, openai_line
from windlass.models.transport import (
    PROCESS_ENVIRONMENT,
    Environment,
    ModelAddress,
    ModelSettings,
)
from windlass.ports.model import BilledRequest, LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue

NAME: Final = "openai-responses"
"""Key of the provider's own data in a message."""
_REASONING: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_SEARCHES: Final = {"web_search_call": "web_searches", "file_search_call": "storage_searches"}
"""What the price table calls the calls of tools of OpenAI that are billed each."""
_INCOMPLETE: Final = {"max_output_tokens": "length"}


class ResponsesReader:
    """Reads one stream; `is_finished` is set by its last event."""

    __slots__ = ("_calls", "_is_refusal", "_items", "_model_id", "_names", "_searches", "is_finished")

    def __init__(self, names: Mapping[str, str], model_id: str) -> None:
        self._names = names
        self._model_id = model_id
        self._calls: dict[JsonValue, int] = {}
        """Index of the tool call in the answer, by the server's index of the item."""
        self._items: list[JsonValue] = []
        """Encrypted reasoning, as it goes back."""
        self._is_refusal = False
        self._searches: dict[str, int] = {}
        """Searches in the web by the server."""
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event; events of unknown kinds are ignored.

        Raises:
            Unavailable: the event is not valid.
        """
        match event.get("type"):
            case "response.output_text.delta":
                yield LLMStreamChunk(content_delta=text_of(event, "delta"))
            case "response.refusal.delta":
                self._is_refusal = True
                yield LLMStreamChunk(content_delta=text_of(event, "delta"))
            case kind if kind in _REASONING:
                yield LLMStreamChunk(reasoning_delta=text_of(event, "delta"))
            case "response.output_item.added":
                yield from self._begin(event.get("output_index"), object_of(event.get("item")))
            case "response.function_call_arguments.delta":
                index = self._calls.get(event.get("output_index"))
                if index is None:
                    raise stream_error("arguments belong to no call")
                yield LLMStreamChunk(
                    tool_call_delta=ToolCallDelta(index, arguments_delta=text_of(event, "delta"))
                )
            case "response.output_item.done":
                self._keep(object_of(event.get("item")))
            case "response.completed" | "response.incomplete":
                yield self._end(object_of(event.get("response")))
            case _:
                pass

    def _begin(self, item_index: JsonValue, item: JsonObject) -> Iterator[LLMStreamChunk]:
        if item.get("type") != "function_call":
            return
        if item_index in self._calls:
            raise stream_error("a call begins twice")
        index = self._calls[item_index] = len(self._calls)
        name, call_id = str(item.get("name") or ""), str(item.get("call_id") or "")
        yield LLMStreamChunk(
            tool_call_delta=ToolCallDelta(index, id=call_id or None, name=self._names.get(name, name))
        )

    def _keep(self, item: JsonObject) -> None:
        search = _SEARCHES.get(str(item.get("type")))
        if search is not None:
            self._searches[search] = self._searches.get(search, 0) + 1
        if item.get("type") == "reasoning" and item.get("encrypted_content"):
            self._items.append({name: item.get(name) for name in ("id", "summary", "encrypted_content")})

    def _end(self, response: JsonObject) -> LLMStreamChunk:
        self.is_finished = True
        details = response.get("incomplete_details")
        reason = "tool_calls" if self._calls else "refusal" if self._is_refusal else "stop"
        if isinstance(details, dict):
            incomplete_reason = str(details.get("reason"))
            reason = _INCOMPLETE.get(incomplete_reason, incomplete_reason)
        return LLMStreamChunk(
            finish_reason=reason,
            usage=self._usage(response),
            provider_data=make_provider_data(NAME, self._model_id, self._items) if self._items else None,
        )

    def _usage(self, response: JsonObject) -> LLMUsage | None:
        usage, model, tier = (response.get(name) for name in ("usage", "model", "service_tier"))
        if not isinstance(usage, dict):
            return None
        read = usage.get("input_tokens_details")
        billed = BilledRequest(
            "responses",
            usage,
            model if isinstance(model, str) else None,
            tier if isinstance(tier, str) else None,
            more=self._searches,
        )
        return LLMUsage(
            input_tokens=count_of(usage, "input_tokens"),
            output_tokens=count_of(usage, "output_tokens"),
            cache_read_tokens=count_of(read, "cached_tokens"),
            cache_write_tokens=count_of(read, "cache_write_tokens"),
            reasoning_tokens=count_of(usage.get("output_tokens_details"), "reasoning_tokens"),
            cost_micros=own_cost_micros(usage),
            billed=(billed,),
        )


def take(model: str, items: list[list[JsonObject]], message: LLMMessage) -> None:
    """Add a message to a conversation in the format of the API."""
    message_items = _items(message, model)
    if message_items:
        items.append(message_items)


def _items(message: LLMMessage, model: str) -> list[JsonObject]:
    match message.role:
        case "system":
            return [{"role": "developer", "content": message.content}] if message.content else []
        case "user":
            return [{"role": "user", "content": [_part(part) for part in contents(message)]}]
        case "assistant":
            items = [{"type": "reasoning", **item} for item in _reasoning(message, model)]
            if message.content:
                items.append({"role": "assistant", "content": message.content})
            for call in message.tool_calls:
                items.append(
                    {
                        "type": "function_call",
                        "call_id": wire_call_id(call.id),
                        "name": wire_name(call.name),
                        "arguments": to_json(call.arguments).decode(),
                    }
                )
            return items if message.content or message.tool_calls else []
        case "tool":
            # The API has no field for a failure, so it is marked in the text.
            text = f"Error: {message.content}" if message.is_error else message.content
            call_id = wire_call_id(message.tool_call_id or "")
            return [{"type": "function_call_output", "call_id": call_id, "output": text}]


def _reasoning(message: LLMMessage, model: str) -> list[JsonObject]:
    return cast(list[JsonObject], data_of(message, NAME, model))


def _part(part: Text | Media) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if part.is_image:
        return {"type": "input_image", "image_url": part.url or part.data_url, "detail": "auto"}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    return {"type": "input_file", "filename": part.filename or "file", "file_data": part.data_url}


def _tool(tool: JsonObject) -> JsonObject:
    definition: JsonObject = {
        "type": "function",
        "name": wire_name(str(tool["name"])),
        "parameters": tool.get("inputSchema") or NO_ARGUMENTS,
        "strict": False,
    }
    if tool.get("description"):
        definition["description"] = tool["description"]
    return definition


class OpenAIResponsesProvider(BatchedModel):
    """A model behind the Responses API.

    The key is `api_key` or OPENAI_API_KEY, the address `base_url` or OPENAI_BASE_URL; a server at another
    address than OpenAI's needs no key. The client does not retry: the loop does.

    Raises:
        Unavailable: the extra `windlass-runtime[openai]` or the key is missing.
    """

    holds_beside_tools = True
    limit_fields = (("max_output_tokens",),)

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = PROCESS_ENVIRONMENT,
        route_id: str = NAME,
    ) -> None:
        line = openai_line(
            "/responses",
            ModelAddress(base_url or "", api_key or ""),
            settings,
            environment=environment,
            names=Names(type(self).__name__, route_id, KEY),
        )
        super().__init__(model, line, route_id=route_id)
        self._turns: TurnCache[list[JsonObject]] = TurnCache(partial(take, model))

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        check_newest(messages)
        first, settings = system_count(messages), self._settings
        body: JsonObject = {
            "model": self.model_id,
            "input": [item for items in self._turns.of(messages[first:]) for item in items],
            "stream": True,
            "store": False,
        }
        system_text = "\n\n".join(message.content for message in messages[:first] if message.content)
        if system_text:
            body["instructions"] = system_text
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if temperature is not None:
            body["temperature"] = temperature
        if settings.max_tokens is not None:
            body["max_output_tokens"] = settings.max_tokens
        if settings.output is not None:
            strict = is_strict(settings.output)
            form: JsonObject = {"type": "json_schema", "name": "output", "schema": settings.output}
            body["text"] = {"format": {**form, "strict": strict}}
        return {**body, **(settings.body or {})}

    def _reader(self, tools: Sequence[JsonObject]) -> ResponsesReader:
        return ResponsesReader(names_back(tools), self.model_id)

    def batch_api(self) -> OpenAIBatches:
        """Return the batches of the model."""
        return OpenAIBatches(self._line, "/v1/responses", self.model_id)

    def _events_of(self, answer: JsonObject) -> Iterator[JsonObject]:
        if answer.get("status") == "failed":
            raise error_event(cast(object, answer), to=self._line.to)
        for index, item in enumerate(_objects(answer.get("output"))):
            yield {"type": "response.output_item.added", "output_index": index, "item": item}
            yield from _deltas(item, index)
            yield {"type": "response.output_item.done", "item": item}
        yield {"type": "response.completed", "response": {**answer, "service_tier": BATCH_TIER}}


def _deltas(item: JsonObject, index: int) -> Iterator[JsonObject]:
    """Yield the deltas that would have streamed an item."""
    if item.get("type") == "function_call":
        delta = item.get("arguments")
        yield {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}
    for part in _objects(item.get("content")):
        if part.get("type") == "refusal":
            yield {"type": "response.refusal.delta", "delta": part.get("refusal")}
        elif part.get("type") in ("output_text", "reasoning_text"):
            yield {"type": f"response.{part['type']}.delta", "delta": part.get("text")}
    for part in _objects(item.get("summary")):
        yield {"type": "response.reasoning_summary_text.delta", "delta": part.get("text")}


def _objects(value: JsonValue) -> list[JsonObject]:
    return [object_of(part) for part in value] if isinstance(value, list) else []
