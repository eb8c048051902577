"""The commands on changes: `history`, `blame`, `diff` and `undo`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import Conflict, InvalidInput, NotFound
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, as_json, invocation
from reverie.interfaces.cli.prompts import ChangeParam, confirm

if TYPE_CHECKING:
    from reverie.admin.history import Difference
    from reverie.admin.history.undo import UndoResult
    from reverie.domain.change import JournalEntry

_SINCE = "Only from then on: 2025-01-31, a time, 2h for the last two hours, or a change's number."
_UNTIL = "Only up to then, likewise."


@click.command(cls=Command)
@click.argument("id", required=False)
@click.option(
    "--after", type=click.IntRange(min=0), default=0, metavar="NUMBER", help="Only later changes than this."
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@click.option("--newest", "newest_first", is_flag=True, help="The newest first, and the limit keeps these.")
@click.option("--actor", metavar="NAME", help="Only changes made by this one.")
@click.option("--since", type=ChangeParam(), metavar="TIME", help=_SINCE)
@click.option("--until", type=ChangeParam(), metavar="TIME", help=_UNTIL)
@as_json
@invocation
def history(asked: CommandContext, /, id: str | None, as_json: bool, **how: Any) -> None:
    """List the changes made, or those made to the record, turn, session, page or paragraph ID.

    The oldest comes first, unless --newest says otherwise. A change whose content was forgotten is there
    without it.

    In a pipe, a line for each: number, time, actor, change, subject, id, reason.

    With --json: {"history": [{"sequence", "batch", "at", "actor", "reason", "subject", "id", "change",
    "before", "after"}]}.
    """
    with asked.memory() as memory:
        rows = memory.history.log(id, **how)
        if id is not None and not rows and not memory.history.log(id, limit=1):
            raise _build_not_found(id)
    changes = [_serialize_change(row, id) for row in rows]
    if as_json:
        output.print_json({"history": changes})
    elif output.is_terminal() and changes:
        from reverie.interfaces.cli import rich_output

        rich_output.print_history(changes)
    else:
        cells = ("sequence", "at", "actor", "change", "subject", "id", "reason")
        output.print_rows([change[name] or "-" for name in cells] for change in changes)
    if not changes and not as_json:
        output.print_message("No changes.", quiet=asked.quiet)


def _serialize_change(row: JournalEntry, id: str | None) -> dict[str, Any]:
    from reverie.admin.history.diff import compute_difference

    found = compute_difference(row)
    return {
        "sequence": row.sequence,
        "batch": row.batch,
        "at": timestamps.format_time(row.at),
        "actor": row.actor,
        "reason": row.reason,
        "subject": row.subject,
        "id": found.id or id,
        "change": found.what,
        "before": found.before and found.before.to_dict(),
        "after": found.after and found.after.to_dict(),
    }


def _build_not_found(id: str) -> NotFound:
    return NotFound(f"nothing of the id {id!r} was ever there: find it with `reverie recall WORDS`")


@click.command(cls=Command)
@click.argument("id")
@as_json
@invocation
def blame(asked: CommandContext, /, id: str, as_json: bool) -> None:
    """Say where ID comes from: who made it, when, why and from what, and what became of it since.

    ID is a record, turn, session or paragraph, or a page or log such as MEMORY.md: line by line then. It
    need not be there any more.

    With --json: {"subject", "id", "there", "created": {…}, "turns": […], "sessions": […], "merged": […],
    "related": […], "repetitions": […], "changes": […], "lines": [{"number", "text", "change"}], "recalled",
    "recalled_at"}.
    """
    with asked.memory() as memory:
        found = memory.history.blame(id)
    if as_json:
        output.print_json(found.to_dict())
    elif output.is_terminal():
        from reverie.interfaces.cli import rich_output

        rich_output.print_account(found.text)
    else:
        click.echo(output.escape_text(found.text))


@click.command(cls=Command)
@click.argument("id", required=False)
@click.argument("a", type=ChangeParam(), required=False)
@click.argument("b", type=ChangeParam(), required=False)
@click.option("--since", type=ChangeParam(), metavar="TIME", help="Everything that is different since then.")
@click.option("--until", type=ChangeParam(), metavar="TIME", help="With --since: up to then.")
@as_json
@invocation
def diff(
    asked: CommandContext,
    /,
    id: str | None,
    a: datetime | int | None,
    b: datetime | int | None,
    since: datetime | int | None,
    until: datetime | int | None,
    as_json: bool,
) -> None:
    """Show what the last change of ID did, or what is different between A and B, or since a moment.

    A and B are numbers of changes, as `history` gives them, or times; without B it is as it is now. With
    --since and no ID it is everything in the memory: what was added, changed or removed.

    Nothing different is an answer too: it ends with 1.

    With --json: {"differences": [{"subject", "id", "what", "fields": [{"name", "before", "after"}]}]}.
    """
    if (id is None) == (since is None):
        raise InvalidInput("say what to compare: an ID, or --since and a time")
    if since is None and until is not None:
        raise InvalidInput("--until goes with --since: for a version of ID, name A and B")
    with asked.memory() as memory:
        if since is not None:
            found = memory.history.changes(since=since, until=until)
        else:
            assert id is not None
            found = [one for one in [memory.history.diff(id, a, b)] if one.what != "unchanged"]
    if as_json:
        output.print_json({"differences": [one.to_dict() for one in found]})
    else:
        _show(found)
    if not found:
        if not as_json:
            output.print_message("Nothing is different.", quiet=asked.quiet)
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _show(found: list[Difference]) -> None:
    text = "\n\n".join(one.text for one in found)
    if output.is_terminal() and text:
        from reverie.interfaces.cli import rich_output

        rich_output.print_account(text)
    elif text:
        click.echo(output.escape_text(text))


@click.command(cls=Command)
@click.argument("change", type=click.IntRange(min=1), required=False)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Everything that was made together with that change.",
)
@click.option("--since", type=ChangeParam(), metavar="TIME", help="Everything made since then.")
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@invocation
def undo(asked: CommandContext, /, dry_run: bool, yes: bool, as_json: bool, **what: Any) -> None:
    """Take back a CHANGE, by its number, or several together.

    What was changed again since is left as it is; if it rests on the CHANGE, nothing is done. More than one
    change is taken back only after a yes. An undo is a change too, and can be undone. What was forgotten
    does not come back.

    With --json: {"changes": [numbers], "differences": [{"subject", "id", "what", "fields"}], "left":
    [{"changes", "subject", "id", "why"}], "made": [numbers], "dry_run": true or false}.
    """
    named = {name: value for name, value in what.items() if value is not None}
    if len(named) != 1:
        raise InvalidInput("say what to undo in one way: a CHANGE, --batch NUMBER, or --since TIME")
    given = (named.pop("change"),) if "change" in named else ()
    with asked.memory() as memory:
        try:
            result = memory.history.undo(*given, **named, dry_run=True)
            if not dry_run:
                several = len(result.changes) > 1 and result.differences
                if several and not yes and not _confirm_undo(result):
                    output.print_message("Nothing was undone.", quiet=asked.quiet)
                    return
                result = memory.history.undo(*given, **named)
        except Conflict as error:
            raise InvalidInput(str(error)) from error  # trying again would not help
    if as_json:
        output.print_json(result.to_dict())
    elif not asked.quiet:
        _print_result(result)


def _confirm_undo(result: UndoResult) -> bool:
    things = output.count(len(result.differences), "thing")
    return confirm(f"Undo {len(result.changes):,} changes, of {things}?", instead="--yes")


def _print_result(result: UndoResult) -> None:
    if not result.differences and not result.left:
        output.print_message("Nothing to change: all is as it was before.")
        return
    told = output.count(len(result.changes), "change")
    head = f"Would undo {told}:" if result.dry_run else f"Undone: {told}."
    text = f"{head}\n\n{result.text}"
    if output.is_terminal():
        from reverie.interfaces.cli import rich_output

        rich_output.print_account(text)
    else:
        click.echo(output.escape_text(text))
