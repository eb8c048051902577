"""Commands that copy a memory: backup, recover, export, import."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import NotFound
from reverie.domain.record import ORIGINS, Origin
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, as_json, as_of, invocation

if TYPE_CHECKING:
    from reverie.admin.transfer.backup import Backup, RecoveryReport
    from reverie.admin.transfer.export import ExportForm, ExportReport
    from reverie.admin.transfer.formats.native.jsonl import Writable
    from reverie.admin.transfer.importer import ImportReport
    from reverie.memory import Memory
    from reverie.snapshot import Snapshot

STANDARD_OUTPUT = "-"

_EXPORT_FORMS = ("jsonl", "markdown")
_FORMS = (*_EXPORT_FORMS, "mcp", "golemcore", "rockbot", "notes", "chatgpt", "claude", "messages", "locomo")
_TOLD = 20
_SAYS = {
    "known": "known already",
    "repeated": "twice in the source",
    "forgotten": "forgotten on request",
    "differs": "here in another version, which stays",
    "empty": "empty",
    "broken": "broken",
    "unsupported": "of no sort that is taken in",
    "too large": "too large",
}
_EXPECTED = {"known", "repeated"}
"""What a second run leaves out, and so is counted and not listed."""


# -- backup and recover ------------------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace a file of that name.")
@as_json
@invocation
def backup(asked: CommandContext, /, file: Path, overwrite: bool, as_json: bool) -> None:
    """Keep everything in one FILE, as it is now; others may go on writing.

    FILE is a zip archive with the database, the Markdown files of the profile, and a manifest with their
    checksums. It was read back when this ends. `reverie recover` brings it back.

    With --json: {"path": text, "made_at": time, "size", "sequence", "records", "sessions", "turns" and
    "problems": numbers, "profile": [text]}.
    With --quiet: the path only.
    """
    with asked.memory() as memory:
        size = _measure_database(memory.path)
        with output.show_progress("bytes", size, quiet=asked.quiet) as progress:
            made = memory.admin.backup(file, overwrite=overwrite, progress=progress)
    if as_json:
        output.print_json(made.to_dict())
    elif asked.quiet:
        click.echo(output.escape_text(str(made.path)))
    else:
        click.echo(
            output.escape_text(
                f"Backup: {made.path} ({output.format_size(made.size)}): {_format_contents(made)}."
            )
        )
    if made.problems and not as_json:
        output.print_message(
            f"{output.count(made.problems, 'thing')} in it are not as they should be: see `reverie doctor`.",
            quiet=asked.quiet,
        )


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Move a memory that is there aside, within the folder.")
@as_json
@invocation
def recover(asked: CommandContext, /, file: Path, replace: bool, as_json: bool) -> None:
    """Bring a memory back from a backup FILE, into the folder.

    FILE is read through and checked before anything is touched. A memory that is there is left alone, unless
    --replace moves it aside; nothing is deleted but the search index, which is made again. What was forgotten
    there since the backup is forgotten again. End programs that use the folder first; those that do not are
    told to open it again.

    With --json: {"folder": text, "backup": {…}, "moved_to": text or null, "forgotten_again": number, "notes":
    [text]}.
    """
    from reverie.admin.transfer.backup import recover as recover_backup

    folder = _resolve_folder(asked)
    with output.show_progress("bytes", None, quiet=asked.quiet) as progress:
        done = recover_backup(file, folder, replace=replace, progress=progress)
    if as_json:
        output.print_json(done.to_dict())
    elif not asked.quiet:
        for line in _describe_recovery(done):
            click.echo(output.escape_text(line))


def _format_contents(made: Backup) -> str:
    sessions = f"{output.count(made.sessions, 'session')} with {output.count(made.turns, 'turn')}"
    profile = f", {', '.join(made.profile)}" if made.profile else ""
    return f"{output.count(made.records, 'record')}, {sessions}{profile}, up to change {made.sequence:,}"


def _describe_recovery(done: RecoveryReport) -> Iterator[str]:
    made_at = timestamps.format_time(done.backup.made_at)
    yield f"Recovered: {done.folder} as of {made_at}: {_format_contents(done.backup)}."
    if done.moved_to is not None:
        yield f"What was there is in {done.moved_to}: remove it when you no longer need it."
    if done.forgotten_again:
        yield f"Forgotten since that backup, and now again: {output.count(done.forgotten_again, 'thing')}."
    yield from done.notes


def _resolve_folder(asked: CommandContext) -> Path:
    from reverie.memory import resolve_folder

    return resolve_folder(asked.place())


def _measure_database(folder: Path | None) -> int | None:
    database = None if folder is None else folder / "reverie.db"
    return database.stat().st_size if database is not None and database.exists() else None


# -- export ------------------------------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("target")
@click.option(
    "--format",
    "form",
    type=click.Choice(_EXPORT_FORMS),
    default="jsonl",
    show_default=True,
    help="One JSON document a line, or Markdown files with YAML front matter.",
)
@click.option("--scope", metavar="SCOPE", multiple=True, help="Only this scope; repeatable.")
@click.option("--no-archived", is_flag=True, help="Leave archived records out.")
@click.option("--no-sessions", is_flag=True, help="Leave sessions and their turns out.")
@click.option("--overwrite", is_flag=True, help="Replace a file of that name.")
@as_of
@as_json
@invocation
def export(
    asked: CommandContext,
    /,
    target: str,
    form: ExportForm,
    scope: Sequence[str],
    no_archived: bool,
    no_sessions: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the content of the memory to TARGET, for people and other programs to read.

    TARGET is a new file for jsonl (`-` is standard output), and a new folder for markdown. Both hold every
    field of records, sessions, pages and logs, and `reverie import` reads them. The journal and working memory
    are in neither; `reverie backup` keeps those too.

    With --json: {"form": text, "path": text or null, "records", "sessions", "turns", "pages" and
    "paragraphs": numbers, "left_out": [{"what", "place", "why", "detail", "count"}]}.
    """
    if target == STANDARD_OUTPUT and as_json:
        raise click.UsageError("--json and `-` both want standard output: name a file")
    with asked.reading() as memory:
        total = _count_items(memory) if output.should_show_progress(quiet=asked.quiet) else None
        with (
            output.show_progress("things", total, quiet=asked.quiet) as progress,
            _open_target(target) as opened,
        ):
            done = _get_exporter(memory)(
                opened,
                form,
                scope=list(scope) or None,
                archived=not no_archived,
                sessions=not no_sessions,
                overwrite=overwrite,
                progress=progress,
            )
    if as_json:
        output.print_json(done.to_dict())
        return
    said = f"Exported to {done.path or 'standard output'}: {_format_counts(done)}."
    if target == STANDARD_OUTPUT:
        output.print_message(said, quiet=asked.quiet)
    elif not asked.quiet:
        click.echo(output.escape_text(said))
    for each in done.left_out:
        output.print_message(f"Left out: {each.place}: {each.detail}", quiet=asked.quiet)


@contextmanager
def _open_target(target: str) -> Iterator[str | Writable]:
    """Open the target; standard output is a UTF-8 text file, whatever the terminal's encoding."""
    if target != STANDARD_OUTPUT:
        yield target
        return
    if output.is_terminal() or not hasattr(sys.stdout, "buffer"):
        yield _Terminal()
        return
    sys.stdout.flush()
    text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    try:
        yield text
        text.flush()
    finally:
        text.detach()


class _Terminal:
    """Terminal that receives JSON, with unsafe characters escaped."""

    def write(self, text: str) -> None:
        click.echo(output.escape_json(text), nl=False)


def _get_exporter(memory: Memory | Snapshot) -> Callable[..., ExportReport]:
    from reverie.memory import Memory

    return memory.admin.export if isinstance(memory, Memory) else memory.export


def _count_items(memory: Memory | Snapshot) -> int:
    held = memory.scoped(EVERY_SCOPE).stats()
    return held.records + held.archived + held.turns


# -- import ------------------------------------------------------------------------------------------------


@click.command("import", cls=Command)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(_FORMS), help="What it is; looked at when this is left out."
)
@click.option("--dry-run", is_flag=True, help="Store nothing; only say what would be taken in.")
@click.option("--scope", metavar="SCOPE", help="Whose memory it becomes, such as user:alice.")
@click.option(
    "--origin",
    type=click.Choice(ORIGINS),
    help="Whose word the records are; import for other programs', which never go into a prompt unasked.",
)
@as_json
@invocation
def import_path(
    asked: CommandContext,
    /,
    path: Path,
    form: str | None,
    dry_run: bool,
    scope: str | None,
    origin: Origin | None,
    as_json: bool,
) -> None:
    """Import an export, another program's memory, or conversations from PATH.

    It reads Reverie's own exports; the MCP memory server's file; the folders of golemcore, RockBot and
    Autobot (MEMORY.md, HISTORY.md, daily notes, items, entries, sessions); the exports of ChatGPT and Claude,
    as zip archives too; and conversations with one message a line, {"role", "content"} with optional "at",
    "session", "speaker", "id" and "tool_calls". What is here already, or was forgotten, is left out, so
    running this twice or after an interruption is safe.

    With --json: {"form": text, "dry_run": true or false, "records", "sessions", "turns", "pages" and
    "paragraphs": numbers, "skipped_by_reason": {"reason": number}, "skipped": [{"what", "place", "why",
    "detail", "count"}]}.
    """
    from reverie.admin.transfer.formats import detection

    detected = form or detection.detect_format(path.expanduser())  # before a folder is made for it
    with (
        _open_destination(asked, dry_run=dry_run) as memory,
        output.show_progress("things", None, quiet=asked.quiet) as progress,
    ):
        done = memory.admin.import_from(
            path, detected, dry_run=dry_run, scope=scope, origin=origin, progress=progress
        )
    if as_json:
        output.print_json(done.to_dict())
    elif not asked.quiet:
        for line in _describe_import(done, path):
            click.echo(output.escape_text(line))


@contextmanager
def _open_destination(asked: CommandContext, *, dry_run: bool) -> Iterator[Memory]:
    """Open the memory that imports; an empty one for a dry run without a memory."""
    with ExitStack() as opened:
        try:
            memory = opened.enter_context(asked.memory(create=not dry_run))
        except NotFound:
            memory = opened.enter_context(asked.memory(folder=":memory:"))
        yield memory


def _describe_import(done: ImportReport, path: Path) -> Iterator[str]:
    verb = "Would take in" if done.dry_run else "Taken in"
    yield f"{verb} from {path.name} ({done.form}): {_format_counts(done)}."
    if not done.skipped:
        return
    reasons = (f"{count:,} {_SAYS[why]}" for why, count in done.skipped_by_reason.items())
    yield f"Left out: {', '.join(reasons)}."
    listed = [each for each in done.skipped if each.why not in _EXPECTED]
    for each in listed[:_TOLD]:
        times = f" ({each.count:,} times)" if each.count > 1 else ""
        detail = f": {each.detail}" if each.detail else ""
        yield f"  {each.place}: {each.what} {_SAYS[each.why]}{detail}{times}"
    if len(listed) > _TOLD:
        yield f"  … and {len(listed) - _TOLD:,} more; --json lists all"


def _format_counts(done: ExportReport | ImportReport) -> str:
    numbers = (
        (done.records, "record"), (done.sessions, "session"), (done.turns, "turn"), (done.pages, "page"),
        (done.paragraphs, "paragraph"),
    )  # fmt: skip
    parts: list[Any] = [output.count(number, noun) for number, noun in numbers if number]
    return ", ".join(parts) or "nothing"
