"""Mirror of the store in files, which follows the journal.

The entries since the number in `files.db` decide which files are affected. Up to the newest entry, they hold
the content; otherwise it is read from the store as it is now, so order and repetition do not matter. What a
killed process did not write, the next one writes. Where the folder or `files.db` was lost, the journal is
followed from its beginning, and only what differs is written.

Before a file is replaced or removed it is read. If its checksum is that of its `FileRecord`, it may go. So may an
earlier content, or what an interrupted append left. Anything else is a hand edit: the file is left as it is,
and stays due until it was imported. `disk.atomic` keeps an edit that comes in the very moment of the step.

A failed write raises nothing to the author of the change, which is in the store already. It is logged,
counted, and tried again with a later change.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reverie.domain.change import Subject
from reverie.domain.conversation import Turn
from reverie.domain.errors import StoreCorrupt, StoreError
from reverie.domain.record import Record
from reverie.domain.text.timestamps import Clock
from reverie.files.disk.atomic import AtomicFolder, FileStamp, UnsafePath
from reverie.files.disk.state import (
    NO_PROGRESS,
    FileRecord,
    FileState,
    LockedFileState,
    MirrorProgress,
    StateBusy,
    StateUnavailable,
    compute_checksum,
    compute_stamp,
)
from reverie.files.expected import (
    ExpectedContent,
    is_earlier_version,
    is_earlier_version_prefix,
    render_expected_content,
    render_record_content,
)
from reverie.files.layout import (
    MEMORY,
    SESSIONS,
    Form,
    build_path,
    parse_form,
    parse_path,
    render_addition,
    render_line,
    render_page,
    render_turns,
)
from reverie.files.mirror.affected import AffectedFiles, FileGrowth, find_affected_files
from reverie.files.mirror.day_files import get_sort_key, parse_sort_key, patch_episodic_file
from reverie.files.pending import PendingChanges
from reverie.files.written_texts import keep_written, read_base_text
from reverie.stores.protocol import Store

_log = logging.getLogger("reverie")

FILES_FAILED = "files.failed"
"""Name of the store's counter of files that could not be written."""

_GROWING: frozenset[Form] = frozenset({"session", "log", "episodic"})
_BATCH = 250
_DUE_AT_ONCE = 100
_PAUSE_S = 0.002
_TOLD = 3
_TOPS = (MEMORY, SESSIONS)
_FORMS: Mapping[Subject, frozenset[Form]] = {
    "record": frozenset({"record", "episodic"}),
    "turn": frozenset({"session"}),
    "session": frozenset({"session"}),
    "page": frozenset({"page"}),
    "paragraph": frozenset({"log"}),
}


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
        disk: The files.
    """

    def __init__(self, root: Path, store: Store, state: FileState, *, clock: Clock) -> None:
        """Mirror `store` below `root`.

        Args:
            root: The memory's folder.
            store: The store.
            state: The state of the files.
            clock: Returns the current time, for the counter of failures.
        """
        self.failed: dict[str, str] = {}
        self._store = store
        self._state = state
        self._clock = clock
        self.disk = AtomicFolder(root)

    # -- writing -----------------------------------------------------------------------------------------

    def write(self, *, batches: int | None = None, retry: bool = True) -> MirrorReport:
        """Write the files of all pending changes, and those that are due.

        Args:
            batches: How many batches of some hundred changes at most; None for all. The lock is released
                between them.
            retry: Whether to write files that are due, such as those whose last write has failed.
        """
        outcome, run = MirrorReport(complete=False), _WriteProgress()
        with self._suppress_errors(outcome):
            while batches is None or run.batches < batches:
                if run.batches:
                    time.sleep(_PAUSE_S)  # others wait for the lock, and must find it free sometimes
                with self._state.lock() as ledger:
                    if not run.batches:
                        self._verify(ledger)
                        self._recover(ledger, outcome)
                    self._prepare(ledger)
                    run.batches += 1
                    run.is_fresh |= not ledger.progress.sequence
                    if self._follow(ledger, run, outcome) and (
                        not retry or self._write_some_due(ledger, run, outcome)
                    ):
                        outcome.complete = True
                        break
        self._report_failures(outcome)
        return outcome

    def prepare(self) -> MirrorReport:
        """Check whose files these are, whether folders were lost, and what killed processes left.

        Call it before hand edits are imported, so that a lost folder does not count as a deletion.
        """
        outcome = MirrorReport()
        with self._suppress_errors(outcome), self._state.lock() as ledger:
            self._verify(ledger)
            self._recover(ledger, outcome)
            self._prepare(ledger)
        self._report_failures(outcome)
        return outcome

    def needs_fresh_start(self) -> bool:
        """Return whether the state of the files, or a whole folder of them, is missing."""
        if not self._state.progress().sequence:
            return self._store.sequence() > 0
        return any(not self.disk.has_folder(top) and self._state.known(f"{top}/") for top in _TOPS)

    def count_pending_changes(self) -> int:
        """Return how many changes the files do not show yet."""
        newest = 0
        with self._suppress_errors(MirrorReport()):
            newest = self._store.sequence()
            return max(0, newest - self._state.progress().sequence)
        return newest

    # -- following the journal ---------------------------------------------------------------------------

    def _follow(self, ledger: LockedFileState, run: _WriteProgress, outcome: MirrorReport) -> bool:
        """Write the next batch of the journal; return whether it was the last."""
        rows = self._store.journal(after=ledger.progress.sequence, limit=_BATCH)
        if not rows:
            return True
        newest = self._store.sequence()  # before any content is read
        affected = find_affected_files(rows)
        for path, last in affected.last.items():
            if last <= run.shown.get(path, 0):
                for places in (affected.places, affected.pages, affected.growing):
                    places.pop(path, None)
        affected.erased -= {subject for subject in affected.erased if run.compared.get(subject, 0) >= newest}
        ledger.prefetch([*affected.places, *affected.pages, *affected.growing])
        with self.disk.checking_folders_once():
            if rows[-1].sequence == newest and not run.is_fresh:
                self._take(ledger, affected, outcome)
            else:
                self._take_present(ledger, affected, outcome)
        whole = (path for path in affected.last if parse_form(path) != "episodic")  # a day is patched
        run.shown.update(dict.fromkeys(whole, newest))
        run.compared.update(dict.fromkeys(affected.erased, newest))
        ledger.advance(MirrorProgress(rows[-1].sequence, compute_stamp(rows[-1])))
        return rows[-1].sequence >= newest

    def _take(self, ledger: LockedFileState, affected: AffectedFiles, outcome: MirrorReport) -> None:
        """Write the files of the newest changes, whose entries contain all that is needed."""
        for path, ids in affected.places.items():
            new = affected.arrived.get(path) == ids and parse_form(path) == "episodic"
            if not new or not self._append_to_day(
                ledger, path, [affected.records[name] for name in ids], outcome
            ):
                self._write_records(ledger, path, ids, affected.records, outcome)
        for path, page in affected.pages.items():
            self._write(ledger, path, None if page is None else ExpectedContent(render_page(page)), outcome)
        for path, growth in affected.growing.items():
            if not self._append_growth(ledger, path, growth, outcome):
                self._write_present(ledger, path, outcome)
        self._compare(ledger, affected.erased, outcome)

    def _take_present(self, ledger: LockedFileState, affected: AffectedFiles, outcome: MirrorReport) -> None:
        """Write the files of earlier changes, with their content from the store."""
        records = self._fetch_records(affected.records)
        for path, ids in affected.places.items():
            if ids <= records.keys():
                self._write_records(ledger, path, ids, records, outcome)
            else:
                self._write_present(ledger, path, outcome)  # which reports what cannot be read
        for path in (*affected.pages, *affected.growing):
            self._write_present(ledger, path, outcome)
        self._compare(ledger, affected.erased, outcome)

    def _fetch_records(self, ids: Iterable[str]) -> dict[str, Record | None]:
        """Return records by id, None for removed ones, without those that cannot be read."""
        wanted = list(ids)
        try:
            found = {record.id: record for record in self._store.records(wanted)}
        except StoreCorrupt:
            return self._fetch_one_by_one(wanted)
        return {name: found.get(name) for name in wanted}

    def _fetch_one_by_one(self, wanted: Sequence[str]) -> dict[str, Record | None]:
        found: dict[str, Record | None] = {}
        for name in wanted:
            with contextlib.suppress(StoreCorrupt):
                found[name] = next(iter(self._store.records([name])), None)
        return found

    # -- one file ----------------------------------------------------------------------------------------

    def _write_records(
        self,
        ledger: LockedFileState,
        path: str,
        ids: Iterable[str],
        records: Mapping[str, Record | None],
        outcome: MirrorReport,
    ) -> None:
        """Write the file where records stand, or stood."""
        here = {name: _filter_by_path(records[name], path) for name in ids}
        if parse_form(path) == "episodic":
            self._write_day(ledger, path, here, outcome)
            return
        (record,) = here.values()
        self._write(ledger, path, None if record is None else render_record_content(record), outcome)

    def _write_day(
        self, ledger: LockedFileState, path: str, changed: Mapping[str, Record | None], outcome: MirrorReport
    ) -> None:
        """Write an episodic file from its content and the changes; finding the other records is slow."""
        with self._record_failure(ledger, path, outcome):
            known, found = ledger.find(path), self.disk.read(path)
            if known is None and found is None:
                old = b""
            elif (
                known is not None
                and known.pieces >= 0
                and found is not None
                and _has_same_content(known, found[0])
            ):
                old = found[0]
            else:
                self._write_present(ledger, path, outcome)
                return
            data = patch_episodic_file(old, changed)
            content = ExpectedContent(data, data.count(b"\n")) if data else None
            self._settle(ledger, path, content, outcome)

    def _append_to_day(
        self, ledger: LockedFileState, path: str, arrived: Sequence[Record | None], outcome: MirrorReport
    ) -> bool:
        """Append new records to an episodic file, if they come after all that stand in it."""
        known = ledger.find(path)
        new = sorted(
            (record for each in arrived if (record := _filter_by_path(each, path))), key=get_sort_key
        )
        if known is None or known.pieces < 0 or len(new) < len(arrived):
            return False
        with self._record_failure(ledger, path, outcome):
            seen = self.disk.stat(path)
            last = (
                self.disk.read_last_line(path, seen)
                if seen is not None and _is_unchanged(known, seen)
                else None
            )
            if last is None or parse_sort_key(last) >= get_sort_key(new[0]):
                return False
            return self._append(
                ledger, known, ExpectedContent(b"".join(map(render_line, new)), len(new)), outcome
            )
        return True

    def _append_growth(
        self, ledger: LockedFileState, path: str, growth: FileGrowth, outcome: MirrorReport
    ) -> bool:
        """Append what is new to a file; return False if that is not enough, or not certain."""
        known = ledger.find(path)
        if known is None or known.pieces < 0 or not growth.only:
            return False
        if parse_form(path) == "session":
            turns = [value for value in growth.added if isinstance(value, Turn)]
            if not _follow_on(turns, known.pieces):
                return False
            return self._append(ledger, known, ExpectedContent(render_turns(turns), len(turns)), outcome)
        new = self._store.paragraphs(page=growth.name, start=known.pieces)
        if [paragraph.id for paragraph in new] != [value.id for value in growth.added]:
            return False
        data = render_addition(growth.name, new, to_empty=known.pieces == 0)
        return self._append(ledger, known, ExpectedContent(data, len(new)), outcome)

    def _append(
        self, ledger: LockedFileState, known: FileRecord, more: ExpectedContent, outcome: MirrorReport
    ) -> bool:
        """Append to a known and unchanged file; return False if it is not."""
        with self._record_failure(ledger, known.path, outcome):
            seen = self.disk.stat(known.path)
            if seen is None or not _is_unchanged(known, seen):
                return False
            after = self.disk.append(known.path, more.data, seen)
            if after is None:
                return False
            number = compute_checksum(more.data, known.checksum)
            pieces = known.pieces + more.pieces
            record = FileRecord(known.path, after.size, after.mtime_ns, number, pieces)
            ledger.append_text(record, more.data)
            outcome.written += 1
        return True

    def _write_present(self, ledger: LockedFileState, path: str, outcome: MirrorReport) -> None:
        """Write a file with its content from the store."""
        with self._record_failure(ledger, path, outcome):
            self._settle(ledger, path, render_expected_content(self._store, path), outcome)

    def _write(
        self, ledger: LockedFileState, path: str, content: ExpectedContent | None, outcome: MirrorReport
    ) -> None:
        """Write a file with some content, or remove it."""
        with self._record_failure(ledger, path, outcome):
            self._settle(ledger, path, content, outcome)

    def _settle(
        self, ledger: LockedFileState, path: str, content: ExpectedContent | None, outcome: MirrorReport
    ) -> None:
        known, seen = ledger.find(path), self.disk.stat(path)
        if (
            known is not None
            and seen is not None
            and content is not None
            and _is_unchanged(known, seen)
            and _has_same_content(known, content.data)
        ):
            if known.pieces != content.pieces:
                ledger.put([known._replace(pieces=content.pieces)])
        elif seen is None:
            self._settle_absent(ledger, path, known, content, outcome)
        else:
            self._settle_present(ledger, path, known, content, outcome)

    def _settle_absent(
        self,
        ledger: LockedFileState,
        path: str,
        known: FileRecord | None,
        content: ExpectedContent | None,
        outcome: MirrorReport,
    ) -> None:
        """Create a missing file, unless a person has removed it."""
        if content is None:
            ledger.drop([path])
        elif known is not None:  # a person has removed it
            self._defer_to_import(ledger, path, outcome)
        else:
            self._create_file(ledger, path, content, outcome)

    def _settle_present(
        self,
        ledger: LockedFileState,
        path: str,
        known: FileRecord | None,
        content: ExpectedContent | None,
        outcome: MirrorReport,
    ) -> None:
        """Replace a file only if it contains no hand edit; one may have kept its size and its time."""
        found = self.disk.read(path)
        if found is None:
            self._defer_to_import(ledger, path, outcome)
            return
        data, seen = found
        if content is not None and data == content.data:
            keep_written(ledger, _to_written(path, seen, content), content.data)
        elif known is not None and _has_same_content(known, data):
            self._put(ledger, path, seen, known, content, outcome)
        elif (
            _is_torn(path, data, known, content)
            or is_earlier_version(self._store, path, data)
            or PendingChanges(self._store, ledger.progress.sequence).may_have_written(path, data)
        ):
            ledger.put_text(FileRecord(path, seen.size, seen.mtime_ns, compute_checksum(data)), data)
            self._put(ledger, path, seen, None, content, outcome)
        elif known is None and content is None:
            return  # a person's own file
        else:
            self._defer_to_import(ledger, path, outcome)

    def _put(
        self,
        ledger: LockedFileState,
        path: str,
        seen: FileStamp,
        known: FileRecord | None,
        content: ExpectedContent | None,
        outcome: MirrorReport,
    ) -> None:
        """Replace, extend or remove a file that may go."""
        if content is None:
            if self.disk.remove(path, seen):
                ledger.drop([path])
                outcome.removed += 1
            else:
                self._defer_to_import(ledger, path, outcome)
            return
        if known is not None and _is_extension(path, known, content.data):
            after = self.disk.append(path, content.data[known.size :], seen)
        else:
            after = self.disk.replace(path, content.data, seen, fsync=_needs_fsync(path))
            self._record_recovered(ledger, known)
        if after is None:
            self._defer_to_import(ledger, path, outcome)
        else:
            keep_written(ledger, _to_written(path, after, content), content.data)
            outcome.written += 1

    def _create_file(
        self, ledger: LockedFileState, path: str, content: ExpectedContent, outcome: MirrorReport
    ) -> None:
        after = self.disk.create(path, content.data, fsync=_needs_fsync(path))
        if after is None:  # somebody else has just made one
            self._defer_to_import(ledger, path, outcome)
        else:
            keep_written(ledger, _to_written(path, after, content), content.data)
            outcome.written += 1

    def _defer_to_import(self, ledger: LockedFileState, path: str, outcome: MirrorReport) -> None:
        """Leave a file to the import of hand edits, which finds it by its time, and mark it as due."""
        outcome.edited.append(path)
        ledger.mark_due([path])
        if (known := ledger.find(path)) is not None:
            if ledger.read_text(path) is None:  # the journal may be thinned before the edit can be imported
                ledger.keep_text(path, read_base_text(self._store, ledger, path))
            ledger.put([known._replace(mtime_ns=-1)])

    def _record_recovered(self, ledger: LockedFileState, known: FileRecord | None) -> None:
        """Keep the base versions of edits that were put beside their files, for the import."""
        while self.disk.recovered:
            path, _ = self.disk.recovered.pop()
            if known is not None:
                ledger.keep_text(path, read_base_text(self._store, ledger, known.path))
            _log.warning("an edit of a file that came while it was replaced is kept as %r", path)

    # -- many files --------------------------------------------------------------------------------------

    def _compare(self, ledger: LockedFileState, subjects: Iterable[Subject], outcome: MirrorReport) -> None:
        """Write all files of some forms: something was erased, and nothing says what."""
        forms = frozenset[Form]().union(*(_FORMS[subject] for subject in subjects))
        if not forms:
            return
        paths = [path for path in ledger.known() if parse_form(path) in forms]
        names = {path: place.name for path in paths if (place := parse_path(path)) and place.form == "record"}
        records = self._fetch_records(dict.fromkeys(names.values()))
        for path in paths:
            name = names.get(path)
            if name is None:
                self._write_present(ledger, path, outcome)
            elif name in records and _filter_by_path(records[name], path) is None:
                self._write(ledger, path, None, outcome)

    def _write_due(self, ledger: LockedFileState, paths: Iterable[str], outcome: MirrorReport) -> None:
        """Write files that are due."""
        for path in paths:
            edited = len(outcome.edited)
            self._write_present(ledger, path, outcome)
            if len(outcome.edited) == edited and path not in outcome.failed:
                ledger.settle([path])

    def _write_some_due(self, ledger: LockedFileState, run: _WriteProgress, outcome: MirrorReport) -> bool:
        """Write some more of the files that are due; return whether these were the last."""
        run.tried.update(outcome.edited, outcome.failed)
        due = [path for path in ledger.due() if path not in run.tried]
        self._write_due(ledger, due[:_DUE_AT_ONCE], outcome)
        run.tried.update(due[:_DUE_AT_ONCE])
        return len(due) <= _DUE_AT_ONCE

    # -- after failures ----------------------------------------------------------------------------------

    def _verify(self, ledger: LockedFileState) -> None:
        """Clear the state if it belongs to another store, or to one that was restored from a backup."""
        sequence, stamp = ledger.progress
        if not sequence:
            return
        rows = self._store.journal(after=sequence - 1, until=sequence, limit=1)
        if not rows or compute_stamp(rows[0]) != stamp:
            _log.warning("the state of the files belongs to another store: all files are compared")
            ledger.clear()

    def _prepare(self, ledger: LockedFileState) -> None:
        """Record folders that are missing as a whole: they were lost, not deleted by hand."""
        for top in _TOPS:
            if not self.disk.has_folder(top) and (missing := ledger.known(f"{top}/")):
                _log.warning("the folder %r is missing and is written again from the store", top)
                ledger.drop(missing)
                ledger.advance(NO_PROGRESS)

    def _recover(self, ledger: LockedFileState, outcome: MirrorReport) -> None:
        """Remove what killed processes left, and keep what is an edit."""
        for draft, path in self.disk.list_drafts():
            with self._record_failure(ledger, path, outcome):
                found, known = self.disk.read(draft), ledger.find(path)
                if found is None:
                    continue
                data, seen = found
                if known is not None and _is_unchanged(known, seen) and self.disk.stat(path) is None:
                    self.disk.put_back(draft, path)
                elif (
                    not data
                    or (known is not None and _has_same_content(known, data))
                    or is_earlier_version_prefix(self._store, path, data)
                ):
                    self.disk.remove_draft(draft)
                else:
                    self.disk.put_back(draft, path)
                    self._record_recovered(ledger, known)

    # -- failures ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _record_failure(self, ledger: LockedFileState, path: str, outcome: MirrorReport) -> Iterator[None]:
        """Record whether a file could be written, and continue with the others."""
        try:
            yield
        except (OSError, UnsafePath, StoreCorrupt) as error:
            outcome.failed[path] = _format_reason(error)
            ledger.mark_due([path])
        else:
            self.failed.pop(path, None)

    @contextlib.contextmanager
    def _suppress_errors(self, outcome: MirrorReport) -> Iterator[None]:
        """Record that nothing could be written: the state is locked or broken, or the store is."""
        try:
            yield
        except StateBusy:
            outcome.complete, outcome.is_blocked = False, True
        except StoreCorrupt as error:  # users of the store get this error, with advice
            _log.info("files not written: %s", error)
            self.failed[""] = outcome.failed[""] = str(error)
        except (StateUnavailable, StoreError) as error:
            outcome.failed[""] = str(error)
            outcome.complete = False
        else:
            self.failed.pop("", None)

    def _report_failures(self, outcome: MirrorReport) -> None:
        """Log and count new failures."""
        new = {path: why for path, why in outcome.failed.items() if path not in self.failed}
        self.failed.update(outcome.failed)
        for path, why in list(new.items())[:_TOLD]:
            _log.warning("%s not written, tried again with a later change: %s", path or "files", why)
        if len(new) > _TOLD:
            _log.warning("%d more files not written, tried again with a later change", len(new) - _TOLD)
        if not new:
            return
        try:
            self._store.commit([], actor="files", at=self._clock(), counts={FILES_FAILED: len(new)})
        except StoreError as error:  # users of the store get this error
            _log.info("%d failed writes of files could not be counted: %s", len(new), error)


@dataclass(slots=True)
class _WriteProgress:
    """Progress of one call of `write`.

    Attributes:
        batches: Number of batches of the journal.
        is_fresh: Whether the state was lost, so that the files are compared with the store and not with the
            journal, of which a part may be missing.
        shown: The last change that each path shows.
        compared: The last change that all files of a kind of value show.
        tried: Due files that were tried.
    """

    batches: int = 0
    is_fresh: bool = False
    shown: dict[str, int] = field(default_factory=dict)
    compared: dict[Subject, int] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)


def _filter_by_path(record: Record | None, path: str) -> Record | None:
    return record if record is not None and build_path(record) == path else None


def _follow_on(turns: Sequence[Turn], position: int) -> bool:
    """Return whether turns have consecutive positions from a given one."""
    return all(turn.position == place for place, turn in enumerate(turns, position))


def _is_torn(path: str, data: bytes, known: FileRecord | None, content: ExpectedContent | None) -> bool:
    """Return whether data is the known file with a part of what should follow, as after a kill."""
    if content is None or parse_form(path) not in _GROWING or not content.data.startswith(data):
        return False
    return known is None or (
        len(data) > known.size and compute_checksum(data[: known.size]) == known.checksum
    )


def _is_extension(path: str, known: FileRecord, data: bytes) -> bool:
    """Return whether data is the known content with more appended."""
    return (
        parse_form(path) in _GROWING
        and len(data) > known.size
        and compute_checksum(data[: known.size]) == known.checksum
    )


def _is_unchanged(known: FileRecord, seen: FileStamp) -> bool:
    return known.size == seen.size and known.mtime_ns == seen.mtime_ns


def _has_same_content(known: FileRecord, data: bytes) -> bool:
    return known.size == len(data) and known.checksum == compute_checksum(data)


def _to_written(path: str, seen: FileStamp, content: ExpectedContent) -> FileRecord:
    return FileRecord(path, seen.size, seen.mtime_ns, compute_checksum(content.data), content.pieces)


def _needs_fsync(path: str) -> bool:
    """Return whether to wait for the disk: a page emptied by a power cut would look like a hand edit."""
    return parse_form(path) in {"page", "log"}


def _format_reason(error: OSError | UnsafePath | StoreCorrupt) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
