"""Batches of OpenAI and of Anthropic: how they are created, found again and read."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal, cast

from windlass.errors import AgentError
from windlass.models.errors import (
    EVENT_BYTES_MAX,
    EVENT_VALUES_MAX,
    ResponseError,
    stream_error,
    translate,
    truncation_error,
)
from windlass.models.messages import object_of
from windlass.models.transport import Line, ModelEndpoint, ServedModel
from windlass.ports.batches import BatchApi, BatchRequest, BatchResult, OwnBatch, no_answer_error
from windlass.ports.model import LLMMessage, LLMStreamChunk, ModelFault, ModelUnavailable
from windlass_protocol import JsonObject, JsonValue
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import frozen

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types.messages import MessageBatch
    from openai import AsyncOpenAI

BATCH_TIER: Final = "batch"
"""The service tier of the answers of a batch, by which they are priced."""
_STREAMED: Final = ("stream", "stream_options")
_NAME: Final = "windlass_batch"
"""The key of the name of a batch in its metadata."""
_PAGE: Final = 100
_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of the provider and of this machine may be apart."""
_MIXED_MODELS: Final = "*"


def batch_key(line: Line, path: str, model: str) -> str:
    """Return what the items of a batch have in common, without telling the key of the account."""
    facts = [line.sdk, line.address.base_url, line.address.api_key, path, model]
    return sha256("\n".join(facts).encode()).hexdigest()[:16]


class BatchedModel(ServedModel):
    """Base of providers with batches; subclasses turn an answer into events."""

    def batch_api(self) -> BatchApi:
        """Return the batches of the model."""
        raise NotImplementedError

    def batch_body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        """Return the body of a request."""
        body = self._body(messages, tools=tools, temperature=temperature)
        return {name: value for name, value in body.items() if name not in _STREAMED}

    def read_answer(self, answer: JsonObject, *, tools: Iterable[JsonObject]) -> Iterator[LLMStreamChunk]:
        """Yield an answer of a batch as chunks of a stream."""
        reader = self._reader(tuple(tools))
        for event in self._events_of(answer):
            yield from reader.take(event)
        if not reader.is_finished:
            raise truncation_error()

    def _events_of(self, answer: JsonObject) -> Iterator[JsonObject]:
        """Yield the events that would have streamed the answer."""
        raise NotImplementedError


@frozen
class OpenAIBatches:
    """The Batch API of OpenAI, for one model behind one path.

    The name of a batch is in its metadata, by which it is found again.
    """

    line: Line
    path: Literal["/v1/chat/completions", "/v1/responses"]
    model: str

    @property
    def key(self) -> str:
        """Items with the same key can share a batch: one has requests to a single model."""
        return batch_key(self.line, self.path, self.model)

    async def prepare(self, name: str, requests: Sequence[BatchRequest]) -> Callable[[], Awaitable[str]]:
        """Upload the file with the requests."""
        lines = [
            json.dumps(
                {"custom_id": request.item_id, "method": "POST", "url": self.path, "body": request.body},
                ensure_ascii=False,
            )
            for request in requests
        ]
        content = "\n".join(lines).encode()

        async def upload(sdk: "AsyncOpenAI") -> str:
            return (await sdk.files.create(file=(f"{name}.jsonl", content), purpose="batch")).id

        return partial(self.line.use, partial(self._create, name, await self.line.use(upload)))

    async def _create(self, name: str, file_id: str, sdk: "AsyncOpenAI") -> str:
        batch = await sdk.batches.create(
            completion_window="24h", endpoint=self.path, input_file_id=file_id, metadata={_NAME: name}
        )
        return batch.id

    async def find(self, batch: OwnBatch, others: Collection[str]) -> str | None:
        """Return the id of the batch with this name."""

        async def search(sdk: "AsyncOpenAI") -> str | None:
            async for candidate in sdk.batches.list(limit=_PAGE):
                if candidate.created_at < (batch.since - _SKEW).timestamp():
                    break
                if (candidate.metadata or {}).get(_NAME) == batch.name:
                    return candidate.id
            return None

        return await self.line.use(search)

    async def cancel(self, batch_id: str) -> None:
        """Stop a batch."""

        async def stop(sdk: "AsyncOpenAI") -> None:
            await sdk.batches.cancel(batch_id)

        await self.line.use(stop)

    async def results(self, batch_id: str) -> AsyncIterator[BatchResult] | None:
        """Return the results: those of the output file, then those of the error file."""

        async def look(sdk: "AsyncOpenAI") -> list[str] | None:
            batch = await sdk.batches.retrieve(batch_id)
            if batch.status not in ("completed", "failed", "expired", "cancelled"):
                return None
            return [file for file in (batch.output_file_id, batch.error_file_id) if file]

        files = await self.line.use(look)
        return None if files is None else self._read(files)

    async def _read(self, files: Sequence[str]) -> AsyncIterator[BatchResult]:
        for file_id in files:

            async def read(sdk: "AsyncOpenAI", file_id: str = file_id) -> AsyncIterator[JsonObject]:
                async with sdk.files.with_streaming_response.content(file_id) as response:
                    async for line in read_lines(response.iter_bytes()):
                        yield line

            async for line in self.line.use_all(read):
                yield self._result(line)

    def _result(self, line: JsonObject) -> BatchResult:
        item_id, response = str(line.get("custom_id")), line.get("response")
        if not isinstance(response, dict):
            code = object_of(line.get("error")).get("code")
            return BatchResult(item_id, error=no_answer_error(str(code or "no response")).info())
        status, body = response.get("status_code"), object_of(response.get("body"))
        if status == 200:
            return BatchResult(item_id, body)
        return BatchResult(item_id, error=_refusal_error(status, body, self.line.to).info())


@frozen
class AnthropicBatches:
    """The Message Batches API of Anthropic.

    It keeps no name with a batch. One is found again by its items, which are shown when it has ended: until
    then, a batch of unknown origin with as many items may be the one.
    """

    line: Line

    @property
    def key(self) -> str:
        """Items with the same key can share a batch, also those for different models."""
        return batch_key(self.line, "/v1/messages/batches", _MIXED_MODELS)

    async def prepare(self, name: str, requests: Sequence[BatchRequest]) -> Callable[[], Awaitable[str]]:
        """Return the function that creates the batch: nothing is sent before."""
        return partial(self.line.use, partial(self._create, requests))

    async def _create(self, requests: Sequence[BatchRequest], sdk: "AsyncAnthropic") -> str:
        items = [{"custom_id": request.item_id, "params": request.body} for request in requests]
        # The bodies are those of the provider's own requests; their types are a union of all models.
        return (await sdk.messages.batches.create(requests=items)).id  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    async def find(self, batch: OwnBatch, others: Collection[str]) -> str | None:
        """Return the id of the batch with these items."""

        async def search(sdk: "AsyncAnthropic") -> list["MessageBatch"]:
            candidates: list[MessageBatch] = []
            async for candidate in sdk.messages.batches.list(limit=_PAGE):
                if candidate.created_at < batch.since - _SKEW:
                    break
                counts = candidate.request_counts
                total = (
                    counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
                )
                if candidate.id not in others and total == len(batch.item_ids):
                    candidates.append(candidate)
            return candidates

        candidates = await self.line.use(search)
        for candidate in candidates:
            if candidate.processing_status == "ended" and candidate.results_url is not None:
                async for result in self._read(candidate.id):
                    if result.item_id in batch.item_ids:
                        return candidate.id
                    break
        if any(candidate.processing_status != "ended" for candidate in candidates):
            raise ModelUnavailable(
                "the provider shows the items of a batch when it has ended: one that is at work may be ours",
                fault=ModelFault.SERVER,
            )
        return None

    async def cancel(self, batch_id: str) -> None:
        """Stop a batch."""

        async def stop(sdk: "AsyncAnthropic") -> None:
            await sdk.messages.batches.cancel(batch_id)

        await self.line.use(stop)

    async def results(self, batch_id: str) -> AsyncIterator[BatchResult] | None:
        """Return the results of a batch; None until it has ended."""

        async def look(sdk: "AsyncAnthropic") -> "MessageBatch":
            return await sdk.messages.batches.retrieve(batch_id)

        batch = await self.line.use(look)
        return None if batch.processing_status != "ended" else self._read(batch_id)

    async def _read(self, batch_id: str) -> AsyncIterator[BatchResult]:
        async def read(sdk: "AsyncAnthropic") -> AsyncIterator[JsonObject]:
            async with sdk.messages.batches.with_streaming_response.results(batch_id) as response:
                async for line in read_lines(response.iter_bytes()):
                    yield line

        async for line in self.line.use_all(read):
            yield self._result(line)

    def _result(self, line: JsonObject) -> BatchResult:
        item_id, result = str(line.get("custom_id")), object_of(line.get("result"))
        match result.get("type"):
            case "succeeded":
                return BatchResult(item_id, object_of(result.get("message")))
            case "errored":
                error = _refusal_error(400, object_of(result.get("error")), self.line.to)
                return BatchResult(item_id, error=error.info())
            case kind:
                return BatchResult(item_id, error=no_answer_error(str(kind)).info())


async def read_lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[JsonObject]:
    """Yield the lines of a file of results; what was read of a line is limited as the line is.

    Raises:
        ModelUnavailable: a line is no JSON object, or too large to be read on the event loop.
    """
    rest = bytearray()
    async for piece in pieces:
        searched = len(rest)
        rest += piece
        while (end := rest.find(b"\n", searched)) >= 0:
            text = rest[:end].decode(errors="replace")
            del rest[: end + 1]
            searched = 0
            if text.strip():
                yield read_line(text)
        if len(rest) > EVENT_BYTES_MAX:
            raise _long_line()
    if rest.strip():
        yield read_line(rest.decode(errors="replace"))


def _long_line() -> AgentError:
    return stream_error(f"a line of results is too large: limit {EVENT_BYTES_MAX:,} characters")


def read_line(text: str) -> JsonObject:
    """Return a line of results.

    Raises:
        ModelUnavailable: it is no JSON object, or too large to be read on the event loop.
    """
    if len(text) > EVENT_BYTES_MAX:
        raise _long_line()
    if count_values(text.encode(), EVENT_VALUES_MAX) > EVENT_VALUES_MAX:
        raise stream_error(f"a line of results has too many values: limit {EVENT_VALUES_MAX:,}")
    try:
        return object_of(cast(JsonValue, json.loads(text)))
    except (ValueError, RecursionError):
        raise stream_error("a line of results is not JSON") from None


def _refusal_error(status: JsonValue, body: JsonObject, to: ModelEndpoint) -> AgentError:
    """Return the error of an item that the provider refused; what it says of retries counts."""
    error = ResponseError(status if isinstance(status, int) else 500, body, {})
    return translate(error, to=to, now=datetime.now(UTC))
