"""McpServers: open MCP servers, their reconnection and their approved tools."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, cast

from pydantic_core import to_json

from windlass.adapters.mcp.server import (
    APPROVED_BYTES_MAX,
    RECONNECT_DELAY_S,
    RECONNECT_DELAY_S_MAX,
    SERVERS_MAX,
    McpServer,
    Trouble,
)
from windlass.adapters.mcp.tools import Definition, make_tool
from windlass.errors import Rejected, Unavailable, wrong
from windlass.tools import Tool, ToolFailed
from windlass.tools.context import ToolContext
from windlass_protocol import CodecError, CodecLimits, ErrorKind, JsonObject, RetryClass, parse

if TYPE_CHECKING:
    from windlass.adapters.mcp.connection import Connection


Connect = Callable[[McpServer], Awaitable["Connection"]]


@dataclass(frozen=True, slots=True)
class McpChange:
    """A tool that is not what a person approved, or cannot be used at all."""

    name: str
    kind: Literal["added", "changed", "removed", "unusable"]
    reason: str


class Link:
    """One server: its tools as they were approved and as they are."""

    def __init__(self, server: McpServer, *, connect: Connect, clock: Callable[[], float]) -> None:
        self.server = server
        self.approved: dict[str, Definition] = {}
        self.live: dict[str, Definition] = {}
        self._problems: dict[str, str] = {}
        self._connect = connect
        self._clock = clock
        self._redactor = server.redactor
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0

    async def refresh(self) -> None:
        """Read the list of tools anew, connecting first if need be.

        Raises:
            Trouble: the server is not there, or does not answer.
        """
        async with self._lock:
            connection = await self._connected()
            await self._read(connection)

    async def close(self) -> None:
        """End the connection."""
        async with self._lock:
            if self._connection is not None:
                await self._connection.close()

    def changes(self) -> tuple[McpChange, ...]:
        """Say what is not as it was approved."""
        found: list[McpChange] = []
        for tool in sorted(self.approved.keys() | self.live.keys()):
            known, now = self.approved.get(tool), self.live.get(tool)
            named = now or known
            assert named is not None, "one of the two knows it"
            if now is not None and tool in self._problems:
                found.append(McpChange(named.name, "unusable", self._problems[tool]))
            elif now is None:
                found.append(McpChange(named.name, "removed", "its server does not have it any more"))
            elif known is None:
                found.append(McpChange(named.name, "added", "nobody approved it yet"))
            elif known.fingerprint != now.fingerprint:
                parts = ", ".join(known.changes(now))
                found.append(McpChange(named.name, "changed", f"its server changed its {parts}"))
        return tuple(found)

    def approve(self, tool: str) -> None:
        """Take a tool as it is now for approved; forget one that is gone."""
        now = self.live.get(tool)
        if now is None:
            self.approved.pop(tool, None)
        elif tool not in self._problems:
            self.approved[tool] = now

    def usable(self) -> tuple[Definition, ...]:
        """Return the tools as the server has them now, those that cannot be used apart."""
        return tuple(one for tool, one in self.live.items() if tool not in self._problems)

    async def call(self, definition: Definition, arguments: JsonObject, *, context: ToolContext) -> object:
        """Call a tool that is still what it was when it was approved.

        Raises:
            ToolFailed: for whatever reason; it says whether anything may have been done.
        """
        connection = await self._ready()
        self._check(definition)

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            said = None if message is None else self._redactor.text(message)
            parts = {"progress": progress, "total": total, "message": said}
            context.progress({key: value for key, value in parts.items() if value is not None})

        try:
            value = await connection.call(definition, arguments, progress=on_progress)
        except ToolFailed as error:
            raise ToolFailed(self._redactor.text(error.message)) from None
        except Trouble as trouble:
            raise self._failed(definition, trouble) from None
        self._failures = 0
        return self._redactor.value(value)

    def _failed(self, definition: Definition, trouble: Trouble) -> ToolFailed:
        told = (
            f"the MCP server {self.server.name} did not do the call of {definition.tool}: {trouble.message}"
        )
        if trouble.is_lost:
            self._fail()
            told = (
                f"the MCP server {self.server.name} was lost in the middle of the call: {trouble.message}; "
                f"whether {definition.name} did anything is not known"
            )
        return ToolFailed(self._redactor.text(told))

    async def _ready(self) -> "Connection":
        """Return a connection whose list of tools is up to date."""
        async with self._lock:
            try:
                connection = await self._connected()
                if connection.is_stale:
                    await self._read(connection)
            except Trouble as trouble:
                problem = trouble.message
            else:
                return connection
        raise ToolFailed(
            f"the MCP server {self.server.name} cannot be used now: {self._redactor.text(problem)}; "
            "nothing was done",
            retryable=True,
        )

    async def _connected(self) -> "Connection":
        if self._connection is not None:
            if self._connection.is_open:
                return self._connection
            await self._drop(self._connection)
        wait_s = self._not_before - self._clock()
        if wait_s > 0:
            raise Trouble(f"it failed before and is tried again in {wait_s:,.0f} s", is_lost=True)
        try:
            self._connection = await self._connect(self.server)
        except Trouble:
            self._fail()
            raise
        return self._connection

    async def _drop(self, connection: "Connection") -> None:
        """Let go of a connection that ended; if a call noticed, it counted already."""
        await connection.close()
        self._connection = None
        if self._failures == 0:
            self._fail()

    async def _read(self, connection: "Connection") -> None:
        try:
            found = await connection.tools()
        except Trouble:
            connection.is_stale = True
            raise
        secrets = self.server.secrets
        self.live = {definition.tool: definition for definition in found}
        problems = {definition.tool: definition.problem(secrets) for definition in found}
        self._problems = {tool: problem for tool, problem in problems.items() if problem is not None}

    def _check(self, definition: Definition) -> None:
        now = self.live.get(definition.tool)
        if now is None:
            raise ToolFailed(
                f"the MCP server {self.server.name} has no {definition.tool} any more; nothing was done"
            )
        if definition.tool in self._problems or now.fingerprint != definition.fingerprint:
            parts = ", ".join(definition.changes(now))
            raise ToolFailed(
                f"the MCP server {self.server.name} changed {definition.tool} ({parts}) after it was "
                "approved; nothing was done. A person has to look at the change and approve it"
            )

    def _fail(self) -> None:
        """Count a failure: the first costs no time, each further one twice the last."""
        self._failures += 1
        if self._failures > 1:
            delay_s = RECONNECT_DELAY_S * 2 ** min(self._failures - 2, 16)
            self._not_before = self._clock() + min(delay_s, RECONNECT_DELAY_S_MAX)


_VERSION: Final = 1
_LIMITS: Final = CodecLimits(message_bytes_max=APPROVED_BYTES_MAX, depth_max=128)

Known = dict[str, dict[str, Definition]]
"""Definitions by the server and by what it calls them."""


def read_approved(path: Path) -> Known:
    """Return what a file holds; nothing if there is no file.

    Raises:
        Rejected: it cannot be read as one.
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
            server: {tool: Definition(server, {**said, "name": tool}) for tool, said in tools.items()}
            for server, tools in servers.items()
        }
    except (CodecError, AssertionError, KeyError, AttributeError, TypeError):
        pass
    raise wrong(f"{path} is not a file of approved MCP tools; move it away to approve all tools anew")


def write_approved(path: Path, known: Known) -> None:
    """Put a file in place of the one that is there, whole or not at all."""
    body = {
        "version": _VERSION,
        "servers": {
            server: {tool: definition.body for tool, definition in sorted(tools.items())}
            for server, tools in sorted(known.items())
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

    What a server says of a tool the first time is taken for approved. When it says something else later, the
    tool refuses every call until a person has looked at `changes` and it was approved anew. With a file in
    `approved` that holds across processes, without one for as long as this object lives.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        approved: str | Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = tuple(servers)
        self._links = {server.name: Link(server, connect=_connect, clock=clock) for server in given}
        if len(self._links) < len(given):
            raise wrong("two MCP servers have one name; give each its own")
        if len(given) > SERVERS_MAX:
            raise wrong(f"MCP servers: found {len(given):,}, limit {SERVERS_MAX}")
        self._file = None if approved is None else Path(approved)
        self._known: Known = {}

    async def __aenter__(self) -> Self:
        """Start or reach all servers, and read which tools they have.

        Raises:
            Unavailable: one of them cannot be started or reached, or does not answer.
            Rejected: the extra `mcp` is not installed, or the file of approved tools cannot be read.
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
        """End all connections, and the processes that were started."""
        await asyncio.gather(*(link.close() for link in self._links.values()))

    @property
    def tools(self) -> tuple[Tool[..., object], ...]:
        """The tools as they were approved; an agent keeps those it was made with."""
        made = [
            make_tool(definition, link.server, call=link.call)
            for link in self._links.values()
            for definition in link.approved.values()
        ]
        names = {tool.name for tool in made}
        if len(names) < len(made):
            raise wrong("two MCP tools would have one name; rename one of the servers")
        return tuple(sorted(made, key=lambda tool: tool.name))

    @property
    def changes(self) -> tuple[McpChange, ...]:
        """What is not as it was approved, as far as the servers were heard."""
        return tuple(change for link in self._links.values() for change in link.changes())

    async def refresh(self) -> tuple[McpChange, ...]:
        """Ask all servers which tools they have now, and return the changes.

        Raises:
            Unavailable: one of them is not there.
        """
        await self._open()
        return self.changes

    def approve(self, name: str) -> None:
        """Take a tool as it is now for approved; `tools` has it so from then on.

        Raises:
            Rejected: no tool of this name has changed, or it cannot be used.
        """
        for link in self._links.values():
            for change in link.changes():
                if change.name == name and change.kind != "unusable":
                    link.approve(_own_name(link, name))
                    self._keep()
                    return
        raise wrong(f"there is no change of an MCP tool {name} to approve; see changes")

    async def _open(self) -> None:
        links = tuple(self._links.values())
        outcomes = await asyncio.gather(*(link.refresh() for link in links), return_exceptions=True)
        for link, outcome in zip(links, outcomes, strict=True):
            if isinstance(outcome, Trouble):
                told = link.server.redactor.text(outcome.message)
                raise Unavailable(
                    f"the MCP server {link.server.name} cannot be used: {told}",
                    kind=ErrorKind.TOOL_FAILURE,
                    retry=RetryClass.RETRYABLE,
                )
            if isinstance(outcome, BaseException):
                raise outcome

    def _take_first(self) -> None:
        """Approve all tools of servers that are here for the first time."""
        for name, link in self._links.items():
            if name in self._known:
                link.approved = dict(self._known[name])
            else:
                link.approved = {one.tool: one for one in link.usable()}
        self._keep()

    def _keep(self) -> None:
        now: Known = {**self._known, **{name: dict(link.approved) for name, link in self._links.items()}}
        if self._file is not None and now != self._known:
            write_approved(self._file, now)
        self._known = now


def _own_name(link: Link, name: str) -> str:
    known: dict[str, Definition] = {**link.approved, **link.live}
    return next(tool for tool, definition in known.items() if definition.name == name)


async def _connect(server: McpServer) -> "Connection":
    # The client of the protocol is an extra, and takes a second to import.
    module = import_module("windlass.adapters.mcp.connection")
    connection: Connection = await module.Connection.open(server)
    return connection


def _check_extra() -> None:
    try:
        import_module("mcp")
        return
    except ModuleNotFoundError:
        pass
    raise Rejected(
        "MCP servers need the client of the protocol: install windlass[mcp]",
        kind=ErrorKind.HOST_CONFIGURATION_NEEDED,
        retry=RetryClass.HOST_CONFIGURATION_NEEDED,
    )
