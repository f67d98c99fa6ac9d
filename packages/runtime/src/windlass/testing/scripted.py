"""A model that says what the test wrote down."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from windlass.errors import Rejected
from windlass.ports.clock import Clock
from windlass.ports.model import LLMMessage, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_protocol import ErrorKind, FinishReason, JsonObject, RetryClass, ToolCall, encode


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of an answer; arguments in a text are sent as they are."""

    name: str
    arguments: JsonObject | str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a model, or a part of one: `say(…) + call(…)` is both."""

    text: str = ""
    _: KW_ONLY
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    usage: LLMUsage | None = None
    finish_reason: FinishReason | str | None = None
    """When left out: tool-calls if there are calls, else stop."""
    error: BaseException | None = None
    """Raised in place of the chunk of this number, or at the end."""
    error_at_chunk: int | None = None
    delay_s: float = 0.0
    """Before each chunk, by the clock of the model."""
    gate: asyncio.Event | None = None
    """Nothing is said before it is set."""
    is_cut_off: bool = False
    """The stream ends without a finish reason."""
    provider_data: JsonObject | None = None
    """What the model wants back with this answer."""

    def __add__(self, other: "Answer") -> "Answer":
        """Join two parts; what only one can have is the right one's, if it has it."""
        return replace(
            self,
            text=self.text + other.text,
            reasoning=self.reasoning + other.reasoning,
            calls=self.calls + other.calls,
            usage=other.usage or self.usage,
            finish_reason=other.finish_reason or self.finish_reason,
            error=other.error or self.error,
            error_at_chunk=self.error_at_chunk if other.error_at_chunk is None else other.error_at_chunk,
            delay_s=other.delay_s or self.delay_s,
            gate=other.gate or self.gate,
            is_cut_off=self.is_cut_off or other.is_cut_off,
            provider_data=other.provider_data or self.provider_data,
        )


Writer = Callable[[Sequence[LLMMessage]], Answer]
"""Makes an answer of the messages so far."""


def say(text: str, *, reasoning: str = "", usage: LLMUsage | None = None) -> Answer:
    """Return an answer of text."""
    return Answer(text, reasoning=reasoning, usage=usage)


def call(tool: str, arguments: JsonObject | str | None = None, *, call_id: str | None = None) -> Answer:
    """Return an answer that calls a tool; its id is its number in the history."""
    return Answer(calls=(Call(tool, {} if arguments is None else arguments, call_id),))


def fail(error: BaseException, *, at_chunk: int | None = None, after: str = "") -> Answer:
    """Return an answer that breaks: at this chunk, or after all of the text."""
    return Answer(after, error=error, error_at_chunk=at_chunk)


def by_history(answers: Iterable[Answer]) -> Writer:
    """Return a writer that goes by the answers in the history.

    Not by how often it was asked: a model made anew after a crash goes on where the history ends.
    """
    script = tuple(answers)

    def write(messages: Sequence[LLMMessage]) -> Answer:
        return _nth(script, sum(message.role == "assistant" for message in messages))

    return write


@dataclass(frozen=True, slots=True)
class Request:
    """What a model was asked."""

    messages: tuple[LLMMessage, ...]
    tools: tuple[JsonObject, ...]
    temperature: float | None


class ScriptedModel:
    """An LLMProvider that gives the answers of a script, one for each request.

    `script` is a list of answers, or a function that makes them of the messages. With `chunk_chars` text,
    reasoning and arguments come in pieces of that length; without, each comes whole. `requests` holds what
    was asked, `closed_early` counts the streams that nobody read to their end.
    """

    def __init__(
        self,
        script: Iterable[Answer] | Writer,
        *,
        chunk_chars: int | None = None,
        clock: Clock | None = None,
        route_id: str = "scripted",
        model_id: str = "scripted",
    ) -> None:
        if chunk_chars is not None and chunk_chars < 1:
            raise ValueError(f"chunk_chars must be 1 or more, found {chunk_chars}")
        self._write = script if callable(script) else None
        self._answers = () if callable(script) else tuple(script)
        self._chunk_chars = chunk_chars
        self._clock = clock
        self.route_id = route_id
        self.model_id = model_id
        self.requests: list[Request] = []
        self.closed_early = 0

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Give the next answer of the script.

        Raises:
            Rejected: the script is at its end.
        """
        number = len(self.requests)
        self.requests.append(Request(tuple(messages), tuple(tools or ()), temperature))
        answer = _nth(self._answers, number) if self._write is None else self._write(messages)
        is_at_end = False
        try:
            if answer.gate is not None:
                await answer.gate.wait()
            for at, chunk in enumerate(_chunks(answer, messages, self._chunk_chars)):
                await self._pause(answer.delay_s)
                if answer.error is not None and at == answer.error_at_chunk:
                    is_at_end = True
                    raise answer.error
                yield chunk
            is_at_end = True
            if answer.error is not None:
                raise answer.error
        finally:
            self.closed_early += not is_at_end

    async def _pause(self, seconds: float) -> None:
        if not seconds:
            return
        if self._clock is None:
            raise ValueError("an answer with a delay needs a clock: ScriptedModel(script, clock=clock)")
        await self._clock.sleep(seconds)


def _nth(answers: Sequence[Answer], number: int) -> Answer:
    if number < len(answers):
        return answers[number]
    raise Rejected(
        f"the script has {len(answers)} answers, and this is request number {number + 1}: "
        "add an answer, or find out who asks once more",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )


def _chunks(answer: Answer, messages: Sequence[LLMMessage], size: int | None) -> Iterator[LLMStreamChunk]:
    for piece in _pieces(answer.reasoning, size):
        yield LLMStreamChunk(reasoning_delta=piece)
    for piece in _pieces(answer.text, size):
        yield LLMStreamChunk(content_delta=piece)
    taken = sum(len(message.tool_calls) for message in messages)
    for index, asked in enumerate(answer.calls):
        call_id = asked.call_id or f"call-{taken + index + 1}"
        for delta in _deltas(asked, call_id, index=index, size=size):
            yield LLMStreamChunk(tool_call_delta=delta)
    if answer.error is not None or answer.is_cut_off:
        return
    reason = FinishReason.TOOL_CALLS if answer.calls else FinishReason.STOP
    yield LLMStreamChunk(
        finish_reason=answer.finish_reason or reason, usage=answer.usage, provider_data=answer.provider_data
    )


def _deltas(asked: Call, call_id: str, *, index: int, size: int | None) -> Iterator[ToolCall | ToolCallDelta]:
    if size is None and not isinstance(asked.arguments, str):
        yield ToolCall(id=call_id, name=asked.name, arguments=asked.arguments)
        return
    text = asked.arguments if isinstance(asked.arguments, str) else encode(asked.arguments).decode()
    yield ToolCallDelta(index, id=call_id, name=asked.name)
    for piece in _pieces(text, size):
        yield ToolCallDelta(index, arguments_delta=piece)


def _pieces(text: str, size: int | None) -> Iterator[str]:
    step = size or max(1, len(text))
    for start in range(0, len(text), step):
        yield text[start : start + step]
