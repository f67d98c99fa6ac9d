"""A real server on a loopback port, and clients for it."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Unpack, cast

import httpx2
import uvicorn
from fastapi import FastAPI

from windlass import Agent, tool
from windlass.runtime.options import RuntimeOptions
from windlass.testing import ScriptedModel, call, say
from windlass.webhooks import Endpoint, Webhook
from windlass_server import Settings, Tenants, create_app
from windlass_server.app import HttpConnection
from windlass_server.settings import Limits

TIMEOUT_S = 300.0
"""The timeout of every wait in these tests."""
TICK_S = 0.002
FAST = Limits(
    requests_per_s=100_000,
    requests_burst=100_000,
    bytes_per_s=1e12,
    bytes_burst=1_000_000_000_000,
    cpu_per_s=1e6,
    cpu_burst_s=1e6,
    failures_per_s=100_000,
    failures_burst=100_000,
)
"""Limits that no test meets by accident."""
Json = dict[str, Any]


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test; it fails if it takes too long."""

    async def limited() -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await main
        finally:
            for wire in tuple(WIRES):
                wire.cut()
            await asyncio.sleep(0)

    asyncio.run(limited())


async def eventually(is_so: Callable[[], bool]) -> None:
    """Return once something is so; other tasks go on meanwhile."""
    for _ in range(int(TIMEOUT_S / TICK_S)):
        if is_so():
            return
        await asyncio.sleep(TICK_S)
    raise AssertionError("it never came to be so")


@tool(mode="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"rain in {place}"


@tool(mode="external", effect="idempotent")
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def talker(name: str = "talker", words: str = "Hello there.") -> Agent:
    """An agent that says the same each time."""
    return Agent(name, model=ScriptedModel(lambda _: say(words)))


def payer(name: str = "payer") -> Agent:
    """An agent that looks, asks whether it may pay, and says so."""

    def answer(messages: Sequence[Any]) -> Any:
        said = max(at for at, message in enumerate(messages) if message.role == "user")
        done = sum(1 for message in messages[said:] if message.role == "tool")
        if "leave" in messages[said].content:
            return say("I left it.")
        steps = [call("look", {"place": "Oslo"}), call("pay", {"cents": 5}), say("All done.")]
        return steps[min(done, 2)]

    return Agent(name, model=ScriptedModel(answer), tools=[look, pay])


def http_client(address: str = "", **headers: str) -> httpx2.AsyncClient:
    """A client for a server of the tests."""
    return httpx2.AsyncClient(base_url=address, headers=headers, timeout=TIMEOUT_S, trust_env=False)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is up."""

    port: int
    app: FastAPI
    tenants: Tenants

    @property
    def streams_open(self) -> float:
        return float(self.app.state.metrics.streams.collect()[0].samples[0].value)

    def client(self, key: str | None = None) -> httpx2.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return http_client(f"http://127.0.0.1:{self.port}/v1", **headers)


class Uvicorn(uvicorn.Server):
    """The server without its pauses: it looks ten times a second whether it is to stop, or has stopped."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.stopping.wait()

    async def shutdown(self, sockets: object = None) -> None:
        state = self.server_state
        for server in self.servers:
            server.close()
        for connection in tuple(state.connections):
            connection.shutdown()
        await eventually(lambda: not state.connections and not state.tasks)
        for server in self.servers:
            await server.wait_closed()
        await self.lifespan.shutdown()


@asynccontextmanager
async def serving(
    folder: Path,
    agents: Sequence[Agent] = (),
    *,
    settings: Settings | None = None,
    connection: type[HttpConnection] = HttpConnection,
    address: str = "",
    webhooks: Sequence[Webhook] = (),
    endpoints: Sequence[Endpoint] = (),
    port: int = 0,
    **options: Unpack[RuntimeOptions],
) -> AsyncGenerator[Server]:
    """Serve in this event loop; the stores are in `folder`, or at an address of PostgreSQL."""
    given = settings or Settings(limits=FAST)
    tenants = Tenants(
        folder,
        agents or [talker()],
        durability="process",
        address=address,
        webhooks=webhooks,
        endpoints=endpoints,
        **options,
    )
    app = create_app(given, tenants)
    config = uvicorn.Config(
        app, port=port, http=connection, log_level="error", lifespan="on", server_header=False
    )
    server = Uvicorn(config)
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started or task.done())
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Server(port, app, tenants)
    finally:
        app.state.streams.close()
        server.stopping.set()
        await task


@contextmanager
def in_thread(folder: Path, agents: Sequence[Agent], *, settings: Settings) -> Generator[Server]:
    """Serve in a thread, for clients that are not asynchronous."""
    up: Future[tuple[Server, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        async with serving(folder, agents, settings=settings) as server:
            over = asyncio.Event()
            up.set_result((server, asyncio.get_running_loop(), over))
            await over.wait()

    thread = Thread(target=lambda: asyncio.run(main()))
    thread.start()
    server, loop, over = up.result(TIMEOUT_S)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(TIMEOUT_S)


@dataclass(frozen=True, slots=True)
class Frame:
    """One Server-Sent Event."""

    id: str = ""
    event: str = ""
    data: str = ""
    retry: str = ""
    comment: str = ""

    @property
    def json(self) -> Json:
        return cast(Json, json.loads(self.data))

    @property
    def type(self) -> str:
        """The type of the event; empty for control frames of the server."""
        return "" if self.event or not self.data else str(self.json["type"])


def frame_of(lines: Sequence[str]) -> Frame:
    """Parse the lines of one event as the standard says, comments kept."""
    found: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        found.setdefault(name or "comment", []).append(value.removeprefix(" "))
    return Frame(**{name: "\n".join(values) for name, values in found.items()})


WIRES: "set[Wire]" = set()
"""Connections that are open."""


@dataclass(slots=True, eq=False)
class Wire:
    """A raw connection that reads a stream, without the cost of a client library."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    async def get(cls, port: int, path: str, *, root: str = "/v1", **headers: str) -> "Wire":
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        given = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        # HTTP/1.0: the stream goes on until the connection ends, without chunk lengths.
        writer.write(f"GET {root}{path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{given}\r\n".encode())
        wire = cls(reader, writer)
        WIRES.add(wire)
        wire.status = int((await reader.readline()).split()[1])
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            wire.headers[name.lower()] = value.strip()
        return wire

    async def frames(self) -> AsyncIterator[Frame]:
        lines: list[str] = []
        while line := await self.reader.readline():
            text = line.decode().rstrip("\n")
            if text:
                lines.append(text)
            elif lines:
                yield frame_of(lines)
                lines = []

    async def lines(self) -> AsyncIterator[Json]:
        while line := await self.reader.readline():
            if line.strip():
                yield json.loads(line)

    def cut(self) -> None:
        """End the connection as a broken network does."""
        WIRES.discard(self)
        self.writer.transport.abort()


async def watch(port: int, path: str, **headers: str) -> list[Frame]:
    """Read a stream to its end."""
    wire = await Wire.get(port, path, **headers)
    assert wire.status == 200, wire.status
    try:
        return [frame async for frame in wire.frames()]
    finally:
        wire.cut()


async def ended(client: httpx2.AsyncClient, run_id: str) -> Json:
    """Wait for the end of a run, by its feed, and return it."""
    async with client.stream("GET", f"/runs/{run_id}/events", params={"format": "ndjson"}) as stream:
        async for _ in stream.aiter_lines():
            pass
    return (await client.get(f"/runs/{run_id}")).json()


async def waiting(client: httpx2.AsyncClient, run_id: str) -> Json:
    """Wait until a run waits for input, and return it."""
    async with client.stream("GET", f"/runs/{run_id}/events", params={"format": "ndjson"}) as stream:
        async for line in stream.aiter_lines():
            if line.strip() and json.loads(line)["type"] == "run.waiting":
                break
    return (await client.get(f"/runs/{run_id}")).json()


@contextmanager
def process(
    folder: Path, *arguments: str, port: int = 0, module: str = "windlass_server"
) -> Generator[tuple[subprocess.Popen[str], int]]:
    """Serve in a process of its own; it is killed when this is left."""
    command = [
        sys.executable,
        "-m",
        module,
        "--data",
        str(folder),
        "--port",
        str(port),
        *arguments,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as child:
        assert child.stderr is not None
        try:
            said = ""
            for line in child.stderr:
                said += line
                if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                    yield child, int(found[1])
                    break
            else:
                raise AssertionError(f"the server did not start: {said}")
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.stderr.close()
