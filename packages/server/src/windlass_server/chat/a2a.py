"""A2A 1.x: agents of this server as agents of the Agent2Agent protocol, over JSON-RPC.

A task is a run and a context is a session, so tasks survive what runs survive, and the SDK keeps nothing. The
official SDK (`a2a-sdk`, extra `a2a`) parses requests and writes responses; the first request imports it, in a
thread: it is large.
"""

import json
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message as AsgiMessage

from windlass import AgentError, Conflict, InputRequest, InputResponse, Rejected
from windlass.errors import install_hint
from windlass.ports.catalog import RunRow
from windlass.ports.listing import RunInfo
from windlass.tools.calling import in_masking_thread
from windlass.webhooks.inbound import keep_reply, reply_of
from windlass_harness.record import Record
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import JsonObject, NewSession, RunStatus
from windlass_server.problems import Problem, not_found
from windlass_server.push import Push, PushConfig, PushRules
from windlass_server.requests import PREFIX, Caller, agent_for, derive_id, sign_responses, start
from windlass_server.routing import BODY
from windlass_server.settings import Settings
from windlass_server.streams import Streams

if TYPE_CHECKING:
    from a2a.server.context import ServerCallContext
    from a2a.types import a2a_pb2 as wire

CARD_PATH: Final = ".well-known/agent-card.json"
CARD_AGE_S: Final = 60
"""How long a client may keep a card, seconds."""
ARTIFACT: Final = "output"
"""The id of the artifact with the output of a run."""
_OVER: Final = frozenset(RUN_ENDS.values())
_STATES: Final = {
    RunStatus.PENDING: "TASK_STATE_SUBMITTED",
    RunStatus.RUNNING: "TASK_STATE_WORKING",
    RunStatus.WAITING: "TASK_STATE_WORKING",
    RunStatus.CANCELLING: "TASK_STATE_WORKING",
    RunStatus.COMPLETED: "TASK_STATE_COMPLETED",
    RunStatus.FAILED: "TASK_STATE_FAILED",
    RunStatus.CANCELLED: "TASK_STATE_CANCELED",
    RunStatus.BUDGET_EXHAUSTED: "TASK_STATE_FAILED",
}
_ASKS: Final = "TASK_STATE_INPUT_REQUIRED"
_OPEN: Final = frozenset(name for status, name in _STATES.items() if status not in _OVER)
_LISTED: Final = 50
_FAILED: Final = 500
"""From this status on, a problem is not the client's."""
CHECKED_BYTES_MAX: Final = 4_096
"""Bytes of a request that is checked on the event loop: many small parts take about 6 microseconds a byte."""
_LOG: Final = logging.getLogger("windlass.server")
_NEW_TEXT: Final = frozenset({"step.started", "step.retrying", "message.completed"})
"""Events after which the model writes another text."""


async def card(request: Request) -> Response:
    """Return the card of an agent."""
    caller: Caller = request.state.caller
    name = _agent(request)
    await in_masking_thread(make_dispatcher)
    a2a = _types()
    tenants = request.app.state.tenants
    agent = tenants.agents[name]
    address = str(request.base_url).rstrip("/") + request.url.path.removesuffix(f"/{CARD_PATH}")
    description = agent.description or f"The agent {name}."
    agent_card = a2a.AgentCard(
        name=name,
        description=description,
        version=request.app.version,
        supported_interfaces=[
            a2a.AgentInterface(url=address, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=a2a.AgentCapabilities(streaming=True, push_notifications=tenants.push_rules is not None),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id=name, name=name, description=description, tags=["agent"])],
    )
    if not caller.principal.is_operator or caller.principal.tenant != "local":
        scheme = a2a.SecurityScheme(http_auth_security_scheme=a2a.HTTPAuthSecurityScheme(scheme="Bearer"))
        agent_card.security_schemes["bearer"].CopyFrom(scheme)
        agent_card.security_requirements.add().schemes["bearer"].SetInParent()
    helpers = import_module("a2a.server.request_handlers.response_helpers")
    content = to_json(helpers.agent_card_to_dict(agent_card))
    headers = {
        "cache-control": f"private, max-age={CARD_AGE_S}",
        "etag": f'"{sha256(content).hexdigest()[:32]}"',
    }
    return Response(content, media_type="application/json", headers=headers)


async def rpc(request: Request) -> Response:
    """Answer a JSON-RPC request of an A2A client."""
    _agent(request)
    body = to_json(request.scope["state"].get(BODY))

    async def receive() -> AsgiMessage:
        # `Guard` has read the body, and checked that it is JSON of a bounded size.
        return {"type": "http.request", "body": body, "more_body": False}

    dispatcher = await in_masking_thread(make_dispatcher)
    return await dispatcher.handle_requests(Request(request.scope, receive))


routes: Final = (
    Route(f"{PREFIX}/a2a/{{agent}}", rpc, methods=["POST"]),
    Route(f"{PREFIX}/a2a/{{agent}}/{CARD_PATH}", card, methods=["GET"]),
)


def _agent(request: Request) -> str:
    caller: Caller = request.state.caller
    name = request.path_params["agent"]
    if name not in caller.tenant.agent_ids:
        raise not_found("agent")
    return name


def _types() -> ModuleType:
    try:
        return import_module("a2a.types.a2a_pb2")
    except ModuleNotFoundError:
        raise Problem(501, f"A2A needs an optional dependency: {install_hint('a2a')}") from None


class RequestDispatcher(Protocol):
    """Answers JSON-RPC requests of A2A clients."""

    async def handle_requests(self, request: Request) -> Response:
        """Answer one request."""
        ...


@cache
def make_dispatcher() -> RequestDispatcher:
    """Return the dispatcher of the SDK, with our handler behind it."""
    _types()
    common = import_module("a2a.server.routes.common")
    handlers = import_module("a2a.server.request_handlers.request_handler")
    dispatching = import_module("a2a.server.routes.jsonrpc_dispatcher")

    class Contexts(common.DefaultServerCallContextBuilder):
        def build(self, request: Request) -> "ServerCallContext":
            context: ServerCallContext = common.DefaultServerCallContextBuilder.build(self, request)
            context.state["caller"] = request.state.caller
            context.state["agent"] = request.path_params["agent"]
            context.state["streams"] = request.app.state.streams
            return context

    class Dispatcher(dispatching.JsonRpcDispatcher):
        async def _process_non_streaming_request(self, *arguments: Any) -> Any:
            with _translate_errors():
                await _check(arguments[0])
                return await dispatching.JsonRpcDispatcher._process_non_streaming_request(self, *arguments)

        async def _process_streaming_request(self, *arguments: Any) -> Any:
            with _translate_errors():
                await _check(arguments[1])
                return await dispatching.JsonRpcDispatcher._process_streaming_request(self, *arguments)

    # Its entries quote requests, with the text of users and the secrets of push notifications. A filter stays
    # when the host configures logging.
    logging.getLogger(dispatching.__name__).addFilter(lambda _: False)
    handler = type("Handler", (A2AHandler, handlers.RequestHandler), {})()
    return Dispatcher(request_handler=handler, context_builder=Contexts())


async def _check(params: Any) -> None:
    """Check the fields that every request of its kind has."""
    check = import_module("a2a.utils.proto_utils").validate_proto_required_fields
    if params.ByteSize() <= CHECKED_BYTES_MAX:
        check(params)
    else:
        await in_masking_thread(partial(check, params))
    for message in (params, getattr(params, "configuration", None)):
        length: int = getattr(message, "history_length", 0)
        if length < 0:
            raise _error("InvalidParamsError", f"historyLength is 0 or more, found {length}")


@contextmanager
def _translate_errors() -> Generator[None]:
    """Turn errors of the runtime into errors of A2A; the text of an unexpected one is in the log only."""
    errors = import_module("a2a.utils.errors")
    try:
        yield
    except errors.A2AError:
        raise
    except AgentError as error:
        name = "InvalidParamsError" if isinstance(error, Rejected | Conflict) else "InternalError"
        raise _error(name, error.message) from None
    except Problem as problem:
        raise _error(
            "InvalidParamsError" if problem.status < _FAILED else "InternalError", problem.detail
        ) from None
    except Exception as error:  # noqa: BLE001 - the server boundary: logged
        _LOG.error("an A2A request failed: %s", type(error).__name__, exc_info=error)
    else:
        return
    raise _error("InternalError", "the server failed; see its log")


class A2AHandler:
    """The methods of A2A over runs of the caller; see `a2a.server.request_handlers.RequestHandler`."""

    async def on_message_send(
        self, params: "wire.SendMessageRequest", context: "ServerCallContext"
    ) -> "wire.Task":
        """Start a run, or answer the request that a run waits for; wait until it ends or asks."""
        caller = _caller(context)
        row, answered = await _accept_message(params, context)
        task = await _task(caller, row, without=answered)
        if params.configuration.return_immediately:
            return task
        with _waiting(context):
            async with aclosing(_updates(caller, row, answered)) as updates:
                async for _ in updates:
                    pass
        return await _task(caller, row)

    async def on_message_send_stream(
        self, params: "wire.SendMessageRequest", context: "ServerCallContext"
    ) -> AsyncGenerator[object]:
        """As `on_message_send`, with every change of the task."""
        row, answered = await _accept_message(params, context)
        with _waiting(context):
            async for event in _stream_task(_caller(context), row, answered):
                yield event

    async def on_subscribe_to_task(
        self, params: "wire.SubscribeToTaskRequest", context: "ServerCallContext"
    ) -> AsyncGenerator[object]:
        """Follow a task that has not ended, to its end."""
        caller = _caller(context)
        row = await _row(caller, params.id)
        if row.status in _OVER:
            raise _error("UnsupportedOperationError", "the task has ended: get it instead")
        with _waiting(context):
            async for event in _stream_task(caller, row, None, to_end=True):
                yield event

    async def on_get_task(self, params: "wire.GetTaskRequest", context: "ServerCallContext") -> "wire.Task":
        """Return a task."""
        caller = _caller(context)
        return await _task(caller, await _row(caller, params.id))

    async def on_list_tasks(
        self, params: "wire.ListTasksRequest", context: "ServerCallContext"
    ) -> "wire.ListTasksResponse":
        """Return the tasks of the caller with this agent, newest first; a page by its last changes.

        A page may be short: tasks of another state, or without a change since a time, are left out of it.
        """
        caller, a2a = _caller(context), _types()
        size = min(params.page_size or _LISTED, _LISTED)
        page = await caller.sessions.runs(
            after=params.page_token or None,
            limit=size,
            session_id=params.context_id or None,
            agent_id=str(context.state["agent"]),
            root_only=True,
        )
        tasks: list[wire.Task] = []
        for run in sorted(page.items, key=_last_change, reverse=True):
            task = await _task(caller, await _row(caller, run.run_id))
            task.status.timestamp.FromJsonString(_last_change(run))
            is_early = task.status.timestamp.ToNanoseconds() < params.status_timestamp_after.ToNanoseconds()
            if is_early or params.status not in (a2a.TASK_STATE_UNSPECIFIED, task.status.state):
                continue
            tasks.append(task)
        return a2a.ListTasksResponse(
            tasks=tasks, next_page_token=page.next or "", page_size=size, total_size=len(tasks)
        )

    async def on_cancel_task(
        self, params: "wire.CancelTaskRequest", context: "ServerCallContext"
    ) -> "wire.Task":
        """Cancel a run, and wait until it has ended."""
        caller = _caller(context)
        row = await _row(caller, params.id)
        if row.status in _OVER:
            raise _error("TaskNotCancelableError", "the task has ended")
        runtime = caller.tenant.runtime
        await runtime.cancel_run(row.run_id, by=caller.principal.user)
        await runtime.handle(row.run_id).wait()
        return await _task(caller, row)

    async def on_get_extended_agent_card(self, params: object, context: "ServerCallContext") -> object:
        """Say that there is one card."""
        raise _error("UnsupportedOperationError", "there is one card for all callers")

    async def on_create_task_push_notification_config(
        self, params: "wire.TaskPushNotificationConfig", context: "ServerCallContext"
    ) -> "wire.TaskPushNotificationConfig":
        """Send changes of a task to an address, from now on."""
        push, row = await _push_and_run(context, params.task_id)
        config = _config(push, params, row.run_id)
        await push.put(row.run_id, config)
        return _public_config(row.run_id, config)

    async def on_get_task_push_notification_config(
        self, params: "wire.GetTaskPushNotificationConfigRequest", context: "ServerCallContext"
    ) -> "wire.TaskPushNotificationConfig":
        """Return a configuration of a task, without its secrets."""
        push, row = await _push_and_run(context, params.task_id)
        for config in await push.list(row.run_id):
            if config.config_id == params.id:
                return _public_config(row.run_id, config)
        raise _error("TaskNotFoundError", "there is no such push notification configuration")

    async def on_list_task_push_notification_configs(
        self, params: "wire.ListTaskPushNotificationConfigsRequest", context: "ServerCallContext"
    ) -> "wire.ListTaskPushNotificationConfigsResponse":
        """Return the configurations of a task, without their secrets, on one page."""
        push, row = await _push_and_run(context, params.task_id)
        configs = [_public_config(row.run_id, config) for config in await push.list(row.run_id)]
        return _types().ListTaskPushNotificationConfigsResponse(configs=configs)

    async def on_delete_task_push_notification_config(
        self, params: "wire.DeleteTaskPushNotificationConfigRequest", context: "ServerCallContext"
    ) -> None:
        """Delete a configuration of a task; one that is not there stays so."""
        push, row = await _push_and_run(context, params.task_id)
        await push.drop(row.run_id, params.id)


def push_rules(settings: Settings) -> PushRules | None:
    """Return how push notifications are sent; None if an optional dependency is not installed."""
    if find_spec("a2a") is None or find_spec("httpcore2") is None:
        return None
    return PushRules(_notification, allows_loopback=settings.is_open, allows_private=settings.private_push)


def _notification(record: Record) -> bytes:
    """Return a change of a run as a `StreamResponse`: the same bytes for each attempt to deliver it."""
    a2a, data = _types(), record.data
    run_id, session_id = record.run_id or "", record.session_id
    status, response = a2a.TaskStatus(), a2a.StreamResponse()
    status.timestamp.FromJsonString(record.at)
    if record.type in RUN_ENDS:
        status.state = _STATES[RUN_ENDS[record.type]]
        if record.type == "run.failed":
            error_text = str(cast(JsonObject, data["error"])["message"])
            status.message.CopyFrom(_agent_message(run_id, session_id, error_text))
        response.task.CopyFrom(a2a.Task(id=run_id, context_id=session_id, status=status))
        if record.type == "run.completed":
            artifact = response.task.artifacts.add(artifact_id=ARTIFACT, name=ARTIFACT)
            artifact.parts.add(text=str(data.get("output") or ""))
    else:
        status.state = _STATES[RunStatus.RUNNING]
        if record.type == "input.requested":
            request = InputRequest.model_validate(cast("list[object]", data["requests"])[0])
            status.state = _ASKS
            status.message.CopyFrom(_agent_message(run_id, session_id, request.prompt, request))
        update = a2a.TaskStatusUpdateEvent(task_id=run_id, context_id=session_id, status=status)
        response.status_update.CopyFrom(update)
    return to_json(import_module("google.protobuf.json_format").MessageToDict(response))


async def _push_and_run(context: "ServerCallContext", run_id: str) -> tuple[Push, RunRow]:
    return _push(context), await _row(_caller(context), run_id)


def _push(context: "ServerCallContext") -> Push:
    push = _caller(context).tenant.push
    if push is None:
        problem = (
            f"push notifications need optional dependencies: {install_hint('a2a')} and {install_hint('web')}"
        )
        raise _error("PushNotificationNotSupportedError", problem)
    return push


def _config(push: Push, request: "wire.TaskPushNotificationConfig", run_id: str) -> PushConfig:
    """Return the configuration that a client gave; without an id it has that of the task."""
    auth = request.authentication
    config = PushConfig(request.id or run_id, request.url, request.token, auth.scheme, auth.credentials)
    config.check(push.rules)
    return config


def _public_config(run_id: str, config: PushConfig) -> "wire.TaskPushNotificationConfig":
    """Return a configuration without its token and credentials."""
    public = _types().TaskPushNotificationConfig(id=config.config_id, task_id=run_id, url=config.url)
    if config.scheme:
        public.authentication.scheme = config.scheme
    return public


def _last_change(run: RunInfo) -> str:
    """Return when a run last changed its state, as far as its row says."""
    return run.ended_at or run.started_at or run.at


@contextmanager
def _waiting(context: "ServerCallContext") -> Generator[None]:
    """Count a request that waits from now on as a stream: its slot is free for another request."""
    caller, streams = _caller(context), cast(Streams, context.state["streams"])
    timer = streams.enter(caller.principal.key)
    caller.release_slot()
    try:
        yield
    finally:
        streams.leave(timer, caller.principal.key)


def _caller(context: "ServerCallContext") -> Caller:
    return context.state["caller"]


def _error(name: str, message: str) -> Exception:
    return getattr(import_module("a2a.utils.errors"), name)(message=message)


async def _row(caller: Caller, run_id: str) -> RunRow:
    row = await caller.sessions.find_run(run_id)
    if row is None:
        raise _error("TaskNotFoundError", "there is no such task")
    return row


async def _accept_message(
    params: "wire.SendMessageRequest", context: "ServerCallContext"
) -> tuple[RunRow, str | None]:
    """Take a message; return its run, and the request that it answered."""
    caller, message = _caller(context), params.message
    for part in message.parts:
        if not (part.HasField("text") or part.HasField("data")):
            raise _error(
                "ContentTypeNotSupportedError", "a message has text parts, and data parts in an answer"
            )
    text = "\n".join(part.text for part in message.parts if part.HasField("text"))
    data = (_plain(part.data) for part in message.parts if part.HasField("data"))
    choice = next(data, dict[str, object]())
    if not text and not choice:
        raise _error("ContentTypeNotSupportedError", "a message has a text part")
    config = None
    if params.configuration.HasField("task_push_notification_config"):
        config = params.configuration.task_push_notification_config
    if not message.task_id:
        return await _start_run(context, text, message, config), None
    row = await _row(caller, message.task_id)
    if message.context_id and message.context_id != row.session_id:
        raise _error("InvalidParamsError", "the contextId is not that of the task: leave it out")
    if config is not None:
        push = _push(context)
        await push.put(row.run_id, _config(push, config, row.run_id))
    key = derive_id("a2a reply", caller.principal.key, message.message_id)
    return row, await _answer_request(caller, row, text, choice, key=key)


async def _start_run(
    context: "ServerCallContext",
    text: str,
    message: "wire.Message",
    config: "wire.TaskPushNotificationConfig | None",
) -> RunRow:
    """Start the run of a message, with the address that its changes are sent to."""
    caller = _caller(context)
    run_id = derive_id("a2a run", caller.principal.key, message.message_id)
    session_id = message.context_id or derive_id("a2a session", caller.principal.key, message.message_id)
    if message.context_id and await caller.sessions.find(session_id) is None:
        raise _error("InvalidParamsError", "there is no such context")
    agent_id = agent_for(caller, str(context.state["agent"]))
    push = None if config is None else _push(context)
    checked = None if config is None or push is None else _config(push, config, run_id)
    is_new = await caller.tenant.store.run(run_id) is None
    if push is not None and checked is not None and is_new:
        # Before the run: its first changes are sent too.
        await push.put(run_id, checked)
    try:
        await start(
            caller,
            text,
            wishes=NewSession(message=text),
            ids=(session_id, run_id),
            agent_id=agent_id,
            conflict="the messageId was used with another message",
        )
    except AgentError:
        if push is not None and checked is not None and is_new:
            await push.drop(run_id, checked.config_id)
        raise
    if push is not None and checked is not None and not is_new:
        await push.put(run_id, checked)
    return await _row(caller, run_id)


async def _answer_request(
    caller: Caller, row: RunRow, text: str, choice: dict[str, object], *, key: str
) -> str:
    """Answer the request that a run waits for: by a data part with its id and option, or by a text.

    A message that arrives again, with the same key, answers no further request.
    """
    runtime = caller.tenant.runtime
    request_id = await reply_of(runtime, key)
    if request_id is None:
        request_id = await _open_request(caller, row, choice.get("requestId"))
        if await keep_reply(runtime, key, request_id) != request_id:
            raise _error("InvalidParamsError", "the messageId was used with another message")
    option = choice.get("optionId")
    response = InputResponse(
        request_id=request_id,
        option_id=None if option is None else str(option),
        text=text or None,
    )
    await runtime.sessions.answer(row.session_id, await sign_responses(caller, [response]), key=key)
    return request_id


async def _open_request(caller: Caller, row: RunRow, request_id: object) -> str:
    """Return the request of a run that a message answers: the one it names, or the first without an answer.

    A named request may have an answer already: the runtime tells which.
    """
    if row.status in _OVER:
        problem = "the task has ended and waits for no answer: send a message with its contextId alone"
        raise _error("UnsupportedOperationError", problem)
    for request in await caller.tenant.runtime.handle(row.run_id).open_requests():
        if request_id == request.request_id or (request_id is None and not request.is_answered):
            return request.request_id
    if isinstance(request_id, str):
        settled = await caller.sessions.find_request(request_id)
        if settled is not None and settled.run_id == row.run_id:
            return request_id
    raise _error("InvalidParamsError", "the task waits for no such answer: get it to see its requests")


def _plain(value: Any) -> dict[str, object]:
    data = json.loads(import_module("google.protobuf.json_format").MessageToJson(value))
    return cast("dict[str, object]", data) if isinstance(data, dict) else {}


async def _task(caller: Caller, row: RunRow, *, without: str | None = None) -> "wire.Task":
    """Return a run as a task; `without` is a request that was answered."""
    a2a, runtime = _types(), caller.tenant.runtime
    status = (await runtime.run_snapshot(row.run_id)).status
    task = a2a.Task(id=row.run_id, context_id=row.session_id)
    if status in _OVER:
        result = await runtime.handle(row.run_id).wait()
        task.status.CopyFrom(a2a.TaskStatus(state=_STATES[status]))
        text = result.output or ""
        if status is RunStatus.COMPLETED:
            task.artifacts.add(artifact_id=ARTIFACT, name=ARTIFACT).parts.add(text=text)
        elif result.error is not None:
            task.status.message.CopyFrom(_agent_message(row.run_id, row.session_id, result.error.message))
        return task
    requests = await runtime.handle(row.run_id).open_requests()
    open_requests = [request for request in requests if request.request_id != without]
    task.status.CopyFrom(a2a.TaskStatus(state=_ASKS if open_requests else _STATES[status]))
    if open_requests:
        task.status.message.CopyFrom(
            _agent_message(row.run_id, row.session_id, open_requests[0].prompt, open_requests[0])
        )
    return task


def _agent_message(run_id: str, session_id: str, text: str, request: InputRequest | None = None) -> Any:
    """Return a message of the agent; a request comes as data as well."""
    a2a = _types()
    message = a2a.Message(
        message_id=derive_id("a2a said", run_id, text),
        task_id=run_id,
        context_id=session_id,
        role="ROLE_AGENT",
        parts=[a2a.Part(text=text)],
    )
    if request is not None:
        data = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        import_module("google.protobuf.json_format").ParseDict(data, message.parts.add().data)
    return message


async def _updates(
    caller: Caller, row: RunRow, answered: str | None, *, to_end: bool = False
) -> AsyncGenerator["wire.Task | wire.TaskArtifactUpdateEvent"]:
    """Yield the task after each change of its state, up to its end or, without `to_end`, the next request.

    Between them come the pieces of the text that the model writes: the first of an answer replaces what the
    artifact had before, so one who joins late, or sees a second attempt, has nothing twice.
    """
    a2a, before, has_begun = _types(), "", False
    events = caller.tenant.runtime.subscribe_run(row.run_id, until_terminal=True)
    try:
        while True:
            task = await _task(caller, row, without=answered)
            state = a2a.TaskState.Name(task.status.state)
            if state != before:
                yield task
            before = state
            is_asking = state == _ASKS
            if (is_asking and not to_end) or not (is_asking or state in _OPEN):
                return
            async for event in events:
                if event.type == "message.appended":
                    whole = event.data.get("messageSoFar")
                    text = event.data["messageDelta"] if whole is None else whole
                    is_more = has_begun and whole is None
                    yield _piece(row, str(text), is_more=is_more)
                    has_begun = True
                    continue
                if event.type in _NEW_TEXT:
                    has_begun = False
                if event.type == "input.resolved":
                    answered = None
                break
            else:
                return
    finally:
        await events.aclose()


def _piece(row: RunRow, text: str, *, is_more: bool) -> "wire.TaskArtifactUpdateEvent":
    """Return a piece of the text of an artifact: more of it, or the beginning of another text."""
    a2a = _types()
    artifact = a2a.Artifact(artifact_id=ARTIFACT, name=ARTIFACT, parts=[a2a.Part(text=text)])
    return a2a.TaskArtifactUpdateEvent(
        task_id=row.run_id, context_id=row.session_id, artifact=artifact, append=is_more
    )


async def _stream_task(
    caller: Caller, row: RunRow, answered: str | None, *, to_end: bool = False
) -> AsyncGenerator[object]:
    """Yield the task, its changes, its text as it is written, and its output as a whole artifact."""
    a2a, is_first = _types(), True
    async with aclosing(_updates(caller, row, answered, to_end=to_end)) as updates:
        async for update in updates:
            if is_first or isinstance(update, a2a.TaskArtifactUpdateEvent):
                yield update
            else:
                task = cast("wire.Task", update)
                for artifact in task.artifacts:
                    yield a2a.TaskArtifactUpdateEvent(
                        task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
                    )
                yield a2a.TaskStatusUpdateEvent(
                    task_id=task.id, context_id=task.context_id, status=task.status
                )
            is_first = False
