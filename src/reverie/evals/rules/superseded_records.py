"""Evaluation of superseding: which changed facts end the record of what held before.

The old text is saved, and a day later the new one, in a memory of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from reverie import Memory
from reverie.domain.errors import InvalidInput
from reverie.evals.recall import metrics
from reverie.evals.rules.harness import Evaluation, Results, format_share, has_blank, iterate_rows_by_language

EXPECTATIONS = ("ends", "stands")
_COLUMNS = ("pairs", "end", "ended", "found", "95 %", "stand", "wrong", "share", "95 %")
_START = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePair:
    """Two facts, and whether the new one ends the old one.

    Attributes:
        id: Its name, such as `s017`.
        language: Its language, such as `en`.
        old: The text that is there.
        new: The text that is saved a day later.
        ends: Whether the old text no longer holds then.
    """

    id: str
    language: str
    old: str
    new: str
    ends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeVerdict:
    """A pair, and whether the old record ended when the new text was saved."""

    pair: ChangePair
    ended: bool


def judge_pair(pair: ChangePair) -> ChangeVerdict:
    """Save both texts of a pair, a day apart."""
    moment = [_START]
    with Memory.open(":memory:", clock=lambda: moment[0], embedder="none") as memory:
        old = memory.save(pair.old).record
        moment[0] += timedelta(days=1)
        memory.save(pair.new)
        after = memory.get(old.id)
        assert after is not None
        return ChangeVerdict(pair=pair, ended=after.valid_to is not None)


def _count(verdicts: Sequence[ChangeVerdict]) -> tuple[int, int, int, int]:
    """Return how many records shall end, how many of them did, how many stand, and how many of them ended."""
    ends = [each.ended for each in verdicts if each.pair.ends]
    stands = [each.ended for each in verdicts if not each.pair.ends]
    return len(ends), sum(ends), len(stands), sum(stands)


def _parse(fields: dict[str, Any], at: str) -> ChangePair:
    if has_blank(fields, fields):
        raise InvalidInput(f"{at} is not a pair: every field must be a text that is not empty")
    if (expect := fields.pop("expect")) not in EXPECTATIONS:
        raise InvalidInput(f"{at} expects {expect!r}: use one of {', '.join(EXPECTATIONS)}")
    return ChangePair(**fields, ends=expect == "ends")


def _summarize(verdicts: Sequence[ChangeVerdict]) -> dict[str, Any]:
    end, ended, stand, wrong = _count(verdicts)
    return {
        "pairs": len(verdicts),
        "end": end,
        "ended": ended,
        "ended_interval": metrics.compute_wilson_interval(ended, end),
        "stand": stand,
        "wrong": wrong,
        "wrong_interval": metrics.compute_wilson_interval(wrong, stand),
    }


def _iterate_rows(results: Results[ChangeVerdict]) -> Iterator[tuple[str, ...]]:
    return iterate_rows_by_language(results, lambda each: each.pair.language, _format_row)


def _format_row(name: str, verdicts: Sequence[ChangeVerdict]) -> tuple[str, ...]:
    end, ended, stand, wrong = _count(verdicts)
    return (
        name,
        *map(str, (len(verdicts), end, ended)),
        *format_share(ended, end),
        *map(str, (stand, wrong)),
        *format_share(wrong, stand),
    )


def _iterate_errors(results: Results[ChangeVerdict]) -> Iterator[str]:
    verdicts = [each for those in results.values() for each in those]
    for error, ended in (("ended wrongly", True), ("stands", False)):
        for each in verdicts:
            if each.ended == ended != each.pair.ends:
                yield f"{error}: {each.pair.id}"
                yield f"  old: {each.pair.old}"
                yield f"  new: {each.pair.new}"


EVALUATION = Evaluation(
    noun="pair",
    files={"pairs": "supersede.jsonl"},
    sealed_files={"sealed": "supersede-sealed.jsonl"},
    fields=("id", "language", "old", "new", "expect"),
    optional=("why", "group"),
    parse=_parse,
    judge=judge_pair,
    columns=_COLUMNS,
    rows=_iterate_rows,
    errors=_iterate_errors,
    summarize=_summarize,
    describe=lambda verdict: {"id": verdict.pair.id, "ends": verdict.pair.ends, "ended": verdict.ended},
    group_of=lambda pair: pair.language,
    group_name="language",
)
"""The evaluation that `reverie eval supersede` runs."""
