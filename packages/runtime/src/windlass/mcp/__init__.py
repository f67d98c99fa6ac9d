"""MCP servers as tools: `async with McpServers([McpServer.stdio(…)]) as servers`.

It needs the extra `windlass-runtime[mcp]`, which is imported when the first server is opened.
"""

from windlass.mcp.server import McpOptions as McpOptions
from windlass.mcp.server import McpServer as McpServer
from windlass.mcp.server import McpToolOptions as McpToolOptions
from windlass.mcp.servers import McpChange as McpChange
from windlass.mcp.servers import McpServers as McpServers
from windlass.ports.host import Elicitation as Elicitation
from windlass.ports.host import ElicitationHandler as ElicitationHandler
