"""Scripted models, cassettes and replay."""

import asyncio
import json
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from windlass.engine.writing.writer import SessionWriter
from windlass.errors import AgentError, Rejected
from windlass.ports.batches import BatchRequest, BatchResult, OwnBatch
from windlass.ports.clock import Clock
from windlass.ports.journal import Journal, Standing
from windlass.ports.model import (
    BilledRequest,
    LLMMessage,
    LLMProvider,
    LLMStreamChunk,
    LLMUsage,
    ToolCallDelta,
)
from windlass_harness.loop.state import LoopState
from windlass_harness.redact import Redactor
from windlass_harness.redact.text import MaskedStream
from windlass_protocol import (
    ErrorKind,
    FinishReason,
    JsonObject,
    JsonValue,
    RetryClass,
    ToolCall,
    canonical,
    encode,
)
from windlass_protocol.frozen import frozen, sealed


@sealed
class ScriptedCall:
    """A tool call of an answer; arguments given as a string are sent as they are."""

    name: str
    arguments: JsonObject | str
    call_id: str | None = None


@sealed
class Answer:
    """One answer of a model, or a part of one: `say(…) + call(…)` is both."""

    text: str = ""
    _: KW_ONLY
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: LLMUsage | None = None
    """Default: a token for every four characters, and no cost."""
    finish_reason: FinishReason | str | None = None
    """Default: tool-calls if there are calls, else stop."""
    error: BaseException | None = None
    """Raised instead of the chunk of this number, or at the end."""
    error_at_chunk: int | None = None
    delay_s: float = 0.0
    """Delay before each chunk, by the clock of the model."""
    gate: asyncio.Event | None = None
    """The stream waits for this event before its first chunk."""
    is_cut_off: bool = False
    """The stream ends without a finish reason."""
    provider_data: JsonObject | None = None
    """The `provider_data` of this answer."""

    def __add__(self, other: "Answer") -> "Answer":
        """Join two parts; single-valued fields come from the right one if it has them."""
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
"""Returns an answer to the messages so far."""


def say(text: str, *, reasoning: str = "", usage: LLMUsage | None = None) -> Answer:
    """Return an answer of text."""
    return Answer(text, reasoning=reasoning, usage=usage)


def call(tool: str, arguments: JsonObject | str | None = None, *, call_id: str | None = None) -> Answer:
    """Return an answer with a tool call; its default id is its number in the history."""
    return Answer(calls=(ScriptedCall(tool, {} if arguments is None else arguments, call_id),))


def fail(error: BaseException, *, at_chunk: int | None = None, after: str = "") -> Answer:
    """Return an answer that raises: at this chunk, or after all of the text."""
    return Answer(after, error=error, error_at_chunk=at_chunk)


def by_history(answers: Iterable[Answer]) -> Writer:
    """Return a writer that chooses by the number of answers in the history.

    Not by the number of requests: a model that is created again after a crash continues where the history
    ends.
    """
    script = tuple(answers)

    def write(messages: Sequence[LLMMessage]) -> Answer:
        return _nth(script, sum(message.role == "assistant" for message in messages))

    return write


@sealed
class Request:
    """One request to a model."""

    messages: tuple[LLMMessage, ...]
    tools: tuple[JsonObject, ...]
    temperature: float | None


class ScriptedModel:
    """An LLMProvider that returns the answers of a script, one for each request.

    `script` is a list of answers, or a function of the messages. With `chunk_chars`, text, reasoning and
    arguments come in chunks of that length; without, each comes whole. `requests` holds the requests,
    `closed_early` counts the streams that were not read to their end. It answers in batches, too, which have
    ended when they are first asked for; `batches` holds the number of items of each.
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
        for at, answer in enumerate(self._answers):
            _check_answer(answer, f"answer {at} of a ScriptedModel")
        self._chunk_chars = chunk_chars
        self._clock = clock
        self.route_id = route_id
        self.model_id = model_id
        self.requests: list[Request] = []
        self.closed_early = 0
        self.batches: list[int] = []
        self.created_batches: dict[str, Sequence[BatchRequest]] = {}
        self._offered: list[Request] = []
        self._answered: dict[int, list[LLMStreamChunk]] = {}
        """Chunks of the answers to items of batches, by the numbers of the items."""

    def batch_api(self) -> "ScriptedBatches":
        """Return the batches of the model."""
        return ScriptedBatches(self)

    def batch_body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        """Return the number of a request."""
        self._offered.append(Request(tuple(messages), tuple(tools), temperature))
        return {"number": len(self._offered) - 1}

    def read_answer(self, answer: JsonObject, *, tools: Iterable[JsonObject]) -> Iterator[LLMStreamChunk]:
        """Yield the answer to a request."""
        yield from self._answered[cast(int, answer["number"])]

    async def answer_item(self, body: JsonObject) -> JsonObject:
        """Answer an item of a batch with the next answer of the script.

        Raises:
            AgentError: the script fails.
        """
        number = cast(int, body["number"])
        request = self._offered[number]
        chunks = self.stream(request.messages, tools=request.tools, temperature=request.temperature)
        self._answered[number] = [chunk async for chunk in chunks]
        return body

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Stream the next answer of the script.

        Raises:
            Rejected: the script has no more answers.
        """
        number = len(self.requests)
        self.requests.append(Request(tuple(messages), tuple(tools or ()), temperature))
        answer = _nth(self._answers, number) if self._write is None else self._write(messages)
        _check_answer(answer, "the answer of a script")
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


@frozen
class ScriptedBatches:
    """The batches of a scripted model, in memory; see `BatchApi`."""

    model: ScriptedModel

    @property
    def key(self) -> str:
        """All items of the model can share a batch."""
        return f"scripted-{id(self.model)}"

    async def prepare(self, name: str, requests: Sequence[BatchRequest]) -> Callable[[], Awaitable[str]]:
        """Return the function that keeps the requests."""

        async def create() -> str:
            self.model.created_batches[name] = tuple(requests)
            self.model.batches.append(len(requests))
            return name

        return create

    async def find(self, batch: OwnBatch, others: Collection[str]) -> str | None:
        """Return the name of a batch that was created: it is the id."""
        return batch.name if batch.name in self.model.created_batches else None

    async def cancel(self, batch_id: str) -> None:
        """Drop a batch."""
        del self.model.created_batches[batch_id]

    async def results(self, batch_id: str) -> AsyncIterator[BatchResult] | None:
        """Answer the requests."""
        return self._results(batch_id)

    async def _results(self, batch_id: str) -> AsyncIterator[BatchResult]:
        for request in self.model.created_batches[batch_id]:
            try:
                yield BatchResult(request.item_id, await self.model.answer_item(request.body))
            except AgentError as error:
                yield BatchResult(request.item_id, error=error.info())


def _check_answer(answer: object, what: str) -> None:
    if not isinstance(answer, Answer):
        raise Rejected(
            f"{what} must be say(…), call(…) or fail(…), found {type(answer).__name__}",
            kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
            retry=RetryClass.HOST_CONFIGURATION_NEEDED,
        )


def _nth(answers: Sequence[Answer], number: int) -> Answer:
    if number < len(answers):
        return answers[number]
    raise Rejected(
        f"the script has {len(answers)} answers, and this is request number {number + 1}: "
        "add an answer, or check why the model is called once more",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )


def _chunks(answer: Answer, messages: Sequence[LLMMessage], size: int | None) -> Iterator[LLMStreamChunk]:
    for piece in _pieces(answer.reasoning, size):
        yield LLMStreamChunk(reasoning_delta=piece)
    for piece in _pieces(answer.text, size):
        yield LLMStreamChunk(content_delta=piece)
    earlier_calls = sum([len(message.tool_calls) for message in messages]) if answer.calls else 0
    for index, scripted in enumerate(answer.calls):
        call_id = scripted.call_id or f"call-{earlier_calls + index + 1}"
        for delta in _deltas(scripted, call_id, index=index, size=size):
            yield LLMStreamChunk(tool_call_delta=delta)
    if answer.error is not None or answer.is_cut_off:
        return
    reason = FinishReason.TOOL_CALLS if answer.calls else FinishReason.STOP
    yield LLMStreamChunk(
        finish_reason=answer.finish_reason or reason,
        usage=answer.usage or _usage(answer, messages),
        provider_data=answer.provider_data,
    )


_TOKEN_CHARS: Final = 4


def _usage(answer: Answer, messages: Sequence[LLMMessage]) -> LLMUsage:
    """Return tokens as a provider reports them, without a cost."""
    prompt = sum([len(message.content) for message in messages])
    written = len(answer.text) + len(answer.reasoning)
    return LLMUsage(input_tokens=prompt // _TOKEN_CHARS + 1, output_tokens=written // _TOKEN_CHARS + 1)


def _deltas(
    scripted: ScriptedCall, call_id: str, *, index: int, size: int | None
) -> Iterator[ToolCall | ToolCallDelta]:
    if size is None and not isinstance(scripted.arguments, str):
        yield ToolCall(id=call_id, name=scripted.name, arguments=scripted.arguments)
        return
    text = scripted.arguments if isinstance(scripted.arguments, str) else encode(scripted.arguments).decode()
    yield ToolCallDelta(index, id=call_id, name=scripted.name)
    for piece in _pieces(text, size):
        yield ToolCallDelta(index, arguments_delta=piece)


def _pieces(text: str, size: int | None) -> Iterator[str]:
    step = size or max(1, len(text))
    for start in range(0, len(text), step):
        yield text[start : start + step]


VERSION: Final = 2
DIGEST_CHARS: Final = 16
DIFFERENCES_SHOWN_MAX: Final = 8


class Cassette:
    """An LLMProvider that replays recorded answers from a file, and records missing ones.

    A request is identified by a hash of its messages, tools and temperature. With a provider, a request
    without a recording is passed on, and its complete answer is added to the file. Without one, it is an
    error that names the parts in which the nearest recording differs: so tests run offline. The file holds
    answers, and digests of the parts of their requests. A repeated request plays the next recording of it,
    and the last one from then on. Secrets are masked in the file: values that look like one, and the given
    `secrets`.

    Raises:
        Rejected: the file is not a cassette.
    """

    def __init__(
        self, path: str | Path, provider: LLMProvider | None = None, *, secrets: Iterable[str] = ()
    ) -> None:
        self._path = Path(path)
        self._provider = provider
        self._redactor = Redactor(secrets)
        self._takes, self._recorded_parts = _read(self._path)
        self._played: Counter[str] = Counter()
        self.route_id = str(getattr(provider, "route_id", None) or "cassette")
        self.model_id = str(getattr(provider, "model_id", None) or self._path.stem)

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Replay or record an answer.

        Raises:
            Rejected: there is no recording, and no provider to record from.
        """
        definitions = tuple(tools or ())
        parts = self._parts(messages, definitions, temperature)
        key = sha256(canonical(cast(JsonObject, parts))).hexdigest()
        number = self._played[key]
        takes = self._takes.get(key, [])
        self._played[key] += 1
        if takes and (number < len(takes) or self._provider is None):
            for data in takes[min(number, len(takes) - 1)]:
                yield _chunk(data)
            return
        if self._provider is None:
            raise _wrong(
                f"{self._path} has no recording of this request: {self._differences(parts)}; "
                "give the cassette a provider to record it, or check why the request changed"
            )
        heard: list[LLMStreamChunk] = []
        stream = self._provider.stream(messages, tools=definitions or None, temperature=temperature)
        try:
            async for chunk in stream:
                heard.append(chunk)
                yield chunk
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        if any(chunk.finish_reason is not None for chunk in heard):
            self._keep(key, heard, parts=parts)

    def _parts(
        self, messages: Sequence[LLMMessage], tools: Sequence[JsonObject], temperature: float | None
    ) -> dict[str, str]:
        """Return the digests of the parts of a request, by names that a person knows."""
        parts: dict[str, JsonValue] = {"temperature": temperature}
        for number, message in enumerate(messages, start=1):
            parts[f"message {number} ({message.role})"] = _plain(asdict(message))
        for tool in tools:
            parts[f"tool {tool.get('name')}"] = tool
        return {name: self._digest(part) for name, part in parts.items()}

    def _digest(self, part: JsonValue) -> str:
        # Masked before it is hashed, so that the same prompt with another key is the same request.
        masked = cast(JsonValue, self._redactor.value({"part": part}))
        return sha256(canonical(cast(JsonObject, masked))).hexdigest()[:DIGEST_CHARS]

    def _differences(self, parts: Mapping[str, str]) -> str:
        """Return in which parts the nearest recording differs from a request."""
        if not self._recorded_parts:
            return "there are no recordings"
        nearest = max(self._recorded_parts, key=lambda recorded: len(recorded.items() & parts.items()))
        differences = [
            *(f"{name} changed" for name in parts if name in nearest and nearest[name] != parts[name]),
            *(f"{name} is new" for name in parts if name not in nearest),
            *(f"{name} is missing" for name in nearest if name not in parts),
        ]
        rest = len(differences) - DIFFERENCES_SHOWN_MAX
        more = f" and {rest} more" if rest > 0 else ""
        listed = ", ".join(differences[:DIFFERENCES_SHOWN_MAX])
        return f"in the nearest one of {len(self._recorded_parts)}, {listed}{more}"

    def _keep(self, key: str, heard: Sequence[LLMStreamChunk], *, parts: dict[str, str]) -> None:
        chunks = [*_mask_chunks(heard, self._redactor)]
        self._takes.setdefault(key, []).append(chunks)
        self._recorded_parts.append(parts)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            line: JsonObject = {
                "version": VERSION,
                "key": key,
                "asked": cast(JsonObject, parts),
                "chunks": cast(list[JsonValue], chunks),
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _mask_chunks(heard: Sequence[LLMStreamChunk], redactor: Redactor) -> Iterable[JsonObject]:
    """Return the chunks as data; a secret may be split over several of them."""
    streams: dict[str, MaskedStream] = {}

    def hide(name: str, text: str) -> str:
        return streams.setdefault(name, redactor.stream()).feed(text)

    last = len(heard) - 1
    for at, chunk in enumerate(heard):
        data: JsonObject = {}
        delta = chunk.tool_call_delta
        if chunk.content_delta:
            data["content"] = hide("content", chunk.content_delta)
        if chunk.reasoning_delta:
            data["reasoning"] = hide("reasoning", chunk.reasoning_delta)
        if isinstance(delta, ToolCallDelta):
            text = hide(f"call {delta.index}", delta.arguments_delta)
            data["piece"] = {"index": delta.index, "id": delta.id, "name": delta.name, "arguments": text}
        elif delta is not None:
            data["call"] = cast(JsonValue, redactor.value(delta.model_dump(mode="json")))
        if at == last:
            yield from _rest(streams)
        yield data | _facts(chunk, redactor)


def _facts(chunk: LLMStreamChunk, redactor: Redactor) -> JsonObject:
    """Return the fields of a chunk about the whole answer."""
    data: JsonObject = {}
    if chunk.usage is not None:
        data["usage"] = _plain(asdict(chunk.usage))
    if chunk.provider_data is not None:
        data["providerData"] = cast(JsonValue, redactor.value(chunk.provider_data))
    if chunk.finish_reason is not None:
        data["finish"] = str(chunk.finish_reason)
    return data


def _rest(streams: Mapping[str, MaskedStream]) -> Iterable[JsonObject]:
    """Return the text that was held back as the possible start of a secret."""
    for name, stream in streams.items():
        text = stream.finish()
        kind, _, index = name.partition(" ")
        if text and index:
            yield {"piece": {"index": int(index), "id": None, "name": None, "arguments": text}}
        elif text:
            yield {kind: text}


def _chunk(data: JsonObject) -> LLMStreamChunk:
    piece, call, usage = data.get("piece"), data.get("call"), data.get("usage")
    delta: ToolCall | ToolCallDelta | None = None
    if isinstance(piece, dict):
        index, call_id, name, arguments = (piece[part] for part in ("index", "id", "name", "arguments"))
        delta = ToolCallDelta(
            cast(int, index), cast("str | None", call_id), cast("str | None", name), cast(str, arguments)
        )
    elif call is not None:
        delta = ToolCall.model_validate(call)
    return LLMStreamChunk(
        content_delta=cast("str | None", data.get("content")),
        reasoning_delta=cast("str | None", data.get("reasoning")),
        tool_call_delta=delta,
        finish_reason=cast("str | None", data.get("finish")),
        usage=_usage_of(usage) if isinstance(usage, dict) else None,
        provider_data=cast("JsonObject | None", data.get("providerData")),
    )


def _usage_of(data: JsonObject) -> LLMUsage:
    counts = {name: count for name, count in data.items() if name != "billed"}
    requests = cast("list[dict[str, Any]]", data.get("billed") or [])
    billed = tuple(BilledRequest(**request) for request in requests)
    return replace(LLMUsage(**cast(dict[str, Any], counts)), billed=billed)


def _plain(fields: Mapping[str, object]) -> JsonObject:
    """Return a dataclass as data; calls are models."""
    plain: JsonObject = {}
    for name, value in fields.items():
        if name == "tool_calls":
            calls = cast("tuple[ToolCall, ...]", value)
            plain[name] = [call.model_dump(mode="json") for call in calls]
        elif name == "parts":
            plain[name] = [*cast("tuple[JsonObject, ...]", value)]
        elif name == "billed":
            plain |= {name: [*cast("tuple[JsonObject, ...]", value)]} if value else {}
        elif value is not None:
            plain[name] = cast(JsonValue, value)
    return plain


def _read(path: Path) -> tuple[dict[str, list[list[JsonObject]]], list[dict[str, str]]]:
    """Return the recorded answers by the key of their request, and the parts of the requests."""
    takes: dict[str, list[list[JsonObject]]] = {}
    requests: list[dict[str, str]] = []
    problem = ""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            take = json.loads(line)
            if take["version"] != VERSION:
                problem = f"{path}, line {number}: expected version {VERSION}; record it again"
                break
            requests.append(dict(take["asked"]))
            takes.setdefault(take["key"], []).append(take["chunks"])
        except (ValueError, KeyError, TypeError):
            problem = f"{path}, line {number}: not a recording; delete the file and record it again"
    if problem:
        raise _wrong(problem)
    return takes, requests


def _wrong(message: str) -> Rejected:
    return Rejected(message, kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)


_PAGE: Final = 4_096

ReadJournal = Callable[[SessionWriter], Journal]
"""Returns the journal to read a session from after a commit; default: the one it was written to."""


@contextmanager
def always_replay(journal: ReadJournal | None = None) -> Generator[None]:
    """Drop the state of every session after each commit and fold all its records again.

    State that is not in the journal is lost at once. So a test that passes with and without this proves that
    a crash after any commit would have changed nothing.
    """
    commit = SessionWriter.commit

    async def forgetful(
        self: SessionWriter, *, standing: Standing, wake_at_ms: int | None, is_last: bool = False
    ) -> None:
        await commit(self, standing=standing, wake_at_ms=wake_at_ms, is_last=is_last)
        state = self.state
        refolded = await fold_records(
            journal(self) if journal else self.journal, self.session_id, upto=state.seq
        )
        refolded.epoch = state.epoch
        # The driver and its effects share the state object, so it is cleared and filled again in place.
        vars(state).clear()
        vars(state).update(vars(refolded))

    SessionWriter.commit = forgetful
    try:
        yield
    finally:
        SessionWriter.commit = commit


async def fold_records(journal: Journal, session_id: str, *, upto: int) -> LoopState:
    """Fold the first records of a session."""
    state = LoopState()
    while state.seq < upto:
        records = await journal.read(session_id, after=state.seq, limit=_PAGE)
        state.apply_all([record for record in records if record.seq <= upto])
    return state
