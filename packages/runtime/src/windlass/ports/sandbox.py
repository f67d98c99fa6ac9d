"""The port of sandboxes: a folder, and the processes that work in it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from windlass_protocol import JsonObject
from windlass_protocol.frozen import frozen, sealed
from windlass_protocol.generated import packages

if TYPE_CHECKING:
    from pydantic import JsonValue

    from windlass.ports.store import ContentStore
    from windlass_harness.views.runs import RunState
    from windlass_protocol import ModelMessage

NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})
Output = Callable[[bytes], None]
"""Gets the output of a command, stdout and stderr together, in the thread of the event loop."""


class SandboxFailed(Exception):
    """A sandbox could not do what it was asked; the message may be shown to a model."""


@sealed
class Ended:
    """The end of a command."""

    exit_code: int | None
    """None if the command was ended before it exited."""
    reason: str = ""
    """Why it was ended; with an exit code, a note for its caller, such as about a full folder."""


class Process(Protocol):
    """A command that runs."""

    async def wait(self) -> Ended:
        """Return once the command has ended, and all processes that it started with it."""
        ...

    async def stop(self) -> None:
        """End the command and all processes that it started; nothing if it has ended."""
        ...


class Sandbox(Protocol):
    """A folder and the commands in it; any number of them at once.

    A command gets no variables of this process but those that the adapter documents, and `environment`. When
    it ends, the processes that it left behind are ended.
    """

    @property
    def folder(self) -> Path:
        """The folder, on this machine."""
        ...

    async def spawn(
        self,
        command: str,
        *,
        output: Output,
        environment: Mapping[str, str] = NO_VARIABLES,
        stdin: bytes | None = None,
    ) -> Process:
        """Start a command of bash in the folder; standard input is empty without `stdin`.

        The caller stops it. It never runs outside of the sandbox.

        Raises:
            SandboxFailed: it could not be started.
        """
        ...

    async def run(
        self,
        command: str,
        *,
        timeout_s: float,
        output: Output,
        environment: Mapping[str, str] = NO_VARIABLES,
        stdin: bytes | None = None,
    ) -> Ended:
        """Run a command to its end, or to its timeout; a cancelled call ends it.

        Raises:
            SandboxFailed: it could not be started.
        """
        ...

    async def read(self, path: str) -> bytes:
        """Return the content of a file, as a command in the sandbox would read it.

        Raises:
            SandboxFailed: it cannot be read, or is larger than `SANDBOX_FILE_BYTES_MAX`.
        """
        ...

    async def write(self, path: str, content: bytes) -> None:
        """Write a file and the folders on its way, as a command in the sandbox would.

        Raises:
            SandboxFailed: it cannot be written.
        """
        ...

    async def stop(self) -> None:
        """End all commands; the folder stays."""
        ...

    def snapshot(self) -> JsonObject:
        """Return what identifies the sandbox, as plain data."""
        ...


class SandboxAccess(Protocol):
    """The sandbox of a session, as the tools of its agent get it."""

    async def open(self, folder: Path | None = None) -> Sandbox:
        """Return the sandbox, with the folder of the session or with another one.

        Raises:
            SandboxFailed: this machine cannot make it, or its files are on another machine.
        """
        ...

    async def send(self, sandbox: Sandbox, path: str) -> str:
        """Hand a file over to the sessions of this family, those with the same root; return its id.

        Raises:
            SandboxFailed: it cannot be read.
            AgentError: it cannot be stored.
        """
        ...

    async def fetch(self, sandbox: Sandbox, content_id: str, path: str) -> int:
        """Write a file that a session of this family has sent; return its size.

        Raises:
            SandboxFailed: there is no such file, or it cannot be written.
        """
        ...


class SandboxAdapter(Protocol):
    """Makes sandboxes of one kind."""

    async def check(self, spec: "packages.SandboxSpec") -> None:
        """Return if this machine can make such a sandbox.

        Raises:
            Rejected: it cannot; the message says what to install or to change.
        """
        ...

    async def open(self, spec: "packages.SandboxSpec", *, key: str, folder: Path | None = None) -> Sandbox:
        """Return the sandbox with a key; `folder` replaces the folder that belongs to the key.

        The folder of a key is created when it is first needed, and kept. Sandboxes that are opened with the
        same key share it.

        Raises:
            Rejected: this machine cannot make it.
        """
        ...

    async def remove(self, key: str) -> None:
        """Remove the folder of a key; nothing if there is none. No command of it runs."""
        ...

    async def aclose(self) -> None:
        """End all commands of all sandboxes."""
        ...


@frozen
class SandboxPlace:
    """Which sandbox a session uses."""

    spec: packages.SandboxSpec
    adapter: SandboxAdapter
    key: str
    """The session that the folder belongs to: this one, or a caller."""


class FindSandbox(Protocol):
    """Finds the sandbox of a run."""

    def __call__(self, run: "RunState", package: packages.RuntimePackage) -> SandboxPlace | None:
        """Return where the commands of a run belong; None if its agent has no sandbox.

        Raises:
            Rejected: this process cannot provide it.
        """
        ...


class SessionSandbox(SandboxAccess, Protocol):
    """The sandbox of one session, in this process: opened when it is needed, and its files kept."""

    @property
    def place(self) -> SandboxPlace:
        """Which sandbox it is."""
        ...

    async def state(self) -> JsonObject | None:
        """Return the state to be recorded; None if it is recorded already."""
        ...


class MakeSessionSandbox(Protocol):
    """Makes the sandbox of a session."""

    def __call__(
        self,
        sandbox: SandboxPlace,
        /,
        *,
        content: "ContentStore",
        recorded: "JsonValue",
        family: str,
        messages: "Callable[[], Iterable[ModelMessage]]",
    ) -> SessionSandbox:
        """Return the sandbox; nothing is opened yet.

        `recorded` is its last state, `family` the root session, and `messages` the history, whose files are
        put into its folder.
        """
        ...
