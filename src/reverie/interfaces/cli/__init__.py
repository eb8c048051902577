"""The command line. It may import hooks and MCP."""
