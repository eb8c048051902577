"""The commands on the readable folder: `watch` and `rebuild`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, as_json, combine_options, invocation
from reverie.interfaces.cli.prompts import confirm

if TYPE_CHECKING:
    from reverie.files.hand_edits.importer import HandEditReport
    from reverie.files.hand_edits.intake import HandEdit
    from reverie.files.rebuild import RebuildReport

_MOST_TOLD = 1_000


@click.command(cls=Command)
@combine_options(
    click.option("--once", is_flag=True, help="Take in what was changed until now, and end."),
    click.option("--poll", is_flag=True, help="Look again and again, even where the system would tell."),
)
@invocation
def watch(asked: CommandContext, /, once: bool, poll: bool) -> None:
    """Take in what is edited in the folder, as soon as a file is saved, until it is interrupted.

    Writes a line for everything taken in: what was done, to which kind of thing, its id, the file. Files that
    cannot be taken in are named on standard error.
    """
    from reverie.files.hand_edits.base_versions import ACTOR
    from reverie.files.hand_edits.intake import extract_imported_edits
    from reverie.files.watcher import FolderWatcher

    began = timestamps.utc_now()
    with _suppress_repetition(), asked.memory() as memory:
        folder = memory.folder
        if folder is None or memory.path is None:
            raise InvalidInput("this memory writes no files: set `files` to yes, or leave it out")
        folder.flush()
        _show(extract_imported_edits(memory.history.log(actor=ACTOR, since=began, limit=_MOST_TOLD)))
        if once:
            _print_result(asked, folder.take_in())
            return
        watcher = FolderWatcher(
            memory.path,
            folder.take_in,
            tell=lambda taken: _print_result(asked, taken),
            way="polling" if poll else None,
        )
        with watcher:
            how = "as the system tells" if watcher.way == "events" else "looking every second or so"
            output.print_message(f"Watching {memory.path}, {how}; Ctrl-C ends it.", quiet=asked.quiet)
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                output.print_message("Stopped.", quiet=asked.quiet)


@contextmanager
def _suppress_repetition() -> Iterator[None]:
    """Keep the log from repeating what the command prints."""
    log = logging.getLogger("reverie")

    def is_news(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("not taken in")

    log.addFilter(is_news)
    try:
        yield
    finally:
        log.removeFilter(is_news)


def _print_result(asked: CommandContext, found: HandEditReport) -> None:
    _show(found.taken)
    for problem in found.problems:
        output.print_message(f"not taken in: {problem}")
    if found.lost:
        output.print_message("most files were missing: they are written again", quiet=asked.quiet)


def _show(taken: list[HandEdit]) -> None:
    output.print_rows((each.what, each.subject, each.id, each.path) for each in taken)


@click.command(cls=Command)
@combine_options(
    click.option("--yes", is_flag=True, help="Do not ask."),
    click.option("--force", is_flag=True, help="Even though there is a database that can be read."),
    as_json,
)
@invocation
def rebuild(asked: CommandContext, /, yes: bool, force: bool, as_json: bool) -> None:
    """Make a new database from the folder's files, when reverie.db is missing or cannot be read.

    Records, sessions, pages and logs come back as the files have them; the journal and working memory are not
    in them. The old database is moved aside, never deleted. Files that cannot be taken are named.

    With --json: {"records", "archived", "sessions", "turns", "pages" and "paragraphs": numbers, "kept": text
    or null, "broken": [{"path", "why"}], "notes": [text]}.
    """
    from reverie.files.rebuild import rebuild as rebuilt_from
    from reverie.memory import resolve_folder
    from reverie.search.analyzer import analyze

    folder = resolve_folder(asked.place())
    if not yes and not confirm(f"Make a new database from the files in {folder}?", instead="--yes"):
        output.print_message("Nothing was done.", quiet=asked.quiet)
        return
    with output.show_progress("files", None, quiet=asked.quiet or as_json) as advance:
        found = rebuilt_from(
            folder,
            analyse=analyze,
            force=force,
            redactor=asked.load_settings().redactor,
            progress=lambda done, total: advance(1),
        )
    if as_json:
        output.print_json(_to_plain(found))
    else:
        _report(asked, found)


def _to_plain(found: RebuildReport) -> dict[str, Any]:
    counts = ("records", "archived", "sessions", "turns", "pages", "paragraphs")
    return {name: getattr(found, name) for name in counts} | {
        "kept": None if found.kept is None else str(found.kept),
        "broken": [{"path": broken.path, "why": broken.why} for broken in found.broken],
        "notes": found.notes,
    }


def _report(asked: CommandContext, found: RebuildReport) -> None:
    parts = [
        f"{output.count(found.records, 'record')} ({found.archived:,} archived)",
        f"{output.count(found.sessions, 'session')} with {output.count(found.turns, 'turn')}",
        output.count(found.pages, "page"),
        f"{output.count(found.paragraphs, 'paragraph')} of logs",
    ]
    if not asked.quiet:
        click.echo(output.escape_text(f"Made a new database: {', '.join(parts)}."))
        if found.kept is not None:
            click.echo(output.escape_text(f"The old one is {found.kept}."))
    for note in found.notes:
        output.print_message(note)
    for broken in found.broken:
        output.print_message(f"not taken: {broken}")
