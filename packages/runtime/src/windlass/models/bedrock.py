"""Amazon Bedrock: every model behind the Converse API."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Final, cast

from pydantic_core import to_json

from windlass.models.clients import BedrockClient
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
    system_count,
    text_of,
    thoughts_of,
    wire_call_id,
    wire_name,
)
from windlass.models.transport import (
    PROCESS_ENVIRONMENT,
    Environment,
    Line,
    ModelAddress,
    ModelSettings,
    ServedModel,
    endpoint_of,
    need_extra,
    not_set_up,
)
from windlass.ports.model import BilledRequest, LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import JsonObject, JsonValue

NAME: Final = "bedrock"
"""Key of the provider's own data in a message."""
_FINISH: Final = {"guardrail_intervened": "content_filter", "content_filtered": "content_filter"}
_BROKEN: Final = frozenset({"malformed_model_output", "malformed_tool_use"})
_CACHES: Final = re.compile(r".*anthropic\.claude-(?:3-7-|3-5-haiku-|[a-z]+-\d).*")
"""Models that take cache points anywhere."""
_CACHES_SYSTEM: Final = re.compile(r".*amazon\.nova-.*")
"""Models that take a cache point after the system prompt, and none after tools."""
_HAS_SCHEMAS: Final = re.compile(r".*anthropic\.claude-[a-z]+-(?:4-[5-9]|[5-9]).*")
"""Models that hold answers to a JSON Schema."""
_IMAGES: Final = frozenset({"png", "jpeg", "gif", "webp"})
_FILES: Final = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_CACHE_POINT: Final[JsonObject] = {"cachePoint": {"type": "default"}}


class BedrockReader:
    """Reads one stream; `is_finished` is set by messageStop."""

    __slots__ = ("_calls", "_model_id", "_names", "_thoughts", "is_finished")

    def __init__(self, names: Mapping[str, str], model_id: str) -> None:
        self._names = names
        self._model_id = model_id
        self._thoughts = Thoughts(NAME)
        self._calls: dict[JsonValue, int] = {}
        """Index of the tool call in the answer, by block."""
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event; events of unknown kinds are ignored.

        Raises:
            Unavailable: the event is not valid.
        """
        for kind, data in event.items():
            fields = object_of(data)
            match kind:
                case "contentBlockStart":
                    yield from self._start(fields)
                case "contentBlockDelta":
                    yield from self._delta(fields.get("contentBlockIndex"), object_of(fields.get("delta")))
                case "messageStop":
                    yield self._end(str(fields.get("stopReason")))
                case "metadata":
                    yield LLMStreamChunk(usage=_usage(fields.get("usage"), self._model_id))
                case _:
                    pass

    def _start(self, block: JsonObject) -> Iterator[LLMStreamChunk]:
        start = object_of(block.get("start"))
        if "toolUse" in start:
            tool_use, block_index = object_of(start["toolUse"]), block.get("contentBlockIndex")
            if block_index in self._calls:
                raise stream_error("a call begins twice")
            index = self._calls[block_index] = len(self._calls)
            name = str(tool_use.get("name") or "")
            call_id = str(tool_use.get("toolUseId") or "") or None
            yield LLMStreamChunk(
                tool_call_delta=ToolCallDelta(index, id=call_id, name=self._names.get(name, name))
            )

    def _delta(self, block_index: JsonValue, delta: JsonObject) -> Iterator[LLMStreamChunk]:
        if not isinstance(block_index, int):
            raise stream_error("a block has no index")
        if "text" in delta:
            yield LLMStreamChunk(content_delta=text_of(delta, "text"))
        elif "toolUse" in delta:
            if block_index not in self._calls:
                raise stream_error("arguments belong to no call")
            piece = text_of(object_of(delta["toolUse"]), "input")
            yield LLMStreamChunk(
                tool_call_delta=ToolCallDelta(self._calls[block_index], arguments_delta=piece)
            )
        elif "reasoningContent" in delta:
            thought = object_of(delta["reasoningContent"])
            is_redacted = "redactedContent" in thought
            self._thoughts.begin(block_index, {"type": REDACTED if is_redacted else THINKING})
            for theirs, ours in (("text", THINKING), ("signature", "signature"), ("redactedContent", "data")):
                if theirs in thought:
                    self._thoughts.add(block_index, ours, piece=text_of(thought, theirs))
            if "text" in thought:
                yield LLMStreamChunk(reasoning_delta=text_of(thought, "text"))

    def _end(self, reason: str) -> LLMStreamChunk:
        if reason in _BROKEN:
            raise stream_error(f"the model wrote an invalid answer ({reason})")
        self.is_finished = True
        data = self._thoughts.data(self._model_id)
        return LLMStreamChunk(finish_reason=_FINISH.get(reason, reason), provider_data=data)


def _usage(usage: JsonValue, model: str) -> LLMUsage:
    fresh = count_of(usage, "inputTokens")
    read, written = count_of(usage, "cacheReadInputTokens"), count_of(usage, "cacheWriteInputTokens")
    return LLMUsage(
        # The API counts cache reads and writes separately; here the input is the whole prompt.
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=count_of(usage, "outputTokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        billed=(BilledRequest("converse", usage, model),) if isinstance(usage, dict) else (),
    )


def take(thinks_as: str | None, turns: list[JsonObject], message: LLMMessage) -> None:
    """Add a message to a conversation in the format of the API."""
    role = "assistant" if message.role == "assistant" else "user"
    blocks = _blocks(message)
    if not blocks:
        return
    if thinks_as is not None and role == "assistant":
        blocks = [*map(_thought, thoughts_of(message, NAME, thinks_as)), *blocks]
    if turns and turns[-1]["role"] == role:
        blocks = [*cast(list[JsonObject], turns.pop()["content"]), *blocks]
    # Results of tools come first, as models of Anthropic require.
    blocks.sort(key=lambda block: "toolResult" not in block)
    turns.append({"role": role, "content": cast(list[JsonValue], blocks)})


def _thought(block: JsonObject) -> JsonObject:
    if block["type"] == REDACTED:
        return {"reasoningContent": {"redactedContent": block["data"]}}
    text: JsonObject = {"text": block[THINKING], "signature": block["signature"]}
    return {"reasoningContent": {"reasoningText": text}}


def _blocks(message: LLMMessage) -> list[JsonObject]:
    match message.role:
        case "system":
            system_text = message.content.strip()
            return [{"text": f"<system>\n{system_text}\n</system>"}] if system_text else []
        case "user":
            parts = [_part(part, number) for number, part in enumerate(contents(message, _limit))]
            return _with_text(parts) or [{"text": SILENCE}]
        case "assistant":
            text = message.content.rstrip()
            blocks: list[JsonObject] = [{"text": text}] if text else []
            for call in message.tool_calls:
                head: JsonObject = {"toolUseId": wire_call_id(call.id), "name": wire_name(call.name)}
                blocks.append({"toolUse": {**head, "input": call.arguments}})
            return blocks
        case "tool":
            result: JsonObject = {
                "toolUseId": wire_call_id(message.tool_call_id or ""),
                "content": [{"text": message.content or SILENCE}],
                "status": "error" if message.is_error else "success",
            }
            return [{"toolResult": result}]


def _with_text(parts: list[JsonObject]) -> list[JsonObject]:
    """Return parts with a text: the API refuses a document without one."""
    has_text = any("text" in part for part in parts)
    return parts if has_text or not parts else [*parts, {"text": SILENCE}]


def _limit(part: Media) -> str | None:
    if part.url is not None:
        return "Converse takes no images and files by their address: send them as data URLs"
    kind = part.media_type.partition("/")[2] if part.is_image else part.media_type
    formats = _IMAGES if part.is_image else _FILES
    return None if kind in formats else f"Converse takes no {part.media_type}"


def _part(part: Text | Media, number: int) -> JsonObject:
    if isinstance(part, Text):
        return {"text": part.text if part.text.strip() else SILENCE}
    source: JsonObject = {"bytes": part.data}
    if part.is_image:
        return {"image": {"format": part.media_type.partition("/")[2], "source": source}}
    stem = _NOT_IN_NAMES.sub(" ", PurePosixPath(part.filename or "").stem).strip()[:100]
    name = f"{stem} {number}" if stem else f"file {number}"
    return {"document": {"format": _FILES[part.media_type], "name": name, "source": source}}


def _tool(tool: JsonObject) -> JsonObject:
    spec: JsonObject = {
        "name": wire_name(str(tool["name"])),
        "inputSchema": {"json": tool.get("inputSchema") or NO_ARGUMENTS},
    }
    if tool.get("description"):
        spec["description"] = tool["description"]
    return {"toolSpec": spec}


def _mark(
    model: str, system: list[JsonObject], tools: list[JsonObject], conversation: list[JsonObject]
) -> None:
    """Set the cache points of the prompt: up to four, the limit of the API."""
    caches = _CACHES.fullmatch(model) is not None
    if system and (caches or _CACHES_SYSTEM.fullmatch(model)):
        system.append(_CACHE_POINT)
    if not caches:
        return
    if tools:
        tools.append(_CACHE_POINT)
    for role in ("user", "assistant"):
        at = next((at for at in reversed(range(len(conversation))) if conversation[at]["role"] == role), None)
        if at is not None:
            # Cached for the next request, which ends with another message.
            blocks = cast(list[JsonValue], conversation[at]["content"])
            conversation[at] = {"role": role, "content": [*blocks, _CACHE_POINT]}


TOKEN: Final = "AWS_BEARER_TOKEN_BEDROCK"
BASE_URL: Final = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_EXTRA: Final = "additionalModelRequestFields"


class BedrockProvider(ServedModel):
    """A model of Amazon Bedrock, by its id or the id of an inference profile.

    A Bedrock API key is `api_key` or AWS_BEARER_TOKEN_BEDROCK; without one, requests are signed with the
    credentials that botocore finds: variables, a profile, a role. The region is `region`, AWS_REGION or
    AWS_DEFAULT_REGION, the address `base_url` or AWS_ENDPOINT_URL_BEDROCK_RUNTIME. The prompt is marked for
    caching if the model has it. The client does not retry: the loop does.

    Raises:
        Unavailable: the extra `windlass-runtime[bedrock]` or the region is missing.
    """

    holds_beside_tools = True
    limit_fields = (("inferenceConfig", "maxTokens"),)
    thinking_field = (_EXTRA, "thinking", "budget_tokens")

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        region: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = PROCESS_ENVIRONMENT,
        route_id: str = NAME,
    ) -> None:
        need_extra("bedrock", route_id, "botocore", "httpx2")
        region = region or next(filter(None, map(environment.get, REGIONS)), None)
        if region is None and not (base_url and api_key):
            raise not_set_up(route_id, f"set the variable {REGIONS[0]} to a region, such as us-east-1")
        default = f"https://bedrock-runtime.{region}.amazonaws.com"
        key = api_key or environment.get(TOKEN) or ""
        variable = TOKEN if key else "AWS_ACCESS_KEY_ID"
        url, to = endpoint_of(
            base_url, BASE_URL, default, api_key=api_key, key_variable=variable, environment=environment
        )
        client = partial(BedrockClient, model, region or "")
        line = Line("httpx2", client, ModelAddress(url, key), settings or ModelSettings(), to)
        super().__init__(model, line, route_id=route_id)
        more = (self._settings.body or {}).get(_EXTRA)
        self._thinks = isinstance(more, dict) and "thinking" in more
        self._turns: TurnCache[JsonObject] = TurnCache(partial(take, model if self._thinks else None))

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        check_newest(messages, _limit)
        first, settings = system_count(messages), self._settings
        system: list[JsonObject] = [
            {"text": message.content} for message in messages[:first] if message.content.strip()
        ]
        conversation, definitions = self._turns.of(messages[first:]), [_tool(tool) for tool in tools]
        if not conversation or conversation[0]["role"] == "assistant":
            conversation.insert(0, {"role": "user", "content": [{"text": SILENCE}]})
        if settings.is_cached:
            _mark(self.model_id, system, definitions, conversation)
        body: JsonObject = {"messages": cast(list[JsonValue], conversation)}
        if system:
            body["system"] = cast(list[JsonValue], system)
        if definitions:
            body["toolConfig"] = {"tools": cast(list[JsonValue], definitions)}
        config: JsonObject = {} if temperature is None else {"temperature": min(temperature, 1.0)}
        if settings.max_tokens is not None:
            config["maxTokens"] = settings.max_tokens
        more = settings.body or {}
        config |= cast(JsonObject, more.get("inferenceConfig") or {})
        if config:
            body["inferenceConfig"] = config
        if settings.output is not None and _HAS_SCHEMAS.fullmatch(self.model_id):
            schema: JsonObject = {"name": "output", "schema": to_json(settings.output).decode()}
            body["outputConfig"] = {
                "textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}
            }
        body |= {name: value for name, value in more.items() if name != "inferenceConfig"}
        if self._thinks and not may_think(messages, NAME, self.model_id):
            fields = {**cast(JsonObject, body[_EXTRA])}
            del fields["thinking"]
            body[_EXTRA] = fields
            body["messages"] = [_without_thoughts(turn) for turn in conversation]
        return body

    def _reader(self, tools: Sequence[JsonObject]) -> BedrockReader:
        return BedrockReader(names_back(tools), self.model_id)


def _without_thoughts(turn: JsonObject) -> JsonObject:
    blocks = [block for block in cast(list[JsonObject], turn["content"]) if "reasoningContent" not in block]
    return {**turn, "content": cast(list[JsonValue], blocks)}
