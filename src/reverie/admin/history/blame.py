"""Values of a blame, and functions that derive them from versions.

Pure: `journal` finds the versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reverie.admin.history.diff import What, compute_difference
from reverie.domain.change import JournalEntry, Subject
from reverie.domain.conversation import Turn
from reverie.domain.headlines import MERGED_FROM
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.similarity.three_way_merge import match_items
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject

_LONGEST_QUOTE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameChange:
    """One change, described in a line.

    Attributes:
        sequence: Its number in the journal.
        batch: The number of the first change made in the same transaction.
        at: When it was made.
        actor: Who made it.
        reason: The operation that made it, with its reference and note.
        what: What it did, in a word.
        brief: What differs, such as `importance: 0.5 -> 0.8`; empty if `what` is enough.
    """

    sequence: int
    batch: int
    at: datetime
    actor: str
    reason: str
    what: What
    brief: str

    def __str__(self) -> str:
        why = f" ({self.reason})"
        brief = f": {self.brief}" if self.brief else ""
        return f"{self.sequence}  {_format_time(self.at)}  {self.what} by {self.actor}{why}{brief}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """A later save that repeated the content.

    Attributes:
        change: The number of the change it made.
        at: When.
        actor: Who saved it.
        labels: The tags and references that it added.
    """

    change: int
    at: datetime
    actor: str
    labels: tuple[str, ...]

    def __str__(self) -> str:
        labels = f" with {', '.join(self.labels)}" if self.labels else ""
        return f"{self.change}  {_format_time(self.at)}  reinforced by {self.actor}{labels}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameLine:
    """A line of a page or a paragraph of a log, with the change that introduced it.

    Attributes:
        number: Its number, from 1.
        change: The change; None if that was erased.
    """

    number: int
    text: str
    change: BlameChange | None

    def __str__(self) -> str:
        if self.change is None:
            return f"{self.number:>4}  {'forgotten':<44}  {self.text}"
        by = f"{self.change.sequence}  {_format_time(self.change.at)}  {self.change.actor}"
        return f"{self.number:>4}  {by:<44}  {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame(JsonObject):
    """Origin of a thing and its later changes.

    Attributes:
        subject: The sort of thing.
        id: Its id.
        there: Whether it exists now, archived or not.
        created: The change that created it; None if that was erased.
        turns: The turns that it names as its source and that still exist.
        sessions: The sessions it comes from.
        merged: The records that were merged into it and archived.
        related: Other records that it names.
        repetitions: The later saves of the same content, with what each added.
        changes: Every change, the oldest first.
        lines: The lines of a page or log, each with the change that introduced it.
        recalled: How often it was put into a prompt; None if that is not counted, as for pages and snapshots.
        recalled_at: When it last was.
    """

    subject: Subject
    id: str
    there: bool
    created: BlameChange | None
    turns: tuple[Turn, ...] = ()
    sessions: tuple[str, ...] = ()
    merged: tuple[Record, ...] = ()
    related: tuple[Record, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    changes: tuple[BlameChange, ...] = ()
    lines: tuple[BlameLine, ...] = ()
    recalled: int | None = None
    recalled_at: datetime | None = None

    @property
    def text(self) -> str:
        """Format the whole as lines."""
        head = f"{self.subject} {self.id}" + ("" if self.there else ", which is not there any more")
        return "\n".join([head, *self._format_origin(), *self._format_later_events()])

    def _format_origin(self) -> list[str]:
        creation = self.created
        lines = ["made by a change that has been forgotten"]
        if creation is not None:
            why = f" ({creation.reason})"
            lines = [
                f"made by {creation.actor}{why} at {_format_time(creation.at)}, change {creation.sequence}"
            ]
        lines += [f"from session {name}" for name in self.sessions]
        for turn in self.turns:
            who = turn.speaker or turn.role
            lines.append(f"from turn {turn.id} ({turn.session}#{turn.position}), {who}: {_cut(turn.content)}")
        lines += [f"merged from {record.id}: {_cut(record.content)}" for record in self.merged]
        return lines + [f"names {record.id}: {_cut(record.content)}" for record in self.related]

    def _format_later_events(self) -> list[str]:
        lines = []
        if self.recalled is not None:
            last = "" if self.recalled_at is None else f", last at {_format_time(self.recalled_at)}"
            times = {0: "never", 1: "once"}.get(self.recalled, f"{self.recalled:,} times")
            lines.append(f"recalled {times}{last}")
        for title, entries in (
            ("said again", self.repetitions),
            ("changes", self.changes),
            ("lines", self.lines),
        ):
            if entries:
                lines += ["", f"{title}:", *(f"  {each}" for each in entries)]
        return lines


def describe_change(row: JournalEntry) -> BlameChange:
    """Describe a change in one line."""
    difference = compute_difference(row)
    return BlameChange(
        sequence=row.sequence,
        batch=row.batch,
        at=row.at,
        actor=row.actor,
        reason=row.summary,
        what=difference.what,
        brief=difference.brief,
    )


def find_repetitions(rows: Iterable[JournalEntry]) -> tuple[Repetition, ...]:
    """Return the changes that were saves of the same content."""
    repetitions = []
    for row in rows:
        before, after = row.before, row.after
        if not isinstance(before, Record) or not isinstance(after, Record):
            continue
        if after.seen_count <= before.seen_count or row.operation == "undo":
            continue
        known = {*before.tags, *before.references}
        repetitions.append(
            Repetition(
                change=row.sequence,
                at=row.at,
                actor=row.actor,
                labels=tuple(label for label in (*after.tags, *after.references) if label not in known),
            )
        )
    return tuple(repetitions)


def find_merged_ids(rows: Iterable[JournalEntry]) -> list[str]:
    """Return the ids of the parts of a headline, and of the records that `merged_from` in its metadata names."""
    names: dict[str, None] = {}
    for row in rows:
        after = row.after
        if isinstance(after, Record):
            names |= dict.fromkeys([*after.parts, *after.metadata.get(MERGED_FROM, "").split()])
    return list(names)


def attribute_lines(rows: Sequence[JournalEntry], changes: Sequence[BlameChange]) -> tuple[BlameLine, ...]:
    """Return the lines of a page, each with the change that introduced it.

    Args:
        rows: All its changes, the oldest first.
        changes: The same changes, described.
    """
    texts: list[str] = []
    brought_by: list[BlameChange | None] = []
    for row, change in zip(rows, changes, strict=True):
        if row.edit is None:
            continue
        after = row.after
        if not isinstance(after, Page):
            texts, brought_by = [], []
            continue
        now = after.content.removesuffix("\n").split("\n") if after.content else []
        by: list[BlameChange | None] = [None if row.forgotten else change] * len(now)
        for i, j in match_items(texts, now):
            by[j] = brought_by[i]
        texts, brought_by = now, by
    numbered = enumerate(zip(texts, brought_by, strict=True), 1)
    return tuple(BlameLine(number=n, text=text, change=change) for n, (text, change) in numbered)


def _format_time(moment: datetime) -> str:
    return timestamps.format_time(moment.replace(microsecond=0)).replace("T", " ").removesuffix("Z")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1].rstrip() + "…"
