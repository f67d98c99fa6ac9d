"""FastAPISseTransport: the `TransportAdapter` of a FastAPI or Starlette route, over Server-Sent Events.

It is for applications with routes of their own. The routes of `windlass_server` send feeds of the journal,
which a client can resume; see `windlass_server.streams`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Final, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from windlass import AgentError
from windlass.errors import Rejected, Unavailable, kind_of, wrong
from windlass_protocol import CodecError, ErrorKind, RetryClass, SSEEvent, SSEEventType, decode
from windlass_protocol.codec import encode_trusted
from windlass_server.problems import of_agent_error
from windlass_server.settings import (
    BATCH_BYTES,
    BODY_BYTES_MAX,
    HEARTBEAT_S,
    SEND_S_MAX,
    TRANSPORT_EVENTS_MAX,
)

_LOG: Final = logging.getLogger(__name__)

SSE_TYPE: Final = "text/event-stream"
DONE: Final = b"data: [DONE]\n\n"
"""The end of a stream in the Steerable shape."""


def sse_frame(event: SSEEvent, cursor: str | None = None) -> bytes:
    """Return an event of the Steerable shape as one Server-Sent Event; `cursor` is its `id`."""
    name = b"" if cursor is None else b"id: %b\n" % cursor.encode()
    return b"%bevent: message\ndata: %b\n\n" % (name, encode_trusted(event))


class FastAPISseTransport:
    """Carries the events of one HTTP request and its response; see `TransportAdapter`.

        @app.post("/chat")
        async def chat() -> Response:
            transport = FastAPISseTransport()
            return transport.response(answer(transport))

    `emit` sends Server-Sent Events. The stream ends with `data: [DONE]` after an event of type `done`, after
    `aclose`, or when the coroutine given to `response` returns. `receive` yields the events in the body of
    the request, one JSON object a line; the route must not read the body itself.

    When the client disconnects, or reads nothing for `send_s_max`, the coroutine is cancelled and `emit`
    raises `Unavailable`. A client cannot resume this stream.
    """

    def __init__(self, *, heartbeat_s: float = HEARTBEAT_S, send_s_max: float = SEND_S_MAX) -> None:
        self._heartbeat_s = heartbeat_s
        self._send_s_max = send_s_max
        self._changed = asyncio.Condition()
        self._waiting: deque[SSEEvent] = deque()
        self._is_ended = False
        """No further event is taken; those that wait are sent."""
        self._is_gone = False
        """The connection is closed."""
        self._received: asyncio.Queue[SSEEvent | Rejected | None] = asyncio.Queue()
        self._has_response = False

    @property
    def is_open(self) -> bool:
        """Whether `emit` takes events."""
        return not self._is_ended and not self._is_gone

    async def emit(self, event: SSEEvent) -> None:
        """Send one event, in order; wait while `TRANSPORT_EVENTS_MAX` events are unsent.

        Raises:
            Rejected: it is not an SSEEvent.
            Unavailable: the client disconnected, or the stream has ended.
        """
        if not isinstance(cast(object, event), SSEEvent):
            raise wrong(f"emit takes an SSEEvent, found {kind_of(event)}")
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self.is_open or len(self._waiting) < TRANSPORT_EVENTS_MAX
            )
            if not self.is_open:
                raise _closed_error("the client disconnected" if self._is_gone else "the stream has ended")
            self._waiting.append(event)
            self._is_ended = event.type is SSEEventType.DONE
            self._changed.notify_all()

    async def receive(self) -> AsyncIterator[SSEEvent]:
        """Yield the events in the body of the request, until it ends; other lines are logged and ignored.

        Nothing is read before the response is being sent. Use it once.

        Raises:
            Rejected: the body is larger than `BODY_BYTES_MAX`.
        """
        while (event := await self._received.get()) is not None:
            if isinstance(event, Rejected):
                raise event
            yield event

    async def aclose(self) -> None:
        """End the stream after the events that wait."""
        async with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def response(self, work: Coroutine[object, object, None] | None = None) -> Response:
        """Return the response that sends the events; call it once.

        `work` emits them. It runs while the response is sent. An exception of `work` becomes an event of type
        `error`: an `AgentError` with its code and message, any other with the code `internal`.

        Raises:
            Rejected: the transport has a response already.
        """
        if self._has_response:
            if work is not None:
                work.close()
            raise Rejected(
                "a FastAPISseTransport serves one request: create one in each call of the route",
                kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
                retry=RetryClass.NOT_RETRYABLE,
            )
        self._has_response = True
        return _SseResponse(self, work)

    async def serve(self, receive: Receive, send: Send, response: "_SseResponse") -> None:
        """Send a response; called by it."""
        tasks = [asyncio.create_task(self._listen(receive))]
        if response.work is not None:
            tasks.append(asyncio.create_task(self._work(response.work)))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": response.raw_headers}
            await send(start)
            if await self._pump(send):
                # The client has its answer. The work may go on, for example to store it.
                await asyncio.gather(*tasks[1:])
        except TimeoutError:
            # The response is incomplete, so the server closes the connection.
            _LOG.warning("a client did not read for %g s; its stream is closed", self._send_s_max)
        finally:
            await self._close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, send: Send) -> bool:
        """Send the events; return whether all are sent: False if the client disconnected."""
        while True:
            events, is_over = await self._next()
            if self._is_gone:
                return False
            body = b"".join(map(sse_frame, events)) + (DONE if is_over else b"")
            async with asyncio.timeout(self._send_s_max):
                await send({"type": "http.response.body", "body": body, "more_body": not is_over})
            if is_over:
                return True

    async def _next(self) -> tuple[list[SSEEvent], bool]:
        """Return the events to send, and whether the stream ends with them; a keepalive after a silence."""
        async with self._changed:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._changed.wait_for(lambda: bool(self._waiting) or not self.is_open)
            events = list[SSEEvent]()
            size = 0
            while self._waiting and size < BATCH_BYTES:
                event = self._waiting.popleft()
                size += len(event.content or "")
                events.append(event)
            self._changed.notify_all()
            is_over = self._is_ended and not self._waiting
            if not events and not is_over:
                events.append(SSEEvent(type=SSEEventType.KEEPALIVE))
            return events, is_over

    async def _work(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except AgentError as error:
            problem = of_agent_error(error)
            await self._fail(problem.named_code, problem.detail)
        except Exception:  # noqa: BLE001 - code of the application: its failure ends its own stream
            _LOG.exception("the coroutine of a stream failed")
            await self._fail("internal", "the answer failed; the log of the server has the reason")
        await self.aclose()

    async def _fail(self, code: str, message: str) -> None:
        # The work may have failed because the stream is closed.
        with suppress(Unavailable):
            await self.emit(SSEEvent(type=SSEEventType.ERROR, code=code, message=message))

    async def _listen(self, receive: Receive) -> None:
        """Read the body of the request, then wait until the client disconnects."""
        buffer, left = bytearray(), BODY_BYTES_MAX
        while (message := await receive())["type"] != "http.disconnect":
            if left < 0:
                continue
            data: bytes = message.get("body", b"")
            left -= len(data)
            if left < 0:
                self._received.put_nowait(_too_large())
                continue
            buffer += data
            is_end = not message.get("more_body", False)
            if is_end or b"\n" in data:
                # Only then: a body in many small pieces must not be copied for each of them.
                *lines, buffer = buffer.split(b"\n")
                for line in (*lines, buffer) if is_end else lines:
                    self._receive_line(bytes(line))
            if is_end:
                self._received.put_nowait(None)
        await self._close()

    def _receive_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            self._received.put_nowait(decode(SSEEvent, line))
        except CodecError as error:
            _LOG.warning("ignored a line of a request that is not an SSEEvent: %s", error.code)

    async def _close(self) -> None:
        self._received.put_nowait(None)
        async with self._changed:
            self._is_gone = True
            self._waiting.clear()
            self._changed.notify_all()


class _SseResponse(Response):
    """The response of a transport."""

    def __init__(self, transport: FastAPISseTransport, work: Coroutine[object, object, None] | None) -> None:
        super().__init__(media_type=SSE_TYPE)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"
        self.work = work
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; see ASGI."""
        await self._transport.serve(receive, send, self)


def _closed_error(reason: str) -> Unavailable:
    return Unavailable(
        f"{reason}: no event can be sent",
        kind=ErrorKind.PROJECTION_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )


def _too_large() -> Rejected:
    return Rejected(
        f"the body of the request is too large: limit {BODY_BYTES_MAX:,} bytes",
        kind=ErrorKind.PROJECTION_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
    )
