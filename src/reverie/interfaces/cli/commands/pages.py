"""Commands on pages and the readable folder: `pages`, `page`, `edit`, `append`, `files` and `rebuild`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, validate_page_name
from reverie.domain.text import timestamps
from reverie.domain.text.escaping import strip_terminal_codes
from reverie.domain.text.ids import is_id
from reverie.domain.text.validation import validate_raw_text
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.domain.page import Page, Paragraph
    from reverie.files.scan import HandEditReport
    from reverie.memory import Memory

_MOST_LISTED = 1_000


@command(as_of=True, json=True)
def pages(context: CommandContext, /) -> None:
    """List pages and logs: MEMORY.md, HISTORY.md, daily notes and others.

    In a pipe, one line per page: name, characters or paragraphs, time of the last change.

    With --json: {"pages": [{"name", "paragraphs", "characters", "updated_at"}]}; "paragraphs" is
    null for a page, "characters" for a log.
    """
    with context.reading() as memory:
        overviews = memory.pages.overview()
    output.print_listing(
        context,
        ((each.name, each.size, each.updated_at) for each in overviews),
        {"pages": overviews},
        empty="No pages. `reverie page` prints what is remembered.",
    )


@command(as_of=True, json=True)
@click.argument("name", default=MEMORY)
@options.scope_option("Print the living page of a scope.", default=None)
def page(context: CommandContext, /, name: str, scope: str | None) -> None:
    """Print MEMORY.md with the living page, or the page or log NAME.

    The living page has one line for each memory, with its id in a comment, and is composed anew if it is stale.

    With --json: {"name": …, "text": …, "paragraphs": [{…}] for a log, null for a page}.
    """
    validate_page_name(name)
    paragraphs = None
    if name == MEMORY and context.as_of is None:
        with context.memory() as memory:
            living = memory.page() if scope is None else memory.scoped(scope).page()
            text = memory.pages.read() if scope is None else living  # composed by now
        if not text and not context.as_json:
            raise NotFound("Nothing is known yet. Run `reverie remember`.")
    else:
        with context.reading() as memory:
            if name not in memory.pages.names():
                hint = "append" if is_log(name) else "edit"
                raise NotFound(f"No page {name!r}. `reverie {hint} {name}` creates it.")
            text = memory.pages.read(name)
            paragraphs = memory.pages.paragraphs(name) if is_log(name) else None
    if context.as_json:
        output.print_json({"name": name, "text": text, "paragraphs": paragraphs})
    else:
        click.echo(output.escape_text(text), nl=not text.endswith("\n"))


@command(json=True)
@click.argument("name", default=MEMORY)
@click.option("--from", "file", metavar="FILE", help="Read the new text from a file; - for standard input.")
@options.REASON
def edit(context: CommandContext, /, name: str, file: str | None, reason: str) -> None:
    """Edit MEMORY.md, or the page NAME, in your editor; create a missing page.

    NAME may be the id of a record, too: what it says is edited. The editor is that of $VISUAL or $EDITOR.
    Concurrent changes of a page by others are merged. A log (HISTORY.md, a daily note) can only be appended to:
    see `reverie append`.

    With --json: {"outcome": "created" | "changed" | "unchanged", "merged": true or false, "page": {…}}, for a
    record {"outcome", "record": {…}}.
    """
    if is_id(name):
        if reason:
            raise InvalidInput("--reason is for pages: a change of a record has none")
        _edit_record(context, name, file)
        return
    if is_log(validate_page_name(name)):
        raise InvalidInput(f"{name!r} is a log: use `reverie append`, or edit its file by hand")
    with context.memory() as memory:
        before = memory.pages.read(name)
        result = memory.pages.write(name, _edit_text(before, file), expected=before, reason=reason)
    size = output.count(len(result.page.content), "character")
    context.print_result(
        f"{result.outcome.capitalize()}: {output.one_line(name)} ({size})",
        {"outcome": result.outcome, "merged": result.merged, "page": result.page},
    )
    if result.proposed:
        context.print_message(f"{output.count(result.proposed, 'change')} to decide. Run `reverie review`.")
    if result.merged and not context.as_json:
        context.print_message("The page was changed concurrently; both changes were merged.")


def _edit_record(context: CommandContext, id: str, file: str | None) -> None:
    """Change what a record says."""
    with context.memory() as memory:
        before = memory.get(id)
        if before is None:
            raise NotFound(f"No record {id!r}. Run `reverie list`.")
        record = memory.update(id, expected=before, content=_edit_text(before.content, file).strip())
    outcome = "unchanged" if record.content == before.content else "changed"
    context.print_result(f"{outcome.capitalize()}: {id}", {"outcome": outcome, "record": record})


def _edit_text(text: str, file: str | None) -> str:
    """Return the text of a file, of standard input for `-`, or without a file, the text as a person edits it."""
    if file == "-":
        text = options.read_text(("-",), name="--from")
        return f"{text}\n" if text else text
    if file is not None:
        try:
            with Path(file).expanduser().open(encoding="utf-8-sig") as opened:
                text = opened.read(LONGEST_PAGE + 1)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise InvalidInput(f"Cannot read {file!r} ({why}).") from None
        return validate_raw_text(text, name=repr(file), longest=LONGEST_PAGE, empty=True)
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput("Cannot open an editor without a terminal. Use --from FILE, or --from -.")
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise InvalidInput(f"{error.format_message()}. Set another $EDITOR, or use --from.") from None
    return text if edited is None else edited


@command(json=True)
@click.argument("name")
@click.argument("text", nargs=-1, required=True)
@click.option("--at", type=options.TimeParam(), metavar="TIME", help="Time of the paragraph; default now.")
@click.option("--source", default="", metavar="TEXT", help="Source of the paragraph; for logs.")
def append(context: CommandContext, /, name: str, text: tuple[str, ...], **fields: Any) -> None:
    """Append a paragraph to a log, or a line to a page; create a missing one.

    NAME is MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or any other page. `-` reads TEXT from
    standard input.

    With --json: {"paragraph": {…}} for a log, {"page": {…}} for a page.
    """
    content = strip_terminal_codes(options.read_text(text, name="text"))
    with context.memory() as memory:
        added: Page | Paragraph = memory.pages.append(name, content, **fields)
    message = f"Added to {output.one_line(name)}"
    context.print_result(message, {"paragraph" if is_log(name) else "page": added}, brief=added.id)


# -- the readable folder ---------------------------------------------------------------------------


@command()
@click.argument("action", type=click.Choice(["pull", "push"]))
@click.argument("folder", metavar="[FOLDER]", required=False)
def files(context: CommandContext, /, action: str, folder: str | None) -> None:
    """Import the edits of files, or write the files of a memory in a database.

    `push` imports the edits of the memory's own folder, as every command does, or those of FOLDER. They are merged with
    changes of the memory. It prints one line per imported change: action, subject, id, file. A removed file
    removes its content. Files that cannot be imported are reported on standard error; then the exit code is 1.
    `pull` writes the memory into FOLDER as readable files, or updates them. Files that were edited stay as they are.
    """
    started_at = timestamps.utc_now()
    _suppress_repetition()
    with context.memory() as memory:
        if folder is None:
            failed = _import_own_files(context, memory, action, started_at)
        elif action == "pull":
            written = memory.admin.exchange_files(folder).pull()
            for path in written.edited:
                context.print_message(f"edited, left as it is: {path}")
            count = output.count(written.written, "file")
            context.print_message(f"Wrote {count}, removed {written.removed}.")
            failed = _print_failures(written.failed)
        else:
            edits, files = memory.admin.exchange_files(folder).push()
            failed = _print_report(context, edits) | _print_failures(files.failed)
    if failed:
        raise click.exceptions.Exit(options.ExitCode.NOTHING)


def _import_own_files(context: CommandContext, memory: Memory, action: str, started_at: datetime) -> bool:
    """Import the edits in the folder of a memory, and print them; return whether some could not be imported."""
    from reverie.files.hand_edits.intake import ACTOR, extract_imported_edits

    if memory.is_read_only:
        raise StoreUnavailable(f"{memory.path} is read-only. Edits of files are not imported.")
    if memory.folder is None or action == "pull":
        raise InvalidInput("Name a FOLDER. This memory writes no files, or its own folder has them already.")
    memory.folder.flush()
    imported = memory.history.log(actor=ACTOR, since=started_at, limit=_MOST_LISTED)  # when it was opened
    report = memory.folder.take_in()
    report.taken = [*extract_imported_edits(imported), *report.taken]
    if report.failure:
        raise StoreUnavailable(f"The files could not be examined: {report.failure}")
    return _print_report(context, report)


def _suppress_repetition() -> None:
    """Keep the log from repeating the command's output."""
    log = logging.getLogger("reverie")

    def is_news(record: logging.LogRecord) -> bool:
        return not record.msg.startswith("not taken in")

    log.addFilter(is_news)
    click.get_current_context().call_on_close(lambda: log.removeFilter(is_news))


def _print_report(context: CommandContext, report: HandEditReport) -> bool:
    """Print what was imported and what was not; return whether something was not."""
    output.print_rows((each.what, each.subject, each.id, each.path) for each in report.taken)
    for problem in report.problems:
        output.print_message(f"not imported: {problem}")
    if report.lost:
        context.print_message("most files were missing and were written again")
    return bool(report.problems)


def _print_failures(failed: Mapping[str, str]) -> bool:
    for path, why in failed.items():
        output.print_message(f"not written: {path}: {why}")
    return bool(failed)


@command(json=True)
@options.YES
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
    report = rebuild_folder(folder, analyse=analyze, force=force, redactor=context.load_settings().redactor)
    kept = "" if report.kept is None else f"\nThe old database is now {report.kept}."
    context.print_result(f"Rebuilt the database: {output.format_counts(report)}.{kept}", report)
    if not context.as_json:
        for problem in (*report.notes, *(f"not imported: {broken}" for broken in report.broken)):
            output.print_message(problem)
    if report.broken:
        raise click.exceptions.Exit(options.ExitCode.NOTHING)
