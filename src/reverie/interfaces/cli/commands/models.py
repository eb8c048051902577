"""Commands on the model of background thinking."""

from __future__ import annotations

import click

from reverie.domain.errors import ModelUnavailable
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import CommandContext, CommandGroup, command


@click.group(cls=CommandGroup)
def model() -> None:
    """Examine the model of background thinking."""


@command(json=True)
@click.option(
    "--model", "name", metavar="NAME", help="Model to use, as provider:model.  [the setting `model`]"
)
def check(context: CommandContext, /, name: str | None) -> None:
    """Examine the model with forty fixed claims, and store the result.

    Half of the claims are wrong. A model passes if it supports at most one of these, and at least fifteen of the
    others. A model that passes is believed if a dream can make no controls of its claims. The exam costs four requests.

    With --json: {"model", "at", "is_passed", "rows": [{"kind", "right", "accepted", "wrong", "believed"}], "usage"}.
    """
    with context.memory(model=name) as memory:
        report = memory.dreams.check_model()
    if report.failed:
        raise ModelUnavailable(
            f"The exam of {report.model!r} was not finished. {report.failed}. Try again later."
        )
    if context.as_json:
        output.print_json(
            to_json_object(report, "model", "at", "is_passed", "rows")
            | {"usage": to_json_object(report.usage, "requests", "input_tokens", "output_tokens", "cost")}
        )
        return
    rows = [["claims", "right", "supported", "wrong", "supported"]]
    rows += [[r.kind, *map(str, (r.right, r.accepted, r.wrong, r.believed))] for r in report.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    verdict = "passed: it is trusted by default" if report.is_passed else "failed: its wording is not shown"
    context.print_message(f"{report.model} {verdict}.")


model.add_command(check)
