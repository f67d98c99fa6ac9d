"""What can go wrong with a model, told apart so that somebody can act on it."""

from enum import StrEnum

from windlass.errors import AgentError, Rejected, Unavailable
from windlass_protocol import ErrorInfo, ErrorKind, RetryClass


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
