"""Is what the file holds sound? Reads everything and changes nothing."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn, validate_session, validate_turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph, validate_page, validate_paragraph
from reverie.domain.record import Record, validate_record
from reverie.stores.protocol import StoreProblem
from reverie.stores.sqlite.codec import (
    CHANGE_COLUMNS,
    ENTRY_COLUMNS,
    PARAGRAPHS,
    RECORDS,
    SEARCHED,
    TABLES,
    TURNS,
    TableCodec,
    UnreadableRow,
    decode_entry,
    decode_journal_entry,
    decode_value,
    fetch_rows_tolerantly,
    from_document,
)

_BATCH = 500
_RESTORE = "restore a backup, or correct the row in reverie.db"
_REBUILD = "restore a backup, or export everything and import it into a new store"
_BACKUP = "restore a backup of the file, or rebuild it from the folder's files"

LAST_WORD = (
    "SELECT after FROM journal WHERE sequence = coalesce((SELECT max(sequence) FROM journal "
    "WHERE key = {key} AND key <> sequence {before}), {key})"
)
"""What the journal says last of a thing, in SQL."""

COUNTED = " UNION ALL ".join(
    f"SELECT '{table.subject}' AS subject, {area} AS area, voice, count(*) AS passages, "
    f"sum(length) AS tokens FROM {table.name} WHERE {live} GROUP BY 2, 3"
    for table, live, scope in (
        (RECORDS, "archived_at IS NULL", "scope"),
        (TURNS, "1", "scope"),
        (PARAGRAPHS, SEARCHED, "''"),
    )
    for area in (f"'=' || {scope}", "'*'")
)
"""The rows of `compute_measures`, counted anew, in SQL."""

_OF_AN_INDEX = re.compile(r"(?:missing from|entries in|non-unique entry in) index (\w+)")
_OF_A_TREE = re.compile(r"[Tt]ree (?:page )?(\d+)")


class PageDamage(NamedTuple):
    """What SQLite itself finds wrong with a file.

    Attributes:
        pages: What is wrong with what is stored.
        indexes: The names of indexes that do not fit their tables, from which they can be made again.
    """

    pages: list[str]
    indexes: list[str]


def find_problems(file: sqlite3.Connection) -> list[StoreProblem]:
    """Everything wrong with the file, within the caller's reading transaction."""
    found = find_damage(file)
    if found.pages or found.indexes:  # the queries below would fail half-way
        return [
            *(StoreProblem(what=f"the file is damaged: {line}", fix=_BACKUP) for line in found.pages),
            *(
                StoreProblem(
                    what=f"the index {name} of the file does not fit its table",
                    fix=_BACKUP,
                    mendable=not found.pages,
                )
                for name in found.indexes
            ),
        ]
    return [
        *_check_references(file),
        *(problem for table in TABLES.values() for problem in _check_things(file, table)),
        *_check_vanished(file),
        *_check_gaps(file),
        *_check_chain(file),
        *_check_counters(file),
        *_check_positions(file),
        *_check_entries(file),
        *_check_marks(file),
    ]


def find_damage(file: sqlite3.Connection) -> PageDamage:
    """What SQLite itself finds wrong with the pages of the file and the indexes in it."""
    pages: list[str] = []
    indexes: set[str] = set()
    try:
        roots = {
            root: name
            for name, root in file.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'index'")
        }
        for (line,) in file.execute("PRAGMA integrity_check(100)"):
            of_index, of_tree = _OF_AN_INDEX.search(line), _OF_A_TREE.search(line)
            if of_index:
                indexes.add(of_index[1])
            elif of_tree and int(of_tree[1]) in roots:
                indexes.add(roots[int(of_tree[1])])
            elif line != "ok":
                pages.append(line)
    except sqlite3.DatabaseError as error:
        pages.append(getattr(error, "sqlite_errorname", type(error).__name__))
    return PageDamage(pages, sorted(indexes))


def _check_references(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    for table, key, parent, _ in file.execute("PRAGMA foreign_key_check"):
        yield StoreProblem(
            what=f"row {key} of {table} belongs to none of {parent}", fix=_RESTORE, mendable=True
        )


def _check_things(file: sqlite3.Connection, table: TableCodec[Any]) -> Iterator[StoreProblem]:
    """Rows that cannot be read, have a wrong fingerprint, or differ from what the journal says last."""
    fingerprint = "it.fingerprint" if table is RECORDS else "NULL"
    sql = (
        f"SELECT it.key, {fingerprint}, ({LAST_WORD.format(key='it.key', before='')}), "
        f"{table.selected} FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT {_BATCH}"
    )
    last = -1
    while rows := fetch_rows_tolerantly(file, sql, (last,)):
        for key, stored_fingerprint, document, *row in rows:
            yield from _check_thing(table, key, stored_fingerprint, document, row)
        last = rows[-1][0]


def _check_thing(
    table: TableCodec[Any], key: int, fingerprint: str | None, document: str | None, row: list[Any]
) -> Iterator[StoreProblem]:
    name = f"{table.subject} {row[0]!r} (key {key})"
    try:
        value = validate_value(table.decode(row))
    except (UnreadableRow, InvalidInput) as error:
        why = error if isinstance(error, UnreadableRow) else "a field is not of its form"
        yield StoreProblem(what=f"{name} cannot be read: {why}", fix=_RESTORE, mendable=document is not None)
        return
    if isinstance(value, Record) and value.fingerprint != fingerprint:
        yield StoreProblem(
            what=f"{name} has another fingerprint than its content", fix=_RESTORE, mendable=True
        )
    try:
        told = None if document is None else from_document(table, document)
    except UnreadableRow as error:
        yield StoreProblem(
            what=f"the journal's last word on {name} cannot be read: {error}", fix=_REBUILD, mendable=True
        )
        return
    if told != value:
        yield StoreProblem(what=f"{name} is not what the journal says", fix=_RESTORE, mendable=True)


def validate_value(value: Value) -> Value:
    """The value itself, when every field of it is of its form; raises `InvalidInput` otherwise."""
    match value:
        case Record():
            validate_record(value)
        case Turn():
            validate_turn(value)
        case SessionState():
            validate_session(value)
        case Page():
            validate_page(value)
        case Paragraph():
            validate_paragraph(value)
        case _:
            assert_never(value)
    return value


def _check_vanished(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Things that the journal says are there and are not."""
    for subject, table in TABLES.items():
        sql = (
            "SELECT key FROM journal AS made WHERE key = sequence AND subject = ? "
            f"AND ({LAST_WORD.format(key='made.key', before='')}) IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
        )
        for (key,) in file.execute(sql, (subject,)):
            yield StoreProblem(
                what=f"{subject} of key {key} is in the journal and not in the store",
                fix=_RESTORE,
                mendable=True,
            )


def find_gaps(file: sqlite3.Connection) -> list[tuple[int, int]]:
    """The first and the last of every run of numbers that the journal lacks."""
    sql = (
        "SELECT before + 1, sequence - 1 FROM (SELECT sequence, lag(sequence, 1, 0) OVER (ORDER BY sequence) "
        "AS before FROM journal) WHERE sequence <> before + 1"
    )
    (missing,) = file.execute("SELECT coalesce(max(sequence), 0) - count(*) FROM journal").fetchone()
    return file.execute(sql).fetchall() if missing else []


def _check_gaps(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    for first, last in find_gaps(file):
        which = f"change {first} is" if first == last else f"changes {first} to {last} are"
        yield StoreProblem(what=f"{which} missing from the journal", fix=_REBUILD, mendable=True)


def _check_chain(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Journal rows that cannot be read, or whose `before` is not the `after` of the one before."""
    columns = ", ".join(f"change.{name}" for name in CHANGE_COLUMNS.split(", "))
    sql = (
        f"SELECT {columns}, CASE WHEN change.key = change.sequence THEN NULL "
        f"ELSE ({LAST_WORD.format(key='change.key', before='AND sequence < change.sequence')}) END "
        f"FROM journal AS change WHERE change.sequence > ? ORDER BY change.sequence LIMIT {_BATCH}"
    )
    last = 0
    while rows := fetch_rows_tolerantly(file, sql, (last,)):
        for *row, earlier in rows:
            yield from _check_change(row, earlier)
        last = rows[-1][0]


def _check_change(row: Sequence[Any], earlier: Any) -> Iterator[StoreProblem]:
    sequence, subject, before = row[0], row[6], row[7]
    try:
        decode_journal_entry(row)
    except UnreadableRow as error:
        yield StoreProblem(
            what=f"change {sequence} in the journal cannot be read: {error}", fix=_REBUILD, mendable=True
        )
        return
    if before is not None and before != earlier:
        yield StoreProblem(
            what=f"change {sequence} in the journal does not follow the one before",
            fix=_REBUILD,
            mendable=not _can_be_read(subject, earlier),
        )


def _can_be_read(subject: Any, document: Any) -> bool:
    try:
        return decode_value(subject, document) is not None
    except UnreadableRow:
        return False


def _check_counters(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    stored = "SELECT subject, area, voice, passages, tokens FROM measures"
    wrong = "SELECT DISTINCT subject, area FROM ({} EXCEPT {})"
    found = {
        (subject, area)
        for one, other in ((COUNTED, stored), (stored, COUNTED))
        for subject, area in file.execute(wrong.format(f"SELECT * FROM ({one})", f"SELECT * FROM ({other})"))
    }
    for subject, area in sorted(found):
        yield StoreProblem(
            what=f"the counters of {subject}s in {area!r} differ from a recount",
            fix=_REBUILD,
            mendable=True,
        )


def _check_positions(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    sql = (
        "SELECT session, count(*), max(position) + 1 FROM turns GROUP BY session "
        "HAVING count(*) <> max(position) + 1"
    )
    for session, count, end in file.execute(sql):
        yield StoreProblem(
            what=f"the session of key {session} has {count} turns in {end} positions",
            fix=_RESTORE,
            mendable=True,
        )


def _check_entries(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    for row in fetch_rows_tolerantly(file, f"SELECT {', '.join(ENTRY_COLUMNS)} FROM entries", ()):
        try:
            decode_entry(row)
        except UnreadableRow as error:
            yield StoreProblem(
                what=f"entry {row[1]!r} of {row[0]!r} cannot be read: {error}",
                fix="drop it with drop_entries",
            )


def _check_marks(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Counters that do not count, and tombstones that mark nothing."""
    for name, value in fetch_rows_tolerantly(file, "SELECT name, value FROM counters", ()):
        if type(name) is not str or type(value) is not int:
            yield StoreProblem(what=f"the counter {name!r} is no number", fix="delete its row of counters")
    unmarked = [
        mark
        for (mark,) in fetch_rows_tolerantly(file, "SELECT mark FROM tombstones", ())
        if not _is_nonempty_text(mark)
    ]
    if unmarked:
        yield StoreProblem(
            what=f"{len(unmarked)} tombstones are no text", fix="delete these rows of tombstones"
        )


def _is_nonempty_text(stored: object) -> bool:
    return type(stored) is str and stored != ""
