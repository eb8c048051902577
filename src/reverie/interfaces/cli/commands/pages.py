"""Commands on pages and on the readable folder."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, validate_page_name
from reverie.domain.text import timestamps
from reverie.domain.text.escaping import strip_terminal_codes
from reverie.domain.text.ids import is_id
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, TimeParam, command, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from reverie.domain.page import Page, Paragraph
    from reverie.files.exchange import FileExchange
    from reverie.files.hand_edits.intake import HandEdit, HandEditReport
    from reverie.files.rebuild import RebuildReport


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
        empty="No pages.",
    )


@command(as_of=True, json=True)
@click.argument("name", default=MEMORY)
@click.option("--scope", metavar="SCOPE", help="Print the living page of a scope instead.")
def page(context: CommandContext, /, name: str, scope: str | None) -> None:
    """Print MEMORY.md with the living page, or the page or log NAME.

    The living page has one line for each memory, with its id in a comment, and is composed anew if it is stale.

    With --json: {"name": …, "text": …, "paragraphs": [{…}] for a log, null for a page}.
    """
    validate_page_name(name)
    if name == MEMORY and context.as_of is None:
        with context.memory() as memory:
            text = memory.page() if scope is None else memory.scoped(scope).page()
            text = memory.pages.read() if scope is None else text
        if context.as_json:
            output.print_json({"name": name, "text": text, "paragraphs": None})
        elif text:
            click.echo(output.escape_text(text), nl=not text.endswith("\n"))
        else:
            raise NotFound("nothing is known yet: `reverie save` saves a memory")
        return
    with context.reading() as memory:
        exists = name in memory.pages.names()
        text = memory.pages.read(name)
        paragraphs = memory.pages.paragraphs(name) if is_log(name) else None
    if not exists:
        hint = "the first entry makes it" if is_log(name) else f"`reverie edit {name}` makes it"
        raise NotFound(f"there is no page {name!r}: {hint}; `reverie pages` lists those that exist")
    if context.as_json:
        output.print_json({"name": name, "text": text, "paragraphs": paragraphs})
    else:
        click.echo(output.escape_text(text), nl=not text.endswith("\n"))


@command(json=True)
@click.argument("name", default=MEMORY)
@click.option("--from", "file", metavar="FILE", help="Read the new text from a file; - for standard input.")
@click.option(
    "--replace", nargs=2, metavar="OLD NEW", help="Replace OLD, which must occur exactly once, with NEW."
)
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the journal.")
def edit(
    context: CommandContext, /, name: str, file: str | None, replace: tuple[str, str] | None, reason: str
) -> None:
    """Edit MEMORY.md, or the page NAME, in your editor; create a missing page.

    NAME may be the id of a record, too: what it says is edited. The editor is that of $VISUAL or $EDITOR.
    Concurrent changes of a page by others are merged. A log (HISTORY.md, a daily note) can only be appended to:
    see `reverie append`.

    With --json: {"outcome": "created" | "changed" | "unchanged", "merged": true or false, "page": {…}}, for a
    record {"outcome", "record": {…}}.
    """
    if file is not None and replace is not None:
        raise InvalidInput("--from cannot be combined with --replace")
    if is_id(name):
        if reason:
            raise InvalidInput("--reason is for pages: a change of a record has none")
        _edit_record(context, name, file, replace)
        return
    if is_log(validate_page_name(name)):
        raise InvalidInput(f"{name!r} is a log: use `reverie append`, or edit its file by hand")
    with context.memory() as memory:
        before = memory.pages.read(name)
        if replace is not None:
            result = memory.pages.replace(*replace, name=name, reason=reason)
        else:
            text = _edit_text(before) if file is None else _load_text(file)
            result = memory.pages.write(name, text, expected=before, reason=reason)
    size = output.count(len(result.page.content), "character")
    context.print_result(
        f"{result.outcome.capitalize()}: {output.one_line(name)} ({size})",
        {"outcome": result.outcome, "merged": result.merged, "page": result.page},
    )
    if result.proposed:
        context.print_message(
            f"{output.count(result.proposed, 'change')} wait for you: see `reverie review`."
        )
    if result.merged and not context.as_json:
        context.print_message("The page was changed concurrently; both changes were merged.")


def _edit_record(context: CommandContext, id: str, file: str | None, replace: tuple[str, str] | None) -> None:
    """Change what a record says."""
    with context.memory() as memory:
        before = memory.get(id)
        if before is None:
            raise NotFound(f"no record {id}: see `reverie list`")
        if replace is None:
            text = _edit_text(before.content) if file is None else _load_text(file)
        elif before.content.count(replace[0]) == 1:
            text = before.content.replace(*replace)
        else:
            raise InvalidInput(f"the text to be replaced must occur exactly once: see `reverie show {id}`")
        record = memory.update(id, expected=before, content=text.strip())
    outcome = "unchanged" if record.content == before.content else "changed"
    context.print_result(f"{outcome.capitalize()}: {id}", {"outcome": outcome, "record": record})


def _edit_text(text: str) -> str:
    """Open the text in an editor; return the edited text."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput("cannot open an editor without a terminal: use --from FILE, or --from -")
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise InvalidInput(f"{error.format_message()}: set another $EDITOR, or use --from") from None
    return text if edited is None else edited


def _load_text(file: str) -> str:
    """Load the text of a file, or of standard input for `-`."""
    if file == "-":
        text = read_text(("-",), name="--from")
        return f"{text}\n" if text else text
    try:
        with Path(file).expanduser().open(encoding="utf-8-sig") as opened:
            text = opened.read(LONGEST_PAGE + 1)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: not UTF-8 text: convert it first") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None
    if len(text) > LONGEST_PAGE:
        raise InvalidInput(f"{file}: over {LONGEST_PAGE:,} characters, more than a page may have: shorten it")
    return text


class _BulletCommand(Command):
    """Command whose text may begin with a list item, `- like this`, which is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; list items are text."""
        mark = "\0"  # cannot occur in an argument
        extra = super().parse_args(
            ctx, [mark + arg if arg.startswith(("- ", "-\t")) else arg for arg in args]
        )
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(mark)
            elif isinstance(value, tuple):
                ctx.params[name] = tuple(word.removeprefix(mark) for word in value)
        return extra


@command(cls=_BulletCommand, json=True)
@click.argument("name")
@click.argument("text", nargs=-1, required=True)
@click.option("--at", type=TimeParam(), metavar="TIME", help="Time of the paragraph; default now.")
@click.option("--source", default="", metavar="TEXT", help="Source of the paragraph; for logs.")
def append(context: CommandContext, /, name: str, text: tuple[str, ...], **fields: Any) -> None:
    """Append a paragraph to a log, or a line to a page; create a missing one.

    NAME is MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or any other page. `-` reads TEXT from
    standard input.

    With --json: {"paragraph": {…}} for a log, {"page": {…}} for a page.
    """
    content = strip_terminal_codes(read_text(text, name="text"))
    with context.memory() as memory:
        added: Page | Paragraph = memory.pages.append(name, content, **fields)
    message = f"Added to {output.one_line(name)}"
    context.print_result(message, {"paragraph" if is_log(name) else "page": added}, brief=added.id)


# -- folder ---------------------------------------------------------------------------------------


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
            raise InvalidInput("this memory writes no files: set `files` to pages")
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
        exchange = memory.admin.exchange_files(folder)
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
