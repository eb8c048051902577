"""Options that all commands share, and input from arguments, standard input and questions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain import errors
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.scope import EVERY_SCOPE, parse_session_scope
from reverie.domain.text import timestamps, validation
from reverie.interfaces.cli import output

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.scoped import ScopedMemory
    from reverie.session import Session
    from reverie.settings import Settings
    from reverie.snapshot import Snapshot


_LARGEST = 32 * 1024 * 1024
"""Bytes of standard input that are read; no text that can be stored is longer."""


def read_text(words: tuple[str, ...], *, name: str, empty: bool = True) -> str:
    """Return the words of a command line as one text, or standard input for a single `-`.

    Raises:
        InvalidInput: standard input is not UTF-8, or longer than anything that can be stored; or the text is blank
            and not `empty`.
    """
    if words != ("-",):
        return validation.validate_raw_text(" ".join(words), name=name, longest=_LARGEST, empty=empty)
    if sys.stdin is None:
        raise InvalidInput(f"{name} is '-', but standard input is closed: pass the text itself")
    data = sys.stdin.buffer.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidInput(f"{name} from standard input is longer than {_LARGEST:,} bytes: shorten it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"{name} from standard input is not UTF-8 text (byte {error.start})"
        raise InvalidInput(f"{problem}. Convert it first.") from None
    if not empty and not text.strip():
        raise InvalidInput(f"{name} is empty: pass some text")
    return text.removesuffix("\n").removesuffix("\r")


class TimeParam(click.ParamType):  # type: ignore[type-arg]  # click before 8.4 has no type parameter
    """Time: an ISO 8601 date or time.

    With `back` also an age such as `7d`, or a day such as `yesterday`, which begins where the person's days begin. With
    `numbers` also the number of a change in `history`; eight digits are a date.
    """

    name = "time"

    def __init__(self, *, back: bool = False, numbers: bool = False) -> None:
        self.back, self.numbers = back or numbers, numbers

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the time or the number."""
        if not isinstance(value, str):
            return value
        if self.numbers and value.isdecimal() and len(value) < 19 and len(value) != 8:
            return int(value)
        name = param.opts[0] if param is not None else "time"
        try:
            return (
                self._parse_past(value, name, ctx) if self.back else timestamps.parse_time(value, name=name)
            )
        except InvalidInput as error:
            raise InvalidInput(f"{error}, or as yesterday or 7d" if self.back else str(error)) from None

    def _parse_past(self, value: str, name: str, ctx: click.Context | None) -> datetime:
        now = timestamps.utc_now()
        if not value[:1].isdigit() or " " in value:
            from reverie.domain.text.dates import parse_relative_day

            zone = UTC if ctx is None or ctx.obj is None else ctx.obj.load_settings().zone
            if (day := parse_relative_day(value, now, zone=zone)) is not None:
                return day
        elif value[-1].isalpha() and value[-1] not in "zZ":
            return now - timestamps.parse_duration(value, name=name)
        return timestamps.parse_time(value, name=name)


# -- options --------------------------------------------------------------------------------------


STORE = "REVERIE_STORE"
"""Environment variable with the default for `--store`."""


class ExitCode(IntEnum):
    """Exit code of a command.

    Attributes:
        meaning: What it means.
    """

    DONE = 0, "done"
    NOTHING = 1, "nothing found, or `check` found a problem"
    WRONG = 2, "wrong usage or an invalid argument"
    NOT_FOUND = 3, "no such record, turn, session or folder"
    UNAVAILABLE = 4, "the store is locked, full or read-only, or no model answered: try again"
    CORRUPT = 5, "the store is damaged or not a Reverie store"
    INCOMPLETE = 6, "imported without what is broken or too large"
    BUG = 70, "a bug in Reverie"
    INTERRUPTED = 130, "interrupted"
    UNREAD = 141, "the reader closed the pipe"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        """Create a code."""
        code = int.__new__(cls, value)
        code._value_, code.meaning = value, meaning
        return code


def get_exit_code(error: Exception) -> ExitCode:
    """Return the exit code for an error; `UNAVAILABLE` for all that can be tried again."""
    if isinstance(error, errors.InvalidInput | errors.MissingExtra | errors.ModelRefused):
        return ExitCode.WRONG
    if isinstance(error, errors.StoreCorrupt | errors.StoreIncompatible):
        return ExitCode.CORRUPT
    return ExitCode.NOT_FOUND if isinstance(error, errors.NotFound) else ExitCode.UNAVAILABLE


@dataclass(slots=True)
class CommandContext:
    """Options given before or after the name of a command; the last one wins.

    Attributes:
        store: Folder of the memory, or URL of its database; None for the default of the environment or the
            platform.
        settings: Settings file; None for the one that `Settings.load` finds.
        quiet: Whether to print results only.
        debug: Whether to print tracebacks.
        as_json: Whether to print one JSON document.
        as_of: Time or number of a change as of which to answer; None for now.
    """

    store: str | None = None
    settings: str | None = None
    quiet: bool = False
    debug: bool = False
    as_json: bool = False
    as_of: datetime | int | None = None

    def print_message(self, text: str) -> None:
        """Print a message on standard error, unless only results are wanted."""
        output.print_message(text, quiet=self.quiet)

    def print_result(self, text: str, document: Any, *, brief: str = "") -> None:
        """Print what a command did.

        Args:
            text: The result in words.
            document: The result as a JSON document.
            brief: What a script needs of it, printed alone without messages; empty for nothing.
        """
        if self.as_json:
            output.print_json(document)
        elif shown := brief if self.quiet else text:
            click.echo(output.escape_text(shown))

    def confirm(self, question: str, *, refused: str, instead: str = "--yes") -> None:
        """Ask for confirmation; end the command if it is refused.

        Args:
            question: The question.
            refused: Message if it is refused.
            instead: Option that answers the question where nobody can be asked.
        """
        if sys.stdin is None or not sys.stdin.isatty():
            raise InvalidInput(f"Cannot ask {question!r} without a terminal. Add {instead}.")
        if not click.confirm(question, err=True):
            self.print_message(refused)
            raise click.exceptions.Exit(ExitCode.DONE)

    def require_finished(self, pending: Sequence[str]) -> None:
        """End the command if something is left to do for an erasure."""
        if pending:
            output.print_message(f"Not finished; run `reverie doctor --fix` to finish: {'; '.join(pending)}")
            raise click.exceptions.Exit(ExitCode.UNAVAILABLE)

    @contextmanager
    def memory(self, *, create: bool = False, store: str | None = None, **options: Any) -> Iterator[Memory]:
        """Open the memory, and close it at the end.

        Args:
            create: Whether to create a missing memory, and to say so; if not, that is an error.
            store: Folder or URL to use instead of that of the options; its creation is not announced.
            **options: Further options of `Memory.open`.
        """
        from reverie.memory import CREATE_IT, IN_MEMORY, Memory, is_database, resolve_folder
        from reverie.stores.sqlite import DATABASE

        settings = self.load_settings()
        wanted = store if store is not None else self.resolve_store_option()
        is_announced = create and store is None and wanted != IN_MEMORY and not is_database(wanted)
        is_new = is_announced and not (resolve_folder(wanted) / DATABASE).exists()
        try:
            memory = Memory.open(wanted, settings=settings, create=create, **options)
        except NotFound as error:
            in_terminal = "`reverie init` creates one there; --store names another"
            raise NotFound(str(error).replace(CREATE_IT, in_terminal)) from error
        with memory:
            if is_new:
                self.print_message(f"New memory in {memory.path}")
            elif create and store is None and wanted == IN_MEMORY:
                self.print_message("A memory in memory: what is stored ends with this command")
            yield memory

    def load_settings(self) -> Settings:
        """Load the settings of the file and of the environment."""
        from reverie.settings import Settings

        return Settings.load(self.settings, environ=os.environ)

    @contextmanager
    def reading(self) -> Iterator[Memory | Snapshot]:
        """Open the memory for reading, as it was at `--as-of` if that was given."""
        with self.memory() as memory:
            if self.as_of is None:
                yield memory
            else:
                with memory.as_of(self.as_of) as snapshot:
                    yield snapshot

    def embed_waiting(self, memory: Memory | Snapshot) -> None:
        """Embed what has no vector yet, for at most three seconds: a command ends before background work begins."""
        from reverie.memory import Memory

        if isinstance(memory, Memory):
            with suppress(NotFound):  # a memory without an embedder
                memory.admin.embed(timeout="3s")

    def resolve_folder(self) -> Path:
        """Return the folder of the memory; raise `InvalidInput` for a memory that is in none."""
        from reverie.memory import IN_MEMORY, resolve_folder

        wanted = self.resolve_store_option()
        if wanted == IN_MEMORY:
            raise InvalidInput(f"a memory {wanted!r} is in no folder: name one with --store")
        return resolve_folder(wanted)

    def resolve_place(self) -> str:
        """Return the absolute path of the memory's folder, the URL of its database, or `:memory:`."""
        from reverie.memory import IN_MEMORY, is_database

        wanted = self.resolve_store_option()
        return wanted if wanted == IN_MEMORY or is_database(wanted) else str(self.resolve_folder())

    def describe_place(self) -> str:
        """Return the place of the memory to show: a URL without its password."""
        place = self.resolve_place()
        if "://" not in place:
            return place
        from reverie.stores.postgres.connections import parse_postgres_url

        return parse_postgres_url(place).shown

    def build_arguments(self) -> list[str]:
        """Return the arguments with which another process opens the same memory."""
        arguments = ["--store", self.resolve_place()]
        if self.settings is not None:
            arguments += ["--settings", str(Path(self.settings).expanduser().absolute())]
        return arguments

    def resolve_store_option(self) -> str | None:
        """Return the place of the command line or the environment; None for the platform's folder."""
        # An empty --store comes from an unset variable; it is refused, not replaced by the default.
        return self.store if self.store is not None else os.environ.get(STORE) or None


def open_scope_of(memory: Memory, id: str) -> ScopedMemory:
    """Return the memory of a record's scope; that of the empty scope for an unknown record."""
    record = memory.scoped(EVERY_SCOPE).get(id)
    return memory.scoped("" if record is None else record.scope)


def open_session(memory: Memory | Snapshot, id: str) -> Session:
    """Return the session with this id in any scope; a new one if there is none."""
    from reverie.memory import Memory

    if not isinstance(memory, Memory):
        return memory.session(id)
    last = memory.scoped(EVERY_SCOPE).turns(id, start=-1)
    return memory.scoped(last[0].scope if last else parse_session_scope(id)).session(id)


def _store_value(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Store the value of an option in the `CommandContext`."""
    if value is not None and value is not False:
        setattr(ctx.ensure_object(CommandContext), str(option.name), value)


def _create_option(*names: str, **attributes: Any) -> click.Option:
    """Create an option that sets the field of the `CommandContext` of its name."""
    return click.Option(names, expose_value=False, callback=_store_value, **attributes)


def build_common_options() -> list[click.Parameter]:
    """Return the options that `reverie` and each of its commands accept."""
    place = f"Folder of the memory, or URL of its database.  [${STORE}, or the platform's data folder]"
    return [
        _create_option("--store", metavar="PLACE", help=place),
        _create_option("--settings", metavar="FILE", help="Settings file: YAML, TOML or JSON."),
        _create_option("--quiet", "-q", is_flag=True, help="Print results only, no messages."),
        _create_option("--debug", is_flag=True, help="Show the traceback of an error."),
    ]


_AS_OF = "Show the memory as it was at this time: 2025-01-31, a time, 2h for two hours ago, or the number of a change."
_JSON = "Print one JSON document on standard output."

invocation = click.make_pass_decorator(CommandContext, ensure=True)
"""Decorator that passes its `CommandContext` to a command."""


class Command(click.Command):
    """Command with the options of `build_common_options`; its errors never quote arguments."""

    def __init__(self, *args: Any, json: bool = False, as_of: bool = False, **kwargs: Any) -> None:
        """Create a command whose function takes the `CommandContext` first.

        Args:
            args: Arguments of `click.Command`.
            json: Whether its result has a form for programs.
            as_of: Whether it only reads, and can answer as of an earlier time.
            kwargs: Arguments of `click.Command`.
        """
        super().__init__(*args, **kwargs)
        if as_of:
            self.params.append(
                _create_option("--as-of", type=TimeParam(numbers=True), metavar="TIME", help=_AS_OF)
            )
        if json:
            self.params.append(_create_option("--json", "as_json", is_flag=True, help=_JSON))
        self.params.extend(build_common_options())
        if self.callback is not None:
            self.callback = invocation(self.callback)
        # click's message about unexpected arguments quotes them, and they may be private.
        self.allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; refuse unexpected ones. An argument such as `- like this` is text, not an option."""
        extra = super().parse_args(ctx, [f"\0{arg}" if arg[:2] in ("- ", "-\t") else arg for arg in args])
        ctx.params = {name: _unmark(value) for name, value in ctx.params.items()}
        if extra and not ctx.resilient_parsing:
            taken = [each.human_readable_name for each in self.params if isinstance(each, click.Argument)]
            what = f"{', '.join(taken)}; quote texts and names with spaces" if taken else "no arguments"
            ctx.fail(f"{len(extra)} more than expected: `{ctx.command_path}` takes {what}")
        return extra


def _unmark(value: Any) -> Any:
    """Return the value of a parameter without the mark of text that begins like an option."""
    if isinstance(value, tuple):
        return tuple(map(_unmark, value))
    return value.removeprefix("\0") if isinstance(value, str) else value


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that turns a function into a `Command`."""
    return click.command(name, Command, **attributes)


class CommandGroup(click.Group):
    """Group with the options of `build_common_options`."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.no_args_is_help = False  # a missing command is an error in one line
        self.params.extend(build_common_options())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command, uncut."""
        commands = sorted(self.commands.items())
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(200)) for name, command in commands])


def combine_options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine option decorators into one; `--help` shows them in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


# -- options of several commands ------------------------------------------------------------------

ID = click.argument("id")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
REASON = click.option("--reason", default="", metavar="TEXT", help="Reason, for the journal.")
MODEL = click.option("--model", metavar="NAME", help="Model to use, as provider:model.  [setting `model`]")


def limit_option(default: int, noun: str = "results") -> Callable[[Any], Any]:
    """Return the option `--limit`."""
    text = f"Maximum number of {noun}."
    return click.option("--limit", type=click.IntRange(min=1), default=default, show_default=True, help=text)


def scope_option(help: str, default: str | None = "") -> Callable[[Any], Any]:
    """Return the option `--scope`."""
    return click.option("--scope", default=default, metavar="SCOPE", help=help)


def repeated_option(*names: str, help: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return an option that can be given several times."""
    return click.option(*names, multiple=True, help=f"{help}; repeatable.", **attributes)
