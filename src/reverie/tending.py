"""What can a person do with a memory as a whole? Take back, forget, check, copy, and let it think.

All of it is seldom asked for, so each part is imported when it is. `Memory` is this and what is asked for
every day.
"""

from __future__ import annotations

import os
import threading
from abc import ABC
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reverie.consolidation.rule_learning import build_cursor_name
from reverie.context.ledger import build_shown_cursor
from reverie.domain.change import JournalEntry
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Origin
from reverie.files.profile import Profile
from reverie.reader import MemoryReader
from reverie.repositories.records import RecordRepository
from reverie.search.index.search_index import SearchIndex
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.redacting import unwrap
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.admin.doctor import Diagnosis
    from reverie.admin.erasure.eraser import Eraser, ErasureReport
    from reverie.admin.erasure.redact_stored import RedactionReport, StoredSecretRedactor
    from reverie.admin.history.undo import UndoResult
    from reverie.admin.transfer.backup import Backup
    from reverie.admin.transfer.importer import ImportReport
    from reverie.consolidation.cycle import ApplyResult
    from reverie.consolidation.plan import Plan
    from reverie.consolidation.worker import Worker
    from reverie.files.folder import MemoryFolder
    from reverie.llm.protocol import Answering, Model
    from reverie.snapshot import Snapshot


class Tending(MemoryReader, ABC):
    """The part of a memory that looks after it. Safe to use from several threads."""

    path: Path | None
    folder: MemoryFolder | None
    settings: Settings
    _index: SearchIndex
    _writer: StoreWriter
    _lock: threading.Lock
    _sessions: dict[str, Session]
    _profile: Profile | None
    _model: Model | Answering | str | None
    _prompts: Path | None
    _saving: RecordRepository
    _worker: Worker | None

    # -- taking back -------------------------------------------------------------------------------------

    def undo(
        self,
        what: int | JournalEntry | Iterable[int | JournalEntry] | ApplyResult | None = None,
        *,
        batch: int | None = None,
        since: datetime | int | None = None,
        dry_run: bool = False,
    ) -> UndoResult:
        """Take changes back, all of them in one transaction. Say which in one of three ways.

        What was changed again since keeps that: only what the change itself did is taken back. An undo is a
        change like any other; it stands in the journal and can be undone. What working memory held, and what
        was forgotten for good, does not come back.

        Args:
            what: A change, by its number or its row of the journal, or several; or what `apply` gave back.
            batch: The number of a change: everything that was made in the same transaction.
            since: A moment, or the number of a change: everything made at that moment or later, or from that
                change's transaction on.
            dry_run: Whether only to say what would happen.

        Returns:
            What became of each thing, and with `batch` and `since` what had to be left because it was
            forgotten.

        Raises:
            InvalidInput: not one of the three was given, or what a change did has been forgotten for good.
            NotFound: there is no such change.
            Conflict: later changes rest on it; the message names them. Nothing was changed.
        """
        from reverie.admin.history.undo import Undo
        from reverie.consolidation.cycle import ApplyResult

        if isinstance(what, ApplyResult):
            if what.batch is None:
                raise InvalidInput(f"the plan {what.plan.id} changed nothing: there is nothing to undo")
            batch, what = what.batch, None
        undoing = Undo(self._writer)
        return undoing.undo(what, batch=batch, since=since, dry_run=dry_run)

    def as_of(self, moment: datetime | int) -> Snapshot:
        """The memory as it was at an earlier moment. It answers every question, and changes nothing.

        What was forgotten for good since is not there either. Profile and settings are those of today; what
        working memory held then, and what sessions had been shown, is not kept.

        Args:
            moment: The moment; or the number of a change, for how things were after its transaction.

        Returns:
            The memory of then; close it, or use it in a `with` statement, while this one is open.

        Raises:
            InvalidInput: it is no moment with a time zone, and no number.
            NotFound: there is no change of that number.
        """
        from reverie.snapshot import Snapshot  # here: most programs never look back

        return Snapshot(self._store, moment, settings=self.settings, clock=self._clock, profile=self._profile)

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Compare the store, the journal, the search index and the files with each other.

        Args:
            fix: Whether to repair what can be repaired without a person's choice, and to look again.

        Returns:
            What is not as it should be, and what to do about it; nothing is ever deleted that holds content
            which is not found elsewhere.
        """
        from reverie.admin.doctor import Doctor

        doctor = Doctor(
            unwrap(self._store),
            self._index,
            path=self.path,
            files=self.folder,
            forgetter=self._forgetter,
            exposing=self._exposing if self.settings.redact_secrets else None,
        )
        return doctor.examine(fix=fix)

    def redact(self, *, dry_run: bool = False) -> RedactionReport:
        """Take the secrets for good out of what is stored already. New saves are redacted already.

        It is for what was stored while `redact_secrets` was off, by an earlier version, or before a pattern
        was added. Each thing that holds a secret keeps its place, with `[redacted: kind]` in the text; its
        earlier versions go from the journal, and index, files and free space are cleaned.

        Args:
            dry_run: Whether only to look.

        Returns:
            What held a secret, by id and kind; no secret is quoted.

        Raises:
            Conflict: others changed the same things meanwhile: do it again.
            StoreUnavailable: it could not be written; try again.
        """
        from reverie.admin.erasure.redact_stored import RedactionReport

        exposing = self._exposing
        if dry_run:
            return RedactionReport(found=exposing.find(), done=False)
        with self._lock:
            opened = list(self._sessions.values())
        for each in opened:
            each.flush()
        done = exposing.redact()
        for each in opened:
            each.forget()  # the copy of the window; it is read again when it is asked for
        return done

    # -- copying, and taking in --------------------------------------------------------------------------

    def backup(
        self,
        file: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Backup:
        """Keep everything in one file, as it is at one moment, whatever others write meanwhile.

        Args:
            file: The file; it has its name only when it is complete and was read back.
            overwrite: Whether a file of that name may be replaced.
            progress: Told how many bytes were copied since it was last told.

        Returns:
            What is in it; `reverie.recover` brings it back.

        Raises:
            InvalidInput: there is a file of that name, or this memory is in no folder.
            StoreCorrupt: the store is damaged.
            StoreUnavailable: the file cannot be written.
        """
        from reverie.admin.transfer import backup

        if self.folder is not None:
            self.folder.sync()  # what a person wrote into a file belongs in it
        directives = (
            self.settings.dream_directive,
            self.settings.preference_directive,
            self.settings.memory_rules,
        )
        return backup.make(
            self._store,
            file,
            profile=None if self._profile is None else self._profile.folder,
            also=directives,
            at=self._clock(),
            overwrite=overwrite,
            progress=progress,
        )

    def import_(
        self,
        source: str | os.PathLike[str],
        form: str | None = None,
        *,
        dry_run: bool = False,
        scope: str | None = None,
        origin: Origin | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Take in an export, another program's memory, or conversations. Nothing is taken in twice.

        Args:
            source: The file or folder.
            form: Its format, one of `reverie.admin.transfer.items.FORMS`; None to look.
            dry_run: Whether to store nothing and only say what would be.
            scope: Whose memory it becomes; None leaves own exports as they are, others are everybody's.
            origin: Whose word records are; None leaves own exports as they are, others get `import`: found
                by search, never put into a prompt unasked.
            progress: Told how many things were dealt with since it was last told.

        Returns:
            What was taken in, what was left out, and why.

        Raises:
            InvalidInput: an argument is not of its form, or the source cannot be read.
            StoreUnavailable: it could not be written; what was taken in before stays.
        """
        from reverie.admin.transfer import importer

        return importer.take_in(
            self._writer,
            source,
            form,
            scope=scope,
            origin=origin,
            dry_run=dry_run,
            progress=progress,
        )

    # -- thinking ----------------------------------------------------------------------------------------

    @property
    def worker(self) -> Worker:
        """What does background work when it is due: `memory.worker.start()` lets it, in a thread.

        Raises:
            InvalidInput: the model's name is none.
            MissingExtra: the model's library is not installed.
            ModelRefused: the model's key is missing.
        """
        from reverie.consolidation import factory

        with self._lock:
            if self._worker is None:
                self._worker = factory.create_worker(
                    self._writer,
                    settings=self.settings,
                    model=self._model,
                    profile=self._prompts,
                    plan_records=self._saving.planned,
                )
            return self._worker

    def plan(
        self,
        name: str = "dream",
        *,
        session: str | None = None,
        keep: int | None = None,
        output: str | None = None,
        step: str = "",
        scope: str = "",
        origin: Origin = "agent",
    ) -> Plan:
        """What a pass would change now. Print it; nothing is written before `apply`.

        Args:
            name: `enrich`, `merge`, `infer` or `promote`; `dream` for all four as one plan; `digest`,
                `compact` or `trim` for the window of a session; `extract` for the findings, insights and
                lessons in what a step of work put out.
            session: Whose window, for `digest`, `compact` and `trim`.
            keep: How many of its turns stay, 0 or more; None takes what the settings say.
            output: What the step put out, for `extract`; under 50 characters nothing is learned from it, and
                of more than 4,000 the first 4,000 are looked at.
            step: The step's name, such as `GOAL:deploy`, for `extract`.
            scope: Whose memory what is extracted becomes.
            origin: Whose word the output is, for `extract`: pass `tool` or `web` for what those put out, and
                it is found by search, but never put into a prompt unasked.

        Raises:
            InvalidInput: there is no such pass, or it was not given what it needs.
            NotFound: there is no such session.
        """
        return self.worker.plan(
            name, session=session, keep=keep, output=output, step=step, scope=scope, origin=origin
        )

    def apply(self, plan: Plan) -> ApplyResult:
        """Make a plan's changes, all of them or none. `undo` with what comes back takes them back.

        Raises:
            Conflict: something that it would change has changed since it was made: plan again.
        """
        return self.worker.apply(plan)

    # -- forgetting --------------------------------------------------------------------------------------

    def forgetting(
        self,
        *ids: str,
        session: str | None = None,
        scope: str | None = None,
        match: str | None = None,
        turns: bool = False,
    ) -> ErasureReport:
        """What `forget` with the same arguments would take away, and what it would leave; changes nothing.

        Raises:
            NotFound: there is nothing to forget.
            InvalidInput: an argument is not of its form.
        """
        from reverie.admin.erasure.eraser import EraseRequest

        return self._forgetter.plan(
            EraseRequest(ids=ids, session=session, scope=scope, match=match, turns=turns)
        )

    def forget(
        self,
        *ids: str,
        session: str | None = None,
        scope: str | None = None,
        match: str | None = None,
        turns: bool = False,
    ) -> ErasureReport:
        """Remove content for good, everywhere, because a person asks for it. Nothing brings it back.

        It goes from records, turns, notes, pages, summaries, working memory, the journal, the search index,
        the files and the database's free space, and so does what repeats five words in a row of it.
        `forgetting` shows beforehand what that is. Give ids, or a session, or a scope, or a text to match.

        Args:
            *ids: Ids of records, turns and paragraphs.
            session: A session's id: all its turns, its summary, its working memory and its name.
            scope: All that is somebody's, such as `user:alice` and what lies in it: records, sessions,
                working memory, and what was promoted from there. What another scope has is somebody else's
                and stays.
            match: A text, compared without case and with white space folded: all that has it.
            turns: Whether turns that repeat it go too; they are listed as `left` otherwise.

        Returns:
            What was done, and what is left that still says it.

        Raises:
            NotFound: there is nothing to forget.
            InvalidInput: an argument is not of its form.
            Conflict: others changed what shall go all the while.
            StoreUnavailable: it could not be written; try again.
        """
        from reverie.admin.erasure.eraser import EraseRequest

        request = EraseRequest(ids=ids, session=session, scope=scope, match=match, turns=turns)
        with self._lock:
            opened = dict(self._sessions)
        for each in opened.values():
            each.flush()
        done = self._forgetter.forget(
            request, cursors_of=lambda session: (build_shown_cursor(session), build_cursor_name(session))
        )
        for each in opened.values():
            each.forget()  # the copy of the window; it is read again when it is asked for
        return done

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _exposing(self) -> StoredSecretRedactor:
        from reverie.admin.erasure.redact_stored import StoredSecretRedactor
        from reverie.domain.secrets import build_redactor

        return StoredSecretRedactor(
            self._writer,
            build_redactor(True, self.settings.secret_patterns),
            forgetter=self._forgetter,
        )

    @cached_property
    def _forgetter(self) -> Eraser:
        from reverie.admin.erasure.eraser import Eraser

        return Eraser(
            self._writer,
            self._index,
            folder=self.path,
            sync=None if self.folder is None else self.folder.sync,
        )
