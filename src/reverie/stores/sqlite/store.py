"""Embedded SQLite store with a journal: many readers, many processes, no server.

Standard library only. A commit is acknowledged when it is on the disk (write-ahead log, `synchronous=FULL`).
`tables.sql` has the tables, and the reasons for their form.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from reverie.domain.change import Change, JournalEntry, Subject
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, StoreError, StoreUnavailable, build_os_error
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import Analyse, Searchable, is_searched
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import Conditions, CopiedRow, build_placeholders, translating_damage
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    SESSIONS,
    TABLES,
    Row,
    TableCodec,
    get_id,
    to_document,
)
from reverie.stores.forks import using_connections
from reverie.stores.protocol import CommitOptions, Store
from reverie.stores.sqlite import reading
from reverie.stores.sqlite.connections import Connections, is_read_only
from reverie.stores.sqlite.database_file import copy_out, prepare
from reverie.stores.sqlite.derived import DerivedDatabase
from reverie.stores.sqlite.transaction import WriteTransaction, prepare_change

if TYPE_CHECKING:
    from reverie.stores.base import RepairReport, StoreProblem

_log = logging.getLogger("reverie")

T = TypeVar("T", Record, Turn, Page, Paragraph)
V = TypeVar("V")

_MOST_NAMES = 16_384  # in one statement; a power of two below SQLite's 32,766 variables
_NAMES = " UNION ALL ".join(
    f"SELECT key, id FROM {each}" for each in ("gone", *(t.name for t in TABLES.values()))
)
_KEYS_OF_ID = " UNION ALL ".join(
    f"SELECT key FROM {name} WHERE id = ?" for name in (*(table.name for table in TABLES.values()), "gone")
)


class SQLiteStore(Store):
    """A store in one SQLite file. Safe to use from several threads, from several processes, and across forks.

    Args:
        path: The file, such as `~/agent/reverie.db` with `~` expanded; its folder is made when missing.
            File and folder are made for their owner alone, whatever the umask.
        analyse: Returns the tokens of a record, turn or paragraph.
        create: Whether to make the file when there is none.
        passages: The file of the analyses of all texts, which is made when it is missing; None keeps them in memory.
        busy_timeout: How long to wait for others that write before `StoreUnavailable`.

    Raises:
        NotFound: there is no file and `create` is false.
        StoreIncompatible: the file is no Reverie store, or a newer Reverie made it; it is left untouched.
        StoreCorrupt: the file cannot be read.
        StoreUnavailable: the file or its folder cannot be opened.

    Example:
        >>> store = SQLiteStore(Path("agent/reverie.db"), analyse=analyse)      # doctest: +SKIP
        >>> store.commit([Change(before=None, after=record)], actor="owner", at=utc_now())   # doctest: +SKIP
    """

    _connections: Connections
    _REMEDY = (
        "run `reverie doctor --fix`, which writes it again from the journal or says what else brings it back"
    )
    _TALLIED = MappingProxyType(
        {
            "category": ("coalesce(category, '')", ""),
            "tag": ("value", f", {reading.EACH_TAG}"),
            "kind": ("coalesce(kind, 'fact')", ""),
            "scope": ("scope", ""),
        }
    )

    def __init__(
        self,
        path: Path,
        *,
        analyse: Analyse,
        create: bool = True,
        passages: Path | None = None,
        busy_timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        self._patience = busy_timeout.total_seconds()
        self.path = path.absolute()
        self._analyse = analyse
        self._passages = passages
        with using_connections():
            if prepare(self.path, create=create):
                from reverie.stores.sqlite.rewriting import upgrade_file  # here: files are seldom upgraded

                upgrade_file(self.path)
        self._open()

    def _open(self) -> None:
        self._connections = Connections(self.path, patience=self._patience)
        self._derived = DerivedDatabase(
            self._passages, analyse=self._analyse, is_kept=not is_read_only(self.path)
        )

    # -- changing ------------------------------------------------------------------------------------

    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Make all changes, or none, durably, with a journal row for each in the same transaction."""
        ready, marks = [prepare_change(edit) for edit in edits], options.get("tombstones")
        with self._connections.writing() as file:
            changes = WriteTransaction(file)
            if (since := options.get("since")) is not None:
                changes.refuse_if_changed(since)
            changes.refuse_other_cursors(options.get("expected") or {})
            for edit in ready:
                (changes.make if marks is None else changes.erase)(edit)
            changes.write_beside(marks or (), options.get("cursors") or {}, options.get("counts") or {})
            return changes.finish(actor=actor, at=at, note=options)

    def scrub(self) -> bool:
        """Rewrite the store so that no erased or overwritten content is left in free space or logs."""
        # The store first: then no reader is left that could analyse what was erased again.
        return self._connections.scrub() and self._derived.scrub(self)

    # -- the journal ---------------------------------------------------------------------------------

    def citing(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of values of which a version in the journal names one of these ids."""
        found: dict[int, str] = {}
        for start in range(0, len(ids), _MOST_NAMES):
            some = reading.pad_values(list(ids[start : start + _MOST_NAMES]))
            keys = f"(SELECT key FROM citations WHERE cited IN ({build_placeholders(len(some))}))"
            sql = " UNION ALL ".join(
                f"SELECT key, id FROM {name} WHERE key IN {keys}"
                for name in (*(table.name for table in TABLES.values()), "gone")
            )
            found |= dict(self._connections.rows(sql, some * (len(TABLES) + 1)))
        return [found[key] for key in sorted(found)]

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Return sessions with their numbers of turns, the most recently active first."""
        where = reading.SQLiteConditions()
        if scopes is not None:
            where.add_any("it.scope", scopes)
        rows = self._connections.rows(
            f"SELECT it.key, {SESSIONS.selected}, last.position, coalesce(last.at, it.created_at) AS last_at "
            f"FROM {SESSIONS.source} LEFT JOIN turns AS last ON last.session = it.key AND last.position = "
            "(SELECT max(position) FROM turns WHERE session = it.key) "
            f"WHERE {where} ORDER BY last_at DESC, it.key DESC LIMIT ?",
            (*where.values, -1 if limit is None else limit),
        )
        return [self._build_overview(row[:-2], *row[-2:]) for row in rows]

    # -- for search -----------------------------------------------------------------------------------

    def read_searched(
        self, subject: Searchable, keys: Sequence[int]
    ) -> list[tuple[int, Record | Turn | Paragraph, int | None, str]]:
        """Return those of some values that are searched: key, value, key of a turn's session, document."""
        table: TableCodec[Any] = TABLES[subject]
        threads: dict[int, int] = {}
        with self._connections.reading() as file:
            rows = reading.fetch_by_key(file, table, keys)
            if subject == "turn":
                marks = build_placeholders(len(keys))
                threads = dict(file.execute(f"SELECT key, session FROM turns WHERE key IN ({marks})", keys))
        found = []
        for key, row in sorted(rows.items()):
            if is_searched(value := self._decode_or_skip(subject, key, row)):
                found.append((key, value, threads.get(key), to_document(table, row[1:])))
        return found

    # -- working memory --------------------------------------------------------------------------------

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one with the same namespace and key; False if the namespace is full."""
        moment = to_microseconds(now)
        with self._connections.writing() as file:
            if capacity is not None:
                live = file.execute(
                    "SELECT key FROM entries WHERE namespace = ? AND (expires_at IS NULL OR expires_at > ?)",
                    (entry.namespace, moment),
                ).fetchall()
                if len(live) >= capacity and (entry.key,) not in live:
                    return False
            file.execute(
                "DELETE FROM entries WHERE namespace = ? AND expires_at <= ?", (entry.namespace, moment)
            )
            WriteTransaction(file).put_entry(entry)
            return True

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); return how many there were."""
        with self._connections.writing() as file:
            if keys is None:
                return file.execute("DELETE FROM entries WHERE namespace = ?", (namespace,)).rowcount
            return sum(
                file.execute("DELETE FROM entries WHERE namespace = ? AND key = ?", (namespace, key)).rowcount
                for key in keys
            )

    # -- housekeeping ----------------------------------------------------------------------------------

    def check(self) -> list[StoreProblem]:
        """Return all problems of the stored data; an empty list if there are none."""
        from reverie.stores.sqlite.check import build_problem, find_problems  # here: it is seldom needed

        try:
            with self._connections.reading() as file:
                return find_problems(file)
        except StoreUnavailable:
            raise
        except StoreError as error:  # the definitions in it are damaged, or where it says that things are
            return [build_problem(f"the file is damaged: {error}")]

    def backup(self, target: Path) -> None:
        """Copy the store, as it is at one moment, into another file, whatever is written meanwhile.

        Args:
            target: The new file; its folder is made when missing. Made for its owner alone, and seen under
                this name only when it is complete.

        Raises:
            InvalidInput: there is something of that name.
        """
        try:
            with self._connections.reading() as file:
                is_written = copy_out(file, target.absolute())
        except OSError as error:
            raise build_os_error(
                f"{str(target)!r} cannot be written", error, "choose another place"
            ) from error
        if not is_written:
            raise InvalidInput(f"{str(target)!r} is there already: choose another name, or remove it first")

    def repair(self) -> RepairReport:
        """Replace the file by a copy of everything that can be read of it; see `rewriting.repair_file`."""
        from reverie.stores.sqlite.rewriting import repair_file

        self.close()
        try:
            return repair_file(self.path)
        finally:
            self._derived.clear()
            self._open()

    @translating_damage()
    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""
        with self._connections.reading() as file:
            sql = f"SELECT {CHANGE_COLUMNS} FROM changes WHERE sequence > ? ORDER BY sequence LIMIT ?"
            found = file.execute(sql, (after, limit)).fetchall()
            bodies = reading.read_creations(file, found)
            names: dict[int, str] = {}
            # Only the tables have the ids of what was erased.
            if any(row[9] is row[10] is None for row in found):
                names = dict(file.execute(_NAMES))
        rows = []
        for row in found:
            before, after_change = row[9], bodies.get(row[0], row[10])
            name = names.get(row[7], "") if before is after_change is None else get_id(after_change or before)
            rows.append(CopiedRow._make((*row[:9], before, after_change, name)))
        return rows

    # -- below -----------------------------------------------------------------------------------------

    def _where(self, table: str) -> Conditions:
        return reading.SQLiteConditions()

    def _name(self, table: str) -> str:
        return "changes AS it" if table == "journal" else f"{table} AS it"

    def _form(self, subject: Subject) -> tuple[str, str]:
        return f"it.key, {TABLES[subject].selected}", TABLES[subject].source

    def _decode(self, subject: Subject, row: Row) -> Any:
        return TABLES[subject].decode(row[1:])

    def _read_by_key(
        self, connection: sqlite3.Connection, subject: Subject, keys: Sequence[int]
    ) -> dict[int, Row]:
        return reading.fetch_by_key(connection, TABLES[subject], keys)

    def _select_changes(
        self, where: Conditions, id: str | None, order: str, limit: int
    ) -> list[JournalEntry]:
        if id is not None:
            where.add(
                f"it.sequence IN (SELECT sequence FROM journal WHERE sequence IN ({_KEYS_OF_ID}) UNION ALL "
                f"SELECT sequence FROM journal WHERE key <> sequence AND key IN ({_KEYS_OF_ID}))",
                *(id,) * 2 * _KEYS_OF_ID.count("?"),
            )
        sql = f"SELECT {CHANGE_COLUMNS} FROM changes AS it WHERE {{}} ORDER BY it.sequence {order} LIMIT ?"
        with self._connections.reading() as file:
            while rows := file.execute(sql.format(where), (*where.values, limit)).fetchall():
                if entries := list(reading.decode_entries(file, rows)):
                    return entries
                # An empty answer would mean the end.
                where.add(f"it.sequence {'<' if order == 'DESC' else '>'} ?", rows[-1][0])
        return []
