"""Commands on the readable folder: `watch`, `rebuild` and `files`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from reverie.domain.errors import InvalidInput, StoreUnavailable
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, ExitCode, command

if TYPE_CHECKING:
    from pathlib import Path

    from reverie.files.exchange import FileExchange
    from reverie.files.hand_edits.intake import HandEdit, HandEditReport
    from reverie.files.rebuild import RebuildReport

_MOST_LISTED = 1_000


@command()
@click.option(
    "--once", is_flag=True, help="Import pending edits and exit, with 1 if some files cannot be imported."
)
def watch(context: CommandContext, /, once: bool) -> None:
    """Import edited files about a second after they are saved, until interrupted.

    Prints one line per imported change: action, subject, id, file. Files that cannot be imported are reported
    on standard error.
    """
    from reverie.files.folder import FolderWatcher
    from reverie.files.hand_edits.intake import extract_imported_edits
    from reverie.files.hand_edits.merge import ACTOR

    started_at = timestamps.utc_now()
    with _suppress_repetition(), context.memory() as memory:
        folder = memory.folder
        if memory.is_read_only:
            raise StoreUnavailable(f"{memory.path} is read-only: edits of files are not imported")
        if memory.path is None:
            raise InvalidInput("this memory is in no folder: for one in a database, use `reverie files`")
        if folder is None:
            raise InvalidInput("this memory writes no files: set `files` to yes")
        folder.flush()
        imported = memory.history.log(actor=ACTOR, since=started_at, limit=_MOST_LISTED)
        _print_edits(extract_imported_edits(imported))
        if once:
            report = folder.take_in()
            _print_report(context, report)
            if report.failure:
                raise StoreUnavailable(f"the files could not be examined: {report.failure}")
            if report.problems:
                raise click.exceptions.Exit(ExitCode.NOTHING)
            return
        place = memory.path
        reported: dict[str, int] = {}  # when each broken file was saved

        def print_news(report: HandEditReport) -> None:
            saved = {each.path: _get_modification_time(place / each.path) for each in report.problems}
            report.problems = [
                each for each in report.problems if reported.get(each.path) != saved[each.path]
            ]
            reported.update(saved)
            _print_report(context, report)

        with FolderWatcher(folder.take_in, tell=print_news):
            context.print_message(f"Watching {memory.path}; press Ctrl-C to stop.")
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                context.print_message("Stopped.")


def _get_modification_time(file: Path) -> int:
    """Return when a file was saved, in nanoseconds; 0 for a file that no longer exists."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


@contextmanager
def _suppress_repetition() -> Iterator[None]:
    """Keep the log from repeating the command's output."""
    log = logging.getLogger("reverie")

    def is_news(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("not taken in")

    log.addFilter(is_news)
    try:
        yield
    finally:
        log.removeFilter(is_news)


def _print_report(context: CommandContext, report: HandEditReport) -> None:
    _print_edits(report.taken)
    for problem in report.problems:
        output.print_message(f"not imported: {problem}")
    if report.lost:
        context.print_message("most files were missing and were written again")


def _print_edits(edits: list[HandEdit]) -> None:
    output.print_rows((each.what, each.subject, each.id, each.path) for each in edits)


@command()
@click.argument("action", type=click.Choice(["pull", "push"]))
@click.argument("folder", metavar="FOLDER")
def files(context: CommandContext, /, action: str, folder: str) -> None:
    """Write the files of a memory in a database, or take in edits.

    `pull` writes the memory into FOLDER as readable files, or brings them up to date; files that were edited stay as
    they are. `push` takes the edits into the memory, merged with what has changed there, and prints one line per
    imported change: action, subject, id, file. A removed file removes what was in it. Files that cannot be
    imported are reported on standard error; then the exit code is 1.
    """
    with _suppress_repetition(), context.memory() as memory:
        exchange = memory.exchange_files(folder)
        problems = _pull(context, exchange) if action == "pull" else _push(context, exchange)
    if problems:
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _pull(context: CommandContext, exchange: FileExchange) -> bool:
    """Write the files; return whether some could not be."""
    report = exchange.pull()
    for path in report.edited:
        context.print_message(f"edited, left as it is: {path}")
    for path, why in report.failed.items():
        output.print_message(f"not written: {path}: {why}")
    changed = output.count(report.written, "file")
    context.print_message(f"Wrote {changed}, removed {report.removed}.")
    return bool(report.failed)


def _push(context: CommandContext, exchange: FileExchange) -> bool:
    """Take in the edits; return whether some could not be."""
    report = exchange.push()
    _print_report(context, report.edits)
    for path, why in report.files.failed.items():
        output.print_message(f"not written: {path}: {why}")
    return bool(report.edits.problems or report.files.failed)


@command(json=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Rebuild even if the database can be read.")
def rebuild(context: CommandContext, /, yes: bool, force: bool) -> None:
    """Rebuild a missing or unreadable database from the folder's files.

    Records, sessions, pages and logs are restored from the files. The journal and working memory cannot be
    restored. The old database is moved aside, never deleted. Files and lines that cannot be imported are
    reported; then the exit code is 1.

    With --json: {"records", "archived", "sessions", "turns", "pages" and "paragraphs": numbers, "kept": text
    or null, "broken": [{"path", "why"}], "notes": [text]}.
    """
    from reverie.files.rebuild import rebuild as rebuild_folder
    from reverie.search.analyzer import analyze

    folder = context.resolve_folder()
    if not yes:
        context.confirm(f"Rebuild the database from the files in {folder}?", refused="Nothing was changed.")
    with output.show_progress("files", None, quiet=context.quiet or context.as_json) as advance:
        report = rebuild_folder(
            folder,
            analyse=analyze,
            force=force,
            redactor=context.load_settings().redactor,
            progress=lambda done, total: advance(1),
        )
    context.print_result("\n".join(_describe_rebuild(report)), report)
    if not context.as_json:
        for problem in (*report.notes, *(f"not imported: {broken}" for broken in report.broken)):
            output.print_message(problem)
    if report.broken:
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _describe_rebuild(report: RebuildReport) -> Iterator[str]:
    parts = [
        f"{output.count(report.records, 'record')} ({report.archived:,} archived)",
        f"{output.count(report.sessions, 'session')} with {output.count(report.turns, 'turn')}",
        output.count(report.pages, "page"),
        f"{output.count(report.paragraphs, 'paragraph')} of logs",
    ]
    yield f"Rebuilt the database: {', '.join(parts)}."
    if report.kept is not None:
        yield f"The old database is now {report.kept}."
