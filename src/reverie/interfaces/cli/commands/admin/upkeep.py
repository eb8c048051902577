"""Commands on the store: `init`, `check`, `stats` and `version`."""

from __future__ import annotations

import dataclasses
import platform
import sqlite3
from collections.abc import Mapping
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.cli import listing, output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, as_json, as_of, invocation

if TYPE_CHECKING:
    from reverie.admin.stats import Stats
    from reverie.memory import Memory
    from reverie.snapshot import Snapshot


@click.command(cls=Command)
@as_json
@invocation
def init(context: CommandContext, /, as_json: bool) -> None:
    """Create a memory in the folder, if there is none.

    With --json: {"folder": text}.
    """
    with context.memory(create=True) as memory:
        folder = memory.path
    if as_json:
        output.print_json({"folder": str(folder)})
    elif not context.quiet:
        click.echo(output.escape_text(f"Ready: {folder}"))


@click.command(cls=Command)
@as_json
@invocation
def check(context: CommandContext, /, as_json: bool) -> None:
    """Check the database for errors; exits with 1 if there are any.

    With --json: {"sound": true or false, "problems": [{"what", "fix"}]}.
    """
    with context.memory() as memory:
        problems = memory.admin.check()
        folder = memory.path
    if as_json:
        listed = [{"what": problem.what, "fix": problem.fix} for problem in problems]
        output.print_json({"sound": not problems, "problems": listed})
    elif problems:
        for problem in problems:
            click.echo(output.escape_text(f"{problem.what}\n  {problem.fix}"))
    elif not context.quiet:
        click.echo(output.escape_text(f"Sound: {folder}"))
    if problems:
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _count(memory: Memory | Snapshot) -> Stats:
    from reverie.memory import Memory

    return memory.admin.stats() if isinstance(memory, Memory) else memory.total_stats()


@click.command(cls=Command)
@click.option("--scope", metavar="SCOPE", help="Count only what this scope sees, such as user:alice.")
@as_of
@as_json
@invocation
def stats(context: CommandContext, /, scope: str | None, as_json: bool) -> None:
    """Show statistics: records, turns, sessions, pages, changes, bytes and the state of the search index.

    With --json: {"folder": text, "records", "archived", "turns", "sessions", "pages", "paragraphs", "notes",
    "journal" and "bytes_on_disk": numbers, "by_kind", "by_category" and "failed": {"name": number},
    "index": {…}, with an embedder "vectors": {…}}; with --scope only "records", "archived", "turns",
    "sessions", "by_kind", "by_category".
    """
    with context.reading() as memory:
        numbers = to_plain(_count(memory) if scope in (None, EVERY_SCOPE) else memory.scoped(scope).stats())
        if numbers.get("vectors", ...) is None:
            del numbers["vectors"]
    if "path" in numbers:
        numbers = {"folder": numbers.pop("path"), **numbers}
    listing.print_listing(
        "stats",
        numbers,
        as_json=numbers if as_json else None,
        rows=((name, "-" if value is None else value) for name, value in flatten_values(numbers)),
    )


def to_plain(value: Any) -> Any:
    """Convert a dataclass and its fields to JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def flatten_values(values: Mapping[str, Any], *, before: str = "") -> list[tuple[str, object]]:
    """Flatten nested mappings; the names of nested values are `table.name`."""
    lines: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += flatten_values(value, before=f"{before}{name}.")
        else:
            lines.append((before + name, value))
    return lines


@click.command(cls=Command)
@as_json
@invocation
def version(context: CommandContext, /, as_json: bool) -> None:
    """Show version information of Reverie, Python and the libraries.

    With --json: {"reverie", "python", "sqlite", "tantivy", "platform"}.
    """
    versions = {
        "reverie": installed("reverie"),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "tantivy": installed("tantivy"),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if as_json:
        output.print_json(versions)
    elif context.quiet:
        click.echo(versions["reverie"])
    else:
        output.print_rows(versions.items())
