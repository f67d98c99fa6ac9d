# Generated from spec/sidecar.schema.json by `make gen`. Do not edit.
"""What the sidecar sends by itself: parameters of its notifications and of its requests to the host; and the types of methods that have no other home."""

from enum import StrEnum

from pydantic import JsonValue

from windlass_protocol._wire import Bool, KeepsNulls, Maybe, Open, Str
from windlass_protocol.generated.common import Count, Id, Positive, Usage
from windlass_protocol.generated.event_data import FinishReason
from windlass_protocol.generated.events import Event
from windlass_protocol.generated.input import InputRequest
from windlass_protocol.generated.tools import CommandSafetyPattern, ToolCall

class ListenInfo(Open):
    """Where a sidecar listens."""

    transport: Str
    """How frames are carried, such as stdio."""

class SidecarReady(Open):
    """Parameters of `lifecycle.ready`: the sidecar has started and listens."""

    version: Str
    """Version of the sidecar."""
    protocol_version: Str
    """Version of the wire."""
    pid: Count
    """Process id."""
    listen_info: ListenInfo
    """Where it listens."""

class SidecarShutdown(Open):
    """Parameters of `lifecycle.shutdown`: the last frame."""

    reason: Str
    """Why it ends: normal (it was told to) or eof (stdin has ended); more may come."""

class StreamCallDelta(Open):
    """A piece of the arguments of a call."""

    id: Str
    """Identifier of the call."""
    arguments_delta: Str
    """The next piece of the arguments, as JSON text."""
    name: Maybe[Str] = None
    """Name of the tool."""

class StreamToolResult(KeepsNulls, Open):
    """What came of a call in a stream."""

    id: Str
    """Identifier of the call."""
    success: Bool
    """Whether the tool did what was asked."""
    name: Maybe[Str] = None
    """Name of the tool."""
    data: JsonValue = None
    """The result itself."""
    error: Maybe[Str] = None
    """What went wrong, as a text for the model."""

class StreamChunk(Open):
    """Parameters of `stream.chunk`: a piece of a stream, which has one of these, or `finishReason` with
    `usage`.
    """

    stream_id: Id
    """The stream, which is a run."""
    delta: Maybe[Str] = None
    """A piece of the answer."""
    reasoning_delta: Maybe[Str] = None
    """A piece of the reasoning."""
    tool_call_delta: Maybe[StreamCallDelta] = None
    """A piece of the arguments of a call."""
    tool_call: Maybe[ToolCall] = None
    """A call, whole."""
    tool_result: Maybe[StreamToolResult] = None
    """What came of a call."""
    input_requests: Maybe[tuple[InputRequest, ...]] = None
    """What people are asked."""
    finish_reason: Maybe[FinishReason] = None
    """Why the model stopped; a step is over."""
    usage: Maybe[Usage] = None
    """What the step used."""
    restart: Maybe[Bool] = None
    """Whether the step is tried again: what it said so far is void."""

class StreamShape(StrEnum):
    """How `agent.chat.stream` tells of a run: steerable as `stream.chunk`, events as `stream.event` with the
    events of the runtime.
    """

    STEERABLE = "steerable"
    EVENTS = "events"

class StreamEvent(Open):
    """Parameters of `stream.event`: an event of the run, for a stream of shape events."""

    stream_id: Id
    """The stream, which is a run."""
    event: Event
    """The event, as feeds over HTTP send it."""

class StreamError(Open):
    """Parameters of `stream.error`: a stream failed; `stream.done` follows."""

    stream_id: Id
    """The stream, which is a run."""
    kind: Str
    """What kind of failure it is: one of SidecarErrorKind; more may come."""
    message: Str
    """What went wrong, for people."""

class StreamDone(Open):
    """Parameters of `stream.done`: a stream is over."""

    stream_id: Id
    """The stream, which is a run."""
    ok: Bool
    """Whether all is well."""
    cancelled: Maybe[Bool] = None
    """Whether it was cancelled."""

class HostToolCall(Open):
    """Parameters of the request `host.tool.call`: the host executes a tool and answers with a ToolResult."""

    stream_id: Id
    """The stream, which is a run."""
    session_id: Id
    """The session of the run."""
    call: ToolCall
    """The call."""
    idempotency_key: Str
    """The same in every attempt at this call, another for every other call."""
    attempt: Positive
    """Which attempt at the call this is, from 1."""
    timeout_ms: Positive | None
    """The longest time that this attempt may take; null leaves it to the tool."""

class HostInputRequest(Open):
    """Parameters of the request `host.input.request`: the host asks a person and answers with the option, the
    text or null.
    """

    stream_id: Id
    """The stream, which is a run."""
    request: InputRequest
    """What is asked."""
    problem: Maybe[Str] = None
    """What was wrong with the last answer."""

class HostRequestCancelled(Open):
    """Parameters of `host.request.cancelled`: the answer to a request is not waited for any more."""

    id: Str
    """Identifier of the request."""

class ShellSeverity(StrEnum):
    """The grade of a shell command."""

    SAFE = "safe"
    CAUTION = "caution"
    DANGEROUS = "dangerous"

class ShellPlatform(StrEnum):
    """The kind of system that would run a shell command."""

    UNIX = "unix"
    WINDOWS = "windows"

class ShellClassify(Open):
    """Parameters of `harness.classifyShell`: a shell command to grade."""

    command: Str
    """The command line."""
    platform: Maybe[ShellPlatform] = None
    """Where it would run; unix when absent."""
    patterns: Maybe[tuple[CommandSafetyPattern, ...]] = None
    """Rules of the host; they can raise a grade and never lower one."""

class ShellReason(Open):
    """One finding of the shell grader."""

    code: Str
    """Which rule found it."""
    severity: ShellSeverity
    """How bad it is."""
    message: Str
    """What was found, for people."""
    part: Str
    """The part of the command that it was found in."""

class ShellVerdict(Open):
    """Result of `harness.classifyShell`: the grade of a shell command."""

    severity: ShellSeverity
    """The grade: that of the worst finding."""
    category: Str
    """The category of the worst finding."""
    reasons: tuple[ShellReason, ...]
    """The findings, worst first."""
    commands: tuple[tuple[Str, ...], ...]
    """The words of each simple command if the whole command is literal; else empty."""
