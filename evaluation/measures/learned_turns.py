"""Evaluation of what is learned from a turn without a model.

Each turn is said in a conversation of its own, after the turns before it, and answered with a few words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.measures.harness import DetectionFigures, Evaluation, group_rows, has_blank
from reverie import Memory
from reverie.domain.errors import InvalidInput

_COLUMNS = ("turns", "wanted", "learned", "wrong", "precision", "95 %", "recall", "95 %")
_ANSWER = "All right."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Something that has to be learned: the words that stand in the record, and its kind."""

    words: tuple[str, ...]
    kind: str

    def is_in(self, content: str) -> bool:
        """Return whether a record with this content says it."""
        return all(word.casefold() in content.casefold() for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTurn:
    """A turn of the user's, and what has to be learned from it.

    Attributes:
        id: Its name, such as `l017`.
        language: Its language, such as `en`.
        before: Role and text of the turns before it.
        text: The turn.
        learn: What has to be learned; empty for nothing.
    """

    id: str
    language: str
    before: tuple[tuple[str, str], ...]
    text: str
    learn: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnVerdict:
    """A turn, and the contents of the records that were learned from it."""

    turn: LabelledTurn
    contents: tuple[str, ...]

    @property
    def wrong(self) -> list[str]:
        """Contents that nobody wanted."""
        return [each for each in self.contents if not any(want.is_in(each) for want in self.turn.learn)]

    @property
    def missed(self) -> list[Wanted]:
        """Expected statements that no record has."""
        return [want for want in self.turn.learn if not any(map(want.is_in, self.contents))]


def judge_turn(turn: LabelledTurn) -> TurnVerdict:
    """Say a turn in a conversation, and read which records come of it."""
    with Memory.open(":memory:", embedder="none") as memory:
        session = memory.session("eval:1")
        for role, text in turn.before:
            session.add(role, text)  # type: ignore[arg-type]
        said = session.add("user", turn.text)
        session.add("assistant", _ANSWER)
        learned = [each.content for each in memory.list(limit=100) if said.id in each.references]
    return TurnVerdict(turn=turn, contents=tuple(sorted(learned)))


def _compute_figures(verdicts: Sequence[TurnVerdict]) -> DetectionFigures:
    wanted = sum(len(each.turn.learn) for each in verdicts)
    learned = sum(len(each.contents) for each in verdicts)
    return DetectionFigures(
        items=len(verdicts),
        wanted=wanted,
        found=learned,
        right=learned - sum(len(each.wrong) for each in verdicts),
        met=wanted - sum(len(each.missed) for each in verdicts),
    )


def _parse(fields: dict[str, Any], at: str) -> LabelledTurn:
    if has_blank(fields, ("id", "language", "text")):
        raise InvalidInput(f"{at} is not a turn: id, language and text must be texts that are not empty")
    try:
        before = tuple((each["role"], each["text"]) for each in fields["before"])
        learn = tuple(Wanted(words=tuple(each["words"]), kind=each["kind"]) for each in fields["learn"])
    except (TypeError, KeyError):
        raise InvalidInput(
            f"{at} is not a turn: before has objects with role and text, learn objects with words and kind"
        ) from None
    return LabelledTurn(
        id=fields["id"], language=fields["language"], before=before, text=fields["text"], learn=learn
    )


def _summarize(verdicts: Sequence[TurnVerdict]) -> dict[str, Any]:
    return _compute_figures(verdicts).to_dict("turns", "wanted", "learned")


def _describe(verdict: TurnVerdict) -> dict[str, Any]:
    return {"id": verdict.turn.id, "learned": list(verdict.contents)}


def _format_row(name: str, verdicts: Sequence[TurnVerdict]) -> tuple[str, ...]:
    return (name, str(len(verdicts)), *_compute_figures(verdicts).format_cells())


def _iterate_remarks(name: str, verdicts: Sequence[TurnVerdict]) -> Iterator[str]:
    silent = [each for each in verdicts if not each.turn.learn]
    wrong = sum(bool(each.contents) for each in silent)
    yield f"{name}: {len(silent)} turns teach nothing; something was learned from {wrong} of them"


def _iterate_errors(verdicts: Sequence[TurnVerdict]) -> Iterator[str]:
    for each in verdicts:
        for content in each.wrong:
            yield f"learned wrongly: {content} ({each.turn.id}): {each.turn.text}"
    for each in verdicts:
        for want in each.missed:
            yield f"missed: {', '.join(want.words)} ({want.kind}, {each.turn.id}): {each.turn.text}"


EVALUATION = Evaluation(
    noun="turn",
    files={"turns": "learn.jsonl", "passing": "learn-passing.jsonl"},
    sealed_files={"sealed": "learn-sealed.jsonl", "passing, sealed": "learn-passing-sealed.jsonl"},
    fields=("id", "language", "before", "text", "learn"),
    optional=("why", "group"),
    parse=_parse,
    judge=judge_turn,
    help="""Measure what is learned from a turn without a model.

    Plays the labelled turns of the repository, or those of FILE: one JSON object a line with id, before (turns
    with role and text), text and learn (what has to be learned: the words that stand in the record, and its
    kind). Precision is the share of the records that were wanted. Recall is the share of what is wanted that
    became a record. Each has Wilson's 95 % interval.
    """,
    listed="what was learned wrongly, and what was missed",
    columns=_COLUMNS,
    rows=group_rows(lambda each: each.turn.language, _format_row),
    remarks=_iterate_remarks,
    errors=_iterate_errors,
    summarize=_summarize,
    describe=_describe,
    group_of=lambda turn: turn.language,
    group_name="language",
)
"""The evaluation that `python -m evaluation learn` runs."""
