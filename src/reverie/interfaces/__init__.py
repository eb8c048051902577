"""Command line, HTTP server, MCP server and hooks. Imports everything below; nothing imports it."""
