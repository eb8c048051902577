"""The command `mcp`: serve the memory over MCP."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, command, get_exit_code, scope_option
from reverie.interfaces.hooks.runner import PROJECT, resolve_scope

if TYPE_CHECKING:
    from reverie.interfaces.mcp.handshake import EarlyAnswers
    from reverie.memory import Memory


_log = logging.getLogger("reverie.mcp")

BACKGROUND_DELAY_S = 5.0
"""Seconds after the start at which background work begins, so that it delays no client."""

_MCP_PACKAGES = ("mcp", "mcp_types")  # the second came with 2.0
_INSTALL = "the MCP server needs the package mcp, 2.0 or newer: pip install 'reverie[mcp]'"


@command()
@scope_option("Scope to serve, such as user:alice; `repository` for that of the repository.  [shared scope]")
@click.option("--session", metavar="ID", help="Session whose working memory the tools use.")
@click.option("--groups", metavar="LIST", help="Groups of tools, separated by commas.  [the default groups]")
@click.option("--read-only", is_flag=True, help="Offer only tools that change nothing.")
@click.option("--prefix", default="", metavar="TEXT", help="Prefix of all tool names.")
@click.option("--text-only", is_flag=True, help="Return results of tools as text only.")
def mcp(context: CommandContext, /, **options: Any) -> None:
    """Serve the memory over the Model Context Protocol.

    Clients such as Claude Code start the server themselves; `reverie connect CLIENT` writes their settings. The
    server stops at the end of its input, or on Ctrl-C. It creates a missing memory, except
    with --read-only.

    Background work such as dreams runs in the server, with the model of the settings if there is one.

    One server serves one scope, to one client, on standard input and output. `reverie serve` has MCP over HTTP.
    """
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
    offered = options | {"scope": resolve_scope(options["scope"], os.environ.get(PROJECT, ""))}
    if options["groups"] is not None:
        offered["groups"] = [name for part in options["groups"].split(",") if (name := part.strip())]
    has_session = options["session"] is not None
    choice = ToolChoice(offered["groups"], has_session, options["read_only"], options["prefix"])
    early = begin_early_answers(choice)
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
        early.refuse_calls(f"Cannot open the memory: {error}. Tell the user to run `reverie doctor`.")
        raise click.exceptions.Exit(get_exit_code(error)) from error


def _open_and_serve(context: CommandContext, offered: dict[str, Any], early: EarlyAnswers | None) -> None:
    from reverie.interfaces.mcp.server import create_offer
    from reverie.interfaces.mcp.stdio import serve_stdio

    read_only = offered["read_only"]
    with context.memory(create=not read_only, actor="mcp") as memory:
        offer = create_offer(memory, **offered)
        gc.freeze()
        gc.enable()
        with log_to_stderr(debug=context.debug), run_background_work(context, memory, read_only=read_only):
            serve_stdio(offer, early)


@contextmanager
def run_background_work(context: CommandContext, memory: Memory, *, read_only: bool) -> Iterator[None]:
    """Run background work and answer hooks while the block runs, unless the server only reads."""
    if read_only:
        yield
        return
    from reverie.interfaces.hooks.server import HookServer

    timer = threading.Timer(BACKGROUND_DELAY_S, _start_worker, [memory])
    timer.daemon = True
    timer.start()
    try:
        with HookServer(memory, context.resolve_place(), settings=context.settings):
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
