"""Check of a whole file: pages, rows and journal.

The check changes nothing; `rewriting` brings right what it finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn, validate_session, validate_turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph, validate_page, validate_paragraph
from reverie.domain.record import Record, validate_record
from reverie.stores import codec
from reverie.stores.base import StoreProblem
from reverie.stores.sqlite import reading

_REPAIR = "run `reverie doctor --fix`, which copies everything that can be read into a new database"

# Queries by what each of their rows means. They find nothing in a file without problems.
_FINDINGS = {
    "row {1} of {0} belongs to none of {2}": "SELECT * FROM pragma_foreign_key_check",
    "the session of key {} has {} turns in {} positions": (
        "SELECT session, count(*), max(position) + 1 FROM turns GROUP BY session HAVING count(*) <> max(position) + 1"
    ),
    "the counter {!r} is not a number": "SELECT name, value FROM counters WHERE typeof(value) <> 'integer'",
    "{} tombstones are no text": (
        "SELECT count(*) FROM tombstones WHERE typeof(mark) <> 'text' OR mark = '' HAVING count(*) > 0"
    ),
}

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


def validate_value(value: Value) -> Value:
    """Return the value itself if all of its fields are valid; raise `InvalidInput` otherwise."""
    return _VALIDATORS[type(value)](value)


def find_problems(file: sqlite3.Connection) -> list[StoreProblem]:
    """Return every problem of the file, within the caller's reading transaction."""
    problems = [f"the file is damaged: {line}" for line in _find_damage(file)]
    if not problems:  # the queries below would fail half-way
        problems += [*_check_queries(file), *_check_content(file)]
    return [build_problem(what) for what in problems]


def build_problem(what: str) -> StoreProblem:
    """Return a problem that a repair brings right."""
    return StoreProblem(what=what, fix=_REPAIR, repairable=True)


def _find_damage(file: sqlite3.Connection) -> Iterator[str]:
    """Report what SQLite itself finds wrong with the pages and the indexes of the file."""
    try:
        lines = [line for (line,) in file.execute("PRAGMA integrity_check(100)")]
    except sqlite3.DatabaseError as error:
        lines = [getattr(error, "sqlite_errorname", type(error).__name__)]
    for line in lines:
        if line != "ok":
            findings = line.removeprefix("*** in database main ***").strip().splitlines()
            more = len(findings) - _SHOWN
            yield "; ".join(findings[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _check_queries(file: sqlite3.Connection) -> Iterator[str]:
    for text, sql in _FINDINGS.items():
        for row in reading.fetch_rows_tolerantly(file, sql, ()):
            yield text.format(*row)
    entries = f"SELECT {', '.join(codec.ENTRIES.names)} FROM entries"
    for row in reading.fetch_rows_tolerantly(file, entries, ()):
        try:
            codec.ENTRIES.decode(row)
        except codec.UnreadableRow as error:
            yield f"entry {row[1]!r} of {row[0]!r} cannot be read: {error}"


def _check_content(file: sqlite3.Connection) -> Iterator[str]:
    """Report what is wrong with the journal, and with the rows, which have to be what it says last."""
    latest: dict[int, str | None] = {}
    subjects: dict[int, str] = {}
    yield from _check_journal(file, latest, subjects)
    for table in codec.TABLES.values():
        yield from _check_things(file, table, latest)
    for key, document in latest.items():
        if document is not None:
            yield f"{subjects[key]} of key {key} is in the journal and not in the store"


def _check_journal(
    file: sqlite3.Connection, latest: dict[int, str | None], subjects: dict[int, str]
) -> Iterator[str]:
    """Report entries that are missing, cannot be read, or do not follow the one before.

    Args:
        file: The file.
        latest: Receives the last document of each key.
        subjects: Receives what each key belongs to.
    """
    sql = f"SELECT {codec.CHANGE_COLUMNS} FROM changes WHERE sequence > ? ORDER BY sequence LIMIT ?"
    number = 0
    for row in reading.iter_rows_tolerantly(file, sql):
        sequence, key, before, after = row[0], row[7], row[9], row[10]
        if sequence != number + 1:
            which = f"changes {number + 1} to {sequence - 1} are"
            yield f"{f'change {number + 1} is' if sequence == number + 2 else which} missing from the journal"
        number = sequence
        try:
            codec.decode_journal_entry((*row[:10], None if after == codec.IN_ROW else after))
        except codec.UnreadableRow as error:
            yield f"change {sequence} in the journal cannot be read: {error}"
        else:
            if before is not None and before != latest.get(key):
                yield f"change {sequence} in the journal does not follow the one before"
        latest[key], subjects[key] = after, row[8]


def _check_things(
    file: sqlite3.Connection, table: codec.TableCodec[Any], latest: dict[int, str | None]
) -> Iterator[str]:
    """Report rows that cannot be read, have a wrong fingerprint or checksum, or differ from the journal."""
    derived = [f"it.{name}" for name in table.derived]
    for key, *columns in reading.iter_things_tolerantly(file, table, *derived):
        stored, row = tuple(columns[: len(derived)]), tuple(columns[len(derived) :])
        document = latest.pop(key, None)
        name = f"{table.subject} {row[0]!r} (key {key})"
        try:
            value = validate_value(table.decode(row))
        except codec.UnreadableRow as error:
            yield f"{name} cannot be read: {error}"
            continue
        except InvalidInput:
            yield f"{name} cannot be read: a field is not of its form"
            continue
        for column, found, expected in zip(table.derived, stored, table.derive(value, row), strict=True):
            if found != expected:
                yield f"{name} has another {column} than its columns"
        # This is far quicker than reading it.
        if document == codec.IN_ROW or document == codec.to_document(table, row):
            continue
        try:
            journaled = None if document is None else codec.from_document(table, document)
        except codec.UnreadableRow as error:
            yield f"the latest version of {name} in the journal cannot be read: {error}"
            continue
        if journaled != value:
            yield f"{name} is not what the journal says"
