"""The command `mcp`: serve the memory over MCP, and print the settings of clients."""

from __future__ import annotations

import gc
import json
import logging
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import (
    CommandContext,
    CommandGroup,
    combine_options,
    get_exit_code,
    invocation,
)

if TYPE_CHECKING:
    from reverie.interfaces.mcp.handshake import EarlyAnswers
    from reverie.interfaces.mcp.server import ServedMemory
    from reverie.memory import Memory


_log = logging.getLogger("reverie.mcp")

BACKGROUND_DELAY_S = 5.0
"""Seconds after the start at which background work begins, so that it delays no client."""

MCP_CLIENTS: Mapping[str, str] = {
    "claude-code": "a terminal; or run it with --scope project",
    "claude-desktop": "claude_desktop_config.json (Settings, Developer, Edit Config)",
    "cursor": "~/.cursor/mcp.json, or .cursor/mcp.json in a project",
    "vscode": ".vscode/mcp.json in a workspace, or the file that `MCP: Open User Configuration` opens",
}
"""Supported clients, and where to paste their settings."""

_MCP_PACKAGES = ("mcp", "mcp_types")  # the second came with 2.0
_INSTALL = "the MCP server needs the package mcp, 2.0 or newer: pip install 'reverie[mcp]'"
_offer_options = combine_options(
    click.option(
        "--scope", default="", metavar="NAME", help="Scope to serve, such as user:alice.  [the common scope]"
    ),
    click.option("--session", metavar="ID", help="Session whose working memory the tools use."),
    click.option(
        "--groups", metavar="LIST", help="Groups of tools, separated by commas.  [the default groups]"
    ),
    click.option("--read-only", is_flag=True, help="Offer only tools that change nothing."),
    click.option("--prefix", default="", metavar="TEXT", help="Prefix of all tool names."),
    click.option("--text-only", is_flag=True, help="Return results of tools as text only."),
)


class _Group(CommandGroup):
    """Group with a default command."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail("expected options, or `config` and its options")
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, invoke_without_command=True, subcommand_metavar="[config]")
@_offer_options
@invocation
@click.pass_context
def mcp(ctx: click.Context, context: CommandContext, /, **options: Any) -> None:
    """Serve the memory over the Model Context Protocol.

    Clients such as Claude Code start the server themselves; `reverie mcp config --client NAME` prints their
    settings. The server stops at the end of its input, or on Ctrl-C. It creates a missing memory, except
    with --read-only.

    Background work such as dreams runs in the server, with the model of the settings if there is one.

    One server serves one scope, to one client, on standard input and output. `reverie serve` has MCP over HTTP.
    """
    if ctx.invoked_subcommand is not None:
        ctx.meta["reverie.mcp"] = options
        return
    gc.disable()  # imported objects stay alive, and collecting takes a third of the start
    try:
        if any(find_spec(name) is None for name in _MCP_PACKAGES):
            raise MissingExtra(_INSTALL)
        _serve(context, options)
    finally:
        gc.enable()


def _serve(context: CommandContext, options: dict[str, Any]) -> None:
    from reverie.interfaces.mcp.handshake import ToolChoice, begin_early_answers

    if sys.stdin is None:
        raise InvalidInput("standard input is closed: let a client start the server")
    offered = dict(options)
    if options["groups"] is not None:
        offered["groups"] = [name for part in options["groups"].split(",") if (name := part.strip())]
    has_session = options["session"] is not None
    early = begin_early_answers(
        ToolChoice(offered["groups"], has_session, options["read_only"], options["prefix"])
    )
    if sys.stdin.isatty():
        context.print_message("Waiting for messages on standard input; press Ctrl-C to stop.")
    if early is not None:
        early.wait_until_listed()
    try:
        _open_and_serve(context, offered, early)
    except (ReverieError, OSError) as error:
        if early is None:
            raise
        output.print_error(str(error))
        early.refuse_calls(
            f"The memory cannot be opened: {error}. Tell the user; `reverie doctor` finds the cause."
        )
        raise click.exceptions.Exit(get_exit_code(error)) from error


def _open_and_serve(context: CommandContext, offered: dict[str, Any], early: EarlyAnswers | None) -> None:
    from reverie.interfaces.mcp.server import create_offer
    from reverie.interfaces.mcp.stdio import serve_stdio

    def create(memory: Memory) -> ServedMemory:
        return create_offer(memory, **offered)

    read_only = offered["read_only"]
    with context.memory(create=not read_only, actor="mcp", rehearse=create) as memory:
        offer = create(memory)
        gc.freeze()
        gc.enable()
        with log_to_stderr(debug=context.debug), run_background_work(memory, read_only=read_only):
            serve_stdio(offer, early)


@contextmanager
def run_background_work(memory: Memory, *, read_only: bool) -> Iterator[None]:
    """Run background work while the block runs, unless the server only reads."""
    if read_only:
        yield
        return
    timer = threading.Timer(BACKGROUND_DELAY_S, _start_worker, [memory])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _start_worker(memory: Memory) -> None:
    try:
        memory.dreams.start()
    except ReverieError as error:
        _log.warning("background work did not start: %s", error)


@contextmanager
def log_to_stderr(*, debug: bool) -> Iterator[None]:
    """Log warnings, or everything, to standard error while the block runs."""
    root = logging.getLogger()
    handler, level = logging.StreamHandler(sys.stderr), root.level
    handler.setFormatter(output.EscapingFormatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


# -- client settings ----------------------------------------------------------------------------------


@mcp.command("config")
@click.option(
    "--client", type=click.Choice([*MCP_CLIENTS]), required=True, help="Client that uses the memory."
)
@click.option("--name", default="reverie", show_default=True, help="Name of the server in the client.")
@_offer_options
@click.pass_context
def mcp_config(
    ctx: click.Context, context: CommandContext, /, client: str, name: str, **options: Any
) -> None:
    """Print the settings with which a client starts this server: a command, or JSON.

    They contain the absolute paths of the folder and the program. Options of the server can be given here or
    before `config`. A message on standard error says where to paste the settings.
    """
    before = ctx.meta.get("reverie.mcp", {})
    given = {key: value for key in options if (value := options[key] or before.get(key))}
    arguments = [*find_program(), "mcp", *context.build_arguments(given)]
    click.echo(format_settings(client, name, arguments))
    context.print_message(f"Paste it into {MCP_CLIENTS[client]}.")


def find_program() -> Sequence[str]:
    """Return the command that runs this program: its absolute path, or Python and arguments."""
    installed = Path(sys.executable).parent / "reverie"
    if installed.exists() and os.access(installed, os.X_OK):
        return [str(installed)]
    called = Path(sys.argv[0])
    if called.name == "reverie" and os.access(called, os.X_OK):
        return [str(called.absolute())]
    return [sys.executable, "-c", "from reverie.interfaces.cli.main import main; main()"]


def format_settings(client: str, name: str, command: Sequence[str]) -> str:
    """Return the settings for a client: a command for a terminal, or JSON.

    Args:
        client: One of `MCP_CLIENTS`.
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
