"""Anthropic, and every server with a compatible Messages API."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Final, cast

from windlass.models.batches import BATCH_TIER, AnthropicBatches, BatchedModel
from windlass.models.clients import anthropic_client
from windlass.models.errors import stream_error
from windlass.models.messages import (
    NO_ARGUMENTS,
    REDACTED,
    SILENCE,
    THINKING,
    Media,
    Text,
    Thoughts,
    TurnCache,
    check_newest,
    contents,
    count_of,
    may_think,
    names_back,
    object_of,
    own_cost_micros,
    system_count,
    text_of,
    thoughts_of,
    wire_call_id,
    wire_name,
)
from windlass.models.transport import (
    MAX_TOKENS,
    PROCESS_ENVIRONMENT,
    Environment,
    Line,
    ModelAddress,
    ModelSettings,
    StreamReader,
    endpoint_of,
    need_extra,
    need_key,
)
from windlass.ports.model import BilledRequest, LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue

NAME: Final = "anthropic"
"""Key of the provider's own data in a message."""


PAUSES_MAX: Final = 16
"""Requests that continue one answer, which the server paused while its own tools were at work."""
_PAUSED: Final = "pause_turn"
_FIELDS: Final = {"text_delta": "text", "thinking_delta": THINKING, "signature_delta": "signature"}


class AnswerBlocks:
    """The blocks of an answer as the server sent them, to send them back."""

    def __init__(self) -> None:
        self._blocks: list[JsonObject] = []
        self._pieces: list[dict[str, list[str]]] = []
        """The pieces of each field of each block."""

    def begin(self, block: JsonObject) -> None:
        """Take the start of a block."""
        self._blocks.append(dict(block))
        self._pieces.append({})

    def add(self, delta: JsonObject) -> None:
        """Take a delta of the last block."""
        kind = str(delta.get("type"))
        if kind in _FIELDS:
            name = _FIELDS[kind]
            self._pieces[-1].setdefault(name, []).append(text_of(delta, name))
        elif kind == "input_json_delta":
            self._pieces[-1].setdefault("input", []).append(text_of(delta, "partial_json"))
        elif kind == "citations_delta":
            cited = self._blocks[-1].get("citations")
            self._blocks[-1]["citations"] = [*(cited if isinstance(cited, list) else ()), delta["citation"]]

    def content(self) -> list[JsonValue]:
        """Return the blocks.

        Raises:
            Unavailable: the input of a tool is not JSON.
        """
        content: list[JsonValue] = []
        for block, pieces in zip(self._blocks, self._pieces, strict=True):
            whole: JsonObject = {
                name: _input("".join(texts))
                if name == "input"
                else f"{block.get(name) or ''}{''.join(texts)}"
                for name, texts in pieces.items()
            }
            content.append({**block, **whole})
        return content


def _input(text: str) -> JsonValue:
    try:
        return cast(JsonValue, json.loads(text)) if text else {}
    except ValueError:
        raise stream_error("the input of a tool is not JSON") from None


class AnthropicReader:
    """Reads one answer; `is_finished` is set once it is complete.

    An answer that the server has paused is read on from the stream of the next request.
    """

    __slots__ = (
        "_base",
        "_before",
        "_blocks",
        "_calls",
        "_has_begun",
        "_model",
        "_model_id",
        "_names",
        "_open",
        "_reason",
        "_seen",
        "_thoughts",
        "_usage",
        "is_finished",
        "is_paused",
        "pauses",
    )

    def __init__(self, names: Mapping[str, str], model_id: str) -> None:
        self._names = names
        self._model_id = model_id
        self._thoughts = Thoughts(NAME)
        self._has_begun = False
        self._open: dict[int, str] = {}
        """The kind of each open block."""
        self._seen: set[int] = set()
        self._calls: dict[int, int] = {}
        """Index of the tool call in the answer, by block."""
        self._reason: str | None = None
        self._model: str | None = None
        """The model that answers, as the server names it."""
        self._usage: JsonObject = {}
        self._before = LLMUsage()
        """The usage of the requests before."""
        self._base = 0
        """The number of blocks of the requests before."""
        self._blocks = AnswerBlocks()
        self.is_finished = False
        self.is_paused = False
        self.pauses = 0
        """How often the answer was paused."""

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event; events of unknown kinds are ignored.

        Raises:
            Unavailable: the event is not valid.
        """
        match event.get("type"):
            case "content_block_delta":
                yield from self._delta(self._index(event), object_of(event.get("delta")))
            case "content_block_start":
                yield from self._start(self._index(event), object_of(event.get("content_block")))
            case "content_block_stop":
                if self._open.pop(self._index(event), None) is None:
                    raise stream_error("content_block_stop without an open block")
            case "message_start":
                if self._has_begun:
                    raise stream_error("a second message_start")
                self._has_begun = True
                message = object_of(event.get("message"))
                self._model = str(message.get("model") or "") or None
                self._count(message.get("usage"))
            case "message_delta":
                self._count(event.get("usage"))
                reason = object_of(event.get("delta")).get("stop_reason")
                self._reason = reason if isinstance(reason, str) and reason else self._reason
            case "message_stop":
                yield from self._end()
            case _:
                pass

    def _start(self, index: int, block: JsonObject) -> Iterator[LLMStreamChunk]:
        if index in self._seen or not self._has_begun:
            raise stream_error("a block starts twice, or before message_start")
        kind = str(block.get("type"))
        self._seen.add(index)
        self._open[index] = kind
        self._blocks.begin(block)
        self._thoughts.begin(index, block)
        if kind == "text" and block.get("text"):
            yield LLMStreamChunk(content_delta=str(block["text"]))
        elif kind == "thinking" and block.get("thinking"):
            yield LLMStreamChunk(reasoning_delta=str(block["thinking"]))
        elif kind == "tool_use":
            call = self._calls[index] = len(self._calls)
            name = str(block.get("name") or "")
            yield LLMStreamChunk(
                tool_call_delta=ToolCallDelta(
                    call, id=str(block.get("id") or "") or None, name=self._names.get(name, name)
                )
            )

    def _delta(self, index: int, delta: JsonObject) -> Iterator[LLMStreamChunk]:
        if index not in self._open:
            raise stream_error("a delta belongs to no open block")
        self._blocks.add(delta)
        match delta.get("type"):
            case "text_delta":
                yield LLMStreamChunk(content_delta=text_of(delta, "text"))
            case "thinking_delta":
                piece = text_of(delta, THINKING)
                self._thoughts.add(index, THINKING, piece=piece)
                yield LLMStreamChunk(reasoning_delta=piece)
            case "signature_delta":
                self._thoughts.add(index, "signature", piece=text_of(delta, "signature"))
            case "input_json_delta" if index in self._calls:
                piece = text_of(delta, "partial_json")
                if piece:
                    yield LLMStreamChunk(
                        tool_call_delta=ToolCallDelta(self._calls[index], arguments_delta=piece)
                    )
            case _:
                pass

    def _end(self) -> Iterator[LLMStreamChunk]:
        if self._reason is None or self._open:
            raise stream_error("the answer ends with open blocks or without a stop_reason")
        usage = _add_usage(self._before, _usage(self._usage, self._model))
        if self._reason == _PAUSED:
            self.is_paused, self._before = True, usage
            self.pauses += 1
            yield LLMStreamChunk(usage=usage)
            return
        self.is_finished = True
        yield LLMStreamChunk(
            finish_reason=self._reason,
            usage=usage,
            provider_data=self._thoughts.data(self._model_id),
        )

    def resume(self) -> list[JsonValue]:
        """Read on from the next stream; return the blocks of the answer so far."""
        content, self._base = self._blocks.content(), max(self._seen, default=-1) + 1
        self._reason, self._usage = None, {}
        self._has_begun = self.is_paused = False
        return content

    def _index(self, event: JsonObject) -> int:
        index = event.get("index")
        if not isinstance(index, int):
            raise stream_error("a block has no index")
        return index + self._base

    def _count(self, usage: JsonValue) -> None:
        if isinstance(usage, dict):
            self._usage.update({name: count for name, count in usage.items() if count is not None})


def _usage(usage: JsonObject, model: str | None) -> LLMUsage:
    fresh = count_of(usage, "input_tokens")
    read = count_of(usage, "cache_read_input_tokens")
    written = count_of(usage, "cache_creation_input_tokens")
    return LLMUsage(
        # The API counts cache reads and writes separately; here the input is the whole prompt.
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=count_of(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(usage.get("output_tokens_details"), "thinking_tokens"),
        cost_micros=own_cost_micros(usage),
        billed=(BilledRequest("messages", usage, model),) if usage else (),
    )


def _add_usage(first: LLMUsage, second: LLMUsage) -> LLMUsage:
    def total(name: str) -> int | None:
        pair = (getattr(first, name), getattr(second, name))
        counts: list[int] = [count for count in pair if count is not None]
        return sum(counts) if counts else None

    counts = {part.name: total(part.name) for part in fields(LLMUsage) if part.name != "billed"}
    return LLMUsage(**counts, billed=(*first.billed, *second.billed))


_CACHED: Final[JsonObject] = {"type": "ephemeral"}


def anthropic_body(
    model: str,
    messages: Sequence[LLMMessage],
    *,
    turns: TurnCache[JsonObject],
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
    system = [_text(message.content) for message in messages[:first] if message.content.strip()]
    conversation = anthropic_messages(messages[first:], turns)
    thinks = _thinks(settings) and may_think(messages, NAME, model)
    if _thinks(settings) and not thinks:
        conversation = [_without_thoughts(turn) for turn in conversation]
    definitions = [_tool(tool) for tool in tools]
    if settings.is_cached:
        _mark(system, definitions, conversation)
    body: JsonObject = {
        "model": model,
        "max_tokens": settings.max_tokens or MAX_TOKENS,
        "messages": cast(list[JsonValue], conversation),
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


def anthropic_turns(model: str, settings: ModelSettings) -> TurnCache[JsonObject]:
    """Return a cache of conversations in the format of the Messages API.

    A model with thinking enabled gets its signed thinking blocks back.
    """
    return TurnCache(partial(_take, model if _thinks(settings) else None))


def anthropic_messages(messages: Sequence[LLMMessage], turns: TurnCache[JsonObject]) -> list[JsonObject]:
    """Return the messages as turns of user and assistant, beginning with the user."""
    conversation = turns.of(messages)
    if not conversation or conversation[0]["role"] == "assistant":
        conversation.insert(0, {"role": "user", "content": [_text(SILENCE)]})
    return conversation


def _take(thinks_as: str | None, turns: list[JsonObject], message: LLMMessage) -> None:
    role = "assistant" if message.role == "assistant" else "user"
    blocks = _blocks(message)
    if not blocks:
        return
    if thinks_as is not None and role == "assistant":
        blocks = [*thoughts_of(message, NAME, thinks_as), *blocks]
    if turns and turns[-1]["role"] == role:
        blocks = [*cast(list[JsonObject], turns.pop()["content"]), *blocks]
    turns.append({"role": role, "content": cast(list[JsonValue], _order_blocks(blocks))})


def _thinks(settings: ModelSettings) -> bool:
    return "thinking" in (settings.body or {})


def _without_thoughts(turn: JsonObject) -> JsonObject:
    blocks = cast(list[JsonObject], turn["content"])
    kept_blocks = [block for block in blocks if block["type"] not in (THINKING, REDACTED)]
    return {**turn, "content": cast(list[JsonValue], kept_blocks)}


def _order_blocks(blocks: list[JsonObject]) -> list[JsonObject]:
    """Return blocks with tool results first, as the API requires."""
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _blocks(message: LLMMessage) -> list[JsonObject]:
    match message.role:
        case "system":
            # The API takes system messages at the start only.
            system_text = message.content.strip()
            return [_text(f"<system>\n{system_text}\n</system>")] if system_text else []
        case "user":
            return [_part(part) for part in contents(message)] or [_text(SILENCE)]
        case "assistant":
            text = message.content.rstrip()
            blocks = [_text(text)] if text else []
            for call in message.tool_calls:
                blocks.append(
                    {
                        "type": "tool_use",
                        "id": wire_call_id(call.id),
                        "name": wire_name(call.name),
                        "input": call.arguments,
                    }
                )
            return blocks
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
        # The API refuses blank blocks as well as empty ones.
        return _text(part.text if part.text.strip() else SILENCE)
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
        "input_schema": tool.get("inputSchema") or NO_ARGUMENTS,
    }
    if tool.get("description"):
        definition["description"] = tool["description"]
    return definition


def _mark(system: list[JsonObject], tools: list[JsonObject], conversation: list[JsonObject]) -> None:
    """Set the cache breakpoints of the prompt: four, the limit of the API."""
    for blocks in (system, tools):
        if blocks:
            blocks[-1]["cache_control"] = {**_CACHED}
    for role in ("user", "assistant"):
        at = next((at for at in reversed(range(len(conversation))) if conversation[at]["role"] == role), None)
        if at is not None:
            # Cached for the next request, which ends with another message.
            *before, last = cast(list[JsonObject], conversation[at]["content"])
            conversation[at] = {"role": role, "content": [*before, {**last, "cache_control": {**_CACHED}}]}


KEY: Final = "ANTHROPIC_API_KEY"
BASE_URL: Final = "ANTHROPIC_BASE_URL"
ANTHROPIC: Final = "https://api.anthropic.com"


class AnthropicProvider(BatchedModel):
    """A model behind the Messages API.

    The key is `api_key` or the variable ANTHROPIC_API_KEY, the address `base_url` or ANTHROPIC_BASE_URL. The
    prompt is marked for caching. The client does not retry: the loop does.

    Raises:
        Unavailable: the extra `windlass-runtime[anthropic]` or the key is missing.
    """

    holds_beside_tools = True
    default_answer_tokens = MAX_TOKENS

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = PROCESS_ENVIRONMENT,
        route_id: str = "anthropic",
    ) -> None:
        need_extra("anthropic", route_id)
        url, to = endpoint_of(
            base_url, BASE_URL, ANTHROPIC, api_key=api_key, key_variable=KEY, environment=environment
        )
        key = need_key(api_key or environment.get(KEY), KEY, route_id=route_id, maker=type(self).__name__)
        line = Line("anthropic", anthropic_client, ModelAddress(url, key), settings or ModelSettings(), to)
        super().__init__(model, line, route_id=route_id)
        self._turns = anthropic_turns(model, self._settings)

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        return anthropic_body(
            self.model_id,
            messages,
            turns=self._turns,
            tools=tools,
            temperature=temperature,
            settings=self._settings,
        )

    def _next_body(self, body: JsonObject, reader: StreamReader) -> JsonObject | None:
        """Return the request that continues a paused answer: with the answer so far as its last message.

        Raises:
            Unavailable: the answer was paused too often.
        """
        if not (isinstance(reader, AnthropicReader) and reader.is_paused):
            return None
        if reader.pauses > PAUSES_MAX:
            raise stream_error(f"the answer was paused more than {PAUSES_MAX} times")
        messages = cast(list[JsonObject], body["messages"])
        if reader.pauses > 1:
            # The last one is the answer as it was at the pause before.
            messages = messages[:-1]
        return {**body, "messages": [*messages, {"role": "assistant", "content": reader.resume()}]}

    def _reader(self, tools: Sequence[JsonObject]) -> AnthropicReader:
        return AnthropicReader(names_back(tools), self.model_id)

    def batch_api(self) -> AnthropicBatches:
        """Return the batches of the account."""
        return AnthropicBatches(self._line)

    def _events_of(self, answer: JsonObject) -> Iterator[JsonObject]:
        usage: JsonObject = {**object_of(answer.get("usage")), "service_tier": BATCH_TIER}
        yield {"type": "message_start", "message": {**answer, "usage": usage}}
        blocks = answer.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            start = {name: value for name, value in object_of(block).items() if name != "input"}
            yield {"type": "content_block_start", "index": index, "content_block": start}
            if "input" in object_of(block):
                text = json.dumps(object_of(block)["input"])
                delta: JsonObject = {"type": "input_json_delta", "partial_json": text}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": {"stop_reason": answer.get("stop_reason")}}
        yield {"type": "message_stop"}
