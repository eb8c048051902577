"""Administration of a memory as a whole: numbers, checks, erasure, backups, import and export."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reverie.admin.stats import Stats, compute_stats, count_failures
from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, translate_os_errors
from reverie.domain.record import Origin
from reverie.domain.text.timestamps import Duration, parse_duration
from reverie.domain.text.validation import validate_count
from reverie.files.names import resolve_path
from reverie.repositories.prompts import PromptLog
from reverie.repositories.wishes import ForgetRequests
from reverie.search.index.search_index import SearchIndex
from reverie.stores.base import StoreProblem
from reverie.stores.redacting import get_server_store, unwrap
from reverie.stores.telemetry import trace
from reverie.stores.writer import Cursors

if TYPE_CHECKING:
    from reverie.admin.doctor import Diagnosis
    from reverie.admin.erasure.eraser import Eraser
    from reverie.admin.erasure.matching import ErasureReport
    from reverie.admin.erasure.redact_stored import RedactionReport, StoredSecretRedactor
    from reverie.admin.transfer.backup import Backup
    from reverie.admin.transfer.export import ExportReport
    from reverie.admin.transfer.importer import ImportReport
    from reverie.files.exchange import FileExchange
    from reverie.files.folder import MemoryFolder
    from reverie.files.layout import Layout
    from reverie.scoped import MemoryParts
    from reverie.search.index.candidates import IndexStatus
    from reverie.search.vectors.vector_index import VectorIndex, VectorStatus


class Administration:
    """Administration of a memory as a whole, all scopes included. Safe to use from several threads.

    Args:
        parts: Parts that all scopes share.
        index: The search index.
        vectors: The vectors; None without an embedder.
        path: The folder; None in memory.
        files: The readable files; None where none are kept.
        get_layout: Returns which files a folder has.
        profile: The folder of the profile; None for none.
        requests: Requests to forget.
    """

    def __init__(
        self,
        parts: MemoryParts,
        index: SearchIndex,
        *,
        vectors: VectorIndex | None = None,
        path: Path | None,
        files: MemoryFolder | None,
        get_layout: Callable[[], Layout],
        profile: Path | None,
        requests: ForgetRequests,
    ) -> None:
        self._parts = parts
        self._writer = parts.writer
        self._store = parts.writer.store
        self._clock = parts.writer.clock
        self._settings = parts.settings
        self._index = index
        self._vectors = vectors
        self._path = path
        self._files = files
        self._get_layout = get_layout
        self._profile = profile
        self._requests = requests

    # -- looking -----------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """Return how much the memory holds, in all scopes."""
        numbers = compute_stats(self._store, self._index, now=self._clock(), path=self._path)
        return numbers if self._vectors is None else replace(numbers, vectors=self._vectors.status())

    @cached_property
    def cursors(self) -> Cursors:
        """Small named texts that an interface keeps in the store."""
        return Cursors(self._writer)

    def failures(self) -> dict[str, int]:
        """Return how often each background step failed, without those that never did."""
        return count_failures(self._store)

    def activity(self, *, days: int = 30) -> dict[date, Counter[str]]:
        """Return how many changes of each operation the last days had, the earliest first, days without any too.

        Args:
            days: How many days, today included, 1 to 400.
        """
        validate_count(days, name="days", least=1, most=400)
        zone = self._settings.zone
        today = self._clock().astimezone(zone).date()
        counts: dict[date, Counter[str]] = {
            today - timedelta(days=days - 1 - number): Counter() for number in range(days)
        }
        for hour, operation, number in self._store.count_changes(datetime.combine(min(counts), time(), zone)):
            if (day := hour.astimezone(zone).date()) in counts:
                counts[day][operation] += number
        return counts

    def index_status(self) -> IndexStatus:
        """Return the status of the search index."""
        return self._index.status()

    def embed(self, *, timeout: Duration | None = None) -> VectorStatus:
        """Embed everything that has no vector yet; the background thread does the same, piece by piece.

        Args:
            timeout: Time after which to stop; None for no limit.

        Returns:
            How many passages have a vector then.

        Raises:
            NotFound: the memory has no embedder.
        """
        if self._vectors is None:
            raise NotFound("the memory has no embedder: install 'reverie[semantic]' or set `embedder`")
        if timeout is None:
            return self._vectors.embed_waiting()
        return self._vectors.embed_waiting(timeout_s=parse_duration(timeout, name="timeout").total_seconds())

    @cached_property
    def prompts(self) -> PromptLog:
        """The prompt log of all sessions: which prompts a model was given, and why each line was in them."""
        return PromptLog(self._store, None)

    def check(self) -> list[StoreProblem]:
        """Return everything that is wrong with the stored data; an empty list when it is sound."""
        return self._store.check()

    def doctor(self, *, fix: bool = False) -> Diagnosis:
        """Compare the store, the journal, the search index and the files with each other.

        Args:
            fix: Whether to repair what needs no choice of a person, and to look again.

        Returns:
            What is wrong, and what to do about it. Content that is found nowhere else is never deleted.

        Raises:
            StoreCorrupt: the database is on a server, or in memory, and cannot be read.
            StoreUnavailable: the memory cannot be examined now.
        """
        from reverie.admin.doctor import Doctor, diagnose_unopened

        doctor = Doctor(
            store=unwrap(self._store),
            index=self._index,
            path=self._path,
            vectors=self._vectors,
            files=self._files,
            eraser=self._eraser,
            redactor=self._secret_redactor if self._settings.redact_secrets else None,
        )
        with translate_os_errors("the memory cannot be examined"):
            try:
                return doctor.examine(fix=fix)
            except StoreCorrupt as error:  # nothing can be compared with what is left of the database
                if self._path is None:
                    raise
                return diagnose_unopened(self._path, error)

    # -- removing ----------------------------------------------------------------------------------------

    def purge(self, *, older_than: Duration | None = None, dry_run: bool = False) -> int:
        """Archive expired records, and remove records for good that were archived long ago.

        Args:
            older_than: Time since they were archived; None takes the setting `retention_days` (0 days there
                keeps everything), 0 purges all archived records. Pinned records stay.
            dry_run: Whether to only count the archived records that would be removed now.

        Returns:
            The number of records removed.
        """
        if not dry_run:
            self._parts.records.expire()
        if older_than is None and self._settings.retention_days == 0:
            return 0
        if older_than is None:
            older_than = timedelta(days=self._settings.retention_days)
        at_once = older_than in (0, timedelta(0))
        age = timedelta(0) if at_once else parse_duration(older_than, name="older_than")
        return self._parts.records.purge(older_than=age, dry_run=dry_run)

    def forget(
        self,
        *ids: str,
        session: str | None = None,
        scope: str | None = None,
        match: str | None = None,
        request: str | None = None,
        turns: bool = False,
        dry_run: bool = False,
    ) -> ErasureReport:
        """Erase content for good, everywhere, because a person asks for it. Nothing brings it back.

        It is erased from records, turns, notes, pages, summaries, working memory, the journal, the search
        index, the files and the free space of the database. So is what repeats five words in a row of it.
        Name what to erase in one way: by ids, a session, a scope or a text.

        Args:
            *ids: Ids of records, turns and paragraphs.
            session: The id of a session: its turns, its summary, its working memory and its name.
            scope: A scope such as `user:alice` with the scopes within it: records, sessions, working memory,
                and what was promoted from there. What other scopes hold stays.
            match: A text, compared without case and with white space folded: everything that contains it.
            request: The id of a request to forget, which is done with that; see `ScopedMemory.forget_requests`.
            turns: Whether to erase turns that repeat it too; otherwise they are listed as `left`. Turns that contain
                the text of `match` are erased anyway.
            dry_run: Whether to change nothing, and only return what would happen.

        Returns:
            What was erased, and what is left that still says it.

        Raises:
            NotFound: there is nothing to erase.
            InvalidInput: an argument is not of its form.
            Conflict: other processes kept changing what is to be erased.
            StoreUnavailable: it could not be written; nothing was erased. Try again.
            ForgettingUnfinished: it has gone from the database, but not from everywhere else. Fix the cause, and
                run `doctor(fix=True)`.
        """
        from reverie.admin.erasure.matching import EraseRequest

        ids += () if request is None else self._requests.get(request).ids
        wanted = EraseRequest(ids=ids, session=session, scope=scope, match=match, turns=turns)
        with translate_os_errors("the erasure cannot be finished"):
            if dry_run:
                return self._eraser.plan(wanted)
            with (
                self._refresh_sessions(),
                self._parts.living.composing_anew(),
                trace(self._settings, "delete_memory", scope=wanted.scope or "") as span,
            ):
                report = self._eraser.forget(wanted)
                span.set("gen_ai.memory.record.count", len(report.going))
                if request is not None:
                    self._requests.drop(request)
                return report

    def redact(self, *, dry_run: bool = False) -> RedactionReport:
        """Remove secrets for good from what is stored already. What is saved now is redacted anyway.

        This is for what was stored while `redact_secrets` was off, by an earlier version, or before a pattern
        was added. Each secret becomes `[redacted: kind]`; earlier versions go from the journal, and index,
        files and free space are cleaned.

        Args:
            dry_run: Whether only to look.

        Returns:
            What held a secret, by id and kind; no secret is quoted.

        Raises:
            Conflict: others changed the same things meanwhile: do it again.
            StoreUnavailable: it could not be written; try again.
            ForgettingUnfinished: secrets have gone from the database, but not from everywhere else. Fix the cause,
                and run `doctor(fix=True)`.
        """
        from reverie.admin.erasure.redact_stored import RedactionReport

        redactor = self._secret_redactor
        if dry_run:
            return RedactionReport(found=redactor.find(), done=False)
        with (
            translate_os_errors("the redaction cannot be finished"),
            self._refresh_sessions(),
            self._parts.living.composing_anew(),
        ):
            return redactor.redact()

    # -- copies ------------------------------------------------------------------------------------------

    def backup(self, file: str | os.PathLike[str], *, overwrite: bool = False) -> Backup:
        """Write a consistent copy of everything into one file; others may write to the memory meanwhile.

        Args:
            file: The file. It gets its name only when it is complete and was read back.
            overwrite: Whether a file of that name may be replaced.

        Returns:
            What is in the file; `reverie.recover` restores it.

        Raises:
            InvalidInput: there is a file of that name, or this memory is in no folder.
            StoreCorrupt: the store is damaged.
            StoreUnavailable: the file cannot be written.
        """
        from reverie.admin.transfer import backup

        if self._files is not None:
            self._files.sync()  # what a person wrote into a file belongs in it
        settings = self._settings
        directives = (settings.dream_directive, settings.preference_directive, settings.memory_rules)
        return backup.make(
            self._store, file, profile=self._profile, also=directives, at=self._clock(), overwrite=overwrite
        )

    def export(
        self,
        target: str | os.PathLike[str],
        *,
        scope: str | Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> ExportReport:
        """Write records, sessions, pages and logs as JSON lines, for other programs to read.

        Every field is in it, so `import_from` restores it all. The journal, working memory and marks of what
        was erased are not; `backup` keeps those too.

        Args:
            target: The file.
            scope: One scope or several to export; None or `EVERY_SCOPE` for all. Pages and logs belong to the
                empty scope.
            overwrite: Whether a file of that name may be replaced.

        Returns:
            How much was exported.

        Raises:
            InvalidInput: an argument is not of its form, or there is something of that name.
            StoreCorrupt: something cannot be read.
            StoreUnavailable: it cannot be written.
        """
        from reverie.admin.transfer import export

        return export.export(self._store, target, scope=scope, at=self._clock(), overwrite=overwrite)

    def import_from(
        self,
        source: str | os.PathLike[str],
        form: str | None = None,
        *,
        dry_run: bool = False,
        scope: str | None = None,
        origin: Origin | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """Import an export, another program's memory, or conversations. Nothing is imported twice.

        Args:
            source: The file or folder.
            form: Its format, one of `reverie.admin.transfer.batch.FORMS`; None to detect it.
            dry_run: Whether to store nothing, and only return what would be imported.
            scope: The scope that it will belong to. None leaves own exports as they are; others become
                everybody's.
            origin: Whose words they are. None leaves own exports as they are; others get `import`: found by
                search, never put into a prompt unasked. The words of a user in a conversation are the owner's
                only with `owner`, and only then records are learned from them.
            progress: Callback that receives the number of things handled since the last call.

        Returns:
            What was imported, what was left out, and why.

        Raises:
            InvalidInput: an argument is not of its form, or the source cannot be read.
            StoreUnavailable: it could not be written; what was imported before stays.
        """
        from reverie.admin.transfer import importer

        return importer.import_source(
            self._writer,
            source,
            form,
            scope=scope,
            origin=origin,
            dry_run=dry_run,
            progress=progress,
            learner=self._parts.learner,
        )

    def exchange_files(self, folder: str | os.PathLike[str]) -> FileExchange:
        """Return the exchange of a memory in a database with a folder of readable files.

        Args:
            folder: The folder; `~` is the home directory.

        Raises:
            InvalidInput: this memory is not in a database.
        """
        from reverie.files.exchange import FileExchange  # here: only a memory in a database needs it

        store = get_server_store(self._store)
        if store is None:
            place = "in no folder" if self._path is None else f"in {str(self._path)!r}: edit its files there"
            raise InvalidInput(f"Files are exchanged with a memory in a database. This one is {place}.")
        root = resolve_path(folder, name="folder")
        return FileExchange(root, self._writer, identity=store.identity, layout=self._get_layout())

    # -- inside ------------------------------------------------------------------------------------------

    @contextmanager
    def _refresh_sessions(self) -> Iterator[None]:
        """Store what open sessions hold, and have them read the store again afterwards."""
        sessions = self._parts.sessions.flush()
        try:
            yield
        finally:
            for session in sessions:
                session.discard()

    @property
    def _secret_redactor(self) -> StoredSecretRedactor:
        from reverie.admin.erasure.redact_stored import StoredSecretRedactor
        from reverie.domain.secrets.redactor import BUILT_IN

        return StoredSecretRedactor(self._writer, BUILT_IN, eraser=self._eraser)

    @cached_property
    def _eraser(self) -> Eraser:
        from reverie.admin.erasure.eraser import Eraser

        return Eraser(self._writer, self._index, vectors=self._vectors, folder=self._path, files=self._files)
