"""An agent uses a tool of an MCP server: this file, in a process of its own.

Needs the extra mcp: pip install "windlass-runtime[mcp]".
"""

import asyncio
import sys

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    sys.exit('This example needs the extra mcp: pip install "windlass-runtime[mcp]"')

from windlass import Agent
from windlass.mcp import McpServer, McpServers
from windlass.testing import ScriptedModel, call, say

TIDES = {"Oslo": "high at noon", "Brest": "high at six"}
harbour = MCPServer("harbour")


@harbour.tool()
def tide(port: str) -> str:
    """Say when the tide is high."""
    return TIDES[port]


async def main() -> None:
    server = McpServer.stdio(
        "harbour",
        sys.executable,
        args=[__file__, "serve"],
        # Annotations of a server are not trusted: without this the policy would ask a person.
        tools={"tide": {"mode": "read"}},
    )
    async with McpServers([server], approved="approved.json") as servers:
        for tool in servers.tools:
            print(f"{tool.name}: {tool.description}")
        model = ScriptedModel([call("harbour__tide", {"port": "Oslo"}), say("Sail at noon.")])
        agent = Agent("sailor", model=model, tools=servers.tools)
        result = await agent.run("When do we sail from Oslo?")
        print(result.status, "-", result.output)
        print("changed since they were approved:", [change.name for change in servers.changes])


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        harbour.run()
    else:
        asyncio.run(main())
