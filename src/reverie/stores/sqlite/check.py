"""Is what the file holds sound? Reads everything and changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from reverie.errors import InvalidInput
from reverie.records import Record, checked
from reverie.stores.base import Problem
from reverie.stores.sqlite.rows import (
    ENTRY_COLUMNS,
    RECORDS,
    TABLES,
    TURNS,
    Row,
    Table,
    Unreadable,
    entry_of,
    from_document,
    tolerant_rows,
    value_from,
)
from reverie.turns import Turn, checked_session, checked_turn

_BATCH = 500
_RESTORE = "restore a backup, or correct the row in reverie.db"
_REBUILD = "restore a backup, or export everything and import it into a new store"


def problems(file: sqlite3.Connection) -> list[Problem]:
    """Everything wrong with the file, within the caller's reading transaction."""
    damaged = list(_pages(file))
    if damaged:  # the queries below would fail half-way
        return damaged
    return [
        *_references(file),
        *(problem for table in TABLES.values() for problem in _things(file, table)),
        *_vanished(file),
        *_chain(file),
        *_counters(file),
        *_positions(file),
        *_entries(file),
    ]


def _pages(file: sqlite3.Connection) -> Iterator[Problem]:
    try:
        for (line,) in file.execute("PRAGMA quick_check(20)"):
            if line != "ok":
                yield Problem(what=f"the file is damaged: {line}", fix="restore a backup of the file")
    except sqlite3.DatabaseError as error:
        yield Problem(
            what=f"the file is damaged: {error.sqlite_errorname}", fix="restore a backup of the file"
        )


def _references(file: sqlite3.Connection) -> Iterator[Problem]:
    for table, key, parent, _ in file.execute("PRAGMA foreign_key_check"):
        yield Problem(what=f"row {key} of {table} belongs to none of {parent}", fix=_RESTORE)


def _things(file: sqlite3.Connection, table: Table[Any]) -> Iterator[Problem]:
    """Rows that cannot be read, have a wrong fingerprint, or differ from what the journal says last."""
    fingerprint = "it.fingerprint" if table is RECORDS else "NULL"
    sql = (
        f"SELECT it.key, {fingerprint}, (SELECT after FROM journal WHERE sequence = coalesce("
        "(SELECT max(sequence) FROM journal WHERE key = it.key AND key <> sequence), it.key)), "
        f"{table.selected} FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT {_BATCH}"
    )
    last = -1
    while rows := tolerant_rows(file, sql, (last,)):
        for key, stored_fingerprint, document, *row in rows:
            yield from _thing(table, key, stored_fingerprint, document, row)
        last = rows[-1][0]


def _thing(
    table: Table[Any], key: int, fingerprint: str | None, document: str | None, row: list[Any]
) -> Iterator[Problem]:
    name = f"{table.subject} {row[0]!r} (key {key})"
    try:
        value = table.decode(row)
        _check(value)
    except (Unreadable, InvalidInput) as error:
        why = error if isinstance(error, Unreadable) else "a field is not of its form"
        yield Problem(what=f"{name} cannot be read: {why}", fix=_RESTORE)
        return
    if isinstance(value, Record) and value.fingerprint != fingerprint:
        yield Problem(what=f"{name} has another fingerprint than its content", fix=_RESTORE)
    try:
        told = None if document is None else from_document(table, document)
    except Unreadable as error:
        yield Problem(what=f"the journal's last word on {name} cannot be read: {error}", fix=_REBUILD)
        return
    if told != value:
        yield Problem(what=f"{name} is not what the journal says", fix=_RESTORE)


def _check(value: object) -> None:
    if isinstance(value, Record):
        checked(value)
    elif isinstance(value, Turn):
        checked_turn(value)
    else:
        checked_session(value)  # type: ignore[arg-type]


def _vanished(file: sqlite3.Connection) -> Iterator[Problem]:
    """Things that the journal says are there and are not."""
    for subject, table in TABLES.items():
        sql = (
            "SELECT key FROM journal AS made WHERE key = sequence AND subject = ? AND ("
            "SELECT after FROM journal WHERE sequence = coalesce((SELECT max(sequence) FROM journal "
            "WHERE key = made.key AND key <> sequence), made.key)) IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
        )
        for (key,) in file.execute(sql, (subject,)):
            yield Problem(what=f"{subject} of key {key} is in the journal and not in the store", fix=_RESTORE)


def _chain(file: sqlite3.Connection) -> Iterator[Problem]:
    """Journal rows that cannot be read, or whose `before` is not the `after` of the one before."""
    sql = (
        "SELECT change.sequence, change.subject, change.before, change.after, "
        "(SELECT after FROM journal WHERE sequence = coalesce((SELECT max(sequence) FROM journal "
        "WHERE key = change.key AND key <> sequence AND sequence < change.sequence), change.key)) "
        f"FROM journal AS change WHERE change.sequence > ? ORDER BY change.sequence LIMIT {_BATCH}"
    )
    last = 0
    while rows := tolerant_rows(file, sql, (last,)):
        for sequence, subject, before, after, earlier in rows:
            yield from _change(sequence, subject, (before, after, earlier))
        last = rows[-1][0]


def _change(sequence: int, subject: Any, documents: Row) -> Iterator[Problem]:
    before, after, earlier = documents
    try:
        if subject not in TABLES:
            raise Unreadable("its subject is unknown")
        value_from(subject, before)
        value_from(subject, after)
    except Unreadable as error:
        yield Problem(what=f"change {sequence} in the journal cannot be read: {error}", fix=_REBUILD)
        return
    if before is not None and before != earlier:
        yield Problem(what=f"change {sequence} in the journal does not follow the one before", fix=_REBUILD)


def _counters(file: sqlite3.Connection) -> Iterator[Problem]:
    counted = " UNION ALL ".join(
        f"SELECT '{table.subject}' AS subject, {area} AS area, voice, count(*), sum(length) "
        f"FROM {table.name} WHERE {live} GROUP BY 2, 3"
        for table, live in ((RECORDS, "archived_at IS NULL"), (TURNS, "1"))
        for area in ("'=' || scope", "'*'")
    )
    stored = "SELECT subject, area, voice, passages, tokens FROM measures"
    wrong = "SELECT DISTINCT subject, area FROM ({} EXCEPT {})"
    found = {
        (subject, area)
        for one, other in ((counted, stored), (stored, counted))
        for subject, area in file.execute(wrong.format(f"SELECT * FROM ({one})", f"SELECT * FROM ({other})"))
    }
    for subject, area in sorted(found):
        yield Problem(what=f"the counters of {subject}s in {area!r} differ from a recount", fix=_REBUILD)


def _positions(file: sqlite3.Connection) -> Iterator[Problem]:
    sql = (
        "SELECT session, count(*), max(position) + 1 FROM turns GROUP BY session "
        "HAVING count(*) <> max(position) + 1"
    )
    for session, count, end in file.execute(sql):
        yield Problem(what=f"the session of key {session} has {count} turns in {end} positions", fix=_RESTORE)


def _entries(file: sqlite3.Connection) -> Iterator[Problem]:
    for row in tolerant_rows(file, f"SELECT {', '.join(ENTRY_COLUMNS)} FROM entries", ()):
        try:
            entry_of(row)
        except Unreadable as error:
            yield Problem(
                what=f"entry {row[1]!r} of {row[0]!r} cannot be read: {error}",
                fix="drop it with drop_entries",
            )
