"""Faulty servers, a proxy that cuts connections, and a clock that does not wait."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from windlass.client import Client, Means
from windlass_protocol import Event

Answer = Callable[["Request"], bytes | Awaitable[bytes]]


@dataclass(slots=True)
class Jumps:
    """A clock that does not wait, and records the requested delays."""

    waits: list[float] = field(default_factory=list[float])

    def now(self) -> datetime:
        return datetime(2026, 1, 31, 9, 30, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.waits)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@dataclass(slots=True)
class Counter:
    """Makes names: k1, k2, …"""

    count: int = 0

    def __call__(self) -> str:
        self.count += 1
        return f"k{self.count}"


def client_of(port: int, clock: Jumps | None = None, **options: Any) -> Client:
    """A client with a clock that never waits and a fixed random source."""
    means = Means(clock or Jumps(), Counter(), lambda: 0.5)
    return Client(f"http://127.0.0.1:{port}", means=means, **options)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server received it."""

    line: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter


@dataclass(slots=True)
class Fake:
    """A server with scripted answers.

    One answer for each request, the last one again and again.
    """

    port: int
    requests: list[Request] = field(default_factory=list[Request])


@asynccontextmanager
async def faking(*answers: bytes | Answer) -> AsyncGenerator[Fake]:
    """Answer requests in their order."""
    fake = Fake(0)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                request = await _request(reader, writer)
                fake.requests.append(request)
                answer = answers[min(len(fake.requests), len(answers)) - 1]
                raw = answer(request) if callable(answer) else answer
                writer.write(raw if isinstance(raw, bytes) else await raw)
                await writer.drain()
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    line = (await reader.readuntil(b"\r\n")).decode().strip()
    headers: dict[str, str] = {}
    while text := (await reader.readuntil(b"\r\n")).decode().strip():
        name, _, value = text.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line, headers, await reader.readexactly(int(headers.get("content-length", 0))), writer)


def reply(status: int, body: object, **headers: str) -> bytes:
    """An answer in JSON; the connection ends with it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{head}content-length: {len(raw)}\r\n\r\n".encode() + raw


def problem(status: int, code: str, detail: str = "no", **headers: str) -> bytes:
    """A refusal, as the server writes it."""
    body: dict[str, object] = {
        "type": "t",
        "title": "t",
        "status": status,
        "detail": detail,
        "code": code,
        "ids": {},
    }
    return reply(status, body, content_type="application/problem+json", **headers)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
"""The head of a feed."""


def stream(*frames: str) -> bytes:
    """A feed that ends cleanly."""
    body = "".join(frames).encode()
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return HEAD + chunk + b"0\r\n\r\n"


def cut(*frames: str) -> bytes:
    """A feed with a broken connection."""
    return stream(*frames).removesuffix(b"0\r\n\r\n")


def frame(seq: int, kind: str = "session.note", index: int | None = None) -> str:
    """One event of a feed."""
    # The data fields that an event needs; types allow more.
    data = {"runId": "r", "sequence": 0, "stepIndex": 0, "turnId": "t", "messageDelta": "x"}
    event: dict[str, object] = {
        "type": kind,
        "meta": {"at": "2026-01-31T09:30:00.000Z"},
        "data": data,
        "seq": seq,
    }
    if index is not None:
        event["index"] = index
    return f"id: c{seq}.{index}\ndata: {json.dumps(event)}\n\n"


def places(events: Sequence[Event]) -> list[tuple[int | None, int | None]]:
    return [(event.seq, event.index) for event in events]


@dataclass(slots=True)
class Proxy:
    """A proxy between a client and a server that cuts the connection at a chosen place."""

    port: int = 0
    to_client: int | None = None
    """After how many bytes of the next connection it is cut; None never cuts."""
    to_server: int | None = None
    is_bad: bool = False
    """Whether it cuts every connection, and not the next one alone."""
    connections: int = 0


@asynccontextmanager
async def proxy(target: int) -> AsyncGenerator[Proxy]:
    """Pass bytes on to a port; a cut is for one connection."""
    network = Proxy()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        network.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        limits = (network.to_server, network.to_client)
        if not network.is_bad:
            network.to_server = network.to_client = None
        there, back = await asyncio.open_connection("127.0.0.1", target)
        pumps = [
            asyncio.create_task(_pump(reader, back, limits[0])),
            asyncio.create_task(_pump(there, writer, limits[1])),
        ]
        try:
            # Closing the proxy cancels this task; that is not an error of the server.
            with suppress(asyncio.CancelledError):
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            writer.transport.abort()
            back.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    left = limit
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            part = piece if left is None else piece[:left]
            writer.write(part)
            await writer.drain()
            if left is not None:
                left -= len(part)
                if left == 0:
                    return
