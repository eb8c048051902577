"""The command `forget`: show what will be erased, ask, and erase it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from reverie.domain.errors import InvalidInput
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, as_json, invocation
from reverie.interfaces.cli.prompts import confirm

if TYPE_CHECKING:
    from reverie.admin.erasure.eraser import ErasureReport
    from reverie.admin.erasure.matching import ErasureItem

_FATES = {
    "removed": "goes",
    "emptied": "goes, its place stays",
    "cut": "loses what says it",
    "past": "loses its past",
    "kept": "stays",
}
_WORDS = {
    "entry": ("entry of working memory", "entries of working memory"),
    "past": ("thing's earlier versions", "things' earlier versions"),
}
_SHOWN = 20


class _What(TypedDict):
    """Arguments of `Administration.forget` beside the ids."""

    session: str | None
    scope: str | None
    match: str | None
    turns: bool


@click.command(cls=Command)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--session", metavar="SESSION", help="All of this session instead, its name too.")
@click.option("--scope", metavar="SCOPE", help="All that is this scope's instead, such as user:alice.")
@click.option("--match", metavar="TEXT", help="Whatever has this text instead.")
@click.option("--turns", is_flag=True, help="Also the turns of conversations that repeat it.")
@click.option("--dry-run", is_flag=True, help="Only show what would go and what would stay.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@invocation
def forget(
    asked: CommandContext,
    /,
    ids: tuple[str, ...],
    session: str | None,
    scope: str | None,
    match: str | None,
    turns: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the records, turns and notes ID for good, everywhere: nothing brings them back.

    What repeats five words in a row of them goes too, and every earlier version. It shows what that is, and
    what stays and still says it, and asks. Ends with 4 when another process kept it from being finished.

    In a pipe, a line for each thing: fate, subject, id, why, first words.

    With --json: {"done": true or false, "counts": {"subject": number}, "going": [{"subject", "id", "fate",
    "because", "text"}], "left": [the same], "pending": [text], "notes": [text]}.
    """
    if not ids and session is None and scope is None and match is None:
        raise InvalidInput("nothing says what to forget: name ids, or use --session, --scope or --match")
    what: _What = {"session": session, "scope": scope, "match": match, "turns": turns}
    with asked.memory() as memory:
        plan = memory.admin.forget(*ids, **what, dry_run=True)
        if not dry_run and not yes:
            if not as_json:
                _show(plan, quiet=False)
            if not confirm("Forget this for good?", instead="--yes, or --dry-run to see what would go"):
                output.print_message("Nothing was forgotten.", quiet=asked.quiet)
                return
        done = plan if dry_run else memory.admin.forget(*ids, **what)
    if as_json:
        output.print_json(done.to_dict())
    elif dry_run:
        _show(done, quiet=asked.quiet)
    elif not asked.quiet:
        click.echo(f"Forgotten for good: {_format_counts(done)}.")
        for trace in done.left if yes else ():
            output.print_message(f"Stays: {_format_match(trace)}")
        for note in done.notes:
            output.print_message(f"Note: {note}.")
    if done.pending:
        output.print_message("Not finished, `reverie doctor --fix` does that: " + "; ".join(done.pending))
        raise click.exceptions.Exit(ExitCode.UNAVAILABLE)


def _show(plan: ErasureReport, *, quiet: bool) -> None:
    """Print the plan: in words on a terminal, a line for each item in a pipe."""
    if not output.is_terminal():
        output.print_rows(
            (trace.fate, trace.subject, trace.id, trace.because, trace.text)
            for trace in (*plan.going, *plan.left)
        )
        return
    click.echo(f"To be forgotten for good: {_format_counts(plan)}")
    _list(plan.going)
    if plan.left:
        click.echo("\nStays, and still says it:")
        _list(plan.left)
    for note in plan.notes:
        output.print_message(f"Note: {note}.", quiet=quiet)


def _list(traces: tuple[ErasureItem, ...]) -> None:
    for trace in traces[:_SHOWN]:
        click.echo(f"  {output.escape_text(_format_match(trace))}")
    if len(traces) > _SHOWN:
        click.echo(f"  and {len(traces) - _SHOWN:,} more: --json lists them all")


def _format_match(trace: ErasureItem) -> str:
    said = f": {output.one_line(trace.text)}" if trace.text else ""
    return f"{trace.subject} {output.one_line(trace.id)} {_FATES[trace.fate]} ({trace.because}){said}"


def _format_counts(plan: ErasureReport) -> str:
    parts = []
    for name, number in plan.counts.items():
        one, several = _WORDS.get(name, (name, f"{name}s"))
        parts.append(f"{number:,} {one if number == 1 else several}")
    return ", ".join(parts)
