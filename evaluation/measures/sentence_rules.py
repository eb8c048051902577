"""Evaluation of the sentence rules on sentences labelled by meaning.

Each sentence is split like a turn, and `reverie.consolidation.rules` says what it states. A correction is a
sentence that follows an answer of the assistant. The rules were written with the first set. The held-out set
was written afterwards and has changed no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.measures.harness import DetectionFigures, Evaluation, has_blank
from reverie.consolidation import rules
from reverie.consolidation.rules import RULES, Rule, Speaker
from reverie.domain.errors import InvalidInput

_COLUMNS = ("sentences", "state it", "found", "wrong", "precision", "95 %", "recall", "95 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSentence:
    """A sentence of a conversation, and what it states according to a reader.

    Attributes:
        id: Its name, such as `s017`.
        said: Who says it: `user`, after an answer of the assistant's, or `assistant`.
        states: What it states; empty for nothing.
        text: The sentence.
    """

    id: str
    said: Speaker
    states: frozenset[Rule]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceVerdict:
    """A sentence and what the rules found in it."""

    sentence: LabelledSentence
    found: frozenset[Rule]


def judge_sentence(sentence: LabelledSentence) -> SentenceVerdict:
    """Apply the rules to a sentence."""
    parts = rules.split_sentences(sentence.text)
    found = frozenset(rule for part in parts for rule in rules.match_rules(part, speaker=sentence.said))
    return SentenceVerdict(sentence=sentence, found=found)


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
    if not isinstance(states, list) or not set(states) <= set(RULES):
        raise InvalidInput(f"{at} states {states!r}: pass a list of {', '.join(RULES)}")
    if fields["said"] not in {"user", "assistant"}:
        raise InvalidInput(f"{at}: said is {fields['said']!r}; use user or assistant")
    if has_blank(fields, ("id", "text")):
        raise InvalidInput(f"{at} is not a sentence: id and text must be texts that are not empty")
    return LabelledSentence(
        id=fields["id"], said=fields["said"], states=frozenset(states), text=fields["text"]
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
                yield f"{error}: {rule} ({each.sentence.id}, {each.sentence.said}): {each.sentence.text}"


EVALUATION = Evaluation(
    noun="sentence",
    files={"sentences": "sentences.jsonl", "held out": "sentences-heldout.jsonl"},
    fields=("id", "said", "states", "text"),
    parse=_parse,
    judge=judge_sentence,
    help="""Measure how often the rules that learn from conversations are right.

    Judges the labelled sentences of the repository, or those of FILE: one JSON object a line with id, said
    (user, assistant), states (a list of decision, constraint, preference, failure, fix, correction) and text.
    Precision is the share of what a rule found that is true. Recall is the share of what is true that the
    rule found. Each has Wilson's 95 % interval.
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
