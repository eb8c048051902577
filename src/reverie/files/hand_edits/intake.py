"""One run of the import of hand edits, inside the lock of the files' state.

Each file is read, compared with the store, merged and committed by itself. `importer` starts the
run and records what remains for later.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TypeVar

from reverie.domain.change import Change, JournalEntry, Operation, Subject, Value
from reverie.domain.conversation import SessionState
from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, Page
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.timestamps import from_microseconds
from reverie.files import parsing
from reverie.files.atomic import AtomicFolder, FileStamp, UnsafePath
from reverie.files.expected import find_pending, read_values, render_expected_content
from reverie.files.layout import FileLocation, Form, index_lines, parse_path
from reverie.files.parsing import EmptiedFile
from reverie.files.scan import CONFLICT, QUIET_S, SAVING_S, BrokenFile, HandEdit, HandEditReport
from reverie.files.state import FileRecord, FileState, compute_checksum
from reverie.stores.living_page import ACCIDENT
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_redactor
from reverie.stores.tombstones import drop_forgotten, is_forgotten
from reverie.stores.writer import StoreWriter

_log = logging.getLogger("reverie")

ACTOR = "owner, by hand"
"""Actor of hand edits in the journal."""

REBUILDER = "rebuild"
"""Actor in the journal of what was rebuilt from the files of a lost database."""

DELETED = "file deleted by hand"
"""Reason in the journal for a record whose file a person deleted."""

FORGOTTEN = "it holds what was forgotten on request: take that out, or delete the file"
"""Reason why a file is not imported that has erased text."""

FEW = 20
"""Number of items that may vanish at once. More than this and over half of all count as an accident."""

T = TypeVar("T")

_ATTEMPTS = 20
_UNSEEN_NS = 2_000_000_000  # what is appended so shortly before a save is not in the editor yet


class MergeConflict(NamedTuple):
    """A thing that the program changed in another way than the person.

    Attributes:
        ours: The program's version, which does not stand.
        fields: What both changed.
    """

    ours: Value
    fields: tuple[str, ...]


class ChangedFile(NamedTuple):
    """A file whose content is neither what was written nor what the store says.

    Attributes:
        path: The path of the file; for an edit that was moved aside, the path of the file that it is an edit of.
        place: The parsed path.
        data: The content, with secrets redacted.
        stamp: The file's stamp when it was read.
        written: The record of the file before it was edited; None if it was not known.
        base: The text of a page or log that was last written to it; None if that is not known.
        lines: The checksums of the lines that were last written to a page of records, by the ids of the records.
        at: Where the file really is.
        checksum: The checksum of the file, secrets included.
    """

    path: str
    place: FileLocation
    data: bytes
    stamp: FileStamp
    written: FileRecord | None
    base: bytes | None
    lines: Mapping[str, int]
    at: str
    checksum: int


class HandEditRun:
    """One run over the result of a scan.

    Attributes:
        report: What was done so far, without the problems.
        problems: The files that cannot be imported, by path.
        emptied: Those of them that a person has emptied.
        is_rebuild: Whether the store is a new one of a lost database.
        writer: The writer, acting for the person or the rebuild.
    """

    def __init__(
        self,
        writer: StoreWriter,
        ledger: FileState,
        disk: AtomicFolder,
        *,
        marks: Store | None = None,
    ) -> None:
        """Prepare to import files; the caller holds the lock of `ledger`.

        Args:
            writer: Writer of the store.
            ledger: The state of the files.
            disk: The files.
            marks: For a rebuild, the store that knows what was forgotten, and what was saved again since.
        """
        self.is_rebuild = marks is not None
        self.report = HandEditReport()
        self.problems: dict[str, BrokenFile] = {}
        self.emptied: set[str] = set()
        self.store = writer.store
        self.ledger = ledger
        self.disk = disk
        self.new_id = writer.new_id
        self.now = writer.clock()
        self.writer = writer.acting(REBUILDER if self.is_rebuild else ACTOR)
        self._marks = marks or writer.store
        self._pending: dict[int, dict[str, list[Value]]] = {}
        self._first_shown = ledger.read_shown("")

    # -- reading -----------------------------------------------------------------------------------------

    def read_changed_files(self, paths: Sequence[str]) -> Iterator[ChangedFile]:
        """Yield those of some files whose content is neither what was written nor what the store says."""
        for path in paths:
            if (file := self._read(path, path)) is None:
                continue
            old, current = file.written, FileRecord(path, *file.stamp[:2], file.checksum)
            if old is not None and (old.size, old.checksum) == (current.size, current.checksum):
                self.ledger.put([old._replace(mtime_ns=current.mtime_ns)])
                continue
            content = None
            with suppress(StoreCorrupt):
                content = render_expected_content(self.store, self.ledger, path)
            if content is None or compute_checksum(content.data) != file.checksum:
                yield file  # or one with secrets, which has to be rewritten
            else:
                self.ledger.put_content(current._replace(pieces=content.pieces), file.data, file.place.form)

    def read_recovered_files(self) -> Iterator[ChangedFile]:
        """Yield the edits that came while their file was replaced."""
        for draft, path in self.disk.list_drafts():
            is_edit = parse_path(path) is not None and not self.disk.is_unfinished(draft)
            if is_edit and (file := self._read(path, draft)) is not None:
                yield file

    def _read(self, path: str, at: str) -> ChangedFile | None:
        place, written = parse_path(path), self.ledger.find(at)
        assert place is not None
        try:
            stamp = self.disk.stat(at)
            if stamp is None:
                return None
            parsing.check_size(stamp.size)
            content = self.disk.read(at)
        except (UnsafePath, InvalidInput) as error:
            self.report_problem(at, str(error))
            return None
        except OSError as error:
            self.report_problem(at, f"it cannot be read ({error.strerror})")
            return None
        if content is None:
            return None
        data, stamp = content
        is_unseen = written is not None and 0 <= stamp.mtime_ns - abs(written.mtime_ns) < _UNSEEN_NS
        fresh = written.fresh if written is not None and is_unseen else 0
        base, lines = self.ledger.read_text(at), list(self.ledger.read_lines(at).items())
        if base is not None and fresh:
            between = b"\n\n" if place.name == HISTORY else b"\n"
            base = between.join(base.rstrip(b"\n").split(between)[:-fresh]) + b"\n"
        return ChangedFile(
            path=path,
            place=place,
            data=redact_file(data, place.form, get_redactor(self.store)),
            stamp=stamp,
            written=written if written is not None or at == path else FileRecord(path, -1, -1, 0),
            base=base,
            lines=dict(lines[: len(lines) - fresh]),
            at=at,
            checksum=compute_checksum(data),
        )

    def find_pending(self, path: str) -> Mapping[str, Sequence[Value]]:
        """Return the values that a file is not known to show as they are now, by id, in all their versions since.

        Args:
            path: The file; empty for any of the files, as they were when the run began.
        """
        shown = self.ledger.read_shown(path) if path else self._first_shown
        if shown not in self._pending:
            self._pending[shown] = find_pending(self.store, after=shown)
        return self._pending[shown]

    # -- for all forms -----------------------------------------------------------------------------------

    def attempt(self, path: str, act: Callable[[], None]) -> None:
        """Import a file or its deletion; retry when the store was changed meanwhile. An error becomes a problem."""
        try:
            self.writer.retrying(lambda _: act(), attempts=_ATTEMPTS)
        except Conflict:
            self.report_problem(path, "its content in the store changes all the time: it is tried again")
        except InvalidInput as error:
            self.report_problem(path, str(error))
            if isinstance(error, EmptiedFile):
                self.emptied.add(path)
        except StoreCorrupt:
            self.report_problem(path, "its content in the store cannot be read: see `reverie check`")

    def report_problem(self, path: str, why: str) -> None:
        """Report a file that cannot be imported."""
        self.problems[path] = BrokenFile(path=path, why=get_redactor(self.store).text(why))

    def has_reappeared(self, file: ChangedFile, name: str) -> bool:
        """Return whether a file appeared after the files had shown the last change of its content."""
        rows = self.store.journal(id=name, newest_first=True, limit=1)
        return file.written is None and bool(rows) and rows[0].sequence <= self.ledger.read_shown(file.at)

    def mark_due(self, paths: Iterable[str]) -> None:
        """Have files written as the store says."""
        self.ledger.mark_due(paths)
        self.report.due = True

    def drop_and_write(self, *paths: str) -> None:
        """Drop the records of missing files, and have them written as the store says."""
        if paths:
            self.ledger.drop(paths)
            self.mark_due(paths)

    def write_again(self, path: str, subject: Subject, id: str) -> None:
        """Have a file written again that may not be deleted."""
        self.drop_and_write(path)
        self.report.taken.append(HandEdit(path=path, subject=subject, id=id, what="kept"))

    def report_lost(self, paths: Sequence[str], why: str) -> None:
        """Record that files were lost rather than deleted, and have them written again."""
        self.drop_and_write(*paths)
        self.report.lost = True
        _log.warning("%s: they count as lost and are written again; nothing was archived", why)

    def find_original(self, file: ChangedFile, added: Collection[str]) -> str | None:
        """Return the file that a new file is a copy of: its name extends that of the other, and the texts are near.

        Args:
            file: The file.
            added: All new files.
        """
        if file.written is not None or read_values(self.store, self.ledger, file.path):
            return None
        folder, _, name = file.path.rpartition("/")
        stem, _, ending = name.rpartition(".")
        for place in range(1, len(stem)):
            for part in (stem[:place], stem[place:]):
                other = f"{folder}/{part}.{ending}"
                found = self._read(other, other) if other in added or self.ledger.find(other) else None
                if found is not None and is_near_copy(file.data, found.data):
                    return other
        return None

    def is_unfinished(self, file: ChangedFile) -> bool:
        """Return whether an editor may have saved a beginning of a file, and be about to save the rest.

        A file that is quiet for `QUIET_S` is finished, unless its end is missing, or a line of a page of records: then
        it has to be quiet for `SAVING_S`. If it were imported earlier, the rest would count as removed, and then as
        added once more; a line may also be on its way to another page.
        """
        age_s = time.time() - file.stamp.mtime_ns / 1e9
        if self.is_rebuild or file.at != file.path or not 0 <= age_s < SAVING_S:
            return False
        if age_s < QUIET_S:
            return True
        if file.base is None:  # half a record is broken, and reported
            return not file.lines.keys() <= index_lines(file.data).keys()
        if file.base.rstrip().rpartition(b"\n")[2] in file.data.split(b"\n"):
            return False
        return len(file.data) < len(file.base) or not file.data.endswith(b"\n")

    def settle(self, file: ChangedFile) -> None:
        """Record that a file is imported, and have it written in canonical form."""
        if file.at != file.path:
            self.disk.remove(file.at, file.stamp)
            self.ledger.drop([file.at])
            self.ledger.settle([file.at])
            self.mark_due([file.path])
        else:
            self._put_base(FileRecord(file.path, *file.stamp[:2], file.checksum), file, file.data)

    def hold_back(self, file: ChangedFile, reasons: Sequence[str], base: bytes) -> None:
        """Report the lines of a file that could not be imported, and leave the file as it is.

        Args:
            file: The file.
            reasons: What is wrong with each of the lines.
            base: The text of the file as it would be with only what is imported: the next base version.
        """
        several = f" and {len(reasons) - 3} more lines" if len(reasons) > 3 else ""
        self.report_problem(file.at, f"{'; '.join(reasons[:3])}{several}; all other lines are imported")
        self._put_base(FileRecord(file.at, len(base), -1, compute_checksum(base)), file, base)

    def _put_base(self, record: FileRecord, file: ChangedFile, base: bytes) -> None:
        """Set the base of the next edit of a file. What has changed until now is in neither of them."""
        self.ledger.put_content(record, base, file.place.form)
        self.ledger.settle([record.path])
        self.mark_due([record.path])

    def commit(
        self, file: ChangedFile, changes: Sequence[Change], conflicts: Iterable[MergeConflict] = ()
    ) -> None:
        """Commit the changes of a file, after the program's versions of conflicts were put beside it."""
        self.refuse_forgotten(changes)
        for conflict in conflicts:
            about = {CONFLICT_WITH: file.path, CONFLICTING_FIELDS: conflict.fields}
            text = json.dumps({**about, **conflict.ours.to_dict()}, ensure_ascii=False, indent=2)
            beside = f"{file.path.rpartition('/')[0]}/{conflict.ours.id}"
            self.disk.keep_beside(beside, CONFLICT, f"{text}\n".encode())
        self.commit_edits(file.path, changes, "edit_file", note=file.at)

    def commit_edits(
        self, path: str, edits: Sequence[Change], operation: Operation, *, note: str = ""
    ) -> None:
        """Commit changes in one transaction."""
        if not edits:
            return
        operation = "rebuild" if self.is_rebuild else operation
        self.writer.commit(edits, operation=operation, note=note or path, at=self.now)
        self.report.taken += [_build_hand_edit(path, edit) for edit in edits]

    def refuse_forgotten(self, changes: Iterable[Change]) -> None:
        """Raise `InvalidInput` if changes would save what was forgotten."""
        after = [change.after for change in changes]
        if self.find_forgotten(
            [each for each in after if each and not isinstance(each, Page | SessionState)]
        ):
            raise InvalidInput(FORGOTTEN)

    def find_forgotten(self, values: Sequence[Value]) -> set[str]:
        """Return the ids of those values that were forgotten."""
        return self._ask_marks(lambda store: is_forgotten(store, values))

    def drop_forgotten(self, page: Page) -> Page:
        """Return a page without the lines that were forgotten."""
        return self._ask_marks(lambda store: drop_forgotten(store, page))

    def _ask_marks(self, ask: Callable[[Store], T]) -> T:
        """Return what the marks say; those that were carried over where a damaged database cannot be read."""
        if self._marks is not self.store:
            try:
                return ask(self._marks)
            except StoreCorrupt:
                self._marks = self.store
        return ask(self.store)

    def read_moment(self, file: ChangedFile) -> datetime:
        """Return the time of what a file says without a time: now, or when the file was saved before a rebuild."""
        return from_microseconds(file.stamp.mtime_ns // 1000) if self.is_rebuild else self.now

    def propose(self, path: str, changes: Sequence[Change]) -> None:
        """Have changes wait for the owner's decision, and report it."""
        if changes:
            self.writer.propose(changes, ACCIDENT)
            self.report.taken.append(HandEdit(path=path, subject="page", id=changes[0].id, what="held"))


def is_mass_removal(removed: int, before: int) -> bool:
    """Return whether so much has vanished that it looks like an accident."""
    return removed > FEW and 2 * removed > before


CONFLICT_WITH, CONFLICTING_FIELDS = "conflict_with", "conflicting_fields"
"""What a conflict file says beside the program's version: the edited file, and the fields that both have changed."""

_MIN_COMMON = 0.4
_PIECE = 8
_LONG = 40


def is_near_copy(text: bytes, other: bytes) -> bool:
    """Return whether one text is the other with changes: two fifths of all pieces are common, or all of one.

    Of texts on one subject, less than a tenth of the pieces of eight characters are common.
    """
    words = (" ".join(data.decode(errors="replace").split()) for data in (text, other))
    ours, theirs = ({each[n : n + _PIECE] for n in range(max(1, len(each) - _PIECE + 1))} for each in words)
    common, least = len(ours & theirs), min(len(ours), len(theirs))
    return common == least >= _LONG or 2 * common > _MIN_COMMON * (len(ours) + len(theirs))


def extract_imported_edits(rows: Iterable[JournalEntry]) -> list[HandEdit]:
    """Return the hand edits among journal entries."""
    return [
        _build_hand_edit(row.note, row.edit) for row in rows if row.actor == ACTOR and row.edit is not None
    ]


def _build_hand_edit(path: str, change: Change) -> HandEdit:
    return HandEdit(path=path, subject=change.subject, id=change.id, what=_describe_change(change))


def _describe_change(change: Change) -> str:
    before, after = change.before, change.after
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


_KEPT = defer_regex(r'"keep_secret"\s*:\s*true')


def redact_file(data: bytes, form: Form, redactor: Redactor) -> bytes:
    """Return the content of a file with its secrets replaced.

    Args:
        data: The content.
        form: The form of the file.
        redactor: Finds the secrets.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    parts = text.split("\n") if form in ("lines", "session") else [text]
    redact = redactor.json_text if form in ("record", "session") else redactor.text
    # The store decides about what is marked, because only the owner's text may keep secrets.
    clean = "\n".join(
        part if _KEPT.search(part) and form in ("record", "lines") else redact(part) for part in parts
    )
    return data if clean == text else clean.encode()
