"""Check of a whole file: pages, rows, journal and counters. Renewal of what an older version stored.

The check changes nothing; `repair` brings right what it finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn, validate_session, validate_turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph, validate_page, validate_paragraph
from reverie.domain.record import Record, validate_record
from reverie.stores.base import MIGRATOR, find_merges, move_fields, read_moved
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    ENTRIES,
    IN_ROW,
    RECORDS,
    TABLES,
    TableCodec,
    UnreadableRow,
    compute_checksum,
    decode_journal_entry,
    from_document,
    to_short_document,
)
from reverie.stores.protocol import StoreProblem
from reverie.stores.sqlite.reading import (
    fetch_rows_tolerantly,
    iter_rows_tolerantly,
    iter_things_tolerantly,
)
from reverie.stores.sqlite.transaction import WriteTransaction, prepare_change, strip_creations

REPAIR = "run `reverie doctor --fix`, which copies everything that can be read into a new database"

_LATEST_DOCUMENT = (
    "SELECT after FROM journal WHERE sequence = coalesce((SELECT max(sequence) FROM journal "
    "WHERE key = {key} AND key <> sequence {before}), {key})"
)
"""SQL for the latest version of a thing in the journal."""

_FINDINGS = {
    "row {1} of {0} belongs to none of {2}": "SELECT * FROM pragma_foreign_key_check",
    "the session of key {} has {} turns in {} positions": (
        "SELECT session, count(*), max(position) + 1 FROM turns GROUP BY session HAVING count(*) <> max(position) + 1"
    ),
}
"""Queries by what each of their rows means."""

_SHOWN = 3  # findings about pages that a problem names

_VALIDATORS: Mapping[type, Callable[[Any], Value]] = MappingProxyType(
    {
        Record: validate_record,
        Turn: validate_turn,
        SessionState: validate_session,
        Page: validate_page,
        Paragraph: validate_paragraph,
    }
)


def find_problems(file: sqlite3.Connection) -> list[StoreProblem]:
    """Return every problem of the file, within the caller's reading transaction."""
    if damage := _find_damage(file):  # the queries below would fail half-way
        return [_report(f"the file is damaged: {line}") for line in damage]
    return [
        *map(
            _report,
            (
                *_check_queries(file),
                *(line for table in TABLES.values() for line in _check_things(file, table)),
                *(line for table in TABLES.values() for line in _check_vanished(file, table)),
                *_check_gaps(file),
                *_check_chain(file),
                *_check_entries(file),
                *_check_marks(file),
            ),
        )
    ]


def _report(what: str) -> StoreProblem:
    return StoreProblem(what=what, fix=REPAIR, repairable=True)


def _find_damage(file: sqlite3.Connection) -> list[str]:
    """Return what SQLite itself finds wrong with the pages and the indexes of the file."""
    try:
        lines = [line for (line,) in file.execute("PRAGMA integrity_check(100)")]
    except sqlite3.DatabaseError as error:
        return [getattr(error, "sqlite_errorname", type(error).__name__)]
    return [_shorten_row(line) for line in lines if line != "ok"]


def _shorten_row(row: str) -> str:
    """Return the first findings of a row in which SQLite lists what is wrong with the pages, and how many follow."""
    findings = row.removeprefix("*** in database main ***").strip().splitlines()
    more = len(findings) - _SHOWN
    return "; ".join(findings[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _check_queries(file: sqlite3.Connection) -> Iterator[str]:
    """Report the rows of queries that find nothing in a file without problems."""
    for text, sql in _FINDINGS.items():
        for row in file.execute(sql):
            yield text.format(*row)


def _check_things(file: sqlite3.Connection, table: TableCodec[Any]) -> Iterator[str]:
    """Report rows that cannot be read, have a wrong fingerprint or checksum, or differ from the journal."""
    fingerprint = "it.fingerprint" if table is RECORDS else "NULL"
    latest = f"({_LATEST_DOCUMENT.format(key='it.key', before='')})"
    columns = ("it.checksum", fingerprint, latest)
    for key, checksum, stored_fingerprint, document, *row in iter_things_tolerantly(file, table, *columns):
        name = f"{table.subject} {row[0]!r} (key {key})"
        try:
            value = validate_value(table.decode(row))
        except UnreadableRow as error:
            yield f"{name} cannot be read: {error}"
            continue
        except InvalidInput:
            yield f"{name} cannot be read: a field is not of its form"
            continue
        if isinstance(value, Record) and value.fingerprint != stored_fingerprint:
            yield f"{name} has another fingerprint than its content"
        if checksum != compute_checksum(tuple(row)):
            yield f"{name} has another checksum than its columns"
        if document == IN_ROW or document == to_short_document(table, row):  # far quicker than reading it
            continue
        try:
            journaled = None if document is None else from_document(table, document)
        except UnreadableRow as error:
            yield f"the latest version of {name} in the journal cannot be read: {error}"
            continue
        if journaled != value:
            yield f"{name} is not what the journal says"


def validate_value(value: Value) -> Value:
    """Return the value itself if all of its fields are valid; raise `InvalidInput` otherwise."""
    return _VALIDATORS[type(value)](value)


def _check_vanished(file: sqlite3.Connection, table: TableCodec[Any]) -> Iterator[str]:
    """Report things that the journal has and the table lacks."""
    sql = (
        f"SELECT key, ({_LATEST_DOCUMENT.format(key='made.key', before='')}) AS document "
        "FROM journal AS made WHERE key = sequence AND subject = ? AND document IS NOT NULL "
        f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
    )
    for key, _ in fetch_rows_tolerantly(file, sql, (table.subject,)):
        yield f"{table.subject} of key {key} is in the journal and not in the store"


def _check_gaps(file: sqlite3.Connection) -> Iterator[str]:
    """Report the runs of numbers that the journal lacks."""
    sql = (
        "SELECT before + 1, sequence - 1 FROM (SELECT sequence, lag(sequence, 1, 0) OVER (ORDER BY sequence) "
        "AS before FROM journal) WHERE sequence <> before + 1"
    )
    (missing,) = file.execute("SELECT coalesce(max(sequence), 0) - count(*) FROM journal").fetchone()
    for first, last in file.execute(sql).fetchall() if missing else []:
        which = f"change {first} is" if first == last else f"changes {first} to {last} are"
        yield f"{which} missing from the journal"


def _check_chain(file: sqlite3.Connection) -> Iterator[str]:
    """Report journal entries that cannot be read, or whose `before` is not the `after` of the one before."""
    columns = ", ".join(f"change.{name}" for name in CHANGE_COLUMNS.split(", "))
    sql = (
        f"SELECT {columns}, CASE WHEN change.key = change.sequence THEN NULL "
        f"ELSE ({_LATEST_DOCUMENT.format(key='change.key', before='AND sequence < change.sequence')}) END "
        f"FROM journal AS change WHERE change.sequence > ? ORDER BY change.sequence LIMIT ?"
    )
    for *row, earlier in iter_rows_tolerantly(file, sql):
        sequence, before = row[0], row[9]
        try:
            decode_journal_entry(
                [None if each == IN_ROW and place == 10 else each for place, each in enumerate(row)]
            )
        except UnreadableRow as error:
            yield f"change {sequence} in the journal cannot be read: {error}"
            continue
        if before is not None and before != earlier:
            what = f"change {sequence} in the journal does not follow the one before"
            yield what


def _check_entries(file: sqlite3.Connection) -> Iterator[str]:
    for row in fetch_rows_tolerantly(file, f"SELECT {', '.join(ENTRIES.names)} FROM entries", ()):
        try:
            ENTRIES.decode(row)
        except UnreadableRow as error:
            yield f"entry {row[1]!r} of {row[0]!r} cannot be read: {error}"


def _check_marks(file: sqlite3.Connection) -> Iterator[str]:
    """Report counters that are not numbers and tombstones that are not text."""
    for name, value in fetch_rows_tolerantly(file, "SELECT name, value FROM counters", ()):
        if type(name) is not str or type(value) is not int:
            yield f"the counter {name!r} is no number"
    marks = fetch_rows_tolerantly(file, "SELECT mark FROM tombstones", ())
    if wrong := [mark for (mark,) in marks if type(mark) is not str or mark == ""]:
        yield f"{len(wrong)} tombstones are no text"


# -- records of an older version, see `reverie.stores.base` ------------------------------------


def add_checksums(file: sqlite3.Connection) -> None:
    """Compute the checksum of every row, and remove the documents of creations, within the caller's transaction."""
    for table in TABLES.values():
        for key, *row in iter_things_tolerantly(file, table):
            file.execute(
                f"UPDATE {table.name} SET checksum = ? WHERE key = ?", (compute_checksum(tuple(row)), key)
            )
    strip_creations(file)


def rewrite_records(file: sqlite3.Connection) -> None:
    """Move fields, compute fingerprints, and merge records with the same text, within the caller's transaction."""
    _rewrite_journal(file)
    assignments = ", ".join(f"{name} = ?" for name in RECORDS.names)
    records: dict[int, Record] = {}
    for key, *row in iter_things_tolerantly(file, RECORDS):
        try:
            record = RECORDS.decode(row)
        except UnreadableRow:
            continue  # the check of the file reports it
        records[key] = moved = move_fields(record)
        if moved is not record:
            file.execute(f"UPDATE records SET {assignments} WHERE key = ?", (*RECORDS.encode(moved), key))
    if changes := find_merges(records.values(), now=(now := datetime.now(UTC))):
        file.execute("DROP INDEX records_live")  # the fingerprints of the others are still those of before
        transaction = WriteTransaction(file)
        for change in changes:
            transaction.make(prepare_change(change))
        transaction.finish(actor=MIGRATOR, at=now, note={"operation": "reinforce"})
    file.executemany(
        "UPDATE records SET fingerprint = ? WHERE key = ? AND fingerprint <> ?",
        [(mark, key, mark) for key, mark in ((key, each.fingerprint) for key, each in records.items())],
    )
    file.execute(
        "CREATE UNIQUE INDEX IF NOT EXISTS records_live ON records (fingerprint, scope) WHERE archived_at IS NULL"
    )


def _rewrite_journal(file: sqlite3.Connection) -> None:
    rows = file.execute("SELECT sequence, before, after FROM journal WHERE subject = 'record'").fetchall()
    for sequence, *documents in rows:
        for name, document in zip(("before", "after"), documents, strict=True):
            if (moved := read_moved(document)) is not None:
                short = to_short_document(RECORDS, RECORDS.encode(moved))
                file.execute(f"UPDATE journal SET {name} = ? WHERE sequence = ?", (short, sequence))
