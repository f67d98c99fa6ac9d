# Generated from spec/rpc.schema.json by `make gen`. Do not edit.
"""JSON-RPC 2.0 as the sidecar speaks it on stdio."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints

from windlass_protocol._wire import (
    Closed,
    ExactlyOne,
    Float,
    JsonObject,
    KeepsNulls,
    Maybe,
    Open,
    Str,
    Tagged,
)
from windlass_protocol.generated.common import Count, Integer

class SidecarRequest(KeepsNulls, Tagged, Closed):
    """A call that wants an answer."""

    __constants__ = ("jsonrpc",)

    id: Str | Integer | None
    """Identifier of the call; the answer carries the same one."""
    method: Annotated[Str, StringConstraints(min_length=1)]
    """Method name, such as system.ping."""
    jsonrpc: Literal["2.0"] = "2.0"
    """Protocol version."""
    params: JsonObject | tuple[JsonValue, ...] | None = None
    """Parameters by name or by position."""

class SidecarNotification(KeepsNulls, Tagged, Closed):
    """A message that wants no answer."""

    __constants__ = ("jsonrpc",)

    method: Annotated[Str, StringConstraints(min_length=1)]
    """Method name, such as stream.chunk."""
    jsonrpc: Literal["2.0"] = "2.0"
    """Protocol version."""
    params: JsonObject | tuple[JsonValue, ...] | None = None
    """Parameters by name or by position."""

class SidecarErrorKind(StrEnum):
    """What kind of failure a sidecar error is."""

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

class SidecarError(KeepsNulls, Closed):
    """Why a call failed."""

    code: Integer
    """JSON-RPC error code."""
    message: Annotated[Str, StringConstraints(max_length=1024)]
    """What went wrong, for people."""
    data: JsonValue = None
    """Further facts, already redacted."""
    kind: Maybe[SidecarErrorKind] = None
    """What kind of failure it is."""

class SidecarResponse(KeepsNulls, ExactlyOne, Tagged, Closed):
    """The answer to a call: exactly one of `result` (which may be null) and `error`."""

    __exactly_one_of__ = ("result", "error")

    __constants__ = ("jsonrpc",)

    id: Str | Integer | None
    """Identifier of the call; null when it could not be read."""
    jsonrpc: Literal["2.0"] = "2.0"
    """Protocol version."""
    result: JsonValue = None
    """What the method returned."""
    error: Maybe[SidecarError] = None
    """Why the call failed."""

class SidecarStatus(StrEnum):
    """How the sidecar is."""

    OK = "ok"
    DEGRADED = "degraded"
    STARTING = "starting"
    SHUTTING_DOWN = "shutting_down"

class CheckStatus(StrEnum):
    """How one check went."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"

class SidecarCheck(Open):
    """One health check."""

    status: CheckStatus
    """How it went."""
    message: Maybe[Str] = None
    """What it found."""
    latency_ms: Maybe[Float] = None
    """How long it took."""

class SidecarHealth(Open):
    """How the sidecar is and what it has loaded."""

    status: SidecarStatus
    """How it is."""
    version: Str
    """Version of the sidecar."""
    uptime_ms: Annotated[Float, Field(ge=0)]
    """Time since start."""
    protocol_version: Maybe[Str] = None
    """Version of the wire."""
    pid: Maybe[Count] = None
    """Process id."""
    python_version: Maybe[Str] = None
    """Version of Python."""
    platform: Maybe[Str] = None
    """Operating system."""
    loaded_providers: Maybe[tuple[Str, ...]] = None
    """Providers that are ready."""
    loaded_tools: Maybe[Count] = None
    """Number of tools."""
    active_traces: Maybe[Count] = None
    """Number of running traces."""
    checks: Maybe[dict[str, SidecarCheck]] = None
    """Checks by name."""
