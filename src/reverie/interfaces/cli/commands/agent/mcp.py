"""The command `mcp`: serve a memory over the Model Context Protocol, or print a client's settings."""

from __future__ import annotations

import gc
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, MissingExtra, ReverieError
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import (
    MCP_TOKEN,
    Command,
    CommandContext,
    build_common_options,
    combine_options,
    invocation,
)

if TYPE_CHECKING:
    from reverie.interfaces.mcp.offer import ServedMemory
    from reverie.memory import Memory

_log = logging.getLogger("reverie.mcp")

PORT = 8765
THINKS_AFTER_S = 5.0
"""Seconds after the start at which background work begins, so that it delays no client."""

CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode")

_PACKAGES = ("mcp", "mcp_types")  # the second came with 2.0
_INSTALL = "the MCP server needs the package mcp, 2.0 or newer: pip install 'reverie[mcp]'"
_what = combine_options(
    click.option(
        "--scope", default="", metavar="NAME", help="Serve this scope, such as user:alice.  [everybody's]"
    ),
    click.option("--session", metavar="ID", help="The conversation whose working memory the tools use."),
    click.option("--groups", metavar="LIST", help="Which groups of tools, with commas between.  [the usual]"),
    click.option("--read-only", is_flag=True, help="Only tools that change nothing."),
    click.option(
        "--knowledge-graph", is_flag=True, help="The nine tools of the reference memory server too."
    ),
    click.option("--prefix", default="", metavar="TEXT", help="What the name of every tool begins with."),
)


class _Group(click.Group):
    """Group with a default command and the options that all commands accept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(build_common_options())

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail("expected options, or `config` and its own")
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, invoke_without_command=True, subcommand_metavar="[config]")
@combine_options(
    click.option(
        "--transport",
        type=click.Choice(["stdio", "http"]),
        default="stdio",
        show_default=True,
        help="Standard input and output, or streamable HTTP.",
    ),
    click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen, for http."),
    click.option(
        "--port",
        type=click.IntRange(0, 65_535),
        default=PORT,
        show_default=True,
        help="The port, for http; 0 for any that is free.",
    ),
    click.option(
        "--allow-host", multiple=True, metavar="NAME", help="Another name it may be called by, for http."
    ),
    click.option(
        "--token-file",
        metavar="FILE",
        help=f"Where the token stands that requests must have, for http.  [${MCP_TOKEN}]",
    ),
)
@_what
@invocation
@click.pass_context
def mcp(ctx: click.Context, asked: CommandContext, /, **how: Any) -> None:
    """Serve the memory to agents over the Model Context Protocol.

    Clients such as Claude Code start it themselves: `reverie mcp config --client NAME` prints what to paste
    into them. It ends when its input does, or on Ctrl-C. A folder without a memory gets one, unless with
    --read-only.

    What is due in the background, such as dreams, is done meanwhile; a model is asked where the setting names
    one.

    With http it listens on this machine only. Anywhere else it demands a token, and it always checks by which
    host name it is called. One server serves one scope.
    """
    if ctx.invoked_subcommand is not None:
        ctx.meta["reverie.mcp"] = how
        return
    gc.disable()  # what importing the protocol makes stays, and looking through it takes a third of the time
    try:
        _check_installed()
        (_serve_stdio if how["transport"] == "stdio" else _serve_http)(asked, how)
    finally:
        gc.enable()


def _serve_stdio(asked: CommandContext, how: dict[str, Any]) -> None:
    from reverie.interfaces.mcp.serve import serve_stdio

    if sys.stdin.isatty():
        output.print_message(
            "Waiting for a client's messages on standard input; Ctrl-C ends it.", quiet=asked.quiet
        )
    _serve_memory(asked, how, serve_stdio)


def _serve_http(asked: CommandContext, how: dict[str, Any]) -> None:
    from reverie.interfaces.mcp import http
    from reverie.interfaces.mcp.serve import serve_http

    host = how["host"]
    token = http.validate_token(_load_token(how["token_file"]), host=host)
    sock = http.open_socket(host, how["port"])

    def serve(offer: ServedMemory) -> None:
        output.print_message(f"Serving on {http.format_address(sock)}; Ctrl-C ends it.", quiet=asked.quiet)
        serve_http(offer, sock, host=host, token=token, allowed=how["allow_host"])

    with sock:
        _serve_memory(asked, how, serve)


def _serve_memory(asked: CommandContext, how: dict[str, Any], serve: Callable[[ServedMemory], None]) -> None:
    from reverie.interfaces.mcp.offer import create_offer

    with asked.memory(create=not how["read_only"], actor="mcp") as memory:
        offer = create_offer(
            memory,
            scope=how["scope"],
            session=how["session"],
            groups=None if how["groups"] is None else _split_names(how["groups"]),
            knowledge_graph=how["knowledge_graph"],
            read_only=how["read_only"],
            prefix=how["prefix"],
        )
        gc.freeze()
        gc.enable()
        with _log_to_stderr(debug=asked.debug), _run_background_work(memory, reads=how["read_only"]):
            serve(offer)


@contextmanager
def _run_background_work(memory: Memory, *, reads: bool) -> Iterator[None]:
    """Run background work while the block runs, unless the server only reads."""
    if reads:
        yield
        return
    begin = threading.Timer(THINKS_AFTER_S, _start_worker, [memory])
    begin.daemon = True
    begin.start()
    try:
        yield
    finally:
        begin.cancel()


def _start_worker(memory: Memory) -> None:
    try:
        memory.dreams.start()
    except ReverieError as error:
        _log.warning("there is no background work: %s", error)


@contextmanager
def _log_to_stderr(*, debug: bool) -> Iterator[None]:
    """Log warnings, or everything, to standard error while the block runs."""
    root = logging.getLogger()
    handler, level = logging.StreamHandler(sys.stderr), root.level
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def _check_installed() -> None:
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in _PACKAGES):
        raise MissingExtra(_INSTALL)


def _split_names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _load_token(file: str | None) -> str | None:
    """Load the token from the file or the environment; None if there is none."""
    if file is None:
        return os.environ.get(MCP_TOKEN) or None
    path = Path(file).expanduser()
    try:
        token = path.read_text(encoding="utf-8").strip()
        others = stat.S_IMODE(path.stat().st_mode) & 0o077
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidInput(f"the token file {file!r} cannot be read ({why}): name another") from error
    if others:
        output.print_message(f"the token file {file!r} can be read by others: `chmod 600` it")
    if not token:
        raise InvalidInput(f"the token file {file!r} is empty: write a token into it")
    return token


# -- what to paste ---------------------------------------------------------------------------------------


@mcp.command(cls=Command)
@combine_options(
    click.option(
        "--client", type=click.Choice(CLIENTS), required=True, help="The program that shall use the memory."
    ),
    click.option("--name", default="reverie", show_default=True, help="What the program calls the server."),
)
@_what
@invocation
@click.pass_context
def config(ctx: click.Context, asked: CommandContext, /, client: str, name: str, **how: Any) -> None:
    """Print what to paste into a client so that it starts this server: a command, or JSON.

    The folder and the program stand in it with their absolute paths. Options of the server may be given here
    or before `config`; where to paste it is said on standard error.
    """
    from reverie.interfaces.mcp.clients import CLIENTS as FORMS
    from reverie.interfaces.mcp.clients import to_paste
    from reverie.memory import resolve_folder

    before = ctx.meta.get("reverie.mcp", {})
    chosen = {key: value or before.get(key) for key, value in how.items()}
    started = [*find_program(), "mcp", "--folder", str(resolve_folder(asked.place()))]
    if asked.settings is not None:
        started += ["--settings", str(Path(asked.settings).expanduser().absolute())]
    for key, value in chosen.items():
        option = f"--{key.replace('_', '-')}"
        if value is True:
            started.append(option)
        elif value:
            started += [option, value]
    click.echo(to_paste(client, name, started))
    output.print_message(f"Paste it into {FORMS[client].place}.", quiet=asked.quiet)


def find_program() -> Sequence[str]:
    """Return the absolute path of this program, or Python and its arguments."""
    beside = Path(sys.executable).parent / "reverie"
    if beside.exists() and os.access(beside, os.X_OK):
        return [str(beside)]
    called = Path(sys.argv[0])
    if called.name == "reverie" and os.access(called, os.X_OK):
        return [str(called.absolute())]
    return [sys.executable, "-c", "from reverie.interfaces.cli.main import main; main()"]
