"""Database of analyses, packed passages and counters, which follows the journal of a store.

It is derived: it can be deleted at any time and is filled again. So it is written without waiting for the disk, and a
save does not touch it. Whoever searches first analyses the changes since, in one transaction for all processes. Where
the disk refuses it, it is in memory.

It also has a second copy of each value, compressed, because SQLite's journal does not repeat what was created. A repair
makes lost rows from these. A memory in PostgreSQL has its derived database on each machine that searches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reverie.domain.conversation import Turn
from reverie.domain.errors import StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.page import Paragraph
from reverie.domain.passage import (
    SEARCHABLE,
    Analyse,
    CollectionStats,
    Passage,
    Searchable,
    get_scope,
    get_searchable_kind,
)
from reverie.domain.record import Record
from reverie.domain.text.ids import is_id
from reverie.domain.text.timestamps import from_microseconds
from reverie.stores.base import build_placeholders
from reverie.stores.codec import Row
from reverie.stores.forks import close_for_forks, using_connections
from reverie.stores.sqlite.connections import get_file_identity, keep_for_ever, open_connection
from reverie.stores.sqlite.database_file import find_passages, make_folder, remove_file
from reverie.stores.sqlite.reading import CORRUPT, SQLiteConditions, build_uri, pad_values
from reverie.stores.sqlite.scrubbing import enter_file, leave_file, scrub_file

if TYPE_CHECKING:
    from reverie.stores.protocol import Store

# Version of the tables and of the analyzer; a file of another one is made again.
_FORMAT = 7

_BATCH = 1_000
_PATIENCE_S = 10.0
_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # a commit waits for no disk; after a power failure the last ones are made again
    "secure_delete = ON",
    "cache_size = -4096",
    "temp_store = MEMORY",
)
# Text that documents resemble, so that short ones are compressed too. A part of the format.
_USUAL = (
    ' the is of and in to for on with a {"id":"","session":"chat:","role":"assistant","role":"user","speaker":"",'
    '"page":"HISTORY.md","layer":"episodic","layer":"procedural","origin":"agent","about":"owner"'
)

_START = '{"id":"'
_END = len(_START) + 12  # of the id of a document

_COLUMNS = "key, terms, length, thread, position, voice, at, cues, dates"
_ALL = f"{_COLUMNS}, importance, confidence, kind, pinned, expires_at"
_NUMBER = "(SELECT number FROM name WHERE text = ?)"
_INSERT = (
    f"INSERT INTO passage VALUES ({'?, ' * 9}nullif(?, 0.5), nullif(?, 0.8), nullif(?, 'fact'), ?, ?, ?, "
    f"{_NUMBER}, {_NUMBER}, ?)"
)
_MEASURE = (
    "INSERT INTO measure VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "passages = passages + excluded.passages, tokens = tokens + excluded.tokens"
)
_COUNT = _MEASURE.replace("measure VALUES (?, ?, ?, ?, ?)", f"category VALUES ({_NUMBER}, {_NUMBER}, ?, ?)")
_REMOVE_UNUSED = (
    "DELETE FROM measure WHERE passages = 0",
    "DELETE FROM category WHERE passages = 0",
    "DELETE FROM name WHERE '=' || text NOT IN (SELECT area FROM measure) "
    "AND number NOT IN (SELECT name FROM category)",
)


# The other fields of every turn, which are not read: a search reads hundreds of turns.
_TURN_REST = Passage(0, "", 0, kind="turn")[len(_COLUMNS.split(", ")) :]

_NEIGHBORS = (
    f"SELECT {_COLUMNS} FROM passage WHERE key IN (SELECT near.key FROM passage AS hit CROSS JOIN passage AS near "
    "ON near.thread = hit.thread AND near.position BETWEEN hit.position - ? AND hit.position + ? "
    "WHERE hit.thread IS NOT NULL AND hit.key IN ({}))"
)
_KEYS = 1_024  # in one statement

T = TypeVar("T")

_Value = Record | Turn | Paragraph
AnalyzedValue = tuple[Passage, _Value]
Changes = dict[Searchable, tuple[list[int], list[AnalyzedValue]]]
"""The keys of changed passages, and those that are live now with their values."""


class DerivedDatabase:
    """Passages and counters of one store. Safe to use from several threads, several processes, and across forks.

    It does not refer to the store, so that no circle of references keeps one that nobody uses.

    Args:
        path: The file; None for memory. It is made when it is first used.
        analyse: The analyzer.
        is_kept: Whether the file may be written; otherwise its content is read into memory once.
    """

    def __init__(self, path: Path | None, *, analyse: Analyse, is_kept: bool = True) -> None:
        self._path = path
        self._analyse = analyse
        self._is_kept = is_kept and path is not None
        self._lock = threading.RLock()
        self._file: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._followed = -1
        self._measures: dict[str, list[Row]] = {}  # by area, as of `_followed`
        self._analyzed: dict[int, AnalyzedValue | None] = {}  # None for a value that is not searched
        close_for_forks(self)
        enter_file(path or "", self)

    # -- following -----------------------------------------------------------------------------------------

    def _catch_up(self, file: sqlite3.Connection, store: Store, sequence: int) -> None:
        followed, mark = _read_followed(file)
        if self._followed < 0 and followed and store.read_mark(followed) != mark:
            with file:  # these are of another store, or of another history of this one
                file.execute("BEGIN IMMEDIATE")
                for table in ("passage", "measure", "category", "name", "followed"):
                    file.execute(f"DELETE FROM {table}")
            followed = 0
        while followed < sequence:
            with file:
                file.execute("BEGIN IMMEDIATE")
                followed, _ = _read_followed(file)  # another process may have been faster
                if followed < sequence:  # the journal of a snapshot ends before its last change
                    followed = self._follow_batch(file, store, followed, sequence) or sequence
        self._followed, self._measures = followed, {}

    def _follow_batch(self, file: sqlite3.Connection, store: Store, followed: int, until: int) -> int:
        """Analyse the values that the next entries of the journal have changed; return the number of the last, or 0."""
        if not (entries := store.read_changed_keys(followed, min(_BATCH, until - followed))):
            return 0
        last: int = entries[-1][0]
        counts: dict[tuple[str, ...], list[int]] = {}
        self._analyzed = {}
        for subject, keys in _group_keys(entries):
            self._write(file, store, subject, keys, counts)
        changed = [(*place, *numbers) for place, numbers in counts.items() if any(numbers)]
        for sql in (_MEASURE, _COUNT):
            file.executemany(sql, [row for to, *row in changed if to == sql])
        if any(passages < 0 for passages, _ in counts.values()):
            for statement in _REMOVE_UNUSED:
                file.execute(statement)
        file.execute("DELETE FROM followed")
        file.execute("INSERT INTO followed VALUES (?, ?)", (last, store.read_mark(last)))
        return last

    def _write(
        self,
        file: sqlite3.Connection,
        store: Store,
        subject: Searchable,
        keys: Sequence[int],
        counts: dict[tuple[str, ...], list[int]],
    ) -> None:
        """Write the present passages of some keys, and note the difference for the counters."""

        def count(scope: str, category: str | None, voice: str, length: int, sign: int) -> None:
            places = [(_MEASURE, subject, f"={scope}", voice), (_MEASURE, subject, "*", voice)]
            for place in places if category is None else (*places, (_COUNT, category, scope)):
                counter = counts.setdefault(place, [0, 0])
                counter[0] += sign
                counter[1] += sign * length

        where = f"key IN ({build_placeholders(len(keys))})"
        sql = f"SELECT key, scope, category, voice, length FROM whole WHERE {where}"
        removed = file.execute(sql, keys).fetchall()
        for _, scope, category, voice, length in removed:
            count(scope, category, voice, length, -1)
        file.executemany("DELETE FROM passage WHERE key = ?", [row[:1] for row in removed])
        rows = []
        self._analyzed |= dict.fromkeys(keys)
        searched = store.read_searched(subject, keys)
        endings = self._name(file, [value for _, value, *_ in searched])
        for key, value, thread, document in searched:
            passage = _build_passage(key, value, thread, self._analyse)
            self._analyzed[key] = (passage, value)
            scope, category = get_scope(value), value.category if isinstance(value, Record) else None
            beside = (passage.position, passage.speaker, passage.at, passage.kind, scope, category)
            copy = _pack(document, _predict(passage.terms, *beside))
            short = passage.terms.removesuffix(endings.get(category, ""))
            terms = passage.terms if short.endswith(" ") else short
            rest = (SEARCHABLE.index(subject), scope, category, copy)
            rows.append((key, terms or passage.terms, *passage[2:], *rest))
            count(scope, category, passage.speaker, passage.length, 1)
        file.executemany(_INSERT, rows)

    def _name(self, file: sqlite3.Connection, values: Sequence[_Value]) -> dict[str | None, str]:
        """Give the scopes and categories of values numbers; return the words of each as a category."""
        names = {get_scope(value) for value in values}
        names |= {value.category for value in values if isinstance(value, Record) and value.category}
        sql = f"SELECT text, words FROM name WHERE text IN ({build_placeholders(len(names))})"
        known: dict[str | None, str] = dict(file.execute(sql, [*names]))
        new = {name: self._analyse(_build_empty_record(name)).terms for name in names.difference(known)}
        file.executemany("INSERT INTO name (text, words) VALUES (?, ?)", new.items())
        return known | new

    # -- reading -------------------------------------------------------------------------------------------

    def read_passages(
        self, store: Store, subject: Searchable, keys: Sequence[int], around: int = 0
    ) -> list[Passage]:
        """Return passages by key, of turns also their neighbours up to a distance, none twice."""
        found: dict[int, Passage] = {}
        for start in range(0, len(keys), _KEYS):
            some = pad_values(keys[start : start + _KEYS])
            if around and subject == "turn":
                rows = self._read(
                    store, _NEIGHBORS.format(build_placeholders(len(some))), (around, around, *some)
                )
                found |= {row[0]: tuple.__new__(Passage, row + _TURN_REST) for row in rows}
            else:
                marks = build_placeholders(len(some))
                sql = f"SELECT {_ALL} FROM whole WHERE subject = ? AND key IN ({marks})"
                rows = self._read(store, sql, (SEARCHABLE.index(subject), *some))
                # In a third of the time of `_make`.
                found |= {row[0]: tuple.__new__(Passage, row) for row in rows}
        return list(found.values())

    def read_changes(self, store: Store, after: int) -> tuple[int, Changes] | None:
        """Return what the next entries of the journal changed, without reading it again after analysing it."""
        if not (entries := store.read_changed_keys(after, _BATCH)):
            return None
        last: int = entries[-1][0]
        analyzed = self._use(store, lambda _: self._analyzed, until=last)
        changes: Changes = {}
        for subject, keys in _group_keys(entries):
            if not analyzed.keys() >= set(keys):
                values = {key: value for key, value, *_ in store.read_searched(subject, keys)}
                passages = self.read_passages(store, subject, list(values))
                analyzed = {each.key: (each, values[each.key]) for each in passages}
            changes[subject] = keys, [found for key in keys if (found := analyzed.get(key))]
        return last, changes

    def measure(
        self, store: Store, subject: Searchable, scopes: Sequence[str] | None, category: str | None
    ) -> CollectionStats:
        """Count the passages and tokens of some scopes, or the records of a category there."""
        if category is not None:
            if subject != "record":
                return CollectionStats(passages=0, tokens=0)
            where = SQLiteConditions()
            allowed = None if scopes is None else tuple(scopes)
            where.add_record_filter(Filter(scopes=allowed, categories=(category,), archived=None))
            sql = f"SELECT total(passages), total(tokens) FROM counted AS it WHERE {where}"
            ((passages, tokens),) = self._read(store, sql, where.values)
            return CollectionStats(passages=int(passages), tokens=int(tokens))
        areas = ["*"] if scopes is None else [f"={scope}" for scope in dict.fromkeys(scopes)]
        known = self._use(store, lambda file: self._read_measures(file, areas))
        counted = [row for area in areas for row in known[area] if row[0] == subject]
        return CollectionStats(
            passages=sum(row[2] for row in counted),
            tokens=sum(row[3] for row in counted),
            speakers=frozenset(row[1] for row in counted if row[1]),
        )

    def _read_measures(self, file: sqlite3.Connection, areas: Sequence[str]) -> dict[str, list[Row]]:
        """Return subject, voice, passages and tokens of the counters of areas, read once for each state."""
        known = self._measures
        for area in areas:
            if area not in known:
                sql = "SELECT subject, voice, passages, tokens FROM measure WHERE area = ?"
                known[area] = file.execute(sql, (area,)).fetchall()
        return known

    def _read(self, store: Store, sql: str, values: Sequence[Any]) -> list[Row]:
        return self._use(store, lambda file: file.execute(sql, values).fetchall())

    # -- the file ------------------------------------------------------------------------------------------

    def scrub(self, store: Store) -> bool:
        """Overwrite erased words in the file; return False if others prevented that."""
        with using_connections(), self._lock:
            if self._path is None or not self._path.exists():
                return True
            self._followed = -1  # what was removed and made again meanwhile is another file
            try:
                self._use(store, _read_followed)
                if self._is_kept and self._file is not None:
                    return scrub_file(self._file, self._path, self._identity, _PATIENCE_S)
            except (sqlite3.Error, StoreUnavailable):
                return False
            self._remove()
            return not self._path.exists()

    def clear(self) -> None:
        """Remove everything, so that it is analysed again."""
        with self._lock:
            self._close()
            if self._is_kept:
                self._remove()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()
            leave_file(self._path or "", self)

    def _use(self, store: Store, work: Callable[[sqlite3.Connection], T], *, until: int | None = None) -> T:
        """Return the result of work on the file, after all changes that this thread sees (or some) were analysed.

        A file that was removed or is damaged is made again. Where the disk refuses it, its content is in memory.
        """
        sequence = store.sequence() if until is None else until
        with using_connections(), self._lock:
            while True:
                try:
                    is_kept = self._is_kept and self._path is not None and self._followed != sequence
                    if is_kept and get_file_identity(self._path or "") != self._identity:
                        self._close()  # it was removed, or made again by another process
                    if self._file is None:
                        self._file = self._open()
                    self._analyzed = {}  # what was erased since must not be found in it
                    if self._followed != sequence:
                        self._catch_up(self._file, store, sequence)
                    return work(self._file)
                except (sqlite3.DatabaseError, OSError) as error:
                    self._handle_error(error)

    def _handle_error(self, error: sqlite3.DatabaseError | OSError) -> None:
        """Prepare for another attempt: with a new file after damage, in memory if the disk refuses."""
        self._close()
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreUnavailable(
                f"{str(self._path)!r}: another process has been writing for too long: retry"
            ) from error
        if not self._is_kept:
            raise StoreUnavailable(f"the words of searches cannot be held in memory: {error}") from error
        if code in CORRUPT and not isinstance(error, OSError):
            _log.warning("the words of searches are made again: %s", error)
            self._remove()
            if self._path is None or not self._path.exists():
                return
        _log.warning("the words of searches cannot be kept on disk and are held in memory: %s", error)
        self._is_kept = False

    def _remove(self) -> None:
        if self._path is not None:
            remove_file(self._path)

    def _open(self) -> sqlite3.Connection:
        self._followed = -1
        if not self._is_kept or self._path is None:
            return self._open_in_memory()
        make_folder(self._path.parent)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        file = open_connection(build_uri(self._path, "mode=rw"), patience=_PATIENCE_S)
        try:
            if file.execute("PRAGMA user_version").fetchone()[0] not in (0, _FORMAT):
                raise sqlite3.DatabaseError("it is of another version")
            _prepare(file)
        except sqlite3.Error:
            file.close()
            raise
        self._identity = get_file_identity(self._path)
        return file

    def _open_in_memory(self) -> sqlite3.Connection:
        file = open_connection(":memory:")
        if self._path is not None and self._path.exists():
            uri = build_uri(self._path, "mode=ro&immutable=1")
            with contextlib.suppress(sqlite3.Error), contextlib.closing(open_connection(uri)) as kept:
                if kept.execute("PRAGMA user_version").fetchone()[0] == _FORMAT:
                    kept.backup(file)
        _prepare(file)
        return file

    def _close(self) -> None:
        self._followed = -1
        if self._file is not None:
            self._file.close()
            self._file = None

    __del__ = _close  # a connection of `sqlite3` waits for the collector of circles otherwise

    # -- forks: see `reverie.stores.forks` ------------------------------------------------------------------

    def close_for_fork(self) -> None:
        """Close the file."""
        if self._is_kept:
            self._close()

    def reset_after_fork(self, is_clean: bool) -> None:
        """Use a new lock in a child, and go on in memory if the parent was using the file."""
        self._lock = threading.RLock()
        if self._file is not None and self._is_kept:
            keep_for_ever(self._file)
            self._file, self._is_kept = None, False


_log = logging.getLogger("reverie")


def _prepare(file: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        file.execute(f"PRAGMA {pragma}").close()
    if file.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:  # which is set last
        for statement in Path(__file__).with_name("derived.sql").read_text("utf-8").split(";\n"):
            file.execute(statement)
        file.execute(f"PRAGMA user_version = {_FORMAT}")


def _predict(
    terms: str, position: int, voice: str, at: float, kind: str, scope: str, category: str | None
) -> bytes:
    """Return what a document resembles: the usual columns, those that are stored beside it, and its words."""
    moment, named = round(at * 1_000_000), f',"kind":"{kind}"' if kind != "fact" else ""
    text = (
        f'{_USUAL},"position":{position},"at":{moment},"speaker":"{voice}",'
        f'"scope":"{scope}"{named},"category":"{category}","created_at":{moment},"content":"{terms}'
    )
    return text.encode("utf-8", "surrogatepass")


def _pack(document: str, expected: bytes) -> bytes:
    """Return a document compressed, behind its id as bytes, or as whole if it has none."""
    name, start = document[len(_START) : _END], _END
    if not is_id(name):
        name, start = "0" * 12, 0
    packer = zlib.compressobj(6, wbits=-12, memLevel=5, zdict=expected)
    body = packer.compress(document[start:].encode("utf-8", "surrogatepass"))
    return bytes.fromhex(name) + body + packer.flush()


def _unpack(packed: bytes, expected: bytes) -> str:
    unpacker = zlib.decompressobj(wbits=-12, zdict=expected)
    text = unpacker.decompress(packed[6:]).decode("utf-8", "surrogatepass")
    return text if text.startswith(_START[:1]) else f"{_START}{packed[:6].hex()}{text}"


def read_copies(folder: Path) -> tuple[int, str, dict[int, str]]:
    """Return the copies of values in the file that belongs to the store of a memory's folder.

    Returns:
        The number and the mark of the last entry that it followed, and the documents by key. Nothing if the file is
        missing, damaged or of another version.
    """
    path = find_passages(folder)
    if not path.exists():
        return 0, "", {}
    try:
        with contextlib.closing(open_connection(build_uri(path, "mode=ro"))) as file:
            if file.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
                return 0, "", {}
            followed, mark = _read_followed(file)
            sql = "SELECT key, copy, terms, position, voice, at, kind, scope, category FROM whole"
            copies = {key: _unpack(copy, _predict(*row)) for key, copy, *row in file.execute(sql)}
            return followed, mark, copies
    except (sqlite3.Error, zlib.error, UnicodeDecodeError) as error:
        _log.warning("the copies of values in %r cannot be read: %s", str(path), error)
        return 0, "", {}


def _read_followed(file: sqlite3.Connection) -> tuple[int, str]:
    found = file.execute("SELECT sequence, mark FROM followed").fetchone()
    return (found[0], found[1]) if found else (0, "")


def _group_keys(entries: Sequence[Row]) -> list[tuple[Searchable, list[int]]]:
    """Return for each kind of searched values the keys in entries of `Store.read_changed_keys`, none twice."""
    changed = {each: dict.fromkeys(key for _, kind, key in entries if kind == each) for each in SEARCHABLE}
    return [(subject, list(keys)) for subject, keys in changed.items() if keys]


def _build_empty_record(category: str) -> Record:
    at = from_microseconds(0)
    return Record(id="", content="", category=category, created_at=at, updated_at=at, last_seen_at=at)


def _build_passage(key: int, value: _Value, thread: int | None, analyse: Analyse) -> Passage:
    terms, length, speaker, cues, dates = analyse(value)
    if isinstance(value, Record):
        expires_at = value.expires_at.timestamp() if value.expires_at else None
        rest = (value.importance, value.confidence, value.kind, value.pinned, expires_at)
        return Passage(key, terms, length, None, 0, speaker, value.created_at.timestamp(), cues, dates, *rest)
    position = value.position if isinstance(value, Turn) else 0
    at, kind = value.at.timestamp(), get_searchable_kind(value)
    return Passage(key, terms, length, thread, position, speaker, at, cues, dates, kind=kind)
