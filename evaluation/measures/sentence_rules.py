"""Evaluation of the intake on sentences of conversations that are labelled by meaning.

Each sentence of the owner's is split like a turn, and `reverie.domain.intake` says what it states. A correction is a
sentence that follows an answer of the assistant. Preferences and constraints count as one, since both are rules. The
models are fitted to the first set. The held-out set was written afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from evaluation.measures.harness import DetectionFigures, Evaluation, has_blank
from reverie.consolidation.sentences import find_failure, has_correction, is_statement, split_sentences
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import classify
from reverie.domain.record import STANDING

Rule = Literal["decision", "rule", "failure", "fix", "correction"]
RULES: tuple[Rule, ...] = get_args(Rule)
_LABELS: dict[str, Rule] = {"constraint": "rule", "preference": "rule", **{rule: rule for rule in RULES}}
_NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)

_COLUMNS = ("sentences", "state it", "found", "wrong", "precision", "95 %", "recall", "95 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSentence:
    """A sentence of a conversation, and what it states according to a reader.

    Attributes:
        id: Its name, such as `s017`.
        states: What it states; empty for nothing.
        text: The sentence.
    """

    id: str
    states: frozenset[Rule]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceVerdict:
    """A sentence and what the rules found in it."""

    sentence: LabelledSentence
    found: frozenset[Rule]


def judge_sentence(sentence: LabelledSentence) -> SentenceVerdict:
    """Apply the intake to a sentence."""
    found: set[Rule] = set()
    for part in split_sentences(sentence.text):
        if has_correction(part):
            found.add("correction")
        if not is_statement(part):
            continue
        intake = classify(part, origin="owner", at=_NOW, zone=UTC, door="conversation")
        kind = find_failure(part) or intake.kind
        if kind in STANDING:
            found.add("rule")
        elif kind == "decision" or kind == "failure" or kind == "fix":
            found.add(kind)
    return SentenceVerdict(sentence=sentence, found=frozenset(found))


def compute_figures(results: Iterable[SentenceVerdict], rule: Rule) -> DetectionFigures:
    """Compute the figures of a rule."""
    results = list(results)
    right = sum(rule in each.found & each.sentence.states for each in results)
    return DetectionFigures(
        items=len(results),
        wanted=sum(rule in each.sentence.states for each in results),
        found=sum(rule in each.found for each in results),
        right=right,
        met=right,
    )


def _parse(fields: dict[str, Any], at: str) -> LabelledSentence:
    states = fields["states"]
    if not isinstance(states, list) or not set(states) <= set(_LABELS):
        raise InvalidInput(f"{at} states {states!r}: pass a list of {', '.join(_LABELS)}")
    if has_blank(fields, ("id", "text")):
        raise InvalidInput(f"{at} is not a sentence: id and text must be texts that are not empty")
    return LabelledSentence(
        id=fields["id"], states=frozenset(_LABELS[each] for each in states), text=fields["text"]
    )


def _summarize(verdicts: Sequence[SentenceVerdict]) -> dict[str, Any]:
    names = ("sentences", "stating", "found")
    return {rule: compute_figures(verdicts, rule).to_dict(*names) for rule in RULES}


def _describe(verdict: SentenceVerdict) -> dict[str, Any]:
    sentence = verdict.sentence
    return {"id": sentence.id, "states": sorted(sentence.states), "found": sorted(verdict.found)}


def _iterate_rows(name: str, verdicts: Sequence[SentenceVerdict]) -> Iterator[tuple[str, ...]]:
    yield (name, str(len(verdicts)), *[""] * (len(_COLUMNS) - 1))
    for rule in RULES:
        yield (f" {rule}", "", *compute_figures(verdicts, rule).format_cells())


def _iterate_remarks(name: str, verdicts: Sequence[SentenceVerdict]) -> Iterator[str]:
    silent = [each for each in verdicts if not each.sentence.states]
    wrong = sum(bool(each.found) for each in silent)
    yield f"{name}: {len(silent)} state nothing; something was found in {wrong} of them"


def _iterate_errors(verdicts: Sequence[SentenceVerdict]) -> Iterator[str]:
    for error in ("found wrongly", "missed"):
        for each in verdicts:
            states = each.sentence.states
            differing = each.found - states if error == "found wrongly" else states - each.found
            for rule in sorted(differing):
                yield f"{error}: {rule} ({each.sentence.id}): {each.sentence.text}"


EVALUATION = Evaluation(
    noun="sentence",
    files={"sentences": "sentences.jsonl", "held out": "sentences-heldout.jsonl"},
    fields=("id", "states", "text"),
    parse=_parse,
    judge=judge_sentence,
    help="""Measure how often the intake of conversations is right.

    Judges the labelled sentences of the repository, or those of FILE: one JSON object a line with id, states
    (a list of decision, constraint, preference, failure, fix, correction) and text.
    Precision is the share of what was found that is true. Recall is the share of what is true that was
    found. Each has Wilson's 95 % interval.
    """,
    listed="what was found wrongly, and what was missed",
    columns=_COLUMNS,
    rows=_iterate_rows,
    remarks=_iterate_remarks,
    errors=_iterate_errors,
    summarize=_summarize,
    describe=_describe,
)
"""The evaluation that `python -m evaluation sentences` runs."""
