"""Commands that serve a memory: `serve`, `token` and `hook`."""

from __future__ import annotations

import logging
import sys
import webbrowser
from importlib.util import find_spec
from typing import Any

import click

from reverie.domain.errors import InvalidInput, MissingExtra
from reverie.domain.record import ORIGINS
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.commands.mcp import log_to_stderr, run_background_work
from reverie.interfaces.cli.options import CommandContext, command
from reverie.interfaces.hooks import runner
from reverie.interfaces.hooks.client import SCOPE, TIMEOUT_S
from reverie.interfaces.hooks.events import EVENTS
from reverie.interfaces.http.tokens import RIGHTS, TokenRegistry

PORT = 8766
_PACKAGES = ("fastapi", "jinja2", "mcp", "prometheus_client", "swagger_ui_bundle", "uvicorn")


@command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0 for any port."
)
@options.repeated_option("--allow-host", "allowed", metavar="NAME", help="Additional host name to accept")
@options.repeated_option(
    "--compat", "compatible", type=click.Choice(["mem0"]), help="Serve its interface too"
)
@click.option("--access-log", is_flag=True, help="Log each request, without its content, to standard error.")
@click.option("--open", "is_opening", is_flag=True, help="Open the web UI in a browser.")
def serve(
    context: CommandContext, /, host: str, port: int, access_log: bool, is_opening: bool, **given: Any
) -> None:
    """Serve the memory over HTTP: a page to look at and edit it, the API under /v1, and MCP under /mcp.

    The server listens on this machine only, unless --host names another address; then every request needs a
    token of `reverie token create`. Once a token exists, every request needs one on this machine too.
    /docs and /openapi.json describe the API. With --compat mem0, mem0's own client works with this server.

    It creates a missing memory, does background work such as dreams, and stops on Ctrl-C.
    """
    if missing := [name.replace("_", "-") for name in _PACKAGES if find_spec(name) is None]:
        names = ", ".join(missing)
        raise MissingExtra(f"The server needs {names}. Run `pip install 'reverie[server]'`.")
    from reverie.interfaces.http.serve import format_address, open_socket, validate_host
    from reverie.interfaces.http.serve import serve as serve_memory
    from reverie.interfaces.http.server import HttpServer

    with open_socket(host, port) as sock, context.memory(create=True, actor="http") as memory:
        server = HttpServer(memory)
        validate_host(host, server)
        logging.getLogger("reverie.http.access").setLevel(logging.INFO if access_log else logging.WARNING)

        def announce() -> None:
            address = format_address(sock, "/")
            context.print_message(f"Serving on {address} – press Ctrl-C to stop.")
            if is_opening and not webbrowser.open(address):
                context.print_message("No browser could be opened. Open the address above.")

        with log_to_stderr(debug=context.debug), run_background_work(context, memory, read_only=False):
            serve_memory(server, sock, host=host, announce=announce, **given)


@click.group(cls=options.CommandGroup)
def token() -> None:
    """Create, list and revoke access tokens of `reverie serve`."""


@token.command(json=True)
@click.argument("label")
@options.scope_option("Scope that it is bound to, such as user:alice.")
@options.repeated_option(
    "--right", "rights", type=click.Choice(RIGHTS), default=("read",), help="What it allows"
)
@click.option(
    "--origin", type=click.Choice(ORIGINS), default="agent", help="Origin of what is saved with it."
)
@click.option("--expires", metavar="TIME", help="Time after which it ends, such as 30d.  [never]")
def create(context: CommandContext, /, label: str, **given: Any) -> None:
    """Create a token for LABEL, and print it. It is shown once; the memory keeps a hash.

    From then on, every request to `reverie serve` needs a token. Changes made with it have LABEL as their
    author.

    With --json: {"token", "id", "label", "scope", "rights", "origin", "created_at", "expires_at",
    "revoked_at", "last_used_at"}.
    """
    with context.memory() as memory:
        made, text = TokenRegistry(memory).create(label, **given)
    context.print_result(text, {"token": text, **made.to_dict()}, brief=text)
    context.print_message("It is not shown again. Every request to `reverie serve` needs a token now.")


@token.command("list", json=True)
def list_tokens(context: CommandContext, /) -> None:
    """List all tokens, newest first: id, label, scope, rights, origin, state, last use.

    With --json: {"tokens": [{"id", "label", "scope", "rights", "origin", "created_at", "expires_at",
    "revoked_at", "last_used_at"}]}.
    """
    with context.memory() as memory:
        tokens = TokenRegistry(memory).list()
        now = memory.now()
    rows = []
    for each in tokens:
        state = "revoked" if each.revoked_at else "valid" if each.is_valid(now) else "expired"
        used = each.last_used_at or "never"
        rows.append((each.id, each.label, each.scope or "-", ",".join(each.rights), each.origin, state, used))
    output.print_listing(context, rows, {"tokens": tokens}, empty="No tokens.")


@token.command()
@options.ID
def revoke(context: CommandContext, /, id: str) -> None:
    """Revoke the token ID; a running server refuses it from the next request on."""
    with context.memory() as memory:
        revoked = TokenRegistry(memory).revoke(id)
    context.print_message(f"Revoked {revoked.id} ({revoked.label}).")


# -- hook -----------------------------------------------------------------------------------------


@command()
@click.argument("event", type=click.Choice([*EVENTS]))
@options.scope_option(
    f"Scope, such as user:alice; `repository` for one of each repository.  [${SCOPE}, or the shared scope]",
    None,
)
@click.option("--agent", metavar="NAME", help="Prefix of the session ids.  [claude-code]")
@click.option("--format", metavar="FORMAT", help=f"Output: {', '.join(runner.FORMATS)}.  [json]")
@click.option(
    "--max-chars", metavar="N", help=f"Maximum number of characters to write.  [{runner.MOST_CHARS}]"
)
@click.option("--timeout", metavar="SECONDS", help=f"Give up after this time.  [{TIMEOUT_S:g}]")
def hook(context: CommandContext, /, event: str, **values: str | None) -> None:
    """Handle an EVENT of a coding agent that runs hooks, such as Claude Code.

    `session-start` writes the profile, MEMORY.md, rules, notes and the newest records. `user-prompt` stores the user's
    prompt, and writes the memories that match. `stop` stores the agent's answer, and learns from the exchange.
    `tool-failure` stores the arguments and the error of a tool. `session-end` saves the insights of the session.

    The event is read as JSON from standard input; the context for the agent is written to standard output.
    A failure never stops the agent: it is reported in one line on standard error, and the exit code is 0.
    `reverie connect CLIENT` writes the settings with which an agent runs the hooks.
    """
    given = {name.replace("_", "-"): value for name, value in values.items() if value is not None}
    parsed = runner.parse_arguments([f"--{name}={value}" for name, value in given.items()])
    if parsed is None:
        raise InvalidInput("Invalid --format, --max-chars or --timeout. See `reverie hook --help`.")
    parsed = parsed._replace(
        store=context.store, settings=context.settings, quiet=context.quiet, debug=context.debug
    )
    data = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    click.echo(runner.try_run(event, parsed, data).decode(), nl=False)
