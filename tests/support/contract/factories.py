"""Factories of test values, commits of them, and an analyzer for stores under test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.domain.text.tokenizer import pack
from reverie.stores.protocol import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""The current time in tests."""


def make_time(seconds: float) -> datetime:
    """Return the time some seconds after `NOW`."""
    return NOW + timedelta(seconds=seconds)


def analyse(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Analyze a value plainly, filling every field: words, speaker, cue of a question, year."""
    text = value.content if isinstance(value, Paragraph) else value.to_searchable_text()
    words = text.lower().split()
    return AnalyzedText(
        terms=pack(words),
        length=len(words),
        speaker=(value.speaker or value.role).lower() if isinstance(value, Turn) else "",
        cues="asks" if value.content.endswith("?") else "",
        dates="" if isinstance(value, Record) else f" @{value.at.year} ",
    )


def make_record(number: int = 1, **fields: Any) -> Record:
    """Return a record whose id and content are made from a number."""
    moment = fields.pop("moment", NOW)
    values: dict[str, Any] = {
        "id": f"{number:012x}",
        "content": f"Content of record {number}",
        "created_at": moment,
        "updated_at": moment,
        "last_seen_at": moment,
    }
    return Record(**(values | fields))


def make_session(name: str = "chat:1", **fields: Any) -> SessionState:
    """Return a session."""
    values: dict[str, Any] = {"id": name, "created_at": NOW}
    return SessionState(**(values | fields))


def make_turn(position: int = 0, name: str = "chat:1", **fields: Any) -> Turn:
    """Return a turn of a session, with an id made from both."""
    values: dict[str, Any] = {
        "id": f"{abs(hash_of(name)) % 0xFFFF:04x}{position:08x}",
        "session": name,
        "position": position,
        "role": "user",
        "content": f"Words of turn {position}",
        "at": make_time(position),
    }
    return Turn(**(values | fields))


def make_page(name: str = "MEMORY.md", **fields: Any) -> Page:
    """Return a page."""
    values: dict[str, Any] = {"name": name, "content": f"# {name}\n", "updated_at": NOW}
    return Page(**(values | fields))


def make_paragraph(number: int = 1, **fields: Any) -> Paragraph:
    """Return a paragraph of `HISTORY.md` whose id, position and content are made from a number."""
    values: dict[str, Any] = {
        "id": f"{number:012x}",
        "page": HISTORY,
        "position": float(number),
        "at": make_time(number),
        "content": f"Paragraph {number} of the history",
    }
    return Paragraph(**(values | fields))


def make_entry(key: str = "note", **fields: Any) -> Entry:
    """Return an entry of working memory."""
    values: dict[str, Any] = {"namespace": "agent", "key": key, "data": f"data of {key}", "stored_at": NOW}
    return Entry(**(values | fields))


def hash_of(text: str) -> int:
    """Return a number made from a text, the same in every process."""
    return int.from_bytes(text.encode()[-6:], "big")


def make_additions(*values: Value) -> list[Change]:
    """Return the changes that add the values."""
    return [Change(before=None, after=value) for value in values]


def make_change(before: Value, after: Value) -> list[Change]:
    """Return the change from one value to another."""
    return [Change(before=before, after=after)]


def make_removals(*values: Value) -> list[Change]:
    """Return the changes that remove the values."""
    return [Change(before=value, after=None) for value in values]


def commit(store: Store, edits: Sequence[Change], **how: Any) -> list[JournalEntry]:
    """Commit changes, by default now and as the actor `test`."""
    return store.commit(edits, **{"actor": "test", "at": NOW, **how})


def add(store: Store, *values: Value, **how: Any) -> list[JournalEntry]:
    """Add the values in one commit."""
    return commit(store, make_additions(*values), **how)


def change(store: Store, before: Value, after: Value, **how: Any) -> list[JournalEntry]:
    """Change one value to another."""
    return commit(store, make_change(before, after), **how)


def remove(store: Store, *values: Value, **how: Any) -> list[JournalEntry]:
    """Remove the values in one commit."""
    return commit(store, make_removals(*values), **how)


def erase(store: Store, edits: Sequence[Change], **how: Any) -> list[JournalEntry]:
    """Erase what changes concern, by default now and as the actor `test`."""
    return store.erase(edits, **{"actor": "test", "at": NOW, **how})


def undo_of(rows: Iterable[JournalEntry]) -> list[Change]:
    """Return the changes that undo the entries, the last first. An erased entry cannot be undone."""
    latest_first = sorted(rows, key=lambda row: -row.sequence)
    return [row.edit.invert() for row in latest_first if row.edit is not None and not row.forgotten]
