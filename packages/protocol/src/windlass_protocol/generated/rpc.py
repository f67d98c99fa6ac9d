# Generated from spec/rpc.schema.json by `make gen`. Do not edit.
"""JSON-RPC 2.0 as the sidecar speaks it on stdio.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_SidecarRequest() -> object:
    from typing import Annotated, Literal

    from pydantic import JsonValue, StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, KeepsNulls, Str, Tagged
    from windlass_protocol.generated.common import Integer

    class SidecarRequest(KeepsNulls, Tagged, Closed):
        """A call that wants an answer."""

        __qualname__ = "SidecarRequest"

        __constants__ = ("jsonrpc",)

        id: Str | Integer | None
        method: Annotated[Str, StringConstraints(min_length=1)]
        jsonrpc: Literal["2.0"] = "2.0"
        params: JsonObject | tuple[JsonValue, ...] | None = None

    return SidecarRequest


def _make_SidecarNotification() -> object:
    from typing import Annotated, Literal

    from pydantic import JsonValue, StringConstraints

    from windlass_protocol._wire import Closed, JsonObject, KeepsNulls, Str, Tagged

    class SidecarNotification(KeepsNulls, Tagged, Closed):
        """A message that wants no answer."""

        __qualname__ = "SidecarNotification"

        __constants__ = ("jsonrpc",)

        method: Annotated[Str, StringConstraints(min_length=1)]
        jsonrpc: Literal["2.0"] = "2.0"
        params: JsonObject | tuple[JsonValue, ...] | None = None

    return SidecarNotification


def _make_SidecarErrorKind() -> object:
    from enum import StrEnum

    class SidecarErrorKind(StrEnum):
        """What kind of failure a sidecar error is."""

        __qualname__ = "SidecarErrorKind"

        PARSE = "parse"
        INVALID_REQUEST = "invalid_request"
        METHOD_NOT_FOUND = "method_not_found"
        INVALID_PARAMS = "invalid_params"
        INTERNAL = "internal"
        BUDGET_EXHAUSTED = "budget_exhausted"
        POLICY_DENIED = "policy_denied"
        TOOL_FAILED = "tool_failed"
        TRANSPORT_CLOSED = "transport_closed"
        TIMEOUT = "timeout"
        CANCELLED = "cancelled"

    return SidecarErrorKind


def _make_SidecarError() -> object:
    from typing import Annotated

    from pydantic import JsonValue, StringConstraints

    from windlass_protocol._wire import Closed, KeepsNulls, Maybe, Str
    from windlass_protocol.generated.common import Integer
    from windlass_protocol.generated.rpc import SidecarErrorKind

    class SidecarError(KeepsNulls, Closed):
        """Why a call failed."""

        __qualname__ = "SidecarError"

        code: Integer
        message: Annotated[Str, StringConstraints(max_length=1024)]
        data: JsonValue = None
        kind: Maybe[SidecarErrorKind] = None

    return SidecarError


def _make_SidecarResponse() -> object:
    from typing import Literal

    from pydantic import JsonValue

    from windlass_protocol._wire import Closed, ExactlyOne, KeepsNulls, Maybe, Str, Tagged
    from windlass_protocol.generated.common import Integer
    from windlass_protocol.generated.rpc import SidecarError

    class SidecarResponse(KeepsNulls, ExactlyOne, Tagged, Closed):
        """The answer to a call: exactly one of `result` (which may be null) and `error`."""

        __qualname__ = "SidecarResponse"

        __exactly_one_of__ = ("result", "error")

        __constants__ = ("jsonrpc",)

        id: Str | Integer | None
        jsonrpc: Literal["2.0"] = "2.0"
        result: JsonValue = None
        error: Maybe[SidecarError] = None

    return SidecarResponse


def _make_SidecarStatus() -> object:
    from enum import StrEnum

    class SidecarStatus(StrEnum):
        """How the sidecar is."""

        __qualname__ = "SidecarStatus"

        OK = "ok"
        DEGRADED = "degraded"
        STARTING = "starting"
        SHUTTING_DOWN = "shutting_down"

    return SidecarStatus


def _make_CheckStatus() -> object:
    from enum import StrEnum

    class CheckStatus(StrEnum):
        """How one check went."""

        __qualname__ = "CheckStatus"

        OK = "ok"
        WARN = "warn"
        ERROR = "error"

    return CheckStatus


def _make_SidecarCheck() -> object:
    from windlass_protocol._wire import Float, Maybe, Open, Str
    from windlass_protocol.generated.rpc import CheckStatus

    class SidecarCheck(Open):
        """One health check."""

        __qualname__ = "SidecarCheck"

        status: CheckStatus
        message: Maybe[Str] = None
        latency_ms: Maybe[Float] = None

    return SidecarCheck


def _make_SidecarHealth() -> object:
    from typing import Annotated

    from pydantic import Field

    from windlass_protocol._wire import Float, Maybe, Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.rpc import SidecarCheck, SidecarStatus

    class SidecarHealth(Open):
        """How the sidecar is and what it has loaded."""

        __qualname__ = "SidecarHealth"

        status: SidecarStatus
        version: Str
        uptime_ms: Annotated[Float, Field(ge=0)]
        protocol_version: Maybe[Str] = None
        pid: Maybe[Count] = None
        python_version: Maybe[Str] = None
        platform: Maybe[Str] = None
        loaded_providers: Maybe[tuple[Str, ...]] = None
        loaded_tools: Maybe[Count] = None
        active_traces: Maybe[Count] = None
        checks: Maybe[dict[str, SidecarCheck]] = None

    return SidecarHealth


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "SidecarRequest": _make_SidecarRequest,
        "SidecarNotification": _make_SidecarNotification,
        "SidecarErrorKind": _make_SidecarErrorKind,
        "SidecarError": _make_SidecarError,
        "SidecarResponse": _make_SidecarResponse,
        "SidecarStatus": _make_SidecarStatus,
        "CheckStatus": _make_CheckStatus,
        "SidecarCheck": _make_SidecarCheck,
        "SidecarHealth": _make_SidecarHealth,
    },
)
