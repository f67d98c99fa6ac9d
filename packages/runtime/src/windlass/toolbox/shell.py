"""bash: one command with bounded output, in its own process group.

The whole group is terminated when the command ends, when its timeout is over, or when the call is cancelled.
This is not a sandbox: a command can do everything that the user of the process can.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import which
from typing import Annotated, Final

from pydantic import Field, JsonValue

from windlass.toolbox.folder import Folder
from windlass.toolbox.limits import (
    CHUNK_BYTES,
    COMMAND_CHARS_MAX,
    COMMAND_DRAIN_S,
    COMMAND_GRACE_S,
    COMMAND_TIMEOUT_S,
    COMMAND_TIMEOUT_S_MAX,
    OUTPUT_BYTES_MAX,
    OUTPUT_LINES_MAX,
    PROGRESS_CHARS_MAX,
    PROGRESS_INTERVAL_S,
)
from windlass.tools import Tool, ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass_protocol.frozen import sealed

_HALF_BYTES: Final = OUTPUT_BYTES_MAX // 2
_HALF_LINES: Final = OUTPUT_LINES_MAX // 2


class Streamed:
    """The output of a command: its head and its tail, with live progress."""

    def __init__(self, report: Callable[[object], None], now: Callable[[], float]) -> None:
        self._report = report
        self._now = now
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._reported_at = float("-inf")

    def feed(self, chunk: bytes) -> None:
        """Add the next chunk."""
        self._size += len(chunk)
        room = _HALF_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * _HALF_BYTES:
            del self._tail[:-_HALF_BYTES]
        now = self._now()
        if now - self._reported_at >= PROGRESS_INTERVAL_S:
            self._reported_at = now
            self._report({"output": _decoded(chunk[-PROGRESS_CHARS_MAX:]), "bytes": self._size})

    def text(self) -> str:
        """Return the output, or its head and tail with a note about the gap."""
        tail = self._tail[-_HALF_BYTES:]
        if len(self._head) + len(tail) == self._size:
            lines = _decoded(bytes(self._head + tail)).split("\n")
            if len(lines) <= OUTPUT_LINES_MAX:
                return "\n".join(lines)
            first, last = lines, lines
        else:
            # Cut at line ends: half a line could hold half a secret, which redaction would not recognise.
            first = _decoded(bytes(self._head.rpartition(b"\n")[0] or self._head)).split("\n")
            last = _decoded(bytes(tail.partition(b"\n")[2] or tail)).split("\n")
        gap = f"[… the middle is left out: {self._size:,} bytes in all …]"
        return "\n".join([*first[:_HALF_LINES], gap, *last[-_HALF_LINES:]])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


PASSED: Final = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME")
"""Environment variables of the host process that commands get; all others may be secrets."""
_OWN: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # A folder that looks like a repository could make `git status` run a program.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


def command_environment(
    folder: Folder, host: Mapping[str, str], *, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of commands: a few variables of the host process, and the given ones.

    HOME is the workspace, so that programs do not find the credentials of the user of the host process.
    """
    passed = {name: host[name] for name in PASSED if name in host}
    # A relative search path would let files of the workspace replace programs.
    path = [part for part in passed.get("PATH", _PATH).split(os.pathsep) if part.startswith("/")]
    return {**passed, **_OWN, "PATH": os.pathsep.join(path), "HOME": folder.path, **given}


@sealed
class Shell:
    """The folder and the environment of commands."""

    folder: Folder
    environment: Mapping[str, str]


def bash_tool(shell: Shell) -> Tool[..., object]:
    """Return the tool that runs commands in a folder."""

    # A little longer than the longest command: the command's own timeout comes first and keeps the output.
    @tool(mode="local", effect="once", is_shell=True, reads="untrusted", timeout=COMMAND_TIMEOUT_S_MAX + 30)
    async def bash(
        command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARS_MAX)],
        ctx: ToolContext,
        timeout_s: Annotated[int, Field(ge=1, le=COMMAND_TIMEOUT_S_MAX)] = COMMAND_TIMEOUT_S,
    ) -> dict[str, JsonValue]:
        """Run a command with bash in the folder of the workspace; standard input is empty.

        Every call starts anew in that folder. Processes left in the background are ended with the command.

        Args:
            command: The command.
            timeout_s: After so many seconds it is ended.
        """
        if "\0" in command:
            raise ToolFailed("the command contains a NUL character; leave it out")
        output = Streamed(ctx.progress, asyncio.get_running_loop().time)
        exit_code = await run_command(shell, command, timeout_s=timeout_s, output=output)
        result: dict[str, JsonValue] = {"exit_code": exit_code, "output": output.text()}
        if exit_code is None:
            result["note"] = f"terminated after its timeout of {timeout_s:,} seconds"
        return result

    return bash


async def run_command(shell: Shell, command: str, *, timeout_s: float, output: Streamed) -> int | None:
    """Run a command to its end; return its exit code, None after a timeout.

    Raises:
        ToolFailed: it could not be started.
    """
    async with _pipe() as (reader, write_end):
        process = await _start(shell, command, write_end)
        # Only the command holds the other end now: the output ends when it does.
        os.close(write_end[0])
        write_end.clear()
        pumping = asyncio.create_task(_pump(reader, output))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    return await process.wait()
            await _ask_to_end(process)
            return None
        finally:
            _kill(process)
            # A process that left the group may hold the pipe for ever, so the wait is bounded.
            ending = asyncio.create_task(process.wait())
            try:
                await asyncio.wait([pumping, ending], timeout=COMMAND_DRAIN_S)
            finally:
                pumping.cancel()
                ending.cancel()


async def _start(shell: Shell, command: str, write_end: list[int]) -> asyncio.subprocess.Process:
    # The folder is checked once more: the command uses its path, and it may have been replaced.
    os.close(shell.folder.open_root())
    try:
        return await asyncio.create_subprocess_exec(
            _bash(shell.environment.get("PATH", _PATH)),
            "--noprofile",
            "--norc",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end[0],
            stderr=asyncio.subprocess.STDOUT,
            cwd=shell.folder.path,
            env=dict(shell.environment),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolFailed(f"the command could not be started: {os.strerror(error.errno or 0)}") from None


def _bash(path: str) -> str:
    found = next(
        (one for one in ("/bin/bash", "/usr/bin/bash") if Path(one).exists()), which("bash", path=path)
    )
    if found is None:
        raise ToolFailed("bash is not installed on this machine")
    return found


@asynccontextmanager
async def _pipe() -> AsyncGenerator[tuple[asyncio.StreamReader, list[int]]]:
    """Hold a pipe: its read end as a stream, its write end as a handle in a list.

    Not the pipe of asyncio: a command has ended when its process has, even if another process holds the pipe.
    """
    read_end, write_end = os.pipe()
    handles = [write_end]
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        yield reader, handles
    finally:
        for handle in handles:
            os.close(handle)
        transport.close()


async def _pump(reader: asyncio.StreamReader, output: Streamed) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        output.feed(chunk)


async def _ask_to_end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(COMMAND_GRACE_S):
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the remaining processes of the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
