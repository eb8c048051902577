"""Repair of what follows from the rest of a damaged file.

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
from reverie.domain.conversation import SessionState
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import Analyse
from reverie.domain.record import Record
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
    encode_analyzed_text,
)
from reverie.stores.sqlite.integrity import (
    COUNTED,
    LATEST_DOCUMENT,
    decode_document_or_none,
    decode_row_or_none,
    find_damage,
    is_contradicted,
    is_journal_sound,
)
from reverie.stores.sqlite.reading import fetch_rows_tolerantly, iter_rows_tolerantly

_TABLES: tuple[TableCodec[Any], ...] = (SESSIONS, RECORDS, PAGES, TURNS, PARAGRAPHS)
"""Sessions before their turns."""

_NOT_SEARCHED: Row = (0, "", "", "", "")


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
        for _, stored, value in _iter_analyses(file, table):
            if stored != _analyze_value(analyse, value):
                yield value.id


def analyze_again(file: sqlite3.Connection, analyse: Analyse) -> None:
    """Analyse every text that can be read again, within one transaction, which the caller commits."""
    assignments = ", ".join(f"{name} = ?" for name in ANALYSIS_COLUMNS)
    for table in (RECORDS, TURNS, PARAGRAPHS):
        sql = f"UPDATE {table.name} SET {assignments} WHERE key = ?"
        for key, stored, value in _iter_analyses(file, table):
            if stored != (analysis := _analyze_value(analyse, value)):
                file.execute(sql, (*analysis, key))
    _repair_counts(file)


def _iter_analyses(file: sqlite3.Connection, table: TableCodec[Any]) -> Iterator[tuple[int, Row, Value]]:
    """Yield key, stored analysis and value of the rows that can be read."""
    columns = "".join(f"it.{name}, " for name in ANALYSIS_COLUMNS)
    sql = (
        f"SELECT it.key, {columns}{table.selected} FROM {table.source} WHERE it.key > ? "
        "ORDER BY it.key LIMIT ?"
    )
    for key, *row in iter_rows_tolerantly(file, sql):
        try:
            value = table.decode(row[len(ANALYSIS_COLUMNS) :])
        except UnreadableRow:
            continue  # the check of the file reports it
        yield key, tuple(row[: len(ANALYSIS_COLUMNS)]), value


def _restore_missing_rows(file: sqlite3.Connection, table: TableCodec[Any], analyse: Analyse) -> None:
    """Insert the rows that the journal has and the table lacks."""
    sql = (
        f"SELECT key, ({LATEST_DOCUMENT.format(key='made.key', before='')}) FROM journal AS made "
        "WHERE key = sequence AND subject = ? "
        f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
    )
    for key, document in fetch_rows_tolerantly(file, sql, (table.subject,)):
        value = decode_document_or_none(table, document)
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
    derived = _list_derived_columns(table)
    for key, stored, value, journaled in _iter_rows(file, table):
        if journaled is None or (value != journaled and not (value is None and unreadable)):
            continue
        row = _build_row(file, table, journaled, analyse)
        if row is not None and (value is None or stored != tuple(row[name] for name in derived)):
            yield key, row


def _iter_rows(
    file: sqlite3.Connection, table: TableCodec[Any]
) -> Iterator[tuple[int, Row, Value | None, Value | None]]:
    """Yield key, derived columns, value, and value by the journal; None for a value that cannot be used."""
    derived = _list_derived_columns(table)
    columns = "".join(f"it.{name}, " for name in derived)
    sql = (
        f"SELECT it.key, ({LATEST_DOCUMENT.format(key='it.key', before='')}), {columns}{table.selected} "
        f"FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT ?"
    )
    for key, document, *row in iter_rows_tolerantly(file, sql):
        own = row[len(derived) :]
        value, journaled = decode_row_or_none(table, own), decode_document_or_none(table, document)
        if value is None and is_contradicted(table, own, document):
            journaled = None
        yield key, tuple(row[: len(derived)]), value, journaled


def _list_derived_columns(table: TableCodec[Any]) -> tuple[str, ...]:
    """Return the columns that follow from the value of a row."""
    fingerprint = ("fingerprint",) if table is RECORDS else ()
    return (*fingerprint, *(ANALYSIS_COLUMNS if table.analysed else ()))


def _build_row(
    file: sqlite3.Connection, table: TableCodec[Any], value: Value, analyse: Analyse
) -> dict[str, Any] | None:
    """Return all columns of a thing; None if its session is missing."""
    row = dict(zip(table.columns, table.encode(value), strict=True))
    if table is TURNS:
        session = file.execute("SELECT key FROM sessions WHERE id = ?", (row["session"],)).fetchone()
        if session is None:
            return None
        row["session"] = session[0]
    if isinstance(value, Record):
        row["fingerprint"] = value.fingerprint
    if table.analysed:
        row |= zip(ANALYSIS_COLUMNS, _analyze_value(analyse, value), strict=True)
    return row


def _analyze_value(analyse: Analyse, value: Value) -> Row:
    if isinstance(value, SessionState | Page) or (isinstance(value, Paragraph) and value.page != HISTORY):
        return _NOT_SEARCHED
    return encode_analyzed_text(analyse(value))


def _repair_counts(file: sqlite3.Connection) -> None:
    """Count again how much there is to search."""
    file.execute("DELETE FROM measures")
    file.execute(f"INSERT INTO measures (subject, area, voice, passages, tokens) {COUNTED}")
