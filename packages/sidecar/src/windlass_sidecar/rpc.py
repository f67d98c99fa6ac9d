"""JSON-RPC 2.0 in both directions: errors, parameters, methods, and the connection to the host.

Each line is answered in a task of its own, so that a slow request delays no other. Notifications, and
answers of the host, are never answered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from enum import IntEnum
from functools import partial
from itertools import count
from typing import Annotated, Final, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable
from windlass.ports.clock import begin_task
from windlass.tools.calling import in_own_thread
from windlass_protocol import (
    CodecError,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    SidecarError,
    SidecarErrorKind,
    SidecarNotification,
    SidecarRequest,
    SidecarResponse,
    encode,
    parse,
)
from windlass_protocol.codec_errors import printable
from windlass_protocol.codec_issues import invalid
from windlass_protocol.frozen import mutable, sealed
from windlass_sidecar.limits import (
    BATCH_ITEMS_MAX,
    ERROR_CHARS_MAX,
    FRAME_LIMITS,
    HOST_CALLS_MAX,
    ID_CHARS_MAX,
    LIGHT_FRAME_BYTES_MAX,
    NAME_CHARS_MAX,
    REQUESTS_MAX,
)
from windlass_sidecar.stdio import Frame, Refused

_LOG: Final = logging.getLogger(__name__)

A = TypeVar("A")
Id = str | int | None

INPUT: Final = "host.input.request"
"""The request that brings a question for people to the host."""
WITHDRAWN: Final = "host.request.cancelled"
"""The notification that the answer to a request is not needed any more."""
_VERSION: Final = "2.0"
_SHOWN_CHARS_MAX: Final = 64


# errors


class Code(IntEnum):
    """Error codes: those of JSON-RPC and five of the sidecar."""

    PARSE = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL = -32603
    BUDGET_EXHAUSTED = -32001
    POLICY_DENIED = -32002
    TOOL_DISPATCH = -32003
    STORAGE = -32004
    """The store failed, or the requested thing is not in it."""
    TRANSPORT = -32005
    """The sidecar cannot take the request now, or the host cannot be reached."""


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
    """A request that is answered with an error."""

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
            "message": printable(self.message, ERROR_CHARS_MAX),
            "kind": self.kind or _KINDS[self.code],
        }
        if self.data is not None:
            fields["data"] = self.data
        return SidecarError.model_validate(fields)


def invalid_params(message: str) -> RpcError:
    """Return the error for wrong parameters."""
    return RpcError(Code.INVALID_PARAMS, message)


def not_found(message: str) -> RpcError:
    """Return the error for something that is not in the store."""
    return RpcError(Code.STORAGE, message, kind=SidecarErrorKind.INVALID_PARAMS)


def of_agent_error(error: AgentError) -> RpcError:
    """Return an error of the runtime as an error of JSON-RPC."""
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
    """Return the kind that `stream.error` gives for a failed run."""
    if error.kind is ErrorKind.PROVIDER_FAILURE and (error.details or {}).get("fault") in _LINE_FAULTS:
        return SidecarErrorKind.TRANSPORT_CLOSED
    return _BY_CAUSE.get(error.kind, SidecarErrorKind.INTERNAL)


# parameters

Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
"""An id that the host chose."""


class Params(BaseModel):
    """Parameters by name, in camelCase; unknown ones are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, alias_generator=to_camel)


class NoParams(Params):
    """For methods without parameters."""


P = TypeVar("P", bound=Params)


# methods


@sealed
class Later:
    """A result, and a function to call once it is sent."""

    result: JsonValue
    then: Callable[[], None]


@sealed
class Method(Generic[A]):
    """A method of the catalogue."""

    name: str
    params: type[Params]
    call: Callable[[A, object], Awaitable[JsonValue | Later]]
    """Takes the parameters as they were sent."""
    is_urgent: bool = False
    """Whether it is served beyond the limit of requests, and while the sidecar shuts down."""


def method(
    name: str,
    params: type[P],
    *,
    run: Callable[[A, P], Awaitable[JsonValue | Later]],
    is_urgent: bool = False,
) -> Method[A]:
    """Return a method with parameters of a type."""

    def call(app: A, raw_params: object) -> Awaitable[JsonValue | Later]:
        return run(app, read_params(params, raw_params))

    return Method(name, params, call, is_urgent)


# the connection


class FrameWire(Protocol):
    """A carrier of frames."""

    def frames(self) -> AsyncIterator[Frame]:
        """Yield the frames of the host."""
        ...

    async def send(self, body: bytes) -> None:
        """Send one frame."""
        ...

    async def room(self) -> None:
        """Return once there is room for a frame."""
        ...


@mutable
class _Reply:
    """The answer to a line, and functions to call once it is sent."""

    body: bytes | None = None
    then: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Peer(Generic[A]):
    """The sidecar's end of the connection."""

    def __init__(self, wire: FrameWire, app: A, *, methods: Mapping[str, Method[A]]) -> None:
        self._wire = wire
        self._app = app
        self._methods = methods
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[str, asyncio.Future[SidecarResponse]] = {}
        self._numbers = count(1)
        self._running = 0
        """Requests that are being answered, without urgent ones."""
        self.refuses: str | None = None
        """Why new requests are refused; None while they are not."""

    # requests of the host

    async def serve(self) -> None:
        """Answer the host until stdin ends."""
        async for frame in self._wire.frames():
            # While the host does not read its answers, no more requests are read.
            await self._wire.room()
            # Lines are parsed one after the other: a cancel must not overtake its stream.
            begin_task(self._tasks, self._serve_one(await _read(frame)))

    async def drain(self) -> None:
        """Wait for requests that are being answered."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve_one(self, message: JsonValue | RpcError) -> None:
        reply = await self._reply(message)
        if reply.body is not None:
            await self._wire.send(reply.body)
        for then in reply.then:
            then()

    async def answer(self, frame: Frame) -> _Reply:
        """Return the answer to a line; never raises because of its content."""
        return await self._reply(await _read(frame))

    async def _reply(self, message: JsonValue | RpcError) -> _Reply:
        if isinstance(message, RpcError):
            return _Reply(_encode_failure(None, message))
        if isinstance(message, list):
            return await self._batch(message)
        reply = _Reply()
        response = await self._one(message, reply.then)
        reply.body = None if response is None else _encode_response(response)
        return reply

    async def _batch(self, messages: list[JsonValue]) -> _Reply:
        if not 0 < len(messages) <= BATCH_ITEMS_MAX:
            problem = f"expected 1 to {BATCH_ITEMS_MAX} messages in a batch, found {len(messages):,}"
            return _Reply(_encode_failure(None, RpcError(Code.INVALID_REQUEST, problem)))
        reply = _Reply()
        answers = await asyncio.gather(*(self._one(message, reply.then) for message in messages))
        bodies = [_encode_response(answer) for answer in answers if answer is not None]
        if bodies:
            whole = b"[" + b",".join(bodies) + b"]"
            too_large = RpcError(Code.INTERNAL, "the answers to the batch are too large for one frame")
            is_fit = len(whole) <= FRAME_LIMITS.message_bytes_max
            reply.body = whole if is_fit else _encode_failure(None, too_large)
        return reply

    async def _one(self, message: JsonValue, then: list[Callable[[], None]]) -> SidecarResponse | None:
        """Return the answer to one message; None for a notification or an answer."""
        if isinstance(message, dict) and "method" not in message and {"result", "error"} & message.keys():
            self._settle(message)
            return None
        request = _request(message)
        if isinstance(request, RpcError):
            return _failure(_id_of(message), request)
        outcome = await self._outcome(request)
        if isinstance(outcome, Later):
            then.append(outcome.then)
            outcome = outcome.result
        if isinstance(request, SidecarRequest):
            return (
                _failure(request.id, outcome)
                if isinstance(outcome, RpcError)
                else _success(request.id, outcome)
            )
        if isinstance(outcome, RpcError):
            _LOG.warning("a notification failed: %s", outcome.message)
        return None

    async def _outcome(self, request: SidecarRequest | SidecarNotification) -> JsonValue | Later | RpcError:
        try:
            return await self._run(request)
        except RpcError as error:
            return error
        except AgentError as error:
            return of_agent_error(error)
        except Exception as error:  # noqa: BLE001 - one call must not end the others
            _LOG.error("%s failed: %s", printable(request.method, _SHOWN_CHARS_MAX), type(error).__name__)
            return RpcError(Code.INTERNAL, f"the method failed ({type(error).__name__}); see stderr")

    async def _run(self, request: SidecarRequest | SidecarNotification) -> JsonValue | Later:
        entry = self._methods.get(request.method)
        if entry is None:
            name = printable(request.method, _SHOWN_CHARS_MAX)
            raise RpcError(
                Code.METHOD_NOT_FOUND, f"unknown method {name}; protocol.describe lists all methods"
            )
        if entry.is_urgent:
            return await entry.call(self._app, request.params)
        if self.refuses is not None:
            raise RpcError(Code.TRANSPORT, self.refuses)
        if self._running >= REQUESTS_MAX:
            raise RpcError(Code.TRANSPORT, f"too many requests at the same time: limit {REQUESTS_MAX}")
        self._running += 1
        try:
            return await entry.call(self._app, request.params)
        finally:
            self._running -= 1

    # requests to the host

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request to the host and return its result.

        A caller that is cancelled sends `host.request.cancelled`.

        Raises:
            RpcError: the host refused or gave no valid answer, or too many requests wait for it.
        """
        if len(self._calls) >= HOST_CALLS_MAX:
            raise RpcError(Code.TRANSPORT, f"too many requests to the host: limit {HOST_CALLS_MAX}")
        call_id = f"sidecar-{next(self._numbers)}"
        future = self._calls[call_id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(SidecarRequest(id=call_id, method=method, params=params))
            response = await future
        except asyncio.CancelledError:
            await self.notify(WITHDRAWN, {"id": call_id})
            raise
        finally:
            self._calls.pop(call_id, None)
        if response.error is not None:
            message = f"the host refused {method} ({response.error.code}): {response.error.message}"
            raise RpcError(Code.TRANSPORT, message)
        return response.result

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        await self._send(SidecarNotification(method=method, params=params))

    async def _send(self, message: SidecarRequest | SidecarNotification) -> None:
        try:
            body = encode(message, FRAME_LIMITS)
        except CodecError as error:
            raise RpcError(Code.INTERNAL, f"{message.method} cannot be sent: {error.message}") from None
        await self._wire.send(body)

    def _settle(self, message: JsonObject) -> None:
        """Take an answer of the host; an answer to no open request is logged and dropped."""
        try:
            response = SidecarResponse.model_validate(message)
        except ValidationError:
            _LOG.warning("the host sent an answer that is no JSON-RPC response")
            response = None
        call_id = _id_of(message)
        future = self._calls.get(call_id) if isinstance(call_id, str) else None
        if future is None or future.done():
            _LOG.warning("the host answered a request that is not open")
        elif response is None:
            future.set_exception(RpcError(Code.TRANSPORT, "the host's answer is no JSON-RPC response"))
        else:
            future.set_result(response)


def read_params(model: type[P], raw: object) -> P:
    """Return the parameters of a method, by name.

    Raises:
        RpcError: they do not fit.
    """
    if isinstance(raw, tuple | list) and raw:
        raise invalid_params("expected parameters by name, found a list")
    plain = cast(JsonObject, raw or {})
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        problem = invalid(error, plain)
    first = problem.issues[0]
    raise invalid_params(f"{first.path or 'params'}: {first.message}")


async def _read(frame: Frame) -> JsonValue | RpcError:
    """Return the JSON of a line, or why it cannot be parsed."""
    if isinstance(frame, Refused):
        return RpcError(Code.PARSE, frame.reason)
    if len(frame) <= LIGHT_FRAME_BYTES_MAX:
        return _parse_frame(frame)
    return await in_own_thread(partial(_parse_frame, frame))


def _parse_frame(frame: bytes) -> JsonValue | RpcError:
    try:
        return parse(frame, FRAME_LIMITS)
    except CodecError as error:
        return RpcError(Code.PARSE, error.message)


def _request(message: JsonValue) -> SidecarRequest | SidecarNotification | RpcError:
    if not isinstance(message, dict):
        return RpcError(Code.INVALID_REQUEST, "expected a JSON object, or a batch of them")
    if message.get("jsonrpc") != _VERSION:
        # The model has a default for it.
        return RpcError(Code.INVALID_REQUEST, 'no JSON-RPC 2.0 request: expected "jsonrpc": "2.0"')
    if len(str(message.get("id"))) > ID_CHARS_MAX:
        return RpcError(Code.INVALID_REQUEST, f"id too long: limit {ID_CHARS_MAX:,} characters")
    model = SidecarRequest if "id" in message else SidecarNotification
    try:
        return model.model_validate(message)
    except ValidationError as error:
        first = invalid(error, message).issues[0]
    return RpcError(Code.INVALID_REQUEST, f"no JSON-RPC 2.0 request: {first.path or '/'}: {first.message}")


def _id_of(message: JsonValue) -> Id:
    """Return the id of a message if it can be sent back; else None."""
    message_id = message.get("id") if isinstance(message, dict) else None
    if isinstance(message_id, bool) or not isinstance(message_id, str | int):
        return None
    return message_id if len(str(message_id)) <= ID_CHARS_MAX else None


def _success(request_id: Id, result: JsonValue) -> SidecarResponse:
    try:
        return SidecarResponse(id=request_id, result=result)
    except ValidationError:
        return _failure(request_id, RpcError(Code.INTERNAL, "the result cannot be sent: not JSON"))


def _failure(request_id: Id, error: RpcError) -> SidecarResponse:
    return SidecarResponse(id=request_id, error=error.wire)


def _encode_failure(request_id: Id, error: RpcError) -> bytes:
    return encode(_failure(request_id, error), FRAME_LIMITS)


def _encode_response(response: SidecarResponse) -> bytes:
    """Return an answer as bytes; a result that is too large becomes an error."""
    try:
        return encode(response, FRAME_LIMITS)
    except CodecError as error:
        return _encode_failure(
            response.id, RpcError(Code.INTERNAL, f"the result cannot be sent: {error.message}")
        )


# the host


class HostLink(Protocol):
    """A carrier of requests and notifications to the host."""

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request and return its result."""
        ...

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        ...


class Host:
    """The program that started the sidecar."""

    def __init__(self) -> None:
        self.link: HostLink | None = None
        """Set once the connection is there."""
        self.features: frozenset[str] = frozenset()
        """The features that it named in `protocol.describe`."""

    @property
    def can_ask_people(self) -> bool:
        """Whether it answers `host.input.request`."""
        return INPUT in self.features

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Send a request to the host and return its result.

        Raises:
            RpcError: the host refused or gave no valid answer.
        """
        assert self.link is not None, "nothing runs before the connection is there"
        return await self.link.call(method, params)

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification to the host."""
        assert self.link is not None, "nothing runs before the connection is there"
        await self.link.notify(method, params)
