"""A server and its tools, through all its connections.

What a person approved is compared with what the server says whenever it is read: when the server is opened,
when it comes back, and before the next call after it said that its tools changed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from windlass.adapters.mcp.definition import Definition
from windlass.adapters.mcp.limits import RECONNECT_DELAY_S, RECONNECT_DELAY_S_MAX
from windlass.adapters.mcp.server import McpServer
from windlass.adapters.mcp.trouble import Trouble
from windlass.tool_context import ToolContext
from windlass.tools import ToolFailed
from windlass_protocol import JsonObject

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
