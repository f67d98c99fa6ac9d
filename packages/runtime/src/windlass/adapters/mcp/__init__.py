"""MCP servers as tools; the MCP client library is the extra `mcp`."""
