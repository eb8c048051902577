"""Settings to paste into MCP clients; the clients' files are never written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

CLIENTS: Mapping[str, str] = {
    "claude-code": "a terminal; or run it with --scope project",
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in a project",
    "vscode": ".vscode/mcp.json in a workspace, or the file that `MCP: Open User Configuration` opens",
}
"""Supported clients, and where to paste their settings."""


def format_settings(client: str, name: str, command: Sequence[str]) -> str:
    """Return the settings for a client: a command for a terminal, or JSON.

    Args:
        client: One of `CLIENTS`.
        name: Name of the server in the client.
        command: Program and arguments, with absolute paths.
    """
    if client == "claude-code":
        add = ["claude", "mcp", "add", "--transport", "stdio", "--scope", "user", name, "--"]
        return shlex.join([*add, *command])
    server = {"command": command[0], "args": list(command[1:])}
    if client == "vscode":
        return json.dumps({"servers": {name: {"type": "stdio", **server}}}, indent=2)
    return json.dumps({"mcpServers": {name: server}}, indent=2)
