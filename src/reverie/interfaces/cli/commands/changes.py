"""Commands on changes: `history`, `blame`, `diff`, `undo`, `forget` and `redact`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.text.ids import validate_id
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.admin.erasure.matching import ErasureItem, ErasureReport
    from reverie.admin.erasure.redact_stored import RedactionReport, SecretFinding
    from reverie.admin.history.undo import UndoResult
    from reverie.memory import Memory


Moment: TypeAlias = "datetime | int | None"
"""Time, or number of a change."""

_MOMENT = options.TimeParam(numbers=True)
_time_options = options.combine_options(
    click.option("--since", type=_MOMENT, metavar="TIME",
                 help="Only changes since then: 2025-01-31, a time, 2h for the last two hours, or a number."),
    click.option("--until", type=_MOMENT, metavar="TIME", help="Only changes until this time or number."),
)  # fmt: skip


@command(json=True)
@click.argument("id", required=False)
@options.limit_option(100, "changes")
@click.option("--actor", metavar="NAME", help="Only changes by this actor.")
@_time_options
def history(context: CommandContext, /, id: str | None, limit: int, **filters: Any) -> None:
    """List changes, newest first: all, or those of the record, turn, session, page or paragraph ID.

    Erased content is left out of its changes.

    In a pipe, one line per change: number, time, actor, change, subject, id, operation,
    reference, note, beginning of the text.

    With --json: {"history": [{"sequence", "batch", "at", "actor", "operation", "note",
    "reference", "subject", "id", "change", "before", "after"}]}.
    """
    from reverie.admin.history.diff import serialize_change

    with context.memory() as memory:
        rows = memory.history.log(id, **filters, limit=limit + 1, newest_first=True)
        if id is not None and not rows and not memory.history.log(id, limit=1):
            raise NotFound(f"No item {id!r}, past or present. Run `reverie recall WORDS`.")
    changes = [serialize_change(row) for row in rows]
    for change in changes:
        change["id"] = change["id"] or id
    names = ("sequence", "at", "actor", "change", "subject", "id", "operation", "reference", "note")
    cells = ([*(each[name] or "-" for name in names), output.preview_change(each) or "-"] for each in changes)
    blocks = output.render_changes(changes)
    document = {"history": changes[:limit]}
    output.print_listing(context, cells, document, blocks=blocks, empty="No changes.", limit=limit)


@command(json=True)
@click.argument("id")
def blame(context: CommandContext, /, id: str) -> None:
    """Show where ID comes from: author, time, reason, and sources.

    ID is a record, turn, session or paragraph. For a page or log, such as MEMORY.md, every line is shown
    with its origin. Deleted items can be shown too.

    With --json: {"subject", "id", "there", "created": {…}, "turns": […], "sessions": […], "merged": […],
    "lines": [{"number", "text", "change"}], "recalled", "recalled_at"}.
    """
    with context.memory() as memory:
        origin = memory.history.blame(id)
    if context.as_json:
        output.print_json(origin)
    else:
        output.print_text(origin.text)


@command(json=True)
@click.argument("id", required=False)
@click.argument("a", type=_MOMENT, required=False)
@click.argument("b", type=_MOMENT, required=False)
@_time_options
def diff(
    context: CommandContext, /, id: str | None, a: Moment, b: Moment, since: Moment, until: Moment
) -> None:
    """Show differences of ID by its last change, between A and B, or of everything since a time.

    A and B are numbers of changes, as listed by `history`, or times. Without B, A is compared with the
    current version. With --since and without ID, all additions, changes and removals are shown.

    Exits with 1 if there are no differences.

    With --json: {"differences": [{"subject", "id", "what", "fields": [{"name", "before", "after"}]}]}.
    """
    if (id is None) == (since is None):
        raise InvalidInput("nothing to compare: give either an ID or --since")
    if since is None and until is not None:
        raise InvalidInput("--until needs --since: to compare versions of ID, give A and B")
    with context.memory() as memory:
        if since is not None:
            differences = memory.history.changes(since=since, until=until)
        else:
            assert id is not None
            difference = memory.history.diff(id, a, b)
            differences = [] if difference.what == "unchanged" else [difference]
    if context.as_json:
        output.print_json({"differences": differences})
    elif differences:
        output.print_text("\n\n".join(difference.text for difference in differences))
    else:
        context.print_message("No differences.")
    if not differences:
        raise click.exceptions.Exit(options.ExitCode.NOTHING)


@command(json=True)
@click.argument("change", type=click.IntRange(min=1), required=False)
@click.option("--batch", type=click.IntRange(min=1), metavar="NUMBER", help="Undo all changes of this batch.")
@click.option("--since", type=_MOMENT, metavar="TIME", help="Undo all changes since then.")
@click.option("--last", is_flag=True, help="Undo the newest change, with all of its batch.")
@click.option("--dry-run", is_flag=True, help="Only show what would be undone.")
@options.YES
def undo(context: CommandContext, /, last: bool, dry_run: bool, yes: bool, **selection: Any) -> None:
    """Undo a CHANGE by its number, or several changes together.

    Items that were changed again later are left as they are; if a later change depends on CHANGE, nothing is
    undone. Several changes are undone only after confirmation. An undo can itself be undone. Erased content
    cannot be restored.

    With --json: {"changes": [numbers], "differences": [{"subject", "id", "what", "fields"}], "left":
    [{"changes", "subject", "id", "why"}], "made": [numbers], "dry_run": true or false}.
    """
    named = {name: value for name, value in selection.items() if value is not None}
    if len(named) + last != 1:
        raise InvalidInput("Give exactly one of CHANGE, --batch NUMBER, --since TIME and --last.")
    given = (named.pop("change"),) if "change" in named else ()
    with context.memory() as memory:
        if last:
            named["batch"] = find_last_batch(memory)
        try:
            result = memory.history.undo(*given, **named, dry_run=True)
            if not dry_run:
                if len(result.changes) > 1 and result.differences and not yes:
                    items = output.count(len(result.differences), "item")
                    question = f"Undo {output.count(len(result.changes), 'change')} of {items}?"
                    context.confirm(question, refused="Nothing was undone.")
                result = memory.history.undo(*given, **named)
        except Conflict as error:
            raise InvalidInput(str(error)) from error  # a retry would fail too
    if context.as_json:
        output.print_json(result)
    elif not context.quiet:
        _print_result(result)


def find_last_batch(memory: Memory) -> int:
    """Return the number of the newest change that is more than a mark on a record.

    Raises:
        NotFound: nothing was changed yet.
    """
    before = None
    while rows := memory.history.log(limit=100, before=before, newest_first=True):
        for row in rows:
            if (row.actor, row.operation) != ("rules", "settle"):
                return row.batch
        before = rows[-1].sequence
    raise NotFound("No changes to undo.")


def _print_result(result: UndoResult) -> None:
    if not result.differences and not result.left:
        output.print_message("Nothing to undo: everything is as it was before.")
        return
    changes = output.count(len(result.changes), "change")
    head = f"Would undo {changes}:" if result.dry_run else f"Undone: {changes}."
    output.print_text(f"{head}\n\n{result.text}")


# -- erasure --------------------------------------------------------------------------------------


_INSTEAD = "--yes or --dry-run"
_FATES = {
    "removed": "is erased",
    "emptied": "is emptied",
    "cut": "is shortened",
    "past": "loses its earlier versions",
    "kept": "remains",
}
_NOUNS = {"entry": "working-memory value", "cursor": "internal note", "past": "earlier version"}


@command(json=True)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", metavar="SESSION", help="Erase this session instead, with its name.")
@click.option("--scope", metavar="SCOPE", help="Erase this scope instead, such as user:alice.")
@click.option("--match", metavar="TEXT", help="Erase everything that contains this text instead.")
@click.option("--request", metavar="ID", help="Confirm a request of a conversation.")
@click.option("--drop", is_flag=True, help="Drop the request of --request; erase nothing.")
@click.option("--turns", is_flag=True, help="Also erase conversation turns that repeat it.")
@click.option("--dry-run", is_flag=True, help="Only show what would be erased and what would remain.")
@options.YES
def forget(
    context: CommandContext, /, ids: tuple[str, ...], drop: bool, dry_run: bool, yes: bool, **selection: Any
) -> None:
    """Erase the records, turns and paragraphs with these IDs permanently, everywhere.

    Everything that repeats five consecutive words of them is erased too, with all earlier versions. The
    command lists what will be erased and what will remain, and asks for confirmation. Erasure cannot be
    undone. Exits with 4 if another process kept it from finishing. Without arguments, list what was asked for
    in conversations and waits.

    In a pipe, one line per item: fate, subject, id, reason, beginning of the text.

    With --json: {"done": true or false, "counts": {"subject": number}, "going": [{"subject", "id", "fate",
    "because", "text"}], "left": [the same], "pending": [text], "notes": [text]}.
    """
    if not ids and all(selection[name] is None for name in ("session", "scope", "match", "request")):
        _list_requests(context)
        return
    with context.memory() as memory:
        if drop:
            request = memory.forget_requests.drop(selection["request"] or "")
            context.print_result(f"Dropped request {request.id}. Nothing was erased.", request)
            return
        for name in ids:
            _require_id(name)
        plan = memory.admin.forget(*ids, **selection, dry_run=True)
        if not dry_run and not yes:
            if not context.as_json:
                _print_plan(plan, quiet=False)
            context.confirm("Erase this permanently?", refused="Nothing was erased.", instead=_INSTEAD)
        report = plan if dry_run else memory.admin.forget(*ids, **selection)
    if context.as_json:
        output.print_json(report)
    elif dry_run:
        _print_plan(report, quiet=context.quiet)
    elif not context.quiet:
        click.echo(f"Erased permanently: {_format_counts(report)}.")
        for item in report.left if yes else ():
            output.print_message(_format_match(item))
        _print_notes(report)
    context.require_finished(report.pending)


def _list_requests(context: CommandContext) -> None:
    """List the requests to forget; raise an error if none waits."""
    with context.memory() as memory:
        requests = memory.forget_requests.list()
    if not requests:
        raise InvalidInput("Nothing to forget. Give ids, or --session, --scope, --match or --request.")
    rows = ((each.id, each.asked_at, output.count(len(each.ids), "item")) for each in requests)
    output.print_listing(context, rows, {"requests": requests})


def _require_id(name: str) -> None:
    """Raise an error that names the option to use if a text or a session was given instead of an id."""
    try:
        validate_id(name)
    except InvalidInput:
        quoted = shlex.quote(name)
        raise NotFound(
            f"{name!r} is not an id. To erase a session, use --session {quoted}. To erase everything that contains "
            f"this text, use --match {quoted}."
        ) from None


def _print_plan(plan: ErasureReport, *, quiet: bool) -> None:
    """Print the plan: in words on a terminal, a line for each item in a pipe."""
    if not output.is_terminal():
        items = (*plan.going, *plan.left)
        output.print_rows((each.fate, each.subject, each.id, each.because, each.text) for each in items)
        return
    click.echo(f"To be erased permanently: {_format_counts(plan)}")
    output.print_items(map(_format_match, plan.going))
    if plan.left:
        click.echo("\nRemains, with the same content:")
        output.print_items(map(_format_match, plan.left))
    if not quiet:
        _print_notes(plan)


def _format_match(item: ErasureItem) -> str:
    text = f": {output.one_line(item.text)}" if item.text else ""
    return f"{item.subject} {output.one_line(item.id)} {_FATES[item.fate]} ({item.because}){text}"


def _print_notes(report: ErasureReport | RedactionReport) -> None:
    for note in report.notes:
        output.print_message(f"Note: {note}.")


def _format_counts(plan: ErasureReport) -> str:
    return ", ".join(output.count(number, _NOUNS.get(name, name)) for name, number in plan.counts.items())


# -- secrets ---------------------------------------------------------------------------------------------


@command(json=True)
@click.option("--dry-run", is_flag=True, help="Only show what contains a secret.")
@options.YES
def redact(context: CommandContext, /, dry_run: bool, yes: bool) -> None:
    """Remove keys, tokens, passwords and other secrets permanently from stored content.

    New content is redacted when it is saved; this command redacts older content. Each secret is replaced by
    the name of its kind. Earlier versions are removed from the journal, so `undo` cannot restore them. The
    command lists the affected items without their secrets and asks for confirmation. Exits with 4 if
    another process kept it from finishing.

    In a pipe, one line per item: subject, id, kinds.

    With --json: {"found": [{"subject", "id", "kinds", "past", "named"}], "done": true or false, "pending":
    [text], "notes": [text]}.
    """
    with context.memory() as memory:
        preview = memory.admin.redact(dry_run=True)
        if preview.found and not dry_run and not yes:
            if not context.as_json:
                _show_secrets(preview.found)
            context.confirm("Remove them permanently?", refused="Nothing was changed.", instead=_INSTEAD)
        report = preview if dry_run else memory.admin.redact()
    if context.as_json:
        output.print_json(report)
    elif not report.found:
        context.print_message("No stored content looks like a secret.")
    elif dry_run:
        _show_secrets(report.found)
    elif not context.quiet:
        count = len(report.found) - len(report.left)
        click.echo(f"Redacted permanently: {output.count(count, 'item')}.")
        for each in report.left:
            place = f"{each.subject} {output.one_line(each.id)}"
            output.print_message(f"Remains, because its name is a secret: {place}; forget it.")
        _print_notes(report)
    context.require_finished(report.pending)


def _show_secrets(findings: Sequence[SecretFinding]) -> None:
    """Print the items that hold a secret, a line for each."""
    for each in findings:
        kinds = [*each.kinds, "earlier versions"] if each.past else each.kinds
        output.print_rows([(each.subject, each.id, ", ".join(kinds))])
