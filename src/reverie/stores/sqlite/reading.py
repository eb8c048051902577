"""Filters as conditions on the tables of SQLite, decoding of rows from a file that may be damaged, and SQLite's errors.

The conditions agree with `is_record_allowed` and `is_turn_allowed`.

A row that was requested by itself and cannot be read raises `StoreCorrupt`. One of many is left out, with a
warning that names it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from reverie.domain import errors
from reverie.domain.change import JournalEntry, Subject
from reverie.domain.conversation import Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.stores import codec
from reverie.stores.base import Conditions, build_placeholders

_FEW_FILES = 8
_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and retry",
    sqlite3.SQLITE_READONLY: "it is read-only: make the file and its folder writable",
    sqlite3.SQLITE_PERM: "access is denied: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: see that the file is there and its folder is writable",
    sqlite3.SQLITE_BUSY: "another process has kept it locked for too long: retry when that has finished",
    sqlite3.SQLITE_LOCKED: "it is locked: retry",
    sqlite3.SQLITE_IOERR: "the disk reports an error: look at the disk and the system's log, then retry",
    sqlite3.SQLITE_PROTOCOL: "locking failed too often: retry; a network drive may not support it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory: free some and retry",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted: retry",
}
_RESTORE = (
    "run `reverie doctor --fix`; what that cannot repair, `reverie rebuild --force` makes again of the folder's "
    "files, or `reverie recover` brings back a backup"
)
CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
"""Codes of errors that say that a file is damaged, or no database."""


def build_uri(path: Path, options: str) -> str:
    """Return the URI of a file for SQLite, with options such as `mode=rw`."""
    return f"{path.absolute().as_uri()}?{options}"


def explain_unavailability(error: sqlite3.Error) -> str:
    """Return why a database cannot be used now and what to do; empty for an error of another kind."""
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return ""
    # The memory that SQLite shares between processes is a file too, and this is how it says that it cannot grow.
    code = sqlite3.SQLITE_FULL if extended == sqlite3.SQLITE_IOERR_SHMSIZE else extended & 0xFF
    reason = _UNAVAILABLE.get(code, "")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) and not _has_free_descriptors():
        reason = errors.TOO_MANY_FILES
    return f"({error.sqlite_errorname}): {reason}" if reason else ""


def _has_free_descriptors() -> bool:
    """Return whether this process can open some more files; SQLite does not say why it failed."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_FEW_FILES))
    except OSError as error:
        return not errors.is_out_of_files(error)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True


def translate_error(
    error: sqlite3.Error | UnicodeError, path: Path
) -> errors.Conflict | errors.InvalidInput | errors.StoreError:
    """Return the error to raise instead. Its message never quotes what is stored."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's own words, of a definition that is no text any more
        return errors.StoreCorrupt(f"{str(path)!r} is damaged (its definitions are no text): {_RESTORE}")
    if isinstance(error, UnicodeError):
        return errors.InvalidInput(
            "an id or a name has a lone surrogate: decode the text with the error handler `replace`"
        )
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return _translate_without_code(error, path)
    code = extended & 0xFF
    if code in CORRUPT:
        return errors.StoreCorrupt(f"{str(path)!r} is damaged ({error.sqlite_errorname}): {_RESTORE}")
    if reason := explain_unavailability(error):
        return errors.StoreUnavailable(f"{str(path)!r} cannot be used {reason}")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return errors.Conflict(
            f"{str(path)!r} refused the change ({error.sqlite_errorname}): read again and retry"
        )
    return errors.StoreError(f"{str(path)!r}: SQLite failed with {error.sqlite_errorname}")


def is_undecodable(error: sqlite3.Error) -> bool:
    """Return whether an error says that a stored text is not UTF-8. Python raises it, without a code of SQLite."""
    return getattr(error, "sqlite_errorcode", None) is None and "decode" in str(error)


def _translate_without_code(error: sqlite3.Error, path: Path) -> errors.StoreError:
    if is_undecodable(error):
        return errors.StoreCorrupt(f"{str(path)!r} holds text that is not UTF-8: {_RESTORE}")
    if "closed" in str(error):
        return errors.StoreUnavailable(f"{str(path)!r} has been closed: open it again")
    return errors.StoreError(f"{str(path)!r}: {type(error).__name__}")


# -- rows --------------------------------------------------------------------------------------------------


_log = logging.getLogger("reverie")

T = TypeVar("T", Record, Turn, Page, Paragraph)
V = TypeVar("V")

_BATCH = 500


def fetch_rows_tolerantly(file: sqlite3.Connection, sql: str, values: Sequence[Any]) -> list[codec.Row]:
    """Return the rows of a query. Text that is not UTF-8 comes as bytes, which `TableCodec.decode` refuses."""
    file.text_factory = _decode_text_or_bytes
    try:
        return file.execute(sql, values).fetchall()
    finally:
        file.text_factory = str


def iter_rows_tolerantly(file: sqlite3.Connection, sql: str) -> Iterator[codec.Row]:
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


def iter_things_tolerantly(
    file: sqlite3.Connection, table: codec.TableCodec[Any], *further: str
) -> Iterator[codec.Row]:
    """Yield the rows of a table in order: the key, further columns, and those that the table decodes."""
    columns = ", ".join(("it.key", *further, table.selected))
    sql = f"SELECT {columns} FROM {table.source} WHERE it.key > ? ORDER BY it.key LIMIT ?"
    return iter_rows_tolerantly(file, sql)


def _decode_text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def fetch_by_key(
    file: sqlite3.Connection, table: codec.TableCodec[Any], keys: Sequence[int]
) -> dict[int, codec.Row]:
    """Return the rows of a table by key; those that cannot be read are left out."""
    where = SQLiteConditions()
    where.add_any("it.key", keys)
    sql, values = f"SELECT it.key, {table.selected} FROM {table.source} WHERE {where}", where.values
    try:
        rows = file.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if not is_undecodable(error):
            raise
        rows = fetch_rows_tolerantly(file, sql, values)
    return {row[0]: row for row in rows}


def decode_entries(file: sqlite3.Connection, rows: Sequence[codec.Row]) -> Iterator[JournalEntry]:
    """Yield the entries of rows of the journal; a creation whose value cannot be read is left out with a warning.

    Raises:
        StoreCorrupt: another row cannot be read.
    """
    created = {key: (table, row) for key, table, row in _fetch_creations(file, rows)}
    for row in rows:
        if row[10] != codec.IN_ROW:
            yield codec.decode_change(row)
            continue
        try:
            table, columns = created.get(row[0]) or (None, ())
            yield codec.decode_journal_entry(row, None if table is None else table.decode(columns))
        except codec.UnreadableRow as error:
            _log.warning("change %d cannot be read and is left out, %s: run check()", row[0], error)


def read_creations(file: sqlite3.Connection, rows: Sequence[codec.Row]) -> dict[int, str]:
    """Return the documents of the creations among rows of the journal whose values are in their rows.

    Args:
        file: The connection, in a transaction.
        rows: Rows in the columns of `CHANGE_COLUMNS`.
    """
    documents: dict[int, str] = {}
    for key, table, row in _fetch_creations(file, rows):
        with suppress(TypeError):  # a damaged row has bytes in place of a text
            documents[key] = codec.to_document(table, row)
    return documents


def _fetch_creations(
    file: sqlite3.Connection, rows: Sequence[codec.Row]
) -> Iterator[tuple[int, codec.TableCodec[Any], codec.Row]]:
    """Yield key, table and columns of the creations among rows of the journal whose values are in their rows."""
    wanted: dict[Subject, list[int]] = {}
    for row in rows:
        if row[10] == codec.IN_ROW:
            wanted.setdefault(row[8], []).append(row[0])
    for subject, keys in wanted.items():
        for start in range(0, len(keys), _BATCH):
            for key, row in fetch_by_key(file, codec.TABLES[subject], keys[start : start + _BATCH]).items():
                yield key, codec.TABLES[subject], row[1:]


# -- filters as conditions -----------------------------------------------------------------------------------


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


def pad_values(values: Sequence[V]) -> list[V]:
    """Return the values up to the next power of two, with the last of them repeated."""
    missing = (1 << (len(values) - 1).bit_length()) - len(values)
    return [*values, *[values[-1]] * missing] if values else []


class SQLiteConditions(Conditions):
    """Conditions in the SQL of SQLite."""

    placeholder = "?"
    created_at = "it.created_at"
    role = "it.role"
    parts = "it.parts"

    def add_any(self, column: str, wanted: Sequence[Any]) -> None:
        """Add that a column has one of some values.

        The last is repeated up to the next power of two, so that SQLite prepares a dozen statements, not a thousand.
        """
        padded, column = pad_values(wanted), codec.RECORDS.expressions.get(column.removeprefix("it."), column)
        self.add(f"{column} IN ({build_placeholders(len(padded))})", *padded)

    def add_like(self, scope: str, fingerprints: Sequence[str]) -> None:
        """Add that a record is live in a scope with one of some fingerprints."""
        self.add("it.archived_at IS NULL")
        self.add_any("it.fingerprint", [codec.compute_mark(scope, each) for each in fingerprints])

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add that a record has all of some tags, whatever their case."""
        for tag in tags:
            folded = tag.casefold()
            self.add(_HAS_TAG, codec.to_json(folded), folded)

    def add_sessions(self, ids: Sequence[str]) -> None:
        """Add that a turn is of one of some sessions."""
        comparison = "=" if len(ids) == 1 else "IN"  # with one session the index gives the order
        marks = build_placeholders(len(ids))
        self.add(f"it.session {comparison} (SELECT key FROM sessions WHERE id IN ({marks}))", *ids)

    def add_text(self, text: str) -> None:
        """Add that the content has a text. SQLite's `lower` changes ASCII letters only."""
        # Not LIKE: `%` and `_` would have to be escaped, and its patterns end at 50,000 bytes.
        self.add("instr(lower(it.content), lower(?)) > 0", text)
