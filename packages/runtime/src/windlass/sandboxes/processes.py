"""Processes of sandboxes: output, timeouts, and the end of a command with all that it started."""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Generic, TypeVar

from windlass.limits import SANDBOX_FILE_BYTES_MAX
from windlass.ports.sandbox import NO_VARIABLES, Ended, Output, Process, SandboxFailed
from windlass.private_files import make_folder, remove_tree
from windlass_protocol.frozen import frozen

CHUNK_BYTES: Final = 65_536
COMMAND_GRACE_S: Final = 2.0
"""Delay between SIGTERM and SIGKILL."""
COMMAND_DRAIN_S: Final = 1.0
"""How long output is read after a command has ended."""
FILE_TIMEOUT_S: Final = 60.0
"""Time to read or write one file."""
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_GIT: Final = {
    # A folder that looks like a repository could make `git status` run a program.
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "hook.post-index-change.enabled": "false",
    "core.attributesFile": "/dev/null",
    # Signatures are checked, merges made again and submodules entered only if a command says so.
    "log.showSignature": "false",
    "format.pretty": "medium",
    "log.diffMerges": "separate",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "stash.showPatch": "false",
    "core.alternateRefsCommand": "false",
    # Files of any name whose lines git would show.
    "mailmap.file": "/dev/null",
    "mailmap.blob": "",
    "core.excludesFile": "/dev/null",
    "diff.orderFile": "/dev/null",
    "grep.fallbackToNoIndex": "false",
}
"""Settings that let git run no program of a repository; they win over those of the repository."""
OWN_VARIABLES: Final = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    # `git status` does not rewrite the index, and no read fetches missing objects.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_COUNT": str(len(_GIT)),
    **{f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(_GIT)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_GIT.values())},
}
"""Variables of all commands."""
_COUNT: Final = "GIT_CONFIG_COUNT"


def option_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a host; its settings of git come before our own, which win over them."""
    count = environment.get(_COUNT, "")
    if not count.isdecimal():
        return dict(environment)
    own = {
        f"GIT_CONFIG_{kind}_{int(count) + at}": OWN_VARIABLES[f"GIT_CONFIG_{kind}_{at}"]
        for kind in ("KEY", "VALUE")
        for at in range(len(_GIT))
    }
    return {**environment, **own, _COUNT: str(int(count) + len(_GIT))}


def absolute_paths(path: str) -> list[str]:
    """Return the folders of a search path; in a relative one, files of the workspace would be programs."""
    return [folder for folder in path.split(os.pathsep) if folder.startswith("/")]


def paths_outside(paths: list[str], workspace: Path) -> list[str]:
    """Return the folders of a search path that are not in a workspace: safe reads run programs of these."""
    root = os.path.join(os.path.realpath(workspace), "")
    outside = [path for path in paths if not os.path.join(os.path.realpath(path), "").startswith(root)]
    return outside or absolute_paths(PATH)


def private_variables(home: str, temporary: str) -> dict[str, str]:
    """Return the variables that lead programs to a home folder instead of that of the user."""
    return {
        "HOME": home,
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "XDG_RUNTIME_DIR": temporary,
        "TMPDIR": temporary,
    }


@frozen
class Start:
    """A program to start."""

    argv: list[str]
    environment: Mapping[str, str]
    folder: Path
    stdin: bytes | None = None
    handles: tuple[int, ...] = ()
    """Handles that the program inherits."""


Clean = Callable[[], Awaitable[None] | None]
"""Frees what a command needed, after its end."""


class Running:
    """A process that runs; see `Process`.

    `kill` ends it with all its descendants, `clean` frees what it needed.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        pumping: "asyncio.Task[None]",
        *,
        kill: Callable[[], None],
        clean: Clean,
    ) -> None:
        self._process = process
        self._pumping = pumping
        self._kill = kill
        self._cleaners = [clean]
        self.is_over = False
        self.reason = ""
        """Why the process was ended; set by the caller that ends it."""
        self.note = ""
        """A text for the caller of a command that ended by itself, such as about a full folder."""

    def add_cleaner(self, clean: Clean) -> None:
        """Have a function called after the end."""
        self._cleaners.append(clean)

    async def wait(self) -> Ended:
        """Return once the command has ended; see `Process`."""
        await self.wait_for_exit()
        return await self.finish()

    async def finish(self) -> Ended:
        """End the command if it runs, and return how it ended."""
        await self.stop()
        return Ended(None if self.reason else self._process.returncode, self.reason or self.note)

    async def wait_for_exit(self) -> None:
        """Return once the first process of the command has ended."""
        await self._process.wait()

    async def ask_to_end(self) -> None:
        """Send SIGTERM and wait for the end, for the grace at most."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMAND_GRACE_S):
                await self._process.wait()

    def end(self, reason: str) -> None:
        """Kill the command for a reason."""
        self.reason = reason
        self._kill()

    async def stop(self) -> None:
        """End the command and all processes that it started."""
        if self.is_over:
            return
        self.is_over = True
        self._kill()
        ending = asyncio.create_task(self._process.wait())
        try:
            # A process that escaped may hold the pipe for ever, so the wait is bounded.
            await asyncio.wait([self._pumping, ending], timeout=COMMAND_DRAIN_S)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._pumping.cancel()
            ending.cancel()
            for clean in self._cleaners:
                cleaning = clean()
                if cleaning is not None:
                    await cleaning


async def start(program: Start, output: Output, *, kill: Callable[[int], None], clean: Clean) -> Running:
    """Start a program in a session of its own; `kill` gets its process id.

    Raises:
        SandboxFailed: it could not be started.
    """
    # Not the pipe of asyncio: a command has ended when its process has, even if another one holds the pipe.
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *program.argv,
            stdin=asyncio.subprocess.DEVNULL if program.stdin is None else asyncio.subprocess.PIPE,
            stdout=write_end,
            stderr=asyncio.subprocess.STDOUT,
            cwd=program.folder,
            env=dict(program.environment),
            start_new_session=True,
            pass_fds=program.handles,
        )
    except BaseException as error:
        transport.close()
        cleaning = clean()
        if cleaning is not None:
            await cleaning
        if isinstance(error, OSError):
            problem = f"the command could not be started: {os.strerror(error.errno or 0)}"
            raise SandboxFailed(problem) from None
        raise
    finally:
        os.close(write_end)
    pumping = asyncio.create_task(_pump(reader, transport, output))
    if process.stdin is not None:
        feeding = asyncio.create_task(_feed(process.stdin, program.stdin or b""))
        pumping.add_done_callback(lambda _: feeding.cancel())
    return Running(process, pumping, kill=lambda: kill(process.pid), clean=clean)


async def _pump(reader: asyncio.StreamReader, transport: asyncio.ReadTransport, output: Output) -> None:
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            output(chunk)
    finally:
        transport.close()


async def _feed(stdin: asyncio.StreamWriter, content: bytes) -> None:
    with suppress(ConnectionError):
        stdin.write(content)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


class ProcessSandbox:
    """A sandbox whose commands are processes of this machine: all but `spawn` and `snapshot`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: set[Running] = set()

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._folder

    @abstractmethod
    async def begin(
        self, command: str, output: Output, environment: Mapping[str, str], stdin: bytes | None
    ) -> Running:
        """Start a command; see `spawn`."""
        ...

    async def spawn(
        self,
        command: str,
        *,
        output: Output,
        environment: Mapping[str, str] = NO_VARIABLES,
        stdin: bytes | None = None,
    ) -> Process:
        """Start a command; see `Sandbox`."""
        running = await self.begin(command, output, environment, stdin)
        self._running = {process for process in self._running if not process.is_over} | {running}
        return running

    async def run(
        self,
        command: str,
        *,
        timeout_s: float,
        output: Output,
        environment: Mapping[str, str] = NO_VARIABLES,
        stdin: bytes | None = None,
    ) -> Ended:
        """Run a command to its end or its timeout; see `Sandbox`."""
        running = await self.begin(command, output, environment, stdin)
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await running.wait_for_exit()
            except TimeoutError:
                await running.ask_to_end()
                running.reason = running.reason or f"terminated after its timeout of {timeout_s:,} seconds"
            return await running.finish()
        finally:
            await running.stop()

    @property
    def is_busy(self) -> bool:
        """Whether a command that was spawned runs."""
        return any(not process.is_over for process in self._running)

    async def read(self, path: str) -> bytes:
        """Return the content of a file; see `Sandbox`."""
        content = bytearray()

        def keep(chunk: bytes) -> None:
            # One byte more than the limit tells that the file is too large.
            content.extend(chunk[: SANDBOX_FILE_BYTES_MAX + 1 - len(content)])

        # Not a test and then a read: the file is opened once, and its size is bounded by what is read.
        name = shlex.quote(path)
        command = f"[ -f {name} ] && exec head -c {SANDBOX_FILE_BYTES_MAX + 1} -- {name}"
        ended = await self.run(command, timeout_s=FILE_TIMEOUT_S, output=keep)
        if ended.exit_code != 0:
            raise SandboxFailed("the file cannot be read; it must be a file in the folder of the sandbox")
        if len(content) > SANDBOX_FILE_BYTES_MAX:
            raise SandboxFailed(f"the file is too large: limit {SANDBOX_FILE_BYTES_MAX:,} bytes")
        return bytes(content)

    async def write(self, path: str, content: bytes) -> None:
        """Write a file; see `Sandbox`."""
        name, above = shlex.quote(path), shlex.quote(str(Path(path).parent))
        command = f"mkdir -p -- {above} && exec cat > {name}"
        ended = await self.run(command, timeout_s=FILE_TIMEOUT_S, output=lambda _: None, stdin=content)
        if ended.exit_code != 0:
            raise SandboxFailed("the file cannot be written in the sandbox")

    async def stop(self) -> None:
        """End all commands that were spawned."""
        for running in self._running:
            await running.stop()
        self._running.clear()


SandboxT = TypeVar("SandboxT", bound=ProcessSandbox)


class ProcessSandboxes(Generic[SandboxT]):
    """Sandboxes of one kind: all of `SandboxAdapter` but `check` and `open`.

    The folders of sessions are in `root`; without one they are temporary.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.folders = Folders(root)
        self._open: dict[Hashable, SandboxT] = {}

    def find_or_make(self, identity: Hashable, make: Callable[[], SandboxT]) -> SandboxT:
        """Return a sandbox that is open, or make it; those without commands are forgotten."""
        if identity not in self._open:
            self._open = {name: sandbox for name, sandbox in self._open.items() if sandbox.is_busy}
            self._open[identity] = make()
        return self._open[identity]

    async def remove(self, key: str) -> None:
        """Remove the folder of a key."""
        await self.folders.remove(key)

    async def aclose(self) -> None:
        """End all commands."""
        # Side by side: each has `COMMAND_GRACE_S`.
        await asyncio.gather(*(sandbox.stop() for sandbox in self._open.values()))
        self.folders.close()


def bash_at(path: str) -> str:
    """Return the path of bash.

    Raises:
        SandboxFailed: it is not installed.
    """
    bash = next(
        (candidate for candidate in ("/bin/bash", "/usr/bin/bash") if Path(candidate).exists()),
        shutil.which("bash", path=path),
    )
    if bash is None:
        raise SandboxFailed("bash is not installed on this machine")
    return bash


class Folders:
    """The folders of sessions, which only this user can open.

    Without a `root` they are temporary, and removed by `close`.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._temporary: Path | None = None

    def folder(self, key: str) -> Path:
        """Return the folder of a key; it is created if it is missing."""
        root = self._root or self._temporary
        if root is None:
            root = self._temporary = Path(tempfile.mkdtemp(prefix="windlass-"))
        folder = root / _name(key)
        make_folder(folder, parents=True)
        return folder

    async def remove(self, key: str) -> None:
        """Remove the folder of a key, and its revision; see `SandboxAdapter`."""
        root = self._root or self._temporary
        if root is not None:
            folder = root / _name(key)
            await asyncio.to_thread(remove_tree, folder)
            folder.with_name(f"{folder.name}.revision").unlink(missing_ok=True)

    def close(self) -> None:
        """Remove temporary folders."""
        if self._temporary is not None:
            remove_tree(self._temporary)
            self._temporary = None


def _name(key: str) -> str:
    # Hashed, because a key may contain any character.
    return sha256(key.encode()).hexdigest()[:32]
