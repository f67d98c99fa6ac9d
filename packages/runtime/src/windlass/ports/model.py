"""Port of a model provider: messages, stream chunks, errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeGuard, cast, runtime_checkable

from windlass.errors import AgentError, Rejected, Unavailable
from windlass_protocol import ErrorKind, FinishReason, JsonObject, RetryClass
from windlass_protocol.frozen import sealed
from windlass_protocol.generated import errors, tools

if TYPE_CHECKING:
    from windlass_protocol import ErrorInfo

Role = Literal["system", "user", "assistant", "tool"]


Api = Literal["chat", "responses", "messages", "gemini", "converse"]
"""The API whose usage is read: Chat Completions, Responses, Messages of Anthropic, Gemini, Converse."""


PRICE_MAX: Final = 1_000_000
"""US dollars per million tokens, or for a request."""


@sealed
class ModelPrice:
    """Prices of a model, in US dollars per million tokens; `ModelPrice(0, 0)` is free.

    Tokens that are read from the provider's cache or written to it cost as much as others when left out.

    Raises:
        ValueError: a price is negative, too high or not a number.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    request: float = 0.0
    """Price of each request, in US dollars."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write", "request"):
            price: object = getattr(self, name)
            is_optional = name.startswith("cache")
            if is_optional and price is None:
                continue
            if not is_price(price) or price > PRICE_MAX:
                raise ValueError(
                    f"{name} must be a price in US dollars from 0 to {PRICE_MAX:,}, found {price!r}"
                )


def is_price(price: object) -> TypeGuard[float]:
    """Whether a value is an amount of dollars."""
    return isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price < inf


@sealed
class BilledRequest:
    """A request as its provider bills it."""

    api: Api
    usage: JsonObject
    """The usage as the provider sent it."""
    model: str | None = None
    """The model that answered, if the provider named it."""
    tier: str | None = None
    """The service tier, if the provider named it."""
    more: Mapping[str, int] = field(default_factory=dict[str, int])
    """Counts of what is billed beside the usage, such as web searches."""


@sealed
class LLMUsage:
    """Tokens and cost of an answer. None means that the provider did not report it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_micros: int | None = None
    """What the provider itself says that the answer cost, in millionths of a US dollar."""
    billed: tuple[BilledRequest, ...] = field(default=(), compare=False, repr=False)
    """The requests of the answer, for the price table; without them the tokens are priced."""


@sealed(weakref_slot=True)
class LLMMessage:
    """One message of the prompt.

    `parts` hold content other than text (images, files), in the wire form of a user part; `content` is then
    their text. An assistant message may contain tool calls; a tool message answers the named call.
    `provider_options` of an assistant message are the `provider_data` that came with it.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[tools.ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    parts: tuple[JsonObject, ...] = ()
    is_error: bool = False
    """A tool message for a call that failed or was refused."""
    provider_options: JsonObject | None = None

    def __repr__(self) -> str:
        # A message in a log or a traceback must not show what was said.
        calls = f", tool_calls=<{len(self.tool_calls)}>" if self.tool_calls else ""
        return f"LLMMessage(role={self.role!r}, content=<{len(self.content)} characters>{calls})"


@sealed
class ToolCallDelta:
    """A fragment of a tool call.

    Fragments with the same index form one call; their arguments are concatenated.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments_delta: str = ""


@sealed
class LLMStreamChunk:
    """A fragment of an answer.

    A tool call may come whole or in fragments. Usage and provider data may come at any time; the last ones
    count.
    """

    content_delta: str | None = None
    reasoning_delta: str | None = None
    tool_call_delta: tools.ToolCall | ToolCallDelta | None = None
    finish_reason: FinishReason | str | None = None
    usage: LLMUsage | None = None
    provider_data: JsonObject | None = None
    """Data that the provider needs back with this answer, such as a signature, under the provider's own name.

    It is written to the journal and passed to the provider of the next call. A provider must read only the
    data under its own name, and must accept that it may have been masked.
    """


REPORTED: Final = "reported"
"""The prices of a provider whose server knows them, keeps to limits, and reports costs."""


class LLMProvider(Protocol):
    """A model behind one route.

    A provider that knows its context window has an attribute `context_window_tokens`. One that has prices has
    an attribute `prices`: a ModelPrice, or the address of its server, by which the price table knows it, or
    `REPORTED` if the server has the prices, keeps to the limits that it is given, and reports what it spent.
    """

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Answer the messages, chunk by chunk; end with a chunk that has a finish reason.

        `tools` are JSON objects with name, description and inputSchema. Other runs share the schemas, which
        must not be changed. A stream that ends without a finish reason counts as cut off. Closing the
        iterator must end the request.

        Raises:
            Unavailable: the request can be repeated later.
            Rejected: repeating this request does not help.
        """
        ...


@runtime_checkable
class OutputProvider(LLMProvider, Protocol):
    """A provider that can constrain its answers to a JSON Schema.

    A provider that can do so together with tools has a true attribute `holds_beside_tools`.
    """

    def with_output(self, schema: JsonObject) -> LLMProvider:
        """Return a provider of the same model with answers constrained to a schema."""
        ...


@runtime_checkable
class LimitedProvider(LLMProvider, Protocol):
    """A provider whose answers can be made shorter."""

    answer_tokens: int | None
    """Tokens of the longest answer; None if the server decides."""
    answer_tokens_min: int
    """Tokens of the shortest answer that it can be held to; more than 1 for a model that must think first."""

    def with_answer_tokens(self, tokens: int) -> LLMProvider:
        """Return a provider of the same model with answers of at most so many tokens."""
        ...


def window_tokens(provider: LLMProvider) -> int | None:
    """Return the context window of a model in tokens; None if the provider does not declare it."""
    tokens = cast(object, getattr(provider, "context_window_tokens", None))
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def prices_of(provider: LLMProvider) -> ModelPrice | str | None:
    """Return the prices of a model, or the address by which the price table knows its server."""
    prices = cast(object, getattr(provider, "prices", None))
    return prices if isinstance(prices, ModelPrice | str) else None


class ModelFault(StrEnum):
    """Why a model call failed; it is `details.fault` of the error on the wire."""

    AUTH = "auth"
    """The API key is missing, wrong, or not valid for this model."""
    QUOTA = "quota"
    """The account has no credit left."""
    RATE_LIMIT = "rate_limit"
    CONTEXT_OVERFLOW = "context_overflow"
    """The messages exceed the context window: make them shorter and ask again."""
    INVALID_REQUEST = "invalid_request"
    SERVER = "server"
    TRANSPORT = "transport"
    """The server could not be reached, or the connection broke."""
    TIMEOUT = "timeout"
    CUT_OFF = "cut_off"
    """The stream ended in order, before the answer was complete."""
    EMPTY = "empty"
    """The answer has neither text nor calls, or it announces calls and has none."""
    MALFORMED = "malformed"
    """The response is not valid in the provider's wire format."""


class ModelRejected(Rejected):
    """The provider refused the request; repeating it does not help."""

    def __init__(self, message: str, *, fault: ModelFault, retry: RetryClass) -> None:
        super().__init__(message, kind=ErrorKind.PROVIDER_FAILURE, retry=retry)
        self.fault = fault

    def info(self) -> ErrorInfo:
        """Return the error as it crosses the wire, with its fault."""
        return super().info().model_copy(update={"details": {"fault": self.fault.value}})


class ModelUnavailable(Unavailable):
    """The provider failed.

    The request can be repeated, after `retry_after_ms` if the provider named a delay.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: ModelFault,
        retry_after_ms: int | None = None,
        is_unpaid: bool = False,
    ) -> None:
        kind = ErrorKind.TIMEOUT if fault is ModelFault.TIMEOUT else ErrorKind.PROVIDER_FAILURE
        super().__init__(message, kind=kind, retry=RetryClass.RETRYABLE)
        self.fault = fault
        self.retry_after_ms = retry_after_ms
        self.is_unpaid = is_unpaid or fault is ModelFault.RATE_LIMIT
        """Whether the provider began no answer: the request did not reach it, or was refused."""

    def info(self) -> ErrorInfo:
        """Return the error as it crosses the wire, with its fault."""
        more = {"details": {"fault": self.fault.value}, "retry_after_ms": self.retry_after_ms}
        return super().info().model_copy(update=more)


def is_unpaid(error: BaseException) -> bool:
    """Whether a model call that failed before its first chunk has cost nothing, for certain."""
    if isinstance(error, ModelUnavailable):
        return error.is_unpaid
    return isinstance(error, Rejected) and not (
        isinstance(error, ModelRejected) and error.fault is ModelFault.SERVER
    )


def is_context_overflow(error: AgentError | ErrorInfo) -> bool:
    """Whether a model call failed because the messages exceed the context window."""
    if isinstance(error, errors.ErrorInfo):
        return (error.details or {}).get("fault") == ModelFault.CONTEXT_OVERFLOW
    return isinstance(error, ModelRejected) and error.fault is ModelFault.CONTEXT_OVERFLOW


class ProviderSource(Protocol):
    """Creates providers for routes and models.

    If it has `routes`, the names of known routes, the error for an unknown route lists them.
    """

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return the provider, the same object each time; None if the route is unknown.

        Raises:
            Unavailable: the route is known, but its configuration, such as an API key, is missing.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
