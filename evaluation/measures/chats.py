"""Evaluation of what is learned from whole chats without a model, sentence by sentence.

The conversations of each person are played into a memory of their own, a day after each other. A record is right if it
has a sentence that somebody would want to read a month later, and junk otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation.measures.harness import DetectionFigures, Evaluation, format_share, group_rows, has_blank
from reverie import Memory
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Record
from reverie.domain.text.same_text import fold_text

_COLUMNS = ("people", "wanted", "learned", "junk", "precision", "95 %", "recall", "95 %", "rules", "right")
_BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
_ANSWER = "All right."
_RULES = ("rule", "health")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a turn.

    Attributes:
        text: Its text.
        keep: Whether it alone tells something lasting or dated; None where that is a matter of taste.
        kind: Its class, as in `evaluation/training`.
    """

    text: str
    keep: bool | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chats:
    """The chats of one person.

    Attributes:
        id: The person's name in the file.
        language: The language, such as `en`.
        conversations: The turns of each, every one with the assistant's turn before it, which may be empty.
        sentences: The sentences of all turns, by their folded texts.
    """

    id: str
    language: str
    conversations: tuple[tuple[tuple[str, str], ...], ...]
    sentences: Mapping[str, Sentence]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatsVerdict:
    """The records that were learned from somebody's chats, each with its sentences."""

    chats: Chats
    learned: tuple[tuple[Record, tuple[Sentence, ...]], ...]

    @property
    def junk(self) -> list[Record]:
        """Records without a sentence that is worth keeping, or of taste."""
        return [each for each, said in self.learned if not any(one.keep is not False for one in said)]

    @property
    def right(self) -> list[Record]:
        """Records with a sentence that is worth keeping."""
        return [each for each, said in self.learned if any(one.keep for one in said)]

    @property
    def missed(self) -> list[Sentence]:
        """Sentences that are worth keeping and are in no record."""
        told = {one.text for _, said in self.learned for one in said}
        return [each for each in self.chats.sentences.values() if each.keep and each.text not in told]

    @property
    def rules(self) -> list[bool]:
        """For each record that became a rule, whether one of its sentences is one."""
        return [
            any(one.kind in _RULES and one.keep for one in said)
            for each, said in self.learned
            if each.kind == "constraint"
        ]


def judge_chats(chats: Chats) -> ChatsVerdict:
    """Play somebody's chats, and read which records come of them."""
    now = _BEGIN
    with Memory.open(":memory:", clock=lambda: now, embedder="none") as memory:
        for number, turns in enumerate(chats.conversations):
            now = _BEGIN + timedelta(days=number)
            session = memory.session(f"{chats.id}:{number}")
            for (before, text), (answer, _) in zip(turns, (*turns[1:], ("", "")), strict=True):
                now += timedelta(minutes=1)
                if before and not session.turns():
                    session.add("assistant", before)
                session.add("user", text)
                session.add("assistant", answer or _ANSWER)
        learned = [(each, _find_sentences(each, chats)) for each in memory.list(limit=1_000)]
    return ChatsVerdict(chats=chats, learned=tuple(learned))


def _find_sentences(record: Record, chats: Chats) -> tuple[Sentence, ...]:
    said = fold_text(record.content)
    return tuple(each for text, each in chats.sentences.items() if text and (text in said or said in text))


def _parse(fields: dict[str, Any], at: str) -> Chats:
    if has_blank(fields, ("id", "language")):
        raise InvalidInput(f"{at} is not a person: id and language must be texts that are not empty")
    conversations, sentences = [], {}
    try:
        for turns in fields["conversations"]:
            conversations.append(tuple((turn["before"], turn["text"]) for turn in turns))
            for each in (each for turn in turns for each in turn["sentences"]):
                keep = None if each["keep"] is None else bool(each["keep"])
                sentences[fold_text(each["text"])] = Sentence(text=each["text"], keep=keep, kind=each["kind"])
    except (TypeError, KeyError):
        raise InvalidInput(
            f"{at} is not a person: conversations has lists of turns with before, text and sentences, each of those"
            " with text, keep and kind"
        ) from None
    return Chats(
        id=fields["id"],
        language=fields["language"],
        conversations=tuple(conversations),
        sentences=sentences,
    )


def _compute_figures(verdicts: Sequence[ChatsVerdict]) -> DetectionFigures:
    wanted = sum(bool(each.keep) for verdict in verdicts for each in verdict.chats.sentences.values())
    right = sum(len(each.right) for each in verdicts)
    return DetectionFigures(
        items=len(verdicts),
        wanted=wanted,
        found=right + sum(len(each.junk) for each in verdicts),
        right=right,
        met=wanted - sum(len(each.missed) for each in verdicts),
    )


def _summarize(verdicts: Sequence[ChatsVerdict]) -> dict[str, Any]:
    rules = [rule for each in verdicts for rule in each.rules]
    figures = _compute_figures(verdicts).to_dict("people", "wanted", "learned")
    return figures | {"rules": len(rules), "right_rules": sum(rules)}


def _format_row(name: str, verdicts: Sequence[ChatsVerdict]) -> tuple[str, ...]:
    rules = [rule for each in verdicts for rule in each.rules]
    share, _ = format_share(sum(rules), len(rules))
    return (name, str(len(verdicts)), *_compute_figures(verdicts).format_cells(), str(len(rules)), share)


def _iterate_errors(verdicts: Sequence[ChatsVerdict]) -> Iterator[str]:
    for verdict in verdicts:
        yield from (f"junk: {each.content} ({each.kind}, {verdict.chats.id})" for each in verdict.junk)
        yield from (f"missed: {each.text} ({each.kind}, {verdict.chats.id})" for each in verdict.missed)


EVALUATION = Evaluation(
    noun="person",
    files={"open": "chats.jsonl"},
    sealed_files={"sealed": "chats-sealed.jsonl"},
    fields=("id", "language", "conversations"),
    parse=_parse,
    judge=judge_chats,
    help="""Measure what is learned from whole chats without a model.

    Plays the chats of the repository, or those of FILE: one person a line with id, language and conversations, lists
    of turns with before (the assistant's turn before), text, and sentences with text, keep (true, false, or null
    where it is a matter of taste) and kind. Junk are records without a sentence to keep; precision is the share of
    the others. Recall is the share of the sentences to keep that are in a record. Rules are the records that stand in
    every prompt as rules; right is the share of those that are rules or about health.
    """,
    listed="junk, and what was missed",
    columns=_COLUMNS,
    rows=group_rows(lambda each: each.chats.language, _format_row),
    errors=_iterate_errors,
    summarize=_summarize,
    group_of=lambda chats: chats.language,
    group_name="language",
)
"""The evaluation that `python -m evaluation chats` runs."""
