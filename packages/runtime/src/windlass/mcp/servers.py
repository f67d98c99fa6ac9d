"""McpServers: open MCP servers, their reconnection and their approved tools."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, cast

from pydantic_core import to_json

from windlass.errors import Rejected, Unavailable, install_hint, wrong
from windlass.limits import FAILED_CHARS_MAX, PROGRESS_BYTES_MAX
from windlass.mcp.server import (
    APPROVED_BYTES_MAX,
    RECONNECT_DELAY_S,
    RECONNECT_DELAY_S_MAX,
    SERVERS_MAX,
    McpServer,
    Trouble,
)
from windlass.mcp.tools import Definition, make_tool
from windlass.tools import Tool, ToolFailed
from windlass.tools.calling import in_masking_thread
from windlass.tools.context import ToolContext
from windlass.tools.results import is_light
from windlass_protocol import CodecError, CodecLimits, ErrorKind, JsonObject, RetryClass, parse
from windlass_protocol.frozen import sealed

if TYPE_CHECKING:
    from windlass.mcp.connection import McpConnection


Connect = Callable[[McpServer], Awaitable["McpConnection"]]


@sealed
class McpChange:
    """A tool that differs from its approved definition, or cannot be used."""

    name: str
    kind: Literal["added", "changed", "removed", "unusable"]
    reason: str


class McpLink:
    """One server: its approved and its current tools."""

    def __init__(self, server: McpServer, *, connect: Connect, clock: Callable[[], float]) -> None:
        self.server = server
        self.approved: dict[str, Definition] = {}
        self.live: dict[str, Definition] = {}
        self._problems: dict[str, str] = {}
        self._connect = connect
        self._clock = clock
        self._redactor = server.redactor
        self._connection: McpConnection | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0

    async def refresh(self) -> None:
        """Read the list of tools again; connect first if needed.

        Raises:
            Trouble: the server cannot be reached, or does not answer.
        """
        async with self._lock:
            connection = await self._ensure_connection()
            await self._read(connection)

    async def close(self) -> None:
        async with self._lock:
            if self._connection is not None:
                await self._connection.close()

    def changes(self) -> tuple[McpChange, ...]:
        """Return the differences from the approved tools."""
        changes: list[McpChange] = []
        for tool in sorted(self.approved.keys() | self.live.keys()):
            approved, now = self.approved.get(tool), self.live.get(tool)
            definition = now or approved
            assert definition is not None, "one of the two has it"
            if now is not None and tool in self._problems:
                changes.append(McpChange(definition.name, "unusable", self._problems[tool]))
            elif now is None:
                changes.append(McpChange(definition.name, "removed", "its server does not have it any more"))
            elif approved is None:
                changes.append(McpChange(definition.name, "added", "it is not approved yet"))
            elif approved.fingerprint != now.fingerprint:
                parts = ", ".join(approved.changes(now))
                changes.append(McpChange(definition.name, "changed", f"its server changed its {parts}"))
        return tuple(changes)

    def approve(self, tool: str) -> None:
        """Approve a tool as it is now; remove one that the server no longer has."""
        now = self.live.get(tool)
        if now is None:
            self.approved.pop(tool, None)
        elif tool not in self._problems:
            self.approved[tool] = now

    def usable(self) -> tuple[Definition, ...]:
        """Return the current tools of the server, without those that cannot be used."""
        return tuple(definition for tool, definition in self.live.items() if tool not in self._problems)

    async def call(self, definition: Definition, arguments: JsonObject, *, context: ToolContext) -> object:
        """Call a tool if its definition is still the approved one.

        Raises:
            ToolFailed: the call failed; the message says whether it may have had an effect.
        """
        connection = await self._ready()
        self._check(definition)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            if message is not None and len(message) > PROGRESS_BYTES_MAX:
                message = f"({len(message):,} characters)"
            masked = None if message is None else self._redactor.text(message)
            parts = {"progress": progress, "total": total, "message": masked}
            context.progress({key: value for key, value in parts.items() if value is not None})

        try:
            value = await connection.call(definition, arguments, progress=on_progress)
        except ToolFailed as error:
            raise ToolFailed(self._redactor.text(error.message[: 2 * FAILED_CHARS_MAX])) from None
        except Trouble as trouble:
            raise self._call_error(definition, trouble) from None
        self._failures = 0
        mask = partial(self._redactor.value, value)
        return mask() if is_light(value) else await in_masking_thread(mask)

    def _call_error(self, definition: Definition, trouble: Trouble) -> ToolFailed:
        problem = (
            f"the MCP server {self.server.name} refused the call of {definition.tool}: {trouble.message}"
        )
        if trouble.is_lost:
            self._fail()
            problem = (
                f"the MCP server {self.server.name} was lost during the call: {trouble.message}; "
                f"whether {definition.name} had an effect is unknown"
            )
        return ToolFailed(self._redactor.text(problem))

    async def _ready(self) -> "McpConnection":
        """Return a connection with an up-to-date list of tools."""
        async with self._lock:
            try:
                connection = await self._ensure_connection()
                if connection.is_stale:
                    await self._read(connection)
            except Trouble as trouble:
                problem = trouble.message
            else:
                return connection
        raise ToolFailed(
            f"the MCP server {self.server.name} is not available: {self._redactor.text(problem)}; "
            "nothing was done",
            retryable=True,
        )

    async def _ensure_connection(self) -> "McpConnection":
        if self._connection is not None:
            if self._connection.is_open:
                return self._connection
            await self._drop(self._connection)
        wait_s = self._not_before - self._clock()
        if wait_s > 0:
            raise Trouble(f"it failed before; the next attempt is in {wait_s:,.0f} s", is_lost=True)
        try:
            self._connection = await self._connect(self.server)
        except Trouble:
            self._fail()
            raise
        return self._connection

    async def _drop(self, connection: "McpConnection") -> None:
        """Drop a connection that ended; a failed call has counted the failure already."""
        await connection.close()
        self._connection = None
        if self._failures == 0:
            self._fail()

    async def _read(self, connection: "McpConnection") -> None:
        try:
            definitions = await connection.tools()
        except Trouble:
            connection.is_stale = True
            raise
        secrets = self.server.secrets
        problems = await in_masking_thread(
            lambda: [definition.problem(secrets) for definition in definitions]
        )
        self.live = {definition.tool: definition for definition in definitions}
        by_tool = zip(self.live, problems, strict=True)
        self._problems = {tool: problem for tool, problem in by_tool if problem is not None}

    def _check(self, definition: Definition) -> None:
        now = self.live.get(definition.tool)
        if now is None:
            raise ToolFailed(
                f"the MCP server {self.server.name} no longer has {definition.tool}; nothing was done"
            )
        if definition.tool in self._problems or now.fingerprint != definition.fingerprint:
            parts = ", ".join(definition.changes(now))
            raise ToolFailed(
                f"the MCP server {self.server.name} changed {definition.tool} ({parts}) after it was "
                "approved; nothing was done. A person has to review and approve the change"
            )

    def _fail(self) -> None:
        """Count a failure: the first causes no delay, each further one doubles it."""
        self._failures += 1
        if self._failures > 1:
            delay_s = RECONNECT_DELAY_S * 2 ** min(self._failures - 2, 16)
            self._not_before = self._clock() + min(delay_s, RECONNECT_DELAY_S_MAX)


_VERSION: Final = 1
_LIMITS: Final = CodecLimits(message_bytes_max=APPROVED_BYTES_MAX, depth_max=128)

Definitions = dict[str, dict[str, Definition]]
"""Definitions by server and tool name."""


def read_approved(path: Path) -> Definitions:
    """Return the approved tools in a file; empty if the file does not exist.

    Raises:
        Rejected: the file is not valid.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise wrong(f"{path} cannot be read: {error.strerror}") from None
    try:
        body = parse(content, _LIMITS)
        assert isinstance(body, dict)
        assert body["version"] == _VERSION
        servers = cast(Mapping[str, Mapping[str, JsonObject]], body["servers"])
        return {
            server: {tool: Definition(server, {**fields, "name": tool}) for tool, fields in tools.items()}
            for server, tools in servers.items()
        }
    except (CodecError, AssertionError, KeyError, AttributeError, TypeError):
        pass
    raise wrong(f"{path} is not a file of approved MCP tools; move it away to approve all tools again")


def write_approved(path: Path, approved: Definitions) -> None:
    """Replace the file atomically."""
    body = {
        "version": _VERSION,
        "servers": {
            server: {tool: definition.body for tool, definition in sorted(tools.items())}
            for server, tools in sorted(approved.items())
        },
    }
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(to_json(body, indent=2))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


class McpServers:
    """MCP servers, open from `async with` to its end; `tools` are for an Agent.

    The first definition of a tool counts as approved. If the server changes it later, the tool refuses every
    call until a person has reviewed `changes` and approved it again. With a file in `approved` this holds
    across processes, without one for the lifetime of this object.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        approved: str | Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        checked = tuple(servers)
        self._links = {server.name: McpLink(server, connect=_connect, clock=clock) for server in checked}
        if len(self._links) < len(checked):
            raise wrong("two MCP servers have the same name; give each its own")
        if len(checked) > SERVERS_MAX:
            raise wrong(f"MCP servers: found {len(checked):,}, limit {SERVERS_MAX}")
        self._file = None if approved is None else Path(approved)
        self._known: Definitions = {}

    async def __aenter__(self) -> Self:
        """Start or connect to all servers, and read their tools.

        Raises:
            Unavailable: a server cannot be started or reached, or does not answer.
            Rejected: the extra `mcp` is not installed, or the file of approved tools is not valid.
        """
        _check_extra()
        self._known = {} if self._file is None else read_approved(self._file)
        try:
            await self._open()
            self._take_first()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, and end the started processes."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    @property
    def tools(self) -> tuple[Tool[..., object], ...]:
        """The approved tools; an agent keeps those it was created with."""
        tools = [
            make_tool(definition, link.server, call=link.call)
            for link in self._links.values()
            for definition in link.approved.values()
        ]
        names = {tool.name for tool in tools}
        if len(names) < len(tools):
            raise wrong("two MCP tools would have the same name; rename one of the servers")
        return tuple(sorted(tools, key=lambda tool: tool.name))

    @property
    def changes(self) -> tuple[McpChange, ...]:
        """Differences from the approved tools, as of the last answers of the servers."""
        return tuple(change for link in self._links.values() for change in link.changes())

    async def refresh(self) -> tuple[McpChange, ...]:
        """Read the tools of all servers again, and return the changes.

        Raises:
            Unavailable: a server cannot be reached.
        """
        await self._open()
        return self.changes

    def approve(self, name: str) -> None:
        """Approve a tool as it is now; `tools` contains it from then on.

        Raises:
            Rejected: no tool of this name has changed, or it cannot be used.
        """
        for link in self._links.values():
            for change in link.changes():
                if change.name == name and change.kind != "unusable":
                    link.approve(_own_name(link, name))
                    self._keep()
                    return
        raise wrong(f"MCP tool {name} has no change to approve; see changes")

    async def _open(self) -> None:
        links = tuple(self._links.values())
        outcomes = await asyncio.gather(*(link.refresh() for link in links), return_exceptions=True)
        for link, outcome in zip(links, outcomes, strict=True):
            if isinstance(outcome, Trouble):
                problem = link.server.redactor.text(outcome.message)
                log = link.server.mask_log(outcome.log)
                stderr = f"; the end of its stderr:\n{log}" if log else ""
                raise Unavailable(
                    f"the MCP server {link.server.name} cannot be used: {problem}{stderr}",
                    kind=ErrorKind.TOOL_FAILURE,
                    retry=RetryClass.RETRYABLE,
                )
            if isinstance(outcome, BaseException):
                raise outcome

    def _take_first(self) -> None:
        """Approve all tools of servers that are new."""
        for name, link in self._links.items():
            if name in self._known:
                link.approved = dict(self._known[name])
            else:
                link.approved = {definition.tool: definition for definition in link.usable()}
        self._keep()

    def _keep(self) -> None:
        now: Definitions = {
            **self._known,
            **{name: dict(link.approved) for name, link in self._links.items()},
        }
        if self._file is not None and now != self._known:
            write_approved(self._file, now)
        self._known = now


def _own_name(link: McpLink, name: str) -> str:
    definitions: dict[str, Definition] = {**link.approved, **link.live}
    return next(tool for tool, definition in definitions.items() if definition.name == name)


async def _connect(server: McpServer) -> "McpConnection":
    # The MCP client library is an extra, and takes a second to import.
    module = import_module("windlass.mcp.connection")
    connection: McpConnection = await module.McpConnection.open(server)
    return connection


def _check_extra() -> None:
    try:
        import_module("mcp")
        return
    except ModuleNotFoundError:
        pass
    raise Rejected(
        f"MCP servers need an optional dependency: {install_hint('mcp')}",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
