"""Filters as conditions on the tables of SQLite, and decoding of rows from a file that may be damaged.

The conditions agree with `is_record_allowed` and `is_turn_allowed`.

A row that was requested by itself and cannot be read raises `StoreCorrupt`. One of many is left out, with a
warning that names it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import Searchable
from reverie.domain.record import Record
from reverie.stores.codec import (
    SESSIONS,
    Row,
    TableCodec,
    UnreadableRow,
    count_positions,
    decode_moment,
    to_json,
)
from reverie.stores.filter_sql import Conditions

_log = logging.getLogger("reverie")

T = TypeVar("T", Record, Turn, Page, Paragraph)

_BATCH = 500

_INTEGER, _FLOAT, _TEXT = frozenset({int}), frozenset({float}), frozenset({str})
_PASSAGE_TYPES = (
    _INTEGER, _TEXT, _INTEGER, _INTEGER | {type(None)}, _INTEGER, _TEXT, _FLOAT, _TEXT, _TEXT,
    _FLOAT, _FLOAT, _TEXT, _INTEGER, _FLOAT | {type(None)},
)  # fmt: skip
"""The types of the fields of a `Passage`, as the database has them."""


def fetch_rows_tolerantly(file: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[Row]:
    """Return the rows of a query. Text that is not UTF-8 comes as bytes, which `TableCodec.decode` refuses."""
    file.text_factory = _decode_text_or_bytes
    try:
        return file.execute(sql, values).fetchall()
    finally:
        file.text_factory = str


def iter_rows_tolerantly(file: sqlite3.Connection, sql: str) -> Iterator[Row]:
    """Yield the rows of a query in batches, so that the tables may be written in between.

    Args:
        file: The connection.
        sql: A query whose first column is a key of 0 or more, in its order. Its two parameters are the key
            after which to begin and the largest number of rows.
    """
    last = -1
    while rows := fetch_rows_tolerantly(file, sql, (last, _BATCH)):
        yield from rows
        last = rows[-1][0]


def iter_things_tolerantly(file: sqlite3.Connection, table: TableCodec[Any], *further: str) -> Iterator[Row]:
    """Yield the rows of a table in order: the key, further columns, and those that the table decodes."""
    columns = ", ".join(("it.key", *further, table.selected))
    sql = f"SELECT {columns} FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT ?"
    return iter_rows_tolerantly(file, sql)


def _decode_text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def decode_or_raise(table: TableCodec[Any], row: Sequence[Any]) -> Any:
    """Return the value of a row; raise `StoreCorrupt` if it cannot be read."""
    try:
        return table.decode(row)
    except UnreadableRow as error:
        raise StoreCorrupt(
            f"{table.subject} {row[0]!r} cannot be read, {error}: run `reverie doctor --fix`, which writes it "
            "again from the journal or says what else brings it back"
        ) from error


def build_overview(*row: Any) -> SessionOverview:
    """Return a session from its columns, the position of its last turn and the time of that turn."""
    *columns, last, last_at = row
    state: SessionState = decode_or_raise(SESSIONS, columns)
    try:
        moment = decode_moment(last_at)
    except UnreadableRow:
        _log.warning("the last turn of session %r has a time that cannot be read: run check()", state.id)
        moment = state.created_at
    return SessionOverview(state=state, turns=count_positions(last, state.id), last_at=moment)


def decode_or_skip(table: TableCodec[T], key: int, row: Row) -> T | None:
    """Return the value of a row; None, with a warning, if it is missing or cannot be read."""
    try:
        if not row:
            raise UnreadableRow("it or its session is missing from its table")
        return table.decode(row)
    except UnreadableRow as error:
        _log.warning(
            "%s %r (key %d) cannot be read and is left out, %s: run check()",
            table.subject,
            row[0] if row else None,
            key,
            error,
        )
        return None


def skip_unreadable_passages(subject: Searchable, rows: list[Row]) -> list[Row]:
    """Return the rows of passages without those in which a value is of a wrong type."""
    columns = zip(zip(*rows, strict=True), _PASSAGE_TYPES, strict=False)
    if all(types.issuperset(map(type, column)) for column, types in columns):  # quick: column by column
        return rows
    readable = []
    for row in rows:
        if all(type(value) in types for value, types in zip(row, _PASSAGE_TYPES, strict=False)):
            readable.append(row)
        else:
            _log.warning("the words of %s %d cannot be read and are left out: run check()", subject, row[0])
    return readable


# -- filters as conditions -----------------------------------------------------------------------------------


SEARCHED = f"+page = '{HISTORY}'"
"""Condition for searchable paragraphs. The plus keeps SQLite from scanning a whole log to find one key."""

EACH_TAG = "json_each(CASE WHEN json_valid(tags) THEN tags ELSE '[]' END)"
"""The tags of a row of `records`, each a row with the column `value`."""

CASEFOLD = "casefold"
"""Name of the SQL function for `str.casefold`, which `connections` defines; SQLite's `lower` knows ASCII only."""

# The first condition is quick: tags in ASCII alone are compared as one text, which also finds `","` in
# `["a","b"]`. The second is exact.
_HAS_TAG = (
    "((instr(lower(tags), ?) > 0 OR tags GLOB '*[^ -~]*') "
    f"AND EXISTS (SELECT 1 FROM {EACH_TAG} WHERE {CASEFOLD}(value) = ?))"
)


def build_records_where(wanted: Filter, containing: str | None = None) -> Conditions:
    """Return a filter as conditions on `records AS it`."""
    where = Conditions()
    where.add_record_filter(wanted, created_at="it.created_at")
    for tag in wanted.tags:
        folded = tag.casefold()
        where.add(_HAS_TAG, to_json(folded), folded)
    if wanted.headlines is not None:
        where.add(f"it.parts IS {'NOT ' if wanted.headlines else ''}NULL")
    _add_text(where, containing)
    return where


def build_turns_where(wanted: Filter, containing: str | None = None) -> Conditions:
    """Return a filter as conditions on `turns AS it`."""
    where = Conditions()
    where.add_turn_filter(wanted, role="it.role")
    if wanted.sessions:
        sessions = Conditions()
        sessions.add_any("id", wanted.sessions)
        where.add(f"it.session IN (SELECT key FROM sessions WHERE {sessions})", *sessions.values)
    _add_text(where, containing)
    return where


def _add_text(where: Conditions, text: str | None) -> None:
    """Add that the content has a text; nothing for None. SQLite's `lower` changes ASCII letters only."""
    # Not LIKE: `%` and `_` would have to be escaped, and its patterns end at 50,000 bytes.
    if text is not None:
        where.add("instr(lower(it.content), lower(?)) > 0", text)
