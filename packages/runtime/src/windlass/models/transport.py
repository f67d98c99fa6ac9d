"""The connection to a provider: an SDK client for each event loop, and the events of a streamed answer."""

import asyncio
import json
import os
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, suppress
from copy import copy
from dataclasses import field, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self, TypeAlias, TypeVar, cast

from windlass.errors import AgentError, Unavailable, install_hint
from windlass.models.errors import (
    ERROR_BYTES_MAX,
    EVENT_VALUES_MAX,
    ModelEndpoint,
    Source,
    error_event,
    stream_error,
    translate,
    truncation_error,
)
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass_protocol import ErrorKind, JsonObject, JsonValue, RetryClass
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import mutable, sealed

if TYPE_CHECKING:
    from httpx2 import Response


T = TypeVar("T")
SdkT = TypeVar("SdkT")
"""The client of the SDK of a provider."""
MAX_TOKENS: Final = 16_384
"""Tokens of one answer, for an API that requires a limit when none is set."""
CONNECT_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 120.0
"""Read timeout: before the first byte and between two chunks."""
DRAIN_TIMEOUT_S: Final = 1.0
"""How long the rest of a finished stream is read, so that its connection can be reused."""


@sealed
class ModelSettings:
    """Settings of a provider; None means the default of the server."""

    max_tokens: int | None = None
    """Tokens of one answer."""
    output: JsonObject | None = None
    """A JSON Schema that the server enforces for the text of every answer."""
    body: JsonObject | None = None
    """Further fields of the request, such as `reasoning_effort` or `thinking`."""
    headers: Mapping[str, str] | None = None
    reasoning_field: str | None = None
    """Field of a Chat Completions request that returns the model's reasoning, such as `reasoning_content`."""
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    idle_timeout_s: float = IDLE_TIMEOUT_S
    is_cached: bool = True
    """Whether Anthropic and Bedrock are asked to cache the prompt up to its last messages."""


class Environment(Protocol):
    """Source of environment variables, such as `os.environ`."""

    def get(self, name: str, /) -> str | None:
        """Return the value of a variable."""
        ...


class _ProcessEnvironment:
    """The environment of the process. Its repr has no values: `help` shows the defaults of functions."""

    def get(self, name: str, /) -> str | None:
        return os.environ.get(name)

    def __repr__(self) -> str:
        return "os.environ"


PROCESS_ENVIRONMENT: Final = _ProcessEnvironment()


@sealed
class ModelAddress:
    """Base URL and key of a provider; never logged."""

    base_url: str
    api_key: str


FieldPath: TypeAlias = tuple[str, ...]
"""Where a field is in a request: its name, after those of the objects that hold it."""
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9.+-]{1,64}")
_DONE: Final = "[DONE]"
_LAST: Final = frozenset({"message_stop", "response.completed", "response.incomplete"})
"""Types of the last event of a stream."""


class ModelClient(Protocol):
    """The client of a provider."""

    media_type: str
    """The media type of a streamed answer."""

    async def post(self, body: JsonObject) -> "Response":
        """Send a request."""
        ...

    def texts(self, response: "Response") -> AsyncGenerator[str]:
        """Yield the JSON text of each event."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


@mutable
class Line:
    """The connection to a server, shared by a provider and its variants."""

    sdk: str
    """The module that the client needs; the first request imports it and the prices, which takes a second."""
    make: "Callable[[ModelAddress, ModelSettings], ModelClient]"
    address: ModelAddress = field(repr=False)
    settings: ModelSettings
    to: ModelEndpoint
    """The server and the source of the key, for error messages."""
    _clients: dict[asyncio.AbstractEventLoop, ModelClient] = field(
        default_factory=dict[asyncio.AbstractEventLoop, ModelClient], repr=False
    )

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject | None]:
        """Yield the events of an answer; None marks the end of the stream.

        Raises:
            Unavailable: the request can be retried later.
            Rejected: a retry of this request cannot succeed.
        """
        failure: AgentError | None = None
        response: Response | None = None
        try:
            client = await self._client()
            response = await client.post(body)
            await self._check_type(response, client.media_type)
            async with aclosing(client.texts(response)) as texts:
                async for text in texts:
                    event = self._event(text)
                    yield event
                    if event is None or event.get("type") in _LAST:
                        await _drain(texts)
                        return
        except Exception as error:  # noqa: BLE001 - the boundary to an SDK, which may raise anything
            failure = translate(error, to=self.to, now=datetime.now(UTC))
        finally:
            if response is not None:
                await response.aclose()
        # Raised outside of the except block: the SDK's error may quote the prompt and must not become the
        # context.
        if failure is not None:
            raise failure

    async def use(self, call: "Callable[[SdkT], Awaitable[T]]") -> T:
        """Call the SDK.

        Raises:
            Unavailable: the request can be retried later.
            Rejected: a retry of this request cannot succeed.
        """

        async def read(sdk: SdkT) -> AsyncGenerator[T]:
            yield await call(sdk)

        (answer,) = [answer async for answer in self.use_all(read)]
        return answer

    async def use_all(self, read: "Callable[[SdkT], AsyncIterator[T]]") -> AsyncGenerator[T]:
        """Yield what is read with the SDK.

        Raises:
            Unavailable: the request can be retried later.
            Rejected: a retry of this request cannot succeed.
        """
        failure: AgentError | None = None
        try:
            client = await self._client()
            async for item in read(cast("SdkT", getattr(client, "sdk"))):  # noqa: B009 - of clients with an SDK
                yield item
        except Exception as error:  # noqa: BLE001 - the boundary to an SDK, which may raise anything
            failure = translate(error, to=self.to, now=datetime.now(UTC))
        # Raised outside of the except block: the SDK's error may quote the prompt.
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Close the connections of this event loop, and drop those of others."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        if client is not None:
            await client.aclose()

    async def _client(self) -> ModelClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # Connections belong to their event loop: those of a closed loop cannot be used.
            for old in [loop for loop in self._clients if loop.is_closed()]:
                del self._clients[old]
            for module in (self.sdk, "windlass.price_table"):
                await asyncio.to_thread(import_module, module)
            # In a thread as well: a client loads the certificates of this machine.
            client = await asyncio.to_thread(self.make, self.address, self.settings)
            self._clients.setdefault(loop, client)
        return self._clients[loop]

    async def _check_type(self, response: "Response", expected: str) -> None:
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type == expected:
            return
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > ERROR_BYTES_MAX:
                break
        with suppress(ValueError):
            answer: object = json.loads(body)
            if isinstance(answer, dict) and "error" in answer:
                raise error_event(cast(object, answer), to=self.to)
        shown_type = content_type if _MEDIA_TYPE.fullmatch(content_type) else "no content type"
        raise stream_error(f"expected {expected}, found {shown_type}")

    def _event(self, data: str) -> JsonObject | None:
        if data.strip() == _DONE:
            return None
        if count_values(data.encode(), EVENT_VALUES_MAX) > EVENT_VALUES_MAX:
            raise stream_error(f"an event has too many values: limit {EVENT_VALUES_MAX:,}")
        event: object = json.loads(data)
        if not isinstance(event, dict):
            raise stream_error("an event is not an object")
        fields = cast(JsonObject, event)
        if fields.get("type") == "response.failed":
            raise error_event(fields.get("response"), to=self.to)
        if fields.get("error") or fields.get("object") == "error" or fields.get("type") == "error":
            raise error_event(fields, to=self.to)
        return fields


async def _drain(texts: AsyncIterator[str]) -> None:
    """Read the rest of a finished stream, so that its connection can be reused."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in texts:
                pass


class StreamReader(Protocol):
    """Reads one stream; `is_finished` is set once the stream is complete."""

    is_finished: bool

    def take(self, event: JsonObject) -> Iterator[LLMStreamChunk]:
        """Yield the chunks of an event."""
        ...


class ServedModel:
    """Base of providers with a server; subclasses build the request and read the stream."""

    holds_beside_tools = False
    """Whether a schema can be enforced for answers while tools are offered."""
    limit_fields: ClassVar[tuple[FieldPath, ...]] = (("max_tokens",),)
    """Fields of a request that limit its answer."""
    thinking_field: ClassVar[FieldPath] = ("thinking", "budget_tokens")
    """Field of a request with the tokens that the model may think."""
    default_answer_tokens: ClassVar[int | None] = None
    """The limit of a request without one in the settings; None if the server decides."""

    def __init__(self, model: str, line: Line, *, route_id: str) -> None:
        self.route_id = route_id
        self.model_id = model
        self._settings: ModelSettings = line.settings
        self._line = line

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_id!r})"

    @property
    def prices(self) -> str:
        """The address of the server, by which the price table knows it."""
        return self._line.address.base_url

    @property
    def answer_tokens(self) -> int | None:
        """Tokens of the longest answer; None if the server decides."""
        body = self._settings.body or {}
        limits = [limit for path in self.limit_fields if (limit := _tokens_at(body, path)) is not None]
        return max(limits) if limits else self._settings.max_tokens or self.default_answer_tokens

    @property
    def answer_tokens_min(self) -> int:
        """Tokens of the shortest answer that the model can be held to: what it may think counts."""
        budget = _tokens_at(self._settings.body or {}, self.thinking_field)
        return 1 if budget is None else max(budget, 0) + 1

    def with_answer_tokens(self, tokens: int) -> Self:
        """Return the same model with answers of at most so many tokens."""
        model = copy(self)
        body = self._settings.body or {}
        for path in self.limit_fields:
            body = _without(body, path)
        model._settings = replace(self._settings, max_tokens=tokens, body=body)
        return model

    def with_output(self, schema: JsonObject) -> Self:
        """Return the same model with answers in JSON that fit a schema."""
        model = copy(self)
        model._settings = replace(self._settings, output=schema)
        return model

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[LLMStreamChunk]:
        """Answer the messages; see `LLMProvider`."""
        definitions = tuple(tools or ())
        body: JsonObject | None = self._body(messages, tools=definitions, temperature=temperature)
        reader = self._reader(definitions)
        while body is not None:
            async with aclosing(self._line.events(body)) as events:
                async for event in events:
                    if event is not None:
                        for chunk in reader.take(event):
                            yield chunk
            body = self._next_body(body, reader)
        if not reader.is_finished:
            raise truncation_error()

    def _next_body(self, body: JsonObject, reader: StreamReader) -> JsonObject | None:
        """Return the request that continues an answer which the server has paused; None if it has not."""
        return None

    def _body(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[JsonObject], temperature: float | None
    ) -> JsonObject:
        """Return the body of the request."""
        raise NotImplementedError

    def _reader(self, tools: Sequence[JsonObject]) -> StreamReader:
        """Return the reader of the stream."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._line.aclose()


def _tokens_at(body: JsonObject, path: FieldPath) -> int | None:
    field: JsonValue = body
    for name in path:
        field = field.get(name) if isinstance(field, dict) else None
    return field if isinstance(field, int) and not isinstance(field, bool) else None


def _without(body: JsonObject, path: FieldPath) -> JsonObject:
    """Return a body without a field."""
    name, *below = path
    inner = body.get(name)
    if below and isinstance(inner, dict):
        return {**body, name: _without(inner, tuple(below))}
    return body if below else {other: value for other, value in body.items() if other != name}


def need_extra(extra: str, route_id: str, *modules: str) -> None:
    """Check that the modules of an extra are installed, without importing them.

    Raises:
        Unavailable: one is not installed.
    """
    if any(find_spec(module) is None for module in modules or (extra,)):
        raise not_set_up(route_id, f"run {install_hint(extra)}")


def need_key(key: str | None, variable: str, *, route_id: str, maker: str) -> str:
    """Return a key; `maker` is the class that takes one.

    Raises:
        Unavailable: the key is missing.
    """
    plain = (key or "").strip()
    if not plain:
        by_hand = f"{maker}(…, api_key=…) of windlass.models"
        raise not_set_up(route_id, f"set the variable {variable}, or give the agent model={by_hand}")
    return plain


def not_set_up(route_id: str, remedy: str) -> Unavailable:
    """Return the error for a route without the SDK, key or address of its provider."""
    return Unavailable(
        f"missing provider adapter for package route {route_id}: {remedy}",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )


def endpoint_of(
    base_url: str | None,
    url_variable: str,
    default: str,
    *,
    api_key: str | None,
    key_variable: str,
    environment: Environment,
    is_read: bool = False,
) -> tuple[str, ModelEndpoint]:
    """Return the address of a provider, given or from a variable or the default, and its endpoint.

    With `is_read` the given address was read from the variable.
    """
    variable_url = None if base_url else environment.get(url_variable)
    url = base_url or variable_url or default
    source: Source = "variable" if variable_url or is_read else "argument" if base_url else "default"
    return url, ModelEndpoint.of(
        url, url_variable, url_source=source, api_key=api_key, key_variable=key_variable
    )
