"""Helpers of the tests of MCP servers."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Unpack

from pydantic import JsonValue

from windlass import ToolCall, ToolContext, ToolRouter
from windlass.mcp import McpOptions, McpServer, McpServers
from windlass_protocol import ToolResult

HERE = Path(__file__).parent
TOKEN = "a-token-of-the-host"


def friendly(folder: Path | None = None, **options: Unpack[McpOptions]) -> McpServer:
    """A well-behaved MCP server."""
    args = [str(HERE / "friendly.py"), *([] if folder is None else [str(folder)])]
    return McpServer.stdio("f", sys.executable, args=args, **options)


def raw(manner: str, file: Path | None = None, **options: Unpack[McpOptions]) -> McpServer:
    """A server of that manner."""
    args = ["-S", str(HERE / "raw.py"), manner, *([] if file is None else [str(file)])]
    return McpServer.stdio("r", sys.executable, args=args, env={"SECRET": TOKEN}, **options)


@contextmanager
def http_server(folder: Path) -> Generator[str]:
    """The same server behind an address, which is yielded."""
    command = [sys.executable, str(HERE / "friendly.py"), str(folder), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


@asynccontextmanager
async def opened(server: McpServer, approved: Path | None = None) -> AsyncGenerator[McpServers]:
    async with McpServers([server], approved=approved) as servers:
        yield servers


async def use(
    servers: McpServers, tool: str, *, context: ToolContext | None = None, **arguments: JsonValue
) -> ToolResult:
    """Call a tool as a person would who consents to everything."""
    return await dispatch(servers, ToolCall(id="c1", name=tool, arguments=arguments), context)


async def dispatch(servers: McpServers, call: ToolCall, context: ToolContext | None = None) -> ToolResult:
    return await ToolRouter(servers.tools).dispatch(call, consent_granted=True, context=context)


async def failure_of(servers: McpServers, tool: str, **arguments: JsonValue) -> str:
    """Call a tool that fails, and return the error for the model."""
    result = await dispatch(servers, ToolCall(id="c1", name=tool, arguments=arguments))
    assert not result.success
    return result.error or ""
