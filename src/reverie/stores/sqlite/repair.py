"""What of a damaged file can be put right from what else the file says? The counterpart of `check`.

Nearly everything stands twice: a thing in its table and in the journal's last row of it, an earlier version
as the `after` of one row and the `before` of the next. So a row that is missing or cannot be read is written
again from the other place; indexes, words and counts are made again from the tables.

Where a row can be read and says something else than the journal, both stay. If the row is whole (its words
and fingerprint are those of its content, and not of what the journal says, or it is newer) then Reverie wrote
it and the journal is damaged or has lost the change: it is written again. Otherwise somebody changed the
row beside Reverie, or a bit fell over: the journal holds, and what was found goes into it as a change and its
undoing.

What stands nowhere else is left as it is, for a person to see to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState
from reverie.domain.errors import InvalidInput
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import Analyse
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.sqlite.codec import (
    ANALYSIS_COLUMNS,
    CHANGE_COLUMNS,
    PAGES,
    PARAGRAPHS,
    RECORDS,
    SESSIONS,
    TABLES,
    TURNS,
    Row,
    TableCodec,
    UnreadableRow,
    encode_analyzed_text,
    fetch_rows_tolerantly,
    from_document,
    is_moment,
    to_document,
)
from reverie.stores.sqlite.integrity import COUNTED, LAST_WORD, find_damage, find_gaps, validate_value

ACTOR = "doctor"
FOUND = "found beside the journal"
LOST = "lost"

_ORDER: tuple[TableCodec[Any], ...] = (SESSIONS, RECORDS, PAGES, TURNS, PARAGRAPHS)
"""Sessions before their turns."""

_ACCOUNT = "UPDATE journal SET batch = ?, at = ?, actor = ?, reason = ? WHERE sequence = ?"
_BATCH = 500
_LONGEST_GAP = 1_000_000
_NOT_SEARCHED: Row = (0, "", "", "", "")


class JournalRepair:
    """One repair of a file, within one transaction that the caller commits."""

    def __init__(self, file: sqlite3.Connection, *, analyse: Analyse, at: datetime) -> None:
        self._file = file
        self._analyse = analyse
        self._at = to_microseconds(at)

    def run(self) -> None:
        """Put right what can be; the file is as before where its pages cannot be read."""
        found = find_damage(self._file)
        if found.indexes:
            self._file.execute("REINDEX")
            found = find_damage(self._file)
        if found.pages:
            return
        self._repair_journal()
        for table in _ORDER:
            self._restore_first_rows(table)
        for table in _ORDER:
            self._restore_vanished(table)
            self._repair_rows(table)
        self._fill_gaps()
        self._repair_counts()

    # -- the journal ---------------------------------------------------------------------------------

    def _repair_journal(self) -> None:
        """Write rows of the journal again whose neighbours, or the table, have what they said."""
        last = 0
        sql = f"SELECT {CHANGE_COLUMNS} FROM journal WHERE sequence > ? ORDER BY sequence LIMIT {_BATCH}"
        while rows := fetch_rows_tolerantly(self._file, sql, (last,)):
            for sequence, batch, at, actor, reason, key, subject, before, after in rows:
                if subject in TABLES:
                    self._repair_change(TABLES[subject], sequence, key, before, after)
                whole = (
                    batch if type(batch) is int else sequence,
                    at if is_moment(at) else self._find_moment(sequence),
                    actor if type(actor) is str else ACTOR,
                    reason if type(reason) is str else "",
                )
                if whole != (batch, at, actor, reason):
                    self._file.execute(_ACCOUNT, (*whole, sequence))
            last = rows[-1][0]

    def _repair_change(
        self, table: TableCodec[Any], sequence: int, key: int, before: Any, after: Any
    ) -> None:
        name = self._find_id(table, key)
        if before is not None and key == sequence:
            self._file.execute("UPDATE journal SET before = NULL WHERE sequence = ?", (sequence,))
        elif not _is_readable(table, before, name):
            earlier = self._fetch_one(LAST_WORD.format(key="?1", before="AND sequence < ?2"), key, sequence)
            if earlier is not None and _is_readable(table, earlier, name):
                self._file.execute("UPDATE journal SET before = ? WHERE sequence = ?", (earlier, sequence))
        if not _is_readable(table, after, name):
            later = self._find_later_document(table, key, sequence)
            if later is not None and _is_readable(table, later, name):
                self._file.execute("UPDATE journal SET after = ? WHERE sequence = ?", (later, sequence))

    def _find_later_document(self, table: TableCodec[Any], key: int, sequence: int) -> str | None:
        """What was after a change: the `before` of the next of that thing, or the thing as it is."""
        following = fetch_rows_tolerantly(
            self._file,
            "SELECT before FROM journal WHERE key = ? AND key <> sequence AND sequence > ? "
            "ORDER BY sequence LIMIT 1",
            (key, sequence),
        )
        if following:
            return following[0][0] if isinstance(following[0][0], str) else None
        value = self._read_value(table, key)
        return None if value is None else to_document(table, table.encode(value))

    def _find_id(self, table: TableCodec[Any], key: int) -> str | None:
        """The id of the thing of that key, if it is known."""
        found = self._fetch_one(
            f"SELECT id FROM {table.name} WHERE key = ?1 UNION ALL SELECT id FROM gone WHERE key = ?1", key
        )
        return found if isinstance(found, str) else None

    def _read_value(self, table: TableCodec[Any], key: int) -> Value | None:
        """The thing of that key, if its row can be read."""
        rows = fetch_rows_tolerantly(
            self._file, f"SELECT {table.selected} FROM {table.source} WHERE it.key = ?", (key,)
        )
        return _decode_row_or_none(table, rows[0]) if rows else None

    def _fetch_one(self, sql: str, *values: Any) -> Any:
        rows = fetch_rows_tolerantly(self._file, sql, values)
        return rows[0][0] if rows else None

    # -- the tables ----------------------------------------------------------------------------------

    def _restore_vanished(self, table: TableCodec[Any]) -> None:
        """Put back what the journal says is there and is not."""
        sql = (
            f"SELECT key, ({LAST_WORD.format(key='made.key', before='')}) FROM journal AS made "
            "WHERE key = sequence AND subject = ? "
            f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
        )
        for key, document in fetch_rows_tolerantly(self._file, sql, (table.subject,)):
            value = _decode_document_or_none(table, document)
            row = None if value is None else self._build_row(table, value)
            if value is None or row is None:
                continue
            columns = ("key", *row)
            sql = (
                f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) "
                f"VALUES ({', '.join('?' * len(columns))})"
            )
            self._file.execute(sql, (key, *row.values()))

    def _repair_rows(self, table: TableCodec[Any]) -> None:
        """Write rows again that are not what the journal says, and make their words again."""
        stored = ", ".join(f"it.{name}" for name in self._list_derived_columns(table)) or "NULL"
        width = max(len(self._list_derived_columns(table)), 1)
        sql = (
            f"SELECT it.key, ({LAST_WORD.format(key='it.key', before='')}), {stored}, {table.selected} "
            f"FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT {_BATCH}"
        )
        last = -1
        while rows := fetch_rows_tolerantly(self._file, sql, (last,)):
            for key, document, *row in rows:
                derived = tuple(row[:width]) if self._list_derived_columns(table) else ()
                self._repair_thing(table, key, document, derived, row[width:])
            last = rows[-1][0]

    def _repair_thing(
        self, table: TableCodec[Any], key: int, document: Any, derived: Row, row: Sequence[Any]
    ) -> None:
        found, told = _decode_row_or_none(table, row), _decode_document_or_none(table, document)
        if found is not None and (told is None or self._is_as_written(table, found, derived, told)):
            if told is not None and found != told:
                self._record_change(table, key, told, found)
            told = found
        if told is None:
            return
        wanted = self._build_row(table, told)
        if wanted is None or (
            found == told and derived == tuple(wanted[name] for name in self._list_derived_columns(table))
        ):
            return
        if found is not None and found != told:
            found = _restore_name(found, told)
            self._record_change(table, key, told, found)
            self._record_change(table, key, found, told)
        assignments = ", ".join(f"{name} = ?" for name in wanted)
        self._file.execute(
            f"UPDATE OR IGNORE {table.name} SET {assignments} WHERE key = ?", (*wanted.values(), key)
        )

    def _is_as_written(self, table: TableCodec[Any], found: Any, derived: Row, told: Any) -> bool:
        """Whether Reverie itself wrote a row, whatever the journal says of it."""
        row, other = self._build_row(table, found), self._build_row(table, told)
        if (
            row is None
            or found.id != told.id
            or derived != tuple(row[name] for name in self._list_derived_columns(table))
        ):
            return False
        of_other = other is not None and derived == tuple(
            other[name] for name in self._list_derived_columns(table)
        )
        return not of_other or _get_last_touched(found) > _get_last_touched(told)

    def _restore_first_rows(self, table: TableCodec[Any]) -> None:
        """Write the journal's first row again of a thing that has none."""
        sql = (
            f"SELECT it.key FROM {table.name} AS it "
            "WHERE NOT EXISTS (SELECT 1 FROM journal WHERE sequence = it.key) ORDER BY it.key"
        )
        for (key,) in self._file.execute(sql).fetchall():
            document = self._find_later_document(table, key, key)
            if document is not None and _is_readable(table, document):
                self._insert(key, key, key, table.subject, self._find_moment(key), FOUND, None, document)

    def _record_change(self, table: TableCodec[Any], key: int, before: Value, after: Value) -> None:
        """Take a change into the journal that it does not have."""
        was, now = (to_document(table, table.encode(value)) for value in (before, after))
        (newest,) = self._file.execute("SELECT max(sequence) FROM journal").fetchone()
        sequence = newest + 1
        self._insert(sequence, sequence, key, table.subject, self._at, FOUND, was, now)

    def _fill_gaps(self) -> None:
        """Say of changes that are lost that they are."""
        for first, last in find_gaps(self._file):
            if last - first < _LONGEST_GAP:
                moment = self._find_moment(first)
                for sequence in range(first, last + 1):
                    self._insert(sequence, first, sequence, "record", moment, LOST, None, None)

    def _insert(self, *row: Any) -> None:
        sequence, batch, key, subject, at, reason, before, after = row
        self._file.execute(
            "INSERT OR IGNORE INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (sequence, batch, key, subject, at, ACTOR, reason, before, after),
        )

    def _find_moment(self, sequence: int) -> int:
        """When the change before that one was made."""
        at = self._fetch_one(
            "SELECT at FROM journal WHERE sequence < ? ORDER BY sequence DESC LIMIT 1", sequence
        )
        return at if is_moment(at) else self._at

    def _list_derived_columns(self, table: TableCodec[Any]) -> tuple[str, ...]:
        """The columns beside those of the value, which follow from it."""
        fingerprint = ("fingerprint",) if table is RECORDS else ()
        return (*fingerprint, *(ANALYSIS_COLUMNS if table.analysed else ()))

    def _build_row(self, table: TableCodec[Any], value: Value) -> dict[str, Any] | None:
        """All columns of a thing; None if it belongs to a session that is not there."""
        row = dict(zip(table.columns, table.encode(value), strict=True))
        if table is TURNS:
            row["session"] = self._fetch_one("SELECT key FROM sessions WHERE id = ?", row["session"])
            if row["session"] is None:
                return None
        if isinstance(value, Record):
            row["fingerprint"] = value.fingerprint
        if table.analysed:
            row |= zip(ANALYSIS_COLUMNS, self._analyze_value(value), strict=True)
        return row

    def _analyze_value(self, value: Value) -> Row:
        if isinstance(value, SessionState | Page) or (isinstance(value, Paragraph) and value.page != HISTORY):
            return _NOT_SEARCHED
        return encode_analyzed_text(self._analyse(value))

    # -- what is counted -------------------------------------------------------------------------------

    def _repair_counts(self) -> None:
        """Count again how much there is to search, where it is not as it was counted."""
        columns = "subject, area, voice, passages, tokens"
        stored = f"SELECT {columns} FROM measures"
        if self._fetch_one(
            f"SELECT 1 FROM (SELECT * FROM ({COUNTED}) EXCEPT {stored}) "
            f"UNION ALL SELECT 1 FROM (SELECT * FROM ({stored}) EXCEPT SELECT * FROM ({COUNTED})) LIMIT 1"
        ):
            self._file.execute("DELETE FROM measures")
            self._file.execute(f"INSERT INTO measures ({columns}) {COUNTED}")


def find_stale_analyses(file: sqlite3.Connection, analyse: Analyse) -> Iterator[str]:
    """The ids of things whose words as they are stored are not what the analyser makes of them."""
    names = ", ".join(f"it.{name}" for name in ANALYSIS_COLUMNS)
    width = len(ANALYSIS_COLUMNS)
    for table in (RECORDS, TURNS, PARAGRAPHS):
        sql = (
            f"SELECT it.key, {names}, {table.selected} FROM {table.source} "
            f"WHERE it.key > ? ORDER BY it.key LIMIT {_BATCH}"
        )
        last = -1
        while rows := fetch_rows_tolerantly(file, sql, (last,)):
            for row in rows:
                value = _decode_row_or_none(table, row[1 + width :])
                if value is None:
                    continue
                unsearched = isinstance(value, Paragraph) and value.page != HISTORY
                wanted = _NOT_SEARCHED if unsearched else encode_analyzed_text(analyse(value))
                if tuple(row[1 : 1 + width]) != wanted:
                    yield value.id
            last = rows[-1][0]


def _decode_row_or_none(table: TableCodec[Any], row: Sequence[Any]) -> Any:
    """The value of a row; None if it is not one, or not of its form."""
    try:
        return validate_value(table.decode(row))
    except (UnreadableRow, InvalidInput):
        return None


def _decode_document_or_none(table: TableCodec[Any], document: Any) -> Any:
    """The value of a document; None if there is none, or it is not one."""
    if not isinstance(document, str):
        return None
    try:
        return validate_value(from_document(table, document))
    except (UnreadableRow, InvalidInput):
        return None


def _is_readable(table: TableCodec[Any], document: Any, name: str | None = None) -> bool:
    """Whether it is no document, or one of a thing, of that id if it is given."""
    if document is None:
        return True
    value = _decode_document_or_none(table, document)
    return value is not None and name in (None, value.id)


def _get_last_touched(value: Value) -> float:
    """When Reverie last wrote it, in seconds since 1970; 0 of what never changes, or does not say."""
    if isinstance(value, Page):
        return value.updated_at.timestamp()
    if isinstance(value, Record):
        times = (value.updated_at, value.last_seen_at, value.archived_at)
        return max(moment.timestamp() for moment in times if moment is not None)
    return 0.0


def _restore_name(found: Any, told: Any) -> Any:
    """What was found, under the name that the thing goes by: a change is one of one thing."""
    return replace(found, name=told.name) if isinstance(told, Page) else replace(found, id=told.id)
