"""`reverie eval`: measure how well recall finds what it should on a test collection, and what else there is
to measure: `reverie eval attacks`, `reverie eval merge`, `reverie eval sentences` and `reverie eval secrets`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import click

from reverie.domain.errors import ReverieError
from reverie.evals.collections.datasets import FORMATS, Format
from reverie.evals.recall.report import main_eval
from reverie.search.hits import Unit

_HELP = {"help_option_names": ["-h", "--help"]}


@click.command("merge", context_settings=_HELP)
@click.argument("pairs", required=False)
@click.option("--group", help="Only pairs of this group.")
@click.option(
    "--show-errors", is_flag=True, help="Also list what was folded wrongly, and what was not folded."
)
@click.option("--json", "out", metavar="OUT", help="Also write every figure to this file.")
def merge_command(pairs: str | None, group: str | None, show_errors: bool, out: str | None) -> None:
    """Measure how well saving tells a repetition from another fact.

    The pairs of texts that come with Reverie, or those of the file PAIRS: one JSON object a line with id,
    group, label (repeats, extends, differs), old and new. Precision is the share of what was folded that lost
    nothing, recall the share of what may fold that was; each with Wilson's 95 % interval.
    """
    from reverie.evals.rules.deduplication_report import main_merge

    try:
        code = main_merge(pairs, group=group, show_errors=show_errors, out=out)
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


@click.command("sentences", context_settings=_HELP)
@click.argument("sentences", required=False)
@click.option("--show-errors", is_flag=True, help="Also list what was found wrongly, and what was missed.")
@click.option("--json", "out", metavar="OUT", help="Also write every figure to this file.")
def sentences_command(sentences: str | None, show_errors: bool, out: str | None) -> None:
    """Measure how often the rules that learn from conversations are right.

    The labelled sentences that come with Reverie, or those of the file SENTENCES: one JSON object a line with
    id, said (user, assistant), states (a list of decision, constraint, preference, failure, fix, correction)
    and text. Precision is the share of what a rule found that is so, recall the share of what is so that it
    found; each with Wilson's 95 % interval.
    """
    from reverie.evals.rules.sentence_rules import main_sentences

    try:
        code = main_sentences(sentences, show_errors=show_errors, out=out)
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


@click.command("secrets", context_settings=_HELP)
@click.argument("texts", required=False)
@click.option("--show-errors", is_flag=True, help="Also list what was missed, and what was redacted wrongly.")
@click.option("--speed", is_flag=True, help="Also measure how long it takes, beside a durable save.")
@click.option("--json", "out", metavar="OUT", help="Also write every figure to this file.")
def secrets_command(texts: str | None, show_errors: bool, speed: bool, out: str | None) -> None:
    """Measure how many secrets get past the rules, and how often something else is taken for one.

    The labelled texts that come with Reverie, or those of the file TEXTS: one JSON object a line with id, set
    (develop, heldout), kind, seed and text. A secret is missed when a character of it is left; recall, and
    the share of look-alikes that were redacted, each with Wilson's 95 % interval. "left" is the share of the
    secrets' characters that stayed, "too much" that of the other characters that went.
    """
    from reverie.evals.rules.secret_detection import main_secrets

    try:
        code = main_secrets(texts, show_errors=show_errors, speed=speed, out=out)
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


@click.command("attacks", context_settings=_HELP)
@click.argument("attacks", required=False)
@click.option("--kind", help="Only cases of this kind.")
@click.option(
    "--show-errors",
    is_flag=True,
    help="Also list what was not blocked, and harmless texts that were changed.",
)
@click.option("--json", "out", metavar="OUT", help="Also write every result to this file.")
def attacks_command(attacks: str | None, kind: str | None, show_errors: bool, out: str | None) -> None:
    """Try whether what others wrote can become a memory that is believed.

    The cases that come with Reverie, or those of the file ATTACKS: one JSON object a line with id, kind, way,
    text and poison. Each is played in a memory of its own, with a model that obeys it; the share that was
    blocked comes with Wilson's 95 % interval. Of the kind benign are harmless texts, which are to be shown as
    they are, and facts of the owner's, which are to be trusted. Exits with 1 when an attack got through.
    """
    from reverie.evals.rules.prompt_attacks import main_attacks

    try:
        code = main_attacks(attacks, kind=kind, show_errors=show_errors, out=out)
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)


class _Measured(click.Command):
    """A command on PATH where some words for PATH name another command, with options of its own."""

    others: ClassVar[Mapping[str, click.Command]] = {
        "attacks": attacks_command,
        "merge": merge_command,
        "sentences": sentences_command,
        "secrets": secrets_command,
    }

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command that `args` call."""
        if args and (other := self.others.get(args[0])):
            return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the context is of."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command("eval", cls=_Measured, context_settings=_HELP)
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

    `reverie eval attacks` tries instead whether what others wrote can become a memory that is believed.
    `reverie eval merge` measures how well saving tells a repetition from another fact, `reverie eval
    sentences` how often the rules that learn from conversations are right, `reverie eval secrets` how many
    secrets get past redaction: see their own `--help`.
    """
    try:
        code = main_eval(
            path, format=format, conversations=conversations, unit=unit, ks=ks, min_score=min_score, out=out
        )
    except ReverieError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(code)
