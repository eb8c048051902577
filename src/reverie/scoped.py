"""What may somebody who is in one scope do with a memory? The same as with the whole, within that scope.

Reads see the whole chain: the scope, what it lies in, and what is everybody's. Writes go to the scope itself.
Of other scopes nothing can be told apart from what is not there. Decides nothing about searching or saving:
each method passes the scope to `Memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from reverie.admin.stats import ScopeStats
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.entry import build_scope_namespace
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.filter import (
    ScopedAllRestrictions,
    ScopedListRestrictions,
    ScopedRestrictions,
    ScopedTurnRestrictions,
)
from reverie.domain.page import HISTORY, MEMORY, Paragraph
from reverie.domain.record import UNTRUSTED, Kind, Layer, Origin, Record
from reverie.domain.scope import (
    build_scoped_session_id,
    build_unscoped_session_id,
    join_scope,
    validate_scope,
    visible_scopes,
)
from reverie.domain.text.timestamps import Clock
from reverie.repositories.pages import Pages
from reverie.repositories.records import (
    NewRecord,
    RecordChanges,
    RecordRepository,
    SaveResult,
    describe_missing_record,
)
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.hits import FIL, Hit, SearchMode, Unit
from reverie.session import Session
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.memory import Duration, Memory
    from reverie.repositories.documents import Documents
    from reverie.repositories.key_value import KeyValueStore
    from reverie.repositories.knowledge_graph import KnowledgeGraph
    from reverie.tools import Toolset


class ScopedMemory:
    """A memory as somebody sees it who is in one scope: `Memory.scoped` gives it. Safe for several threads.

    Attributes:
        scope: Whose it is, such as `user:alice/task:deploy`; what is written here belongs to it.
        chain: What is seen here: the scope, those it lies in, and the empty one, which is everybody's.
        settings: The memory's settings.
        scratchpad: The scope's own working memory that outlives sessions.
        pages: The pages and logs, which are everybody's: read here, written only through the memory.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
        ...     _ = alice.save("Alice is allergic to nuts")
        ...     len(alice.search("allergic")), len(bob.search("allergic"))
        (1, 0)
    """

    def __init__(self, memory: Memory, scope: str) -> None:
        """See a memory from within a scope.

        Args:
            memory: The memory.
            scope: The scope; empty for what is everybody's.

        Raises:
            InvalidInput: it is no scope.
        """
        self.scope = validate_scope(scope)
        self.chain = visible_scopes(self.scope)
        self.settings: Settings = memory.settings
        self._memory = memory
        self._clock: Clock = memory._clock
        self.scratchpad = (
            WorkingMemory(
                memory._store,
                build_scope_namespace(self.scope),
                settings=memory.settings,
                clock=memory._clock,
            )
            if self.scope
            else memory.scratchpad
        )
        self.pages: Pages = ReadOnlyPages(memory, self.scope) if self.scope else memory.pages

    def __repr__(self) -> str:
        return f"Scoped({self.scope!r})"

    def scoped(self, scope: str) -> ScopedMemory:
        """What somebody sees who is in a narrower scope, within this one.

        Args:
            scope: Its name here, such as `session:telegram:1` or `task:deploy`.

        Raises:
            InvalidInput: it is no scope, or too long together with this one.
        """
        return ScopedMemory(self._memory, join_scope(self.scope, scope))

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
        pinned: bool = False,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        ttl: Duration | None = None,
        metadata: Mapping[str, str] | None = None,
        created_at: datetime | None = None,
        rough: bool = False,
    ) -> SaveResult:
        """Remember one thing in this scope; see `Memory.save`."""
        return self._memory.save(
            content,
            category=category,
            kind=kind,
            layer=layer,
            tags=tags,
            confidence=confidence,
            importance=importance,
            source=source,
            references=references,
            origin=origin,
            scope=self.scope,
            pinned=pinned,
            valid_from=valid_from,
            valid_to=valid_to,
            ttl=ttl,
            metadata=metadata,
            created_at=created_at,
            rough=rough,
        )

    def save_many(
        self,
        notes: Iterable[NewRecord | Mapping[str, Any]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[SaveResult]:
        """Remember many things in this scope; see `Memory.save_many`.

        Raises:
            InvalidInput: one of them is not of its form, or names another scope; nothing was changed.
        """
        return self._memory.save_many([self._scope_note(note) for note in notes], progress=progress)

    def remember_fil(
        self,
        findings: Iterable[str] = (),
        insights: Iterable[str] = (),
        lessons: Iterable[str] = (),
        *,
        source: str = "",
    ) -> list[SaveResult]:
        """Remember findings, insights and lessons in this scope; see `Memory.remember_fil`."""
        return self._memory.remember_fil(findings, insights, lessons, source=source, scope=self.scope)

    def promote(self, id: str, *, to: str = "") -> SaveResult:
        """Copy a record to a wider scope of the chain, because somebody asks for it. It stays here as well.

        Nothing is ever promoted by itself. The copy says what the record says, and its metadata name the
        record (`promoted_from`); where the wider scope has it already, that is reinforced. It is a change
        like any other: `Memory.undo` takes it back.

        Args:
            id: Which record.
            to: The scope: one that this record's own lies in; empty for everybody's.

        Returns:
            The record there, and whether it was created, reinforced or extended.

        Raises:
            NotFound: there is no such record here.
            InvalidInput: the scope is not a wider one, the record is archived, or what it says comes from a
                tool, the web or an import.
        """
        record = self.get(id)
        if record is None:
            raise NotFound(describe_missing_record(id))
        wider = visible_scopes(record.scope)[1:]
        if validate_scope(to, name="to") not in wider:
            there_are = ", ".join(repr(each) for each in wider)
            raise InvalidInput(
                f"to is {to!r}, and record {id!r} can be promoted "
                + (f"only to {there_are}" if wider else "no further: it is everybody's")
            )
        if record.archived:
            raise InvalidInput(f"record {id!r} is archived: restore it first")
        if record.origin in UNTRUSTED:
            raise InvalidInput(
                f"record {id!r} has the origin {record.origin!r}, and what nobody vouches for is not "
                "promoted: save it in your own words, or leave it where it is"
            )
        return self._memory._promote(record, to)

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[RecordChanges]) -> Record:
        """Change fields of a record; see `Memory.update`.

        Raises:
            NotFound: there is no such record here.
            InvalidInput: an argument is not of its form, another live record says the same, or the record is
                everybody's.
            Conflict: it is no longer `expected`.
        """
        return self._memory.update(self._require_own(id), expected=expected, **changes)

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Take a record out of search; see `Memory.archive`. What is everybody's is refused."""
        return self._memory.archive(self._require_own(id), reason=reason)

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search; see `Memory.restore`. What is everybody's is refused."""
        return self._memory.restore(self._require_own(id))

    def delete(self, id: str) -> bool:
        """Archive a record if it is here; False, and no change, if not. What is everybody's is refused."""
        return self.get(id) is not None and self._memory.delete(self._require_own(id))

    def pin(self, id: str) -> Record:
        """Keep a record from decay and from every automatic change; what is everybody's is refused."""
        return self._memory.pin(self._require_own(id))

    def unpin(self, id: str) -> Record:
        """Take back a pin; what is everybody's is refused."""
        return self._memory.unpin(self._require_own(id))

    # -- reading -----------------------------------------------------------------------------------------

    def get(self, id: str) -> Record | None:
        """The record of that id, archived or not; None if there is none here."""
        found = self._memory.get(id)
        return found if found is not None and found.scope in self.chain else None

    def get_turn(self, id: str) -> Turn | None:
        """The turn of that id; None if there is none here."""
        found = self._memory.get_turn(id)
        return found if found is not None and found.scope in self.chain else None

    def get_paragraph(self, id: str) -> Paragraph | None:
        """The paragraph of a log of that id; None if there is none. Logs are everybody's."""
        return self._memory.get_paragraph(id)

    def records(
        self, *, limit: int | None = 50, offset: int = 0, **only: Unpack[ScopedListRestrictions]
    ) -> list[Record]:
        """Records, the latest changed first; see `Memory.records`."""
        return self._memory.records(limit=limit, offset=offset, scope=self.chain, **_reject_scope(only))

    def recent(self, *, limit: int = 10, **only: Unpack[ScopedRestrictions]) -> list[Record]:
        """The records changed last that hold now; see `Memory.recent`."""
        return self._memory.recent(limit=limit, scope=self.chain, **_reject_scope(only))

    def categories(self) -> dict[str, int]:
        """How many live records each category has; those without one under the empty text."""
        return self._memory.categories(scope=self.chain)

    def tags(self) -> dict[str, int]:
        """How many live records each tag has."""
        return self._memory.tags(scope=self.chain)

    # -- searching ---------------------------------------------------------------------------------------

    def search(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[ScopedRestrictions],
    ) -> list[Hit]:
        """Records that answer a question, best first; see `Memory.search`.

        Of what two scopes of the chain say in the same words, the narrower one's is found.
        """
        return self._memory.search(
            query, limit=limit, min_score=min_score, mode=mode, scope=self.chain, **_reject_scope(only)
        )

    def search_turns(
        self,
        query: str,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        unit: Unit = "turn",
        **only: Unpack[ScopedTurnRestrictions],
    ) -> list[Hit]:
        """Turns of past conversations that answer a question, best first; see `Memory.search_turns`."""
        return self._memory.search_turns(
            query,
            limit=limit,
            min_score=min_score,
            mode=mode,
            unit=unit,
            scope=self.chain,
            **self._resolve_sessions(only),
        )

    def search_history(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Hit]:
        """Paragraphs of `HISTORY.md`, which is everybody's; see `Memory.search_history`."""
        return self._memory.search_history(
            query, limit=limit, min_score=min_score, mode=mode, since=since, until=until
        )

    def recall(
        self,
        query: str | None = None,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        mode: SearchMode = "words",
        **only: Unpack[ScopedAllRestrictions],
    ) -> list[Hit]:
        """What answers a question among records, turns and `HISTORY.md`; see `Memory.recall`."""
        return self._memory.recall(
            query,
            limit=limit,
            min_score=min_score,
            mode=mode,
            scope=self.chain,
            **self._resolve_sessions(only),
        )

    def recall_fil(self, query: str, *, limit: int = 5) -> FIL:
        """Findings, insights and lessons about a question, three lists; see `Memory.recall_fil`."""
        return self._memory.recall_fil(query, limit=limit, scope=self.chain)

    def recall_by_category(self, query: str, category: str, *, limit: int = 5) -> list[Hit]:
        """Records of a category, or of a FIL kind, that answer; see `Memory.recall_by_category`."""
        return self._memory.recall_by_category(query, category, limit=limit, scope=self.chain)

    # -- values under keys -------------------------------------------------------------------------------

    def shelf(self, name: str, *, origin: Origin = "agent") -> KeyValueStore:
        """Values of a program under keys, in this scope alone; see `Memory.shelf`."""
        return self._memory.shelf(name, scope=self.scope, origin=origin)

    def knowledge_graph(self) -> KnowledgeGraph:
        """Entities, observations and relations of this scope alone; see `Memory.knowledge_graph`."""
        return self._memory.knowledge_graph(scope=self.scope)

    # -- conversations -----------------------------------------------------------------------------------

    def session(self, id: str) -> Session:
        """A conversation of this scope, opened again or begun; see `Memory.make_session`.

        Each scope has names of its own: `telegram:1` of `user:alice` is kept as `user:alice//telegram:1`,
        which is the session's `id`, and may be passed as well. A session of this scope that was begun as
        `Memory.session(id, scope=…)` keeps its id, and everybody's of that name is kept as `//telegram:1`.

        Raises:
            InvalidInput: the id is not of its form, or too long together with the scope.
        """
        return self._memory.session(self._resolve_own_session(id), scope=self.scope)

    def sessions(self, *, limit: int | None = None) -> list[SessionOverview]:
        """Sessions with their number of turns, the latest active first; see `Memory.sessions`."""
        return self._memory.sessions(scope=self.chain, limit=limit)

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> list[Turn]:
        """Turns of a session by position; one that is not here has none. See `Memory.turns`."""
        return self._memory.turns(self._resolve_session(session), start=start, stop=stop)

    def consolidate_session(self, id: str) -> list[SaveResult]:
        """Keep what a session of this scope came to; see `Memory.consolidate_session`."""
        return self._memory.consolidate_session(self._resolve_own_session(id))

    def delete_session(self, id: str) -> int:
        """Remove a session of this scope, its turns and its working memory; see `Memory.delete_session`."""
        return self._memory.delete_session(self._resolve_own_session(id))

    def tools(self, *, session: str | None = None, groups: Sequence[str] | None = None) -> Toolset:
        """What a model may do within this scope: the same tools as `Memory.tools` gives.

        Args:
            session: In which conversation of this scope they are called; None for none.
            groups: Which tools, as for `Memory.tools`.

        Raises:
            InvalidInput: there is no such group, or `working` was asked for without a session.
        """
        from reverie.tools import DEFAULT_GROUPS, memory_tools

        return memory_tools(
            ScopedMemory(self._memory._copy_with_actor(self._memory._agent), self.scope),
            session=None if session is None else self.session(session),
            groups=DEFAULT_GROUPS if groups is None else groups,
            clock=self._clock,
        )

    def documents(self, *, actor: str = "agent", heard: Callable[[str], Origin] | None = None) -> Documents:
        """The memory as text files, for an agent that keeps it so (`reverie.repositories.documents`).

        Args:
            actor: Who is named in the journal as the author of changes.
            heard: Tells whose word a text is that shall be written, such as `Session.determine_origin` of the
                conversation; a tool's does not get into what stands in prompts. None where that is not known.
        """
        from reverie.repositories.documents import KEPT_AS, Documents
        from reverie.repositories.key_value import KeyValueStore

        memory = self._memory
        writer = memory._writer.acting(actor)

        def shelf(origin: Origin) -> KeyValueStore:
            return KeyValueStore(
                KEPT_AS,
                writer=writer,
                searching=memory._searching,
                scope=self.scope,
                origin=origin,
                zone=memory.settings.zone,
            )

        return Documents(
            writer,
            pages=Pages(writer, settings=memory.settings),
            saving=RecordRepository(writer, memory._index, zone=memory.settings.zone),
            shelf=shelf("agent"),
            unconfirmed=shelf("tool"),
            scope=self.scope,
            look=memory._refresh_files,
            heard=heard,
        )

    # -- looking inside ----------------------------------------------------------------------------------

    def stats(self) -> ScopeStats:
        """How much is seen here."""
        return self._memory.scope_stats(self.scope)

    # -- inside ------------------------------------------------------------------------------------------

    def _require_own(self, id: str) -> str:
        """The id of a record, if it may be changed here."""
        found = self.get(id)
        if found is None:
            raise NotFound(describe_missing_record(id))
        if self.scope and not found.scope:
            raise InvalidInput(
                f"record {id!r} is everybody's: it can be read here, and changed only outside of "
                f"{self.scope!r}. Save what differs as a record of its own"
            )
        return id

    def _scope_note(self, note: NewRecord | Mapping[str, Any]) -> NewRecord | Mapping[str, Any]:
        given = (
            note.scope
            if isinstance(note, NewRecord)
            else note.get("scope")
            if isinstance(note, Mapping)
            else ""
        )
        if given and given != self.scope:
            raise InvalidInput(f"a note has the scope {given!r}: here everything is saved in {self.scope!r}")
        if isinstance(note, NewRecord):
            return replace(note, scope=self.scope)
        return {**note, "scope": self.scope} if isinstance(note, Mapping) else note

    def _resolve_own_session(self, id: str) -> str:
        """The id under which a session of this scope is kept, whether it has begun or not."""
        if not isinstance(id, str):
            return id
        own = build_scoped_session_id(self.scope, id)
        kept = self._get_session_scope(own)
        if own != id and kept is None and self._get_session_scope(id) == self.scope:
            return id
        return build_unscoped_session_id(own) if kept and not self.scope else own

    def _resolve_session(self, id: str) -> str:
        """The id under which a session is kept that can be read here."""
        own = self._resolve_own_session(id)
        if self._get_session_scope(own) is None and self._get_session_scope(id) in self.chain:
            return id
        return own

    def _get_session_scope(self, session: str) -> str | None:
        state = self._memory._store.session(session)
        if state is None and (begun := self._memory._sessions.get(session)) is not None:
            state = begun.state
        return None if state is None else state.scope

    def _resolve_sessions(self, only: Mapping[str, Any]) -> dict[str, Any]:
        """The restrictions, with sessions under the ids that they are kept under."""
        wanted = _reject_scope(only).get("session")
        if wanted is None:
            return dict(only)
        asked = [wanted] if isinstance(wanted, str) else wanted
        if not isinstance(asked, Sequence) or not all(isinstance(each, str) for each in asked):
            return dict(only)
        return {**only, "session": [self._resolve_session(each) for each in asked]}


class ReadOnlyPages(Pages):
    """The pages and logs of a memory as a scope has them: read, never written. They are everybody's.

    Args:
        memory: The memory.
        scope: Whose view it is.
    """

    def __init__(self, memory: Memory, scope: str) -> None:
        super().__init__(memory._writer, settings=memory.settings)
        self._scope = scope

    def _run_with_retries(self, attempt: Callable[[int], object]) -> NoReturn:
        del attempt  # all that is written goes through here
        raise InvalidInput(
            f"pages such as {MEMORY} and {HISTORY} are everybody's and cannot be changed from within "
            f"{self._scope!r}: save a record instead, which stays in that scope"
        )


def _reject_scope(only: Mapping[str, Any]) -> dict[str, Any]:
    """The restrictions, where they leave the scope to this one."""
    if "scope" in only:
        raise TypeError("unexpected keyword argument 'scope': whose memory it is was said by `scoped`")
    return dict(only)
