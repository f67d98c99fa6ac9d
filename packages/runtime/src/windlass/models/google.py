"""The Gemini API of Google."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from windlass.models.clients import google_client
from windlass.models.errors import stream_error
from windlass.models.messages import (
    NO_ARGUMENTS,
    SILENCE,
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
)
from windlass.ports.model import BilledRequest, LLMMessage, LLMStreamChunk, LLMUsage
from windlass_protocol import JsonObject, JsonValue, ToolCall

NAME: Final = "google"
"""Key of the provider's own data in a message."""
_FILTERS: Final = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")
_FINISH: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_FILTERS, "content_filter"),
}
_BROKEN: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
"""Finish reasons of an answer that is worth another attempt."""
_NEEDS_SIGNATURES: Final = re.compile(r"gemini-(?:[3-9]|\d\d).*")
_FOREIGN: Final = "skip_thought_signature_validator"
"""The signature of calls that another model made: Gemini 3 refuses calls without one."""


class GoogleReader:
    """Reads one stream; `is_finished` is set by a finishReason."""

    __slots__ = ("_model_id", "_names", "_signatures", "is_finished")

    def __init__(self, names: Mapping[str, str], model_id: str) -> None:
        self._names = names
        self._model_id = model_id
        self._signatures: list[JsonValue] = []
        """The signature of each call, or None."""
        self.is_finished = False

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event.

        Raises:
            Unavailable: the event is not valid.
        """
        feedback = event.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            self.is_finished = True
            yield LLMStreamChunk(finish_reason="content_filter")
        candidates = event.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            fields = object_of(candidate)
            for part in cast(list[JsonValue], object_of(fields.get("content") or {}).get("parts") or []):
                yield from self._part(object_of(part))
            if fields.get("finishReason"):
                yield self._end(str(fields["finishReason"]))
        usage = event.get("usageMetadata")
        if isinstance(usage, dict):
            model = event.get("modelVersion")
            billed = BilledRequest("gemini", usage, model if isinstance(model, str) else None)
            yield LLMStreamChunk(usage=_usage(usage, billed))

    def _part(self, part: JsonObject) -> Iterator[LLMStreamChunk]:
        call, text = part.get("functionCall"), part.get("text")
        if call is not None:
            fields = object_of(call)
            name, arguments = str(fields.get("name") or ""), object_of(fields.get("args") or {})
            # An id may be missing, and the collector then makes one.
            tool_call = ToolCall.model_construct(
                id=str(fields.get("id") or ""), name=self._names.get(name, name), arguments=arguments
            )
            self._signatures.append(part.get("thoughtSignature"))
            yield LLMStreamChunk(tool_call_delta=tool_call)
        elif isinstance(text, str) and text:
            yield (
                LLMStreamChunk(reasoning_delta=text)
                if part.get("thought")
                else LLMStreamChunk(content_delta=text)
            )

    def _end(self, reason: str) -> LLMStreamChunk:
        if reason in _BROKEN:
            raise stream_error(f"the model wrote an invalid call ({reason})")
        self.is_finished = True
        finish = _FINISH.get(reason, "other")
        is_kept = any(self._signatures)
        return LLMStreamChunk(
            finish_reason="tool_calls" if self._signatures and finish == "stop" else finish,
            provider_data=make_provider_data(NAME, self._model_id, self._signatures) if is_kept else None,
        )


def _usage(usage: JsonObject, billed: BilledRequest) -> LLMUsage:
    answer, thought = count_of(usage, "candidatesTokenCount"), count_of(usage, "thoughtsTokenCount")
    prompt, of_tools = count_of(usage, "promptTokenCount"), count_of(usage, "toolUsePromptTokenCount")
    return LLMUsage(
        # The API counts separately what its own tools put into the prompt.
        input_tokens=None if prompt is None and of_tools is None else (prompt or 0) + (of_tools or 0),
        # The API counts thoughts separately; here they are a part of the output.
        output_tokens=None if answer is None and thought is None else (answer or 0) + (thought or 0),
        cache_read_tokens=count_of(usage, "cachedContentTokenCount"),
        reasoning_tokens=thought,
        billed=(billed,),
    )


def take(model: str, turns: list[JsonObject], message: LLMMessage) -> None:
    """Add a message to a conversation in the format of the API."""
    role, parts = "model" if message.role == "assistant" else "user", _parts(message, model)
    if not parts:
        return
    if turns and turns[-1]["role"] == role:
        parts = [*cast(list[JsonObject], turns.pop()["parts"]), *parts]
    turns.append({"role": role, "parts": cast(list[JsonValue], parts)})


def _parts(message: LLMMessage, model: str) -> list[JsonObject]:
    match message.role:
        case "system":
            # The API takes system messages at the start only.
            system_text = message.content.strip()
            return [{"text": f"<system>\n{system_text}\n</system>"}] if system_text else []
        case "user":
            return [_part(part) for part in contents(message)] or [{"text": SILENCE}]
        case "assistant":
            text_parts: list[JsonObject] = [{"text": message.content}] if message.content else []
            return [*text_parts, *_calls(message, model)]
        case "tool":
            result: JsonObject = {"error" if message.is_error else "output": message.content}
            response: JsonObject = {"name": wire_name(message.name or ""), "response": result}
            return [{"functionResponse": {"id": wire_call_id(message.tool_call_id or ""), **response}}]


def _calls(message: LLMMessage, model: str) -> Iterator[JsonObject]:
    signatures = data_of(message, NAME, model)
    if len(signatures) != len(message.tool_calls):
        signatures = [_FOREIGN] if _NEEDS_SIGNATURES.fullmatch(model) else []
    for index, call in enumerate(message.tool_calls):
        head: JsonObject = {"id": wire_call_id(call.id), "name": wire_name(call.name)}
        part: JsonObject = {"functionCall": {**head, "args": call.arguments}}
        if index < len(signatures) and signatures[index]:
            part["thoughtSignature"] = signatures[index]
        yield part


def _part(part: Text | Media) -> JsonObject:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.url is None:
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    # The address of a file needs a type, which images by address may lack.
    media_type = part.media_type or ("image/png" if part.is_image else "application/pdf")
    return {"fileData": {"mimeType": media_type, "fileUri": part.url}}


def _tool(tool: JsonObject) -> JsonObject:
    function: JsonObject = {
        "name": wire_name(str(tool["name"])),
        "parametersJsonSchema": tool.get("inputSchema") or NO_ARGUMENTS,
    }
    if tool.get("description"):
        function["description"] = tool["description"]
    return function


KEYS: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
BASE_URL: Final = "GOOGLE_GEMINI_BASE_URL"
GOOGLE: Final = "https://generativelanguage.googleapis.com"


class GoogleProvider(ServedModel):
    """A model behind the Gemini API.

    The key is `api_key` or the variable GEMINI_API_KEY or GOOGLE_API_KEY, the address `base_url` or
    GOOGLE_GEMINI_BASE_URL. The client does not retry: the loop does.

    Raises:
        Unavailable: the extra `windlass-runtime[google]` or the key is missing.
    """

    limit_fields = (("generationConfig", "maxOutputTokens"),)
    thinking_field = ("generationConfig", "thinkingConfig", "thinkingBudget")

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
        need_extra("google", route_id, "httpx2")
        variable = next((name for name in KEYS if environment.get(name)), KEYS[0])
        url, to = endpoint_of(
            base_url, BASE_URL, GOOGLE, api_key=api_key, key_variable=variable, environment=environment
        )
        key = api_key or environment.get(variable)
        key = need_key(key, variable, route_id=route_id, maker=type(self).__name__)
        client = partial(google_client, model)
        line = Line("httpx2", client, ModelAddress(url, key), settings or ModelSettings(), to)
        super().__init__(model, line, route_id=route_id)
        self._turns: TurnCache[JsonObject] = TurnCache(partial(take, model))

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        check_newest(messages)
        first, settings = system_count(messages), self._settings
        body: JsonObject = {"contents": cast(list[JsonValue], self._turns.of(messages[first:]))}
        system_text = "\n\n".join(message.content for message in messages[:first] if message.content)
        if system_text:
            body["systemInstruction"] = {"parts": [{"text": system_text}]}
        if tools:
            body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in tools]}]
        config: JsonObject = {}
        if temperature is not None:
            config["temperature"] = temperature
        if settings.max_tokens is not None:
            config["maxOutputTokens"] = settings.max_tokens
        if settings.output is not None:
            config |= {"responseMimeType": "application/json", "responseJsonSchema": settings.output}
        more = settings.body or {}
        config |= cast(JsonObject, more.get("generationConfig") or {})
        body |= more
        return {**body, "generationConfig": config} if config else body

    def _reader(self, tools: Sequence[JsonObject]) -> GoogleReader:
        return GoogleReader(names_back(tools), self.model_id)
