"""The command `redact`: show which stored items hold a secret, ask, and redact them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.admin.erasure.redact_stored import SecretFinding


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
    [text]}.
    """
    with context.memory() as memory:
        preview = memory.admin.redact(dry_run=True)
        if preview.found and not dry_run and not yes:
            if not context.as_json:
                _show(preview.found)
            context.confirm(
                "Remove them permanently?",
                refused="Nothing was changed.",
                instead="--yes, or --dry-run to list the affected items",
            )
        report = preview if dry_run else memory.admin.redact()
    if context.as_json:
        output.print_json(report)
    elif dry_run:
        _show(report.found)
        context.print_message("" if report.found else "No stored content looks like a secret.")
    elif not context.quiet:
        count = len(report.found) - len(report.left)
        click.echo(f"Redacted permanently: {output.count(count, 'item')}.")
        for finding in report.left:
            output.print_message(
                f"Remains, because its name is a secret: {finding.subject} "
                f"{output.one_line(finding.id)}; forget it."
            )
    context.require_finished(report.pending)


def _show(findings: Sequence[SecretFinding]) -> None:
    """Print the items that hold a secret: in words on a terminal, a line for finding in a pipe."""
    if not output.is_terminal():
        output.print_rows((finding.subject, finding.id, ", ".join(finding.kinds)) for finding in findings)
        return
    output.print_items(
        f"{each.subject} {each.id}: {', '.join(each.kinds)}{', earlier versions' if each.past else ''}"
        for each in findings
    )
