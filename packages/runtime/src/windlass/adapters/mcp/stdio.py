"""A server as a process: its lines are bounded messages, and it ends with us."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from windlass.adapters.mcp.guard import Streams
from windlass.adapters.mcp.limits import (
    GARBAGE_LINES_MAX,
    MESSAGE_BYTES_MAX,
    MESSAGES_WAITING_MAX,
    STOP_GRACE_S,
)
from windlass.adapters.mcp.server import McpServer

INHERITED: Final = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
)
"""What a server gets of our environment."""

Outgoing = MemoryObjectReceiveStream[SessionMessage]
Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def stdio_transport(server: McpServer) -> AsyncGenerator[Streams, None]:
    """Start a server; yield what it says and is told; it ends with the context.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        server.command,
        *server.args,
        stdin=PIPE,
        stdout=PIPE,
        # Nobody reads it, and it may hold anything.
        stderr=DEVNULL,
        env=environment(server),
        cwd=server.cwd,
        limit=MESSAGE_BYTES_MAX,
        start_new_session=True,
    )
    heard, from_it = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_it, said = anyio.create_memory_object_stream[SessionMessage](MESSAGES_WAITING_MAX)
    tasks = (asyncio.create_task(_read(process, heard)), asyncio.create_task(_write(process, said)))
    try:
        yield from_it, to_it
    finally:
        for stream in (from_it, to_it, heard, said):
            stream.close()
        try:
            await _stop(process, tasks[0])
        finally:
            # Also for what it started and left behind, and if nobody lets us wait.
            _signal(process, "SIGKILL")
            for task in tasks:
                task.cancel()
            _release(process)


def environment(server: McpServer) -> dict[str, str]:
    """Return what a server gets: what everybody needs, and what its host gives."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, **server.env}


async def _read(process: Process, heard: Incoming) -> None:
    assert process.stdout is not None, "the process has pipes"
    garbage = 0
    with heard:
        while garbage <= GARBAGE_LINES_MAX:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than any message may be
                return
            if not line:
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                if line.lstrip().startswith(b"{") and b'"jsonrpc"' in line:
                    # A message that cannot be read may be the answer that somebody waits for.
                    return
                garbage += 1
                continue
            try:
                await heard.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _write(process: Process, said: Outgoing) -> None:
    assert process.stdin is not None, "the process has pipes"
    with suppress(OSError, anyio.ClosedResourceError):
        async for item in said:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _stop(process: Process, reader: asyncio.Task[None]) -> None:
    """Close its input, then tell it to end, then kill it, with some time after each."""
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
                await _drained(process)
                return


async def _drained(process: Process) -> None:
    """Return once the process has ended; what it still says is thrown away."""
    assert process.stdout is not None, "the process has pipes"
    while await process.stdout.read(65_536):
        pass
    await process.wait()


def _signal(process: Process, name: str) -> None:
    """Send a signal to the process and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, getattr(signal, name))
        elif name == "SIGKILL":
            process.kill()
        else:
            process.terminate()


def _release(process: Process) -> None:
    """Let go of the pipes, also if something that it started still holds them."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError, ProcessLookupError):
            transport.close()
