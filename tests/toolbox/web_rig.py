"""Servers that stand in for the public web, and a canary that no fetch may reach."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

import httpcore2

from windlass.addresses import resolve
from windlass.toolbox.fetch import Network

PUBLIC = "93.184.215.14"
OTHER = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Page = bytes | Handler
"""The answer of a server: bytes, or a function that writes them."""


@asynccontextmanager
async def served(
    handler: Handler, host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[int]:
    """Serve on an address; all connections are done with when this is left."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await handler(reader, writer)
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(handle(reader, writer)))

    server = await asyncio.start_server(accept, host, port, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*tasks)


def reply(body: bytes | str = b"", status: str = "200 OK", **headers: str) -> bytes:
    """An answer with its headers; underscores in their names become dashes."""
    raw = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(raw))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + raw


def redirect(to: str, status: str = "302 Found") -> bytes:
    return reply(b"", status, Location=to)


@dataclass
class Web:
    """The public web: names with their addresses, and one server behind all of them."""

    pages: Mapping[str, Page]
    names: dict[str, list[Sequence[str]]] = field(default_factory=dict[str, list[Sequence[str]]])
    """Addresses of a name, in the order of its lookups; the last one stays. Other names are public."""
    requests: list[str] = field(default_factory=list[str])
    dialled: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    silent: set[str] = field(default_factory=set[str])
    """Addresses without a server."""
    port: int = 0
    tls: ssl.SSLContext | None = None

    def network(self) -> Network:
        return Network(self.resolve, self.dial, self.tls)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if host not in self.names:
            return [PUBLIC]
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def dial(self, address: str, port: int) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((address, port))
        if address in self.silent:
            raise ConnectionRefusedError
        return await real_dial("127.0.0.1", self.port)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(head)
        page = self.pages.get(head.split(" ")[1], reply("not here", "404 Not Found"))
        if isinstance(page, bytes):
            writer.write(page)
            await writer.drain()
        else:
            await page(reader, writer)


async def real_dial(address: str, port: int) -> httpcore2.AsyncNetworkStream:
    backend = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())
    return await backend.connect_tcp(address, port)


@asynccontextmanager
async def web(
    pages: Mapping[str, Page],
    names: dict[str, list[Sequence[str]]] | None = None,
    *,
    server_tls: ssl.SSLContext | None = None,
    client_tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[Web]:
    """Run a server with these pages by path."""
    world = Web(pages, names or {}, tls=client_tls)
    async with served(world.answer, "127.0.0.1", 0, server_tls) as world.port:
        yield world


@dataclass
class Canary:
    """A server on every address of this machine; no fetch may connect to it."""

    port: int = 0
    visits: int = 0

    async def visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        writer.write(reply("canary"))
        await writer.drain()

    def network(self, names: Mapping[str, Sequence[str]]) -> Network:
        """The network of this machine, with some names added."""

        async def named(host: str, port: int) -> Sequence[str]:
            return names[host] if host in names else await resolve(host, port)

        return Network(named)


@asynccontextmanager
async def canary() -> AsyncGenerator[Canary]:
    bird = Canary()
    async with served(bird.visited, "0.0.0.0", 0) as bird.port:
        if not socket.has_ipv6:
            yield bird
            return
        async with served(bird.visited, "::", bird.port):
            yield bird
