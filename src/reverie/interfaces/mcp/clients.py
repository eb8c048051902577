"""Settings that people paste into MCP clients.

Writes nothing: the file is the client's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """A client, and where its settings go.

    Attributes:
        name: What it is called here.
        place: Where what is printed goes, in words.
        form: Makes it from the server's name, the program and its arguments.
    """

    name: str
    place: str
    form: Callable[[str, Sequence[str]], str]


def _format_command(name: str, started: Sequence[str]) -> str:
    return shlex.join(
        ["claude", "mcp", "add", "--transport", "stdio", "--scope", "user", name, "--", *started]
    )


def _build_formatter(key: str, **more: Any) -> Callable[[str, Sequence[str]], str]:
    def form(name: str, started: Sequence[str]) -> str:
        server = {**more, "command": started[0], "args": list(started[1:])}
        return json.dumps({key: {name: server}}, indent=2)

    return form


CLIENTS: Mapping[str, ClientConfig] = {
    client.name: client
    for client in (
        ClientConfig(
            name="claude-code", place="a terminal; or run it with --scope project", form=_format_command
        ),
        ClientConfig(
            name="claude-desktop",
            place="claude_desktop_config.json (Settings, Developer, Edit Config)",
            form=_build_formatter("mcpServers"),
        ),
        ClientConfig(
            name="cursor",
            place="~/.cursor/mcp.json, or .cursor/mcp.json in a project",
            form=_build_formatter("mcpServers"),
        ),
        ClientConfig(
            name="vscode",
            place=".vscode/mcp.json in a workspace, or the file that `MCP: Open User Configuration` opens",
            form=_build_formatter("servers", type="stdio"),
        ),
    )
}
"""The clients whose form is known, by name."""


def to_paste(client: str, name: str, started: Sequence[str]) -> str:
    """Return the settings for a client.

    Args:
        client: One of `CLIENTS`.
        name: What the client calls the server.
        started: The program and its arguments, with absolute paths.
    """
    return CLIENTS[client].form(name, started)
