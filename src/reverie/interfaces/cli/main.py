"""The commands by name, and the report of errors.

Commands and their dependencies are imported only when needed, so that short commands start quickly.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from reverie import __version__
from reverie.domain import errors
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, ExitCode, build_common_options, get_exit_code

_PACKAGE = "reverie.interfaces.cli.commands"
_ROWS = (
    ("Remember and recall", ".records", "remember recall show list categories tags"),
    ("Manage records", ".records", "archive restore pin unpin end label vouch settle purge"),
    ("Manage records", ".changes", "forget redact"),
    ("History", ".changes", "history blame diff undo"),
    ("Conversations", ".conversations", "chat say context prompt sessions"),
    ("Agents", ".connect", "connect"),
    ("Agents", ".mcp", "mcp"),
    ("Agents", ".serve", "serve token hook"),
    ("Pages", ".pages", "pages page edit append"),
    ("Consolidation", ".dreams", "dream model review worker"),
    ("The readable folder", ".pages", "files rebuild"),
    ("Backup and transfer", ".transfer", "backup recover copy export import"),
    ("Maintenance", ".upkeep", "init check store doctor embed stats"),
    ("Try it", "..demo", "demo"),
    ("Try it", "reverie.evals.command", "eval"),
)

COMMANDS: dict[str, dict[str, str]] = {}
"""Commands by section and name, each with its module, relative to `_PACKAGE`."""

for _section, _module, _names in _ROWS:
    COMMANDS.setdefault(_section, {}).update(dict.fromkeys(_names.split(), _module))

_OTHER_NAMES = {"save": "remember", "add": "remember", "search": "recall", "find": "recall", "get": "show"}
_OTHER_NAMES |= {"delete": "archive", "remove": "archive", "rm": "archive", "update": "edit"}


class ReverieGroup(click.Group):
    """Group that imports commands on demand, and turns errors into messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name; None if there is none."""
        module = next((section[cmd_name] for section in COMMANDS.values() if cmd_name in section), None)
        if module is None:
            return None
        found = vars(import_module(module, _PACKAGE)).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments; suggest the closest name for an unknown one."""
        name = args[0]
        names = self.list_commands(ctx)
        if name not in names and not name.startswith("-"):
            import difflib  # only a mistake needs it

            close = difflib.get_close_matches(name, names, n=1)
            close = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else close
            ctx.fail(f"No such command {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Format the commands by section, each with the first sentence of its help, and the exit codes."""
        for title, section in COMMANDS.items():
            commands = [(name, self.get_command(ctx, name)) for name in section]
            rows = [(name, each.get_short_help_str(100)) for name, each in commands if each is not None]
            with formatter.section(title):
                formatter.write_dl(rows, col_max=12)
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

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command line."""
        context = extra.setdefault("obj", CommandContext())
        extra |= {"prog_name": extra.get("prog_name") or "reverie", "standalone_mode": False}
        try:
            code = super().main(*args, **extra)
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
    code, text = ExitCode.UNAVAILABLE, str(error)
    if isinstance(error, BrokenPipeError):
        _discard_output(sys.stdout)
        return ExitCode.UNREAD
    if debug and not isinstance(error, click.ClickException | click.Abort):
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal shows ^C on this line
        code, text = ExitCode.INTERRUPTED, "interrupted"
    elif isinstance(error, click.ClickException):
        code, text = ExitCode.WRONG, _format_click_error(error)
    elif isinstance(error, errors.ReverieError):
        code = get_exit_code(error)
    elif isinstance(error, OSError):
        about = f"{error.filename!r}: " if error.filename is not None else ""
        text = f"{about}{error.strerror or type(error).__name__}. Correct the cause, and try again."
    elif isinstance(error, ImportError) and not (error.name or "").startswith("reverie"):
        text = f"{error}: install Reverie again, with all that it needs"
    else:  # the error's message may quote a memory, so it is shown only with --debug
        advice = "the traceback is above" if debug else "run it again with --debug for the traceback"
        code, text = ExitCode.BUG, f"{type(error).__name__}: this is a bug in Reverie; {advice}"
    output.print_error(text)
    return code


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
click.version_option(__version__, message="%(version)s")(cli)


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
