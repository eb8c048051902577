"""Settings to paste into MCP clients; the clients' files are never written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A client and the format of its settings.

    Attributes:
        name: Name of the client in `--client`.
        place: Where to paste the settings.
        format: Function from the server's name and its command to the settings.
    """

    name: str
    place: str
    format: Callable[[str, Sequence[str]], str]


def _format_command(name: str, command: Sequence[str]) -> str:
    return shlex.join(
        ["claude", "mcp", "add", "--transport", "stdio", "--scope", "user", name, "--", *command]
    )


def _build_formatter(key: str, **more: Any) -> Callable[[str, Sequence[str]], str]:
    def format_json(name: str, command: Sequence[str]) -> str:
        server = {**more, "command": command[0], "args": list(command[1:])}
        return json.dumps({key: {name: server}}, indent=2)

    return format_json


CLIENTS: Mapping[str, ClientConfig] = {
    client.name: client
    for client in (
        ClientConfig(
            name="claude-code", place="a terminal; or run it with --scope project", format=_format_command
        ),
        ClientConfig(
            name="claude-desktop",
            place="claude_desktop_config.json (Settings, Developer, Edit Config)",
            format=_build_formatter("mcpServers"),
        ),
        ClientConfig(
            name="cursor",
            place="~/.cursor/mcp.json, or .cursor/mcp.json in a project",
            format=_build_formatter("mcpServers"),
        ),
        ClientConfig(
            name="vscode",
            place=".vscode/mcp.json in a workspace, or the file that `MCP: Open User Configuration` opens",
            format=_build_formatter("servers", type="stdio"),
        ),
    )
}
"""Supported clients by name."""


def format_settings(client: str, name: str, command: Sequence[str]) -> str:
    """Return the settings for a client.

    Args:
        client: One of `CLIENTS`.
        name: Name of the server in the client.
        command: Program and arguments, with absolute paths.
    """
    return CLIENTS[client].format(name, command)
