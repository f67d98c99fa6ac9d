"""JSON-RPC 2.0 in both directions: what a line asks, and what it is answered.

A line is answered in a task of its own, so a slow one holds up no other. Whatever comes, the answer has the
right code, and notifications and answers of the host are never answered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, Generic, Protocol, TypeVar, cast

from pydantic import JsonValue, ValidationError

from windlass.errors import AgentError
from windlass.tools.calling import in_own_thread
from windlass_protocol import (
    CodecError,
    JsonObject,
    SidecarNotification,
    SidecarRequest,
    SidecarResponse,
    encode,
    parse,
)
from windlass_protocol.codec_errors import shown
from windlass_protocol.codec_issues import invalid
from windlass_sidecar.errors import Code, RpcError, invalid_params, of_agent_error
from windlass_sidecar.framing import Frame, Refused
from windlass_sidecar.limits import (
    BATCH_ITEMS_MAX,
    FRAME_LIMITS,
    HOST_CALLS_MAX,
    ID_CHARS_MAX,
    LIGHT_FRAME_BYTES_MAX,
    REQUESTS_MAX,
)
from windlass_sidecar.params import Params

_LOG: Final = logging.getLogger(__name__)

A = TypeVar("A")
P = TypeVar("P", bound=Params)
Id = str | int | None
_VERSION: Final = "2.0"
_NAME_CHARS_MAX: Final = 64
WITHDRAWN: Final = "host.request.cancelled"
"""Tells the host that nobody waits any more for its answer to a request."""


@dataclass(frozen=True, slots=True)
class Later:
    """A result, and what to do once it is on its way."""

    result: JsonValue
    then: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Method(Generic[A]):
    """A method of the catalogue."""

    name: str
    params: type[Params]
    call: Callable[[A, object], Awaitable[JsonValue | Later]]
    """Takes the parameters as they came."""
    is_urgent: bool = False
    """Whether it is served however busy the sidecar is, and while it shuts down."""


def method(
    name: str,
    params: type[P],
    *,
    run: Callable[[A, P], Awaitable[JsonValue | Later]],
    is_urgent: bool = False,
) -> Method[A]:
    """Return a method that takes these parameters."""

    def call(app: A, given: object) -> Awaitable[JsonValue | Later]:
        return run(app, read_params(params, given))

    return Method(name, params, call, is_urgent)


class Wire(Protocol):
    """What carries frames."""

    def frames(self) -> AsyncIterator[Frame]:
        """Yield what the host sends."""
        ...

    async def send(self, body: bytes) -> None:
        """Send one frame."""
        ...

    async def room(self) -> None:
        """Return once there is room for a frame."""
        ...


@dataclass(slots=True)
class _Reply:
    """What a line is answered, and what to do after that."""

    body: bytes | None = None
    then: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Peer(Generic[A]):
    """One end of the conversation with a host."""

    def __init__(self, wire: Wire, app: A, *, methods: Mapping[str, Method[A]]) -> None:
        self._wire = wire
        self._app = app
        self._methods = methods
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[str, asyncio.Future[SidecarResponse]] = {}
        self._numbers = count(1)
        self._running = 0
        """Requests that are being answered, urgent ones apart."""
        self.refuses: str | None = None
        """Why nothing new is taken; None while it is."""

    # the host asks

    async def serve(self) -> None:
        """Answer the host until it closes its end."""
        async for frame in self._wire.frames():
            # A host that does not read its answers is not listened to either.
            await self._wire.room()
            # Read one after the other, however long that takes: a cancel must not overtake its stream.
            task = asyncio.create_task(self._serve_one(await _read(frame)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait for what is being answered."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve_one(self, message: JsonValue | RpcError) -> None:
        reply = await self._reply(message)
        if reply.body is not None:
            await self._wire.send(reply.body)
        for then in reply.then:
            then()

    async def answer(self, frame: Frame) -> _Reply:
        """Return what a line is answered; never raises because of what is in it."""
        return await self._reply(await _read(frame))

    async def _reply(self, message: JsonValue | RpcError) -> _Reply:
        if isinstance(message, RpcError):
            return _Reply(_failed(None, message))
        if isinstance(message, list):
            return await self._batch(message)
        reply = _Reply()
        response = await self._one(message, reply.then)
        reply.body = None if response is None else _written(response)
        return reply

    async def _batch(self, messages: list[JsonValue]) -> _Reply:
        if not 0 < len(messages) <= BATCH_ITEMS_MAX:
            found = f"a batch has 1 to {BATCH_ITEMS_MAX} messages, found {len(messages):,}"
            return _Reply(_failed(None, RpcError(Code.INVALID_REQUEST, found)))
        reply = _Reply()
        answers = await asyncio.gather(*(self._one(message, reply.then) for message in messages))
        bodies = [_written(answer) for answer in answers if answer is not None]
        if bodies:
            whole = b"[" + b",".join(bodies) + b"]"
            too_large = RpcError(Code.INTERNAL, "the answers to the batch are too large for one frame")
            is_fit = len(whole) <= FRAME_LIMITS.message_bytes_max
            reply.body = whole if is_fit else _failed(None, too_large)
        return reply

    async def _one(self, message: JsonValue, then: list[Callable[[], None]]) -> SidecarResponse | None:
        """Return the answer to one message; None if it wants none."""
        if isinstance(message, dict) and "method" not in message and {"result", "error"} & message.keys():
            self._settle(message)
            return None
        request = _request(message)
        if isinstance(request, RpcError):
            return _failure(_id_of(message), request)
        found = await self._outcome(request)
        if isinstance(found, Later):
            then.append(found.then)
            found = found.result
        if isinstance(request, SidecarRequest):
            return _failure(request.id, found) if isinstance(found, RpcError) else _success(request.id, found)
        if isinstance(found, RpcError):
            _LOG.warning("a notification failed: %s", found.message)
        return None

    async def _outcome(self, request: SidecarRequest | SidecarNotification) -> JsonValue | Later | RpcError:
        try:
            return await self._run(request)
        except RpcError as error:
            return error
        except AgentError as error:
            return of_agent_error(error)
        except Exception as error:  # noqa: BLE001 - one call must not end the others
            _LOG.error("%s failed: %s", shown(request.method, _NAME_CHARS_MAX), type(error).__name__)
            return RpcError(Code.INTERNAL, f"the method failed ({type(error).__name__}); see stderr")

    async def _run(self, request: SidecarRequest | SidecarNotification) -> JsonValue | Later:
        known = self._methods.get(request.method)
        if known is None:
            name = shown(request.method, _NAME_CHARS_MAX)
            raise RpcError(Code.METHOD_NOT_FOUND, f"there is no method {name}; protocol.describe lists them")
        if known.is_urgent:
            return await known.call(self._app, request.params)
        if self.refuses is not None:
            raise RpcError(Code.TRANSPORT, self.refuses)
        if self._running >= REQUESTS_MAX:
            raise RpcError(Code.TRANSPORT, f"too many requests at the same time: limit {REQUESTS_MAX}")
        self._running += 1
        try:
            return await known.call(self._app, request.params)
        finally:
            self._running -= 1

    # we ask the host

    async def call(self, method: str, params: JsonObject) -> JsonValue:
        """Ask the host for something and return its result.

        Whoever stops waiting tells the host so.

        Raises:
            RpcError: the host refused, answered nonsense, or is asked too much.
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
        """Take an answer of the host; one that nobody waits for is passed over."""
        try:
            response = SidecarResponse.model_validate(message)
        except ValidationError:
            _LOG.warning("an answer of the host cannot be read")
            response = None
        call_id = _id_of(message)
        future = self._calls.get(call_id) if isinstance(call_id, str) else None
        if future is None or future.done():
            _LOG.warning("an answer of the host is to nothing that it was asked")
        elif response is None:
            future.set_exception(RpcError(Code.TRANSPORT, "the host's answer is no JSON-RPC response"))
        else:
            future.set_result(response)


def read_params(model: type[P], given: object) -> P:
    """Return the parameters of a method, by name.

    Raises:
        RpcError: they do not fit.
    """
    if isinstance(given, tuple | list) and given:
        raise invalid_params("expected parameters by name, found a list")
    plain = cast(JsonObject, given or {})
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        found = invalid(error, plain)
    first = found.issues[0]
    raise invalid_params(f"{first.path or 'params'}: {first.message}")


async def _read(frame: Frame) -> JsonValue | RpcError:
    """Return what a line says, or why it cannot be read."""
    if isinstance(frame, Refused):
        return RpcError(Code.PARSE, frame.reason)
    if len(frame) <= LIGHT_FRAME_BYTES_MAX:
        return _parsed(frame)
    return await in_own_thread(partial(_parsed, frame))


def _parsed(frame: bytes) -> JsonValue | RpcError:
    try:
        return parse(frame, FRAME_LIMITS)
    except CodecError as error:
        return RpcError(Code.PARSE, error.message)


def _request(message: JsonValue) -> SidecarRequest | SidecarNotification | RpcError:
    if not isinstance(message, dict):
        return RpcError(Code.INVALID_REQUEST, "a message is an object, or a batch of them")
    if message.get("jsonrpc") != _VERSION:
        # The model would take it for granted if it is left out.
        return RpcError(Code.INVALID_REQUEST, 'no JSON-RPC 2.0 request: expected "jsonrpc": "2.0"')
    if len(str(message.get("id"))) > ID_CHARS_MAX:
        return RpcError(Code.INVALID_REQUEST, f"the id is too long: limit {ID_CHARS_MAX:,} characters")
    model = SidecarRequest if "id" in message else SidecarNotification
    try:
        return model.model_validate(message)
    except ValidationError as error:
        first = invalid(error, message).issues[0]
    return RpcError(Code.INVALID_REQUEST, f"no JSON-RPC 2.0 request: {first.path or '/'}: {first.message}")


def _id_of(message: JsonValue) -> Id:
    """Return the id of a message, if it is one that can be sent back."""
    found = message.get("id") if isinstance(message, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return found if len(str(found)) <= ID_CHARS_MAX else None


def _success(request_id: Id, result: JsonValue) -> SidecarResponse:
    try:
        return SidecarResponse(id=request_id, result=result)
    except ValidationError:
        return _failure(request_id, RpcError(Code.INTERNAL, "the result cannot be sent: it is no JSON"))


def _failure(request_id: Id, error: RpcError) -> SidecarResponse:
    return SidecarResponse(id=request_id, error=error.wire)


def _failed(request_id: Id, error: RpcError) -> bytes:
    return encode(_failure(request_id, error), FRAME_LIMITS)


def _written(response: SidecarResponse) -> bytes:
    """Return an answer as bytes; a result that cannot be sent is an error."""
    try:
        return encode(response, FRAME_LIMITS)
    except CodecError as error:
        return _failed(response.id, RpcError(Code.INTERNAL, f"the result cannot be sent: {error.message}"))
