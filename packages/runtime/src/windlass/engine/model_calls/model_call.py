"""Model calls: builds the prompt, streams the answer, and collects its chunks."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from inspect import isasyncgen, isawaitable
from itertools import compress, count
from math import ceil, isfinite
from operator import is_not
from typing import Final, cast

from msgspec.structs import fields
from pydantic import JsonValue
from pydantic_core import to_json

from windlass.agent.attachments import data_url
from windlass.engine.deadline import Deadlines, run_with_deadline
from windlass.engine.writing.masking import MaskedAnswer, mask_cut_text
from windlass.errors import AgentError, Rejected, Unavailable, kind_of
from windlass.limits import (
    ARGUMENT_BYTES_MAX,
    ARGUMENT_VALUES_MAX,
    LIGHT_CHARS_MAX,
    MODEL_IDLE_TIMEOUT_MS,
    MODEL_PART_BYTES_MAX,
    MODEL_TEXT_CHARS_MAX,
    NAME_CHARS_MAX,
)
from windlass.ports.clock import Clock
from windlass.ports.model import (
    LLMMessage,
    LLMProvider,
    LLMStreamChunk,
    LLMUsage,
    ModelFault,
    ModelUnavailable,
    ToolCallDelta,
)
from windlass.prices import COUNT_MAX, Bill, Tariff
from windlass.tools.calling import ARGUMENT_LIMITS, omitted_arguments, read_by_size
from windlass_harness.loop.events import ModelAnswered
from windlass_harness.loop.notes import NO_USAGE, NO_USAGE_PRICE
from windlass_harness.loop.rules import CALLS_PER_STEP_MAX, RequestedCall
from windlass_harness.prompt_cache import PartOfPrompt
from windlass_harness.redact import Redactor
from windlass_harness.views.history import HistoryDraft
from windlass_harness.views.payloads import as_text
from windlass_protocol import (
    AssistantMessage,
    CodecError,
    ContentRef,
    ErrorKind,
    FinishReason,
    JsonObject,
    ModelMessage,
    OutputContract,
    PromptPart,
    ReasoningPart,
    RetryClass,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    UserMessage,
    canonical,
    parse,
)
from windlass_protocol.bodies import Body
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import frozen, mutable
from windlass_protocol.generated import records
from windlass_protocol.unchecked import maker

_USAGE_FIELDS: Final = fields(records.Usage)


def usage_part(usage: LLMUsage) -> records.Usage | None:
    """Return the usage of an answer in whole numbers, rounded up.

    Raises:
        Rejected: a value is not a number; the message names it.
    """
    counts = [(part, getattr(usage, part.name)) for part in _USAGE_FIELDS]
    counted = records.Usage(
        **{part.name: _count(part.encode_name, count) for part, count in counts if count is not None}
    )
    return None if counted == NO_USAGE else counted


def _count(name: str, count: object) -> int:
    if not isinstance(count, int | float) or isinstance(count, bool) or not isfinite(count):
        shown = repr(count) if isinstance(count, float | bool) else type(count).__name__
        raise Rejected(
            f"the usage of the model's answer is wrong: {name} is {shown}, expected a whole number",
            kind=ErrorKind.PROVIDER_FAILURE,
            retry=RetryClass.NOT_RETRYABLE,
        )
    return min(max(ceil(count), 0), COUNT_MAX)


CHUNKS_IN_A_ROW_MAX: Final = 256
"""Chunks per turn of the event loop."""
CLOSE_S: Final = 1.0
"""Time limit for closing a stream."""
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_.+-]{1,128}")
"""Request ids contain call ids with colons as separators, so call ids must not have colons."""


@mutable
class _Piece:
    """A call while its chunks arrive."""

    call_id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])
    arguments: JsonObject | None = None
    size: int = 0
    """Of arguments that arrived whole: bytes of their canonical JSON, or characters if they have none."""
    canonical: bytes | None = None
    """The canonical JSON of arguments that arrived whole; None if they have none."""

    def measure(self) -> int:
        """Set the canonical JSON of arguments that arrived whole, and return their size.

        At the end of the answer: a provider may have changed them since it sent them.
        """
        try:
            self.canonical = canonical(self.arguments, ARGUMENT_LIMITS)
            self.size = len(self.canonical)
        except CodecError:
            # A record cannot hold it; the argument check reports what is wrong with the text.
            self.text = [json.dumps(self.arguments)]
            self.size = len(self.text[0])
        return self.size


class Collector:
    """Collects the chunks of an answer."""

    def __init__(
        self,
        live: MaskedAnswer,
        redactor: Redactor,
        *,
        tariff: Tariff,
        calls_max: int = CALLS_PER_STEP_MAX,
    ) -> None:
        self._live = live
        self._redactor = redactor
        self._calls_max = calls_max
        self._tariff = tariff
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Piece] = {}
        self._size = 0
        self._finish: FinishReason | None = None
        self._count = 0
        self.usage: records.Usage | None = None
        """What the provider reported."""
        self._used: LLMUsage | None = None
        self.asked_at: datetime | None = None
        """When the request was sent, which may decide its price; None before that."""
        self.is_refused = False
        """Whether the provider refused the request, if no chunk came."""
        self._provider_data: JsonObject | None = None
        self.canonical: dict[str, bytes] = {}
        """Canonical JSON of arguments that arrived whole, by call id."""

    def take(self, chunk: LLMStreamChunk) -> None:
        """Add the next chunk.

        Raises:
            Rejected: the answer is too large, or the value is not a chunk.
        """
        if not isinstance(cast(object, chunk), LLMStreamChunk):
            raise _provider_error(f"chunk {self._count} is {kind_of(chunk)}, expected LLMStreamChunk")
        self._count += 1
        # Every chunk counts, so that a stream of empty chunks ends too.
        self._grow(1)
        if chunk.content_delta:
            self._grow(len(chunk.content_delta))
            self._text.append(chunk.content_delta)
            self._live.text(chunk.content_delta)
        if chunk.reasoning_delta:
            self._grow(len(chunk.reasoning_delta))
            self._reasoning.append(chunk.reasoning_delta)
            self._live.reasoning(chunk.reasoning_delta)
        if chunk.tool_call_delta is not None:
            self._take_call(chunk.tool_call_delta)
        if chunk.usage is not None:
            self.usage, self._used = usage_part(chunk.usage), chunk.usage
        if chunk.provider_data is not None:
            self._grow(len(to_json(chunk.provider_data)))
            self._provider_data = chunk.provider_data
        if chunk.finish_reason is not None:
            self._finish = finish_reason(chunk.finish_reason)

    def _take_call(self, delta: ToolCall | ToolCallDelta) -> None:
        if isinstance(delta, ToolCall):
            self._grow(len(delta.id) + len(delta.name))
            piece = _Piece(delta.id, delta.name, arguments=delta.arguments)
            self._calls[max(self._calls) + 1 if self._calls else 0] = piece
        else:
            self._grow(len(delta.id or "") + len(delta.name or "") + len(delta.arguments_delta))
            piece = self._calls.setdefault(delta.index, _Piece())
            piece.call_id = delta.id or piece.call_id
            piece.name = delta.name or piece.name
            piece.text.append(delta.arguments_delta)
        if len(self._calls) > self._calls_max:
            raise _provider_error(f"too many calls in one answer: over the limit of {self._calls_max}")

    def _grow(self, chars: int) -> None:
        self._size += chars
        if self._size > MODEL_TEXT_CHARS_MAX:
            raise _provider_error(f"answer too large: over the limit of {MODEL_TEXT_CHARS_MAX:,} characters")

    def bill(self) -> Bill:
        """Return what the call has cost so far; without usage its cost is unknown, unless it was refused."""
        if self.usage is None or self._used is None or self.asked_at is None:
            is_free = not self._count and (self.asked_at is None or self.is_refused)
            return Bill(price=None if is_free else NO_USAGE_PRICE)
        return self._tariff.bill(self.usage, self._used, self.asked_at)

    def answer(self, *, latency_ms: int, notes: tuple[Body, ...] = ()) -> ModelAnswered:
        """Return the whole answer.

        Raises:
            Unavailable: the stream ended before the answer did, or the answer is empty.
            Rejected: a part of it is larger than a record.
        """
        self._live.end()
        if self._finish is None:
            raise Unavailable(
                "the model's answer was cut off before its end",
                kind=ErrorKind.PROVIDER_FAILURE,
                retry=RetryClass.RETRYABLE,
            )
        text = whole("".join(self._text)) if self._text else ""
        reasoning = whole("".join(self._reasoning)) if self._reasoning else ""
        for piece in self._calls.values():
            if piece.arguments is not None:
                self._grow(piece.measure())
        calls = tuple(_requested_calls(self._calls, self._redactor, self.canonical)) if self._calls else ()
        if not calls:
            _check_text(text, self._finish)
        if text:
            _check_size("text", text)
        if reasoning or self._provider_data:
            _check_size("reasoning", [reasoning, self._provider_data] if self._provider_data else reasoning)
        if calls and self._size >= MODEL_PART_BYTES_MAX // 6:
            _check_size("calls", [call.input for call in calls])
        bill = self.bill()
        return ModelAnswered(
            text=text,
            finish_reason=self._finish,
            calls=calls,
            reasoning=reasoning,
            is_reasoning_late=self._live.is_reasoning_late,
            usage=bill.usage,
            price=bill.price or NO_USAGE_PRICE,
            latency_ms=latency_ms,
            provider_data=self._provider_data,
            notes=notes,
        )


_WHOLE: Final = (FinishReason.STOP, FinishReason.OTHER)
"""Finish reasons of an answer that the model ended itself."""


def _check_text(text: str, reason: FinishReason) -> None:
    """Refuse an answer without calls that is no answer; reasoning alone is none."""
    if reason is FinishReason.TOOL_CALLS:
        raise ModelUnavailable("the model announced calls and made none", fault=ModelFault.EMPTY)
    if reason in _WHOLE and not text.strip():
        raise ModelUnavailable("the model's answer has neither text nor calls", fault=ModelFault.EMPTY)


def _check_size(what: str, value: JsonValue) -> None:
    """Reject a value that no record can hold."""
    if not value or (isinstance(value, str) and len(value) < MODEL_PART_BYTES_MAX // 6):
        # A character has at most six bytes as JSON.
        return
    size = len(to_json(value))
    if size > MODEL_PART_BYTES_MAX:
        limit = f"{MODEL_PART_BYTES_MAX:,} bytes"
        raise _provider_error(
            f"answer too large: its {what} has {size:,} bytes as JSON, over the limit of {limit}"
        )


def _requested_calls(
    pieces: dict[int, _Piece], redactor: Redactor, canonical_inputs: dict[str, bytes]
) -> list[RequestedCall]:
    """Return the calls with unique ids: models omit and repeat them.

    An id with unusual characters, or one that would be masked, is replaced too: an approval must refer to
    exactly one call.
    """
    calls: list[RequestedCall] = []
    taken: set[str] = set()
    for index, piece in sorted(pieces.items()):
        is_plain = _CALL_ID.fullmatch(piece.call_id) and redactor.text(piece.call_id) == piece.call_id
        call_id = piece.call_id if is_plain else f"call_{index}"
        while call_id in taken:
            call_id = f"{call_id}+"
        taken.add(call_id)
        arguments = _input(piece)
        if piece.canonical is not None:
            canonical_inputs[call_id] = piece.canonical
        calls.append(RequestedCall(call_id, _name(piece.name, redactor), arguments))
    return calls


def _name(name: str, redactor: Redactor) -> str:
    """Return a tool name that a record can hold, without secrets; a changed name matches no tool."""
    if len(name) > LIGHT_CHARS_MAX:
        name = mask_cut_text(redactor, name[:LIGHT_CHARS_MAX])
    else:
        name = redactor.text(name)
    if name.isprintable() and 0 < len(name) <= NAME_CHARS_MAX:
        return name
    shown = "".join(
        character if character.isprintable() else "�" for character in whole(name[:NAME_CHARS_MAX])
    )
    return f"{shown}…" if len(name) > NAME_CHARS_MAX else shown or "unnamed"


def _input(piece: _Piece) -> JsonValue:
    text = whole("".join(piece.text)) if piece.text else ""
    size = len(text) if piece.arguments is None else piece.size
    if size > ARGUMENT_BYTES_MAX:
        return omitted_arguments(size, "characters")
    raw = piece.canonical or text.encode()
    if (
        len(raw) > ARGUMENT_VALUES_MAX
        and (count := count_values(raw, ARGUMENT_VALUES_MAX)) > ARGUMENT_VALUES_MAX
    ):
        piece.canonical = None
        return omitted_arguments(count, "values")
    if piece.canonical is not None:
        return piece.arguments
    if piece.arguments is not None:
        return text
    if not text.strip():
        return {}
    try:
        return parse(raw, ARGUMENT_LIMITS)
    except CodecError:
        # A record cannot hold it as JSON; the argument check reports what is wrong with the text.
        return text


def whole(text: str) -> str:
    """Return a text with surrogate pairs joined and lone surrogates replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_FINISH: Final = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool-calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content-filter": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "error": FinishReason.ERROR,
}


def finish_reason(reason: FinishReason | str) -> FinishReason:
    """Return the finish reason; reasons of other providers are mapped to ours."""
    return _FINISH.get(str(reason).lower(), FinishReason.OTHER)


async def _close(stream: object) -> None:
    """Close a stream; abandon it after the time limit."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await run_with_deadline(close(), CLOSE_S)


def elapsed_ms(clock: Clock, since: float) -> int:
    """Return the whole milliseconds since a moment of the monotonic clock."""
    return max(0, int((clock.monotonic() - since) * 1000))


def _provider_error(message: str) -> AgentError:
    return Rejected(message, kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)


_IDLE_SLACK: Final = 0.05
"""Share of the idle limit by which it may fire early."""


@frozen
class ModelRequest:
    """The arguments of a model call."""

    provider: LLMProvider
    messages: Sequence[LLMMessage]
    tools: Sequence[JsonObject] = ()
    temperature: float | None = None


async def listen(
    request: ModelRequest,
    collector: Collector,
    *,
    most_s: float,
    deadlines: Deadlines,
    on_left: Callable[[], None] | None = None,
    after_chunk: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Call the model and feed its chunks to the collector; the stream is always closed.

    `on_left` is called if the provider ignores cancellation and is abandoned. If it ends nevertheless, False
    is returned: another task has ended the call, and the model may have been called again.

    Raises:
        TimeoutError: the idle limit or the total limit passed.
    """
    idle_s = min(most_s, MODEL_IDLE_TIMEOUT_MS / 1000)
    with deadlines.limit(idle_s, on_left) as limit:
        time, touched = limit.loop.time, limit.at - idle_s
        latest, slack_s, count = touched + most_s, idle_s * _IDLE_SLACK, 0
        chunks = request.provider.stream(
            request.messages, tools=request.tools or None, temperature=request.temperature
        )
        stream = chunks if isasyncgen(chunks) or not isawaitable(chunks) else await chunks
        try:
            async for chunk in stream:
                if limit.is_left:
                    await _close(stream)
                    return False
                now = time()
                if now - touched > slack_s:
                    # Each chunk moves the idle deadline, though not on every millisecond.
                    touched, limit.at = now, min(latest, now + idle_s)
                for piece in _pieces(chunk):
                    collector.take(piece)
                    if piece is not chunk:
                        await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
                if after_chunk is not None:
                    await after_chunk()
                count += 1
                if not count % CHUNKS_IN_A_ROW_MAX:
                    # A stream that never suspends would block the event loop.
                    await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
        except BaseException:
            await _close(stream)
            raise
        if not isasyncgen(stream):
            await _close(stream)
    return not limit.is_left


def _pieces(chunk: LLMStreamChunk) -> Iterator[LLMStreamChunk]:
    """Yield a chunk; if its texts are large, first their pieces: each is searched for secrets on its own."""
    if not isinstance(cast(object, chunk), LLMStreamChunk):
        # The collector refuses it.
        yield chunk
        return
    content, reasoning = chunk.content_delta or "", chunk.reasoning_delta or ""
    if len(content) + len(reasoning) > LIGHT_CHARS_MAX:
        for at in range(0, len(content), LIGHT_CHARS_MAX):
            yield LLMStreamChunk(content_delta=content[at : at + LIGHT_CHARS_MAX])
        for at in range(0, len(reasoning), LIGHT_CHARS_MAX):
            yield LLMStreamChunk(reasoning_delta=reasoning[at : at + LIGHT_CHARS_MAX])
        chunk = replace(chunk, content_delta=None, reasoning_delta=None)
    yield chunk


_tool_call: Final = maker(ToolCall, *ToolCall.model_fields)
_ERRORS = {ToolOutputType.ERROR_TEXT, ToolOutputType.ERROR_JSON, ToolOutputType.EXECUTION_DENIED}


MESSAGES_IN_A_ROW: Final = 256
"""Messages that are converted in one turn of the event loop."""
ReadContent = Callable[[ContentRef], Awaitable[bytes]]
"""Reads a content of the store."""


class Prompt:
    """The messages of a session in provider form, each converted once."""

    def __init__(self) -> None:
        self._messages: list[LLMMessage] = []
        self._converted = 0
        self._revision = -1
        self.added_chars = 0
        """Characters of stored images and files, which the history does not have."""

    async def messages(self, history: HistoryDraft, system: str, read: ReadContent) -> list[LLMMessage]:
        """Return all messages, with the system prompt first.

        Raises:
            Unavailable: an image or a file cannot be read now.
        """
        if history.revision != self._revision:
            self._messages, self._converted, self._revision = [], 0, history.revision
            self.added_chars = 0
        new = history.messages[self._converted :]
        for at in range(0, len(new), MESSAGES_IN_A_ROW):
            if at:
                await asyncio.sleep(0)  # noqa: TID251 - a turn, not a time
            row = new[at : at + MESSAGES_IN_A_ROW]
            converted = [part for message in row for part in to_llm(message)]
            self.added_chars += await add_bytes(converted, read)
            self._messages += converted
            self._converted += len(row)
        return [LLMMessage("system", system), *self._messages] if system else [*self._messages]


class PromptParts:
    """The parts of the prompts of a session with their digests, each computed once."""

    def __init__(self) -> None:
        self._tools: Sequence[JsonObject] = ()
        self._tool_parts: list[PartOfPrompt] = []
        self._messages: list[LLMMessage] = []
        self._message_parts: list[PartOfPrompt] = []

    def of(self, messages: Sequence[LLMMessage], tools: Sequence[JsonObject]) -> list[PartOfPrompt]:
        """Return the parts of a prompt in the order in which a provider caches them."""
        if tools != self._tools:
            self._tools = tools
            self._tool_parts = [_tool_part(tool) for tool in tools]
        first = 1 if messages and messages[0].role == "system" else 0
        system = [_part(PromptPart.SYSTEM, message.content) for message in messages[:first]]
        rest = messages[first:]
        changes = compress(count(), map(is_not, self._messages, rest))
        same = next(changes, min(len(self._messages), len(rest)))
        del self._message_parts[same:]
        self._message_parts += [_message_part(message) for message in rest[same:]]
        self._messages = [*rest]
        return [*self._tool_parts, *system, *self._message_parts]


def _tool_part(tool: JsonObject) -> PartOfPrompt:
    return _part(PromptPart.TOOL, tool, str(tool.get("name")))


def _message_part(message: LLMMessage) -> PartOfPrompt:
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    content = [message.content, calls, message.tool_call_id, message.reasoning, message.parts]
    return _part(PromptPart.MESSAGE, [message.role, *content], message.role)


def _part(kind: PromptPart, content: object, name: str | None = None) -> PartOfPrompt:
    digest = sha256(to_json(content)).hexdigest()[:_DIGEST_CHARS]
    return PartOfPrompt(kind, f"{kind.value}:{digest}", name)


_DIGEST_CHARS: Final = 12


async def add_bytes(messages: list[LLMMessage], read: ReadContent) -> int:
    """Put the bytes of stored images and files into messages, as providers expect them.

    Returns the characters that this adds. The address of one that is not stored any more stays a content id,
    which a provider leaves out.
    """
    added_chars = 0
    for at, message in enumerate(messages):
        if any("content" in part for part in message.parts):
            parts = tuple([await _with_bytes(part, read) for part in message.parts])
            messages[at] = replace(message, parts=parts)
            added_chars += _chars_of(parts) - _chars_of(message.parts)
    return added_chars


def _chars_of(parts: Sequence[JsonObject]) -> int:
    return sum(len(value) for part in parts for value in part.values() if isinstance(value, str))


async def _with_bytes(part: JsonObject, read: ReadContent) -> JsonObject:
    ref = None if "content" not in part else ContentRef.model_validate(part["content"])
    rest = {name: value for name, value in part.items() if name != "content"}
    if ref is None:
        return rest
    try:
        raw = await read(ref)
    except Rejected:
        return rest
    name = "image" if part["type"] == "image" else "data"
    return rest | {name: await read_by_size(len(raw), partial(data_url, ref.media_type or "", raw))}


def system_words(instructions: str, contract: OutputContract | None) -> str:
    """Return the system prompt, with the output schema if there is a contract."""
    if contract is None:
        return instructions
    schema = to_json(contract.json_schema).decode()
    contract_text = (
        "When you are done, answer with one JSON value that fits this JSON Schema, and with nothing else: "
        f"no prose, no code fence.\n{schema}"
    )
    return f"{instructions}\n\n{contract_text}" if instructions else contract_text


def to_llm(message: ModelMessage) -> list[LLMMessage]:
    """Return a message of the history in provider form; a tool message may become several."""
    # The most frequent kinds first: a resumed run converts its whole history.
    match message:
        case ToolMessage():
            return [_tool(part) for part in message.content if isinstance(part, ToolResultPart)]
        case AssistantMessage():
            return [_assistant(message)]
        case UserMessage():
            return [_user(message)]
        case SystemMessage():
            return [LLMMessage("system", message.content)]


def _user(message: UserMessage) -> LLMMessage:
    if isinstance(message.content, str):
        return LLMMessage("user", message.content)
    text = "".join(part.text for part in message.content if isinstance(part, TextPart))
    parts = tuple(part.model_dump(mode="json", by_alias=True) for part in message.content)
    return LLMMessage("user", text, parts=parts)


def _assistant(message: AssistantMessage) -> LLMMessage:
    if isinstance(message.content, str):
        return LLMMessage("assistant", message.content)
    text, reasoning = "", ""
    options: JsonObject | None = None
    calls: list[ToolCall] = []
    for part in message.content:
        match part:
            case ToolCallPart():
                calls.append(_call(part))
            case TextPart():
                text += part.text
            case ReasoningPart():
                reasoning += part.text
                options = part.provider_options or options
            case _:
                pass
    return LLMMessage(
        "assistant",
        text,
        tuple(calls),
        reasoning=reasoning or None,
        provider_options=options,
    )


def _call(part: ToolCallPart) -> ToolCall:
    # Providers require an object; text that is not JSON is wrapped, so that the model sees its mistake.
    arguments: JsonObject = part.input if isinstance(part.input, dict) else {"": part.input}
    return _tool_call(id=part.tool_call_id, name=part.tool_name, arguments=arguments)


def _tool(part: ToolResultPart) -> LLMMessage:
    output = part.output
    is_error = output.type in _ERRORS
    return LLMMessage("tool", _words(output), (), part.tool_call_id, part.tool_name, is_error=is_error)


def _words(output: ToolOutput) -> str:
    if output.type is ToolOutputType.EXECUTION_DENIED:
        return output.reason or "The call was denied."
    return as_text(output.value)
