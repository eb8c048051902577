"""The MCP server, spoken to by the real client in both generations of the protocol."""
