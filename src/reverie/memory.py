"""The memory of an agent: open a folder, save, search, talk. The only place where the parts are put together.

Every method is short: what it does is in `saving`, `searching`, `session` and the store.
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
from typing import Any, Unpack, get_args

from reverie import clock as clocks
from reverie import ids
from reverie.analyser import analyse
from reverie.clock import Clock
from reverie.config import Settings
from reverie.context import Standing
from reverie.edits import JournalRow
from reverie.entries import AGENT, session_namespace
from reverie.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.filters import (
    AllRestrictions,
    Filter,
    ListRestrictions,
    Restrictions,
    TurnRestrictions,
    restricted,
)
from reverie.ids import NewId
from reverie.index.committed import FORMAT
from reverie.index.follower import SearchIndex
from reverie.profile import Profile
from reverie.recall.hits import FIL, Hit, SearchMode, Unit
from reverie.recall.ranking import RankingSettings
from reverie.records import FIL as RECORDS_FIL
from reverie.records import Kind, Layer, Origin, Record, one_of
from reverie.saving import Changes, Note, Saved, Saving
from reverie.searching import Question, Searching, checked_count
from reverie.session import Session, shown_cursor
from reverie.stats import Stats, bytes_in
from reverie.stores.base import Problem, Store
from reverie.stores.sqlite import SQLiteStore
from reverie.turns import SessionOverview, Turn
from reverie.working import WorkingMemory

DATABASE = "reverie.db"
IN_MEMORY = ":memory:"

Duration = str | float | timedelta


class Memory:
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
        clock: Clock = clocks.utc_now,
        new_id: NewId = ids.new_id,
        actor: str = "owner",
        profile: Path | None = None,
    ) -> None:
        """Put a memory together over a store; `Memory.open` is the usual way.

        Args:
            store: Where everything is kept, opened with `reverie.analyser.analyse`.
            path: The folder for the search index; None keeps the index in memory.
            settings: The settings; None for the defaults.
            clock: What tells the time.
            new_id: What makes ids.
            actor: Who is named in the journal as the author of changes.
            profile: The folder of `soul.md`, `directives.md` and `style.md`; None for no profile.
        """
        self.path = path
        self.settings = settings if settings is not None else Settings()
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._actor = actor
        folder = None if path is None else path / "index" / FORMAT
        self._index = SearchIndex(store, folder, analyse=analyse)
        self._searching = Searching(
            store,
            self._index,
            clock=clock,
            settings=RankingSettings(),
            floor=self.settings.min_relevance,
        )
        self._saving = Saving(store, self._index, clock=clock, new_id=new_id, actor=actor)
        self._profile = None if profile is None else Profile(profile)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False
        self.scratchpad = WorkingMemory(store, AGENT, settings=self.settings, clock=clock)

    # -- opening and closing ---------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock = clocks.utc_now,
        new_id: NewId = ids.new_id,
        actor: str = "owner",
        profile: str | os.PathLike[str] | None = None,
        create: bool = True,
    ) -> Memory:
        """Open the memory in a folder, making it if it is not there.

        Args:
            path: The folder; `~` is the home directory. None takes the platform's data folder for
                Reverie. `":memory:"` keeps everything in memory, and nothing once it is closed.
            settings: The settings; None for the defaults.
            clock: What tells the time; for tests and replays.
            new_id: What makes ids; for tests and replays.
            actor: Who is named in the journal as the author of changes, such as `owner` or `agent`.
            profile: The folder of `soul.md`, `directives.md` and `style.md`, which stand first in every
                prompt where they exist; None takes the memory's folder.
            create: Whether to make a memory where there is none.

        Returns:
            The memory; close it, or use it in a `with` statement.

        Raises:
            NotFound: there is no memory in the folder, and `create` is False.
            StoreUnavailable: the folder cannot be made, read or written.
            StoreForeign: its database is not Reverie's, or a newer Reverie made it.
            StoreCorrupt: its database cannot be read.
        """
        beside = None if profile is None else _folder(profile)
        if path is not None and os.fspath(path) == IN_MEMORY:
            from reverie.stores.inmemory import InMemoryStore  # here: most memories are on disk

            store: Store = InMemoryStore(analyse=analyse)
            return cls(store, settings=settings, clock=clock, new_id=new_id, actor=actor, profile=beside)
        folder = _folder(path)
        database = folder / DATABASE
        if not create and not database.exists():
            raise NotFound(f"there is no memory in {str(folder)!r}: open it with create=True to make one")
        store = SQLiteStore(database, analyse=analyse, create=create)
        return cls(
            store,
            path=folder,
            settings=settings,
            clock=clock,
            new_id=new_id,
            actor=actor,
            profile=beside or folder,
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
                self._sessions.clear()
                self._closed = True
            closing.callback(self._store.close)
            closing.callback(self._index.close)
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
    ) -> Saved:
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

        Returns:
            The record, and whether it was created, reinforced or extended.

        Raises:
            InvalidInput: an argument is not of its form; nothing was changed.
            StoreUnavailable: it could not be written; nothing was changed.
        """
        note = Note(
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
        )
        return self._saving.save(note)

    def save_many(
        self,
        notes: Iterable[Note | Mapping[str, Any]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[Saved]:
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
    ) -> list[Saved]:
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
            Note(content=text, kind=kind, source=source, scope=scope)
            for kind, texts in lists
            for text in texts
        )

    # -- reading -----------------------------------------------------------------------------------------

    def get(self, id: str) -> Record | None:
        """The record of that id, archived or not; None if there is none.

        Raises:
            StoreCorrupt: there is one, but it cannot be read.
        """
        found = self._store.records([_text(id, "id")])
        return found[0] if found else None

    def get_turn(self, id: str) -> Turn | None:
        """The turn of that id; None if there is none."""
        found = self._store.turns([_text(id, "id")])
        return found[0] if found else None

    def records(
        self, *, limit: int | None = 50, offset: int = 0, **only: Unpack[ListRestrictions]
    ) -> list[Record]:
        """Records, the latest changed first.

        Args:
            limit: At most so many; None for all.
            offset: Leave out so many first.
            **only: What to restrict it to; see `reverie.filters.ListRestrictions`.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        allowed = restricted(only, ListRestrictions)
        if allowed.archived is False:
            allowed = replace(allowed, alive_at=self._clock())
        checked_count(offset, name="offset", least=0)
        if limit is not None:
            checked_count(limit, name="limit", least=0)
        return list(self._store.find(allowed, limit=limit, offset=offset))

    def categories(self, *, scope: str | Sequence[str] | None = None) -> dict[str, int]:
        """How many live records each category has; those without one under the empty text."""
        return self._store.tally("category", self._live(scope))

    def tags(self, *, scope: str | Sequence[str] | None = None) -> dict[str, int]:
        """How many live records each tag has."""
        return self._store.tally("tag", self._live(scope))

    # -- searching ---------------------------------------------------------------------------------------

    def search(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[Restrictions],
    ) -> list[Hit]:
        """Records that answer a question, best first; nothing when nothing is relevant.

        Args:
            query: The question, up to 10,000 characters; None lists the latest changed records.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            **only: What to restrict it to; see `reverie.filters.Restrictions`.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        question = Question(
            text=query, allowed=restricted(only, Restrictions), limit=limit, min_score=min_score, mode=mode
        )
        return self._searching.records(question)

    def search_turns(
        self,
        query: str,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **only: Unpack[TurnRestrictions],
    ) -> list[Hit]:
        """Turns of past conversations that answer a question, best first.

        A turn is found through what was said around it too, and by its speaker and date.

        Args:
            query: The question, up to 10,000 characters.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            unit: `turn`, or `session` to find whole sessions, each with its best turn.
            **only: What to restrict it to; see `reverie.filters.TurnRestrictions`.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        one_of(unit, get_args(Unit), name="unit")
        allowed = restricted(only, TurnRestrictions)
        question = Question(text=query, allowed=allowed, limit=limit, min_score=min_score, mode=mode)
        return self._searching.sessions(question) if unit == "session" else self._searching.turns(question)

    def recall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[AllRestrictions],
    ) -> list[Hit]:
        """Records and turns together that answer a question, best first: what a prompt is built from.

        Args:
            query: The question, up to 10,000 characters; None lists what is newest.
            limit: At most so many, 1 to 1,000.
            min_score: Only hits that score at least so much, 0 to 1.
            mode: `words` ranks by them; `literal` finds the text as it stands; `regex` a pattern.
            **only: What to restrict it to; see `reverie.filters.AllRestrictions`. One that only records
                have (such as `category`) leaves turns out, and the other way round.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        question = Question(text=query, allowed=restricted(only), limit=limit, min_score=min_score, mode=mode)
        return self._searching.everything(question)

    def recall_fil(self, query: str, *, limit: int = 5, scope: str | Sequence[str] | None = None) -> FIL:
        """Findings, insights and lessons about a question, three lists (agentkit's RecallFIL).

        Args:
            query: The question.
            limit: At most so many of each.
            scope: Only this scope, or these.
        """
        found = [self.search(query, limit=limit, kinds=[kind], scope=scope) for kind in RECORDS_FIL]
        return FIL(findings=found[0], insights=found[1], lessons=found[2])

    def recall_by_category(self, query: str, category: str, *, limit: int = 5) -> list[Hit]:
        """Records of a category, or of one of the three FIL kinds, that answer a question.

        Args:
            query: The question.
            category: A category, or `finding`, `insight` or `lesson`.
            limit: At most so many.
        """
        for kind in RECORDS_FIL:
            if category == kind:
                return self.search(query, limit=limit, kinds=[kind])
        return self.search(query, limit=limit, category=category)

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[Changes]) -> Record:
        """Change fields of a record; what is not given stays.

        Args:
            id: Which record.
            expected: The record as you read it; if it has changed since, nothing is done.
            **changes: The new values; see `reverie.saving.Changes`.

        Returns:
            The record as it is now.

        Raises:
            NotFound: there is no such record.
            InvalidInput: an argument is not of its form, or another live record says the same.
            Conflict: it is no longer `expected`.
        """
        return self._saving.update(_text(id, "id"), changes, expected=expected)

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Take a record out of search. It stays readable by id, and `restore` brings it back.

        Args:
            id: Which record.
            reason: Why, for the journal.

        Raises:
            NotFound: there is no such record.
        """
        return self._saving.archive(_text(id, "id"), reason=reason)

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search.

        Raises:
            NotFound: there is no such record.
            InvalidInput: a live record says the same; archive that one first.
        """
        return self._saving.restore(_text(id, "id"))

    def delete(self, id: str) -> bool:
        """Archive a record if it is there; False, and no change, if it is not."""
        try:
            self._saving.archive(_text(id, "id"), reason="delete")
        except NotFound:
            return False
        return True

    def pin(self, id: str) -> Record:
        """Keep a record from decay and from every automatic change; raises `NotFound`."""
        return self._saving.pin(_text(id, "id"), True)

    def unpin(self, id: str) -> Record:
        """Take back a pin; raises `NotFound`."""
        return self._saving.pin(_text(id, "id"), False)

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
        age = timedelta(0) if at_once else clocks.parse_duration(older_than, name="older_than")
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
                    store=self._store,
                    recaller=self._searching,
                    settings=self.settings,
                    clock=self._clock,
                    new_id=self._new_id,
                    actor=self._actor,
                    scope=scope,
                    notice=self._index.notice,
                    standing=self._standing,
                )
                self._sessions[id] = session
            elif scope and scope != session.state.scope:
                raise InvalidInput(
                    f"session {id!r} belongs to the scope {session.state.scope!r}, not to {scope!r}: "
                    "open it with its own, or choose another id"
                )
            return session

    def sessions(
        self, *, scope: str | Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Sessions with their number of turns, the latest active first."""
        if limit is not None:
            checked_count(limit, name="limit", least=0)
        return self._store.sessions(scopes=_scopes(scope), limit=limit)

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> list[Turn]:
        """Turns of a session by position, all of them ever; an unknown session has none.

        Args:
            session: The session's id.
            start: The first position; a negative one counts from the end.
            stop: The position after the last; None for the end.
        """
        return self._store.turns(session=session, start=start, stop=stop)

    def delete_session(self, id: str) -> int:
        """Remove a session, its turns and its working memory for good, because a person asks for it.

        Returns:
            How many turns were removed; 0 for an unknown session.
        """
        with self._lock:
            open_session = self._sessions.pop(id, None)
        if open_session is not None:
            open_session.forget()
        removed = self._saving.delete_session(id, cursors={shown_cursor(id): None})
        self._store.drop_entries(session_namespace(id))
        return removed

    # -- looking inside ----------------------------------------------------------------------------------

    def history(self, id: str | None = None, *, after: int = 0, limit: int = 100) -> list[JournalRow]:
        """The journal: every change, in the order it was made.

        Args:
            id: Only changes of the record, turn or session of this id.
            after: Only changes with a larger number.
            limit: At most so many.
        """
        checked_count(after, name="after", least=0)
        return self._store.journal(after=after, id=id, limit=checked_count(limit, name="limit"))

    def stats(self) -> Stats:
        """What this memory holds."""
        live = self._live(None)
        by_kind = self._store.tally("kind", live)
        sessions = self._store.sessions()
        return Stats(
            records=sum(by_kind.values()),
            archived=sum(self._store.tally("kind", Filter(archived=True)).values()),
            turns=self._store.measure("turn", None).passages,
            sessions=len(sessions),
            journal=self._store.sequence(),
            by_kind=by_kind,
            by_category=self._store.tally("category", live),
            bytes_on_disk=bytes_in(self.path),
            index=self._index.status(),
            path=self.path,
        )

    def check(self) -> list[Problem]:
        """Everything that is wrong with what is stored; an empty list when it is sound."""
        return self._store.check()

    def _standing(self) -> Standing:
        return Standing(profile=self._profile.read()) if self._profile is not None else Standing()

    def _live(self, scope: str | Sequence[str] | None) -> Filter:
        return Filter(scopes=_scopes(scope), alive_at=self._clock())

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


def _folder(path: str | os.PathLike[str] | None) -> Path:
    if path is None:
        import platformdirs  # only here: most programs name their folder

        return Path(platformdirs.user_data_dir("reverie"))
    text = os.fspath(path)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"path is {path!r}: pass the name of a folder")
    return Path(text).expanduser().absolute()


def _scopes(scope: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if scope is None:
        return None
    return (scope,) if isinstance(scope, str) else tuple(scope)


def _text(value: str, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {value!r}: pass a string")
    return value
