"""The memory of an agent: open a folder, save, search, talk. The only place where the parts are put together.

What is seldom asked for (undo, forget, doctor, background thinking) is imported when it is.

Every method is short: what it does is in `saving`, `searching`, `make_session` and the store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from reverie.consolidation.rule_learning import ACTOR as RULES
from reverie.consolidation.rule_learning import RuleLearner, build_cursor_name
from reverie.context.ledger import build_shown_cursor
from reverie.domain.change import JournalEntry
from reverie.domain.entry import AGENT, build_session_namespace
from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.record import Kind, Layer, Origin, Record
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock
from reverie.files.profile import Profile
from reverie.lending import Lending
from reverie.reader import validate_text
from reverie.repositories.pages import Pages, find_notes_from_turns
from reverie.repositories.records import NewRecord, RecordChanges, RecordRepository, SaveResult
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.search.index.tantivy_index import FORMAT
from reverie.search.ranking import RankingSettings
from reverie.search.searcher import Searcher, to_scoring_settings
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.redacting import RedactingStore, keep_secrets_from_log
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.consolidation.worker import Worker
    from reverie.files.folder import MemoryFolder
    from reverie.llm.protocol import Answering, Model

DATABASE = "reverie.db"
IN_MEMORY = ":memory:"

Duration = str | float | timedelta


class Memory(Lending):
    """What an agent remembers. Safe to use from several threads; several processes may open one folder.

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
    ) -> None:
        """Put a memory together over a store; `Memory.open` is the usual way.

        Args:
            store: Where everything is kept, opened with `reverie.search.analyzer.analyse`.
            path: The folder for the search index; None keeps the index in memory.
            settings: The settings; None for the defaults.
            clock: What tells the time.
            new_id: What makes ids.
            actor: Who is named in the journal as the author of changes.
            profile: The folder of `soul.md`, `directives.md` and `style.md`; None for no profile.
            model: What background thinking asks; None takes the setting `model`.
        """
        self.path = path
        self.settings = settings if settings is not None else Settings()
        if self.settings.redact_secrets:
            keep_secrets_from_log()
            store = RedactingStore(store, self.settings.redactor)
        self._store = store
        self._clock = clock
        self._writer = StoreWriter(
            store=store, clock=clock, new_id=new_id, actor=actor, publish=self._publish
        )
        folder = None if path is None else path / "index" / FORMAT
        self._index = SearchIndex(store, folder, analyse=analyze)
        self._searching = Searcher(
            store,
            self._index,
            clock=clock,
            settings=RankingSettings(),
            floor=self.settings.min_relevance,
            weights=to_scoring_settings(self.settings),
        )
        self._saving = RecordRepository(self._writer, self._index, zone=self.settings.zone)
        self._learning = RuleLearner(store, self._saving.acting(RULES), settings=self.settings, clock=clock)
        self._profile = None if profile is None else Profile(profile)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False
        self._model = model if model is not None else self.settings.model
        self._prompts = profile
        self.scratchpad = WorkingMemory(store, AGENT, settings=self.settings, clock=clock)
        self.pages = Pages(self._writer, settings=self.settings)
        self._worker: Worker | None = None
        self.folder = self._open_mirror()

    def _open_mirror(self) -> MemoryFolder | None:
        """The readable files, brought up to date; None where none are kept."""
        if self.path is None or not self.settings.files:
            return None
        from reverie.files.folder import MemoryFolder

        folder = MemoryFolder(self.path, replace(self._writer, publish=self._index.notice))
        folder.start()
        return folder

    # -- opening and closing ---------------------------------------------------------------------------

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
    ) -> Memory:
        """Open the memory in a folder, making it if it is not there.

        Args:
            path: The folder; `~` is the home directory. None takes the platform's data folder for
                Reverie, or in it that of the settings `profile_path` and `base_path` where one is set.
                `":memory:"` keeps everything in memory, and nothing once it is closed.
            settings: The settings; None for the defaults.
            clock: What tells the time; for tests and replays.
            new_id: What makes ids; for tests and replays.
            actor: Who is named in the journal as the author of changes, such as `owner` or `agent`.
            profile: The folder of `soul.md`, `directives.md` and `style.md`, which stand first in every
                prompt where they exist; None takes the memory's folder, or that of the setting.
            create: Whether to make a memory where there is none.
            model: What background thinking asks: `provider:model` (its key is read from the environment), a
                `reverie.llm.Model`, or a function from an `Ask` to text; None takes the setting
                `model`, and nobody where that is not set either.

        Returns:
            The memory; close it, or use it in a `with` statement.

        Raises:
            NotFound: there is no memory in the folder, and `create` is False.
            StoreUnavailable: the folder cannot be made, read or written.
            StoreForeign: its database is not Reverie's, or a newer Reverie made it.
            StoreCorrupt: its database cannot be read.
        """
        beside = None if profile is None else resolve_folder(profile)
        if path is not None and os.fspath(path) == IN_MEMORY:
            from reverie.stores.in_memory import InMemoryStore  # here: most memories are on disk

            store: Store = InMemoryStore(analyse=analyze)
            return cls(
                store,
                settings=settings,
                clock=clock,
                new_id=new_id,
                actor=actor,
                profile=beside,
                model=model,
            )
        folder = resolve_folder(path)
        if path is None and settings is not None and settings.names_paths:
            paths = settings.resolve_paths(folder)
            folder, beside = paths.memory, beside or paths.profile
        database = folder / DATABASE
        if not create and not database.exists():
            raise NotFound(f"there is no memory in {str(folder)!r}: open it with create=True to make one")
        store = SQLiteStore(database, analyse=analyze, create=create)
        return cls(
            store,
            path=folder,
            settings=settings,
            clock=clock,
            new_id=new_id,
            actor=actor,
            profile=beside or folder,
            model=model,
        )

    def close(self) -> None:
        """Write what is still held and let go of the folder. Closing twice is fine.

        Raises:
            StoreUnavailable: what sessions were shown last could not be written; the folder is let go of all
                the same.
        """
        with self._closing, ExitStack() as closing:
            with self._lock:
                sessions = [] if self._closed else list(self._sessions.values())
                worker, self._worker = self._worker, None
                self._sessions.clear()
                self._closed = True
            closing.callback(self._store.close)
            closing.callback(self._index.close)
            if self.folder is not None:
                closing.callback(self.folder.close)
            if worker is not None:
                closing.callback(worker.stop)
            for session in sessions:
                closing.callback(session.close)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- remembering -------------------------------------------------------------------------------------

    def save(
        self,
        content: str,
        *,
        category: str | None = None,
        kind: Kind | None = None,
        layer: Layer | None = None,
        tags: Iterable[str] = (),
        confidence: float = 0.8,
        importance: float = 0.5,
        source: str = "",
        references: Iterable[str] = (),
        origin: Origin = "owner",
        scope: str = "",
        pinned: bool = False,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        ttl: Duration | None = None,
        metadata: Mapping[str, str] | None = None,
        created_at: datetime | None = None,
        rough: bool = False,
    ) -> SaveResult:
        """Remember one thing for the long term, durably, before this returns.

        Saying it again never makes a duplicate: the record that already says it is seen once more.

        Args:
            content: What to remember, in words; 1 to 100,000 characters.
            category: A slash path such as `user-preferences/style`.
            kind: What sort of thing it is, such as `fact`, `decision`, `failure`; None takes
                `anti_pattern` under `anti-patterns`, `preference` under `user-preferences`, else `fact`.
            layer: `episodic`, `semantic` or `procedural`; None takes the kind's home layer.
            tags: Labels.
            confidence: How sure it is, 0 to 1.
            importance: How much it matters, 0 to 1.
            source: Where it came from.
            references: Files, addresses, turn ids it speaks of.
            origin: Whose word it is: `owner`, `agent`, `tool`, `web`, `import`. The last three are found
                by search but never put into a prompt unasked.
            scope: Whose memory it is; empty for everybody's.
            pinned: Whether to keep it from decay and from every automatic change.
            valid_from: From when it holds.
            valid_to: Until when it holds.
            ttl: After how long it leaves search by itself, such as `30d`; None for never.
            metadata: Text to text, for the caller's own use.
            created_at: When it was learned; None for now.
            rough: Whether it is a rough note, which background thinking may split into well-formed records
                and file, if there is a model. It is stored and found as it is until then, and the archive
                keeps it.

        Returns:
            The record, and whether it was created, reinforced or extended.

        Raises:
            InvalidInput: an argument is not of its form; nothing was changed.
            StoreUnavailable: it could not be written; nothing was changed.
        """
        note = NewRecord(
            content=content,
            category=category,
            kind=kind,
            layer=layer,
            tags=tags,
            confidence=confidence,
            importance=importance,
            source=source,
            references=references,
            origin=origin,
            scope=scope,
            pinned=pinned,
            valid_from=valid_from,
            valid_to=valid_to,
            ttl=ttl,
            metadata=metadata or {},
            created_at=created_at,
            rough=rough,
        )
        return self._saving.save(note)

    def save_many(
        self,
        notes: Iterable[NewRecord | Mapping[str, Any]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[SaveResult]:
        """Remember many things, a few hundred in one transaction.

        Args:
            notes: Notes, or mappings with the arguments of `save`. All are checked before any is written.
            progress: Called after each transaction with the number of notes it held.

        Returns:
            What became of each, in order.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
        """
        return self._saving.save_many(notes, progress=progress)

    def remember_fil(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        *,
        source: str = "",
        scope: str = "",
    ) -> list[SaveResult]:
        """Remember findings, insights and lessons (agentkit's observations) in one transaction.

        Args:
            findings: Facts discovered.
            insights: Conclusions drawn.
            lessons: Learnings for the future.
            source: Where they came from, such as `GOAL:deploy`.
            scope: Whose memory they are.
        """
        for name, texts in (("findings", findings), ("insights", insights), ("lessons", lessons)):
            if isinstance(texts, str):
                raise InvalidInput(f"{name} are {texts!r}: pass a list, such as [{texts!r}]")
        lists: tuple[tuple[Kind, Iterable[str]], ...] = (
            ("finding", findings),
            ("insight", insights),
            ("lesson", lessons),
        )
        return self.save_many(
            NewRecord(content=text, kind=kind, source=source, scope=scope)
            for kind, texts in lists
            for text in texts
        )

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[RecordChanges]) -> Record:
        """Change fields of a record; what is not given stays.

        Args:
            id: Which record.
            expected: The record as you read it; if it has changed since, nothing is done.
            **changes: The new values; see `reverie.repositories.records.Changes`.

        Returns:
            The record as it is now.

        Raises:
            NotFound: there is no such record.
            InvalidInput: an argument is not of its form, or another live record says the same.
            Conflict: it is no longer `expected`.
        """
        return self._saving.update(validate_text(id, "id"), changes, expected=expected)

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Take a record out of search. It stays readable by id, and `restore` brings it back.

        Args:
            id: Which record.
            reason: Why, for the journal.

        Raises:
            NotFound: there is no such record.
        """
        return self._saving.archive(validate_text(id, "id"), reason=reason)

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search.

        Raises:
            NotFound: there is no such record.
            InvalidInput: a live record says the same; archive that one first.
        """
        return self._saving.restore(validate_text(id, "id"))

    def delete(self, id: str) -> bool:
        """Archive a record if it is there; False, and no change, if it is not."""
        try:
            self._saving.archive(validate_text(id, "id"), reason="delete")
        except NotFound:
            return False
        return True

    def pin(self, id: str) -> Record:
        """Keep a record from decay and from every automatic change; raises `NotFound`."""
        return self._saving.pin(validate_text(id, "id"), True)

    def unpin(self, id: str) -> Record:
        """Take back a pin; raises `NotFound`."""
        return self._saving.pin(validate_text(id, "id"), False)

    def purge(self, *, older_than: Duration | None = None) -> int:
        """Archive what has expired, and remove for good what has been archived for long.

        Args:
            older_than: How long ago it must have been archived; None takes the setting `retention_days`
                (0 days there keeps everything for ever), 0 purges all that is archived. Pinned ones stay.

        Returns:
            How many records were removed.
        """
        self._saving.expire()
        if older_than is None and self.settings.retention_days == 0:
            return 0
        if older_than is None:
            older_than = timedelta(days=self.settings.retention_days)
        at_once = older_than in (0, timedelta(0))
        age = timedelta(0) if at_once else timestamps.parse_duration(older_than, name="older_than")
        return self._saving.purge(older_than=age)

    # -- conversations -----------------------------------------------------------------------------------

    def session(self, id: str, *, scope: str = "") -> Session:
        """A conversation, opened again or begun. Nothing is written before its first turn.

        Args:
            id: `{channel}:{chat}`, or any text of 1 to 200 characters.
            scope: Whose memory it is, if it begins now.

        Raises:
            InvalidInput: the id is not of its form.
        """
        with self._lock:
            self._unload_idle_sessions()
            session = self._sessions.get(id)
            if session is None:
                session = Session(
                    id,
                    writer=self._writer,
                    recaller=self._searching,
                    settings=self.settings,
                    scope=scope,
                    standing=self._read_standing,
                    look=self._refresh_files,
                    listener=self._learning,
                )
                self._sessions[id] = session
            elif scope and scope != session.state.scope:
                raise InvalidInput(
                    f"session {id!r} belongs to the scope {session.state.scope!r}, not to {scope!r}: "
                    "open it with its own, or choose another id"
                )
            return session

    def consolidate_session(self, id: str) -> list[SaveResult]:
        """Keep what a session came to, by rule and without a model (agentkit's session consolidation).

        Sentences with "decided", "conclusion", "important", "remember", "note that", "key insight", "learned
        that", "will use", "should use" or "agreed" become insights, and the last answer of over 100
        characters one that stands for the session, in the place of the one before. Each turn is looked at
        once, however often this runs; what is remembered already as a decision or the like, and what seems to
        hold a secret, is left out.

        Args:
            id: Which session; an unknown one has nothing to keep.

        Returns:
            What became of each insight; the summary last, if there is a new one.
        """
        return self._learning.consolidate(validate_text(id, "id"))

    def delete_session(self, id: str) -> int:
        """Remove a session, its turns and its working memory for good, because a person asks for it.

        The lines that its answers left in daily notes go too. (The journal keeps what was said, for `undo`.)

        Returns:
            How many turns were removed; 0 for an unknown session.
        """
        with self._lock:
            open_session = self._sessions.pop(id, None)
        if open_session is not None:
            open_session.forget()
        removed = self._saving.delete_session(
            id,
            cursors={build_shown_cursor(id): None, build_cursor_name(id): None},
            noted=lambda turns: find_notes_from_turns(self._store, turns),
        )
        self._store.drop_entries(build_session_namespace(id))
        return removed

    def _publish(self, rows: Sequence[JournalEntry]) -> None:
        """Pass committed journal entries to the search index and the files."""
        self._index.notice(rows)
        if self.folder is not None:
            self.folder.notice(rows)

    def _refresh_files(self) -> None:
        """Take in what a person changed in the files."""
        if self.folder is not None:
            self.folder.refresh()

    def _unload_idle_sessions(self) -> None:
        """Let go of sessions that nobody used for a while; what they hold is on disk."""
        limit = self._clock() - timedelta(minutes=self.settings.idle_minutes)
        for session in list(self._sessions.values()):
            if session.last_used < limit:
                try:
                    session.close()
                except StoreUnavailable:  # a full disk; what it was shown is kept here until there is room
                    continue
                del self._sessions[session.id]


def resolve_folder(path: str | os.PathLike[str] | None) -> Path:
    """The folder that `Memory.open` takes for that; raises `InvalidInput`."""
    if path is None:
        import platformdirs  # only here: most programs name their folder

        return Path(platformdirs.user_data_dir("reverie"))
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"path is {path!r}: pass the name of a folder")
    return Path(text).expanduser().absolute()
