"""The command `redact`: show which stored items hold a secret, ask, and redact them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, ExitCode, as_json, invocation
from reverie.interfaces.cli.prompts import confirm

if TYPE_CHECKING:
    from reverie.admin.erasure.redact_stored import SecretFinding

_SHOWN = 20


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only show what holds a secret.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@invocation
def redact(asked: CommandContext, /, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take keys, tokens, passwords and the like for good out of what is stored already.

    What is saved is redacted by itself; this is for what was stored before. Each thing keeps its place, with
    the kind of the secret instead; its earlier versions go from the journal, so `undo` cannot bring them
    back. Shows what holds a secret, without it, and asks. Ends with 4 when another process kept it from being
    finished.

    In a pipe, a line for each thing: subject, id, kinds.

    With --json: {"found": [{"subject", "id", "kinds", "past", "named"}], "done": true or false, "pending":
    [text]}.
    """
    with asked.memory() as memory:
        told = memory.admin.redact(dry_run=True)
        if told.found and not dry_run and not yes:
            if not as_json:
                _show(told.found)
            if not confirm("Take them out for good?", instead="--yes, or --dry-run to see what holds one"):
                output.print_message("Nothing was changed.", quiet=asked.quiet)
                return
        done = told if dry_run else memory.admin.redact()
    if as_json:
        output.print_json(done.to_dict())
    elif dry_run:
        _show(done.found)
        output.print_message(
            "" if done.found else "Nothing that is stored looks like a secret.", quiet=asked.quiet
        )
    elif not asked.quiet:
        count = len(done.found) - len(done.left)
        click.echo(f"Redacted for good: {count:,} thing{'' if count == 1 else 's'}.")
        for each in done.left:
            output.print_message(
                f"Stays, its name is a secret: {each.subject} {output.one_line(each.id)}; forget it."
            )
    if done.pending:
        output.print_message("Not finished, `reverie doctor --fix` does that: " + "; ".join(done.pending))
        raise click.exceptions.Exit(ExitCode.UNAVAILABLE)


def _show(found: Sequence[SecretFinding]) -> None:
    """Print the items that hold a secret: in words on a terminal, a line for each in a pipe."""
    if not output.is_terminal():
        output.print_rows((each.subject, each.id, ", ".join(each.kinds)) for each in found)
        return
    for each in found[:_SHOWN]:
        past = ", earlier" if each.past else ""
        click.echo(f"  {each.subject} {output.escape_text(each.id)}: {', '.join(each.kinds)}{past}")
    if len(found) > _SHOWN:
        click.echo(f"  and {len(found) - _SHOWN:,} more: --json lists them all")
