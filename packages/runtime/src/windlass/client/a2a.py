"""The tool of a remote agent that speaks A2A: it sends a task, and follows it until it ends or asks.

The official SDK (`a2a-sdk`, extra `a2a`) is imported by the first call. Most servers do not know a repeated
message, so a call that a crash interrupted is not repeated by itself: a person is asked.

The card of an agent names the address that gets its tasks. Requests to the origin that the application
configured carry the key; those to any other go without it, over https and to public addresses alone, because
the other server chose them.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, ValidationError

from windlass import parts
from windlass.addresses import Resolver, check_public, resolve, target_of
from windlass.agent.hooks import Hook, hook
from windlass.client.remote import (
    END_MS,
    ERROR_CHARS_MAX,
    REMOTE,
    WORDS_CHARS_MAX,
    MissingKey,
    Outage,
    RemoteReply,
    RemoteRequest,
    Report,
    fit_prompt,
    fit_result,
    question_of,
)
from windlass.errors import install_hint
from windlass.ports.host import HookCall
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass_protocol import EffectClass, InputRequest, JsonObject, RunStatus, Taint, ToolMode
from windlass_protocol.codec_scan import count_values
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    import httpx
    from a2a.client import Client
    from a2a.types import a2a_pb2 as wire

    from windlass.client.remote import Probe

POLL_S: Final = 1.0
"""Interval between two looks at a task whose stream has ended."""
ANSWER_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 2 * 1_048_576
"""Size of one answer: a card, a task, or an event of a stream. The SDK reads it on the event loop."""
ANSWER_VALUES_MAX: Final = 20_000
"""Values of one answer."""
STREAM_BYTES_MAX: Final = 64 * 1_048_576
"""Size of a stream of events."""
_EVENTS: Final = "text/event-stream"
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_STATE: Final = "TASK_STATE_"
_TASK: Final = "windlass.a2a_task"
"""The key of the session state with the last task."""


@sealed
class A2AServer:
    """An agent that speaks A2A."""

    url: str
    """Begins with `a2a://`; https is used, and http on this machine."""
    key: Callable[[], str | None]
    key_env: str | None
    under_way: dict[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """The tasks of calls under way in this process, by session."""

    @property
    def address(self) -> str:
        """The address over HTTP."""
        scheme = "http" if urlsplit(self.url).hostname in _LOOPBACK else "https"
        return f"{scheme}{self.url.removeprefix('a2a')}"


def a2a_tool(server: A2AServer, timeout_s: float) -> Tool[..., object]:
    """Return the tool that sends work to an agent over A2A and waits for its result."""
    facts: JsonObject = {"url": server.url}
    if server.key_env is not None:
        facts["keyEnv"] = server.key_env

    @tool(
        name=REMOTE,
        mode=ToolMode.READ,
        effect=EffectClass.ONCE,
        timeout=timeout_s,
    )
    async def remote(
        ctx: ToolContext,
        message: Annotated[str, Field(max_length=WORDS_CHARS_MAX)] | None = None,
        output_schema: dict[str, JsonValue] | None = None,
        reply: RemoteReply | None = None,
        task: str | None = None,
    ) -> JsonObject:
        """Send a task to an agent of another server, and wait for its result.

        Args:
            message: The task.
            output_schema: A JSON Schema that the result must fit.
            reply: The answer of a person to its request, instead of a task.
            task: The id of the same task, if it was begun before.
        """
        request = None if task else _message(ctx, _words(message or "", output_schema), reply)
        report = await _work(server, ctx, request, task or "")
        server.under_way.pop(ctx.session_id, None)
        if report.run_id:
            ctx.state.keep_own(_TASK, report.run_id)
        return report.model_dump(mode="json", by_alias=True, exclude_none=True)

    return remote.with_options(reads=Taint.UNTRUSTED, is_outbound=True, metadata={"remote": facts})


def _words(message: str, schema: JsonObject | None) -> str:
    if schema is None:
        return message
    return f"{message}\n\nAnswer with JSON alone that fits this JSON Schema:\n{json.dumps(schema)}"


def a2a_end(server: A2AServer) -> Hook:
    """Return the hook that cancels the task when the local run has ended without it."""

    @hook("after_run_terminal", hook_id="a2a_end", timeout_ms=END_MS)
    async def end(call: HookCall) -> None:
        task_id = server.under_way.pop(call.session_id, None) or call.state.get(_TASK)
        if call.status == RunStatus.COMPLETED or task_id is None:
            return
        a2a = import_module("a2a.types.a2a_pb2")
        # A task that has ended, or whose server is away, is left as it is.
        with suppress(ToolFailed):
            async with _connect(server) as client:
                await client.cancel_task(a2a.CancelTaskRequest(id=str(task_id)))

    return end


@asynccontextmanager
async def _connect(server: A2AServer) -> AsyncGenerator["Client"]:
    try:
        client_module = import_module("a2a.client")
        httpx, errors = import_module("httpx"), import_module("a2a.utils.errors")
        json_format = import_module("google.protobuf.json_format")
    except ModuleNotFoundError:
        raise ToolFailed(f"A2A needs an optional dependency: {install_hint('a2a')}") from None
    try:
        key = server.key()
    except MissingKey as error:
        raise ToolFailed(error.message) from None
    try:
        # The environment is ignored: no proxy sees the key.
        inner = httpx.AsyncHTTPTransport(trust_env=False)
        transport = KeyTransport(httpx.URL(server.address), key, inner)
        async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False, transport=transport) as http:
            config = client_module.ClientConfig(httpx_client=http)
            yield await client_module.ClientFactory(config).create_from_url(server.address)
    except (
        errors.A2AError,
        httpx.HTTPError,
        client_module.A2AClientError,
        # A card or an answer that the SDK cannot use.
        httpx.InvalidURL,
        json_format.Error,
        ValueError,
        RecursionError,
    ) as error:
        message = f"the A2A agent could not be asked: {str(error)[:ERROR_CHARS_MAX] or type(error).__name__}"
        cause = error if isinstance(error, httpx.TransportError) else error.__cause__
        if isinstance(cause, httpx.TransportError):
            is_unsent = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)
            raise _Unreachable(message, is_unsent=is_unsent) from None
        raise ToolFailed(message) from None


class KeyTransport:
    """The transport of a client: it decides where a request may go, and whether it carries the key."""

    def __init__(
        self,
        origin: "httpx.URL",
        key: str | None,
        inner: "httpx.AsyncBaseTransport",
        *,
        resolver: Resolver = resolve,
    ) -> None:
        self._origin = _origin(origin)
        self._key = key
        self._inner = inner
        self._resolve = resolver

    async def handle_async_request(self, request: "httpx.Request") -> "httpx.Response":
        """Send a request.

        Raises:
            ToolFailed: its address is one that a card must not name, or its answer is compressed. Reading an
                answer that is too large raises it too.
        """
        # The size of an answer is bounded as it comes, and not as it could be unpacked.
        request.headers["accept-encoding"] = "identity"
        request.headers.pop("authorization", None)
        if _origin(request.url) == self._origin:
            if self._key is not None:
                request.headers["authorization"] = f"Bearer {self._key}"
        else:
            await self._pin(request)
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise ToolFailed("the A2A agent sent a compressed answer, which was not asked for")
        is_stream = response.headers.get("content-type", "").lower().startswith(_EVENTS)
        response.stream = _limit_size(cast("httpx.AsyncByteStream", response.stream), is_stream=is_stream)
        return response

    async def _pin(self, request: "httpx.Request") -> None:
        """Have a request to another origin sent to a public address that was checked."""
        try:
            target = target_of(str(request.url))
            if target.scheme != "https":
                raise ToolFailed("it is not https")
            address = check_public(await self._resolve(target.host, target.port))[0]
        except (ToolFailed, OSError) as error:
            problem = error.message if isinstance(error, ToolFailed) else "its name has no address"
            raise ToolFailed(
                f"the card of the A2A agent names an address of another server, {request.url.host}, which is "
                f"not allowed: {problem}; nothing was sent there. Configure that server itself if it is right"
            ) from None
        request.extensions["sni_hostname"] = target.host
        request.url = request.url.copy_with(host=address)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """Open the connections."""
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Close the connections."""
        await self._inner.aclose()


def _origin(url: "httpx.URL") -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _limit_size(content: "httpx.AsyncByteStream", *, is_stream: bool) -> "httpx.AsyncByteStream":
    """Return the content of a response, in whole answers; it fails at one that is too large."""
    import httpx  # noqa: PLC0415 - an extra

    class Bounded(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size, part = 0, bytearray()
            async for chunk in content:
                size += len(chunk)
                if size > STREAM_BYTES_MAX:
                    raise _too_large(f"{STREAM_BYTES_MAX:,} bytes for all events")
                end = _last_end(part, chunk) if is_stream else 0
                part += chunk
                if end:
                    yield _check_answer(bytes(part[:end]))
                    del part[:end]
                if len(part) > ANSWER_BYTES_MAX:
                    raise _too_large(f"{ANSWER_BYTES_MAX:,} bytes")
            yield _check_answer(bytes(part))

        async def aclose(self) -> None:
            await content.aclose()

    return Bounded()


def _last_end(part: bytearray, chunk: bytes) -> int:
    """Return where the last whole event ends, once a chunk is added; 0 if no event ends in the chunk."""
    # An end may begin in the part before.
    overlap = max(len(part) - 3, 0)
    text = bytes(part[overlap:]) + chunk
    ends = (text.rfind(mark) + len(mark) for mark in _EVENT_ENDS if mark in text)
    return max((overlap + end for end in ends), default=0)


def _check_answer(answer: bytes) -> bytes:
    if len(answer) > ANSWER_BYTES_MAX:
        raise _too_large(f"{ANSWER_BYTES_MAX:,} bytes")
    if count_values(answer, ANSWER_VALUES_MAX) > ANSWER_VALUES_MAX:
        raise _too_large(f"{ANSWER_VALUES_MAX:,} values")
    return answer


def _too_large(limit: str) -> ToolFailed:
    return ToolFailed(f"the answer of the A2A agent is too large: limit {limit}")


class _Unreachable(ToolFailed):
    """The connection to the server failed."""

    def __init__(self, message: str, *, is_unsent: bool) -> None:
        super().__init__(message)
        self.is_unsent = is_unsent
        """Whether the last request was certainly not sent."""


def a2a_probe(server: A2AServer) -> "Probe":
    """Return the probe of a server: it asks for the card of the agent."""

    async def problem() -> str | None:
        try:
            async with _connect(server):
                return None
        except _Unreachable as error:
            return str(error)
        except ToolFailed:
            return None

    return problem


async def _work(
    server: A2AServer, ctx: ToolContext, request: "wire.SendMessageRequest | None", task_id: str
) -> Report:
    """Send a message, or follow a task that was begun; a failed connection is reported if that is safe."""
    is_sent = False

    def note_task(begun_id: str) -> None:
        nonlocal task_id
        task_id = server.under_way[ctx.session_id] = begun_id

    try:
        async with _connect(server) as client:
            if request is not None:
                is_sent = True
                answer = await _send(client, request, note_task)
                if answer is not None:
                    return answer
            return await _follow(client, task_id)
    except _Unreachable as error:
        if is_sent and not task_id and not error.is_unsent:
            # The message may have arrived, and most servers do not know a repeated one.
            raise
        resume: JsonObject = {"task": task_id} if task_id else {}
        return Report(run_id=task_id, away=Outage(reason=str(error), resume=resume))


def _message(ctx: ToolContext, text: str, reply: RemoteReply | None) -> "wire.SendMessageRequest":
    a2a = import_module("a2a.types.a2a_pb2")
    message = a2a.Message(message_id=sha256(ctx.idempotency_key.encode()).hexdigest(), role="ROLE_USER")
    if reply is None:
        message.parts.add(text=text)
    else:
        message.task_id = reply.run_id
        message.parts.add(text=reply.text or reply.option_id or "")
        if reply.option_id is not None:
            data = {"requestId": reply.request_id, "optionId": reply.option_id}
            import_module("google.protobuf.json_format").ParseDict(data, message.parts.add().data)
    return a2a.SendMessageRequest(message=message)


async def _send(
    client: "Client", request: "wire.SendMessageRequest", on_task: Callable[[str], None]
) -> Report | None:
    """Send a message and follow its task while it is streamed; a server may answer with a message alone."""
    task_id = ""
    async for event in client.send_message(request):
        match event.WhichOneof("payload"):
            case "message":
                return Report(output=fit_result(_text(event.message.parts)))
            case "task":
                task_id = event.task.id
            case "status_update":
                task_id = event.status_update.task_id
            case _:
                continue
        on_task(task_id)
    if not task_id:
        raise ToolFailed("the A2A agent answered with neither a task nor a message")
    return None


async def _follow(client: "Client", task_id: str) -> Report:
    """Look at a task until it ends or asks."""
    a2a, clock = import_module("a2a.types.a2a_pb2"), parts.SystemClock()
    while True:
        task = await client.get_task(a2a.GetTaskRequest(id=task_id, history_length=0))
        report = _report(task, a2a.TaskState.Name(task.status.state).removeprefix(_STATE))
        if report is not None:
            return report
        await clock.sleep(POLL_S)


def _report(task: "wire.Task", state: str) -> Report | None:
    text = _text(task.status.message.parts)
    match state:
        case "COMPLETED":
            texts = [_text(artifact.parts) for artifact in task.artifacts]
            return Report(
                run_id=task.id, output=fit_result("\n".join(part for part in texts if part) or text)
            )
        case "INPUT_REQUIRED":
            return Report(run_id=task.id, asked=_read_request(task, text))
        case "SUBMITTED" | "WORKING":
            return None
        case _:
            error = f"{state.lower()}: {text}" if text else state.lower()
            return Report(run_id=task.id, error=error[:ERROR_CHARS_MAX])


def _read_request(task: "wire.Task", text: str) -> RemoteRequest:
    """Return what a task asks: a request of Windlass with its options, or the words of its agent."""
    for part in task.status.message.parts:
        if part.HasField("data"):
            data = json.loads(import_module("google.protobuf.json_format").MessageToJson(part.data))
            try:
                request = InputRequest.model_validate(data)
            except ValidationError:
                continue
            return RemoteRequest(
                request_id=request.request_id,
                arguments_hash=request.arguments_hash,
                question=question_of(request),
            )
    question: JsonObject = {"prompt": fit_prompt(text or "?"), "options": [], "allow_freeform": True}
    return RemoteRequest(request_id=task.id, question=question)


def _text(parts: Any) -> str:
    return "\n".join(cast(str, part.text) for part in parts if part.HasField("text"))
