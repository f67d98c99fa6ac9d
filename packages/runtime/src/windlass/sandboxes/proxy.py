"""The proxy of a sandbox: http and https to the hosts of an allow-list.

A name must be on the list, and all addresses that it resolves to must be public, as for `web_fetch`. The
proxy connects to an address that was checked, so that a second answer of a name server changes nothing.

A connection carries one request: a tunnel to a port of https, or a request of http with a body of a given
length or in chunks. Bytes after it are not passed on, so that no second request reaches a host with another
name or path than the one that was checked.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Final

from windlass.addresses import PORTS, Resolver, Target, check_public, resolve, target_of
from windlass.ports.clock import begin_task
from windlass.tools import ToolFailed

Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Connects to an IP address and a port; raises OSError if that fails."""
HEAD_BYTES_MAX: Final = 16_384
HEAD_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 64
"""Connections of one command at once."""
ADDRESSES_MAX: Final = 4
"""IP addresses of one host that are tried."""
_CHUNK_BYTES: Final = 65_536
_REQUEST: Final = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]{1,4096}) HTTP/1\.[01]")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([\x20-\x7e\x80-\xff\t]{0,8192})")
_AUTHORITY: Final = re.compile(rb"([^:/?#@\[\]]{1,253}):([0-9]{1,5})")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[\x20-\x7e\t]{0,1024})?\r\n")
_OWN_HEADERS: Final = frozenset({b"host", b"connection", b"keep-alive", b"upgrade", b"te", b"trailer"})
"""Headers that the proxy sets or leaves out, beside those that begin with `proxy-`."""


def parse_host(name: str) -> str:
    """Return a host name of an allow-list as it is compared.

    Raises:
        ToolFailed: it is not the name of a host on the public web.
    """
    target = target_of(f"https://{name}/")
    if target.path != "/" or target.port != PORTS["https"][0] or not re.search("[a-z]", target.host):
        raise ToolFailed("write the name alone, such as api.example.com")
    return target.host


class Proxy:
    """Serves the connections of one sandbox."""

    def __init__(
        self, hosts: Iterable[str], *, resolver: Resolver = resolve, connect: Connect | None = None
    ) -> None:
        self._hosts = frozenset(hosts)
        self._resolve = resolver
        self._connect = connect or _connect
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def listen(self, listener: socket.socket) -> None:
        """Serve the connections to a socket."""
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=HEAD_BYTES_MAX)

    def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begin_task(self._serving, self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._room:
                await self._answer(reader, writer)
        except ToolFailed as error:
            await _refuse(writer, b"403 Forbidden", f"the sandbox does not allow this: {error.message}")
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await _refuse(writer, b"502 Bad Gateway", "the host could not be reached, or did not answer")
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        request = _REQUEST.fullmatch(first)
        if request is None:
            raise ToolFailed("the request is not one of HTTP to a proxy")
        method, address = request[1], request[2]
        target = _tunnel(address) if method == b"CONNECT" else _page(address)
        if target.host not in self._hosts:
            raise ToolFailed("the host is not on the list of the sandbox")
        headers = _headers(lines)
        length = _body_length(headers)
        upstream = await self._dial(target)
        try:
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                forward = _copy(reader, upstream[1])
            else:
                line = b"%s %s HTTP/1.1" % (method, target.path.encode())
                own = [b"Host: " + target.authority.encode(), b"Connection: close"]
                passed = [b"%s: %s" % header for header in headers]
                upstream[1].write(b"\r\n".join([line, *own, *passed, b"", b""]))
                forward = _copy_body(reader, upstream[1], length)
            await _both_ways(forward, _copy(upstream[0], writer))
        finally:
            upstream[1].close()

    async def _dial(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            addresses = await self._resolve(target.host, target.port)
            for address in check_public(addresses)[:ADDRESSES_MAX]:
                with suppress(OSError):
                    return await self._connect(address, target.port)
        raise ConnectionError("no address of the host answers")


def _tunnel(authority: bytes) -> Target:
    """Return the target of CONNECT; a port of http would be a way around the checks of requests."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ToolFailed("the target of CONNECT must be a host name and a port")
    return target_of(f"https://{match[1].decode('latin-1')}:{int(match[2])}/")


def _page(url: bytes) -> Target:
    """Return the target of a plain request."""
    target = target_of(url.decode("latin-1"))
    if target.scheme != "http":
        raise ToolFailed("https must go through CONNECT")
    return target


def _headers(lines: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers that are passed on."""
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise ToolFailed("a header of the request is not valid")
        name = match[1].lower()
        if name not in _OWN_HEADERS and not name.startswith(b"proxy-"):
            headers.append((match[1], match[2].strip(b" \t")))
    return headers


def _body_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return how many bytes the body of a request has; None if it comes in chunks.

    Raises:
        ToolFailed: the end of the body would be ambiguous.
    """
    framing = [(name.lower(), value) for name, value in headers]
    lengths = [value for name, value in framing if name == b"content-length"]
    codings = [value.lower() for name, value in framing if name == b"transfer-encoding"]
    match lengths, codings:
        case [], []:
            return 0
        case [length], [] if _LENGTH.fullmatch(length):
            return int(length)
        case [], [b"chunked"]:
            return None
        case _:
            raise ToolFailed("a body has one Content-Length, or the Transfer-Encoding chunked and no other")


async def _both_ways(forward: Coroutine[object, object, None], back: Coroutine[object, object, None]) -> None:
    """Run two copies until the answer is complete."""
    there, answer = asyncio.create_task(forward), asyncio.create_task(back)
    try:
        await asyncio.wait([answer])
    finally:
        there.cancel()
        answer.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _copy_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int | None) -> None:
    """Copy the body of one request and nothing after it; one that is not complete ends the connection."""
    try:
        if length is not None:
            await _copy_bytes(reader, writer, length)
            return
        while True:
            line = _CHUNK.fullmatch(await reader.readuntil(b"\r\n"))
            if line is None:
                raise ConnectionError("the size of a chunk is not valid")
            size = int(line[1], 16)
            writer.write(b"%x\r\n" % size)
            if size == 0:
                # Trailers are not passed on.
                writer.write(b"\r\n")
                await writer.drain()
                return
            await _copy_bytes(reader, writer, size)
            if await reader.readexactly(2) != b"\r\n":
                raise ConnectionError("a chunk is longer than its size")
            writer.write(b"\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()


async def _copy_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
    while size > 0:
        chunk = await reader.read(min(size, _CHUNK_BYTES))
        if not chunk:
            raise ConnectionError("the body ended early")
        size -= len(chunk)
        writer.write(chunk)
        await writer.drain()


async def _refuse(writer: asyncio.StreamWriter, status: bytes, message: str) -> None:
    body = f"{message}\n".encode()
    head = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    with suppress(OSError):
        writer.write(head % (status, len(body)) + body)
        await writer.drain()


async def _connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address, port)
