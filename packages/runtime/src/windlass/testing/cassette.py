"""Answers of a model, recorded once and played again without it."""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

from windlass.errors import Rejected
from windlass.ports.model import LLMMessage, LLMProvider, LLMStreamChunk, LLMUsage, ToolCallDelta
from windlass_harness.redact import Redactor
from windlass_harness.redact_stream import MaskedStream
from windlass_protocol import ErrorKind, JsonObject, JsonValue, RetryClass, ToolCall, canonical

VERSION: Final = 1


class Cassette:
    """An LLMProvider that plays what is in a file, and records what is not.

    A request is known by a hash of its messages, tools and temperature. With a provider, a request that was
    not recorded is passed on and its answer is added to the file, once it is whole. Without one, it is an
    error: so tests run offline. The same request again is the next recording of it, the last one for ever.
    Secrets are masked in what is kept: those that look like one, and the `secrets` given.

    Raises:
        Rejected: the file is no cassette.
    """

    def __init__(
        self, path: str | Path, provider: LLMProvider | None = None, *, secrets: Iterable[str] = ()
    ) -> None:
        self._path = Path(path)
        self._provider = provider
        self._redactor = Redactor(secrets)
        self._takes = _read(self._path)
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
        """Play or record an answer.

        Raises:
            Rejected: there is no recording, and nobody to ask.
        """
        known = tuple(tools or ())
        key = self._key(messages, known, temperature)
        number = self._played[key]
        takes = self._takes.get(key, [])
        self._played[key] += 1
        if takes and (number < len(takes) or self._provider is None):
            for data in takes[min(number, len(takes) - 1)]:
                yield _chunk(data)
            return
        if self._provider is None:
            raise _wrong(
                f"{self._path} has no recording of this request ( {key[:12]}; {len(self._takes)} others): "
                "give the cassette a provider to record it, or find out what has changed"
            )
        heard: list[LLMStreamChunk] = []
        stream = self._provider.stream(messages, tools=known or None, temperature=temperature)
        try:
            async for chunk in stream:
                heard.append(chunk)
                yield chunk
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        if any(chunk.finish_reason is not None for chunk in heard):
            self._keep(key, heard)

    def _key(
        self, messages: Sequence[LLMMessage], tools: Sequence[JsonObject], temperature: float | None
    ) -> str:
        asked: object = {
            "messages": [_plain(asdict(message)) for message in messages],
            "tools": list(tools),
            "temperature": temperature,
        }
        # Masked before it is hashed, so that another key in a prompt is the same request.
        return sha256(canonical(cast(JsonObject, self._redactor.value(asked)))).hexdigest()

    def _keep(self, key: str, heard: Sequence[LLMStreamChunk]) -> None:
        chunks = [*_masked(heard, self._redactor)]
        self._takes.setdefault(key, []).append(chunks)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            line: JsonObject = {"version": VERSION, "key": key, "chunks": cast(list[JsonValue], chunks)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _masked(heard: Sequence[LLMStreamChunk], redactor: Redactor) -> Iterable[JsonObject]:
    """Give the chunks as data; a secret may be cut over several of them."""
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
    """Return what a chunk says about its answer."""
    data: JsonObject = {}
    if chunk.usage is not None:
        data["usage"] = _plain(asdict(chunk.usage))
    if chunk.provider_data is not None:
        data["providerData"] = cast(JsonValue, redactor.value(chunk.provider_data))
    if chunk.finish_reason is not None:
        data["finish"] = str(chunk.finish_reason)
    return data


def _rest(streams: Mapping[str, MaskedStream]) -> Iterable[JsonObject]:
    """Give what was held back because it might have been the beginning of a secret."""
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
        usage=LLMUsage(**cast(dict[str, int], usage)) if isinstance(usage, dict) else None,
        provider_data=cast("JsonObject | None", data.get("providerData")),
    )


def _plain(fields: Mapping[str, object]) -> JsonObject:
    """Return a dataclass as data; calls are models."""
    plain: JsonObject = {}
    for name, value in fields.items():
        if name == "tool_calls":
            calls = cast("tuple[ToolCall, ...]", value)
            plain[name] = [call.model_dump(mode="json") for call in calls]
        elif name == "parts":
            plain[name] = [*cast("tuple[JsonObject, ...]", value)]
        elif value is not None:
            plain[name] = cast(JsonValue, value)
    return plain


def _read(path: Path) -> dict[str, list[list[JsonObject]]]:
    takes: dict[str, list[list[JsonObject]]] = {}
    problem = ""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            take = json.loads(line)
            if take["version"] != VERSION:
                problem = f"{path}, line {number}: version {VERSION} was expected"
            takes.setdefault(take["key"], []).append(take["chunks"])
        except (ValueError, KeyError, TypeError):
            problem = f"{path}, line {number}: this is no recording; delete the file and record it anew"
    if problem:
        raise _wrong(problem)
    return takes


def _wrong(message: str) -> Rejected:
    return Rejected(message, kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
