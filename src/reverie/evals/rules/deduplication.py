"""How well does saving tell a repetition from another fact? Measured on pairs of texts labelled by meaning.

Each pair goes the way of a save: the old text is a record, the new one is to be saved, and
`reverie.domain.similarity.deduplication.decide` says what becomes of it. No store and no model is asked. Two sets come with the
package: the pairs, and a smaller set held out, which was written after the rules were last changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal, assert_never, get_args

from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record
from reverie.domain.similarity.deduplication import Create, Extend, Reinforce, decide
from reverie.evals.recall import metrics

Label = Literal["repeats", "extends", "differs"]
"""`repeats`: the old text says already what the new one says, which may fold into it. `extends`: the new one
says all of the old one and more; it may fold when the new text stays. `differs`: it must never fold."""
Outcome = Literal["create", "reinforce", "extend"]

LABELS: tuple[Label, ...] = get_args(Label)
SETS: Mapping[str, str] = {"pairs": "merge-pairs.jsonl", "held out": "merge-pairs-heldout.jsonl"}
"""The sets in the package, by name."""

_FIELDS = ("id", "group", "label", "old", "new")
_NOW = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePair:
    """Two texts and how the new one stands to the old one.

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
    """What saving did with a pair.

    Attributes:
        pair: The pair.
        outcome: `create`: it stayed a record of its own; `reinforce`, `extend`: it was folded.
        stays: The text of the record that it was folded into; the new text where it was not.
    """

    pair: MergePair
    outcome: Outcome
    stays: str

    @property
    def may_fold(self) -> bool:
        """Whether folding is allowed at all."""
        return self.pair.label != "differs"

    @property
    def folded(self) -> bool:
        """Whether it was folded."""
        return self.outcome != "create"

    @property
    def keeps_the_longer(self) -> bool:
        """Whether nothing that either text says is missing from the one that stays."""
        if self.pair.label == "extends":
            return self.stays == self.pair.new
        return len(self.stays) >= len(self.pair.old)

    @property
    def right(self) -> bool:
        """Whether folding it lost nothing."""
        return self.folded and self.may_fold and self.keeps_the_longer


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """How saving did on a number of pairs.

    Attributes:
        pairs: How many there were.
        may_fold: How many of them may fold.
        folded: How many were folded.
        right: How many of those lost nothing by it.
        extending: How many of the folded say more than what was there.
        extended: In how many of these the text that says more stays.
    """

    pairs: int
    may_fold: int
    folded: int
    right: int
    extending: int
    extended: int

    @property
    def wrong(self) -> int:
        """How many were folded that had better not been."""
        return self.folded - self.right

    @property
    def precision(self) -> float | None:
        """The share of the folded that lost nothing; None where none was folded."""
        return self.right / self.folded if self.folded else None

    @property
    def recall(self) -> float | None:
        """The share of those that may fold that did, and lost nothing; None where there are none."""
        return self.right / self.may_fold if self.may_fold else None

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON has them, with their intervals."""
        return {
            "pairs": self.pairs,
            "may_fold": self.may_fold,
            "folded": self.folded,
            "wrong": self.wrong,
            "precision": _round_value(self.precision),
            "precision_interval": _round_ends(metrics.compute_wilson_interval(self.right, self.folded)),
            "recall": _round_value(self.recall),
            "recall_interval": _round_ends(metrics.compute_wilson_interval(self.right, self.may_fold)),
            "extending_folded": self.extending,
            "extending_kept": self.extended,
        }


def load_shipped(name: str) -> tuple[MergePair, ...]:
    """A set that comes with the package.

    Args:
        name: `pairs` or `held out`.
    """
    file = resources.files("reverie.evals") / "data" / SETS[name]
    return _parse_pairs(file.read_text(encoding="utf-8"), name=SETS[name])


def read_pairs(path: str | Path) -> tuple[MergePair, ...]:
    """The pairs of a file of your own: one JSON object a line, with the fields of `Pair`.

    Raises:
        InvalidInput: it cannot be read, or a line is not a pair; the message says which.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{str(path)!r} cannot be read: {why}") from None
    return _parse_pairs(text, name=str(path))


def _parse_pairs(text: str, *, name: str) -> tuple[MergePair, ...]:
    pairs = [
        _parse_pair(line, at=f"{name}, line {number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not pairs:
        raise InvalidInput(f"{name} has no pairs: write one JSON object a line")
    often, count = Counter(pair.id for pair in pairs).most_common(1)[0]
    if count > 1:
        raise InvalidInput(f"{name} has {count} pairs {often!r}: give each an id of its own")
    return tuple(pairs)


def _parse_pair(line: str, *, at: str) -> MergePair:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{at} is not JSON: {error.msg}") from None
    if not isinstance(fields, dict) or sorted(fields) != sorted(_FIELDS):
        raise InvalidInput(f"{at} is no pair: it needs {', '.join(_FIELDS)} and nothing else")
    if not all(isinstance(value, str) and value.strip() for value in fields.values()):
        raise InvalidInput(f"{at} is no pair: every field is a text that is not empty")
    if fields["label"] not in LABELS:
        raise InvalidInput(f"{at} has the label {fields['label']!r}: it is one of {', '.join(LABELS)}")
    return MergePair(**fields)


def judge_pair(pair: MergePair) -> PairVerdict:
    """What saving does with a pair: two records of the owner's, alike in all but their texts."""
    found = decide(_build_record("1" * 12, pair.new), [_build_record("0" * 12, pair.old)], now=_NOW)
    match found:
        case Create():
            return PairVerdict(pair=pair, outcome="create", stays=pair.new)
        case Reinforce():
            return PairVerdict(pair=pair, outcome="reinforce", stays=found.after.content)
        case Extend():
            return PairVerdict(pair=pair, outcome="extend", stays=found.after.content)
        case _:
            assert_never(found)


def _build_record(id: str, text: str) -> Record:
    return Record(id=id, content=text, created_at=_NOW, updated_at=_NOW, last_seen_at=_NOW)


def compute_figures(verdicts: Iterable[PairVerdict]) -> PairFigures:
    """How saving did, in numbers."""
    verdicts = list(verdicts)
    extending = [each for each in verdicts if each.folded and each.pair.label == "extends"]
    return PairFigures(
        pairs=len(verdicts),
        may_fold=sum(each.may_fold for each in verdicts),
        folded=sum(each.folded for each in verdicts),
        right=sum(each.right for each in verdicts),
        extending=len(extending),
        extended=sum(each.keeps_the_longer for each in extending),
    )


def group_figures(verdicts: Sequence[PairVerdict]) -> dict[str, PairFigures]:
    """How saving did in each group, in the order of the set."""
    names = dict.fromkeys(each.pair.group for each in verdicts)
    return {name: compute_figures(each for each in verdicts if each.pair.group == name) for name in names}


def _round_value(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _round_ends(ends: tuple[float, float] | None) -> list[float] | None:
    return None if ends is None else [round(end, 6) for end in ends]
