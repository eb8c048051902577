"""Commands of the measurements: `python -m evaluation NAME`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from evaluation.options import EMBEDDER, HELP, JSON, boards_command, run_and_exit

if TYPE_CHECKING:
    from evaluation.measures.harness import Evaluation

_LABELLED = {
    "attacks": "prompt_attacks:EVALUATION",
    "chats": "chats:EVALUATION",
    "preferences": "cited_proposals:PREFERENCES",
    "read": "cited_proposals:READ",
    "intake": "intake:EVALUATION",
    "learn": "learned_turns:EVALUATION",
    "merging": "written_headlines:EVALUATION",
    "secrets": "secret_detection:EVALUATION",
    "sentences": "sentence_rules:EVALUATION",
}
"""The labelled evaluations: module in `evaluation.measures` and name, imported when one is called."""


def build_command(name: str) -> click.Command:
    """Build the command of a labelled evaluation."""
    module, _, attribute = _LABELLED[name].partition(":")
    evaluation: Evaluation[Any, Any] = getattr(import_module(f"evaluation.measures.{module}"), attribute)
    group = evaluation.group_name

    def run(file: str | None, **options: Any) -> None:
        selected = options.pop(group) if evaluation.group_of is not None else None
        run_and_exit(lambda: evaluation.run(file, group=selected, **options))

    options = [
        click.argument("file", required=False),
        click.option(
            "--data", metavar="FOLDER", help="The labelled sets.  [default: `evaluation` in the checkout]"
        ),
        *([click.option(f"--{group}", help=f"Only items of this {group}.")] if evaluation.group_of else []),
        click.option("--show-errors", is_flag=True, help=f"Also list {evaluation.listed}."),
        *([click.option("--sealed", is_flag=True, help="Judge the items that are kept for final figures.")]
          if evaluation.sealed_files else []),
        JSON,
    ]  # fmt: skip
    for option in reversed(options):
        run = option(run)
    return click.command(name, help=evaluation.help, context_settings=HELP)(run)


@click.command("questions", context_settings=HELP)
@click.option(
    "--data", metavar="FOLDER", help="The personas.  [default: `evaluation/questions` in the checkout]"
)
@click.option("--sealed", is_flag=True, help="Ask the personas that are kept for final figures.")
@click.option(
    "--size",
    type=click.IntRange(1, 1_000),
    metavar="N",
    help="Divide the facts of each persona into memories of about N; each is asked what it answers and what another"
    " one answers.",
)
@EMBEDDER
@JSON
def questions_command(
    data: str | None, sealed: bool, size: int | None, embedder: str, out: str | None
) -> None:
    """Measure recall of everyday facts with natural questions, beside SQLite's FTS5.

    Each persona's facts and conversations are put into a new memory, and its questions are asked as a
    program asks them. "recall@k" is the share of wanted answers among the first k hits, "prompt" the share
    that stands in the prompt. "outdated" is the share of updates where what held before stands first, "empty"
    the share of answerable questions without a hit. "nothing" is about finding nothing: how often that is
    right, and how often nothing is found where nothing is stored.
    """
    from evaluation.measures.harness import CHECKOUT_DATA
    from evaluation.measures.questions import run

    folder = data or CHECKOUT_DATA / "questions"
    run_and_exit(lambda: run(folder, sealed=sealed, size=size, embedder=embedder, out=out))


@click.command("month", context_settings=HELP)
@click.option("--data", metavar="FOLDER", help="The months.  [default: `evaluation/month` in the checkout]")
@click.option("--sealed", is_flag=True, help="Play the months that are kept for final figures.")
@click.option("--show-errors", is_flag=True, help="Also list the questions without an answer.")
@EMBEDDER
@JSON
def month_command(data: str | None, sealed: bool, show_errors: bool, embedder: str, out: str | None) -> None:
    """Play a month of conversations, and see what stands in the prompts afterwards.

    Each month is played without thinking, without a model, with a scripted good model and with a scripted
    hostile one; then its questions are asked. "answers" counts those whose answers stand in the prompt,
    "outdated" those whose prompt has an outdated value only, "tokens" a prompt's mean length, "beside none"
    the difference to no thinking, "lines" the remembered lines of a prompt, "alike" the share of them that
    say nearly the same as another. The model's requests are counted a conversation and a night.
    """
    from evaluation.measures.harness import CHECKOUT_DATA
    from evaluation.measures.month import run

    folder = data or CHECKOUT_DATA / "month"
    run_and_exit(lambda: run(folder, sealed=sealed, embedder=embedder, show_errors=show_errors, out=out))


@click.command("pairs", context_settings=HELP)
@click.option("--data", metavar="FOLDER", help="The labelled sets.  [default: `evaluation` in the checkout]")
@click.option("--show-errors", is_flag=True, help="Also list what is ended wrongly.")
@EMBEDDER
@JSON
def pairs_command(data: str | None, show_errors: bool, embedder: str, out: str | None) -> None:
    """Count the older facts that newer ones end or mark, on people's memories and on labelled pairs.

    Each fact is judged right after it was saved. "ended" facts are no longer valid, "marked" ones are shown as
    perhaps outdated. "replaced" is the number of facts that a question names as outdated.
    """
    from evaluation.measures.harness import CHECKOUT_DATA
    from evaluation.measures.pairs import run

    run_and_exit(lambda: run(data or CHECKOUT_DATA, embedder=embedder, show_errors=show_errors, out=out))


@click.command("documents", context_settings=HELP)
@click.argument("path")
def documents_command(path: str) -> None:
    """Measure search of plain documents, beside BM25 over the same tokens.

    PATH is a folder of Cranfield, TREC or BEIR. Its documents are saved as records, and as turns of one session each.
    The exit code is 1 if either ranks worse than BM25 with Lucene's constants.
    """
    from evaluation.measures.documents import measure_documents

    run_and_exit(lambda: measure_documents(path))


COMMANDS: dict[str, Callable[[], click.Command]] = {
    "boards": lambda: boards_command,
    "documents": lambda: documents_command,
    "month": lambda: month_command,
    "pairs": lambda: pairs_command,
    "questions": lambda: questions_command,
    **{name: partial(build_command, name) for name in _LABELLED},
}
"""What builds the command of each measurement, by its name."""
