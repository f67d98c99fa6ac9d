"""OpenAI, and every server with a compatible Chat Completions API."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from pydantic_core import to_json

from windlass.models.batches import BATCH_TIER, BatchedModel, OpenAIBatches
from windlass.models.clients import azure_client, openai_client
from windlass.models.errors import stream_error
from windlass.models.messages import (
    NO_ARGUMENTS,
    Media,
    Text,
    TurnCache,
    check_newest,
    contents,
    count_of,
    names_back,
    object_of,
    own_cost_micros,
    system_count,
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
    need_key,
    not_set_up,
)
from windlass.ports.model import (
    BilledRequest,
    LLMMessage,
    LLMStreamChunk,
    LLMUsage,
    ToolCallDelta,
)
from windlass_protocol import JsonObject, JsonValue, ToolCall
from windlass_protocol.frozen import sealed

_REASONING: Final = ("reasoning_content", "reasoning")
"""Fields with the reasoning of a model; OpenAI's own server sends none."""


class OpenAIReader:
    """Reads one stream; `is_finished` is set by a finish_reason."""

    __slots__ = ("_calls", "_ids", "_is_refusal", "_model", "_names", "_tier", "is_finished")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._ids: list[str] = []
        """The id of each tool call, by its index in the answer."""
        self._calls: dict[int, int] = {}
        """Index in the answer of the call with the server's index."""
        self._is_refusal = False
        self._model: str | None = None
        self._tier: str | None = None
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event.

        Raises:
            Unavailable: the event is not valid.
        """
        if isinstance(event.get("model"), str):
            self._model = str(event["model"])
        if isinstance(event.get("service_tier"), str):
            self._tier = str(event["service_tier"])
        usage = _find_usage(event)
        if usage is not None:
            billed = BilledRequest("chat", usage, self._model, self._tier)
            yield LLMStreamChunk(usage=_usage(usage, billed))
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise stream_error("an event has no choices")
        for choice in choices:
            if not isinstance(choice, dict):
                raise stream_error("a choice is not an object")
            # Some servers send null for an empty object.
            yield from self._delta(choice.get("delta") or {})
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self.is_finished = True
                yield LLMStreamChunk(finish_reason="refusal" if self._is_refusal else reason)

    def _delta(self, delta: JsonValue) -> Iterator[LLMStreamChunk]:
        if not isinstance(delta, dict):
            raise stream_error("a delta is not an object")
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
                raise stream_error("tool_calls is not a list")
            for call in calls:
                yield LLMStreamChunk(tool_call_delta=self._call(call))

    def _text(self, value: JsonValue) -> str:
        if not isinstance(value, str):
            raise stream_error("a text delta is not a string")
        if self.is_finished:
            raise stream_error("a delta after finish_reason")
        return value

    def _call(self, call: JsonValue) -> ToolCallDelta:
        if not isinstance(call, dict) or self.is_finished:
            raise stream_error("a tool call is not an object, or comes after finish_reason")
        function = call.get("function") or {}
        if not isinstance(function, dict):
            raise stream_error("the function of a tool call is not an object")
        call_id, name = call.get("id"), function.get("name")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            raise stream_error("the arguments of a tool call are not a string")
        index = self._index(call.get("index"), call_id if isinstance(call_id, str) else "")
        return ToolCallDelta(
            index,
            id=self._ids[index] or None,
            name=self._names.get(name, name) if isinstance(name, str) and name else None,
            arguments_delta=arguments if isinstance(arguments, str) else "",
        )

    def _index(self, theirs: JsonValue, call_id: str) -> int:
        """Return the index of a tool call in the answer.

        The server's index is not enough: some servers omit it, or use the same one for every call.
        """
        position = theirs if isinstance(theirs, int) else max(self._calls, default=0)
        ours = self._calls.get(position)
        if ours is None or (call_id and self._ids[ours] and call_id != self._ids[ours]):
            self._ids.append(call_id)
            ours = self._calls[position] = len(self._ids) - 1
        elif call_id:
            self._ids[ours] = call_id
        return ours


def _find_usage(event: JsonObject) -> JsonObject | None:
    """Return the usage of an event; Groq has it also in an object of its own, Moonshot in the choice."""
    choices = event.get("choices")
    for holder in (event, event.get("x_groq"), *(choices[:1] if isinstance(choices, list) else ())):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return usage
    return None


def _usage(usage: JsonObject, billed: BilledRequest) -> LLMUsage:
    read = count_of(usage.get("prompt_tokens_details"), "cached_tokens")
    return LLMUsage(
        input_tokens=count_of(usage, "prompt_tokens"),
        output_tokens=count_of(usage, "completion_tokens"),
        cache_read_tokens=read if read is not None else count_of(usage, "prompt_cache_hit_tokens"),
        cache_write_tokens=count_of(usage.get("prompt_tokens_details"), "cache_write_tokens"),
        reasoning_tokens=count_of(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cost_micros=own_cost_micros(usage),
        billed=(billed,),
    )


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


def openai_turns(reasoning_field: str | None) -> TurnCache[JsonObject]:
    """Return a cache of conversations in the format of Chat Completions."""
    return TurnCache(partial(_take, reasoning_field))


def openai_messages(messages: Sequence[LLMMessage], turns: TurnCache[JsonObject]) -> list[JsonObject]:
    """Return the messages without empty ones, with the system messages joined.

    Raises:
        Rejected: a part of the newest message cannot be sent.
    """
    check_newest(messages, _limit)
    first = system_count(messages)
    system_text = "\n\n".join(message.content for message in messages[:first] if message.content)
    conversation = turns.of(messages[first:])
    return [{"role": "system", "content": system_text}, *conversation] if system_text else conversation


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
            reply: JsonObject = {"role": "assistant", "content": message.content or None}
            if message.tool_calls:
                reply["tool_calls"] = [_call(call) for call in message.tool_calls]
            if reasoning_field is not None and message.reasoning:
                reply[reasoning_field] = message.reasoning
            return reply
        case "tool":
            # The API has no field for a failure, so it is marked in the text.
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
        "parameters": tool.get("inputSchema") or NO_ARGUMENTS,
    }
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def is_strict(schema: JsonValue) -> bool:
    """Whether a schema meets the rules of strict structured output for objects."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, dict):
        names = set(properties) if isinstance(properties, dict) else set[str]()
        required = schema.get("required")
        required_names = {str(name) for name in required} if isinstance(required, list) else set[str]()
        if schema.get("additionalProperties") is not False or required_names != names:
            return False
    return all(is_strict(value) for value in schema.values())


KEY: Final = "OPENAI_API_KEY"
BASE_URL: Final = "OPENAI_BASE_URL"
OPENAI: Final = "https://api.openai.com/v1"
_NO_KEY: Final = "none"
"""Sent to a server that needs no key: the SDK requires one."""


class _ChatModel(ServedModel):
    """A model behind Chat Completions."""

    limit_fields = (("max_tokens",), ("max_completion_tokens",))

    def __init__(self, model: str, line: Line, *, route_id: str, is_openai: bool) -> None:
        super().__init__(model, line, route_id=route_id)
        # Other servers apply the schema to all output of the model, which excludes tool calls.
        self.holds_beside_tools = is_openai
        self._max_tokens_name = "max_completion_tokens" if is_openai else "max_tokens"
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


class OpenAICompatProvider(_ChatModel, BatchedModel):
    """A model behind Chat Completions: OpenAI, vLLM, llama.cpp, Ollama and others.

    The key is `api_key` or the variable `key_variable`, the address `base_url` or OPENAI_BASE_URL; a server
    at another address than OpenAI's needs no key. `url_variable` names the variable that `base_url` was read
    from, for error messages. The client does not retry: the loop does.

    Raises:
        Unavailable: the extra `windlass-runtime[openai]` or the key is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = PROCESS_ENVIRONMENT,
        route_id: str = "openai",
        key_variable: str = KEY,
        url_variable: str | None = None,
    ) -> None:
        line = openai_line(
            "/chat/completions",
            ModelAddress(base_url or "", api_key or ""),
            settings,
            environment=environment,
            names=Names(type(self).__name__, route_id, key_variable, url_variable),
        )
        super().__init__(model, line, route_id=route_id, is_openai=line.address.base_url == OPENAI)

    def batch_api(self) -> OpenAIBatches:
        """Return the batches of the model."""
        return OpenAIBatches(self._line, "/v1/chat/completions", self.model_id)

    def _events_of(self, answer: JsonObject) -> Iterator[JsonObject]:
        choices = answer.get("choices")
        choices = [object_of(choice) for choice in choices] if isinstance(choices, list) else []
        # A message has the form of the one delta that would be all of it.
        whole: list[JsonValue] = [{**choice, "delta": choice.get("message")} for choice in choices]
        yield {**answer, "choices": whole, "service_tier": BATCH_TIER}


@sealed
class Names:
    """Names of a provider for error messages: its class, its route and its variables."""

    maker: str
    route_id: str
    key_variable: str
    url_variable: str | None = None
    """The variable that the given address was read from."""


def openai_line(
    path: str,
    address: ModelAddress,
    settings: ModelSettings | None,
    *,
    environment: Environment,
    names: Names,
) -> Line:
    """Return the connection to OpenAI, or to a server with its API; what is not given is in the environment.

    Raises:
        Unavailable: the extra or the key is missing.
    """
    need_extra("openai", names.route_id)
    url, to = endpoint_of(
        address.base_url,
        names.url_variable or BASE_URL,
        OPENAI,
        api_key=address.api_key,
        key_variable=names.key_variable,
        environment=environment,
        is_read=names.url_variable is not None,
    )
    key = address.api_key or environment.get(names.key_variable) or (None if url == OPENAI else _NO_KEY)
    key = need_key(key, names.key_variable, route_id=names.route_id, maker=names.maker)
    return Line(
        "openai", partial(openai_client, path), ModelAddress(url, key), settings or ModelSettings(), to
    )


AZURE_KEY: Final = "AZURE_OPENAI_API_KEY"
AZURE_ENDPOINT: Final = "AZURE_OPENAI_ENDPOINT"
AZURE_VERSION: Final = "OPENAI_API_VERSION"
_AZURE_VERSION: Final = "2024-10-21"


class AzureOpenAIProvider(_ChatModel):
    """A deployment of Azure OpenAI; `model` is the name of the deployment.

    The key is `api_key` or AZURE_OPENAI_API_KEY, the address of the resource `base_url` or
    AZURE_OPENAI_ENDPOINT, the version of the API `api_version` or OPENAI_API_VERSION.

    Raises:
        Unavailable: the extra `windlass-runtime[openai]`, the key or the address is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        api_version: str | None = None,
        settings: ModelSettings | None = None,
        environment: Environment = PROCESS_ENVIRONMENT,
        route_id: str = "azure",
    ) -> None:
        need_extra("openai", route_id)
        url, to = endpoint_of(
            base_url, AZURE_ENDPOINT, "", api_key=api_key, key_variable=AZURE_KEY, environment=environment
        )
        if not url:
            example = "https://NAME.openai.azure.com"
            raise not_set_up(route_id, f"set the variable {AZURE_ENDPOINT} to the resource: {example}")
        key = api_key or environment.get(AZURE_KEY)
        key = need_key(key, AZURE_KEY, route_id=route_id, maker=type(self).__name__)
        version = api_version or environment.get(AZURE_VERSION) or _AZURE_VERSION
        client = partial(azure_client, version)
        line = Line("openai", client, ModelAddress(url, key), settings or ModelSettings(), to)
        super().__init__(model, line, route_id=route_id, is_openai=True)
