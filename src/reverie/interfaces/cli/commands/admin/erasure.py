"""The commands `forget` and `redact`: show what will be erased, ask, and erase it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.ids import validate_id
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.admin.erasure.redact_stored import SecretFinding
    from reverie.admin.erasure.request import ErasureItem, ErasureReport
    from reverie.memory import Memory

_FATES = {
    "removed": "is erased",
    "emptied": "is emptied",
    "cut": "is shortened",
    "past": "loses its earlier versions",
    "kept": "remains",
}
_WORDS = {
    "entry": ("entry of working memory", "entries of working memory"),
    "cursor": ("internal note", "internal notes"),
    "past": ("item's earlier versions", "items' earlier versions"),
}


@command(json=True)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", metavar="SESSION", help="Erase this session instead, with its name.")
@click.option("--scope", metavar="SCOPE", help="Erase this scope instead, such as user:alice.")
@click.option("--match", metavar="TEXT", help="Erase everything that contains this text instead.")
@click.option("--turns", is_flag=True, help="Also erase conversation turns that repeat it.")
@click.option("--dry-run", is_flag=True, help="Only show what would be erased and what would remain.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def forget(
    context: CommandContext, /, ids: tuple[str, ...], dry_run: bool, yes: bool, **selection: Any
) -> None:
    """Erase the records, turns and paragraphs with these IDs permanently, everywhere.

    Everything that repeats five consecutive words of them is erased too, with all earlier versions. The
    command lists what will be erased and what will remain, and asks for confirmation. Erasure cannot be
    undone. Exits with 4 if another process kept it from finishing.

    In a pipe, one line per item: fate, subject, id, reason, beginning of the text.

    With --json: {"done": true or false, "counts": {"subject": number}, "going": [{"subject", "id", "fate",
    "because", "text"}], "left": [the same], "pending": [text], "notes": [text]}.
    """
    if not ids and all(selection[name] is None for name in ("session", "scope", "match")):
        raise InvalidInput("nothing to forget: give ids, --session, --scope or --match")
    with context.memory() as memory:
        _require_ids(memory, ids)
        plan = memory.admin.forget(*ids, **selection, dry_run=True)
        if not dry_run and not yes:
            if not context.as_json:
                _print_plan(plan, quiet=False)
            context.confirm(
                "Erase this permanently?",
                refused="Nothing was erased.",
                instead="--yes, or --dry-run to see what would be erased",
            )
        report = plan if dry_run else memory.admin.forget(*ids, **selection)
    if context.as_json:
        output.print_json(report)
    elif dry_run:
        _print_plan(report, quiet=context.quiet)
    elif not context.quiet:
        click.echo(f"Erased permanently: {_format_counts(report)}.")
        for item in report.left if yes else ():
            output.print_message(_format_match(item))
        for note in report.notes:
            output.print_message(f"Note: {note}.")
    context.require_finished(report.pending)


def _require_ids(memory: Memory, ids: tuple[str, ...]) -> None:
    """Raise an error that names the option to use if a text or a session was given in place of an id."""
    sessions = {each.state.id for each in memory.scoped(EVERY_SCOPE).sessions()} if ids else set()
    for name in ids:
        if name in sessions:
            raise NotFound(f"{name!r} is a session: to erase it, use --session {shlex.quote(name)}")
        try:
            validate_id(name)
        except InvalidInput:
            raise NotFound(
                f"{name!r} is no id: to erase everything that contains this text, use --match {shlex.quote(name)}"
            ) from None


def _print_plan(plan: ErasureReport, *, quiet: bool) -> None:
    """Print the plan: in words on a terminal, a line for each item in a pipe."""
    if not output.is_terminal():
        output.print_rows(
            (item.fate, item.subject, item.id, item.because, item.text) for item in (*plan.going, *plan.left)
        )
        return
    click.echo(f"To be erased permanently: {_format_counts(plan)}")
    output.print_items(map(_format_match, plan.going))
    if plan.left:
        click.echo("\nRemains, with the same content:")
        output.print_items(map(_format_match, plan.left))
    for note in plan.notes:
        output.print_message(f"Note: {note}.", quiet=quiet)


def _format_match(item: ErasureItem) -> str:
    text = f": {output.one_line(item.text)}" if item.text else ""
    return f"{item.subject} {output.one_line(item.id)} {_FATES[item.fate]} ({item.because}){text}"


def _format_counts(plan: ErasureReport) -> str:
    parts = []
    for name, number in plan.counts.items():
        one, several = _WORDS.get(name, (name, f"{name}s"))
        parts.append(f"{number:,} {one if number == 1 else several}")
    return ", ".join(parts)


# -- secrets ---------------------------------------------------------------------------------------------


@command(json=True)
@click.option("--dry-run", is_flag=True, help="Only show what contains a secret.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
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
            context.confirm(
                "Remove them permanently?",
                refused="Nothing was changed.",
                instead="--yes, or --dry-run to list the affected items",
            )
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
        for finding in report.left:
            output.print_message(
                f"Remains, because its name is a secret: {finding.subject} "
                f"{output.one_line(finding.id)}; forget it."
            )
        for note in report.notes:
            output.print_message(f"Note: {note}.")
    context.require_finished(report.pending)


def _show_secrets(findings: Sequence[SecretFinding]) -> None:
    """Print the items that hold a secret: in words on a terminal, a line for each item in a pipe."""
    if not output.is_terminal():
        output.print_rows((finding.subject, finding.id, ", ".join(finding.kinds)) for finding in findings)
        return
    output.print_items(
        f"{each.subject} {each.id}: {', '.join(each.kinds)}{', earlier versions' if each.past else ''}"
        for each in findings
    )
