"""Readers of SQLite databases of other memories: mem0's history, claude-mem, and LangGraph's store.

A database is opened for reading only, and recognised by the columns of its tables. It may be open in its program.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from reverie.admin.transfer.batch import Form, ImportTerms, Item
from reverie.admin.transfer.formats.foreign import ConversationBuilder, ForeignFields, skip
from reverie.admin.transfer.formats.memories import (
    ForeignEntry,
    build_entry_items,
    collect_metadata,
    read_store_item,
)
from reverie.admin.transfer.safe_reading import parse_json
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Kind

_KINDS: dict[str, Kind] = {"decision": "insight", "discovery": "finding"}
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def detect_database_format(path: Path) -> Form | None:
    """Return the format of a database; None for an unknown one.

    Raises:
        InvalidInput: it cannot be read.
    """
    with _open(path) as database:
        return next(
            (form for form, (table, columns, _) in _FORMATS.items() if columns <= _columns(database, table)),
            None,
        )


def read_database(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield the records and turns of a database.

    Raises:
        InvalidInput: it cannot be read.
    """
    with _open(path) as database:
        try:
            yield from _FORMATS[form][2](database, terms)
        except sqlite3.Error as error:
            raise InvalidInput(f"{path.name} is a database that cannot be read ({error}).") from None


def _open(path: Path) -> closing[sqlite3.Connection]:
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        database.row_factory = sqlite3.Row
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise InvalidInput(f"{path.name} is a database that cannot be read ({error}).") from None
    return closing(database)


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row["name"] for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _iter_rows(database: sqlite3.Connection, table: str, order: str) -> Iterator[tuple[str, ForeignFields]]:
    """Yield the rows of a table with their places."""
    for number, row in enumerate(database.execute(f'SELECT * FROM "{table}" ORDER BY {order}'), start=1):
        yield f"{table}, row {number}", ForeignFields(dict(row))


def _read_mem0(database: sqlite3.Connection, terms: ImportTerms) -> Iterator[Item]:
    """Yield the last text of each memory; one that was deleted is archived."""
    last: dict[str, tuple[str, ForeignFields]] = {}
    first: dict[str, Any] = {}
    for place, row in _iter_rows(database, "history", "rowid"):
        name = row.label("memory_id")
        at = row.moment("updated_at") or row.moment("created_at")
        first.setdefault(name, row.moment("created_at") or at)
        is_deleted = bool(row.value("is_deleted")) or row.text("event") == "DELETE"
        content = row.text("old_memory") if is_deleted else row.text("new_memory")
        metadata = collect_metadata(row, "actor_id", "role")
        ended = at or terms.now if is_deleted else None
        last[name] = place, ForeignFields({"content": content, "at": at, "ended": ended, **metadata})
    for name, (place, row) in last.items():
        entry = ForeignEntry(
            id=name, content=row.text("content"), at=row.value("at"), created_at=first[name],
            ended_at=row.value("ended"), metadata=collect_metadata(row, "actor_id", "role"),
        )  # fmt: skip
        yield from build_entry_items("mem0", entry, terms, place)


def _read_claude_mem(database: sqlite3.Connection, terms: ImportTerms) -> Iterator[Item]:
    for place, row in _iter_rows(database, "observations", "id"):
        facts = _list_texts(row, "facts")
        said = [row.text("title"), row.text("narrative") or " ".join(facts) or row.text("text")]
        entry = ForeignEntry(
            id=f"observation {row.label('id')}", content=": ".join(filter(None, said)), at=_moment(row),
            kind=_KINDS.get(row.text("type"), "event"), tags=tuple(_list_texts(row, "concepts"))[:20],
            metadata=collect_metadata(row, "project", "type", "files_read", "files_modified"),
        )  # fmt: skip
        yield from build_entry_items("claude-mem", entry, terms, place)
    if _columns(database, "session_summaries"):
        for place, row in _iter_rows(database, "session_summaries", "id"):
            texts = [
                f"{name.replace('_', ' ').capitalize()}: {text}"
                for name in _SUMMARY
                if (text := row.text(name))
            ]
            entry = ForeignEntry(
                id=f"summary {row.label('id')}", content="\n".join(texts), at=_moment(row), kind="event",
                metadata=collect_metadata(row, "project"),
            )  # fmt: skip
            yield from build_entry_items("claude-mem", entry, terms, place)
    if _columns(database, "user_prompts"):
        yield from _read_prompts(database, terms)


def _read_prompts(database: sqlite3.Connection, terms: ImportTerms) -> Iterator[Item]:
    """Yield the prompts that were typed in Claude Code as turns of its sessions."""
    for place, row in _iter_rows(database, "user_prompts", "id"):
        session = row.label("content_session_id", "claude_session_id", "sdk_session_id") or "prompts"
        at = _moment(row)
        try:
            chat = ConversationBuilder(
                f"claude-mem:{session}", form="claude-mem", place=place, terms=terms, times=[at],
                after=None, is_whole=False,
            )  # fmt: skip
        except InvalidInput as error:
            yield skip("session", place, error)
            continue
        chat.add(f"prompt {row.label('id')}", "user", row.text("prompt_text"), at=at)
        yield from chat.items()


def _read_langgraph(database: sqlite3.Connection, terms: ImportTerms) -> Iterator[Item]:
    for place, row in _iter_rows(database, "store", "prefix, key"):
        try:
            value = parse_json(row.text("value"))
        except InvalidInput as error:
            yield skip("record", place, error)
            continue
        times = (_moment(row), row.moment("updated_at"))
        yield from read_store_item(row.text("prefix"), row.text("key"), value, terms, place, times=times)


def _moment(row: ForeignFields) -> Any:
    return row.moment("created_at_epoch") or row.moment("created_at")


def _list_texts(row: ForeignFields, name: str) -> list[str]:
    """Return the texts of a list that a column has as JSON."""
    try:
        found = json.loads(row.text(name) or "[]")
    except ValueError:
        return [row.text(name)]
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


_Reader = Callable[[sqlite3.Connection, ImportTerms], Iterator[Item]]
_FORMATS: dict[Form, tuple[str, set[str], _Reader]] = {
    "mem0": ("history", {"memory_id", "old_memory", "new_memory", "event"}, _read_mem0),
    "claude-mem": ("observations", {"id", "project", "type", "title"}, _read_claude_mem),
    "langgraph": ("store", {"prefix", "key", "value"}, _read_langgraph),
}
"""For each format, its table, columns of it, and its reader."""
