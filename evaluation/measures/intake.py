"""Evaluation of the intake: what sentences become when they are saved, and when they are said.

Sentences are labelled with their class, such as `rule`, `fact` or `request`. Facts of the invented people of
`questions` are saved too: their preferences and constraints are rules, all others are not. Sentences of their
conversations count how many are taken for rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evaluation.measures.harness import CHECKOUT_DATA, DetectionFigures, Evaluation, has_blank
from reverie.consolidation.sentences import is_statement, split_sentences
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import CLASSES, KINDS_OF_CLASSES, classify
from reverie.domain.record import STANDING, Kind

_COLUMNS = ("sentences", "wanted", "found", "wrong", "precision", "95 %", "recall", "95 %")
_NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
_PER = 800


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeSample:
    """A sentence with its class."""

    id: str
    language: str
    text: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeVerdict:
    """A sentence with the kinds that it gets when it is saved and when it is said."""

    sentence: IntakeSample
    saved: Kind | None
    said: Kind | None

    @property
    def wanted(self) -> Kind | None:
        """The right kind; None if it is not worth keeping."""
        return KINDS_OF_CLASSES.get(self.sentence.kind)


def judge_text(sentence: IntakeSample) -> IntakeVerdict:
    """Return what a sentence becomes."""
    return IntakeVerdict(sentence=sentence, saved=_save(sentence.text), said=_say(sentence.text))


def _save(text: str) -> Kind | None:
    return classify(text, origin="owner", at=_NOW, zone=UTC).kind


def _say(text: str) -> Kind | None:
    if not is_statement(text):
        return None
    return classify(text, origin="owner", at=_NOW, zone=UTC, door="conversation").kind


def _count(pairs: Sequence[tuple[bool, bool]]) -> DetectionFigures:
    """Return the figures of pairs: whether it was wanted, and whether it was found."""
    right = sum(wanted and found for wanted, found in pairs)
    return DetectionFigures(
        items=len(pairs),
        wanted=sum(wanted for wanted, _ in pairs),
        found=sum(found for _, found in pairs),
        right=right,
        met=right,
    )


def _compute_figures(verdicts: Sequence[IntakeVerdict]) -> dict[str, DetectionFigures]:
    kept = [each for each in verdicts if each.wanted is not None]
    figures = {
        "rules at save": _count([(each.wanted in STANDING, each.saved in STANDING) for each in kept]),
        "kept in a conversation": _count(
            [(each.wanted is not None, each.said is not None) for each in verdicts]
        ),
        "rules in a conversation": _count(
            [(each.wanted in STANDING, each.said in STANDING) for each in verdicts]
        ),
    }
    for kind in dict.fromkeys(KINDS_OF_CLASSES.values()):
        figures[f"{kind} at save"] = _count([(each.wanted == kind, each.saved == kind) for each in kept])
    return figures


def _iterate_rows(name: str, verdicts: Sequence[IntakeVerdict]) -> Iterator[tuple[str, ...]]:
    for row, figures in _compute_figures(verdicts).items():
        yield (f"{name}: {row}", str(figures.items), *figures.format_cells())


def _iterate_remarks(name: str, verdicts: Sequence[IntakeVerdict]) -> Iterator[str]:
    people = [
        json.loads(file.read_text("utf-8"))
        for file in sorted(
            (CHECKOUT_DATA / "questions").glob(f"{'sealed' if 'sealed' in name else 'open'}-*.json")
        )
    ]
    facts = [fact for person in people for fact in person["facts"]]
    asked = {
        (number, answer)
        for number, person in enumerate(people)
        for question in person["questions"]
        if question["type"] == "instruction"
        for answer in question["answers"]
    }
    rules = [
        fact["text"]
        for n, person in enumerate(people)
        for fact in person["facts"]
        if (n, fact["id"]) in asked
    ]
    others = [fact["text"] for fact in facts if fact.get("kind") not in STANDING]
    said = [
        sentence
        for person in people
        for conversation in person["conversations"]
        for turn in conversation["turns"]
        if turn["role"] == "user"
        for sentence in split_sentences(turn["text"])
    ]
    standing = sum(_save(text) in STANDING for text in rules)
    wrong = sum(_save(text) in STANDING for text in others)
    heard = sum(_say(text) in STANDING for text in said)
    yield f"{name}: of {len(rules)} facts that are instructions, {standing} are rules when they are saved"
    share = wrong / max(1, len(others))
    yield f"{name}: of {len(others)} facts that are no rules, {wrong} are taken for one ({share:.1%})"
    yield f"{name}: of {_PER} sentences of conversations, {heard * _PER / max(1, len(said)):.1f} are taken for a rule"


def _iterate_errors(verdicts: Sequence[IntakeVerdict]) -> Iterator[str]:
    for each in verdicts:
        if each.wanted is not None and each.saved != each.wanted:
            yield f"saved as {each.saved}: {each.sentence.kind} ({each.sentence.id}): {each.sentence.text}"
        if each.wanted is None and each.said is not None:
            yield f"kept as {each.said}: {each.sentence.kind} ({each.sentence.id}): {each.sentence.text}"


def _parse(fields: dict[str, Any], at: str) -> IntakeSample:
    if has_blank(fields, ("id", "language", "text")):
        raise InvalidInput(f"{at} is not a sentence: id, language and text must be texts that are not empty")
    if fields["kind"] not in CLASSES:
        raise InvalidInput(f"{at} has the kind {fields['kind']!r}: use one of {', '.join(CLASSES)}")
    return IntakeSample(**fields)


EVALUATION = Evaluation(
    noun="sentence",
    files={"sentences": "intake.jsonl"},
    sealed_files={"sealed": "intake-sealed.jsonl"},
    fields=("id", "language", "text", "kind"),
    parse=_parse,
    judge=judge_text,
    help="""Measure what sentences become when they are saved or said.

    Judges the labelled sentences of the repository, or those of FILE: one JSON object a line with id, language,
    text and kind (rule, health, preference, profile, fact, decision, plan, event, failure, fix, lesson,
    correction, request or other). Rules are constraints and preferences, which are in every prompt.
    """,
    listed="what was saved as another kind, and what was kept for nothing",
    columns=_COLUMNS,
    rows=_iterate_rows,
    remarks=_iterate_remarks,
    errors=_iterate_errors,
    summarize=lambda verdicts: {
        name: figures.to_dict("sentences", "wanted", "found")
        for name, figures in _compute_figures(verdicts).items()
    },
)
"""The evaluation that `python -m evaluation intake` runs."""
