# Generated from spec/sidecar.schema.json by `make gen`. Do not edit.
"""What the sidecar sends by itself: parameters of its notifications and of its requests to the host; and the types of methods that have no other home.

The types are made on first use; the .pyi file declares them.
"""

from windlass_protocol.lazy import lazy_values as _lazy_values


def _make_ListenInfo() -> object:
    from windlass_protocol._wire import Open, Str

    class ListenInfo(Open):
        """Where a sidecar listens."""

        __qualname__ = "ListenInfo"

        transport: Str

    return ListenInfo


def _make_SidecarReady() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Count
    from windlass_protocol.generated.sidecar import ListenInfo

    class SidecarReady(Open):
        """Parameters of `lifecycle.ready`: the sidecar has started and listens."""

        __qualname__ = "SidecarReady"

        version: Str
        protocol_version: Str
        pid: Count
        listen_info: ListenInfo

    return SidecarReady


def _make_SidecarShutdown() -> object:
    from windlass_protocol._wire import Open, Str

    class SidecarShutdown(Open):
        """Parameters of `lifecycle.shutdown`: the last frame."""

        __qualname__ = "SidecarShutdown"

        reason: Str

    return SidecarShutdown


def _make_StreamCallDelta() -> object:
    from windlass_protocol._wire import Maybe, Open, Str

    class StreamCallDelta(Open):
        """A piece of the arguments of a call."""

        __qualname__ = "StreamCallDelta"

        id: Str
        arguments_delta: Str
        name: Maybe[Str] = None

    return StreamCallDelta


def _make_StreamToolResult() -> object:
    from pydantic import JsonValue

    from windlass_protocol._wire import Bool, KeepsNulls, Maybe, Open, Str

    class StreamToolResult(KeepsNulls, Open):
        """What came of a call in a stream."""

        __qualname__ = "StreamToolResult"

        id: Str
        success: Bool
        name: Maybe[Str] = None
        data: JsonValue = None
        error: Maybe[Str] = None

    return StreamToolResult


def _make_StreamChunk() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open, Str
    from windlass_protocol.generated.common import Id, Usage
    from windlass_protocol.generated.event_data import FinishReason
    from windlass_protocol.generated.input import InputRequest
    from windlass_protocol.generated.sidecar import StreamCallDelta, StreamToolResult
    from windlass_protocol.generated.tools import ToolCall

    class StreamChunk(Open):
        """Parameters of `stream.chunk`: a piece of a stream, which has one of these, or `finishReason` with
        `usage`.
        """

        __qualname__ = "StreamChunk"

        stream_id: Id
        delta: Maybe[Str] = None
        reasoning_delta: Maybe[Str] = None
        tool_call_delta: Maybe[StreamCallDelta] = None
        tool_call: Maybe[ToolCall] = None
        tool_result: Maybe[StreamToolResult] = None
        input_requests: Maybe[tuple[InputRequest, ...]] = None
        finish_reason: Maybe[FinishReason] = None
        usage: Maybe[Usage] = None
        restart: Maybe[Bool] = None

    return StreamChunk


def _make_StreamShape() -> object:
    from enum import StrEnum

    class StreamShape(StrEnum):
        """How `agent.chat.stream` tells of a run: steerable as `stream.chunk`, events as `stream.event` with the
        events of the runtime.
        """

        __qualname__ = "StreamShape"

        STEERABLE = "steerable"
        EVENTS = "events"

    return StreamShape


def _make_StreamEvent() -> object:
    from windlass_protocol._wire import Open
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.events import Event

    class StreamEvent(Open):
        """Parameters of `stream.event`: an event of the run, for a stream of shape events."""

        __qualname__ = "StreamEvent"

        stream_id: Id
        event: Event

    return StreamEvent


def _make_StreamError() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Id

    class StreamError(Open):
        """Parameters of `stream.error`: a stream failed; `stream.done` follows."""

        __qualname__ = "StreamError"

        stream_id: Id
        kind: Str
        message: Str

    return StreamError


def _make_StreamDone() -> object:
    from windlass_protocol._wire import Bool, Maybe, Open
    from windlass_protocol.generated.common import Id

    class StreamDone(Open):
        """Parameters of `stream.done`: a stream is over."""

        __qualname__ = "StreamDone"

        stream_id: Id
        ok: Bool
        cancelled: Maybe[Bool] = None

    return StreamDone


def _make_HostToolCall() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.common import Id, Positive
    from windlass_protocol.generated.tools import ToolCall

    class HostToolCall(Open):
        """Parameters of the request `host.tool.call`: the host executes a tool and answers with a ToolResult."""

        __qualname__ = "HostToolCall"

        stream_id: Id
        session_id: Id
        call: ToolCall
        idempotency_key: Str
        attempt: Positive
        timeout_ms: Positive | None

    return HostToolCall


def _make_HostInputRequest() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.common import Id
    from windlass_protocol.generated.input import InputRequest

    class HostInputRequest(Open):
        """Parameters of the request `host.input.request`: the host asks a person and answers with the option, the
        text or null.
        """

        __qualname__ = "HostInputRequest"

        stream_id: Id
        request: InputRequest
        problem: Maybe[Str] = None

    return HostInputRequest


def _make_HostRequestCancelled() -> object:
    from windlass_protocol._wire import Open, Str

    class HostRequestCancelled(Open):
        """Parameters of `host.request.cancelled`: the answer to a request is not waited for any more."""

        __qualname__ = "HostRequestCancelled"

        id: Str

    return HostRequestCancelled


def _make_ShellSeverity() -> object:
    from enum import StrEnum

    class ShellSeverity(StrEnum):
        """The grade of a shell command."""

        __qualname__ = "ShellSeverity"

        SAFE = "safe"
        CAUTION = "caution"
        DANGEROUS = "dangerous"

    return ShellSeverity


def _make_ShellPlatform() -> object:
    from enum import StrEnum

    class ShellPlatform(StrEnum):
        """The kind of system that would run a shell command."""

        __qualname__ = "ShellPlatform"

        UNIX = "unix"
        WINDOWS = "windows"

    return ShellPlatform


def _make_ShellClassify() -> object:
    from windlass_protocol._wire import Maybe, Open, Str
    from windlass_protocol.generated.sidecar import ShellPlatform
    from windlass_protocol.generated.tools import CommandSafetyPattern

    class ShellClassify(Open):
        """Parameters of `harness.classifyShell`: a shell command to grade."""

        __qualname__ = "ShellClassify"

        command: Str
        platform: Maybe[ShellPlatform] = None
        patterns: Maybe[tuple[CommandSafetyPattern, ...]] = None

    return ShellClassify


def _make_ShellReason() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.sidecar import ShellSeverity

    class ShellReason(Open):
        """One finding of the shell grader."""

        __qualname__ = "ShellReason"

        code: Str
        severity: ShellSeverity
        message: Str
        part: Str

    return ShellReason


def _make_ShellVerdict() -> object:
    from windlass_protocol._wire import Open, Str
    from windlass_protocol.generated.sidecar import ShellReason, ShellSeverity

    class ShellVerdict(Open):
        """Result of `harness.classifyShell`: the grade of a shell command."""

        __qualname__ = "ShellVerdict"

        severity: ShellSeverity
        category: Str
        reasons: tuple[ShellReason, ...]
        commands: tuple[tuple[Str, ...], ...]

    return ShellVerdict


__getattr__, __dir__ = _lazy_values(
    globals(),
    {
        "ListenInfo": _make_ListenInfo,
        "SidecarReady": _make_SidecarReady,
        "SidecarShutdown": _make_SidecarShutdown,
        "StreamCallDelta": _make_StreamCallDelta,
        "StreamToolResult": _make_StreamToolResult,
        "StreamChunk": _make_StreamChunk,
        "StreamShape": _make_StreamShape,
        "StreamEvent": _make_StreamEvent,
        "StreamError": _make_StreamError,
        "StreamDone": _make_StreamDone,
        "HostToolCall": _make_HostToolCall,
        "HostInputRequest": _make_HostInputRequest,
        "HostRequestCancelled": _make_HostRequestCancelled,
        "ShellSeverity": _make_ShellSeverity,
        "ShellPlatform": _make_ShellPlatform,
        "ShellClassify": _make_ShellClassify,
        "ShellReason": _make_ShellReason,
        "ShellVerdict": _make_ShellVerdict,
    },
)
