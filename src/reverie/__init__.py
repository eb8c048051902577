"""Memory for AI agents: open a folder, and remember."""
