"""Port of a model provider: messages, stream chunks, errors."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, cast, runtime_checkable

from pydantic import JsonValue

from windlass.errors import AgentError, Rejected, Unavailable
from windlass_protocol import ErrorInfo, ErrorKind, FinishReason, RetryClass, ToolCall

JsonObject = dict[str, JsonValue]
Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class LLMUsage:
    """What an answer cost. None means that the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LLMMessage:
    """One message of the prompt.

    `parts` hold what is more than text (images, files), in the wire form of a user part; `content` is then
    the text of them. An assistant message may ask for tools; a tool message answers the call named.
    `provider_options` of an assistant message are the `provider_data` that came with it.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None
    parts: tuple[JsonObject, ...] = ()
    is_error: bool = False
    """A tool message whose call failed or was refused."""
    provider_options: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call.

    Pieces with the same index belong together, arguments are joined as text.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments_delta: str = ""


@dataclass(frozen=True, slots=True)
class LLMStreamChunk:
    """A piece of an answer.

    A tool call may come whole or in pieces; usage and provider data may come at any time, and the last
    counts.
    """

    content_delta: str | None = None
    reasoning_delta: str | None = None
    tool_call_delta: ToolCall | ToolCallDelta | None = None
    finish_reason: FinishReason | str | None = None
    usage: LLMUsage | None = None
    provider_data: JsonObject | None = None
    """What the provider wants back with this answer, such as a signature, under a name of its own.

    It is kept in the journal, and whoever is asked next gets it: take only what is under your name, and bear
    that it may have been masked.
    """


class LLMProvider(Protocol):
    """A model behind one route.

    One that knows how many tokens it reads at most says so in an attribute `context_window_tokens`.
    """

    def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        """Answer the messages, chunk by chunk; end with a chunk that has a finish reason.

        `tools` are JSON objects with name, description and inputSchema. A stream that ends without a finish
        reason counts as cut off. Closing the iterator must end the request.

        Raises:
            Unavailable: the model can be asked again later.
            Rejected: this request will never be answered.
        """
        ...


@runtime_checkable
class OutputProvider(LLMProvider, Protocol):
    """A model whose server can hold its answers to a JSON Schema.

    One that may call tools all the same says so in an attribute `holds_beside_tools`.
    """

    def with_output(self, schema: JsonObject) -> LLMProvider:
        """Return the same model, whose answers are JSON that fits a schema."""
        ...


def window_tokens(provider: LLMProvider) -> int | None:
    """Return how many tokens a model reads at most; None if it does not say."""
    found = cast(object, getattr(provider, "context_window_tokens", None))
    return found if isinstance(found, int) and found > 0 else None


class ModelFault(StrEnum):
    """Why a model did not answer; it is `details.fault` of the error on the wire."""

    AUTH = "auth"
    """The key is missing, wrong, or not good for this model."""
    QUOTA = "quota"
    """The account has no money left."""
    RATE_LIMIT = "rate_limit"
    CONTEXT_OVERFLOW = "context_overflow"
    """The messages do not fit the model: make them shorter and ask again."""
    INVALID_REQUEST = "invalid_request"
    SERVER = "server"
    TRANSPORT = "transport"
    """The server could not be reached, or the connection broke."""
    TIMEOUT = "timeout"
    CUT_OFF = "cut_off"
    """The stream ended in order, before the answer did."""
    MALFORMED = "malformed"
    """What came is not what the provider's wire format allows."""


class ModelRejected(Rejected):
    """A model that will never answer this request."""

    def __init__(self, message: str, *, fault: ModelFault, retry: RetryClass) -> None:
        super().__init__(message, kind=ErrorKind.PROVIDER_FAILURE, retry=retry)
        self.fault = fault

    def info(self) -> ErrorInfo:
        """Return the error as it crosses the wire, with its fault."""
        return super().info().model_copy(update={"details": {"fault": self.fault.value}})


class ModelUnavailable(Unavailable):
    """A model that can be asked again; after `retry_after_ms`, if it said so."""

    def __init__(self, message: str, *, fault: ModelFault, retry_after_ms: int | None = None) -> None:
        kind = ErrorKind.TIMEOUT if fault is ModelFault.TIMEOUT else ErrorKind.PROVIDER_FAILURE
        super().__init__(message, kind=kind, retry=RetryClass.RETRYABLE)
        self.fault = fault
        self.retry_after_ms = retry_after_ms

    def info(self) -> ErrorInfo:
        """Return the error as it crosses the wire, with its fault."""
        more = {"details": {"fault": self.fault.value}, "retry_after_ms": self.retry_after_ms}
        return super().info().model_copy(update=more)


def is_context_overflow(error: AgentError | ErrorInfo) -> bool:
    """Whether a model could not answer because the messages were too long for it."""
    if isinstance(error, ErrorInfo):
        return (error.details or {}).get("fault") == ModelFault.CONTEXT_OVERFLOW
    return isinstance(error, ModelRejected) and error.fault is ModelFault.CONTEXT_OVERFLOW


class ProviderSource(Protocol):
    """Makes providers by the names of routes and models.

    One that has `routes`, the names of those it knows, is quoted with them when somebody asks for another.
    """

    def provider(self, route_id: str, model_id: str) -> LLMProvider | None:
        """Return who answers, the same each time; None if the route is not known.

        Raises:
            Unavailable: the route is known, and something of the host is missing for it.
        """
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...
