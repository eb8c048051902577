"""Repair of a damaged file: everything that can be read is copied into a new one, which takes its place.

The journal has every version of a value, and the tables have the latest one. So each fills what the other lost: a row
is made from the journal, and an entry of the journal from the row and from the entries before and after it. An entry
of which nothing is known becomes an empty one, as after an erasure. Search columns, indexes and counters are made
again. The damaged file is kept beside the new one.

Others may have the file open while it is replaced. A log (`-wal`) beside another file than its own is played into it
and destroys it. So it is emptied while the write lock is held, and removed before the new file comes: a writer waits,
and is then refused, because `connections` sees that its file is no longer in its place. If this process is killed,
either the old file or the new one is in its place, and complete.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from reverie.domain.change import OPERATIONS, Subject, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import (
    Conflict,
    InvalidInput,
    StoreCorrupt,
    StoreIncompatible,
    StoreUnavailable,
    build_os_error,
)
from reverie.domain.record import Record
from reverie.domain.text.timestamps import from_microseconds
from reverie.stores.base import ROWS, CopiedRow, Unjournaled
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    ENTRIES,
    SESSIONS,
    TABLES,
    TURNS,
    TableCodec,
    UnreadableRow,
    from_document,
    to_short_document,
)
from reverie.stores.forks import not_forking
from reverie.stores.protocol import RepairReport
from reverie.stores.sqlite.check import validate_value
from reverie.stores.sqlite.copying import SQLiteCopyTarget
from reverie.stores.sqlite.damage import LOST, DamagedFile, Row
from reverie.stores.sqlite.derived import MARKED, read_copies, remove_passages
from reverie.stores.sqlite.migrations import (
    APPLICATION_ID,
    MIGRATIONS,
    build_uri,
    copy_file,
    create_schema,
    link_file,
    make_folder,
    sync_folder,
)
from reverie.stores.sqlite.reading import CORRUPT, translate_error

_ACTOR = "doctor"
_MADE, _LOST = "made again after damage", "lost by damage"
_BROKEN = "broken"
_COLUMNS = tuple(CHANGE_COLUMNS.split(", "))


class SalvagedMarks(NamedTuple):
    """Tombstones that were read from a damaged file.

    Attributes:
        tombstones: The marks.
        cursor: The value of the cursor that was asked for; None if there is none.
        complete: Whether all could be read.
    """

    tombstones: tuple[str, ...]
    cursor: str | None
    complete: bool


def repair_file(path: Path) -> RepairReport:
    """Replace a file by a copy of everything that can be read of it.

    Args:
        path: The file; others may have it open, and are refused afterwards.

    Raises:
        StoreIncompatible: the file is of another program or of a newer Reverie; nothing was changed.
        StoreCorrupt: nothing of it can be read; nothing was changed.
        StoreUnavailable: others kept on using the file, or the disk refuses; nothing was changed.
    """
    scratch = path.with_name(f".repairing-{secrets.token_hex(6)}")
    kept = find_free_name(path)
    made: list[_Salvage] = []

    def build(can_open: bool) -> Path:
        make_folder(scratch)
        damaged = scratch / "damaged.db"
        if not (can_open and _copy_pages(path, damaged)):
            _copy_raw(path, damaged)
        made.append(_Salvage(_open_damaged(damaged), copies=read_copies(path.parent)))
        return made[0].write(scratch / path.name)

    try:
        replace_file(path, build, kept=kept)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return RepairReport(kept=kept, changes=made[0].last, lost=tuple(made[0].describe_lost()))


def find_free_name(path: Path) -> Path:
    """Return the name under which a replaced database is kept, such as `reverie.db.broken-1`."""
    number = 1
    while any(path.parent.glob(f"{path.name}.{_BROKEN}-{number}*")):
        number += 1
    return path.with_name(f"{path.name}.{_BROKEN}-{number}")


def salvage_marks(path: Path, cursor: str) -> SalvagedMarks:
    """Read the tombstones in a store's file, however damaged, and the value of one cursor.

    Args:
        path: The file; nothing in it is changed.
        cursor: The name of the cursor.
    """
    scratch = path.with_name(f".repairing-{secrets.token_hex(6)}")
    try:
        make_folder(scratch)
        _copy_raw(path, scratch / path.name)
        file = _open_damaged(scratch / path.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rest = _read_unjournaled(file)
    complete = file.header.is_readable and not file.broken & {"tombstones", "cursors"}
    return SalvagedMarks(tuple(rest.tombstones), rest.cursors.get(cursor), complete)


# -- reading -----------------------------------------------------------------------------------------------


def _copy_pages(path: Path, target: Path) -> bool:
    """Copy all pages through SQLite, which knows those of the log; return False if it refuses."""
    try:
        return copy_file(path, target)
    except sqlite3.DatabaseError:
        target.unlink(missing_ok=True)
        return False


def _copy_raw(path: Path, target: Path) -> None:
    """Copy a file and its log. Not by opening them in place: closing would drop the locks of this process on them."""
    for ending in ("", "-wal"):
        source = path.with_name(path.name + ending)
        if source.exists():
            shutil.copyfile(source, target.with_name(target.name + ending))


def _open_damaged(path: Path) -> DamagedFile:
    with closing(sqlite3.connect(":memory:")) as scratch:
        create_schema(scratch)
        schema = dict(scratch.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
    file = DamagedFile(path, schema=schema, fits=_fits)
    header = file.header
    if header.is_readable and header.application not in (0, APPLICATION_ID):
        raise StoreIncompatible(f"{path.name!r} is a SQLite file of another program: choose another path")
    if header.is_readable and header.version > len(MIGRATIONS):
        raise StoreIncompatible(f"{path.name!r} was made by a newer Reverie: upgrade Reverie")
    return file


def _fits(name: str, row: Mapping[str, Any]) -> bool:
    """Return whether a row can be one of a table."""
    values = list(row.values())
    types = [type(value) for value in values]
    match name:
        case "journal":
            return _is_entry(row)
        case "gone" | "counters":
            return types == [str, int]
        case "cursors":
            return types == [str, str]
        case "tombstones":
            return types == [str]
        case "entries":
            return _decode_entry(row) is not None
    table = next((table for table in TABLES.values() if table.name == name), None)
    return table is not None and _decode_thing(table, row, {row.get("session"): "unknown"}) is not None


def _is_entry(row: Mapping[str, Any]) -> bool:
    """Return whether a row is an entry of the journal, of which all but the documents can be read."""
    numbers = [row.get(name) for name in ("sequence", "batch", "key", "at")]
    return (
        row.get("subject") in TABLES
        and all(type(number) is int for number in numbers)
        and type(row.get("actor")) is str
        and 0 < row["key"] <= row["sequence"]
    )


def _decode_entry(row: Mapping[str, Any]) -> Entry | None:
    try:
        return ENTRIES.decode([row.get(name) for name in ENTRIES.names])
    except UnreadableRow:
        return None


def _decode_thing(
    table: TableCodec[Any], row: Mapping[str, Any], sessions: Mapping[Any, str]
) -> tuple[str, Value] | None:
    """Return document and value of a row; None if it cannot be read or is not valid."""
    columns = {column.name: row.get(column.name, column.usual) for column in table.columns}
    if table is TURNS:
        columns["session"] = sessions.get(columns["session"])
    try:
        value = validate_value(table.decode(list(columns.values())))
    except (UnreadableRow, InvalidInput):
        return None
    return to_short_document(table, tuple(columns.values())), value


def _decode_document(subject: str, document: Any) -> Value | None:
    if not isinstance(document, str):
        return None
    try:
        value: Value = from_document(TABLES[subject], document)  # type: ignore[index]
        return validate_value(value)
    except (UnreadableRow, InvalidInput):
        return None


def _read_unjournaled(file: DamagedFile) -> Unjournaled:
    entries = [entry for row in file.rows("entries") if (entry := _decode_entry(row)) is not None]
    return Unjournaled(
        entries=list({(entry.namespace, entry.key): entry for entry in entries}.values()),
        cursors={row["name"]: row["value"] for row in file.rows("cursors") if _fits("cursors", row)},
        counters={row["name"]: row["value"] for row in file.rows("counters") if _fits("counters", row)},
        tombstones=[row["mark"] for row in file.rows("tombstones") if _fits("tombstones", row)],
    )


# -- filling in --------------------------------------------------------------------------------------------


class _Thing(NamedTuple):
    """A row that can be read, with its document in the journal and its value."""

    subject: Subject
    document: str
    value: Value
    row: Row


class _Salvage:
    """What a damaged file still tells, made into a journal from which everything follows.

    Attributes:
        last: The number of the last entry.
    """

    def __init__(self, file: DamagedFile, *, copies: tuple[int, str, dict[int, str]]) -> None:
        self._file = file
        self._entries = {row["sequence"]: row for row in file.rows("journal") if _is_entry(row)}
        self._rest = _read_unjournaled(file)
        self._lost_versions = 0
        for row in self._entries.values():
            # A file of an earlier version has a reason in place of operation, note and reference.
            if row.get("reason") in OPERATIONS:
                row["operation"] = row.pop("reason")
            elif row.get("operation") not in OPERATIONS:
                row["operation"] = "rebuild"
            for name, otherwise in (("note", row.get("reason")), ("reference", "")):
                if type(row.get(name)) is not str:
                    row[name] = otherwise if type(otherwise) is str else ""
            for side in ("before", "after"):
                if row[side] is not None and _decode_document(row["subject"], row[side]) is None:
                    row[side] = LOST
        self._things = self._read_things()
        self._use_copies(*copies)
        self._gone = {
            row["key"]: row["id"]
            for row in file.rows("gone")
            if _fits("gone", row) and row["key"] not in self._things
        }
        self.last = max([*self._entries, *self._things, *self._gone], default=0)
        if not (self._entries or self._things):
            raise StoreCorrupt(
                "nothing in the database can be read: bring back a backup with `reverie recover`, or make a new "
                "database of the folder's files with `reverie rebuild --force`"
            )
        self._free = [number for number in range(1, self.last + 1) if number not in self._entries]
        self._at = max((row["at"] for row in self._entries.values()), default=int(time.time() * 1e6))
        self._add_creations()
        self._follow_chains()
        self._lost_changes = len(self._free)
        for number in self._free:
            self._add(number, key=number, subject="record", before=None, after=None, reference=_LOST)
        self._agree()

    def write(self, path: Path) -> Path:
        """Write a new file, and check it."""
        target = SQLiteCopyTarget(path)
        try:
            rows = list(self._iterate_rows())
            for start in range(0, len(rows), ROWS):
                target.write_rows(rows[start : start + ROWS])
            target.finish(self._rest)
            if problems := target.check():
                raise StoreCorrupt(f"the repaired database has problems ({problems[0].what}): report this")
        except Conflict as error:
            raise StoreCorrupt(f"the readable content contradicts itself ({error}): report this") from error
        finally:
            target.close()
        target.publish()
        return path

    def describe_lost(self) -> Iterator[str]:
        """Yield what could not be read."""
        if self._lost_changes:
            yield f"{self._lost_changes:,} changes of the history"
        if self._lost_versions:
            yield f"{self._lost_versions:,} earlier versions"
        if unreadable := len(self._file.rows("entries")) - len(self._rest.entries):
            yield f"{unreadable:,} entries of working memory"
        for name, what in (
            ("entries", "entries of working memory"),
            ("cursors", "positions of background work, and the key of the marks of what was forgotten"),
            ("counters", "counters"),
            ("tombstones", "marks of what was forgotten"),
        ):
            if name in self._file.broken:
                yield f"some {what}"

    def _read_things(self) -> dict[int, _Thing]:
        """Return the rows that can be read, by key."""
        sessions: dict[Any, str] = {}
        for row in self._entries.values():
            if row["subject"] == "session":
                for side in ("before", "after"):
                    if value := _decode_document("session", row[side]):
                        sessions[row["key"]] = value.id
        things: dict[int, _Thing] = {}
        for table in (SESSIONS, *(table for table in TABLES.values() if table is not SESSIONS)):
            for row in self._file.rows(table.name):
                if (found := _decode_thing(table, row, sessions)) is not None and row["key"] > 0:
                    things.setdefault(row["key"], _Thing(table.subject, *found, row))
                    if table is SESSIONS:
                        sessions[row["key"]] = found[1].id
        return things

    def _use_copies(self, followed: int, mark: str, documents: Mapping[int, str]) -> None:
        """Fill in the creations that only a row has that is lost or damaged, from the copies of rows.

        Args:
            followed: The number of the last change that the copies show.
            mark: The mark of this change; copies of another store have another one.
            documents: Copies by key.
        """
        last = self._entries.get(followed)
        if last is not None and mark != " ".join(str(last[name]) for name in MARKED):
            return
        changed = {row["key"] for row in self._entries.values() if row["key"] != row["sequence"]}
        for key, document in documents.items():
            thing, entry = self._things.get(key), self._entries.get(key)
            if entry is None or entry["after"] is not LOST or key in changed:
                continue
            is_whole = thing is not None and self._is_trusted(thing)
            if not is_whole and _decode_document(entry["subject"], document) is not None:
                entry["after"] = document
                self._things.pop(key, None)

    def _add_creations(self) -> None:
        """Add the lost entries whose number is the key of something: those of its creation."""
        subjects = {row["key"]: row["subject"] for row in self._entries.values()}
        for number in self._free:
            thing = self._things.get(number)
            subject = subjects.get(number) if thing is None else thing.subject
            if subject is not None or number in self._gone:
                self._add(number, key=number, subject=subject or "record", before=None, after=LOST)
        self._free = [number for number in self._free if number not in self._entries]

    def _follow_chains(self) -> None:
        """Fill in what the entries of one thing say of each other, and what its row says of the last of them."""
        chains: dict[int, list[Row]] = {}
        for number in sorted(self._entries):
            chains.setdefault(self._entries[number]["key"], []).append(self._entries[number])
        ids = {(thing.subject, thing.value.id) for thing in self._things.values()}
        for key, chain in chains.items():
            for before, after in zip([None, *chain], chain, strict=False):
                self._connect(before, after)
            self._connect_row(key, chain, ids)

    def _connect(self, earlier: Row | None, row: Row) -> None:
        if earlier is None:
            if row["before"] is LOST or row["key"] == row["sequence"]:
                row["before"] = None
            return
        if earlier["after"] is LOST:
            self._lost_versions += row["before"] is None or row["before"] is LOST
            earlier["after"] = None if row["before"] is LOST else row["before"]
        if row["before"] is LOST:
            row["before"] = earlier["after"]
        elif row["before"] not in (None, earlier["after"]):
            number = self._take_free(earlier["sequence"], row["sequence"])
            if number is None:
                row["before"] = earlier["after"]
            else:
                self._add_change(number, row, before=earlier["after"], after=row["before"])

    def _connect_row(self, key: int, chain: list[Row], ids: Set[tuple[str, str]]) -> None:
        last = chain[-1]
        thing = self._things.get(key)
        document = None if thing is None else thing.document
        if last["after"] is LOST:
            self._lost_versions += document is None
            last["after"] = document
            return
        if document == last["after"]:
            return
        if document is None:
            value = _decode_document(last["subject"], last["after"])
            if key not in self._gone and (value is None or (last["subject"], value.id) not in ids):
                return  # its row is made from the journal
        elif thing is not None and thing.value == _decode_document(thing.subject, last["after"]):
            return
        elif document in [row[side] for row in chain for side in ("before", "after")]:
            return  # a page of an earlier state
        number = self._take_free(last["sequence"], self.last + 1)
        if number is None:
            if thing is not None and last["after"] is not None and not self._is_trusted(thing):
                return  # of the two, the row is the damaged one
            self.last += 1
            number = self.last
        self._add_change(number, last, before=last["after"], after=document)

    def _is_trusted(self, thing: _Thing) -> bool:
        """Return whether the columns that follow from the value of a row are as they should be."""
        table = TABLES[thing.subject]
        known = [name for name in table.derived if name in thing.row]  # earlier versions have no checksum
        derived = dict(zip(table.derived, table.derive(thing.value, table.encode(thing.value)), strict=True))
        return all(derived[name] == thing.row[name] for name in known)

    def _take_free(self, after: int, before: int) -> int | None:
        """Return the first number between two of an entry that was lost; None if there is none."""
        place = bisect_right(self._free, after)
        return self._free.pop(place) if place < len(self._free) and self._free[place] < before else None

    def _add_change(self, number: int, of: Row, *, before: Any, after: Any) -> None:
        self._add(number, key=of["key"], subject=of["subject"], before=before, after=after)

    def _add(
        self, number: int, *, key: int, subject: str, before: Any, after: Any, reference: str = _MADE
    ) -> None:
        self._entries[number] = {
            "sequence": number, "batch": number, "at": None, "actor": _ACTOR,
            "operation": "rebuild", "note": "", "reference": reference,
            "key": key, "subject": subject, "before": before, "after": after,
        }  # fmt: skip

    # -- agreement among things ----------------------------------------------------------------------------

    def _agree(self) -> None:
        """Append changes for what follows from lost things: turns without their session, or after a gap."""
        latest: dict[int, Row] = {}
        for number in sorted(self._entries):
            latest[self._entries[number]["key"]] = self._entries[number]
        values = {key: _decode_document(row["subject"], row["after"]) for key, row in latest.items()}
        sessions = {value.id for value in values.values() if isinstance(value, SessionState)}
        places: dict[str, list[tuple[Turn, int]]] = {}
        live: dict[tuple[str, str], tuple[Record, int]] = {}
        for key, value in values.items():
            if isinstance(value, Turn):
                places.setdefault(value.session, []).append((value, key))
            elif isinstance(value, Record) and not value.archived:
                words = (value.scope, value.fingerprint)
                if words in live:
                    self._change(live[words][1], live[words][0], _archive(live[words][0], self._at))
                live[words] = (value, key)
        for session, turns in places.items():
            turns.sort(key=lambda each: (each[0].position, each[1]))
            first = turns[0][0]
            if session not in sessions:
                state = SessionState(id=session, created_at=first.at, scope=first.scope)
                self._change(self.last + 1, None, state)
            for position, (turn, key) in enumerate(turns):
                if turn.position != position:
                    self._change(key, turn, replace(turn, position=position))

    def _change(self, key: int, before: Value | None, after: Value) -> None:
        table = next(table for table in TABLES.values() if isinstance(after, table.kind))
        self.last += 1
        self._add(
            self.last,
            key=key,
            subject=table.subject,
            before=None if before is None else to_short_document(table, table.encode(before)),
            after=to_short_document(table, table.encode(after)),
        )

    def _iterate_rows(self) -> Iterator[CopiedRow]:
        """Yield the journal; entries that were added have the time, and within a transaction the batch, of others."""
        rows = [self._entries[number] for number in sorted(self._entries)]
        left: Row | None = None
        added: list[Row] = []
        for row in [*rows, None]:
            if row is not None and row["at"] is None:
                added.append(row)
                continue
            for each in added:
                each["at"] = left["at"] if left else row["at"] if row else self._at
                if left and row and left["batch"] == row["batch"]:
                    each["batch"] = row["batch"]
            added.clear()
            left = row
        for row in rows:
            value = _decode_document(row["subject"], row["after"] or row["before"])
            thing = self._things.get(row["key"])
            name = value.id if value else thing.value.id if thing else self._gone.get(row["key"], "")
            yield CopiedRow(**{column: row[column] for column in _COLUMNS}, id=name)


def _archive(record: Record, at: int) -> Record:
    return replace(
        record, archived_at=from_microseconds(at), archive_reason="has the same text as another record"
    )


# -- replacement ---------------------------------------------------------------------------------------------


_PAUSE_S = 0.02
_PATIENCE_S = 10.0
_BESIDE = ("-wal", "-shm", "-journal")


def replace_file(path: Path, build: Callable[[bool], Path], *, kept: Path) -> None:
    """Put a store's file in the place of another.

    Args:
        path: The file to be replaced; others may have it open.
        build: Returns the new file, closed, on the same file system; it is moved. The present one does not change
            while it runs. Receives whether that can be opened, or is too damaged.
        kept: The name under which the old one is kept, with all that was written to it.

    Raises:
        StoreUnavailable: others kept on reading or writing, or the disk refuses; nothing was replaced.
    """
    try:
        with not_forking, _open_quiesced(path, _PATIENCE_S) as file:
            replacement = build(file is not None)
            _refuse_log(replacement)
            if file is None:
                _set_aside(path, kept)
            elif not link_file(path, kept):
                copy_file(path, kept)
            for ending in _BESIDE:
                path.with_name(path.name + ending).unlink(missing_ok=True)
            os.replace(replacement, path)
            remove_passages(path.parent)
            sync_folder(path.parent)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    except OSError as error:
        raise build_os_error(f"{str(path)!r} cannot be replaced", error, "make it writable") from error


@contextmanager
def _open_quiesced(path: Path, patience: float) -> Iterator[sqlite3.Connection | None]:
    """Open the file with an empty log and locked for writing; yield None if it is too damaged to be opened."""
    connection = sqlite3.connect(build_uri(path, "mode=rw"), uri=True, isolation_level=None, timeout=patience)
    with closing(connection) as file:
        try:
            _quiesce_file(file, path, time.monotonic() + patience)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF not in CORRUPT:
                raise
            yield None
            return
        try:
            yield file
        finally:
            file.execute("ROLLBACK")


def _quiesce_file(file: sqlite3.Connection, path: Path, deadline: float) -> None:
    log = path.with_name(f"{path.name}-wal")
    while True:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        file.execute("BEGIN IMMEDIATE")
        # Between the two somebody else may have written, or be reading what is in the log.
        if not log.exists() or log.stat().st_size == 0:
            return
        file.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"{str(path)!r} is in use: others kept reading or writing it; end them and try again"
            )
        time.sleep(_PAUSE_S)


def _refuse_log(replacement: Path) -> None:
    log = replacement.with_name(f"{replacement.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable(f"{str(replacement)!r} is still open somewhere: close it first")


def _set_aside(path: Path, kept: Path) -> None:
    """Move a damaged file and its log, to which no process can write."""
    for ending in ("-wal", ""):
        source = path.with_name(path.name + ending)
        if source.exists():
            source.rename(kept.with_name(kept.name + ending))
