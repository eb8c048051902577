"""A database made anew from everything that can be read of another: one that is damaged, or of an earlier version.

The journal has every version of a value, and the tables have the latest one. So each fills what the other lost: a row
is made from the journal, and an entry of the journal from the row and from the entries before and after it. An entry
of which nothing is known becomes an empty one, as after an erasure. Search columns, indexes and counters are made
again. The former file is kept beside the new one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from reverie.domain.change import OPERATIONS, Change, Subject, Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt, translate_os_errors
from reverie.domain.record import Record
from reverie.domain.text.timestamps import from_microseconds
from reverie.stores import base, codec
from reverie.stores.sqlite import database_file
from reverie.stores.sqlite.check import find_problems, validate_value
from reverie.stores.sqlite.connections import Connections
from reverie.stores.sqlite.damage import LOST, MAGIC, DamagedFile, Row
from reverie.stores.sqlite.derived import read_copies
from reverie.stores.sqlite.transaction import CITE, INSERT_CHANGE, WriteTransaction, prepare_change

_ACTOR = "doctor"
_MADE, _LOST = "made again after damage", "lost by damage"
# The version whose records have fields for facts that were metadata before.
_FIELDS_MOVED = 11


def repair_file(path: Path) -> base.RepairReport:
    """Replace a file by a copy of everything that can be read of it.

    Args:
        path: The file; others may have it open, and are refused afterwards.

    Raises:
        StoreIncompatible: the file is of another program or of a newer Reverie; nothing was changed.
        StoreCorrupt: nothing of it can be read; nothing was changed.
        StoreUnavailable: others kept on using the file, or the disk refuses; nothing was changed.
    """
    kept = database_file.find_free_name(path)
    content = _rewrite(path, kept)
    assert content is not None
    return base.RepairReport(kept=kept, changes=content.last, lost=tuple(content.describe_lost()))


def upgrade_file(path: Path) -> Path | None:
    """Replace a file of an earlier version by one of today's, as `repair_file` does.

    Returns:
        The name under which the former one is kept; None if another process was faster.
    """
    name = f"v{database_file.read_version(path)}.backup"
    kept = path.with_name(f"{path.name}.{name}")
    if kept.exists():
        kept = database_file.find_free_name(path, name)
    return None if _rewrite(path, kept, is_upgrade=True) is None else kept


def _rewrite(path: Path, kept: Path, *, is_upgrade: bool = False) -> _Content | None:
    made: list[_Content] = []

    def build(can_open: bool) -> Path | None:
        if is_upgrade and database_file.read_version(path) == database_file.VERSION:
            return None  # another process was faster
        damaged = folder / "damaged.db"
        if not (can_open and _copy_pages(path, damaged)):
            _copy_raw(path, damaged)
        made.append(_Content(_open_damaged(damaged), copies=read_copies(path.parent)))
        return made[0].write(folder / path.name)

    with _make_scratch_folder(path) as name:
        folder = Path(name)
        database_file.replace_file(path, build, kept=kept)
    return made[0] if made else None


def salvage_marks(path: Path) -> tuple[base.Unjournaled, bool]:
    """Read what is not in the journal of a store's file, however damaged; nothing in it is changed.

    Returns:
        The contents, and whether all tombstones and cursors could be read.
    """
    with _make_scratch_folder(path) as folder:
        _copy_raw(path, Path(folder) / path.name)
        file = _open_damaged(Path(folder) / path.name)
    return _read_unjournaled(file), file.header.is_readable and not file.broken & {"tombstones", "cursors"}


# -- reading -----------------------------------------------------------------------------------------------


def _make_scratch_folder(path: Path) -> TemporaryDirectory[str]:
    with translate_os_errors(f"a copy of {str(path)!r} cannot be made"):
        return TemporaryDirectory(dir=path.parent, prefix=".repairing-", ignore_cleanup_errors=True)


def _copy_pages(path: Path, target: Path) -> bool:
    """Copy all pages through SQLite, which knows those of the log; return False if it refuses."""
    try:
        return database_file.copy_file(path, target)
    except sqlite3.DatabaseError:
        target.unlink(missing_ok=True)
        return False


def _copy_raw(path: Path, target: Path) -> None:
    """Copy a file and what its log has. Not by opening it in place: closing would drop the locks of this process."""
    for ending in ("", "-wal"):
        source = path.with_name(path.name + ending)
        if source.exists():
            shutil.copyfile(source, target.with_name(target.name + ending))
    if target.with_name(f"{target.name}-wal").exists():
        _play_log(target)


def _play_log(path: Path) -> None:
    """Let SQLite write the pages of the log into a copy. It looks at the log only if the file has a header."""
    with path.open("r+b") as file:
        if file.read(len(MAGIC)) != MAGIC:
            empty = path.with_name("empty.db")
            with closing(sqlite3.connect(empty)) as scratch:
                scratch.execute("PRAGMA journal_mode = WAL")
                database_file.create_schema(scratch)
            file.seek(0)
            file.write(empty.read_bytes()[:100])
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.DatabaseError):
        database.execute("PRAGMA writable_schema = ON")  # a damaged schema is no error then
        database.execute("PRAGMA user_version").fetchone()


def _open_damaged(path: Path) -> DamagedFile:
    with closing(sqlite3.connect(":memory:")) as scratch:
        database_file.create_schema(scratch)
        schema = dict(scratch.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
    file = DamagedFile(path, schema=schema, fits=_fits)
    if file.header.is_readable and file.header.application:
        database_file.refuse_foreign(path, file.header.application, file.header.version)
    return file


def _fits(name: str, row: Mapping[str, Any]) -> bool:
    """Return whether a row can be one of a table."""
    types = [type(value) for value in row.values()]
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
    sessions = {row.get("session"): "unknown"}
    return any(_decode_row(table, row, sessions) for table in codec.TABLES.values() if table.name == name)


def _is_entry(row: Mapping[str, Any]) -> bool:
    """Return whether a row is an entry of the journal, of which all but the documents can be read."""
    row = {name: codec.USUAL_CHANGE.get(name) if value is None else value for name, value in row.items()}
    numbers = [row.get(name) for name in ("sequence", "batch", "key", "at")]
    return (
        row.get("subject") in codec.TABLES
        and all(type(number) is int for number in numbers)
        and type(row.get("actor")) is str
        and 0 < row["key"] <= row["sequence"]
    )


def _decode_entry(row: Mapping[str, Any]) -> Entry | None:
    try:
        return codec.ENTRIES.decode([row.get(name) for name in codec.ENTRIES.names])
    except codec.UnreadableRow:
        return None


def _decode_row(
    table: codec.TableCodec[Any], row: Mapping[str, Any], sessions: Mapping[Any, str]
) -> Value | None:
    """Return the value of a row; None if it cannot be read or is not valid."""
    columns = {name: value for name, value in row.items() if value is not None}
    if table is codec.TURNS:
        columns["session"] = sessions.get(columns.get("session"))
    try:
        return validate_value(table.decode(table.complete(columns)))
    except (codec.UnreadableRow, InvalidInput):
        return None


def _read_unjournaled(file: DamagedFile) -> base.Unjournaled:
    def read(table: str) -> list[list[Any]]:
        return [list(row.values()) for row in file.rows(table) if _fits(table, row)]

    entries = [entry for row in file.rows("entries") if (entry := _decode_entry(row)) is not None]
    return base.Unjournaled(
        entries=list({(entry.namespace, entry.key): entry for entry in entries}.values()),
        cursors=dict(read("cursors")),
        counters=dict(read("counters")),
        tombstones=[mark for (mark,) in read("tombstones")],
    )


# -- filling in --------------------------------------------------------------------------------------------


class _Thing(NamedTuple):
    """A row that can be read: its value, and whether the columns that follow from it are as they should be."""

    value: Value
    is_trusted: bool


class _Content:
    """What a file still tells, made into a journal from which everything follows.

    Attributes:
        last: The number of the last entry.
    """

    def __init__(self, file: DamagedFile, *, copies: tuple[int, str, dict[int, str]]) -> None:
        self._file = file
        self._are_fields_moved = file.header.is_readable and file.header.version < _FIELDS_MOVED
        self._entries = {row["sequence"]: row for row in file.rows("journal") if _is_entry(row)}
        self._rest = _read_unjournaled(file)
        self._lost_versions = 0
        for row in self._entries.values():
            self._clean_entry(row)
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
        self._at = max((row["at"] for row in self._entries.values()), default=int(time.time() * 1e6))
        self._free = [number for number in range(1, self.last + 1) if number not in self._entries]
        self._add_creations()
        self._follow_chains()
        self._lost_changes = len(self._free)
        for number in self._free:
            self._add(number, key=number, subject="record", reference=_LOST)
        self._agree()

    def write(self, path: Path) -> Path:
        """Write a new file, and check it."""
        target = SQLiteCopyTarget(path)
        with closing(target):
            try:
                rows = list(self._iterate_rows())
                for start in range(0, len(rows), base.ROWS):
                    target.write_rows(rows[start : start + base.ROWS])
                target.finish(self._rest)
            except Conflict as error:
                raise StoreCorrupt(
                    f"the readable content contradicts itself ({error}): report this"
                ) from error
            if problems := target.check():
                raise StoreCorrupt(f"the new database has problems ({problems[0].what}): report this")
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

    def _clean_entry(self, row: Row) -> None:
        """Mark the documents of an entry that cannot be read, and bring one of an earlier version up to date."""
        row |= {name: usual for name, usual in codec.USUAL_CHANGE.items() if row.get(name, "") is None}
        reason = row.pop("reason", None)  # in place of operation, note and reference
        if reason is not None:
            is_known = reason in OPERATIONS
            row["operation"], row["note"] = (reason, "") if is_known else ("update", reason)
        if row.get("operation") not in OPERATIONS:
            row["operation"] = "rebuild"
        for name in ("note", "reference"):
            row[name] = row[name] if type(row.get(name)) is str else ""
        for side in ("before", "after"):
            if row[side] is not None:
                value = self._decode(row["subject"], row[side])
                if value is None:
                    row[side] = LOST
                elif self._are_fields_moved:
                    row[side] = codec.encode_value(value)

    def _decode(self, subject: str, document: Any) -> Value | None:
        """Return the value of a document in the journal; None if it cannot be read or is not valid."""
        if not isinstance(document, str):
            return None
        try:
            value: Value = codec.from_document(codec.TABLES[subject], document)  # type: ignore[index]
            return self._move_fields(validate_value(value))
        except (codec.UnreadableRow, InvalidInput):
            return None

    def _move_fields(self, value: Value) -> Value:
        return base.move_fields(value) if self._are_fields_moved and isinstance(value, Record) else value

    def _read_things(self) -> dict[int, _Thing]:
        """Return the rows that can be read, by key."""
        sessions: dict[Any, str] = {}
        for row in self._entries.values():
            if row["subject"] == "session" and (
                value := self._decode("session", row["after"] or row["before"])
            ):
                sessions[row["key"]] = value.id
        things: dict[int, _Thing] = {}
        for table in sorted(codec.TABLES.values(), key=lambda table: table is not codec.SESSIONS):
            for row in self._file.rows(table.name):
                value = _decode_row(table, row, sessions)
                if value is None or row["key"] <= 0:
                    continue
                expected = codec.compute_checksum(table.encode(value))
                is_trusted = row.get("checksum", expected) == expected  # earlier versions have none
                things.setdefault(row["key"], _Thing(self._move_fields(value), is_trusted))
                if table is codec.SESSIONS:
                    sessions[row["key"]] = value.id
        return things

    def _use_copies(self, followed: int, mark: str, documents: Mapping[int, str]) -> None:
        """Fill in the creations that only a row has that is lost or damaged, from the copies of rows.

        Args:
            followed: The number of the last change that the copies show.
            mark: The mark of this change; copies of another store have another one.
            documents: Copies by key.
        """
        last = self._entries.get(followed)
        if last is not None and mark != " ".join(str(last[name]) for name in base.MARKED):
            return
        changed = {row["key"] for row in self._entries.values() if row["key"] != row["sequence"]}
        for key, document in documents.items():
            thing, entry = self._things.get(key), self._entries.get(key)
            if entry is None or entry["after"] is not LOST or key in changed:
                continue
            is_whole = thing is not None and thing.is_trusted
            if not is_whole and self._decode(entry["subject"], document) is not None:
                entry["after"] = document
                self._things.pop(key, None)

    def _add_creations(self) -> None:
        """Add the lost entries whose number is the key of something: those of its creation."""
        subjects: dict[int, Subject] = {row["key"]: row["subject"] for row in self._entries.values()}
        subjects |= {key: get_subject(thing.value) for key, thing in self._things.items()}
        for number in self._free:
            if number in subjects or number in self._gone:
                self._add(number, key=number, subject=subjects.get(number, "record"), after=LOST)
        self._free = [number for number in self._free if number not in self._entries]

    def _follow_chains(self) -> None:
        """Fill in what the entries of one thing say of each other, and what its row says of the last of them."""
        chains: dict[int, list[Row]] = {}
        for number in sorted(self._entries):
            chains.setdefault(self._entries[number]["key"], []).append(self._entries[number])
        ids = {(get_subject(thing.value), thing.value.id) for thing in self._things.values()}
        for key, chain in chains.items():
            first, last = chain[0], chain[-1]
            if first["before"] is LOST or key == first["sequence"]:
                first["before"] = None
            for earlier, row in pairwise(chain):
                self._connect(earlier, row)
            # Its row is like the `before` of an entry that comes next.
            present = self._find_present(key, chain, ids)
            self._connect(last, {**last, "sequence": self.last + 1, "before": present}, is_row=True)

    def _find_present(self, key: int, chain: list[Row], ids: Set[tuple[str, str]]) -> str | None:
        """Return the document of a thing as it is now, from its row or the last of its entries."""
        latest, thing = chain[-1]["after"], self._things.get(key)
        if thing is None:
            value = self._decode(chain[-1]["subject"], latest)
            is_removed = key in self._gone or value is None or (chain[-1]["subject"], value.id) in ids
            return None if is_removed else latest  # its row is made from the journal
        document = codec.encode_value(thing.value)
        if latest is LOST:
            return document
        is_earlier = document in [row[side] for row in chain for side in ("before", "after")]
        is_damaged = not thing.is_trusted and latest is not None
        is_same = thing.value == self._decode(chain[-1]["subject"], latest)
        return latest if is_earlier or is_damaged or is_same else document

    def _connect(self, earlier: Row, row: Row, *, is_row: bool = False) -> None:
        """Fill in what two entries that follow each other say of each other, or a lost one between them."""
        if earlier["after"] is LOST:
            self._lost_versions += row["before"] is None or row["before"] is LOST
            earlier["after"] = None if row["before"] is LOST else row["before"]
        if row["before"] is LOST:
            row["before"] = earlier["after"]
        if row["before"] == earlier["after"] or (row["before"] is None and not is_row):
            return
        place = bisect_right(self._free, earlier["sequence"])
        if place < len(self._free) and self._free[place] < row["sequence"]:
            number = self._free.pop(place)
        elif is_row:
            self.last = number = self.last + 1
        else:
            row["before"] = earlier["after"]
            return
        self._add(
            number, key=row["key"], subject=row["subject"], before=earlier["after"], after=row["before"]
        )

    def _add(
        self,
        number: int,
        *,
        key: int,
        subject: Subject,
        before: Any = None,
        after: Any = None,
        reference: str = _MADE,
    ) -> None:
        self._entries[number] = {
            "sequence": number, "batch": number, "at": None, "actor": _ACTOR,
            "operation": "rebuild", "note": "", "reference": reference,
            "key": key, "subject": subject, "before": before, "after": after,
        }  # fmt: skip

    # -- agreement among things ----------------------------------------------------------------------------

    def _agree(self) -> None:
        """Append changes for what follows from lost things: turns without their session, or after a gap.

        Of records with the same text, which a file of an earlier version may have, one stays.
        """
        latest = {self._entries[number]["key"]: self._entries[number] for number in sorted(self._entries)}
        values = {key: self._decode(row["subject"], row["after"]) for key, row in latest.items()}
        keys = {value.id: key for key, value in values.items() if isinstance(value, Record)}
        records = (value for value in values.values() if isinstance(value, Record))
        for change in base.find_merges(records, now=from_microseconds(self._at)):
            assert change.after is not None
            self._change(keys[change.id], change.before, change.after)
        sessions = {value.id for value in values.values() if isinstance(value, SessionState)}
        places: dict[str, list[tuple[Turn, int]]] = {}
        for key, value in values.items():
            if isinstance(value, Turn):
                places.setdefault(value.session, []).append((value, key))
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
        self.last += 1
        self._add(
            self.last,
            key=key,
            subject=get_subject(after),
            before=codec.encode_value(before),
            after=codec.encode_value(after),
        )

    def _iterate_rows(self) -> Iterator[base.CopiedRow]:
        """Yield the journal; an entry that was added has the time of the one before it."""
        at = next((row["at"] for _, row in sorted(self._entries.items()) if row["at"] is not None), self._at)
        for _, row in sorted(self._entries.items()):
            at = at if row["at"] is None else row["at"]
            value = self._decode(row["subject"], row["after"] or row["before"])
            thing = self._things.get(row["key"])
            name = value.id if value else thing.value.id if thing else self._gone.get(row["key"], "")
            yield base.CopiedRow(
                **{column: row[column] for column in base.CopiedRow._fields if column not in ("at", "id")},
                at=at,
                id=name,
            )


# -- a new file ----------------------------------------------------------------------------------------

_DRAFT = ".copying"
_PATIENCE_S = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (  # sessions before their turns
    "SELECT key, subject, after, max(sequence) FROM changes GROUP BY key ORDER BY subject <> 'session', key"
)


class SQLiteCopyTarget:
    """A store in a file that is being filled, under another name until it is complete.

    Args:
        path: The file that it will be; there must be none.

    Attributes:
        draft: The other name.

    Raises:
        InvalidInput: there is a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refuse_taken()
        self.draft = path.with_name(path.name + _DRAFT)
        self._open()
        tables = [table.name for table in codec.TABLES.values()]
        if any(self._connections.rows(f"SELECT 1 FROM {name} LIMIT 1") for name in tables):
            self.close()  # an earlier process had finished it, and then was killed or found a difference
            database_file.remove_file(self.draft)
            self._open()

    def _open(self) -> None:
        database_file.prepare(self.draft)
        self._connections = Connections(self.draft, patience=_PATIENCE_S)

    def write_rows(self, rows: Sequence[base.CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""
        with self._connections.writing() as file:
            for row in rows:
                file.execute(INSERT_CHANGE, row[:11])
                cited = codec.find_ids(row.after or "") - {row.id}
                file.executemany(CITE, [(name, row.key) for name in cited])
            removed = [(row.id, row.key) for row in rows if row.id and not row.after]
            file.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?)", removed)

    @base.translating_damage()
    def finish(self, rest: base.Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""
        with self._connections.writing() as file:
            changes = WriteTransaction(file)
            unchanged: list[tuple[int]] = []
            for key, subject, document, last in file.execute(_LATEST):
                if (value := codec.decode_value(subject, document)) is None:
                    continue
                made = prepare_change(Change(before=None, after=value))
                changes.insert(made, key)
                is_usual = document == codec.to_document(made.table, made.table.encode(value))
                if last == key and made.document == codec.IN_ROW and is_usual:
                    unchanged.append((key,))
            file.executemany(f"UPDATE journal SET after = '{codec.IN_ROW}' WHERE sequence = ?", unchanged)
            for table in codec.TABLES.values():
                file.execute(f"DELETE FROM gone WHERE key IN (SELECT key FROM {table.name})")
            for entry in rest.entries:
                changes.put_entry(entry)
            changes.write_beside(rest.tombstones, rest.cursors, rest.counters)
            changes.finish(actor="", at=_EPOCH, note={"operation": "rebuild"})

    def check(self) -> list[base.StoreProblem]:
        """Return all problems of the copy."""
        with self._connections.reading() as file:
            return find_problems(file)

    def publish(self) -> None:
        """Close the store and give its file its own name."""
        self._refuse_taken()
        self.close()
        os.rename(self.draft, self._path)

    def close(self) -> None:
        """Close the store, without giving it its name."""
        self._connections.close()

    def _refuse_taken(self) -> None:
        if self._path.exists():
            raise InvalidInput(
                f"there is a memory in {str(self._path.parent)!r} already: name another folder"
            )
