"""What becomes of all the files that are not as we know them? One run, inside the lock of the files' state.

Each file is read, compared with what the store and the journal know, decided upon (`deciding`) and committed
by itself; a record's files are looked at together, because it may have been moved or copied from one to
another. What is noted for later is the work of `handedits`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from reverie.domain.change import Change, JournalEntry, Subject, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt
from reverie.domain.page import Page
from reverie.domain.record import Record
from reverie.domain.text import ids
from reverie.domain.text.timestamps import from_microseconds
from reverie.files import parsing
from reverie.files.disk.atomic import AtomicFolder, FileStamp, UnsafePath
from reverie.files.disk.state import FileRecord, LockedFileState, compute_checksum
from reverie.files.expected import ExpectedContent, is_earlier_version, render_expected_content
from reverie.files.hand_edits import base_versions
from reverie.files.hand_edits.base_versions import ACTOR
from reverie.files.hand_edits.merge import MergeConflict, MergeDecision
from reverie.files.hand_edits.redaction import redact_file
from reverie.files.layout import (
    FileLocation,
    build_path,
    parse_path,
    parse_recovered_path,
    render_page,
    render_record,
)
from reverie.files.names import build_file_name
from reverie.files.parsing import BrokenFile
from reverie.files.scan import CONFLICT
from reverie.stores.redacting import get_redactor
from reverie.stores.tombstones import is_forgotten
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

REBUILDER = "rebuild"
"""Who the journal names for what was taken from the files of a lost database."""

DELETED = "file deleted by hand"
"""The reason of an archived record whose file a person deleted."""

PROBLEM = "problem:"
"""How the names of notes begin that say what is wrong with a file."""

FORGOTTEN = "it holds what was forgotten on request: take that out, or delete the file"

_ATTEMPTS = 20
_CHUNK = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandEdit:
    """One thing that a person changed in a file, as it entered the store.

    Attributes:
        path: The file.
        subject: Which kind of thing it is.
        id: Its id.
        what: `added`, `changed`, `moved` (to another category), `archived`, `restored` or `removed`; `kept`,
            where a file was deleted that is written again.
    """

    path: str
    subject: Subject
    id: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} {self.subject} {self.id}: {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that is not as we know it, as it was read.

    Attributes:
        path: Where it counts as standing; for a recovered file the path that it is an edit of.
        place: What that path says.
        data: Its bytes.
        seen: How it was when they were read.
        written: As the file was before the person edited it; None for one that we did not know.
        at: Where it really stands.
        sum: The checksum of the file as it is on disk: `data` has no secrets, and the file may.
    """

    path: str
    place: FileLocation
    data: bytes
    seen: FileStamp
    written: FileRecord | None
    at: str
    sum: int


class CannotImport(Exception):
    """The file cannot be taken in; the words say why. Internal: it becomes a problem."""


class HandEditRun:
    """One run over what a sweep has found.

    Attributes:
        taken: What entered the store.
        problems: What could not, by path.
        conflicts: The conflict files written, with what each is about.
        lost: Whether so much was missing that the folder counts as lost.
        due: Whether files are to be written.
    """

    def __init__(
        self,
        writer: StoreWriter,
        ledger: LockedFileState,
        disk: AtomicFolder,
    ) -> None:
        """Prepare to import files; the caller holds the lock of `ledger`."""
        self.taken: list[HandEdit] = []
        self.problems: dict[str, BrokenFile] = {}
        self.conflicts: dict[str, dict[str, Any]] = {}
        self.lost = False
        self.due = False
        self.store = writer.store
        self.ledger = ledger
        self.disk = disk
        self.new_id = writer.new_id
        self.now = writer.clock()
        self._writer = writer.acting(ACTOR)

    # -- reading -----------------------------------------------------------------------------------------

    def find_strangers(self, paths: Sequence[str]) -> Iterator[ChangedFile]:
        """The files of these paths that say neither what the store says nor what they said when written."""
        for start in range(0, len(paths), _CHUNK):
            chunk = [each for path in paths[start : start + _CHUNK] if (each := self._read(path, path, None))]
            expected = self._render_expected_records(chunk)
            for stranger in chunk:
                written = FileRecord(stranger.path, stranger.seen.size, stranger.seen.mtime_ns, stranger.sum)
                old = stranger.written
                if old is not None and (old.size, old.checksum) == (written.size, written.checksum):
                    self.ledger.put([old._replace(mtime_ns=written.mtime_ns)])
                elif (
                    stranger.sum
                    == compute_checksum(stranger.data)  # else it says more than we may leave standing
                    and (content := self._render_expected(stranger, expected))
                    and content.data == stranger.data
                ):
                    self.ledger.put([written._replace(pieces=content.pieces)])
                else:
                    yield stranger

    def _read(self, path: str, at: str, written: FileRecord | None) -> ChangedFile | None:
        place = parse_path(path)
        assert place is not None
        try:
            seen = self.disk.stat(at)
            if seen is None:
                return None
            if large := parsing.check_size(path, seen.size):
                self.problem(at, large.why)
                return None
            found = self.disk.read(at)
        except UnsafePath as error:
            self.problem(at, str(error))
            return None
        except OSError as error:
            self.problem(at, f"it cannot be read ({error.strerror})")
            return None
        if found is None:
            return None
        written = written or self.ledger.find(path)
        data, seen = found
        return ChangedFile(
            path=path,
            place=place,
            data=redact_file(data, place.form, get_redactor(self.store)),
            seen=seen,
            written=written,
            at=at,
            sum=compute_checksum(data),
        )

    def _render_expected_records(self, strangers: Iterable[ChangedFile]) -> dict[str, ExpectedContent]:
        """What the files of records among these should say, all asked for at once."""
        names = [each.place.name for each in strangers if each.place.form == "record"]
        found: list[Record] = []
        try:
            found = self.store.records([name for name in names if is_id(name)])
        except StoreCorrupt:
            _log.debug("records are read one by one, because one cannot be read")
        return {build_path(record): ExpectedContent(render_record(record)) for record in found}

    def _render_expected(
        self, stranger: ChangedFile, records: dict[str, ExpectedContent]
    ) -> ExpectedContent | None:
        if stranger.place.form == "record":
            return records.get(stranger.path)
        try:
            return render_expected_content(self.store, stranger.path)
        except StoreCorrupt:
            return None

    def recovered(self, paths: Iterable[str]) -> Iterator[ChangedFile]:
        """Edits that slipped in while their file was replaced, each with the version that it began with."""
        for at in paths:
            path = parse_recovered_path(at)
            assert path is not None
            note = self.ledger.notes(f"recovered:{at}").get(f"recovered:{at}")
            began = self._find_version(path, int(note)) if note else None
            stranger = self._read(path, at, began or FileRecord(path, -1, -1, 0))
            if stranger is not None:
                yield stranger

    def _find_version(self, path: str, number: int) -> FileRecord | None:
        """The version of a file that has this checksum, if it is one of a record or page."""
        place = parse_path(path)
        if place is None or place.form not in ("record", "page"):
            return None
        datas: list[bytes]
        if place.form == "record":
            datas = [
                render_record(each) for each in base_versions.list_versions(self.store, place.name, Record)
            ]
        else:
            datas = [render_page(each) for each in base_versions.list_versions(self.store, place.name, Page)]
        for data in datas:
            if compute_checksum(data) == number:
                return FileRecord(path, len(data), -1, number)
        return None

    # -- for all forms -----------------------------------------------------------------------------------

    def attempt(self, stranger: ChangedFile, take: Callable[[ChangedFile], None]) -> None:
        """Take in a file, again when the store is changed meanwhile; what is wrong becomes a problem."""
        self._retry_on_conflict(stranger.at, lambda: take(stranger))

    def attempt_missing(self, path: str, take: Callable[[str], None]) -> None:
        """The same for a file that is gone."""
        self._retry_on_conflict(path, lambda: take(path))

    def _retry_on_conflict(self, path: str, act: Callable[[], None]) -> None:
        try:
            self._writer.retrying(lambda _: act(), attempts=_ATTEMPTS)
        except Conflict:
            self.problem(path, "what it says is being changed all the time: it is tried again")
        except (CannotImport, InvalidInput) as error:
            self.problem(path, str(error))
        except StoreCorrupt:
            self.problem(path, "what the store has of it cannot be read: see `reverie check`")

    def problem(self, path: str, why: str) -> None:
        """Report a file that is left as it is."""
        self.problems[path] = BrokenFile(path=path, why=get_redactor(self.store).text(why))

    def is_stale(self, stranger: ChangedFile, name: str | None) -> bool:
        """Whether a file says what it once was to say, and nobody has put it back on purpose.

        Args:
            stranger: The file.
            name: The id of what stands in it; if that is gone from the store, and the files have shown so, a
                file of it was put back.
        """
        if not is_earlier_version(self.store, stranger.path, stranger.data):
            return False
        return (
            name is None
            or render_expected_content(self.store, stranger.path) is not None
            or not self.has_reappeared(stranger, name)
        )

    def has_reappeared(self, stranger: ChangedFile, name: str) -> bool:
        """Whether the files had shown the last change of a thing already when this file appeared."""
        rows = self.store.journal(id=name, newest_first=True, limit=1)
        shown = self.ledger.progress.sequence
        return stranger.written is None and bool(rows) and rows[0].sequence <= shown

    def mark_due(self, paths: Iterable[str]) -> None:
        """Have files made what the store says."""
        self.ledger.mark_due(paths)
        self.due = True

    def write_again(self, path: str, subject: Subject, id: str) -> None:
        """Have a file written again that a person deleted in vain."""
        self.ledger.drop([path])
        self.mark_due([path])
        self.taken.append(HandEdit(path=path, subject=subject, id=id, what="kept"))

    def report_lost(self, paths: Sequence[str], why: str) -> None:
        """Take note that files were lost rather than deleted: they are written again."""
        self.ledger.drop(paths)
        self.mark_due(paths)
        self.lost = True
        _log.warning("%s: they are taken for lost and written again; nothing was archived", why)

    def get_save_time(self, stranger: ChangedFile) -> datetime:
        """When a person saved a file; never in the future."""
        return min(self.now, from_microseconds(stranger.seen.mtime_ns // 1000))

    def is_recent(self, stranger: ChangedFile, name: str) -> bool:
        """Whether a thing was new so shortly before a file was saved that an editor may not have shown it."""
        rows = self.store.journal(id=name, limit=1)
        return bool(rows) and rows[0].at >= self.get_save_time(stranger) - base_versions.OPEN_FOR

    def settle(self, stranger: ChangedFile) -> None:
        """Note that what a file says is accounted for, so that it may be written in our own form."""
        if stranger.at != stranger.path:
            self.disk.remove(stranger.at, stranger.seen)
            self.ledger.note(f"recovered:{stranger.at}", None)
            self.mark_due([stranger.path])
            return
        seen = stranger.seen
        self.ledger.put([FileRecord(stranger.path, seen.size, seen.mtime_ns, stranger.sum)])
        self.mark_due([stranger.path])

    def commit(self, stranger: ChangedFile, decision: MergeDecision) -> None:
        """Make the edits of a file, with the program's versions of what clashes put beside first."""
        fresh = [edit.after for edit in decision.edits if edit.after is not None]
        if is_forgotten(self.store, [each for each in fresh if not isinstance(each, Page | SessionState)]):
            raise CannotImport(FORGOTTEN)
        for clash in decision.clashes:
            self._keep_beside(stranger, clash)
        self.commit_edits(stranger.path, decision.edits, f"edited by hand: {stranger.at}")

    def commit_edits(self, path: str, edits: Sequence[Change], reason: str) -> None:
        """Make edits in one transaction, and tell of them."""
        if not edits:
            return
        self._writer.commit(edits, reason=reason, at=self.now)
        self.taken += [
            HandEdit(path=path, subject=edit.subject, id=edit.id, what=_describe_edit(edit)) for edit in edits
        ]

    def _keep_beside(self, stranger: ChangedFile, clash: MergeConflict) -> None:
        """Write the program's version into a conflict file, unless it stands in one already."""
        data = _render_value(clash.ours)
        stem = _build_conflict_stem(stranger.path, clash.ours)
        number = 1
        while True:
            path = f"{stem}{CONFLICT}" if number == 1 else f"{stem}.{number}{CONFLICT}"
            found = self.disk.read(path)
            if (found is not None and found[0] == data) or self.disk.create(path, data) is not None:
                break
            number += 1
        self.conflicts[path] = {"of": stranger.path, "id": clash.ours.id, "fields": list(clash.fields)}


def is_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    try:
        ids.validate_id(text)
    except InvalidInput:
        return False
    return True


def require_parsed(found: T | BrokenFile) -> T:
    """What was read, or `Kept` with the reason why not."""
    if isinstance(found, BrokenFile):
        raise CannotImport(found.why)
    return found


def extract_imported_edits(rows: Iterable[JournalEntry]) -> list[HandEdit]:
    """What a person did of whom these rows of the journal tell."""
    return [
        _to_imported_edit(row.reason.rpartition(": ")[2], row.edit)
        for row in rows
        if row.actor == ACTOR and row.edit is not None
    ]


def _to_imported_edit(path: str, edit: Change) -> HandEdit:
    return HandEdit(path=path, subject=edit.subject, id=edit.id, what=_describe_edit(edit))


def _describe_edit(edit: Change) -> str:
    before, after = edit.before, edit.after
    if before is None:
        return "added"
    if after is None:
        return "removed"
    if isinstance(before, Record) and isinstance(after, Record):
        if before.archived != after.archived:
            return "archived" if after.archived else "restored"
        if replace(before, category=after.category, updated_at=after.updated_at) == after:
            return "moved"
    return "changed"


def _build_conflict_stem(path: str, value: Value) -> str:
    folder = path.rpartition("/")[0]
    match value:
        case Turn():
            return f"{folder}/{build_file_name(value.session)}.{value.id}"
        case SessionState():
            return f"{folder}/{build_file_name(value.id)}"
        case Page():
            return path
        case _:
            return f"{folder}/{value.id}"


def _render_value(value: Value) -> bytes:
    if isinstance(value, Record):
        return render_record(value)
    return f"{json.dumps(value.to_dict(), ensure_ascii=False, indent=2)}\n".encode()
