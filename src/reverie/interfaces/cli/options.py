"""Options that all commands share: folder, settings, scope and verbosity."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import NotFound
from reverie.domain.scope import EVERY_SCOPE, parse_session_scope
from reverie.domain.text import timestamps
from reverie.interfaces.cli.prompts import ChangeParam

if TYPE_CHECKING:
    from reverie.memory import Memory
    from reverie.scoped import ScopedMemory
    from reverie.session import Session
    from reverie.settings import Settings
    from reverie.snapshot import Snapshot

FOLDER = "REVERIE_FOLDER"
"""The environment variable that names the folder where `--folder` does not."""

MCP_TOKEN = "REVERIE_MCP_TOKEN"
"""The environment variable that holds the token of `reverie mcp --transport http` where no file does."""


class ExitCode(IntEnum):
    """Meaning of an exit code; `EXITS` has the texts."""

    DONE = 0
    NOTHING = 1
    WRONG = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    CORRUPT = 5
    BUG = 70
    INTERRUPTED = 130
    UNREAD = 141


EXITS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.NOTHING: "nothing found, or `check` found a problem",
    ExitCode.WRONG: "wrong usage, or an argument that cannot be",
    ExitCode.NOT_FOUND: "no such record, turn, session or folder",
    ExitCode.UNAVAILABLE: "the store is locked, full or read-only: try again",
    ExitCode.CORRUPT: "the store is damaged, or not one of Reverie's",
    ExitCode.BUG: "a bug in Reverie",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.UNREAD: "whoever read the answer went away",
}


@dataclass(slots=True)
class CommandContext:
    """Options of one call of `reverie`, before and after the name of the command; the last one wins.

    Attributes:
        folder: Where the memory is; None for the environment's or the platform's folder.
        settings: The settings file; None for the one that `Settings.load` finds.
        quiet: Whether only the answer is written.
        debug: Whether errors come with their traceback.
        as_of: As of which moment, or after which change, to answer; None for now.
    """

    folder: str | None = None
    settings: str | None = None
    quiet: bool = False
    debug: bool = False
    as_of: datetime | int | None = None

    @contextmanager
    def memory(
        self,
        *,
        create: bool = False,
        folder: str | None = None,
        clock: timestamps.Clock = timestamps.utc_now,
        model: str | None = None,
        actor: str = "owner",
    ) -> Iterator[Memory]:
        """Open the memory, and close it at the end.

        Args:
            create: Whether a folder without one gets one; otherwise that is an error.
            folder: The folder, where it is not the one that was asked for.
            clock: What tells the time.
            model: What is asked, as `provider:model`; None takes the setting.
            actor: Who is named in the journal as the author of changes.
        """
        from reverie.memory import Memory

        settings = self.load_settings()
        try:
            memory = Memory.open(
                folder if folder is not None else self.place(),
                settings=settings,
                create=create,
                clock=clock,
                model=model,
                actor=actor,
            )
        except NotFound as error:
            what = str(error).rpartition(":")[0]
            raise NotFound(
                f"{what}: `reverie remember TEXT` makes one there, or name another with --folder"
            ) from error
        with memory:
            yield memory

    def load_settings(self) -> Settings:
        """Load the settings of the file and of the environment."""
        from reverie.settings import Settings

        environ = {name: value for name, value in os.environ.items() if name != FOLDER}
        return Settings.load(self.settings, environ=environ)

    @contextmanager
    def reading(self) -> Iterator[Memory | Snapshot]:
        """Open the memory for reading, as it was at `--as-of` if that was given."""
        with self.memory() as memory:
            if self.as_of is None:
                yield memory
            else:
                with memory.as_of(self.as_of) as past:
                    yield past

    def place(self) -> str | None:
        """Return the folder of the command line or the environment; None for the platform's folder."""
        # An empty --folder is no wish for the usual one: it is a variable that was not set, and refused.
        return self.folder if self.folder is not None else os.environ.get(FOLDER) or None


def open_scope_of(memory: Memory, id: str) -> ScopedMemory:
    """Return the memory of the scope that a record belongs to; of the empty one for an unknown record."""
    record = memory.scoped(EVERY_SCOPE).get(id)
    return memory if record is None else memory.scoped(record.scope)


def open_session(memory: Memory | Snapshot, id: str) -> Session:
    """Return the session that is stored under an id, of whatever scope; a new one where there is none."""
    from reverie.memory import Memory

    if not isinstance(memory, Memory):
        return memory.session(id)
    last = memory.scoped(EVERY_SCOPE).turns(id, start=-1)
    return memory.scoped(last[0].scope if last else parse_session_scope(id)).session(id)


def store_option(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that stores the value of an option in the `CommandContext`."""

    def note(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            setattr(ctx.ensure_object(CommandContext), name, value)

    return note


def build_common_options() -> list[click.Parameter]:
    """Return the options that `reverie` and each of its commands accept."""
    return [
        click.Option(
            ["--folder"],
            metavar="PATH",
            expose_value=False,
            callback=store_option("folder"),
            help=f"Where the memory is.  [${FOLDER}, or the platform's data folder]",
        ),
        click.Option(
            ["--settings"],
            metavar="FILE",
            expose_value=False,
            callback=store_option("settings"),
            help="A settings file: YAML, TOML or JSON.",
        ),
        click.Option(
            ["--quiet", "-q"],
            is_flag=True,
            expose_value=False,
            callback=store_option("quiet"),
            help="The answer only, and nothing said about it.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            callback=store_option("debug"),
            help="Show the traceback of an error.",
        ),
    ]


class Command(click.Command):
    """Command with the options of `build_common_options`; its errors never quote arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(build_common_options())
        # What click says of arguments it did not expect quotes them, and they may be somebody's memories.
        self.allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse those that are left over."""
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(f"{len(rest)} more than expected: put quotes around a text or a name with spaces")
        return rest


invocation = click.make_pass_decorator(CommandContext, ensure=True)
"""Hands a command its `CommandContext`."""

as_json = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else."
)

as_of = click.option(
    "--as-of",
    type=ChangeParam(),
    metavar="TIME",
    expose_value=False,
    callback=store_option("as_of"),
    help="As it was then: 2025-01-31, a time, 2h for two hours ago, or after a change's number.",
)
"""For commands that only read: answers as the memory would have then."""


def combine_options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine option decorators into one; `--help` shows them in this order."""

    def decorate(function: Any) -> Any:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate
