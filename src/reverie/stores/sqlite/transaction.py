"""One write transaction of the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from reverie.domain.change import Change, JournalEntry, JournalNote, Subject, build_entries
from reverie.domain.conversation import Turn
from reverie.domain.entry import Entry
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import build_conflict
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    ENTRIES,
    IN_ROW,
    RECORDS,
    SESSIONS,
    TABLES,
    TURNS,
    USUAL_CHANGE,
    Row,
    TableCodec,
    UnreadableRow,
    compute_mark,
    find_ids,
    to_document,
)

_ARCHIVED_AT = RECORDS.names.index("archived_at")
_SESSION, _POSITION = TURNS.names.index("session"), TURNS.names.index("position")


class PreparedChange(NamedTuple):
    """Change with all that can be computed before the transaction begins.

    Attributes:
        edit: The change.
        table: The table.
        before: Columns of the value that is expected.
        after: Columns of the new value, then those that follow from it.
        document: The new value as the journal has it. That of a creation that is searched is in its row.
    """

    edit: Change
    table: TableCodec[Any]
    before: Row | None
    after: Row | None = None
    document: str | None = None


def prepare_change(edit: Change) -> PreparedChange:
    """Encode a change, so that the lock is not held meanwhile."""
    table = TABLES[edit.subject]
    before = None if edit.before is None else table.encode(edit.before)
    if edit.after is None:
        return PreparedChange(edit, table, before)
    after = table.encode(edit.after)
    # The derived database has a second copy of what is searched.
    is_copied = before is None and (table is TURNS or (table is RECORDS and after[_ARCHIVED_AT] is None))
    document = IN_ROW if is_copied else to_document(table, after)
    return PreparedChange(edit, table, before, (*after, *table.derive(edit.after, after)), document)


def _build_insert(table: TableCodec[Any]) -> str:
    columns = ("key", *table.names, *table.derived)
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _build_select(table: TableCodec[Any]) -> str:
    derived = "".join(f", it.{name}" for name in table.derived)
    return f"SELECT it.key, {table.selected}{derived} FROM {table.source} WHERE it.id = ?"


_INSERT = {table.subject: _build_insert(table) for table in TABLES.values()}
_SELECT = {table.subject: _build_select(table) for table in TABLES.values()}
_DELETE = {table.subject: f"DELETE FROM {table.name} WHERE key = ?" for table in TABLES.values()}
_get_fields = attrgetter("actor", "operation", "note", "reference", "key", "subject")
_VALUES = [
    f"nullif(?, '{USUAL_CHANGE[name]}')" if name in USUAL_CHANGE else "?"
    for name in CHANGE_COLUMNS.split(", ")
]
INSERT_CHANGE = f"INSERT INTO journal ({CHANGE_COLUMNS}) VALUES ({', '.join(_VALUES)})"
_EMPTY = (
    "UPDATE journal SET before = NULL, after = NULL, note = '', reference = '' WHERE sequence = ?",
    "UPDATE journal SET before = NULL, after = NULL, note = '', reference = '' WHERE key = ? AND key <> sequence",
)
_SET_CREATION = "UPDATE journal SET after = ? WHERE sequence = ? AND after = ?"
_EARLIER_KEYS = (
    "SELECT gone.key FROM gone JOIN changes ON sequence = gone.key WHERE gone.id = ? AND subject = ?"
)
_POSITIONS = "SELECT position FROM turns WHERE session = ? AND position BETWEEN ? AND ? ORDER BY position"
_PUT = (
    f"INSERT OR REPLACE INTO entries ({', '.join(ENTRIES.names)}) "
    f"VALUES ({', '.join('?' * len(ENTRIES.names))})"
)
_COUNT = "INSERT INTO counters VALUES (?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value"

CITE = "INSERT OR IGNORE INTO citations VALUES (?, ?)"


def _list_citations(key: int, row: Row) -> list[tuple[str, int]]:
    """Return the ids that the columns of a value name, except its own, with its key."""
    own, *others = row
    found = find_ids("\n".join([each for each in others if type(each) is str]))
    return [(cited, key) for cited in found if cited != own]


class _Made(NamedTuple):
    """Change that was made, with its journal row."""

    key: int
    name: tuple[Subject, str]
    before: str | None
    after: str | None
    edit: Change | None


class WriteTransaction:
    """Changes of one transaction, made one after the other, and what is written once at its end."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        (newest,) = file.execute("SELECT max(sequence) FROM journal").fetchone()
        self._first = (newest or 0) + 1
        self._made: list[_Made] = []
        self._erased: dict[tuple[Subject, str], int] = {}  # where the newest row of it stands in these
        self._sessions: dict[str, int] = {}
        self._places: set[tuple[int, int]] = set()  # session and position of turns that came or went

    def refuse_if_changed(self, since: int) -> None:
        """Raise `Conflict` if a record was changed after that sequence number."""
        found = self._file.execute(
            "SELECT sequence FROM changes WHERE sequence > ? AND subject = 'record' LIMIT 1", (since,)
        ).fetchone()
        if found:
            raise build_conflict("since", sequence=found[0], since=since)

    def refuse_other_cursors(self, expected: Mapping[str, str | None]) -> None:
        """Raise `Conflict` if a cursor has another value than expected."""
        for name, value in expected.items():
            found = self._file.execute("SELECT value FROM cursors WHERE name = ?", (name,)).fetchone()
            if (found and found[0]) != value:
                raise build_conflict("cursor", name=name)

    def make(self, edit: PreparedChange) -> None:
        """Make one edit."""
        key, before = self._first + len(self._made), None
        if edit.before is None:
            self.insert(edit, key)
        else:
            key, before = self._replace(edit)
            self._keep_creation(key, before)
        if edit.after is not None and (citations := _list_citations(key, edit.after)):
            self._file.executemany(CITE, citations)
        self._made.append(_Made(key, (edit.table.subject, edit.edit.id), before, edit.document, edit.edit))

    def _keep_creation(self, key: int, document: str) -> None:
        """Write the document of a creation into the journal, because its row is going to differ."""
        if key < self._first:
            self._file.execute(_SET_CREATION, (document, key, IN_ROW))
        elif (made := self._made[key - self._first]).after == IN_ROW:
            self._made[key - self._first] = made._replace(after=document)

    def erase(self, edit: PreparedChange) -> None:
        """Make one edit, and empty whatever the journal said of that thing before."""
        self.make(edit)
        row = self._made.pop()
        subject, name = row.name
        earlier = [key for (key,) in self._file.execute(_EARLIER_KEYS, (name, subject))]
        self._file.executemany("DELETE FROM citations WHERE key = ?", [(key,) for key in {row.key, *earlier}])
        for statement in _EMPTY:
            self._file.executemany(statement, [(key,) for key in {row.key, *earlier}])
        if edit.after is not None:
            self._file.executemany(CITE, _list_citations(row.key, edit.after))
        if (place := self._erased.get(row.name)) is not None:
            self._made[place] = self._made[place]._replace(after=None, edit=None)
        self._erased[row.name] = len(self._made)
        after = edit.edit.after
        if after is None and subject in ("session", "page"):
            self._file.executemany(
                "DELETE FROM gone WHERE id = ? AND key = ?", [(name, key) for key in {row.key, *earlier}]
            )
        left = None if after is None else Change(before=None, after=after)
        self._made.append(row._replace(before=None, edit=left))

    def put_entry(self, entry: Entry) -> None:
        """Set an entry of working memory."""
        self._file.execute(_PUT, ENTRIES.encode(entry))

    def write_beside(
        self, marks: Sequence[str], cursors: Mapping[str, str | None], counts: Mapping[str, int]
    ) -> None:
        """Keep tombstones for ever, set cursors or remove those that are None, and add to counters."""
        if marks:
            self._file.executemany("INSERT OR IGNORE INTO tombstones VALUES (?)", [(each,) for each in marks])
        if counts:
            self._file.executemany(_COUNT, counts.items())
        for name, value in cursors.items():
            if value is None:
                self._file.execute("DELETE FROM cursors WHERE name = ?", (name,))
            else:
                self._file.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (name, value))

    def finish(self, *, actor: str, at: datetime, note: JournalNote) -> list[JournalEntry]:
        """Check what only the whole can show, and write the journal."""
        self._refuse_gaps()
        made = [(row.key, row.name[0], row.edit) for row in self._made]
        entries = build_entries(self._first, made, at=at, actor=actor, note=note)
        moment = to_microseconds(at)
        self._file.executemany(
            INSERT_CHANGE,
            [
                (each.sequence, each.batch, moment, *_get_fields(each), row.before, row.after)
                for each, row in zip(entries, self._made, strict=True)
            ],
        )
        return entries

    # -- one thing ---------------------------------------------------------------------------------

    def insert(self, edit: PreparedChange, key: int) -> None:
        """Insert a new thing under a key, and note nothing: the journal has it already, or is told by the caller."""
        assert edit.after is not None
        row = self._resolve_session_key(edit.table, edit.after)
        self._execute(edit, _INSERT[edit.table.subject], (key, *edit.table.shorten(row)))
        self._note_place(edit.table, row)
        if edit.table is SESSIONS:
            self._sessions[edit.edit.id] = key

    def _replace(self, edit: PreparedChange) -> tuple[int, str]:
        """Change or remove what is there; returns its key and the journal's `before`."""
        table, name = edit.table, edit.edit.id
        found = self._file.execute(_SELECT[table.subject], (name,)).fetchone()
        if found is None:
            raise build_conflict("missing", subject=table.subject, id=name)
        key, *columns = found
        stored = tuple(columns[: len(table.names)])
        if stored != edit.before and not _is_same_value(table, stored, edit.edit):
            raise build_conflict("changed", subject=table.subject, id=name)
        row = self._resolve_session_key(table, tuple(columns))
        self._note_place(table, row)
        if edit.after is None:
            self._delete(edit, key)
        else:
            self._update(edit, key, row)
        return key, to_document(table, stored)

    def _update(self, edit: PreparedChange, key: int, stored: Row) -> None:
        assert edit.after is not None
        table = edit.table
        row = self._resolve_session_key(table, edit.after)
        # Only what differs: SQLite takes every index that has a named column apart and puts it together again.
        columns = zip((*table.names, *table.derived), table.shorten(row), table.shorten(stored), strict=True)
        changed = {name: new for name, new, old in columns if new != old}
        if changed:
            assignments = ", ".join(f"{name} = ?" for name in changed)
            sql = f"UPDATE {table.name} SET {assignments} WHERE key = ?"
            self._execute(edit, sql, (*changed.values(), key))
        self._note_place(table, row)

    def _delete(self, edit: PreparedChange, key: int) -> None:
        self._execute(edit, _DELETE[edit.table.subject], (key,))
        self._file.execute("INSERT INTO gone VALUES (?, ?)", (edit.edit.id, key))
        self._sessions.pop(edit.edit.id, None)

    # -- what belongs to it ------------------------------------------------------------------------

    def _resolve_session_key(self, table: TableCodec[Any], row: Row) -> Row:
        """Return the columns, for a turn with the key of its session in place of the id."""
        if table is not TURNS:
            return row
        name = row[_SESSION]
        key = self._sessions.get(name)
        if key is None:
            found = self._file.execute("SELECT key FROM sessions WHERE id = ?", (name,)).fetchone()
            if found is None:
                raise build_conflict("no session", session=name, id=row[0])
            key = self._sessions[name] = found[0]
        return (*row[:_SESSION], key, *row[_SESSION + 1 :])

    def _refuse_gaps(self) -> None:
        """Raise `Conflict` if a session has a gap in its positions.

        There was none before. So it is enough to look from just before the first turn that came or went to just
        after the last one.
        """
        for session, places in groupby(sorted(self._places), key=itemgetter(0)):
            positions = [position for _, position in places]
            start = max(positions[0] - 1, 0)
            rows = self._file.execute(_POSITIONS, (session, start, positions[-1] + 1)).fetchall()
            if all(position == number for number, (position,) in enumerate(rows, start)):
                continue
            rows = self._file.execute("SELECT position FROM turns WHERE session = ?", (session,)).fetchall()
            gap = next(number for number in range(len(rows)) if (number,) not in rows)
            (name,) = self._file.execute("SELECT id FROM sessions WHERE key = ?", (session,)).fetchone()
            raise build_conflict("gap", session=name, position=gap)

    def _note_place(self, table: TableCodec[Any], row: Row) -> None:
        """Note the place of a turn that came or went."""
        if table is TURNS:
            self._places.add((row[_SESSION], row[_POSITION]))

    # -- refusing ----------------------------------------------------------------------------------

    def _execute(self, edit: PreparedChange, sql: str, values: Row) -> None:
        """Execute a statement of an edit; raise the conflict that a violated constraint stands for."""
        try:
            self._file.execute(sql, values)
        except sqlite3.IntegrityError as error:
            raise self._translate_integrity_error(edit, error) from error

    def _translate_integrity_error(self, edit: PreparedChange, error: sqlite3.IntegrityError) -> Exception:
        """Return the error that a violated constraint stands for; an unknown error itself."""
        value, subject = edit.edit.value, edit.table.subject
        if edit.table is SESSIONS and edit.after is None:
            return build_conflict("has turns", id=value.id)
        if edit.before is None and self._file.execute(_SELECT[subject], (value.id,)).fetchone():
            return build_conflict("exists", subject=subject, id=value.id)
        if isinstance(value, Record):
            found = self._file.execute(
                "SELECT id FROM records WHERE fingerprint = ? AND archived_at IS NULL",
                (compute_mark(value.scope, value.fingerprint),),
            ).fetchone()
            if found:
                return build_conflict("same words", id=value.id, other=found[0])
        if isinstance(value, Turn):
            return build_conflict("place taken", id=value.id, position=value.position, session=value.session)
        return error


def _is_same_value(table: TableCodec[Any], stored: Row, edit: Change) -> bool:
    """Return whether a row that differs in form, such as the order of its metadata, holds the expected value."""
    try:
        return bool(table.decode(stored) == edit.before)
    except UnreadableRow:
        return False
