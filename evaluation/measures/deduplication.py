"""Evaluation of deduplication on pairs of texts labelled by meaning.

The old text of a pair is a record, and the new one is saved. `deduplication.decide` says what becomes of it,
without a store or a model. The held-out set was written after the rules were last changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from evaluation.measures.harness import DetectionFigures, Evaluation, group_rows, has_blank
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record
from reverie.domain.similarity.deduplication import decide

Label = Literal["repeats", "extends", "differs"]
"""`repeats`: the old text says what the new one says, which may fold into it. `extends`: the new one says all
of the old one and more. `differs`: neither. Only a pair that repeats may fold."""

LABELS: tuple[Label, ...] = get_args(Label)

_FIELDS = ("id", "group", "label", "old", "new")
_COLUMNS = ("pairs", "may", "fold", "wrong", "precision", "95 %", "recall", "95 %")
_LONGEST_SHOWN = 300
_NOW = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePair:
    """Two texts, and how the new one relates to the old one.

    Attributes:
        id: Its name, such as `numbers-07`.
        group: What is tried with it.
        label: What a reader says of it.
        old: The text that is there.
        new: The text that is saved.
    """

    id: str
    group: str
    label: Label
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """The result of saving a pair.

    Attributes:
        pair: The pair.
        folded: Whether the new text reinforced the old record. Otherwise it became a record of its own.
    """

    pair: MergePair
    folded: bool

    @property
    def may_fold(self) -> bool:
        """Whether folding is allowed."""
        return self.pair.label == "repeats"

    @property
    def right(self) -> bool:
        """Whether it was folded without a loss."""
        return self.folded and self.may_fold


def judge_pair(pair: MergePair) -> PairVerdict:
    """Save a pair: two records of the owner, equal but for their texts."""
    decision = decide(_build_record("1" * 12, pair.new), [_build_record("0" * 12, pair.old)], now=_NOW)
    return PairVerdict(pair=pair, folded=decision.old is not None)


def _build_record(id: str, text: str) -> Record:
    return Record(id=id, content=text, created_at=_NOW, updated_at=_NOW, last_seen_at=_NOW)


def compute_figures(verdicts: Iterable[PairVerdict]) -> DetectionFigures:
    """Compute the figures of some verdicts."""
    verdicts = list(verdicts)
    right = sum(each.right for each in verdicts)
    return DetectionFigures(
        items=len(verdicts),
        wanted=sum(each.may_fold for each in verdicts),
        found=sum(each.folded for each in verdicts),
        right=right,
        met=right,
    )


def group_figures(verdicts: Sequence[PairVerdict]) -> dict[str, DetectionFigures]:
    """Compute the figures of each group, in the order of the set."""
    names = dict.fromkeys(each.pair.group for each in verdicts)
    return {name: compute_figures(each for each in verdicts if each.pair.group == name) for name in names}


def _parse(fields: dict[str, Any], at: str) -> MergePair:
    if has_blank(fields, _FIELDS):
        raise InvalidInput(f"{at} is not a pair: every field must be a text that is not empty")
    if fields["label"] not in LABELS:
        raise InvalidInput(f"{at} has the label {fields['label']!r}: use one of {', '.join(LABELS)}")
    return MergePair(**fields)


def _summarize(verdicts: Sequence[PairVerdict]) -> dict[str, Any]:
    names = ("pairs", "may_fold", "folded")
    groups = {group: figures.to_dict(*names) for group, figures in group_figures(verdicts).items()}
    return {"all": compute_figures(verdicts).to_dict(*names), "groups": groups}


def _describe(verdict: PairVerdict) -> dict[str, Any]:
    return {
        "id": verdict.pair.id,
        "group": verdict.pair.group,
        "label": verdict.pair.label,
        "folded": verdict.folded,
        "right": verdict.right if verdict.folded else not verdict.may_fold,
    }


def _format_row(name: str, verdicts: Sequence[PairVerdict]) -> tuple[str, ...]:
    return (name, str(len(verdicts)), *compute_figures(verdicts).format_cells())


def _iterate_remarks(name: str, verdicts: Sequence[PairVerdict]) -> Iterator[str]:
    repeats, extends = _format_folded(verdicts, "repeats"), _format_folded(verdicts, "extends")
    yield f"{name}: folded {repeats} that repeat, {extends} that extend"


def _format_folded(verdicts: Sequence[PairVerdict], label: Label) -> str:
    labelled = [each for each in verdicts if each.pair.label == label]
    return f"{sum(each.folded for each in labelled)} of {len(labelled)}"


def _iterate_errors(verdicts: Sequence[PairVerdict]) -> Iterator[str]:
    """List every pair that was folded wrongly, then every one that might have been folded."""
    for each in verdicts:
        if each.folded and not each.right:
            yield from _format_verdict("folded wrongly", each)
    for each in verdicts:
        if each.may_fold and not each.folded:
            yield from _format_verdict("not folded", each)


def _format_verdict(error: str, verdict: PairVerdict) -> tuple[str, str, str]:
    pair = verdict.pair
    old, new = (" ".join(text.split())[:_LONGEST_SHOWN] for text in (pair.old, pair.new))
    return f"{error}: {pair.id} ({pair.label})", f"  old: {old}", f"  new: {new}"


EVALUATION = Evaluation(
    noun="pair",
    files={"pairs": "merge-pairs.jsonl", "held out": "merge-pairs-heldout.jsonl", "traps": "fold.jsonl"},
    sealed_files={"sealed": "fold-sealed.jsonl"},
    fields=_FIELDS,
    optional=("language", "why"),
    parse=_parse,
    judge=judge_pair,
    help="""Measure how well saving tells a repetition from another fact.

    Judges the labelled pairs of the repository, or those of FILE: one JSON object a line with id, group,
    label (repeats, extends, differs), old and new. Precision is the share of the folded pairs that lost
    nothing. Recall is the share of the pairs that may fold that did. Each has Wilson's 95 % interval.
    """,
    listed="pairs folded wrongly, and pairs not folded",
    columns=_COLUMNS,
    rows=group_rows(lambda each: each.pair.group, _format_row),
    remarks=_iterate_remarks,
    errors=_iterate_errors,
    summarize=_summarize,
    describe=_describe,
    group_of=lambda pair: pair.group,
)
"""The evaluation that `python -m evaluation fold` runs."""
