"""Check of a whole file: pages, rows, journal and counters. It changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn, validate_session, validate_turn
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, validate_page, validate_paragraph
from reverie.domain.record import Record, validate_record
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    ENTRIES,
    PARAGRAPHS,
    RECORDS,
    TABLES,
    TURNS,
    TableCodec,
    UnreadableRow,
    decode_journal_entry,
    from_document,
    to_short_document,
)
from reverie.stores.health import StoreProblem
from reverie.stores.sqlite.reading import fetch_rows_tolerantly, iter_rows_tolerantly, iter_things_tolerantly
from reverie.stores.sqlite.where import SEARCHED

RESTORE = (
    "bring back a backup with `reverie recover`, or make a new database of the folder's files with "
    "`reverie rebuild --force`, which leaves the history out"
)
_REPAIR = "have it repaired with `reverie doctor --fix`"

LATEST_DOCUMENT = (
    "SELECT after FROM journal WHERE sequence = coalesce((SELECT max(sequence) FROM journal "
    "WHERE key = {key} AND key <> sequence {before}), {key})"
)
"""SQL for the latest version of a thing in the journal."""

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
"""SQL for the rows of `measures`, counted again from the tables."""

_OF_AN_INDEX = defer_regex(r"(?:missing from|entries in|non-unique entry in) index (\w+)")
_OF_A_TREE = defer_regex(r"[Tt]ree (?:page )?(\d+)")
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


class PageDamage(NamedTuple):
    """Damage that SQLite itself finds in a file.

    Attributes:
        pages: Descriptions of the damaged pages.
        indexes: Names of indexes that do not fit their tables and can be built again from them.
    """

    pages: list[str]
    indexes: list[str]


def find_problems(file: sqlite3.Connection) -> list[StoreProblem]:
    """Return every problem of the file, within the caller's reading transaction."""
    damage = find_damage(file)
    if damage.pages or damage.indexes:  # the queries below would fail half-way
        lines = [f"the file is damaged: {line}" for line in damage.pages]
        indexes = [f"the index {name} of the file does not fit its table" for name in damage.indexes]
        return [_report(line, repairable=False) for line in lines] + [
            _report(line, repairable=not damage.pages) for line in indexes
        ]
    journal = [*_check_gaps(file), *_check_chain(file)]
    sound = not journal
    return [
        *_check_references(file, sound),
        *(problem for table in TABLES.values() for problem in _check_things(file, table, sound)),
        *_check_vanished(file, sound),
        *journal,
        *_check_counters(file),
        *_check_positions(file, sound),
        *_check_entries(file),
        *_check_marks(file),
    ]


def is_journal_sound(file: sqlite3.Connection) -> bool:
    """Return whether every entry of the journal is there, can be read and follows from the one before."""
    return not any(True for check in (_check_gaps, _check_chain) for _ in check(file))


def _report(what: str, *, repairable: bool) -> StoreProblem:
    return StoreProblem(what=what, fix=_REPAIR if repairable else RESTORE, repairable=repairable)


def find_damage(file: sqlite3.Connection) -> PageDamage:
    """Return what SQLite itself finds wrong with the pages and the indexes of the file."""
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
                pages.append(_shorten_row(line))
    except sqlite3.DatabaseError as error:
        pages.append(getattr(error, "sqlite_errorname", type(error).__name__))
    return PageDamage(pages, sorted(indexes))


def _shorten_row(row: str) -> str:
    """Return the first findings of a row in which SQLite lists what is wrong with the pages, and how many follow."""
    findings = row.removeprefix("*** in database main ***").strip().splitlines()
    more = len(findings) - _SHOWN
    return "; ".join(findings[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _check_references(file: sqlite3.Connection, sound: bool) -> Iterator[StoreProblem]:
    for table, key, parent, _ in file.execute("PRAGMA foreign_key_check"):
        yield _report(f"row {key} of {table} belongs to none of {parent}", repairable=sound)


def _check_things(file: sqlite3.Connection, table: TableCodec[Any], sound: bool) -> Iterator[StoreProblem]:
    """Report rows that cannot be read, have a wrong fingerprint, or differ from the journal."""
    fingerprint = "it.fingerprint" if table is RECORDS else "NULL"
    latest = f"({LATEST_DOCUMENT.format(key='it.key', before='')})"
    for key, stored_fingerprint, document, *row in iter_things_tolerantly(file, table, fingerprint, latest):
        yield from _check_thing(table, key, stored_fingerprint, document, row, sound)


def _check_thing(
    table: TableCodec[Any], key: int, fingerprint: str | None, document: Any, row: list[Any], sound: bool
) -> Iterator[StoreProblem]:
    name = f"{table.subject} {row[0]!r} (key {key})"
    try:
        value = validate_value(table.decode(row))
    except (UnreadableRow, InvalidInput) as error:
        why = str(error) if isinstance(error, UnreadableRow) else "a field is not of its form"
        contradicted = is_contradicted(table, row, document)
        if contradicted:
            why += ", and what can be read of it is not what the journal says"
        repairable = sound and document is not None and not contradicted
        yield _report(f"{name} cannot be read: {why}", repairable=repairable)
        return
    try:
        is_same = document == to_short_document(table, row)  # far quicker than reading the document
        journaled = value if is_same else None if document is None else from_document(table, document)
    except UnreadableRow as error:
        yield _report(
            f"the latest version of {name} in the journal cannot be read: {error}", repairable=False
        )
        return
    if isinstance(value, Record) and value.fingerprint != fingerprint:
        yield _report(f"{name} has another fingerprint than its content", repairable=journaled == value)
    if journaled != value:
        yield _report(f"{name} is not what the journal says", repairable=False)


def decode_row_or_none(table: TableCodec[Any], row: Sequence[Any]) -> Value | None:
    """Return the value of a row; None if it cannot be read or is not valid."""
    try:
        return validate_value(table.decode(row))
    except (UnreadableRow, InvalidInput):
        return None


def decode_document_or_none(table: TableCodec[Any], document: Any) -> Value | None:
    """Return the value of a document; None if there is none, it cannot be read or is not valid."""
    if not isinstance(document, str):
        return None
    try:
        return validate_value(from_document(table, document))
    except (UnreadableRow, InvalidInput):
        return None


def is_contradicted(table: TableCodec[Any], row: Sequence[Any], document: Any) -> bool:
    """Return whether a row that cannot be read has a readable column that differs from the journal.

    Then the journal may be damaged too, and the row is not written again from it.
    """
    journaled = decode_document_or_none(table, document)
    columns = () if journaled is None else table.encode(journaled)
    return any(
        decode_row_or_none(table, (*columns[:n], row[n], *columns[n + 1 :])) not in (None, journaled)
        for n in range(len(columns))
    )


def validate_value(value: Value) -> Value:
    """Return the value itself if all of its fields are valid; raise `InvalidInput` otherwise."""
    return _VALIDATORS[type(value)](value)


def find_vanished(file: sqlite3.Connection, table: TableCodec[Any]) -> Iterator[tuple[int, Value | None]]:
    """Yield the key and the value of things that the journal has and the table lacks; None for an unreadable value."""
    sql = (
        f"SELECT key, ({LATEST_DOCUMENT.format(key='made.key', before='')}) AS document "
        "FROM journal AS made WHERE key = sequence AND subject = ? AND document IS NOT NULL "
        f"AND NOT EXISTS (SELECT 1 FROM {table.name} WHERE key = made.key)"
    )
    for key, document in fetch_rows_tolerantly(file, sql, (table.subject,)):
        yield key, decode_document_or_none(table, document)


def _check_vanished(file: sqlite3.Connection, sound: bool) -> Iterator[StoreProblem]:
    for table in TABLES.values():
        for key, missing in find_vanished(file, table):
            what = f"{table.subject} of key {key} is in the journal and not in the store"
            yield replace(_report(what, repairable=sound and missing is not None), missing=missing)


def _check_gaps(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Report the runs of numbers that the journal lacks."""
    sql = (
        "SELECT before + 1, sequence - 1 FROM (SELECT sequence, lag(sequence, 1, 0) OVER (ORDER BY sequence) "
        "AS before FROM journal) WHERE sequence <> before + 1"
    )
    (missing,) = file.execute("SELECT coalesce(max(sequence), 0) - count(*) FROM journal").fetchone()
    for first, last in file.execute(sql).fetchall() if missing else []:
        which = f"change {first} is" if first == last else f"changes {first} to {last} are"
        yield _report(f"{which} missing from the journal", repairable=False)


def _check_chain(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Report journal entries that cannot be read, or whose `before` is not the `after` of the one before."""
    columns = ", ".join(f"change.{name}" for name in CHANGE_COLUMNS.split(", "))
    sql = (
        f"SELECT {columns}, CASE WHEN change.key = change.sequence THEN NULL "
        f"ELSE ({LATEST_DOCUMENT.format(key='change.key', before='AND sequence < change.sequence')}) END "
        f"FROM journal AS change WHERE change.sequence > ? ORDER BY change.sequence LIMIT ?"
    )
    for *row, earlier in iter_rows_tolerantly(file, sql):
        sequence, before = row[0], row[9]
        try:
            decode_journal_entry(row)
        except UnreadableRow as error:
            yield _report(f"change {sequence} in the journal cannot be read: {error}", repairable=False)
            continue
        if before is not None and before != earlier:
            what = f"change {sequence} in the journal does not follow the one before"
            yield _report(what, repairable=False)


def _check_counters(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    stored = "SELECT subject, area, voice, passages, tokens FROM measures"
    wrong = "SELECT DISTINCT subject, area FROM ({} EXCEPT {})"
    wrong_areas = {
        (subject, area)
        for one, other in ((COUNTED, stored), (stored, COUNTED))
        for subject, area in file.execute(wrong.format(f"SELECT * FROM ({one})", f"SELECT * FROM ({other})"))
    }
    for subject, area in sorted(wrong_areas, key=repr):
        yield _report(f"the counters of {subject}s in {area!r} differ from a recount", repairable=True)


def _check_positions(file: sqlite3.Connection, sound: bool) -> Iterator[StoreProblem]:
    sql = (
        "SELECT session, count(*), max(position) + 1 FROM turns GROUP BY session "
        "HAVING count(*) <> max(position) + 1"
    )
    for session, count, end in file.execute(sql):
        what = f"the session of key {session} has {count} turns in {end} positions"
        yield _report(what, repairable=sound)


def _check_entries(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    for row in fetch_rows_tolerantly(file, f"SELECT {', '.join(ENTRIES.names)} FROM entries", ()):
        try:
            ENTRIES.decode(row)
        except UnreadableRow as error:
            yield _report(f"entry {row[1]!r} of {row[0]!r} cannot be read: {error}", repairable=False)


def _check_marks(file: sqlite3.Connection) -> Iterator[StoreProblem]:
    """Report counters that are not numbers and tombstones that are not text."""
    for name, value in fetch_rows_tolerantly(file, "SELECT name, value FROM counters", ()):
        if type(name) is not str or type(value) is not int:
            yield _report(f"the counter {name!r} is no number", repairable=False)
    marks = fetch_rows_tolerantly(file, "SELECT mark FROM tombstones", ())
    if wrong := [mark for (mark,) in marks if type(mark) is not str or mark == ""]:
        yield _report(f"{len(wrong)} tombstones are no text", repairable=False)
