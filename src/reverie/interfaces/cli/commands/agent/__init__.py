"""Commands that an agent runs: chat, hook, mcp, tools. Imports as `commands` does."""
