"""Commands of agents: chat, hooks, servers and background work. Imports as `commands` does."""
