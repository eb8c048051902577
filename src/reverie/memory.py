"""Memory of an agent: opening, closing, and assembly of its parts."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeGuard

from reverie.consolidation.pair_judge import PairJudge
from reverie.consolidation.rule_learning import ACTOR as RULES
from reverie.consolidation.rule_learning import RuleLearner
from reverie.domain.change import Change, JournalEntry
from reverie.domain.errors import InvalidInput, NotFound, quote_value, translate_os_errors
from reverie.domain.filter import Filter
from reverie.domain.lazy_dataclass import replace
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock, parse_duration
from reverie.files.claim import claim_folder
from reverie.files.names import resolve_path
from reverie.files.profile import Profile
from reverie.reader import create_searcher
from reverie.repositories.pages import Pages
from reverie.repositories.records import RecordRepository
from reverie.scoped import MemoryParts, ScopedMemory, SessionPool
from reverie.search.analyzer import analyze
from reverie.search.hits import SOURCES, SearchRequest
from reverie.search.index.search_index import FOLD_AT, SearchIndex
from reverie.search.index.tantivy_index import FORMAT
from reverie.search.searcher import Searcher
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.forks import ForkSafeLock
from reverie.stores.living_page import LivingPages
from reverie.stores.protocol import Store
from reverie.stores.redacting import RedactingStore, keep_secrets_from_log, unwrap
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.connections import is_read_only
from reverie.stores.sqlite.database_file import find_passages
from reverie.stores.telemetry import require_telemetry
from reverie.stores.writer import Publish, StoreWriter, discard_rows

if TYPE_CHECKING:
    from reverie.admin.administration import Administration
    from reverie.admin.history.undo import History
    from reverie.consolidation.worker import Worker
    from reverie.files.folder import MemoryFolder
    from reverie.llm.embedding import Embedder, Embedding
    from reverie.llm.protocol import Answering, Model
    from reverie.search.index.candidates import IndexCache
    from reverie.search.vectors.vector_index import VectorIndex
    from reverie.snapshot import Snapshot

_log = logging.getLogger("reverie")

_CODE = "a part of Reverie cannot be loaded"  # parts that a call imports
_FILES_CURSOR = "files"  # what the folder has if the setting does not say it

IN_MEMORY = ":memory:"
CREATE_IT = "open it with create=True to make one"
"""Advice where there is no memory yet; the command line words it in its own way."""

_POSTGRES = ("postgresql://", "postgres://")


class Memory(ScopedMemory):
    """Memory of an agent. Safe to use from several threads; several processes may open one folder.

    Its own methods read and write the empty scope, which belongs to everybody. `scoped` returns the memory of
    another scope, or of all scopes. `history`, `dreams`, `admin` and `as_of` are about all scopes.

    Attributes:
        path: The folder; None in memory.
        folder: The readable files; None for a memory without files, and in a folder that cannot be written.
        is_read_only: Whether the folder cannot be written.

    Example:
        >>> memory = Memory.open(":memory:")
        >>> _ = memory.save("Prefers short answers", category="user-preferences/style")
        >>> [hit.content for hit in memory.search("how should I answer?")]
        ['Prefers short answers']
        >>> memory.close()
    """

    def __init__(
        self,
        store: Store,
        *,
        path: Path | None = None,
        settings: Settings | None = None,
        clock: Clock = timestamps.utc_now,
        new_id: NewId = ids.generate_id,
        actor: str = "owner",
        profile: Path | None = None,
        model: Model | Answering | str | None = None,
        embedder: Embedder | Embedding | str | None = None,
        cache: IndexCache | None = None,
    ) -> None:
        """Assemble a memory over a store; `Memory.open` is the usual way.

        Args:
            store: The store, opened with `reverie.search.analyzer.analyze`.
            path: The folder for the search index; None keeps the index in memory.
            settings: The settings; None for the defaults.
            clock: The clock.
            new_id: Function that makes ids.
            actor: Author of the changes in the journal.
            profile: The folder of `soul.md`, `directives.md` and `style.md`; None for no profile.
            model: The model for background thinking; None takes the setting `model`.
            embedder: The embedder, which turns texts into vectors; None takes the setting `embedder`.
            cache: The place of the search index where there is no folder; closed with the memory.
        """
        if isinstance(store, str | os.PathLike):
            raise TypeError(
                f"a memory is opened with Memory.open({os.fspath(store)!r}); Memory() takes a store"
            )
        settings = settings if settings is not None else Settings()
        if settings.redact_secrets:
            keep_secrets_from_log()
            store = RedactingStore(store, settings.redactor)
        self.path = path
        self._profile = None if profile is None else Profile(profile)
        self._model = model if model is not None else settings.model
        self.is_read_only = path is not None and is_read_only(path / DATABASE)
        self._cache = cache
        derived = path if cache is None else cache.path
        self._derived = None if self.is_read_only else derived
        indexed = None if self._derived is None else self._derived / "index" / FORMAT
        self._index = SearchIndex(store, indexed)
        if settings.telemetry:
            require_telemetry()
        wanted = settings.embedder if embedder is None else embedder
        self._vectors = self._create_vectors(store, wanted, settings)
        searcher = create_searcher(store, self._index, clock=clock, settings=settings, vectors=self._vectors)
        is_recording = settings.is_recording and not self.is_read_only
        followers = _Followers(self._index, self._vectors)
        if self._vectors is not None:  # its thread uses the store, which is closed when nobody does
            weakref.finalize(followers, self._vectors.stop).atexit = False
        writer = StoreWriter(store=store, clock=clock, new_id=new_id, actor=actor)
        writer = replace(writer, publish=followers.publish, propose=partial(_propose, writer))
        living = LivingPages(writer, settings)
        records = RecordRepository(writer, zone=settings.zone, keep_secrets=settings.keep_secrets)
        self._judge = PairJudge(writer, self._index, self._vectors) if is_recording else None
        learner = RuleLearner(
            store, records.acting(RULES), settings=settings, clock=clock, zone=settings.zone
        )
        opener = _SessionOpener(
            writer, searcher, settings, self._profile, self._judge, learner, living, followers
        )
        parts = MemoryParts(
            writer=writer,
            searcher=searcher,
            settings=settings,
            refresh_files=followers.refresh_files,
            judge=self._judge,
            records=records,
            learner=learner,
            sessions=SessionPool(opener.open, clock=clock, idle=timedelta(minutes=settings.idle_minutes)),
            living=living,
        )
        self._lock = ForkSafeLock()
        self._closing = threading.Lock()
        self._worker: Worker | None = None
        super().__init__(parts, "")
        self.folder = followers.folder = self._open_folder(followers.indexes.notice)
        if self.folder is not None:
            weakref.finalize(followers, self.folder.hurry).atexit = False

    def __repr__(self) -> str:
        return f"Memory({str(self.path) if self.path else type(unwrap(self._store)).__name__!r})"

    # -- opening and closing -----------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock = timestamps.utc_now,
        new_id: NewId = ids.generate_id,
        actor: str = "owner",
        profile: str | os.PathLike[str] | None = None,
        create: bool = True,
        model: Model | Answering | str | None = None,
        embedder: Embedder | Embedding | str | None = None,
        files: Literal["pages", "records", "none"] | None = None,
        busy_timeout: timedelta | None = None,
        thinking: bool = False,
    ) -> Memory:
        """Open the memory in a folder or a database; create it if need be.

        Args:
            path: The folder; `~` is the home directory. None takes the platform's data folder for
                Reverie, or in it that of the settings `profile_path` and `base_path` where one is set.
                `":memory:"` keeps everything in memory, and nothing once it is closed. A URL such as
                `"postgresql://host/database?memory=acme"` names a memory in a PostgreSQL database.
            settings: The settings; None for the defaults.
            clock: Returns the current time; for tests and replays.
            new_id: Returns a new id; for tests and replays.
            actor: Author of the changes in the journal, such as `owner` or `agent`.
            profile: The folder of `soul.md`, `directives.md` and `style.md`, which stand first in every
                prompt where they exist; None takes the memory's folder, or that of the setting.
            create: Whether to create a memory where there is none.
            model: The model for background thinking: `provider:model` (its key is read from the environment), a
                `reverie.llm.Model`, or a function from a `ModelRequest` to text; None takes the setting
                `model`, which is none by default.
            embedder: The embedder, which turns texts into vectors: a name as in the setting `embedder`, a
                `reverie.llm.Embedder`, or a function from a list of texts to their vectors; None takes the
                setting.
            files: Files that people read and edit: `pages`, `records` or `none`; None takes the setting.
            busy_timeout: How long a call waits for other processes that write; None for ten seconds.
            thinking: Whether to start background thinking, as `dreams.start` does.

        A folder that cannot be written, as on a read-only mount, can be read. Its search index is built in memory
        then, and hand edits are not imported. A memory in a database has no readable files; its search index is in
        a cache on this machine (setting `index_cache`), and is built when it is first used here.

        Returns:
            The memory; close it, or use it in a `with` statement. A memory that nothing refers to any more is released
            as well, but what open sessions were shown is not stored.

        Raises:
            InvalidInput: an argument is not of its form.
            NotFound: there is no memory in the folder, and `create` is False.
            StoreUnavailable: the folder cannot be made, read or written, or another machine has just used it.
            StoreIncompatible: its database is not Reverie's, or a newer Reverie made it.
            StoreCorrupt: its database cannot be read.
        """
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(
                f"settings are {quote_value(settings)}: pass `Settings(…)`, or None for the defaults"
            )
        if model is not None:
            from reverie.llm.protocol import validate_model  # here: most memories have no model

            validate_model(model)
        if files is not None:
            settings = replace(settings or Settings(), files=files)
        profile_folder = None if profile is None else resolve_path(profile, name="profile")
        build = partial(
            cls, settings=settings, clock=clock, new_id=new_id, actor=actor, model=model, embedder=embedder
        )

        waiting = (
            {}
            if busy_timeout is None
            else {"busy_timeout": parse_duration(busy_timeout, name="busy_timeout")}
        )
        if path == IN_MEMORY:
            from reverie.stores.in_memory import InMemoryStore  # here: most memories are on disk

            memory: Memory = build(InMemoryStore(analyse=analyze), profile=profile_folder)
        elif is_database(path):
            from reverie.stores.postgres import PostgresStore  # here: most memories are in a folder

            with ExitStack() as opened:
                shared = PostgresStore(path, analyse=analyze, create=create, **waiting)
                opened.callback(shared.close)
                cache = _open_cache(shared.identity, shared.origin, settings or Settings())
                opened.callback(cache.close)
                shared.keep_passages(find_passages(cache.path))
                memory = build(shared, profile=profile_folder, cache=cache)
                opened.pop_all()
        else:
            folder = resolve_folder(path)
            if path is None and settings is not None and settings.names_paths:
                paths = settings.resolve_paths(folder)
                folder, profile_folder = paths.memory, profile_folder or paths.profile
            if not create and not (folder / DATABASE).exists():
                raise NotFound(_explain_missing(folder))
            claim_folder(folder)
            passages = find_passages(folder)
            store = SQLiteStore(
                folder / DATABASE, analyse=analyze, create=create, passages=passages, **waiting
            )
            claim_folder(folder)  # which may be new
            memory = build(store, path=folder, profile=profile_folder or folder)
        if thinking:
            memory.dreams.start()
        return memory

    def flush(self) -> bool:
        """Write the readable files of all changes now, rather than a moment later.

        Nothing else needs it: a change is on the disk when the call that makes it returns.

        Returns:
            Whether the files show every change, except those that wait for the import of a hand edit. If not,
            `folder.problems()` says why. True for a memory without files.
        """
        return self.folder is None or self.folder.flush()

    def close(self) -> None:
        """Store what open sessions were shown, write the files, and release the folder. Closing twice is allowed.

        Raises:
            StoreUnavailable: what sessions were shown could not be written. The folder is released all the same.
        """
        with self._closing, ExitStack() as closing:
            if self._cache is not None:
                closing.callback(self._cache.close)
            closing.callback(self._store.close)
            closing.callback(self._index.close)
            if self._vectors is not None:
                closing.callback(self._vectors.close)
            if self.folder is not None:
                closing.callback(self.folder.close)
            with self._lock:
                worker, self._worker = self._worker, None
            if worker is not None:
                closing.callback(worker.stop)
            for session in self._parts.sessions.remove_all():
                if not self.is_read_only:
                    closing.callback(session.flush)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warm_up(self) -> None:
        """Read and compile what the first searches need, so that they do not have to; a server does it at its start."""
        from reverie.search.searcher import find_left_out

        wanted = SearchRequest(text="What was decided about tomorrow?", allowed=Filter(scopes=self._scopes))
        hits = self._searcher.search(wanted, SOURCES)
        find_left_out(self._searcher, wanted, SOURCES, hits, most=1)

    # -- the memory as a whole ---------------------------------------------------------------------------

    @cached_property
    def history(self) -> History:
        """History of all changes: log, blame, differences, and undo."""
        with translate_os_errors(_CODE):
            from reverie.admin.history.undo import History  # here: most programs never look back

        return History(self._parts.writer)

    @property
    def dreams(self) -> Worker:
        """Background thinking: plan, apply, run, and a thread that does what is due.

        Raises:
            InvalidInput: the name of the model is no model's.
            MissingExtra: the library of the model is not installed.
            ModelRefused: the key of the model is missing.
        """
        with self._lock:
            if self._worker is None:
                self._worker = self._create_worker()
            return self._worker

    @cached_property
    def admin(self) -> Administration:
        """Administration of all scopes: stats, check, doctor, purge, forget, redact, backup, import, export."""
        with translate_os_errors(_CODE):
            from reverie.admin.administration import Administration  # here: seldom needed

        return Administration(
            self._parts,
            self._index,
            vectors=self._vectors,
            path=self.path,
            files=self.folder,
            get_layout=lambda: "records" if self._resolve_files() == "records" else "pages",
            profile=None if self._profile is None else self._profile.folder,
            requests=self.forget_requests,
        )

    def as_of(self, moment: datetime | int) -> Snapshot:
        """Return a read-only snapshot of the memory at an earlier moment.

        Content that was erased since is not in it. Profile and settings are those of today. Working memory,
        and what sessions had been shown, are not kept.

        Args:
            moment: The moment; or the number of a change, for the state after its transaction.

        Returns:
            The snapshot; close it, or use it in a `with` statement, while this memory is open.

        Raises:
            InvalidInput: it is neither a moment with a time zone nor a number.
            NotFound: there is no change of that number.
        """
        with translate_os_errors(_CODE):
            from reverie.snapshot import Snapshot  # here: most programs never look back

        return Snapshot(self._store, moment, settings=self.settings, clock=self._clock, profile=self._profile)

    # -- inside ------------------------------------------------------------------------------------------

    def _create_vectors(
        self, store: Store, wanted: Embedder | Embedding | str | None, settings: Settings
    ) -> VectorIndex | None:
        """Return the index of vectors; None for a memory without an embedder."""
        from reverie.llm.embedding import resolve_embedder

        embedder = resolve_embedder(wanted)
        if embedder is None:
            return None
        from reverie.search.vectors.vector_index import FOLDER, VectorIndex

        folder = None if self._derived is None else self._derived / FOLDER
        return VectorIndex(store, folder, embedder, settings=settings)

    def _open_folder(self, publish: Publish) -> MemoryFolder | None:
        """Return the readable files, brought up to date; None for a memory without files.

        Args:
            publish: Receives the journal entries of hand edits.
        """
        if self.path is None or self.is_read_only:
            return None
        layout = self._resolve_files()
        if self.settings.files in ("pages", "records") and self._resolve_files(auto=True) != layout:
            self._parts.writer.commit([], cursors={_FILES_CURSOR: layout})
        if layout == "none":
            return None
        from reverie.files.folder import MemoryFolder

        writer = replace(self._parts.writer, publish=publish)
        folder = MemoryFolder(self.path, writer, layout=layout)
        folder.start()
        return folder

    def _resolve_files(self, *, auto: bool = False) -> Literal["pages", "records", "none"]:
        """Return which files the folder has: as the setting says, or as the memory was last opened."""
        if self.settings.files != "auto" and not auto:
            return self.settings.files
        return "records" if self._store.cursor(_FILES_CURSOR) == "records" else "pages"

    def _create_worker(self) -> Worker:
        with translate_os_errors(_CODE):
            from reverie.consolidation.worker import Worker  # here: a search needs no passes
            from reverie.llm.protocol import resolve_model

        return Worker(
            self._parts.writer,
            settings=self.settings,
            plan_records=self._parts.records.planned,
            model=resolve_model(self._model),
            profile=None if self._profile is None else self._profile.folder,
            judge=self._judge,
            living=self._parts.living,
            expire=self._parts.records.acting(RULES).expire,
        )


class _FollowingIndexes:
    """The indexes of a memory, which the folder of files calls too."""

    def __init__(self, index: SearchIndex, vectors: VectorIndex | None) -> None:
        self._index = index
        self._vectors = vectors
        self._unfollowed = 0

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Wake the threads that make vectors, and that analyse texts once there are many."""
        if self._vectors is not None and not self._vectors.is_awake:
            self._vectors.notice(rows)
        self._unfollowed += len(rows)
        if self._unfollowed >= FOLD_AT:
            self._unfollowed = 0
            self._index.follow_soon()


class _Followers:
    """The indexes and files that follow the journal of a memory.

    Parts of a memory call this object and not the memory itself. So no circle of references keeps a memory that
    nobody uses, and its files and connections are closed as soon as the last reference to it is gone.
    """

    def __init__(self, index: SearchIndex, vectors: VectorIndex | None) -> None:
        self.indexes = _FollowingIndexes(index, vectors)
        self.folder: MemoryFolder | None = None

    def publish(self, rows: Sequence[JournalEntry]) -> None:
        """Pass new journal entries to the indexes and the files; none if a living page was composed."""
        if rows:
            self.indexes.notice(rows)
        if self.folder is not None:
            self.folder.notice(rows)

    def refresh_files(self) -> None:
        """Import what a person changed in the files."""
        if self.folder is not None:
            self.folder.refresh()


class _SessionOpener(NamedTuple):
    """The parts of a memory that its sessions share."""

    writer: StoreWriter
    searcher: Searcher
    settings: Settings
    profile: Profile | None
    judge: PairJudge | None
    learner: RuleLearner
    living: LivingPages
    followers: _Followers

    def open(self, id: str, *, scope: str) -> Session:
        """Return a new session of this id."""
        is_recording = self.settings.is_recording
        pages = Pages(self.writer, settings=self.settings, living=self.living)
        return Session(
            id,
            writer=self.writer if is_recording else self._create_transient_writer(id),
            recaller=self.searcher,
            settings=self.settings,
            scope=scope,
            standing=lambda scopes: pages.build_static_context(
                scopes, self.profile.read() if self.profile else ()
            ),
            look=self._prepare_context,
            listener=self.learner if is_recording else None,
            open_transient=self._create_transient_writer if is_recording else None,
        )

    def _create_transient_writer(self, session: str) -> StoreWriter:
        """Return a writer that stores nothing beyond this process, with the turns that are stored already."""
        from reverie.stores.in_memory import InMemoryStore  # here: most memories record

        store: Store = InMemoryStore(analyse=analyze)
        if self.settings.redact_secrets:
            store = RedactingStore(store, self.settings.redactor)
        writer = replace(self.writer, store=store, publish=discard_rows)
        state = self.writer.store.session(session)
        if state is not None:
            turns = [Change(before=None, after=turn) for turn in self.writer.store.turns(session=session)]
            writer.commit([Change(before=None, after=state), *turns])
        return writer

    def _prepare_context(self, scopes: Sequence[str]) -> None:
        """Import what a person changed in the files, judge changed records, and compose stale pages."""
        self.followers.refresh_files()
        if self.judge is not None:
            self.judge.prepare_search()
            self.living.compose_if_quiet(scopes)


def _propose(writer: StoreWriter, changes: Sequence[Change], why: str) -> None:
    """Have changes wait for the owner's decision."""
    from reverie.consolidation.inbox import Inbox  # here: few edits look like an accident
    from reverie.consolidation.values import Plan, PlanStep

    steps = tuple(PlanStep(edit=change, why=why) for change in changes)
    plan = Plan(id=writer.new_id(), name="page", made_at=writer.clock(), steps=steps)
    Inbox(writer).keep_plan(plan)
    _log.warning("%d changes wait for review as plan %s: %s", len(changes), plan.id, why)


def is_database(path: object) -> TypeGuard[str]:
    """Return whether the place of a memory is the URL of a database rather than a folder."""
    return isinstance(path, str) and path.startswith(_POSTGRES)


def _open_cache(name: str, origin: str, settings: Settings) -> IndexCache:
    from reverie.search.index.candidates import IndexCache

    if settings.index_cache is not None:
        base = resolve_path(settings.index_cache, name="index_cache")
    else:
        import platformdirs

        base = Path(platformdirs.user_cache_dir("reverie"), "indexes")
    return IndexCache(base, name, origin=origin, limit_mb=settings.index_cache_mb)


def _explain_missing(folder: Path) -> str:
    """Return why a folder has no memory, and what to do."""
    from reverie.files import layout  # here: what is opened is there, mostly

    if folder.is_file():
        return f"{str(folder)!r} is a file: name the folder of a memory"
    if any((folder / name).is_dir() for name in (layout.MEMORY, layout.SESSIONS)):
        return f"the database of {str(folder)!r} is missing: `reverie rebuild` makes it again of the files"
    return f"no memory in {str(folder)!r}: {CREATE_IT}"


def resolve_folder(path: str | os.PathLike[str] | None) -> Path:
    """Return the folder that `Memory.open` would use; raise `InvalidInput` for the URL of a database."""
    if is_database(path):
        raise InvalidInput("this works on a folder, and the memory is in a database: name a folder")
    if path is None:
        import platformdirs  # only here: most programs name their folder

        return Path(platformdirs.user_data_dir("reverie"))
    return resolve_path(path)
