"""Commands that copy a memory: `backup`, `recover`, `copy`, `export` and `import`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reverie.admin.transfer.batch import FORMS
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import ORIGINS, Origin
from reverie.domain.text import timestamps
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.admin.transfer.backup import Backup
    from reverie.admin.transfer.batch import Skipped
    from reverie.admin.transfer.importer import ImportReport


_EXPECTED = {"known", "repeated"}
"""Reasons that a repeated import produces; counted but not listed."""


# -- backup and recover ------------------------------------------------------------------------------------


@command(json=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def backup(context: CommandContext, /, file: Path, overwrite: bool) -> None:
    """Back up the memory to one FILE; other programs may keep writing.

    FILE is a zip archive with the database, the Markdown files of the profile, and a manifest.
    It is read back for verification. `reverie recover` restores it.

    With --json: {"path": text, "made_at": time, "size", "sequence", "records", "sessions", "turns" and
    "problems": numbers, "profile": [text]}.
    With --quiet: only the path.
    """
    with context.memory() as memory:
        result = memory.admin.backup(file, overwrite=overwrite)
    text = f"Backup: {result.path} ({output.format_size(result.size)}): {_format_contents(result)}."
    context.print_result(text, result, brief=str(result.path))
    if result.problems and not context.as_json:
        problems = output.count(result.problems, "problem")
        context.print_message(f"The backup has {problems}. Run `reverie doctor`.")


@command(json=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Move an existing memory aside, within the folder.")
def recover(context: CommandContext, /, file: Path, replace: bool) -> None:
    """Recover a memory from a backup FILE into the folder.

    FILE is verified before anything is changed. An existing memory is an error, unless --replace moves it
    aside. Nothing is deleted except the search index, which is rebuilt. Content that was erased since the
    backup is erased again. Stop programs that use the folder first; those still running must open it again.

    With --json: {"folder": text, "backup": {…}, "moved_to": text or null, "forgotten_again": number, "notes":
    [text]}.
    """
    from reverie.admin.transfer.backup import recover as recover_backup

    report = recover_backup(file, context.resolve_folder(), replace=replace)
    made_at = timestamps.format_time(report.backup.made_at)
    lines = [f"Recovered: {report.folder} as of {made_at}: {_format_contents(report.backup)}."]
    if report.moved_to is not None:
        lines.append(f"The previous memory is in {report.moved_to}; delete it when no longer needed.")
    if report.forgotten_again:
        items = output.count(report.forgotten_again, "item")
        lines.append(f"Erased again, as after the backup: {items}.")
    context.print_result("\n".join([*lines, *report.notes]), report)


@command(json=True)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(context: CommandContext, /, source: str, target: str) -> None:
    """Copy the memory FROM a folder or a database TO another, where there is none yet.

    A place is a folder, or a URL such as postgresql://host/database?memory=acme. The journal of the copy is the
    same to the last byte, and is compared with the original before the copy can be opened. An interrupted copy is
    continued by the same command. Stop programs that change the memory first.

    With --json: {"changes", "records", "sessions", "resumed_after": numbers}.
    """
    _copy(context, source, target)


def _copy(context: CommandContext, source: str, target: str) -> None:
    from reverie.admin.transfer.copying import copy_memory

    with output.show_progress("changes", None, quiet=context.quiet or context.as_json) as advance:
        report = copy_memory(source, target, progress=advance)
    text = f"Copied and compared: {output.format_counts(report)}, {output.count(report.changes, 'change')}."
    context.print_result(text, report)


def _format_contents(result: Backup) -> str:
    profile = f", {', '.join(result.profile)}" if result.profile else ""
    return f"{output.format_counts(result)}{profile}, up to change {result.sequence:,}"


# -- export ------------------------------------------------------------------------------------------------


@command(as_of=True, json=True)
@click.argument("target")
@options.repeated_option("--scope", metavar="SCOPE", help="Only this scope")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option("--history", is_flag=True, help="Everything: each change, and working memory too.")
def export(
    context: CommandContext, /, target: str, scope: Sequence[str], overwrite: bool, history: bool
) -> None:
    """Export the memory to TARGET as JSON lines, which `reverie import` reads.

    The file contains all fields of records, sessions, pages and logs. With --history it has everything, change by
    change, and an import of it is an equal memory in a place that has none yet.

    With --json: {"path": text, "records", "sessions", "turns", "pages" and "paragraphs": numbers}; with --history
    {"path", "changes"}.
    """
    from reverie.admin.transfer.copying import open_source, write_history
    from reverie.files.names import resolve_path
    from reverie.memory import Memory

    if history:
        if scope or context.as_of is not None:
            raise InvalidInput(
                "An export with the history has every scope and change: leave out --scope and --as-of."
            )
        with closing(open_source(context.resolve_place())) as opened:
            changes = write_history(opened, path := resolve_path(target), overwrite=overwrite)
        text = f"Exported to {path}: everything, {output.count(changes, 'change')}."
        context.print_result(text, {"path": path, "changes": changes})
        return
    with context.reading() as memory:
        export_to = memory.admin.export if isinstance(memory, Memory) else memory.export
        report = export_to(target, scope=list(scope) or None, overwrite=overwrite)
    context.print_result(f"Exported to {report.path}: {output.format_counts(report)}.", report)


# -- import ------------------------------------------------------------------------------------------------


@command("import", json=True)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMS), help="Format of PATH; default detected.")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@options.scope_option("Scope to import into, such as user:alice.", default=None)
@click.option(
    "--origin", type=click.Choice(ORIGINS), help="Whose words they are; import: found by search only."
)
def import_path(
    context: CommandContext,
    /,
    path: Path,
    form: str | None,
    dry_run: bool,
    origin: Origin | None,
    scope: str | None,
) -> None:
    """Import an export, another program's memory, or conversations from PATH, a file or folder.

    PATH is a transcript, an export as JSON, zip archive or database, messages {"role", "content"} as JSON lines, or
    a folder of notes; --format lists the formats. `notes` are folders of Autobot, basic-memory, memsearch and
    Obsidian, and CLAUDE.md, AGENTS.md and GEMINI.md; `mcp` is the MCP memory server.

    A terminal shows a count and a sample, and asks whose words they are. Elsewhere --origin is required, except for
    exports of Reverie. In a conversation, only words that a person typed become the owner's, and only with --origin
    owner records are learned from them, at any age.

    A file of `reverie export --history` becomes a memory in a place that has none, compared change by change.

    Existing and erased content is skipped, so an import can be repeated, and an interrupted one continued. A later
    export of a conversation replaces abandoned branches and shorter texts. Exits with 6 if something is left out
    because it is broken or too large.

    With --json: {"form": text, "dry_run": true or false, "records", "sessions", "turns", "pages", "paragraphs",
    "trusted", "rules", "learned" and "handled": numbers, "sample": [text], "skipped_by_reason": {"reason": number},
    "skipped": [{"what", "place", "why", "detail", "count"}], "revised": [{"session", "place", "withdrawn", "updated",
    "added", "metadata"}]}.
    """
    from reverie.admin.transfer import importer
    from reverie.admin.transfer.copying import is_history_file

    source = path.expanduser()
    if is_history_file(source):
        if form or dry_run or scope is not None or origin:
            raise InvalidInput(
                f"{path.name!r} has a memory with its history. Import it without other options."
            )
        _copy(context, str(source), context.resolve_place())
        return
    detected = form or importer.detect_format(source)  # before a folder is created for it
    total = None
    if detected != FORMS[0] and not dry_run and (origin is None or sys.stderr.isatty()):
        with context.memory(store=":memory:") as empty:
            preview = empty.admin.import_from(source, detected, dry_run=True)
        total = preview.handled
        if origin is None:
            origin = _ask_origin(preview, path)

    with ExitStack() as stack:
        try:
            memory = stack.enter_context(context.memory(create=not dry_run, embedder="none"))  # see `embed`
        except NotFound:  # a dry run without a memory
            memory = stack.enter_context(context.memory(store=":memory:"))
        progress = stack.enter_context(output.show_progress("items", total, quiet=context.quiet))
        imported = memory.admin.import_from(
            path, detected, dry_run=dry_run, scope=scope, origin=origin, progress=progress
        )
    context.print_result("\n".join(_describe_import(imported, path, origin)), imported)
    if not (context.as_json or context.quiet):
        output.print_items(_describe_skipped(imported))
    if not imported.is_complete:
        raise click.exceptions.Exit(options.ExitCode.INCOMPLETE)


def _ask_origin(preview: ImportReport, path: Path) -> Origin:
    """Show what a source contains, and return whose words a person says they are.

    Raises:
        InvalidInput: nobody can be asked.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        problem = f"Cannot tell whose words are in {path.name!r} ({preview.form})."
        raise InvalidInput(f"{problem} Use `--origin owner` for yours, `--origin import` for others'.")
    click.echo(f"{path.name} ({preview.form}): {output.format_counts(preview)}.", err=True)
    for text in preview.sample:
        click.echo(f"  {text}", err=True)
    answer: Origin = click.prompt(
        "Whose words are these? owner: yours, prompts may include them. import: found by search only",
        type=click.Choice(ORIGINS), default="import", err=True,
    )  # fmt: skip
    return answer


def _describe_import(report: ImportReport, path: Path, origin: Origin | None) -> Iterator[str]:
    verb = "Would import" if report.dry_run else "Imported"
    yield f"{verb} from {path.resolve().name} ({report.form}): {output.format_counts(report)}."
    if report.skipped:
        reasons = (f"{count:,} {why}" for why, count in report.skipped_by_reason.items())
        yield f"Skipped: {', '.join(reasons)}."
    if report.trusted:
        rules = f", {output.count(report.rules, 'rule')} in every prompt" if report.rules else ""
        yield f"In prompts where they fit: {output.count(report.trusted, 'record')}{rules}."
    if untrusted := report.records - report.trusted:
        yield f"Found by search only: {output.count(untrusted, 'record')}."
    if report.learned:
        yield f"Learned {output.count(report.learned, 'record')} from what the owner said."
    elif report.turns and not report.dry_run and report.form != FORMS[0]:
        hint = "" if origin == "owner" else ": only the owner's words are learned from (--origin owner)"
        yield f"Learned nothing{hint}."
    verb = "Would update" if report.dry_run else "Updated"
    for each in report.revised:
        counts = (
            (each.withdrawn, "turn", "removed"),
            (each.updated, "text", "replaced"),
            (each.added, "turn", "added"),
        )
        changes = [f"{output.count(number, noun)} {done}" for number, noun, done in counts if number]
        new = [f"new {name}" for name in each.metadata]
        yield f"{verb} session {each.session}: {', '.join([*changes, *new])}."


def _describe_skipped(report: ImportReport) -> Iterator[str]:
    grouped: dict[tuple[str, str, str], list[Skipped]] = {}
    for each in report.skipped:
        if each.why not in _EXPECTED:
            place = "" if each.why == "unsupported" else each.place
            grouped.setdefault((each.what, each.why, place + each.detail), []).append(each)
    for (each, *_), number in ((group, sum(one.count for one in group)) for group in grouped.values()):
        times = f" ({number:,} times)" if number > 1 else ""
        detail = f": {each.detail}" if each.detail else ""
        yield f"{each.place}: {each.what} {each.why}{detail}{times}"
