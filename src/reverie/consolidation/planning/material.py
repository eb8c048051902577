"""What requests show a model: transcripts of conversations, signals, and records that share words.

Signals tell a model how to weigh what was said, and bad ones are evidence for anti-patterns. They are never evidence
for what the owner prefers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from reverie.consolidation.planning.requests import to_ids
from reverie.domain.conversation import SIGNAL, SIGNAL_NOTE, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import SUMMARY_TAG, UNTRUSTED, Origin, Record
from reverie.domain.text import tokenizer
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.validation import clean_text

# -- transcripts ---------------------------------------------------------------------------------------

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_SENTENCE_END = defer_regex(r"(?<=[.!?])\s+|\n+")


def format_transcript(turns: Iterable[Turn], *, longest: int, labels: Mapping[str, str] = _NO_LABELS) -> str:
    """Return turns as lines such as `[2025-01-15 10:31] ASSISTANT [tools: exec, read_file]: text` (Autobot).

    Results of tools and turns that say nothing are left out; times are in UTC.

    Args:
        turns: The turns, the earliest first.
        longest: Characters of one message; a longer one ends in `...`.
        labels: Labels of turns by their ids, which are shown before the times.
    """
    lines = []
    for turn in turns:
        if not _is_shown(turn):
            continue
        words = escape_line(turn.content)
        names = ", ".join(escape_line(call.name) for call in turn.tool_calls)
        called = f" [tools: {names}]" if turn.tool_calls else ""
        shown = words if len(words) <= longest else f"{words[: longest - 3]}..."
        label = f"[{labels[turn.id]}] " if turn.id in labels else ""
        lines.append(f"{label}[{turn.at:%Y-%m-%d %H:%M}] {turn.role.upper()}{called}: {shown}")
    return "\n".join(lines)


def label_turns(turns: Iterable[Turn]) -> dict[str, Turn]:
    """Return the turns that a transcript shows by short labels, `T1` for the first."""
    return {f"T{at}": turn for at, turn in enumerate(filter(_is_shown, turns), 1)}


def format_labelled(labels: Mapping[str, Turn], names: Iterable[str], *, longest: int) -> str:
    """Return the turns of some labels as lines that begin with these; see `format_transcript`."""
    by_id = {labels[name].id: name for name in names}
    return format_transcript((labels[name] for name in by_id.values()), longest=longest, labels=by_id)


def cite_turns(proposal: Mapping[str, Any], labels: Mapping[str, Turn]) -> list[Turn]:
    """Return the turns that a proposal cites by their labels."""
    return [labels[name.upper()] for name in to_ids(proposal.get("turns")) if name.upper() in labels]


def _is_shown(turn: Turn) -> bool:
    return turn.role != "tool" and bool(turn.tool_calls or escape_line(turn.content))


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, each with single spaces."""
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(clean_text(text)))
    return [part for part in parts if part]


# -- signals -------------------------------------------------------------------------------------------

SignalKind = Literal["correction", "tool_failure", "thumbs_up", "thumbs_down", "session_summary"]

MOST = 50
"""Most signals that a pass is shown, the newest (RockBot)."""

RECENT = timedelta(days=7)
"""Greatest age of a signal (RockBot)."""

BAD: frozenset[SignalKind] = frozenset({"correction", "tool_failure", "thumbs_down"})
"""Kinds that may support an anti-pattern."""

_OF_TURNS: tuple[SignalKind, ...] = ("correction", "tool_failure", "thumbs_up", "thumbs_down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A sign that something went well or badly.

    Attributes:
        kind: What it is.
        id: The turn that it stands on, or the record of a summary.
        text: What that says.
        before: Of a correction what the assistant had said, of an answer what had been asked.
        note: What the owner added to a thumb.
        at: When.
        scope: Whose conversation it is.
        origin: Whose word it is; a tool's failure is the tool's.
    """

    kind: SignalKind
    id: str
    text: str
    at: datetime
    before: str = ""
    note: str = ""
    scope: str = ""
    origin: Origin = "owner"


def collect_signals(
    turns: Sequence[Turn], records: Iterable[Record] = (), *, now: datetime, changed: Collection[str] = ()
) -> tuple[Signal, ...]:
    """Return the signals, the earliest first: at most 50 of each scope, none older than a week.

    Args:
        turns: The turns, in their order.
        records: The live records, for what sessions came to.
        now: The moment.
        changed: Which of the records are of that time.
    """
    found = [each for each in _collect_turn_signals(turns) if now - each.at <= RECENT]
    for record in records:
        if record.id in changed and SUMMARY_TAG in record.tags and now - record.updated_at <= RECENT:
            found.append(
                Signal(
                    kind="session_summary",
                    id=record.id,
                    text=record.content,
                    at=record.updated_at,
                    scope=record.scope,
                    origin=record.origin,
                )
            )
    kept: list[Signal] = []
    room: dict[str, int] = {}
    for each in sorted(found, key=lambda signal: (signal.at, signal.id), reverse=True):
        if (taken := room.get(each.scope, 0)) < MOST:
            room[each.scope] = taken + 1
            kept.append(each)
    return tuple(reversed(kept))


def format_signals(labelled: Mapping[str, Signal]) -> str:
    """Return a line for each signal, which begins with its label; or `(none)`."""
    lines = []
    for name, each in labelled.items():
        before = f" after “{_shorten_text(each.before, 300)}”" if each.before else ""
        note = f" ({_shorten_text(each.note, 200)})" if each.note else ""
        lines.append(f"[{name}] {each.kind}{before}{note}: {_shorten_text(each.text, 500)}")
    return "\n".join(lines) or "(none)"


def _collect_turn_signals(turns: Sequence[Turn]) -> Iterable[Signal]:
    answered: dict[str, str] = {}
    asked: dict[str, str] = {}
    for turn in turns:
        kind = next((kind for kind in _OF_TURNS if kind == turn.metadata.get(SIGNAL)), None)
        if kind is not None:
            before = answered if turn.role == "user" else asked
            yield Signal(
                kind=kind,
                id=turn.id,
                text=turn.content,
                before=before.get(turn.session, ""),
                note=turn.metadata.get(SIGNAL_NOTE, ""),
                at=turn.at,
                scope=turn.scope,
                origin=turn.origin if turn.origin in UNTRUSTED else "owner",
            )
        if turn.content.strip():
            if turn.role == "assistant":
                answered[turn.session] = "" if turn.origin in UNTRUSTED else turn.content
            elif turn.role == "user":
                asked[turn.session] = turn.content


def _shorten_text(text: str, most: int) -> str:
    return escape_line(text)[:most]


# -- records that share words --------------------------------------------------------------------------

_MOST_LOOKED_AT = 500  # records with one of its words; bounds the time of a dream over many records


class SimilarRecords:
    """Records by their words."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._words: dict[str, frozenset[str]] = {}
        self._having: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            self._words[record.id] = frozenset(tokenizer.tokenize(record.to_searchable_text()))
            for word in self._words[record.id]:
                self._having[word].append(record)

    def __contains__(self, record: Record) -> bool:
        return record.id in self._words

    def share_words(self, one: Record, other: Record) -> bool:
        """Return whether two of the records have a word in common."""
        return not self._words[one.id].isdisjoint(self._words[other.id])

    def find(self, record: Record, *, most: int, least: float) -> list[Record]:
        """Return the records that share most words with one of them, the most similar first.

        Args:
            record: One of the records.
            most: How many at most.
            least: The least similarity, by the Dice coefficient.
        """
        own = self._words[record.id]
        found: dict[str, Record] = {}
        looked_at = 0
        for word in sorted(own, key=lambda word: (len(self._having[word]), word)):
            looked_at += len(self._having[word])
            if found and looked_at > _MOST_LOOKED_AT:
                break
            found |= {other.id: other for other in self._having[word]}
        found.pop(record.id, None)
        scores = {
            name: 2 * len(own & self._words[name]) / (len(own) + len(self._words[name])) for name in found
        }
        best = sorted(scores, key=lambda name: (-scores[name], name))[:most]
        return [found[name] for name in best if scores[name] >= least]
