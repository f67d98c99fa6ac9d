"""Errors as they cross the wire: what JSON-RPC has, and five of our own."""

from enum import IntEnum
from typing import Final

from pydantic import JsonValue

from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable
from windlass_protocol import ErrorInfo, ErrorKind, SidecarError, SidecarErrorKind
from windlass_protocol.codec_errors import shown
from windlass_sidecar.limits import ERROR_CHARS_MAX


class Code(IntEnum):
    """Codes of errors."""

    PARSE = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL = -32603
    BUDGET_EXHAUSTED = -32001
    POLICY_DENIED = -32002
    TOOL_DISPATCH = -32003
    STORAGE = -32004
    """The store failed, or what was asked for is not in it."""
    TRANSPORT = -32005
    """The sidecar cannot take this now, or the other end cannot be reached."""


_KINDS: Final = {
    Code.PARSE: SidecarErrorKind.PARSE,
    Code.INVALID_REQUEST: SidecarErrorKind.INVALID_REQUEST,
    Code.METHOD_NOT_FOUND: SidecarErrorKind.METHOD_NOT_FOUND,
    Code.INVALID_PARAMS: SidecarErrorKind.INVALID_PARAMS,
    Code.INTERNAL: SidecarErrorKind.INTERNAL,
    Code.BUDGET_EXHAUSTED: SidecarErrorKind.BUDGET_EXHAUSTED,
    Code.POLICY_DENIED: SidecarErrorKind.POLICY_DENIED,
    Code.TOOL_DISPATCH: SidecarErrorKind.TOOL_FAILED,
    Code.STORAGE: SidecarErrorKind.INTERNAL,
    Code.TRANSPORT: SidecarErrorKind.TRANSPORT_CLOSED,
}
_BY_CAUSE: Final = {
    ErrorKind.CANCELLATION: SidecarErrorKind.CANCELLED,
    ErrorKind.TIMEOUT: SidecarErrorKind.TIMEOUT,
    ErrorKind.POLICY_DENIAL: SidecarErrorKind.POLICY_DENIED,
    ErrorKind.APPROVAL_FAILURE: SidecarErrorKind.POLICY_DENIED,
    ErrorKind.TOOL_FAILURE: SidecarErrorKind.TOOL_FAILED,
}
_LINE_FAULTS: Final = frozenset({"transport", "cut_off"})


class RpcError(Exception):
    """A call that cannot be answered with a result."""

    def __init__(
        self, code: Code, message: str, *, kind: SidecarErrorKind | None = None, data: JsonValue = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = kind
        self.data = data

    @property
    def wire(self) -> SidecarError:
        """The error as it is sent."""
        fields: dict[str, object] = {
            "code": int(self.code),
            "message": shown(self.message, ERROR_CHARS_MAX),
            "kind": self.kind or _KINDS[self.code],
        }
        if self.data is not None:
            fields["data"] = self.data
        return SidecarError.model_validate(fields)


def invalid_params(message: str) -> RpcError:
    """Return the error of parameters that cannot be used."""
    return RpcError(Code.INVALID_PARAMS, message)


def not_found(message: str) -> RpcError:
    """Return the error of something that is not in the store."""
    return RpcError(Code.STORAGE, message, kind=SidecarErrorKind.INVALID_PARAMS)


def of_agent_error(error: AgentError) -> RpcError:
    """Return an error of the runtime as it crosses the wire."""
    info = error.info()
    data = info.model_dump(mode="json", by_alias=True, include={"code", "kind", "retry", "retry_after_ms"})
    match error:
        case Denied():
            return RpcError(Code.POLICY_DENIED, error.message, data=data)
        case Rejected() | Conflict():
            return RpcError(Code.INVALID_PARAMS, error.message, data=data)
        case Unavailable() if info.kind is ErrorKind.PROVIDER_FAILURE:
            return RpcError(Code.INVALID_PARAMS, error.message, data=data)
        case _:
            return RpcError(Code.STORAGE, error.message, data=data)


def stream_kind(error: ErrorInfo) -> SidecarErrorKind:
    """Return what kind of failure ended a stream."""
    if error.kind is ErrorKind.PROVIDER_FAILURE and (error.details or {}).get("fault") in _LINE_FAULTS:
        return SidecarErrorKind.TRANSPORT_CLOSED
    return _BY_CAUSE.get(error.kind, SidecarErrorKind.INTERNAL)
