"""Differences between two versions of a thing, the origin of a thing, and their text forms. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Literal

from reverie.domain.change import JournalEntry, Subject, Value
from reverie.domain.conversation import Turn
from reverie.domain.headlines import MERGED_FROM
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.similarity.three_way_merge import match_items, split_lines
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject, to_json_object

What = Literal["added", "changed", "removed", "archived", "restored", "forgotten", "unchanged"]

CONTEXT = 2
"""Unchanged lines shown before and after those that changed."""

_LONG = 60
_NOTHING: tuple[Any, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """Difference of one field.

    Attributes:
        name: The field, such as `content`, `tags` or `metadata.owner`.
        before: The earlier value, as `to_dict` returns it; None if there was none.
        after: The later value, likewise.
    """

    name: str
    before: Any
    after: Any

    def lines(self, *, only_value: bool = False) -> Iterator[str]:
        """Format the change as lines, such as `importance: 0.5 -> 0.8`; long texts as a unified diff.

        Args:
            only_value: Whether the thing was added or removed, so that there is only one value.
        """
        before, after = self.before, self.after
        if _is_long(before) or _is_long(after):
            yield f"{self.name}:"
            yield from (f"  {line}" for line in format_unified_diff(before or "", after or ""))
        elif only_value:
            yield f"{self.name}: {_format_value(after if before is None else before)}"
        elif isinstance(before, list) and isinstance(after, list):
            marked = [f"+{_format_value(one)}" for one in after if one not in before]
            marked += [f"-{_format_value(one)}" for one in before if one not in after]
            yield f"{self.name}: {' '.join(marked) or 'reordered'}"
        else:
            yield f"{self.name}: {_format_value(before)} -> {_format_value(after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of a thing between two moments.

    Attributes:
        subject: The sort of thing.
        id: Its id; empty if that was erased.
        before: The earlier version; None if there was none.
        after: The later version; None if there was none.
        forgotten: Whether the earlier version was erased.
    """

    subject: Subject
    id: str
    before: Value | None = None
    after: Value | None = None
    forgotten: bool = False

    @property
    def what(self) -> What:
        """Return the sort of change as one word."""
        if self.forgotten:
            return "forgotten"
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        was_archived = isinstance(self.before, Record) and self.before.archived
        is_archived = isinstance(self.after, Record) and self.after.archived
        if was_archived != is_archived:
            return "archived" if is_archived else "restored"
        return "changed"

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Return the fields that differ, in a fixed order; of a new or removed thing those with a value."""
        old, new = _flatten_fields(self.before), _flatten_fields(self.after)
        present = new if self.after is not None else old
        names = [*present, *(name for name in old if name not in present)]
        return tuple(
            FieldChange(name=name, before=old.get(name), after=new.get(name))
            for name in names
            if old.get(name) != new.get(name)
            and not (self._is_one_sided and (present.get(name) in _NOTHING or present[name] == self.id))
        )

    @property
    def _is_one_sided(self) -> bool:
        return self.before is None or self.after is None

    @property
    def text(self) -> str:
        """Format the difference field by field, as lines; long texts as a unified diff.

        Of what was added or removed, default values and the times that all things have are left out.
        """
        head = " ".join(filter(None, (self.subject, self.id, self.what)))
        hidden = _list_hidden_fields(self.before or self.after) if self._is_one_sided else ()
        shown = [field for field in self.fields if field.name not in hidden]
        lines = (line for field in shown for line in field.lines(only_value=self._is_one_sided))
        return "\n".join([head, *(f"  {line}" for line in lines)])

    def to_dict(self) -> dict[str, Any]:
        """Return every field in a fixed order as JSON values."""
        return to_json_object(self, "subject", "id", "what", "fields")


def compute_difference(row: JournalEntry) -> Difference:
    """Return the difference that one change made."""
    return Difference(
        subject=row.subject,
        id="" if row.edit is None else row.edit.id,
        before=row.before,
        after=row.after,
        forgotten=row.forgotten,
    )


def serialize_change(row: JournalEntry) -> dict[str, Any]:
    """Return a change as JSON values, with what it made of the thing."""
    difference = compute_difference(row)
    return to_json_object(
        row, "sequence", "batch", "at", "actor", "operation", "note", "reference", "subject"
    ) | {
        "id": difference.id or None,
        "change": difference.what,
        **to_json_object(difference, "before", "after"),
    }


def format_unified_diff(before: str, after: str) -> list[str]:
    r"""Return a unified diff of the lines; `…` marks what is left out.

    >>> format_unified_diff("one\ntwo", "one\n2")
    ['  one', '- two', '+ 2']
    """
    old, new = split_lines(before), split_lines(after)
    lines: list[str] = []
    end = 0
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if group[0][1] > end:
            lines.append("…")
        for tag, i, end, j, stop in group:
            marks = "  " if tag == "equal" else "-+"
            lines += (f"{marks[0]} {line}".rstrip() for line in old[i:end])
            lines += (f"{marks[1]} {line}".rstrip() for line in new[j:stop] if tag != "equal")
    return [*lines, "…"] if end < len(old) else lines


def _flatten_fields(value: Value | None) -> dict[str, Any]:
    """Return the fields by name, nested ones as `metadata.owner`."""
    if value is None:
        return {}
    flat: dict[str, Any] = {}
    for name, field in value.to_dict().items():
        if isinstance(field, Mapping):
            flat |= {f"{name}.{key}": text for key, text in field.items()}
        else:
            flat[name] = field
    return flat


def _list_hidden_fields(value: Value | None) -> set[str]:
    if value is None:
        return set()
    usual = {field.name for field in fields(value) if getattr(value, field.name) == field.default}
    return {*usual, "updated_at", "last_seen_at"}


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and (len(value) > _LONG or "\n" in value)


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_format_value(one)}" for name, one in value.items())
    return str(value) if value != "" else '""'


_LONGEST_QUOTE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameChange:
    """One change, and who made it.

    Attributes:
        sequence: Its number in the journal.
        at: When it was made.
        actor: Who made it.
        reason: The operation that made it, with its reference and note.
    """

    sequence: int
    at: datetime
    actor: str
    reason: str


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
    """Origin of a thing.

    Attributes:
        subject: The sort of thing.
        id: Its id.
        there: Whether it exists now, archived or not.
        created: The change that created it; None if that was erased.
        turns: The turns that it names as its source and that still exist.
        sessions: The sessions it comes from.
        merged: The records that were merged into it and archived.
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
    lines: tuple[BlameLine, ...] = ()
    recalled: int | None = None
    recalled_at: datetime | None = None

    @property
    def text(self) -> str:
        """Format the whole as lines."""
        lines = [f"{self.subject} {self.id}" + ("" if self.there else ", which is not there any more")]
        if (made := self.created) is None:
            lines.append("made by a change that has been forgotten")
        else:
            when = f"at {_format_time(made.at)}, change {made.sequence}"
            lines.append(f"made by {made.actor} ({made.reason}) {when}")
        lines += [f"from session {name}" for name in self.sessions]
        for turn in self.turns:
            who = turn.speaker or turn.role
            lines.append(f"from turn {turn.id} ({turn.session}#{turn.position}), {who}: {_cut(turn.content)}")
        lines += [f"merged from {record.id}: {_cut(record.content)}" for record in self.merged]
        if self.recalled is not None:
            last = "" if self.recalled_at is None else f", last at {_format_time(self.recalled_at)}"
            times = {0: "never", 1: "once"}.get(self.recalled, f"{self.recalled:,} times")
            lines.append(f"recalled {times}{last}")
        if self.lines:
            lines += ["", "lines:", *(f"  {each}" for each in self.lines)]
        return "\n".join(lines)


def describe_change(row: JournalEntry) -> BlameChange:
    """Return who made a change, and why."""
    return BlameChange(sequence=row.sequence, at=row.at, actor=row.actor, reason=row.summary)


def find_merged_ids(rows: Iterable[JournalEntry]) -> list[str]:
    """Return the ids of the parts of a headline, and of the records that `merged_from` in its metadata names."""
    names: dict[str, None] = {}
    for row in rows:
        after = row.after
        if isinstance(after, Record):
            names |= dict.fromkeys([*after.parts, *after.metadata.get(MERGED_FROM, "").split()])
    return list(names)


def attribute_lines(rows: Sequence[JournalEntry]) -> tuple[BlameLine, ...]:
    """Return the lines of a page, each with the change that introduced it.

    Args:
        rows: All its changes, the oldest first.
    """
    texts: list[str] = []
    brought_by: list[BlameChange | None] = []
    for row in rows:
        if row.edit is None:
            continue
        after = row.after.content if isinstance(row.after, Page) else ""
        now = after.removesuffix("\n").split("\n") if after else []
        by = [None if row.forgotten else describe_change(row)] * len(now)
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
