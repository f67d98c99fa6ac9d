"""No sandbox: commands run beside the process, with the rights of its user.

A command gets a few variables of the host process, and a home folder of its own, which is empty and removed
after it. On Linux a supervisor ends every process that the command left behind, also one that left its
process group; elsewhere the process group is ended.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from windlass.ports.sandbox import Output
from windlass.private_files import remove_tree
from windlass.sandboxes import launch
from windlass.sandboxes.git import git_script
from windlass.sandboxes.processes import (
    OWN_VARIABLES,
    PATH,
    ProcessSandbox,
    ProcessSandboxes,
    Running,
    Start,
    absolute_paths,
    bash_at,
    option_variables,
    paths_outside,
    private_variables,
    start,
)
from windlass_harness.shell.reads import READS_PATH
from windlass_protocol import JsonObject, SandboxSpec

ADAPTER: Final = "none"
PASSED: Final = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME")
"""Environment variables of the host process that commands get; all others may be secrets."""


class HostSandbox(ProcessSandbox):
    """A folder of this machine; commands in it can do what the user of the process can."""

    def __init__(self, folder: Path, host: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self._host = os.environ if host is None else host

    def snapshot(self) -> JsonObject:
        """Return the adapter and the folder."""
        return {"adapter": ADAPTER, "folder": str(self.folder)}

    async def begin(
        self, command: str, output: Output, environment: Mapping[str, str], stdin: bytes | None
    ) -> Running:
        """Start a command under a supervisor, with a home folder of its own."""
        passed = {name: self._host[name] for name in PASSED if name in self._host}
        paths = absolute_paths(environment.get("PATH") or passed.get("PATH", PATH))
        outside = paths_outside(paths, self.folder)
        bash = bash_at(os.pathsep.join(outside))
        private = _private_folder(bash, os.pathsep.join(outside))
        variables = {
            **passed,
            **OWN_VARIABLES,
            **private_variables(f"{private}/home", f"{private}/tmp"),
            **option_variables(environment),
            "PATH": os.pathsep.join([f"{private}/bin", *paths]),
            READS_PATH: os.pathsep.join([f"{private}/bin", *outside]),
        }
        argv = [bash, "--noprofile", "--norc", "-c", command]
        remove = partial(_remove, private)
        if sys.platform != "linux":
            program = Start(argv, variables, self.folder, stdin)
            return await start(program, output, kill=_kill_group, clean=remove)
        supervised, control = os.pipe()
        handles = [control]

        def kill(_: int = 0) -> None:
            # The supervisor kills all descendants when the pipe is closed.
            while handles:
                os.close(handles.pop())

        def clean() -> Awaitable[None]:
            kill()
            return remove()

        argv = [sys.executable, "-I", "-S", launch.__file__, "supervise", str(supervised), *argv]
        program = Start(argv, variables, self.folder, stdin, (supervised,))
        try:
            return await start(program, output, kill=kill, clean=clean)
        finally:
            os.close(supervised)


class HostSandboxes(ProcessSandboxes[HostSandbox]):
    """Makes folders for sessions, without a boundary around their commands; see `SandboxAdapter`."""

    async def check(self, spec: SandboxSpec) -> None:
        """Return: every machine can do without a sandbox."""

    async def open(self, spec: SandboxSpec, *, key: str, folder: Path | None = None) -> HostSandbox:
        """Return the sandbox of a key or a folder."""
        session_folder = self.folders.folder(key) if folder is None else folder
        return self.find_or_make(session_folder, lambda: HostSandbox(session_folder))


def _private_folder(bash: str, path: str) -> str:
    """Make the folder for the home, the temporary files and the git of one command."""
    private = tempfile.mkdtemp(prefix="windlass-")
    for name in ("home", "tmp", "bin"):
        Path(private, name).mkdir(mode=0o700)
    script = git_script(bash, path)
    if script is not None:
        wrapper = Path(private, "bin", "git")
        wrapper.write_text(script)
        wrapper.chmod(0o500)
    return private


async def _remove(private: str) -> None:
    # In a thread: a command may have left many files.
    await asyncio.to_thread(remove_tree, Path(private))


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
