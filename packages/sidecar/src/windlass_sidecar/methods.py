"""The methods of the sidecar: parameters, functions, and the catalogue of all names."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from windlass import ToolCall
from windlass.tools.calling import in_own_thread
from windlass_harness.shell import ShellConfig, classify_shell_command
from windlass_harness.tracing import TraceState, fold_trace
from windlass_protocol import (
    AgentSessionChange,
    CommandSafetyPattern,
    HostInputRequest,
    HostRequestCancelled,
    HostToolCall,
    ShellVerdict,
    SidecarReady,
    SidecarShutdown,
    StreamChunk,
    StreamDone,
    StreamError,
    StreamEvent,
)
from windlass_protocol.codec_issues import invalid
from windlass_sidecar import PROTOCOL_VERSION, __version__
from windlass_sidecar.app import App, health
from windlass_sidecar.chat import CALL, ChatStream, HostAnswer
from windlass_sidecar.limits import (
    BATCH_ITEMS_MAX,
    FEATURES_MAX,
    FRAME_BYTES_MAX,
    FRAME_LEVELS_MAX,
    PATTERNS_MAX,
    SESSIONS_LISTED_MAX,
    STREAMS_MAX,
)
from windlass_sidecar.rpc import (
    INPUT,
    WITHDRAWN,
    Code,
    Later,
    Method,
    Name,
    NoParams,
    Params,
    invalid_params,
    method,
    not_found,
)
from windlass_sidecar.streams import CHUNK, DONE, ERROR, EVENT

READY: Final = "lifecycle.ready"
SHUTDOWN: Final = "lifecycle.shutdown"
FEATURES: Final = (
    "batches",
    "classify-shell",
    "durable-streams",
    "host-input",
    "host-tools",
    "stream-events",
    "tool-loop",
)
NOTIFICATIONS: Final[Mapping[str, type[BaseModel]]] = {
    READY: SidecarReady,
    SHUTDOWN: SidecarShutdown,
    CHUNK: StreamChunk,
    EVENT: StreamEvent,
    DONE: StreamDone,
    ERROR: StreamError,
    WITHDRAWN: HostRequestCancelled,
}
"""The notifications to the host, and the types of their parameters."""
HOST_METHODS: Final[Mapping[str, type[BaseModel]]] = {CALL: HostToolCall, INPUT: HostInputRequest}
"""The requests to the host, and the types of their parameters."""


# system.*


async def ping(app: App, params: NoParams) -> JsonValue:
    """Return the health of the sidecar."""
    return _plain(await health(app))


async def shutdown(app: App, params: NoParams) -> Later:
    """Shut down after requests and streams that are under way."""
    return Later(None, app.stop.set)


async def shutdown_now(app: App, params: NoParams) -> Later:
    """Shut down at once; runs continue when their streams are asked for again."""
    return Later(None, app.stop_now)


# protocol.*


class HostFacts(Params):
    """The host's description of itself."""

    features: Annotated[list[str], Field(max_length=FEATURES_MAX, default_factory=list[str])]


class Describe(Params):
    """Parameters of `protocol.describe`; without `host` its features stay as they are."""

    host: HostFacts | None = None


async def describe(app: App, params: Describe) -> JsonValue:
    """Return what the sidecar offers, and keep which requests the host answers."""
    if params.host is not None:
        app.host.features = frozenset(params.host.features)
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "version": __version__,
        "features": [*FEATURES],
        "methods": [_describe_method(entry) for entry in CATALOGUE.values()],
        "notifications": [*NOTIFICATIONS],
        "hostMethods": [*HOST_METHODS],
        "errorCodes": {code.name.lower(): int(code) for code in Code},
        "limits": {
            "frameBytesMax": FRAME_BYTES_MAX,
            "frameLevelsMax": FRAME_LEVELS_MAX,
            "batchItemsMax": BATCH_ITEMS_MAX,
            "streamsMax": STREAMS_MAX,
        },
    }


def _describe_method(entry: Method[App]) -> JsonValue:
    fields = entry.params.model_fields
    names: list[JsonValue] = [field.alias or name for name, field in fields.items()]
    required: list[JsonValue] = [field.alias or name for name, field in fields.items() if field.is_required()]
    return {"name": entry.name, "params": names, "required": required}


# agent.session.*


class SessionCreate(Params):
    """Parameters of `agent.session.create`."""

    chat_id: Name
    session_id: Name | None = None
    user_id: Name | None = None
    current_stage: Name | None = None
    scenario: str | None = None
    stage_data: dict[str, JsonValue] | None = None
    project_id: str | None = None


class SessionResume(Params):
    """Parameters of `agent.session.resume`."""

    session_id: Name


class SessionUpdate(Params):
    """Parameters of `agent.session.update`: a session and an `AgentSessionChange`."""

    session_id: Name
    current_stage: Name | None = None
    next_stage: Name | None = None
    stage_data: dict[str, JsonValue] | None = None


class SessionList(Params):
    """Parameters of `agent.session.list`; without filters all sessions are listed."""

    user_id: Name | None = None
    chat_id: Name | None = None
    active_only: bool | None = None
    limit: Annotated[int | None, Field(gt=0, le=SESSIONS_LISTED_MAX)] = None


async def create_session(app: App, params: SessionCreate) -> JsonValue:
    """Journal a session; the same request again returns the same session."""
    return _plain(
        await app.runtime.sessions.agent_sessions.create(
            params.chat_id,
            session_id=params.session_id,
            user_id=params.user_id,
            current_stage=params.current_stage,
            scenario=params.scenario,
            stage_data=params.stage_data,
            project_id=params.project_id,
        )
    )


async def resume_session(app: App, params: SessionResume) -> JsonValue:
    """Return a session; a stream with its id goes on in it."""
    if await app.store.session_info(params.session_id) is None:
        raise not_found("unknown session; agent.session.list names those that there are")
    return _plain(await app.runtime.sessions.agent_sessions.get(params.session_id))


async def update_session(app: App, params: SessionUpdate) -> JsonValue:
    """Change the stage of a session, also while a stream is under way in it."""
    if await app.store.session_info(params.session_id) is None:
        raise not_found("unknown session; agent.session.list names those that there are")
    change = AgentSessionChange.model_validate(
        params.model_dump(by_alias=True, exclude={"session_id"}, exclude_unset=True)
    )
    return _plain(await app.runtime.sessions.agent_sessions.update(params.session_id, change))


async def list_sessions(app: App, params: SessionList) -> JsonValue:
    """Return sessions, newest first."""
    page = await app.runtime.sessions.agent_sessions.list(
        user_id=params.user_id,
        chat_id=params.chat_id,
        active_only=params.active_only or False,
        limit=params.limit or SESSIONS_LISTED_MAX,
    )
    return [_plain(session) for session in page.items]


# agent.chat.* and agent.input.*


class ChatCancel(Params):
    """Parameters of `agent.chat.cancel`."""

    stream_id: Name


class InputAnswer(HostAnswer):
    """Parameters of `agent.input.answer`: an answer outside of `host.input.request`."""

    stream_id: Name
    request_id: Name


async def stream(app: App, params: ChatStream) -> Later:
    """Start a run; its notifications begin after the host has got its id."""
    new_stream = app.streams.reserve(params.stream_id or app.new_id())
    handle = await app.streams.begin(new_stream, params)
    return Later(
        {"streamId": handle.run_id}, lambda: app.streams.tell(new_stream, params.shape or "steerable")
    )


async def cancel(app: App, params: ChatCancel) -> JsonValue:
    """Ask a stream to end; `stream.done` says when it has."""
    if params.stream_id not in app.streams:
        await _check_stream(app, params.stream_id)
    await app.streams.cancel(params.stream_id)
    return None


async def answer(app: App, params: InputAnswer) -> JsonValue:
    """Answer a request of a run to people."""
    await _check_stream(app, params.stream_id)
    handle = app.runtime.handle(params.stream_id)
    await handle.answer(
        params.request_id,
        params.option_id,
        text=params.text,
        responder=params.responder,
        arguments=params.arguments,
    )
    return None


async def _check_stream(app: App, stream_id: str) -> None:
    if await app.store.run(stream_id) is None:
        raise not_found("unknown stream")


# tool.*, trace.*, harness.*, config.*


class ToolInvoke(Params):
    """Parameters of `tool.invoke`: a call, and whether a person consents to it."""

    name: Name
    arguments: dict[str, JsonValue] | None = None
    id: Name | None = None
    consent_granted: bool | None = None


class TraceFetch(Params):
    """Parameters of `trace.fetch`; the id of a trace is that of its stream."""

    trace_id: Name


class ClassifyShell(Params):
    """Parameters of `harness.classifyShell`, as `ShellClassify` of the spec."""

    command: str
    platform: Literal["unix", "windows"] | None = None
    patterns: Annotated[list[dict[str, JsonValue]] | None, Field(max_length=PATTERNS_MAX)] = None


class ConfigSet(Params):
    """Parameters of `config.set`."""

    log_level: Literal["debug", "info", "warning", "error"] | None = None


async def list_tools(app: App, params: NoParams) -> JsonValue:
    """Return the descriptions of the sidecar's tools."""
    return [_plain(tool.spec) for tool in app.tools.list_tools()]


async def invoke_tool(app: App, params: ToolInvoke) -> JsonValue:
    """Call a tool. A failed call is a result; missing consent is an error."""
    call = ToolCall(id=params.id or app.new_id(), name=params.name, arguments=params.arguments or {})
    return _plain(await app.tools.dispatch(call, consent_granted=params.consent_granted or False))


async def fetch_trace(app: App, params: TraceFetch) -> JsonValue:
    """Return a trace with its spans and events, also of a run that is under way."""
    run = await app.store.run(params.trace_id)
    state = TraceState()
    after = 0
    while run is not None and (records := await app.store.read(run.session_id, after=after)):
        state = fold_trace(records, state, run_id=params.trace_id)
        after = records[-1].seq
    if state.trace is None:
        raise not_found("unknown trace")
    return {
        "trace": _plain(state.trace),
        "spans": [_plain(span) for span in state.spans],
        "events": [_plain(event) for event in state.events],
    }


def _pattern(fields: dict[str, JsonValue]) -> CommandSafetyPattern:
    try:
        return CommandSafetyPattern.model_validate(fields)
    except ValidationError as error:
        first = invalid(error, fields).issues[0]
    raise invalid_params(f"patterns: {first.path or '/'}: {first.message}")


async def classify_shell(app: App, params: ClassifyShell) -> JsonValue:
    """Grade a shell command as `classify_shell_command` does."""
    patterns = tuple(_pattern(fields) for fields in params.patterns or ())
    config = ShellConfig(patterns=patterns, platform=params.platform or "unix")
    verdict = await in_own_thread(lambda: classify_shell_command(params.command, config))
    return _plain(ShellVerdict.model_validate(asdict(verdict)))


async def get_config(app: App, params: NoParams) -> JsonValue:
    """Return the configuration."""
    return {"logLevel": app.settings.log_level, "store": app.store_name}


async def set_config(app: App, params: ConfigSet) -> JsonValue:
    """Change the configuration."""
    if params.log_level is None:
        raise invalid_params("config.set takes logLevel: debug, info, warning or error")
    app.settings.log_level = params.log_level
    app.settings.apply()
    return None


def _plain(document: BaseModel) -> JsonValue:
    return document.model_dump(mode="json", by_alias=True)


CATALOGUE: Final[Mapping[str, Method[App]]] = {
    entry.name: entry
    for entry in (
        method("system.ping", NoParams, run=ping, is_urgent=True),
        method("system.shutdown", NoParams, run=shutdown, is_urgent=True),
        method("system.shutdown_now", NoParams, run=shutdown_now, is_urgent=True),
        method("protocol.describe", Describe, run=describe, is_urgent=True),
        method("agent.session.create", SessionCreate, run=create_session),
        method("agent.session.resume", SessionResume, run=resume_session),
        method("agent.session.update", SessionUpdate, run=update_session),
        method("agent.session.list", SessionList, run=list_sessions),
        method("agent.chat.stream", ChatStream, run=stream),
        method("agent.chat.cancel", ChatCancel, run=cancel, is_urgent=True),
        method("agent.input.answer", InputAnswer, run=answer, is_urgent=True),
        method("tool.list", NoParams, run=list_tools),
        method("tool.invoke", ToolInvoke, run=invoke_tool),
        method("trace.fetch", TraceFetch, run=fetch_trace),
        method("harness.classifyShell", ClassifyShell, run=classify_shell),
        method("config.get", NoParams, run=get_config),
        method("config.set", ConfigSet, run=set_config),
    )
}
"""Every method by its name."""
