"""MCP servers that are open, and their tools."""

import asyncio
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from windlass.adapters.mcp.approved import Known, read_approved, write_approved
from windlass.adapters.mcp.definition import Definition, make_tool
from windlass.adapters.mcp.limits import SERVERS_MAX
from windlass.adapters.mcp.link import Link, McpChange
from windlass.adapters.mcp.server import McpServer
from windlass.adapters.mcp.trouble import Trouble
from windlass.definitions import wrong
from windlass.errors import Rejected, Unavailable
from windlass.tools import Tool
from windlass_protocol import ErrorKind, RetryClass

if TYPE_CHECKING:
    from windlass.adapters.mcp.connection import Connection


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
