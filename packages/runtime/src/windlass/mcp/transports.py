"""MCP transports over HTTP and stdio, with limits on message size and rate."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final, Self, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import ReadStream, WriteStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from windlass.mcp.server import (
    GARBAGE_LINES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGE_VALUES_MAX,
    MESSAGES_UNASKED_MAX,
    MESSAGES_WAITING_MAX,
    RESULT_LEVELS_MAX,
    RESULT_PARTS_MAX,
    STOP_GRACE_S,
    McpServer,
)
from windlass_protocol.codec_scan import count_values

Item = SessionMessage | Exception
Streams = tuple[ReadStream[Item], WriteStream[SessionMessage]]
"""Messages from a server and messages to it."""


class GuardedStream:
    """A stream of messages that ends with an error when there are too many.

    A result that is too large in parts or levels becomes an error before it is read as a result.
    """

    def __init__(self, inner: ReadStream[Item], on_end: Callable[[], None]) -> None:
        self._inner = inner
        self._on_end = on_end
        self._unasked = 0

    def note_request(self) -> None:
        """Reset the count: we have sent a request."""
        self._unasked = 0

    async def receive(self) -> Item:
        try:
            item = await self._inner.receive()
        except BaseException:
            self._on_end()
            raise
        is_unasked = isinstance(item, Exception) or isinstance(
            item.message, JSONRPCRequest | JSONRPCNotification
        )
        self._unasked += is_unasked
        if self._unasked > MESSAGES_UNASKED_MAX:
            self._on_end()
            raise anyio.ClosedResourceError
        return item if isinstance(item, Exception) else _limit_result(item)

    async def aclose(self) -> None:
        self._on_end()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def _limit_result(item: SessionMessage) -> SessionMessage:
    message = item.message
    problem = result_problem(message.result) if isinstance(message, JSONRPCResponse) else None
    if problem is None or not isinstance(message, JSONRPCResponse):
        return item
    error = ErrorData(code=INTERNAL_ERROR, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error), item.metadata)


def result_problem(result: object) -> str | None:
    """Return why a result is too large to be read; None if it is not. The work is limited, too."""
    parts = cast(dict[str, object], result).get("content") if isinstance(result, dict) else None
    if isinstance(parts, list) and len(cast(list[object], parts)) > RESULT_PARTS_MAX:
        part_count = len(cast(list[object], parts))
        return f"the result has too many parts: {part_count:,}, limit {RESULT_PARTS_MAX:,}"
    level: list[object] = [result]
    count = 1
    for _ in range(RESULT_LEVELS_MAX + 1):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += cast(dict[str, object], value).values()
            elif isinstance(value, list):
                below += cast(list[object], value)
            if count + len(below) > MESSAGE_VALUES_MAX:
                return f"the result has too many values: limit {MESSAGE_VALUES_MAX:,}"
        if not below:
            return None
        level, count = below, count + len(below)
    return f"the result has too many levels: limit {RESULT_LEVELS_MAX:,}"


_CONNECT_TIMEOUT_S = 30.0


@asynccontextmanager
async def http_transport(server: McpServer) -> AsyncGenerator[Streams, None]:
    """Yield the message streams of a server over streamable HTTP. The caller sets the timeouts."""
    async with httpx2.AsyncClient(
        headers={**server.headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_TIMEOUT_S, read=None),
        transport=BoundedTransport(httpx2.AsyncHTTPTransport()),
        # The environment is ignored: no proxy sees the headers, and no file adds any.
        trust_env=False,
    ) as client:
        transport = streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX
        )
        async with transport as streams:
            yield streams


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Refuses responses that are larger than a message, or compressed.

    Values are counted before the SDK reads a message: it reads all of it at once, on the event loop.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError("the answer is compressed, which was not requested")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream), "an asynchronous transport answers so"
        # An event stream has no total limit; each event has one.
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedEvents(stream) if is_events else _Bounded(stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    error: type[Exception] = httpx2.StreamError

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for chunk in self._inner:
            body += chunk
            self._check_size(body)
        yield self._countable(body)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _check_size(self, body: bytearray) -> None:
        if len(body) > MESSAGE_BYTES_MAX:
            raise self.error(f"the answer is larger than {MESSAGE_BYTES_MAX:,} bytes")

    def _countable(self, body: bytearray) -> bytes:
        message = bytes(body)
        if count_values(message, MESSAGE_VALUES_MAX) > MESSAGE_VALUES_MAX:
            raise self.error(f"the answer has more than {MESSAGE_VALUES_MAX:,} values")
        return message


class _BoundedEvents(_Bounded):
    """Yields whole events, so that the values of each are counted."""

    error = httpx2.SSEError
    """The SDK reconnects after any other."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body, start = bytearray(), 0
        async for chunk in self._inner:
            body += chunk
            begin = 0
            for end in [end.end() for end in _EVENT_END.finditer(body, start)]:
                yield self._countable(body[begin:end])
                begin = end
            del body[:begin]
            self._check_size(body)
            # The mark of an end may be cut.
            start = max(0, len(body) - 3)
        yield self._countable(body)


_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
)
"""Environment variables that a server inherits."""

STDERR_BYTES_MAX: Final = 4_096
"""Bytes of the log of a server process that an error shows."""
LOG_GRACE_S: Final = 0.5
"""Time for the rest of that log after the process has ended."""

Outgoing = MemoryObjectReceiveStream[SessionMessage]
Incoming = MemoryObjectSendStream[SessionMessage | Exception]


class StderrTail:
    """The end of what a server process wrote to stderr."""

    def __init__(self) -> None:
        self._tail = b""

    def add(self, written: bytes) -> None:
        """Add what the process wrote next."""
        self._tail = (self._tail + written)[-STDERR_BYTES_MAX:]

    def text(self) -> str:
        """Return the end of the log, from the start of a line if it was cut."""
        text = self._tail.decode(errors="replace")
        if len(self._tail) == STDERR_BYTES_MAX:
            text = text.partition("\n")[2] or text
        return text.strip()


@asynccontextmanager
async def stdio_transport(server: McpServer, log: StderrTail) -> AsyncGenerator[Streams, None]:
    """Start a server process and yield its message streams; the process ends with the context.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        # Only its end is kept, for the error of a server that does not start.
        stderr=PIPE,
        env=environment(server),
        cwd=server.cwd,
        limit=MESSAGE_BYTES_MAX,
        start_new_session=True,
    )
    incoming, from_it = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_it, outgoing = anyio.create_memory_object_stream[SessionMessage](MESSAGES_WAITING_MAX)
    tasks = (asyncio.create_task(_read(process, incoming)), asyncio.create_task(_write(process, outgoing)))
    stderr_reader = asyncio.create_task(_follow(process, log))
    try:
        yield from_it, to_it
    finally:
        for stream in (from_it, to_it, incoming, outgoing):
            stream.close()
        try:
            await _stop(process, tasks[0])
        finally:
            # Also for processes that it started and left behind, and if this task is cancelled.
            _signal(process, "SIGKILL")
            await asyncio.wait((stderr_reader,), timeout=LOG_GRACE_S)
            for task in (*tasks, stderr_reader):
                task.cancel()
            _release(process)


def environment(server: McpServer) -> dict[str, str]:
    """Return the environment of a server: the inherited variables, and those of its options."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, **server.env}


async def _read(process: Process, heard: Incoming) -> None:
    assert process.stdout is not None, "the process has pipes"
    garbage = 0
    with heard:
        while garbage <= GARBAGE_LINES_MAX:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit of a message
                return
            if not line or count_values(line, MESSAGE_VALUES_MAX) > MESSAGE_VALUES_MAX:
                # It may be the answer to a pending request, and is not read.
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                if line.lstrip().startswith(b"{") and b'"jsonrpc"' in line:
                    # An unreadable message may be the answer to a pending request.
                    return
                garbage += 1
                continue
            try:
                await heard.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _follow(process: Process, log: StderrTail) -> None:
    assert process.stderr is not None, "the process has pipes"
    while written := await process.stderr.read(65_536):
        log.add(written)


async def _write(process: Process, outgoing: Outgoing) -> None:
    assert process.stdin is not None, "the process has pipes"
    with suppress(OSError, anyio.ClosedResourceError):
        async for item in outgoing:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _stop(process: Process, reader: asyncio.Task[None]) -> None:
    """Close its input, then terminate it, then kill it, with a delay after each."""
    assert process.stdin is not None, "the process has pipes"
    reader.cancel()
    # A stream has one reader at a time.
    await asyncio.wait((reader,))
    with suppress(OSError):
        process.stdin.close()
    for step in ("", "SIGTERM", "SIGKILL"):
        if step:
            _signal(process, step)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_GRACE_S):
                await _drain(process)
                return


async def _drain(process: Process) -> None:
    """Return once the process has ended; its remaining output is discarded."""
    assert process.stdout is not None, "the process has pipes"
    while await process.stdout.read(65_536):
        pass
    await process.wait()


def _signal(process: Process, name: str) -> None:
    """Send a signal to the process group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, getattr(signal, name))
        elif name == "SIGKILL":
            process.kill()
        else:
            process.terminate()


def _release(process: Process) -> None:
    """Close the pipes, also if a process that it started still holds them."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError, ProcessLookupError):
            transport.close()
