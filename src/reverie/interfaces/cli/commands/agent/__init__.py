"""Commands for agents: `chat`, `hook`, `mcp` and `tools`."""
