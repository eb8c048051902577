"""Evaluation of superseding: which changed facts end the record of what held before.

The old text is saved, and a day later the new one, in a memory of their own. Where rules end nothing, the pass
`supersede` runs: "asked" counts the pairs that it asks a model about. One that answers as the label says ends the asked
ones of those that shall end, and one that sees a change in each pair but the made-up one ends all that are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation.measures.harness import Evaluation, format_share, group_rows, has_blank
from evaluation.measures.scripted_verifier import answer_check
from evaluation.output import compute_wilson_interval
from reverie import Memory
from reverie.domain.errors import InvalidInput
from reverie.llm.messages import ModelRequest

EXPECTATIONS = ("ends", "stands")
_COLUMNS = (
    "pairs", "end", "ended", "found", "95 %", "with a model", "found",
    "stand", "wrong", "share", "95 %", "asked",
)  # fmt: skip
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
    """A pair, whether the old record ended when the new text was saved, and otherwise whether a model is asked."""

    pair: ChangePair
    ended: bool
    asked: bool


def judge_pair(pair: ChangePair) -> ChangeVerdict:
    """Save both texts of a pair, a day apart."""
    moment = [_START]

    def see_change(request: ModelRequest) -> str:
        return answer_check(request.messages[0].content, lambda _: True)

    with Memory.open(":memory:", clock=lambda: moment[0], embedder="none", model=see_change) as memory:
        old = memory.save(pair.old).record
        moment[0] += timedelta(days=1)
        memory.save(pair.new)
        after = memory.get(old.id)
        assert after is not None
        if after.valid_to is not None:
            return ChangeVerdict(pair=pair, ended=True, asked=False)
        memory.dreams.run(["supersede"])
        last = memory.get(old.id)
        return ChangeVerdict(pair=pair, ended=False, asked=last is not None and last.valid_to is not None)


@dataclass(frozen=True, slots=True)
class _Counts:
    """Numbers of pairs with one label: all, ended by rules, and others that a model is asked about."""

    total: int
    ended: int
    asked: int


def _count(verdicts: Sequence[ChangeVerdict], *, ends: bool) -> _Counts:
    chosen = [each for each in verdicts if each.pair.ends is ends]
    return _Counts(len(chosen), sum(each.ended for each in chosen), sum(each.asked for each in chosen))


def _parse(fields: dict[str, Any], at: str) -> ChangePair:
    if has_blank(fields, fields):
        raise InvalidInput(f"{at} is not a pair: every field must be a text that is not empty")
    if (expect := fields.pop("expect")) not in EXPECTATIONS:
        raise InvalidInput(f"{at} expects {expect!r}: use one of {', '.join(EXPECTATIONS)}")
    return ChangePair(**fields, ends=expect == "ends")


def _summarize(verdicts: Sequence[ChangeVerdict]) -> dict[str, Any]:
    end, stand = _count(verdicts, ends=True), _count(verdicts, ends=False)
    return {
        "pairs": len(verdicts),
        "end": end.total,
        "ended": end.ended,
        "ended_interval": compute_wilson_interval(end.ended, end.total),
        "ended_with_model": end.ended + end.asked,
        "stand": stand.total,
        "wrong": stand.ended,
        "wrong_interval": compute_wilson_interval(stand.ended, stand.total),
        "stand_asked": stand.asked,
    }


def _format_row(name: str, verdicts: Sequence[ChangeVerdict]) -> tuple[str, ...]:
    end, stand = _count(verdicts, ends=True), _count(verdicts, ends=False)
    with_model = end.ended + end.asked
    return (
        name,
        *map(str, (len(verdicts), end.total, end.ended)),
        *format_share(end.ended, end.total),
        str(with_model),
        format_share(with_model, end.total)[0],
        *map(str, (stand.total, stand.ended)),
        *format_share(stand.ended, stand.total),
        str(stand.asked),
    )


def _iterate_errors(verdicts: Sequence[ChangeVerdict]) -> Iterator[str]:
    for error, ended in (("ended wrongly", True), ("stands", False)):
        for each in verdicts:
            if each.ended == ended != each.pair.ends:
                yield f"{error}: {each.pair.id}"
                yield f"  old: {each.pair.old}"
                yield f"  new: {each.pair.new}"


EVALUATION = Evaluation(
    noun="pair",
    files={"pairs": "supersede.jsonl", "retold": "supersede-retold.jsonl"},
    sealed_files={"sealed": "supersede-sealed.jsonl", "retold, sealed": "supersede-retold-sealed.jsonl"},
    fields=("id", "language", "old", "new", "expect"),
    optional=("why", "group"),
    parse=_parse,
    judge=judge_pair,
    help="""Measure whether saving what has changed ends the record of what held before.

    Saves the labelled pairs of the repository, or those of FILE: one JSON object a line with id, old, new and
    expect (ends, stands). Recall is the share of the outdated records that ended. "wrong" counts the
    records that ended although they hold. Each share has Wilson's 95 % interval.
    """,
    listed="records ended wrongly, and outdated records that stand",
    columns=_COLUMNS,
    rows=group_rows(lambda each: each.pair.language, _format_row),
    errors=_iterate_errors,
    summarize=_summarize,
    describe=lambda verdict: {"id": verdict.pair.id, "ends": verdict.pair.ends, "ended": verdict.ended},
    group_of=lambda pair: pair.language,
    group_name="language",
)
"""The evaluation that `python -m evaluation supersede` runs."""
