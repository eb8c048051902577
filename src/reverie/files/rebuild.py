"""Rebuilding of a lost database from the folder.

Records come back with all their fields, sessions with their turns, pages and logs with their text. What no
file holds is lost with the database: the journal, working memory, the sources of paragraphs. A file that
cannot be read is reported and left where it is.

The new database is made beside the old one, checked, and then put in its place. The old one is moved aside,
never deleted. A process that is killed leaves the old one where it was.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, StoreIncompatible, StoreUnavailable
from reverie.domain.living_page import split_page
from reverie.domain.page import MEMORY as MEMORY_PAGE
from reverie.domain.page import Paragraph, validate_paragraph
from reverie.domain.passage import Analyse
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock, from_microseconds
from reverie.domain.user_patterns import build_redactor
from reverie.files import parsing
from reverie.files.atomic import AtomicFolder, UnsafePath, rename_to_new
from reverie.files.expected import is_id
from reverie.files.hand_edits.intake import REBUILDER
from reverie.files.hand_edits.merge import build_placed_record
from reverie.files.layout import MEMORY, SESSIONS, FileLocation, build_path, parse_path
from reverie.files.parsing import BrokenFile, ParsedLine
from reverie.files.scan import BROKEN, scan
from reverie.files.state import FileState, StateUnavailable
from reverie.stores.protocol import Store
from reverie.stores.redacting import RedactingStore
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.database_file import find_free_name, make_folder, replace_file
from reverie.stores.sqlite.rewriting import salvage_marks
from reverie.stores.tombstones import KEY, drop_forgotten, is_forgotten, is_key

_INDEX = "index"
_BATCH = 500
_PATIENCE_S = 30.0

_T = TypeVar("_T")

Progress = Callable[[int, int], None]


@dataclass(slots=True, kw_only=True)
class RebuildReport:
    """Result of a rebuild.

    Attributes:
        records: Number of records, archived ones too.
        archived: Number of archived records.
        sessions: Number of sessions.
        turns: Number of turns.
        pages: Number of pages.
        paragraphs: Number of paragraphs of logs.
        broken: Files, or parts of them, that could not be imported, with the reason. They stay as they are.
        kept: The new place of the old database; None if there was none.
        notes: Further remarks for the user.
    """

    records: int = 0
    archived: int = 0
    sessions: int = 0
    turns: int = 0
    pages: int = 0
    paragraphs: int = 0
    broken: list[BrokenFile] = field(default_factory=list)
    kept: Path | None = None
    notes: list[str] = field(default_factory=list)


def rebuild(
    folder: Path,
    *,
    analyse: Analyse,
    clock: Clock = timestamps.utc_now,
    new_id: NewId = ids.generate_id,
    force: bool = False,
    redactor: Redactor | None = None,
    progress: Progress | None = None,
) -> RebuildReport:
    """Rebuild the database of a memory from its readable files.

    Args:
        folder: The memory's folder.
        analyse: Returns the tokens of a value, as for every store.
        clock: Returns the current time.
        new_id: Returns a new id, for values without one.
        force: Whether to replace a database that can be read. Its journal and working memory are not carried
            over.
        redactor: Finds secrets in the files; None for the built-in rules.
        progress: Receives the number of files done, and of all files.

    Returns:
        What was imported, and what was not.

    Raises:
        NotFound: there are no readable files.
        InvalidInput: there is a database that can be read, and `force` is False.
        StoreUnavailable: the disk fails, or others are using the database; nothing was changed.
        StoreIncompatible: the database is of a newer Reverie.
    """
    folder = folder.absolute()
    database = folder / DATABASE
    if not any((folder / top).is_dir() for top in (MEMORY, SESSIONS)):
        raise NotFound(
            f"there are no readable files in {str(folder)!r}: bring back a backup with `reverie recover`"
        )
    old = _open_database(database, analyse)
    scratch = folder / f".rebuilding-{secrets.token_hex(6)}"
    state = FileState(folder)
    try:
        if old is not None and not force:
            raise InvalidInput(
                f"{str(database)!r} can be read: run `reverie doctor --fix` to repair it; pass "
                "force=True (--force) to make a new one all the same, without the history"
            )
        with state.lock(_PATIENCE_S) as ledger:
            for left in folder.glob(".rebuilding-*"):  # by a killed process: a live one has the lock
                shutil.rmtree(left, ignore_errors=True)
            make_folder(scratch)
            draft = scratch / DATABASE
            with closing(SQLiteStore(draft, analyse=analyse)) as store:
                redacting = RedactingStore(
                    store, redactor if redactor is not None else build_redactor(True, ())
                )
                run = _Rebuild(folder, redacting, old, clock=clock, new_id=new_id)
                run.carry_over_marks(database)
                run.take(progress or (lambda done, total: None))
                if problems := store.check():
                    raise StoreCorrupt(f"the new database is not sound ({problems[0].what}): report this")
            if old is not None:
                old.close()
            run.rebuilt.kept = _put_in_place(draft, database)
            shutil.rmtree(
                folder / _INDEX, ignore_errors=True
            )  # derived; one that stays is recognised as that of another store
            ledger.clear()
        return run.rebuilt
    except StateUnavailable as error:
        raise StoreUnavailable(f"others are at the files of {str(folder)!r}: try again ({error})") from error
    finally:
        state.close()
        if old is not None:
            old.close()
        shutil.rmtree(scratch, ignore_errors=True)


def _open_database(database: Path, analyse: Analyse) -> SQLiteStore | None:
    """Open the present database, if it can be read; raise `StoreUnavailable` if that is uncertain."""
    if not database.exists():
        return None
    try:
        store = SQLiteStore(database, analyse=analyse, create=False)
    except StoreIncompatible as error:
        if "newer" in str(error):
            raise
        return None
    except StoreCorrupt:
        return None
    try:
        store.sequence()
    except StoreCorrupt:
        store.close()
        return None
    return store


def _put_in_place(draft: Path, database: Path) -> Path | None:
    """Give the new database its name; return the new place of the old one."""
    old_database = find_free_name(database)
    if database.exists():
        replace_file(database, lambda _: draft, kept=old_database)
        return old_database
    left = False
    for ending in ("-wal", "-shm", "-journal"):  # SQLite would apply them to the new database
        companion = database.with_name(database.name + ending)
        if companion.exists():
            os.rename(companion, old_database.with_name(old_database.name + ending))
            left = True
    try:
        rename_to_new(os.fspath(draft), os.fspath(database))
    except FileExistsError:
        raise StoreUnavailable(
            f"{str(database)!r} was made by somebody else meanwhile: close what uses the folder, and look"
        ) from None
    return old_database.with_name(f"{old_database.name}-wal") if left else None


class _Rebuild:
    """One rebuild in progress."""

    def __init__(self, folder: Path, store: Store, old: Store | None, *, clock: Clock, new_id: NewId) -> None:
        self.rebuilt = RebuildReport()
        self._folder = folder
        self._store = store
        self._marked: Store = old if old is not None else store
        self._has_marks = False
        self._disk = AtomicFolder(folder)
        self._now = clock()
        self._new_id = new_id
        self._places: dict[str, tuple[str, int]] = {}
        self._ids_by_words: dict[tuple[str, str], str] = {}
        self._sessions: dict[str, str] = {}
        self._turns: set[str] = set()
        self._misplaced: list[tuple[str, Record, int]] = []
        self._pending: list[Value] = []

    def carry_over_marks(self, database: Path) -> None:
        """Carry over the marks of erased text, as far as the old database can be read."""
        if not database.exists():
            return
        marks = salvage_marks(database, KEY)
        self._has_marks = is_key(marks.cursor)
        if self._has_marks:
            self._store.commit([], actor=REBUILDER, at=self._now, cursors={KEY: marks.cursor})
        if marks.tombstones:
            self._store.erase([], actor=REBUILDER, at=self._now, tombstones=marks.tombstones)
        if not marks.complete or (marks.tombstones and not self._has_marks):
            self.rebuilt.notes.append(
                "the old database does not tell what was forgotten: look whether anything of that is back"
            )

    def take(self, progress: Progress) -> None:
        """Import every file."""
        found = scan(self._folder, {})
        self.rebuilt.broken += found.odd
        total = len(found.added)
        for number, path in enumerate(found.added, 1):
            self._take_file(path)
            progress(number, total)
        self._flush()
        for path, record, mtime_ns in self._misplaced:
            self._add_record(path, record, mtime_ns, proper=False)
            self._flush(path)  # the import recognises the file by it

    def _take_file(self, path: str) -> None:
        place = parse_path(path)
        assert place is not None
        try:
            if (found := self._disk.read(path)) is None:
                return
            data, seen = found
            match place.form:
                case "record":
                    self._take_record(path, place, data, seen.mtime_ns)
                case "lines":
                    self._take_lines(path, place, data, seen.mtime_ns)
                case "page":
                    self._take_page(path, place, data, seen.mtime_ns)
                case "log":
                    self._take_log(path, place, data, seen.mtime_ns)
                case "session":
                    self._take_session(path, data)
        except InvalidInput as error:
            self._record_broken(path, str(error))
        except (OSError, UnsafePath) as error:
            self._record_broken(path, f"it cannot be read ({error})")

    # -- records -----------------------------------------------------------------------------------------

    def _take_record(self, path: str, place: FileLocation, data: bytes, mtime_ns: int) -> None:
        fields = parsing.read_record(path, data)
        name = fields.get("id") or (place.name if is_id(place.name) else None) or self._new_id()
        record = build_placed_record(fields, id=name, base=None, path=path, now=self._now)
        if build_path(record) == path and "id" in fields:
            self._add_record(path, record, mtime_ns, proper=True)
        else:
            self._misplaced.append((path, record, mtime_ns))

    def _take_lines(self, path: str, place: FileLocation, data: bytes, mtime_ns: int) -> None:
        for row in parsing.read_rows(path, data):
            try:
                parsing.check_row(row)
                fields = parsing.read_row(row, place)
                name = row.line.id or self._new_id()
                record = parsing.build_record(fields, id=name, base=None, place=place, now=self._now)
            except InvalidInput as error:
                self._record_broken(path, f"{error}; the other lines were taken")
                continue
            if place.archived and not record.archived:
                record = replace(record, archived_at=self._now)
            if row.line.id and row.line.details:
                self._add_record(path, record, mtime_ns, proper=True)
            else:
                self._misplaced.append((path, record, mtime_ns))

    def _add_record(self, path: str, record: Record, mtime_ns: int, *, proper: bool) -> None:
        """Add a record. Of two files at their proper places, the one saved last counts."""
        other = self._places.get(record.id)
        if other is not None and (not proper or other[1] >= mtime_ns):
            return self._record_broken(
                path, f"the id {record.id!r} is that of {other[0]!r} too, which was taken"
            )
        words = (record.scope, record.fingerprint)
        twin = record.id if record.archived else self._ids_by_words.get(words, record.id)
        if twin != record.id:
            return self._record_broken(path, f"it says the same as the record {twin!r}, which was taken")
        if self._is_forgotten(record):
            return self._record_broken(path, f"the record {record.id!r} was forgotten on request")
        if other is not None:
            self._take_back(record.id)
            self._record_broken(other[0], f"the id {record.id!r} is that of {path!r} too, which was taken")
        self._places[record.id] = (path, mtime_ns)
        if not record.archived:
            self._ids_by_words[words] = record.id
        self.rebuilt.records += 1
        self.rebuilt.archived += record.archived
        self._add(record)
        return None

    def _take_back(self, name: str) -> None:
        self._flush()
        (record,) = self._store.records([name])
        edits = [Change(before=record, after=None)]
        self._store.commit(edits, actor=REBUILDER, operation="rebuild", at=self._now)
        if not record.archived:
            del self._ids_by_words[record.scope, record.fingerprint]
        self.rebuilt.records -= 1
        self.rebuilt.archived -= record.archived

    # -- pages, logs, sessions ---------------------------------------------------------------------------

    def _take_page(self, path: str, place: FileLocation, data: bytes, mtime_ns: int) -> None:
        text = parsing.read_page(path, data)
        if place.name == MEMORY_PAGE:
            text = split_page(text).outside  # its block is composed of records, which have files of their own
        page = parsing.build_page(place.name, text, now=from_microseconds(mtime_ns // 1000))
        after = self._ask_marked(lambda store: drop_forgotten(store, page))
        if after != page:
            self._record_broken(path, "some of its lines were forgotten on request; the others were taken")
        self.rebuilt.pages += 1
        self._add(after)

    def _take_log(self, path: str, place: FileLocation, data: bytes, mtime_ns: int) -> None:
        texts = parsing.read_log(path, data)
        repeated: Counter[str] = Counter()
        moment = from_microseconds(mtime_ns // 1000)
        for number, text in enumerate(texts, 1):
            repeated[text] += 1
            paragraph = Paragraph(
                id=_derive_id(place.name, text, repeated[text]),
                page=place.name,
                position=float(number),
                at=parsing.parse_moment(place.name, text, otherwise=moment),
                content=text,
            )
            if self._is_forgotten(validate_paragraph(paragraph)):
                self._record_broken(path, f"paragraph {number} was forgotten on request")
                continue
            self.rebuilt.paragraphs += 1
            self._add(paragraph)

    def _take_session(self, path: str, data: bytes) -> None:
        first, *others = parsing.read_lines(path, data)
        state = parsing.build_session_state(first.fields or {}, path=path, now=self._now)
        if (other := self._sessions.get(state.id)) is not None:
            raise InvalidInput(f"the session {state.id!r} is that of {other!r} too, which was taken")
        turns: list[Turn] = []
        bad = [first.why] if first.why else []
        for line in others:
            try:
                turns.append(self._build_turn(line, state, position=len(turns)))
            except InvalidInput as error:
                bad.append(str(error))
        if others and not turns:
            raise InvalidInput(bad[0])
        if bad:
            copy = self._disk.keep_beside(path, BROKEN, data)  # the file itself is written from now on
            self._record_broken(path, f"{'; '.join(bad)}: the other lines were taken, see {copy!r}")
        self._sessions[state.id] = path
        self._turns.update(turn.id for turn in turns)
        self.rebuilt.sessions += 1
        self.rebuilt.turns += len(turns)
        self._add(state)
        for turn in turns:
            self._add(turn)

    def _build_turn(self, line: ParsedLine, state: SessionState, *, position: int) -> Turn:
        if line.fields is None:
            raise InvalidInput(line.why)
        name = ids.validate_id(line.fields.get("id") or self._new_id())
        if name in self._turns:
            raise InvalidInput(f"line {line.number}: the id {name!r} is that of a turn of another session")
        turn = parsing.build_turn(line, id=name, state=state, position=position, now=self._now)
        if self._is_forgotten(turn):
            raise InvalidInput(f"line {line.number}: it was forgotten on request: put [forgotten] there")
        return turn

    # -- for all forms -----------------------------------------------------------------------------------

    def _is_forgotten(self, value: Record | Turn | Paragraph) -> bool:
        return self._has_marks and bool(self._ask_marked(lambda store: is_forgotten(store, [value])))

    def _ask_marked(self, ask: Callable[[Store], _T]) -> _T:
        """Return what the old database tells of erased text, or the carried marks if it cannot be read.

        Only the old one knows which erased text its owner has saved again.
        """
        try:
            return ask(self._marked)
        except StoreCorrupt:
            self._marked = self._store
            return ask(self._store)

    def _record_broken(self, path: str, why: str) -> None:
        self.rebuilt.broken.append(BrokenFile(path=path, why=why))

    def _add(self, value: Value) -> None:
        self._pending.append(value)
        if len(self._pending) >= _BATCH:
            self._flush()

    def _flush(self, path: str = "") -> None:
        edits = [Change(before=None, after=value) for value in self._pending]
        self._pending.clear()
        if edits:
            self._store.commit(edits, actor=REBUILDER, operation="rebuild", note=path, at=self._now)


def _derive_id(page: str, text: str, which: int) -> str:
    """Return an id for a paragraph, always the same for the same files."""
    return hashlib.sha256(f"{page}\0{which}\0{text}".encode()).hexdigest()[:12]
