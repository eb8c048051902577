"""Mirror of the store in files, which follows the journal.

The entries since the number in `files.db` decide which files are affected. A file is written with its content from
the store as it is now, so order and repetition do not matter. If the newest entries only add to the end of a session,
log or page of records, that is appended. What a killed process did not write, the next one writes. Where the folder or
`files.db` was lost, the journal is followed from its beginning, and only what differs is written.

A record stays on the page that it is on while its category is that of the page. Otherwise it goes to the end of the
last page of its category (`build_stem`), or has a file of its own in the layout `records`. When the layout changes, or
files of an earlier version are there, these are packed into one file, and then written anew and removed.

Before a file is replaced or removed it is read. If its checksum is that of its `FileRecord`, it may go. So may what an
interrupted append left. Anything else is left as it is, and stays due until it was imported: a hand edit, or what a
process wrote that could not record it, which the import recognises. `atomic` keeps an edit that comes in the very
moment of the step.

A failed write raises nothing to the author of the change, which is in the store already. It is logged,
counted, and tried again with a later change.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path

from reverie.domain.change import JournalEntry, Value
from reverie.domain.errors import StoreCorrupt, StoreError
from reverie.domain.lazy_dataclass import dataclass, field
from reverie.domain.page import MEMORY as MEMORY_PAGE
from reverie.domain.record import Record
from reverie.domain.text.timestamps import Clock
from reverie.files import expected, layout
from reverie.files.atomic import AtomicFolder, FileStamp, UnsafePath, create_file, is_lost
from reverie.files.layout import Layout
from reverie.files.scan import TOPS, scan
from reverie.files.state import (
    NO_PROGRESS,
    FileRecord,
    FileState,
    MirrorProgress,
    StateBusy,
    compute_checksum,
    compute_stamp,
)
from reverie.stores.living_page import read_block
from reverie.stores.protocol import Store

_log = logging.getLogger("reverie")

FILES_FAILED = "files.failed"
"""Name of the store's counter of files that could not be written."""

PACKED_FILES = "files.*.backup-*.zip"
"""Names of the packed files of former layouts."""

_GROWING: frozenset[layout.Form] = frozenset({"session", "log", "lines"})
_BATCH = 2_000
_DUE_AT_ONCE = 100
_PAUSE_S = 0.002
_PAGE = layout.build_page_path(MEMORY_PAGE)
_SESSIONS = f"{layout.SESSIONS}/"  # which nobody edits

_Additions = dict[str, dict[str, Value] | None]
"""Values that were added to files by id, by path; None for a file in which a value was changed or removed."""


@dataclass(slots=True, kw_only=True)
class MirrorReport:
    """Result of writing files.

    Attributes:
        written: Number of files written or extended.
        removed: Number of files removed.
        edited: Files left as they are because they contain hand edits.
        failed: Reasons, by path, why files could not be read or written.
        complete: Whether all other files show all changes.
        is_blocked: Whether others held the lock for too long.
    """

    written: int = 0
    removed: int = 0
    edited: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    is_blocked: bool = False

    @property
    def has_more(self) -> bool:
        """Return whether more can be written at once."""
        return not (self.complete or self.is_blocked or "" in self.failed)


class MirrorWriter:
    """Writer of the files of one folder. Safe for several threads and processes: it holds the state's lock.

    Attributes:
        failed: Reasons, by path, why this process could not write files and has not written them since. The
            empty path stands for the state of the files.
        erased: The numbers of the entries of an erasure, which do not say what they have erased, and what that is.
        disk: The files.
    """

    def __init__(
        self, root: Path, store: Store, state: FileState, *, clock: Clock, layout: Layout = "pages"
    ) -> None:
        """Mirror `store` below `root`.

        Args:
            root: The memory's folder.
            store: The store.
            state: The state of the files.
            clock: Returns the current time, for the counter of failures.
            layout: Where records are.
        """
        self.failed: dict[str, str] = {}
        self.erased: tuple[set[int], Collection[Value]] = set(), ()
        self._store = store
        self._state = state
        self._clock = clock
        self._layout = layout
        self._root = root
        self._report = MirrorReport()  # of the work in hand; set whenever the lock is taken
        self.disk = AtomicFolder(root)

    def write(self, *, batches: int | None = None, retry: bool = True) -> MirrorReport:
        """Write the files of all pending changes, and those that are due.

        Args:
            batches: How many batches of some thousand changes at most; None for all. The lock is released
                between them.
            retry: Whether to write files that are due, such as those whose last write has failed.
        """
        report = MirrorReport(complete=False)
        shown: dict[str, int] = {}
        tried: set[str] = set()
        done = 0
        with self._suppress_errors(report):
            while not report.complete and (batches is None or done < batches):
                if done:
                    time.sleep(_PAUSE_S)  # others wait for the lock, and must find it free sometimes
                with self._state.lock():
                    self._report = report
                    if not done:
                        self._check_state()
                    self._drop_lost_folders()
                    report.complete = self._follow(shown) and (not retry or self._write_due(tried))
                    if report.complete:
                        self._write_living_page()
                done += 1
        self._report_failures(report)
        return report

    def prepare(self) -> None:
        """Check whose files these are, whether folders were lost, and what killed processes left.

        Call it before hand edits are imported, so that a lost folder does not count as a deletion.
        """
        report = MirrorReport()
        with self._suppress_errors(report), self._state.lock():
            self._report = report
            self._check_state()
            self._drop_lost_folders()
        self._report_failures(report)

    def needs_fresh_start(self) -> bool:
        """Return whether the state of the files, or a whole folder of them, is missing."""
        if not self._state.progress.sequence:
            return self._store.sequence() > 0
        return any(is_lost(f"{self._root}/{top}") and self._state.known(f"{top}/") for top in TOPS)

    def is_changed(self, path: str) -> bool:
        """Return whether a file is not as it was written; False for a link, which a scan reports."""
        with contextlib.suppress(UnsafePath):
            known, seen = self._state.find(path), self.disk.stat(path)
            return (known and known[1:3]) != (seen and seen[:2])
        return False

    def count_pending_changes(self) -> int:
        """Return how many changes the files do not show yet."""
        return max(0, self._store.sequence() - self._state.progress.sequence)

    @contextlib.contextmanager
    def _suppress_errors(self, report: MirrorReport) -> Iterator[None]:
        """Record that nothing could be written: the state is locked or broken, or the store is."""
        try:
            yield
        except StateBusy:
            report.complete, report.is_blocked = False, True
        except StoreCorrupt as error:  # users of the store get this error, with advice
            _log.info("files not written: %s", error)
            self.failed[""] = report.failed[""] = str(error)
        except StoreError as error:
            report.failed[""] = str(error)
            report.complete = False
        else:
            self.failed.pop("", None)

    def _report_failures(self, report: MirrorReport) -> None:
        """Log and count new failures."""
        new = {path: why for path, why in report.failed.items() if path not in self.failed}
        self.failed.update(report.failed)
        if not new:
            return
        path, why = next(iter(new.items()))
        more = f" and {len(new) - 1:,} more" if len(new) > 1 else ""
        _log.warning("%s%s not written, tried again with a later change: %s", path or "files", more, why)
        try:
            self._store.commit([], actor="files", at=self._clock(), counts={FILES_FAILED: len(new)})
        except StoreError as error:  # users of the store get this error
            _log.info("%d failed writes of files could not be counted: %s", len(new), error)

    # -- after failures ----------------------------------------------------------------------------------

    def _check_state(self) -> None:
        """Clear the state if it belongs to another store, convert another layout, settle what killed processes left."""
        sequence, stamp = self._state.progress
        if sequence:
            rows = self._store.journal(after=sequence - 1, until=sequence, limit=1)
            if not rows or compute_stamp(rows[0]) != stamp:  # or to one that was restored from a backup
                _log.warning("the state of the files belongs to another store: all files are compared")
                self._state.clear()
        if self._state.layout != self._layout:
            _convert(self._root, self.disk, self._state, self._layout)
        for draft, path in self.disk.list_drafts():
            with self._record_failure(path):
                self._settle_draft(draft, path)

    def _settle_draft(self, draft: str, path: str) -> None:
        """Remove what a killed process left, and leave an edit to the import."""
        known, present = self._state.find(path), self.disk.stat(path)
        found = None if self.disk.is_unfinished(draft) else self.disk.read(draft)
        is_old = found and known is not None and _has_same_content(known, found[0])
        if found is None or not found[0] or found[1] == present or is_old:  # the same file has both names
            self.disk.unlink(draft)
            if present is None and known is not None:  # it was moved aside, and not removed by a person
                self._state.drop([path])
                self._state.mark_due([path])
        elif not (present is None and self.disk.put_back(draft, path)) and self._state.find(draft) is None:
            self._keep_base(draft, path)

    def _drop_lost_folders(self) -> None:
        """Record folders that are missing as a whole: they were lost, not deleted by hand."""
        for top in TOPS:
            if is_lost(f"{self._root}/{top}") and self._state.known(f"{top}/"):
                _log.warning("the folder %r is missing and is written again from the store", top)
                self._state.clear()

    # -- following the journal ---------------------------------------------------------------------------

    def _follow(self, shown: dict[str, int]) -> bool:
        """Write the files of the next entries of the journal; return whether these were the last.

        Args:
            shown: The last change that each path shows, and that all do by the empty path; it is updated.
        """
        rows = self._store.journal(after=self._state.progress.sequence, limit=_BATCH)
        if not rows:
            return True
        newest = self._store.sequence()  # before any content is read
        is_last = rows[-1].sequence >= newest
        forgotten = {row.sequence for row in rows if row.forgotten}
        numbers, values = self.erased
        is_told = bool(forgotten) and forgotten <= numbers <= {row.sequence for row in rows}
        files, left = self._find_changes(rows, shown, values if is_told else ())
        if forgotten and not is_told and shown.get("", 0) < newest:
            files |= dict.fromkeys(self._state.known())  # nothing says what was erased
            shown[""] = newest
        whole = (path for path, names in left.items() if path in files or not self._cut(path, names))
        files |= dict.fromkeys(whole)
        for path, added in files.items():
            is_appended = (is_last or layout.parse_form(path) == "lines") and self._append(path, added)
            if not is_appended:
                self._write(path)
            if is_last or not is_appended:
                shown[path] = newest
        self._state.advance(MirrorProgress(rows[-1].sequence, compute_stamp(rows[-1])))
        return is_last

    def _find_changes(
        self, rows: Iterable[JournalEntry], shown: Mapping[str, int], erased: Collection[Value]
    ) -> tuple[_Additions, dict[str, set[str]]]:
        """Put all changed records on pages; return the values added to each file, and the ids that have left each page.

        `erased` has the values that the entries do not say. What only lost records is not among the first.
        """
        ledger, kind = self._state, self._state.layout
        paths = filter(None, (_find_own_path(value, kind) for value in erased))
        files: _Additions = dict.fromkeys([*paths, _PAGE] if erased else [])
        left: dict[str, set[str]] = {}
        records: dict[str, tuple[int, Value | None]] = {
            value.id: (0, None) for value in erased if isinstance(value, Record)
        }
        placed: dict[str, list[str]] = {}
        rooms: dict[str, tuple[int, int]] = {}
        for row, value in ((row, row.edit.value) for row in rows if row.edit is not None):
            if isinstance(value, Record):
                records[value.id] = row.sequence, row.after
            old, new = (_find_own_path(each, kind) for each in (row.before, row.after))
            for path in filter(None, dict.fromkeys((old, new))):
                if row.sequence > shown.get(path, 0):
                    _note(files, path, value, is_added=path != old)
        pages = ledger.locate_all(records)
        for name, (sequence, record) in records.items():
            page, stem = pages.get(name), _find_stem(record, kind)
            if page is not None and layout.parse_home(page) != stem:
                ledger.set_ids(page, [each for each in ledger.read_ids(page) if each != name])
                left.setdefault(page, set()).add(name)
                page = None
            if record is None or stem is None:
                continue
            if page is None:
                page = self._find_room(stem, rooms)
                placed.setdefault(page, []).append(name)
                _note(files, page, record, is_added=True)
            elif sequence > shown.get(page, 0):
                files[page] = None
        for page, names in placed.items():
            ledger.add_ids(page, names)
        return files, left

    def _find_room(self, stem: str, rooms: dict[str, tuple[int, int]]) -> str:
        """Return the last page of a stem, or the next one if that is full.

        Args:
            stem: The stem.
            rooms: The number of the last page of each stem and the number of its records; it is updated.
        """
        number, count = rooms.get(stem) or self._state.find_last_page(stem)
        if stem not in rooms:
            file = self._state.find(layout.build_numbered_path(stem, number))
            count = layout.MAX_LINES if file is not None and file.size > layout.MAX_PAGE_BYTES else count
        if count >= layout.MAX_LINES:
            number, count = number + 1, 0
        rooms[stem] = (number, count + 1)
        return layout.build_numbered_path(stem, number)

    def _write_due(self, tried: set[str]) -> bool:
        """Write some more of the files that are due; return whether these were the last.

        Args:
            tried: The files that this call of `MirrorWriter.write` has tried; it is updated.
        """
        tried.update(self._report.edited, self._report.failed)
        due = [path for path in self._state.due() if path not in tried]
        for path in due[:_DUE_AT_ONCE]:
            edited = len(self._report.edited)
            self._write(path)
            if len(self._report.edited) == edited and path not in self._report.failed:
                self._state.settle([path])
        tried.update(due[:_DUE_AT_ONCE])
        return len(due) <= _DUE_AT_ONCE

    def _write_living_page(self) -> None:
        """Write `MEMORY.md` if its block was composed anew, which no entry of the journal says."""
        if not read_block(self._store) or _PAGE in self._report.edited:
            return
        content, known = (
            expected.render_expected_content(self._store, self._state, _PAGE),
            self._state.find(_PAGE),
        )
        if content is not None and (known is None or not _has_same_content(known, content.data)):
            self._write(_PAGE)

    # -- one file ----------------------------------------------------------------------------------------

    def _append(self, path: str, added: Mapping[str, Value] | None) -> bool:
        """Append what is new in a file; return False if that is not enough, or not certain."""
        known, form = self._state.find(path), layout.parse_form(path)
        if not added or known is None or known.pieces < 1 or form not in _GROWING:
            return False
        with self._record_failure(path):
            seen = self.disk.stat(path)
            if seen is None or not _is_unchanged(known, seen):
                return False
            if form == "lines":
                ids, values = self._state.read_ids(path)[known.pieces :], [*added.values()]
            else:
                values = [*expected.read_values(self._store, self._state, path, start=known.pieces)]
                ids = [value.id for value in values]
            if len(ids) != len(added) or not added.keys() >= set(ids):
                return False  # they belong elsewhere
            data = expected.render_end(path, values)
            after = self.disk.append(path, data, seen)
            if after is None:
                return False
            checksum, pieces = compute_checksum(data, known.checksum), known.pieces + len(added)
            record = FileRecord(path, after.size, after.mtime_ns, checksum, pieces, len(added))
            self._state.put_content(record, data, form, is_end=True)
            self._report.written += 1
        return True

    def _cut(self, path: str, names: Collection[str]) -> bool:
        """Remove the lines of some records from a page; return False if that is not enough, or not certain."""
        with self._record_failure(path):
            known, found, left = self._state.find(path), self.disk.read(path), self._state.read_ids(path)
            if known is None or known.pieces < 1 or found is None or not _has_same_content(known, found[0]):
                return False  # a person wrote it
            if not left or left != [name for name in self._state.read_lines(path) if name not in names]:
                return False
            self._replace(
                path, found[1], expected.ExpectedContent(layout.cut_lines(found[0], names), len(left))
            )
        return True

    def _write(self, path: str) -> None:
        """Write a file with its content from the store, or remove it."""
        with self._record_failure(path):
            known, seen = self._state.find(path), self.disk.stat(path)
            values = expected.read_values(self._store, self._state, path)
            content = expected.render_values(path, values)
            if layout.parse_form(path) == "lines":
                self._state.set_ids(path, [value.id for value in values])
            if seen is not None:
                self._settle_present(path, seen, known, content)
            elif content is None:
                self._state.drop([path])
            elif known is not None:  # a person has removed it
                self._defer_to_import(path)
            else:
                created = self.disk.create(path, content.data, fsync=_needs_fsync(path))
                self._record_written(path, created, content)

    def _settle_present(
        self, path: str, seen: FileStamp, known: FileRecord | None, content: expected.ExpectedContent | None
    ) -> None:
        """Replace a file unless it contains a hand edit, which may have kept size and time of the file."""
        is_current = known is not None and content is not None and _has_same_content(known, content.data)
        if known is not None and content is not None and is_current and _is_unchanged(known, seen):
            self._state.put([known._replace(pieces=content.pieces)])
            return
        found = self.disk.read(path)
        if found is None:
            self._defer_to_import(path)
            return
        data, seen = found
        if content is not None and data == content.data:
            self._record_written(path, seen, content)
        elif (
            (known is not None and _has_same_content(known, data))
            or _is_torn(path, data, known, content)
            or (content is not None and path.startswith(_SESSIONS))
        ):
            self._replace(path, seen, content)
        else:
            self._defer_to_import(path)

    def _replace(self, path: str, seen: FileStamp, content: expected.ExpectedContent | None) -> None:
        """Replace, extend or remove a file that may go."""
        is_removed = content is None and self.disk.remove(path, seen)
        after = content and self.disk.replace(path, content.data, seen, fsync=_needs_fsync(path))
        while self.disk.recovered:
            self._keep_base(*self.disk.recovered.pop())
        if is_removed:
            self._state.drop([path])
            self._report.removed += 1
        elif content is None:
            self._defer_to_import(path)
        else:
            self._record_written(path, after, content)

    def _record_written(self, path: str, after: FileStamp | None, content: expected.ExpectedContent) -> None:
        """Record that a file was written; without a stamp, that it was changed by somebody else meanwhile."""
        if after is None:
            return self._defer_to_import(path)
        checksum, form = compute_checksum(content.data), layout.parse_form(path)
        record = FileRecord(path, after.size, after.mtime_ns, checksum, content.pieces)
        self._state.put_content(record, content.data, form)
        self._report.written += 1
        return None

    def _defer_to_import(self, path: str) -> None:
        """Leave a file to the import of hand edits, which finds it by its time, and mark it as due."""
        self._report.edited.append(path)
        self._state.mark_due([path])
        if (known := self._state.find(path)) is not None:
            self._state.put([known._replace(mtime_ns=-abs(known.mtime_ns))])

    def _keep_base(self, draft: str, path: str) -> None:
        """Keep the base of an edit that came while its file was replaced, for the import."""
        self._state.put([FileRecord(draft, -1, -1, 0)])  # a later base of the file is not that of the edit
        self._state.copy_base(path, draft)
        self._state.mark_due([draft])
        _log.warning("an edit of %r that came while it was replaced is imported from %r", path, draft)

    @contextlib.contextmanager
    def _record_failure(self, path: str) -> Iterator[None]:
        """Record whether a file could be written, and continue with the others."""
        try:
            yield
        except (OSError, UnsafePath, StoreCorrupt) as error:
            self._report.failed[path] = (error.strerror if isinstance(error, OSError) else "") or str(error)
            self._state.mark_due([path])
        else:
            self.failed.pop(path, None)


def _note(files: _Additions, path: str, value: Value, *, is_added: bool) -> None:
    """Note that a value was added to a file, or that it was changed and perhaps not added before."""
    added = files.setdefault(path, {})
    if added is not None and (is_added or value.id in added):
        added[value.id] = value
    else:
        files[path] = None


def _find_stem(value: Value | None, kind: str) -> str | None:
    """Return the stem of the pages for a record; None for another value, and for a record with its own file."""
    return layout.build_stem(value, kind) if isinstance(value, Record) else None


def _find_own_path(value: Value | None, kind: str) -> str | None:
    """Return the path of the file of a value; None for none, and for a record on a page."""
    return None if value is None or _find_stem(value, kind) is not None else layout.build_path(value)


def _is_torn(
    path: str, data: bytes, known: FileRecord | None, content: expected.ExpectedContent | None
) -> bool:
    """Return whether data is the known file with a part of what should follow, as after a kill."""
    if content is None or layout.parse_form(path) not in _GROWING or not content.data.startswith(data):
        return False
    return known is None or (
        len(data) > known.size and compute_checksum(data[: known.size]) == known.checksum
    )


def _is_unchanged(known: FileRecord, seen: FileStamp) -> bool:
    return known.size == seen.size and known.mtime_ns == seen.mtime_ns


def _has_same_content(known: FileRecord, data: bytes) -> bool:
    return known.size == len(data) and known.checksum == compute_checksum(data)


def _needs_fsync(path: str) -> bool:
    """Return whether to wait for the disk: a page emptied by a power cut would look like a hand edit."""
    return layout.parse_form(path) in {"page", "log"}


# -- another layout ------------------------------------------------------------------------------------------
#
# Before records are written in another layout, all files of the former one are packed beside the database. Only then
# are they marked as due: the mirror writes the new files, and removes the old ones when it is done. A process that is
# killed leaves both, and the next one continues. Erasure removes the packed files.


def _convert(root: Path, disk: AtomicFolder, ledger: FileState, kind: Layout) -> None:
    """Pack the files of another layout and mark them as due, so that the mirror replaces them.

    Args:
        root: The memory's folder.
        disk: Its files.
        ledger: The state, whose layout becomes `kind`.
        kind: The new layout.

    Raises:
        OSError: the files cannot be read or packed; nothing was changed.
    """
    former = [path for path in scan(root, {}).added if _is_former(path, kind)]
    day_files = _list_day_files(root)
    if former or day_files:
        _pack(root, [*former, *day_files], "records" if kind == "pages" else "pages")
        ledger.mark_due(former)
        ledger.advance(NO_PROGRESS)
    ledger.set_layout(kind)
    for path in day_files:
        if (stamp := disk.stat(path)) is not None:
            disk.remove(path, stamp)


def _is_former(path: str, kind: Layout) -> bool:
    if kind == "pages":
        return layout.parse_form(path) == "record"
    place = layout.parse_path(path)
    return place is not None and place.form == "lines" and not place.is_day


def _list_day_files(root: Path) -> list[str]:
    """Return the files of episodic records of earlier versions, which were lines of JSON."""
    found = (root / layout.MEMORY / layout.EPISODIC).glob("*.jsonl")
    files = (file for file in found if file.is_file() and not file.is_symlink())
    return sorted(file.relative_to(root).as_posix() for file in files)


def _pack(root: Path, paths: Iterable[str], kind: str) -> None:
    """Pack files into one that only its owner may read, and wait until it is on the disk."""
    import zipfile  # here: few folders are converted

    targets = (root / f"files.{kind}.backup-{number}.zip" for number in count(1))
    target = next(target for target in targets if not target.exists())
    with (
        create_file(target, overwrite=False) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed,
    ):
        for path in paths:
            if (root / path).is_file() and not (root / path).is_symlink():
                packed.write(root / path, path)
