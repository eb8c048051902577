"""The readable folder of one memory: when files are written and hand edits imported.

Files follow the journal on a background thread, when nothing has changed for a tenth of a second (half a second after
many changes at once) or after two seconds, so that many changes are written together (`notice`). `flush` does not wait
for that, nor do `close` and the end of the interpreter. At every turn the files are examined (`refresh`): the pages
that stand in prompts always, and all others if that takes a third of a millisecond. Otherwise all files are scanned in
at most a fiftieth of the time: by the turn if that takes some milliseconds, else on the same thread.

`mirror` writes files, and `hand_edits` imports edits. Nothing here raises because of a file: what cannot be
read or written is logged, counted, and returned by `problems`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from reverie.domain.change import JournalEntry, Value
from reverie.domain.errors import InvalidInput, StoreCorrupt, StoreError, StoreUnavailable, quote_value
from reverie.domain.page import HISTORY, format_daily_note_name
from reverie.domain.page import MEMORY as MEMORY_PAGE
from reverie.domain.text.validation import validate_values
from reverie.files.atomic import AtomicFolder
from reverie.files.claim import RENEW_S, claim_folder
from reverie.files.layout import Layout, build_page_path, parse_path
from reverie.files.mirror import MirrorReport, MirrorWriter
from reverie.files.scan import QUIET_S, SAVING_S, HandEditReport, scan
from reverie.files.state import FileState
from reverie.stores.base import StoreProblem
from reverie.stores.forks import close_for_forks
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.files.hand_edits.importer import ConflictFile, HandEditImporter

_log = logging.getLogger("reverie")

FREE_S = 0.0003
"""Maximum duration of a scan of all files that is run at every turn."""

DELAY_S = 0.1
"""How long nothing has changed before files are written, a change of the last commit, at most five times that. Where
changes do not end, twenty times that."""

AT_ONCE = 1_000
"""Number of pending changes that are written while the caller waits; more go to the background."""

QUICK_S = 0.02
"""Maximum duration of a scan that is run at some turns, at most one a second; longer ones run in the background."""

FILE_S = 0.00001
"""Estimated duration of the scan of one file, before any was measured."""

SHARE = 0.02
"""Share of the time that longer scans may take."""

_FEW_FILES = 2_000
_DUE_EVERY_S = 1.0
_BATCHES = 4
_LONGEST_WAIT_S = 86_400
_IMPORT, _WRITE = "import", "write"
_CLOSED = "the memory has been closed"
_CATCHING_UP = "many changes are being written to the files: try again in a moment"


class MemoryFolder:
    """Files of one memory. Safe for several threads, several processes, and across forks.

    Attributes:
        state: The state of the files.
    """

    def __init__(self, root: Path, writer: StoreWriter, *, layout: Layout = "pages") -> None:
        """Keep the files of a store in `root`; nothing is read or written before `start`.

        Args:
            root: The memory's folder, which must exist.
            writer: Commits hand edits; it publishes them to others, not to this folder.
            layout: Where records are: on pages, or each in a file of its own.
        """
        self._root = root
        self._writer = writer
        self._store = writer.store
        self._clock = writer.clock
        self.state = FileState(root)
        self._mirror = MirrorWriter(root, writer.store, self.state, clock=writer.clock, layout=layout)
        self._importer: HandEditImporter | None = None
        self._changed = threading.Condition()
        self._jobs: list[str] = []
        self._thread: threading.Thread | None = None
        self._working = False
        self._waiting_callers = 0
        self._catching_up = False
        self._own_sequence = 0
        self._has_composed = False
        self._quiet_until = 0.0
        self._closed = False
        self._failure = ""
        self._claimed_at = time.monotonic()
        self._other_machine = ""
        self._scan_s: float | None = None
        self._scanned_at = 0.0
        self._retry_at = 0.0
        _OPEN.add(self)
        close_for_forks(self)

    # -- opening and closing -----------------------------------------------------------------------------

    def start(self) -> None:
        """Import hand edits and write what is missing; in the background if that is much."""
        with self._suppress_errors():
            self._mirror.prepare()
            if len(self.state.known()) <= _FEW_FILES and self._mirror.count_pending_changes() <= AT_ONCE:
                self._sync()
            else:
                self._schedule_job(_IMPORT)

    def close(self) -> None:
        """Write the files of what this process has changed, and close the state. Closing twice is allowed.

        A folder that was lost is written again by the next process, if nothing was changed here.
        """
        with self._changed:
            is_closed, self._closed = self._closed, True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._suppress_errors():
            if not is_closed and self._has_own_changes():
                self._mirror.write()
        self.state.close()

    def hurry(self) -> None:
        """Write pending changes at once from now on, because nobody else uses the memory any more."""
        with self._changed:
            self._waiting_callers += 1
            self._changed.notify_all()

    # -- keeping the files up to date --------------------------------------------------------------------

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Schedule the writing of changes that this process has just made.

        The files of changes that erase something are written before this returns.

        Args:
            rows: The journal entries of one commit; none if a living page was composed.
        """
        if self._closed:
            return
        self._renew_claim()
        with self._changed:  # another thread may have published later rows already
            self._own_sequence = max(self._own_sequence, *(row.sequence for row in rows[-1:]), 0)
            self._has_composed |= not rows
            self._quiet_until = time.monotonic() + DELAY_S * min(5, len(rows))
        self._schedule_job(_WRITE)
        if any(row.forgotten for row in rows):
            self.flush()

    def notice_erasure(self, rows: Sequence[JournalEntry], values: Iterable[Value]) -> None:
        """Note what files show erased values, so that not all files have to be compared; call it before `notice`.

        Args:
            rows: The journal entries of the erasure.
            values: The erased values, in all their versions.
        """
        self._mirror.erased = {row.sequence for row in rows}, list(values)

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Write the files of all changes so far, and wait until the background has nothing to do.

        Args:
            timeout_s: How long to wait at most, in seconds; at most a day.

        Returns:
            Whether the files show all changes, except those that wait for the import of a hand edit. If not,
            `problems` says why, or the time was too short.

        Raises:
            InvalidInput: `timeout_s` is not such a number.
        """
        if not (isinstance(timeout_s, int | float) and 0 <= timeout_s <= _LONGEST_WAIT_S):
            raise InvalidInput(
                f"timeout_s is {quote_value(timeout_s)}: it is a number from 0 to {_LONGEST_WAIT_S:,}"
            )
        with self._suppress_errors():
            newest = self._store.sequence()
            self._schedule_job(_WRITE)
            with self._changed:
                self._waiting_callers += 1
                self._changed.notify_all()
                try:
                    if not self._changed.wait_for(lambda: not (self._jobs or self._working), timeout_s):
                        return False  # the background has the state locked
                finally:
                    self._waiting_callers -= 1
            return self.state.progress.sequence >= newest and not self._mirror.failed
        return False

    def refresh(self) -> None:
        """Import hand edits; called at every turn.

        The two pages that stand in prompts and today's notes are always examined; all files if that takes at most
        0.3 ms, or at most 20 ms and less than a fiftieth of the time since the last scan.
        """
        if self._closed or self._catching_up:
            return
        self._renew_claim()
        with self._suppress_errors():
            if self._mirror.needs_fresh_start():
                self.start()
            else:
                took = len(self.state.known()) * FILE_S if self._scan_s is None else self._scan_s
                is_due = time.monotonic() - self._scanned_at > (took - FREE_S) / SHARE
                if (is_due and took <= QUICK_S) or self._has_changed_page():
                    self._take_in()
                if is_due and took > QUICK_S:
                    self._schedule_job(_IMPORT)
            if self._mirror.count_pending_changes() or (
                time.monotonic() >= self._retry_at and self.state.due()
            ):
                self._schedule_job(_WRITE)  # what killed processes did not write, and what is due

    def take_in(self) -> HandEditReport:
        """Import hand edits, and write the files that change.

        Returns:
            The hand edits; none if the files could not be examined, with the reason.
        """
        if self._closed or self._catching_up:
            return HandEditReport(failure=_CLOSED if self._closed else _CATCHING_UP)
        report = HandEditReport()
        with self._suppress_errors():
            self._mirror.prepare()
            if self._mirror.needs_fresh_start():
                self._write_all()
            report = self._take_in()
        report.failure = self._failure
        return report

    def sync(self) -> None:
        """Import every hand edit, then write every file that differs from the store."""
        if not self._closed:
            self.flush()
            with self._suppress_errors():
                self._sync()

    def restore(self, paths: Sequence[str]) -> None:
        """Repair files, ignoring their state: old versions are written again, edits imported.

        Args:
            paths: Which, relative to the memory's folder; missing ones are written again.

        Raises:
            InvalidInput: one is not the path of a file of a memory; nothing was done.
        """
        for path in validate_values(paths, name="paths", of="paths of files"):
            if not isinstance(path, str) or parse_path(path) is None:
                raise InvalidInput(f"path is {quote_value(path)}: name a file below memory/ or sessions/")
        if self._closed:
            return
        with self._suppress_errors():
            with self.state.lock() as ledger:
                ledger.drop(paths)
                ledger.mark_due(paths)
            self._sync()

    # -- problems ---------------------------------------------------------------------------------------

    def find_unwritten(self) -> dict[str, str]:
        """Return why files do not show the latest changes, by path; the empty path stands for all files."""
        is_complete = self.flush()
        due = {""}
        with self._suppress_errors():
            due |= {*self.state.due()}
        unwritten = {path: why for path, why in self._mirror.failed.items() if path in due}
        if self._failure or not (unwritten or is_complete or self._mirror.failed):
            return {"": self._failure or "others had them locked for too long"}
        return unwritten

    def problems(self) -> list[StoreProblem]:
        """Return the files that could not be written or imported, of those that were tried so far."""
        room = "see that there is room and that the folder is writable; it is tried again automatically"
        found = [
            (f"{repr(path) if path else 'no file'} could not be written: {why}", room)
            for path, why in sorted(self._mirror.failed.items())
        ]
        for broken in self._hands.problems():
            what = f"{broken.path!r} could not be imported: {broken.why}"
            found.append((what, "correct the file; until then its last good content holds"))
        if self._other_machine:
            found.append((self._other_machine, "close the memory on one of the machines"))
        if self._failure:
            found.append((f"hand edits were not imported: {self._failure}", "see the log"))
        return [StoreProblem(what=what, fix=fix) for what, fix in found]

    def conflicts(self) -> list[ConflictFile]:
        """Return the conflicts between hand edits and the program that are not settled yet."""
        with self._suppress_errors():
            return self._hands.conflicts()
        return []

    # -- the work itself ---------------------------------------------------------------------------------

    def _renew_claim(self) -> None:
        """Record now and then that this machine uses the folder; report another one that does."""
        if time.monotonic() - self._claimed_at < RENEW_S:
            return
        self._claimed_at = time.monotonic()
        try:
            claim_folder(self._root)
            self._other_machine = ""
        except StoreUnavailable as error:
            if not self._other_machine:
                _log.error("two machines use one folder: %s", error)
            self._other_machine = str(error)

    def _sync(self) -> None:
        self._mirror.prepare()
        if self._mirror.needs_fresh_start() or self._mirror.count_pending_changes() > AT_ONCE:
            self._write_all()  # first find out which files are up to date
        if not self._closed:
            self._take_in(wait_s=SAVING_S)
            self._write_all()

    def _write_all(self) -> None:
        """Write all pending changes, until that is done, others hold the lock, or the folder is closed."""
        while self._write_some().has_more and not self._closed:
            pass

    def _write_some(self, *, retry: bool = True) -> MirrorReport:
        """Write some thousand pending changes.

        Hand edits are not imported while many changes are pending.

        Args:
            retry: Whether to write files that are due, such as those whose last write has failed.
        """
        outcome = MirrorReport()
        is_long, began = self._mirror.count_pending_changes() > AT_ONCE, time.monotonic()
        try:
            self._catching_up = is_long
            self._has_composed = False
            outcome = self._mirror.write(batches=_BATCHES, retry=retry)
        finally:
            self._catching_up = is_long and outcome.has_more
        if retry and (outcome.failed or outcome.edited):
            now = time.monotonic()
            self._retry_at = now + max(_DUE_EVERY_S, (now - began) / SHARE)
        return outcome

    def _has_own_changes(self) -> bool:
        """Return whether changes of this process are pending."""
        return self._has_composed or self._own_sequence > self.state.progress.sequence

    def _take_in(self, *, wait_s: float = QUIET_S) -> HandEditReport:
        began = time.monotonic()
        is_unedited = self._importer is None and self._is_unedited()
        report = HandEditReport() if is_unedited else self._hands.take_in(wait_s=wait_s)
        is_first, self._scanned_at = not self._scanned_at, time.monotonic()
        if report:
            self._write_all()
        elif not is_first:  # it also imports
            self._scan_s = self._scanned_at - began
        return report

    @property
    def _hands(self) -> HandEditImporter:
        from reverie.files.hand_edits.importer import HandEditImporter  # here: most turns have no hand edits

        with self._changed:
            self._importer = self._importer or HandEditImporter(self._writer, self.state, self._root)
        return self._importer

    def _is_unedited(self) -> bool:
        """Return whether all files are as they were written, so that the importer is not needed."""
        found = scan(self._root, self.state.known())
        has_news = found.changed or found.added or found.missing or found.odd or found.gone
        return not (has_news or AtomicFolder(self._root).list_drafts())

    def _has_changed_page(self) -> bool:
        """Return whether one of the pages that stand in prompts is not as it was written."""
        today = format_daily_note_name(self._clock().astimezone(UTC).date())
        return any(self._mirror.is_changed(build_page_path(name)) for name in (MEMORY_PAGE, HISTORY, today))

    # -- the background ----------------------------------------------------------------------------------

    def _schedule_job(self, job: str) -> None:
        """Schedule a job for the background thread, which is started if need be and ends with the last job."""
        with self._changed:
            if self._closed:
                return
            if job not in self._jobs:
                self._jobs.append(job)
            if self._thread is None and not _is_ending:  # the end of the interpreter stops threads
                self._thread = threading.Thread(target=self._run_jobs, name="reverie-files", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:
                    self._thread = None
            if self._thread is not None:
                return
        self._run_jobs()

    def _run_jobs(self) -> None:
        try:
            while (job := self._take_job()) is not None:
                with self._suppress_errors():
                    if job == _IMPORT:
                        self._sync()
                        continue
                    outcome = self._write_some(
                        retry=bool(self._waiting_callers) or time.monotonic() >= self._retry_at
                    )
                    if outcome.has_more or (outcome.is_blocked and self._thread is not None):
                        with self._changed:
                            self._jobs += [] if _WRITE in self._jobs else [_WRITE]
        finally:
            with self._changed:
                self._working = False
                if self._thread is threading.current_thread():
                    self._thread = None
                self._changed.notify_all()

    def _take_job(self) -> str | None:
        """Return the next job; None if there is none, and the thread ends."""
        with self._changed:
            self._working = False
            began = time.monotonic()
            while self._jobs == [_WRITE] and self._thread and not (self._waiting_callers or self._closed):
                until = min(max(began + DELAY_S, self._quiet_until), began + DELAY_S * 20)
                if time.monotonic() >= until:
                    break
                self._changed.wait(until - time.monotonic())
            if self._closed:
                self._jobs.clear()
            self._working = bool(self._jobs)
            if not self._working:
                self._thread = None
            self._changed.notify_all()
            return self._jobs.pop(0) if self._working else None

    @contextlib.contextmanager
    def _suppress_errors(self) -> Iterator[None]:
        """Log errors: a change or turn must not fail because of files."""
        try:
            yield
        except StoreCorrupt as error:  # users of the store get this error, with advice
            self._failure = str(error)
        except (StoreError, OSError) as error:
            if not self._closed and str(error) not in (self._failure, self._mirror.failed.get("")):
                _log.warning("the files could not be examined: %s", error)
            self._failure = str(error)
        else:
            self._failure = ""

    def close_for_fork(self) -> None:
        """Leave everything as it is."""

    def reset_after_fork(self, is_clean: bool) -> None:
        """Reset the thread, which a child does not have, and its lock; the parent writes what is pending."""
        self._changed = threading.Condition()
        self._jobs, self._thread = [], None
        self._working = self._catching_up = False
        self._waiting_callers = self._own_sequence = 0


_OPEN: weakref.WeakSet[MemoryFolder] = weakref.WeakSet()


_is_ending = False


@atexit.register
def _write_at_exit() -> None:
    """Write the files of memories that were not closed, and from now on those of every change at once."""
    global _is_ending
    _is_ending = True
    for folder in list(_OPEN):
        if not folder._closed and folder._root.is_dir():
            with folder._suppress_errors():
                if folder._has_own_changes():
                    folder.flush()
