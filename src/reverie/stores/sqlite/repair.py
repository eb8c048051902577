"""Repair of a damaged file, from what else it holds.

The indexes, the derived columns and the counters are computed again from the tables. A row that is missing or
cannot be read is written again from the journal, if the whole journal is sound. A damaged journal is never
repaired and never used: its entries stay as they are. A row that can be read and differs from the journal
stays too, because the file does not tell which of the two is right. The same holds for a row of which some
columns can be read and differ.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from reverie.domain.change import Value
from reverie.domain.passage import Analyse
from reverie.stores.codec import (
    ANALYSIS_COLUMNS,
    PAGES,
    PARAGRAPHS,
    RECORDS,
    SESSIONS,
    TURNS,
    Row,
    TableCodec,
    UnreadableRow,
    analyze_columns,
)
from reverie.stores.sqlite.integrity import (
    COUNTED,
    LATEST_DOCUMENT,
    decode_document_or_none,
    decode_row_or_none,
    find_damage,
    find_vanished,
    is_contradicted,
    is_journal_sound,
)
from reverie.stores.sqlite.reading import iter_things_tolerantly

_TABLES: tuple[TableCodec[Any], ...] = (SESSIONS, RECORDS, PAGES, TURNS, PARAGRAPHS)
"""Sessions before their turns."""


def repair_file(file: sqlite3.Connection, analyse: Analyse) -> None:
    """Repair a file within one transaction, which the caller commits; change nothing if pages are damaged."""
    damage = find_damage(file)
    if damage.indexes:
        file.execute("REINDEX")
        damage = find_damage(file)
    if damage.pages:
        return
    sound = is_journal_sound(file)
    for table in _TABLES:
        if sound:
            _restore_missing_rows(file, table, analyse)
        for key, row in _find_wrong_rows(file, table, analyse, unreadable=sound):
            assignments = ", ".join(f"{name} = ?" for name in row)
            sql = f"UPDATE OR IGNORE {table.name} SET {assignments} WHERE key = ?"
            file.execute(sql, (*row.values(), key))
    _repair_counts(file)


def find_stale_analyses(file: sqlite3.Connection, analyse: Analyse) -> Iterator[str]:
    """Yield the ids of things whose stored words differ from what the analyzer makes of them."""
    for table in (RECORDS, TURNS, PARAGRAPHS):
        for _, value, _ in _iter_stale_analyses(file, table, analyse):
            yield value.id


def analyze_again(file: sqlite3.Connection, analyse: Analyse) -> None:
    """Analyse every text that can be read again, within one transaction, which the caller commits."""
    assignments = ", ".join(f"{name} = ?" for name in ANALYSIS_COLUMNS)
    for table in (RECORDS, TURNS, PARAGRAPHS):
        for key, _, analysis in _iter_stale_analyses(file, table, analyse):
            file.execute(f"UPDATE {table.name} SET {assignments} WHERE key = ?", (*analysis, key))
    _repair_counts(file)


def _iter_stale_analyses(
    file: sqlite3.Connection, table: TableCodec[Any], analyse: Analyse
) -> Iterator[tuple[int, Value, Row]]:
    """Yield key, value and right analysis of the rows that can be read and have another analysis."""
    width = len(ANALYSIS_COLUMNS)
    columns = (f"it.{name}" for name in ANALYSIS_COLUMNS)
    for key, *row in iter_things_tolerantly(file, table, *columns):
        try:
            value = table.decode(row[width:])
        except UnreadableRow:
            continue  # the check of the file reports it
        if tuple(row[:width]) != (analysis := analyze_columns(value, analyse)):
            yield key, value, analysis


def _restore_missing_rows(file: sqlite3.Connection, table: TableCodec[Any], analyse: Analyse) -> None:
    """Insert the rows that the journal has and the table lacks."""
    for key, value in find_vanished(file, table):
        row = None if value is None else _build_row(file, table, value, analyse)
        if row is not None:
            columns = ("key", *row)
            places = ", ".join("?" * len(columns))
            sql = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({places})"
            file.execute(sql, (key, *row.values()))


def _find_wrong_rows(
    file: sqlite3.Connection, table: TableCodec[Any], analyse: Analyse, *, unreadable: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the key and the right columns of rows to write again.

    Args:
        unreadable: Whether rows that cannot be read are written again from the journal.
    """
    width = len(table.derived)
    latest = f"({LATEST_DOCUMENT.format(key='it.key', before='')})"
    columns = (f"it.{name}" for name in table.derived)
    for key, document, *stored in iter_things_tolerantly(file, table, latest, *columns):
        derived, row = stored[:width], stored[width:]
        value, journaled = decode_row_or_none(table, row), decode_document_or_none(table, document)
        if value is None and (not unreadable or is_contradicted(table, row, document)):
            continue
        if journaled is None or value not in (None, journaled):
            continue
        right = _build_row(file, table, journaled, analyse)
        if right is not None and (value is None or derived != [right[name] for name in table.derived]):
            yield key, right


def _build_row(
    file: sqlite3.Connection, table: TableCodec[Any], value: Value, analyse: Analyse
) -> dict[str, Any] | None:
    """Return all columns of a thing; None if its session is missing."""
    columns = (*table.encode(value), *table.derive(value, analyse))
    row = dict(zip((*table.names, *table.derived), columns, strict=True))
    if table is TURNS:
        session = file.execute("SELECT key FROM sessions WHERE id = ?", (row["session"],)).fetchone()
        if session is None:
            return None
        row["session"] = session[0]
    return row


def _repair_counts(file: sqlite3.Connection) -> None:
    """Count again how much there is to search."""
    file.execute("DELETE FROM measures")
    file.execute(f"INSERT INTO measures (subject, area, voice, passages, tokens) {COUNTED}")
