"""`reverie eval`: measure how well recall finds what it should, on a test collection."""

from __future__ import annotations

import sys

import click

from reverie.errors import ReverieError
from reverie.evals.datasets import FORMATS, Format
from reverie.evals.report import main_eval
from reverie.recall.hits import Unit


@click.command("eval", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path")
@click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="How to read PATH.",
)
@click.option("--conversations", metavar="0-4", help="Only these conversations, counted from 0.")
@click.option(
    "--unit",
    type=click.Choice(["turn", "session"]),
    default="turn",
    show_default=True,
    help="What is to be found in conversations.",
)
@click.option("--k", "ks", default="5,10,20", show_default=True, help="How far down the rankings to look.")
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Leave out hits below this score.",
)
@click.option("--json", "out", metavar="OUT", help="Also write every figure to this file.")
def eval_command(
    path: str,
    format: Format,
    conversations: str | None,
    unit: Unit,
    ks: str,
    min_score: float,
    out: str | None,
) -> None:
    """Measure how well recall finds what it should.

    PATH is a test collection: a LoCoMo file, or a folder of BEAM, Cranfield, or in TREC's or BEIR's form. Its
    conversations or documents are put into new memories in a temporary folder, its questions asked of them.
    """
    try:
        code = main_eval(
            path, format=format, conversations=conversations, unit=unit, ks=ks, min_score=min_score, out=out
        )
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)
