"""FastAPISseTransport: a route of an application that sends events of the simple chat stream."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Response
from starlette.types import Message
from tests.server.rig import Uvicorn, Wire, eventually, http_client, run

from windlass.errors import Conflict, Rejected, Unavailable
from windlass.ports.transport import TransportAdapter
from windlass_protocol import ErrorKind, RetryClass, SSEEvent, SSEEventType
from windlass_server import FastAPISseTransport
from windlass_server.settings import BODY_BYTES_MAX, TRANSPORT_EVENTS_MAX

Work = Callable[[FastAPISseTransport], Coroutine[object, object, None]]


def text(words: str) -> SSEEvent:
    return SSEEvent(type=SSEEventType.CONTENT, content=words)


DONE_EVENT = SSEEvent(type=SSEEventType.DONE)


@asynccontextmanager
async def chatting(work: Work, **options: float) -> AsyncGenerator[int]:
    """Serve one route of an application that knows nothing else of us; gives the port."""
    app = FastAPI()

    @app.api_route("/v1/chat", methods=["GET", "POST"])
    async def chat() -> Response:
        transport = FastAPISseTransport(**options)
        return transport.response(work(transport))

    server = Uvicorn(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started or task.done())
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.stopping.set()
        await task


async def told(port: int) -> list[str]:
    wire = await Wire.get(port, "/chat")
    assert (wire.status, wire.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    found = [frame.data async for frame in wire.frames()]
    wire.cut()
    return found


def events_of(found: list[str]) -> list[SSEEvent]:
    assert found[-1] == "[DONE]"
    return [SSEEvent.model_validate_json(data) for data in found[:-1]]


def test_events_arrive_in_order_and_the_stream_ends_with_done() -> None:
    sent = [text("a\nb"), text("c"), SSEEvent(type=SSEEventType.TOOL_CALL, payload={"id": "1"})]

    async def work(transport: FastAPISseTransport) -> None:
        adapter: TransportAdapter = transport
        for event in sent:
            await adapter.emit(event)

    async def main() -> None:
        async with chatting(work) as port:
            assert events_of(await told(port)) == sent

    run(main())


def test_after_done_the_stream_is_over_and_the_work_goes_on() -> None:
    finished: list[str] = []
    has_answer = asyncio.Event()

    async def work(transport: FastAPISseTransport) -> None:
        await transport.emit(DONE_EVENT)
        with pytest.raises(Unavailable, match="the stream has ended"):
            await transport.emit(text("too late"))
        await has_answer.wait()
        finished.append("stored")

    async def main() -> None:
        async with chatting(work) as port:
            assert events_of(await told(port)) == [DONE_EVENT]
            assert finished == []
            has_answer.set()
            await eventually(lambda: bool(finished))

    run(main())


def test_a_cut_connection_cancels_the_work_and_no_other_stream() -> None:
    cancelled: list[int] = []
    transports: list[FastAPISseTransport] = []
    may_end = asyncio.Event()

    async def work(transport: FastAPISseTransport) -> None:
        number = len(transports)
        transports.append(transport)
        try:
            await transport.emit(text(f"stream {number}"))
            await may_end.wait()
            await transport.emit(text("the end"))
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def main() -> None:
        async with chatting(work) as port:
            first, second = await Wire.get(port, "/chat"), await Wire.get(port, "/chat")
            frames = [first.frames(), second.frames()]
            for number, stream in enumerate(frames):
                assert json.loads((await anext(stream)).data)["content"] == f"stream {number}"
            first.cut()
            await eventually(lambda: bool(cancelled))
            assert [one.is_open for one in transports] == [False, True]
            with pytest.raises(Unavailable, match="the client disconnected"):
                await transports[0].emit(text("after the disconnect"))
            may_end.set()
            rest = [frame.data async for frame in frames[1]]
            assert [one.content for one in events_of(rest)] == ["the end"]
            assert cancelled == [0]
            second.cut()

    run(main())


def test_an_emitter_that_waits_for_a_slow_client_is_told_when_it_is_gone() -> None:
    async def work(transport: FastAPISseTransport) -> None:
        failed = 0
        senders = [asyncio.create_task(transport.emit(text("x" * 100_000))) for _ in range(1_000)]
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            results = await asyncio.gather(*senders, return_exceptions=True)
            failed = sum(isinstance(one, Unavailable) for one in results)
            raise
        finally:
            outcome.set_result((failed, len(senders)))

    outcome: asyncio.Future[tuple[int, int]]

    async def main() -> None:
        nonlocal outcome
        outcome = asyncio.get_running_loop().create_future()
        async with chatting(work) as port:
            wire = await Wire.get(port, "/chat")
            await anext(wire.frames())
            wire.cut()
            failed, count = await outcome
            assert 0 < failed < count

    run(main())


class Socket:
    """The connection of one request, without a network: what is sent waits until it is released."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.may_send = asyncio.Event()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            await self.may_send.wait()
            self.sent.append(message["body"])

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError("never")

    def begin(self, transport: FastAPISseTransport) -> asyncio.Task[None]:
        response: Callable[..., Awaitable[None]] = transport.response()
        return asyncio.ensure_future(response({"type": "http"}, self.receive, self.send))


async def settled(task: asyncio.Task[None]) -> bool:
    """Whether a task ends without anything from outside."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


def test_emit_waits_while_the_client_is_slow_and_loses_nothing() -> None:
    async def main() -> None:
        transport, socket = FastAPISseTransport(), Socket()
        serving = socket.begin(transport)
        await transport.emit(text("0"))
        assert not await settled(serving)  # the first event is being sent
        for number in range(1, TRANSPORT_EVENTS_MAX + 1):
            await transport.emit(text(str(number)))
        last = asyncio.create_task(transport.emit(text("last")))
        assert not await settled(last)
        socket.may_send.set()
        await last
        await transport.aclose()
        await serving
        found = [line.removeprefix("data: ") for line in b"".join(socket.sent).decode().splitlines()]
        contents = [json.loads(line)["content"] for line in found if line.startswith("{")]
        assert contents == [*map(str, range(TRANSPORT_EVENTS_MAX + 1)), "last"]

    run(main())


def test_a_client_that_never_reads_is_disconnected() -> None:
    async def main() -> None:
        transport, socket = FastAPISseTransport(send_s_max=0.01), Socket()
        serving = socket.begin(transport)
        await transport.emit(text("0"))
        await serving
        assert (socket.sent, transport.is_open) == ([], False)
        with pytest.raises(Unavailable, match="the client disconnected"):
            await transport.emit(text("1"))

    run(main())


def test_silence_is_filled_with_keepalives() -> None:
    may_end = asyncio.Event()

    async def work(transport: FastAPISseTransport) -> None:
        await may_end.wait()
        await transport.emit(text("at last"))

    async def main() -> None:
        async with chatting(work, heartbeat_s=0.001) as port:
            wire = await Wire.get(port, "/chat")
            frames = wire.frames()
            for _ in range(2):
                assert json.loads((await anext(frames)).data) == {"type": "keepalive"}
            may_end.set()
            rest = [frame.data async for frame in frames]
            assert [one for one in events_of(rest) if one.type is not SSEEventType.KEEPALIVE] == [
                text("at last")
            ]
            wire.cut()

    run(main())


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            Conflict("it is taken", kind=ErrorKind.TOOL_FAILURE, retry=RetryClass.NOT_RETRYABLE),
            "conflict",
            "it is taken",
        ),
        (ValueError("a secret of the program"), "internal", "the log of the server"),
    ],
)
def test_a_failure_of_the_work_is_an_error_event(error: Exception, code: str, words: str) -> None:
    async def work(transport: FastAPISseTransport) -> None:
        await transport.emit(text("a part"))
        raise error

    async def main() -> None:
        async with chatting(work) as port:
            part, failure = events_of(await told(port))
            assert (part, failure.type, failure.code) == (text("a part"), SSEEventType.ERROR, code)
            assert words in str(failure.message)
            assert "secret" not in str(failure.message)

    run(main())


def test_what_is_no_event_is_refused_and_the_stream_ends_in_order() -> None:
    async def work(transport: FastAPISseTransport) -> None:
        await transport.emit(text("a part"))
        bad: Any = {"type": "content", "content": "x"}
        await transport.emit(bad)

    async def main() -> None:
        async with chatting(work) as port:
            part, failure = events_of(await told(port))
            assert (part, failure.type) == (text("a part"), SSEEventType.ERROR)
            assert "emit takes an SSEEvent, found dict" in str(failure.message)

    run(main())


async def echo(transport: FastAPISseTransport) -> None:
    async for event in transport.receive():
        await transport.emit(event)


async def posted(port: int, body: Any) -> list[str]:
    async with http_client() as client:
        found = await client.post(f"http://127.0.0.1:{port}/v1/chat", content=body)
    return [line.removeprefix("data: ") for line in found.text.splitlines() if line.startswith("data: ")]


def test_the_events_in_the_body_are_received_line_by_line() -> None:
    lines = (
        b'{"type":"content","content":"1"}\n\nno json\n{"type":"no such"}\n{"type":"content","content":"2"}'
    )

    async def pieces() -> AsyncGenerator[bytes]:
        for at in range(0, len(lines), 7):
            yield lines[at : at + 7]

    async def main() -> None:
        async with chatting(echo) as port:
            for body in (lines, pieces()):
                assert events_of(await posted(port, body)) == [text("1"), text("2")]
            assert await posted(port, b"") == ["[DONE]"]

    run(main())


def test_a_body_that_is_too_large_is_refused() -> None:
    async def main() -> None:
        async with chatting(echo) as port:
            body = b'{"type":"content","content":"1"}\n' + b" " * BODY_BYTES_MAX
            *_, failure = events_of(await posted(port, body))
            assert (failure.type, failure.code) == (SSEEventType.ERROR, "rejected")
            assert "the body of the request is too large" in str(failure.message)

    run(main())


def test_a_transport_serves_one_request() -> None:
    async def main() -> None:
        transport = FastAPISseTransport()
        transport.response()
        with pytest.raises(Rejected, match="serves one request"):
            transport.response(echo(transport))

    run(main())
