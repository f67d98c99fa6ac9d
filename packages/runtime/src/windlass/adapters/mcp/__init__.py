"""MCP servers as tools; the client of the protocol is the extra `mcp`."""
