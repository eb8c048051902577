"""Command line, MCP server and hooks. Imports everything below; nothing imports it."""
