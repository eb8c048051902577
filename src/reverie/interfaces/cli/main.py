"""The commands by name, and the report of errors.

Commands and their dependencies are imported only when needed, so that short commands start quickly.
"""

from __future__ import annotations

import difflib
import io
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from reverie.domain import errors
from reverie.interfaces.cli import output
from reverie.interfaces.cli.guides import GUIDES, name_page
from reverie.interfaces.cli.options import (
    CommandContext,
    ExitCode,
    build_common_options,
    get_exit_code,
)

_PACKAGE = "reverie.interfaces.cli.commands"

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Remember and recall": {
        "remember": (".records:remember", "Save something to long-term memory."),
        "recall": (".records:recall", "Find memories about a query, best first."),
        "show": (".records:show", "Show a record, a turn, a paragraph or a conversation."),
        "list": (".records:list_records", "List records, newest first."),
        "categories": (".records:categories", "List the categories in use."),
        "tags": (".records:tags", "List the tags in use."),
    },
    "Manage records": {
        "archive": (".records:archive", "Take a record out of search."),
        "restore": (".records:restore", "Bring an archived record back."),
        "pin": (".records:pin", "Protect a record from decay and automatic changes."),
        "unpin": (".records:unpin", "Allow decay and automatic changes again."),
        "end": (".records:end", "Mark a record as no longer true."),
        "label": (".records:label", "Add tags to a record."),
        "vouch": (".records:vouch", "Give a record your word."),
        "settle": (".records:settle", "Decide which record holds."),
        "purge": (".records:purge", "Delete archived records permanently."),
        "forget": (".changes:forget", "Erase content permanently, everywhere."),
        "redact": (".changes:redact", "Remove stored secrets permanently."),
    },
    "History": {
        "history": (".changes:history", "List changes, newest first."),
        "blame": (".changes:blame", "Show where something comes from."),
        "diff": (".changes:diff", "Show differences."),
        "undo": (".changes:undo", "Undo changes."),
    },
    "Conversations": {
        "chat": (".conversations:chat", "Talk with a model that remembers."),
        "say": (".conversations:add_turn", "Add a turn to a session."),
        "context": (".conversations:print_context", "Print the context for a prompt."),
        "prompt": (".conversations:print_prompt", "Print a prompt of the log, each line with its reason."),
        "sessions": (".conversations:sessions", "List sessions, most recently active first."),
        "feedback": (".conversations:feedback", "Say that an answer was good or bad."),
    },
    "Agents": {
        "connect": (".connect:connect", "Connect an agent or editor with the memory."),
        "mcp": (".mcp:mcp", "Serve the memory over MCP."),
        "serve": (".serve:serve", "Serve the memory over HTTP."),
        "token": (".serve:token", "Create, list and revoke access tokens."),
        "hook": (".serve:hook", "Handle the events of a coding agent."),
    },
    "Pages": {
        "pages": (".pages:pages", "List pages and logs."),
        "page": (".pages:page", "Print MEMORY.md or another page or log."),
        "edit": (".pages:edit", "Edit MEMORY.md, another page or a record."),
        "append": (".pages:append", "Append to HISTORY.md, a daily note or a page."),
    },
    "Consolidation": {
        "dream": (
            ".dreams:dream",
            "Consolidate records: enrich, verify, tidy, preferences, promote.",
        ),
        "model": (".models:model", "Examine the model of background thinking."),
        "review": (".dreams:review", "List proposed memories, and decide them."),
        "worker": (".dreams:worker", "Do the background work of a memory or a database."),
    },
    "The readable folder": {
        "watch": (".pages:watch", "Import edited files as they are saved."),
        "rebuild": (".pages:rebuild", "Rebuild a lost database from the files."),
        "files": (".pages:files", "Write the files of a memory in a database, or take in edits."),
    },
    "Backup and transfer": {
        "backup": (".transfer:backup", "Back up the memory to one file."),
        "recover": (".transfer:recover", "Recover a memory from a backup."),
        "copy": (".transfer:copy", "Copy the memory to another folder or database."),
        "export": (".transfer:export", "Export the memory to files."),
        "import": (
            ".transfer:import_path",
            "Import an export, another program's memory, or conversations.",
        ),
    },
    "Maintenance": {
        "init": (".upkeep:init", "Create a memory in the folder."),
        "check": (".upkeep:check", "Check the database for errors."),
        "store": (".upkeep:store", "Create, upgrade or check a PostgreSQL database."),
        "doctor": (".upkeep:doctor", "Diagnose and repair the memory."),
        "embed": (".upkeep:embed", "Compute the vectors that are missing."),
        "stats": (".upkeep:stats", "Show statistics."),
    },
    "Try it": {
        "demo": ("..demo:demo", "Replay an example conversation and ask questions."),
        "eval": ("reverie.evals.command:eval_command", "Measure recall on your own data."),
    },
}
"""Commands by section and name, each with its place and its line in `reverie --help`.

A place is a module, relative to `_PACKAGE`, and the name of a function there.
"""

_OTHER_NAMES = {"save": "remember", "add": "remember", "search": "recall", "find": "recall", "get": "show"}
_OTHER_NAMES |= dict.fromkeys(("delete", "remove", "rm"), "archive") | dict.fromkeys(
    ("update", "change"), "edit"
)


class ReverieGroup(click.Group):
    """Group that imports commands on demand, and turns errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name; None if there is none."""
        for section in COMMANDS.values():
            if cmd_name in section:
                module, _, attribute = section[cmd_name][0].partition(":")
                command = getattr(import_module(module, _PACKAGE), attribute)
                assert isinstance(command, click.Command)
                command.epilog = f"Guide: {name_page(GUIDES[cmd_name])}" if cmd_name in GUIDES else None
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments; suggest the closest name for an unknown one."""
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            close = (
                [_OTHER_NAMES[name]] if name in _OTHER_NAMES else difflib.get_close_matches(name, names, n=1)
            )
            ctx.fail(f"No such command {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the commands by section, without importing one, and the exit codes."""
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, summary) for name, (_, summary) in section.items()], col_max=12)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that closes the pipe (`| head`) is not an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Here and not in `_report`, because click's own `main` would make it exit code 1.
            _discard_output(sys.stdout)
            ctx.exit(ExitCode.UNREAD)
        except KeyboardInterrupt as error:
            # Likewise: click would write an empty line even without a terminal.
            raise click.Abort from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run the command line."""
        context = extra.setdefault("obj", CommandContext())
        try:
            code = super().main(args, prog_name or "reverie", complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 - the outermost handler: it reports every error
            code = _report(error, debug=context.debug)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except OSError:  # reported; the interpreter would try again, and exit with code 120
                _discard_output(stream)
        sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _report(error: Exception, *, debug: bool) -> int:
    """Print an error as one line on standard error; return the exit code for it."""
    if isinstance(error, BrokenPipeError):
        _discard_output(sys.stdout)
        return ExitCode.UNREAD
    if isinstance(error, click.Abort):
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal shows ^C on this line
        output.print_error("interrupted")
        return ExitCode.INTERRUPTED
    if debug and not isinstance(error, click.ClickException):
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        output.print_error(_format_click_error(error))
        return ExitCode.WRONG
    if isinstance(error, errors.ReverieError):
        output.print_error(str(error))
        return get_exit_code(error)
    if isinstance(error, OSError):
        about = f"{error.filename!r}: " if error.filename is not None else ""
        output.print_error(
            f"{about}{error.strerror or type(error).__name__}: correct the cause and try again"
        )
        return ExitCode.UNAVAILABLE
    if isinstance(error, ImportError) and not (error.name or "").startswith("reverie"):
        output.print_error(f"{error}: install Reverie again, with all that it needs")
        return ExitCode.UNAVAILABLE
    # The error's message may quote a memory, so it is shown only with --debug.
    advice = "the traceback is above" if debug else "run it again with --debug for the traceback"
    output.print_error(f"{type(error).__name__}: this is a bug in Reverie; {advice}")
    return ExitCode.BUG


def _discard_output(stream: TextIO) -> None:
    """Discard the remaining output, so that the interpreter exits silently."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _format_click_error(error: click.ClickException) -> str:
    """Format a click error without its full stop, and name the command's help."""
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        message += " (put `--` before a text that begins with `-`)"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        stop = "" if message.endswith("?") else ";"
        return f"{message}{stop} see `{error.ctx.command_path} --help`"
    return message


@click.pass_context
def _show_default_help(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


cli = ReverieGroup(
    name="reverie",
    params=build_common_options(),
    callback=_show_default_help,
    invoke_without_command=True,
    help="""Memory for AI agents: one folder, no key, no server, nothing lost.

    \b
    reverie remember "Prefers short answers" --category user-preferences/style
    reverie recall "how should I answer?"
    """,
    epilog="See `reverie COMMAND --help` for details. Results go to standard output, messages to "
    "standard error. In a pipe, results are lines of tab-separated fields; with --json, one JSON document.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(package_name="reverie", message="%(version)s")(cli)


def main() -> NoReturn:
    """Run the command line."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(output.EscapingFormatter())
    cli.main()
