"""Memory of one scope: reading, and changes of what belongs to that scope."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, overload

from reverie.consolidation.pair_judge import PairJudge
from reverie.consolidation.rule_learning import RuleLearner, build_cursor_name
from reverie.domain.change import Operation
from reverie.domain.conversation import SessionState
from reverie.domain.entry import build_scope_namespace
from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.filter import has_ended
from reverie.domain.lazy_dataclass import replace
from reverie.domain.page import LONGEST_PAGE
from reverie.domain.provenance import OriginFunction
from reverie.domain.record import UNTRUSTED, Origin, Record, normalize_labels
from reverie.domain.scope import EVERY_SCOPE, validate_scope, visible_scopes
from reverie.domain.text import validation
from reverie.domain.text.timestamps import Clock
from reverie.reader import MemoryReader
from reverie.repositories.pages import Pages
from reverie.repositories.records import (
    NOTE_FIELDS,
    NewRecord,
    RecordChanges,
    RecordFields,
    RecordRepository,
    SaveResult,
    Settlement,
    describe_missing_record,
    parse_new_record,
)
from reverie.repositories.turns import delete_session
from reverie.repositories.wishes import ForgetRequests
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.searcher import Searcher
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.forks import ForkSafeLock
from reverie.stores.living_page import LivingPages, PageEdit, read_block
from reverie.stores.telemetry import describe_records, trace
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.repositories.key_value import KeyValueStore
    from reverie.tools import Toolset


class MemoryParts(NamedTuple):
    """Parts that all scopes of one memory share.

    Attributes:
        writer: Writer of the store; its actor is the author of changes.
        refresh_files: Callback that imports what a person changed in the files.
        judge: Judge of changed records; None for a memory that cannot be written.
        living: The living pages.
    """

    writer: StoreWriter
    searcher: Searcher
    settings: Settings
    refresh_files: Callable[[], None]
    judge: PairJudge | None
    records: RecordRepository
    learner: RuleLearner
    sessions: SessionPool
    living: LivingPages

    def acting(self, actor: str) -> MemoryParts:
        """Return the same parts with another author of changes."""
        return self._replace(writer=self.writer.acting(actor), records=self.records.acting(actor))


class ScopedMemory(MemoryReader):
    """Memory of one scope: `Memory.scoped` returns it. Safe to use from several threads.

    Reads see the scope, the scopes that contain it, and what belongs to everybody. Writes go to the scope
    itself. What belongs to another scope, or to everybody, is not changed from here.

    Attributes:
        scope: The scope, such as `user:alice/task:deploy`; empty for everybody's.
        settings: The settings of the memory.
        scratchpad: Working memory of the scope, which outlives sessions.
        pages: The pages and logs. They belong to everybody: only the empty scope writes them.
        forget_requests: Erasures that were asked for in conversations and wait for a person.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
        ...     _ = alice.save("Alice is allergic to nuts")
        ...     len(alice.search("allergic")), len(bob.search("allergic"))
        (1, 0)
    """

    def __init__(self, parts: MemoryParts, scope: str) -> None:
        """Open one scope of a memory; `Memory.scoped` is the usual way.

        Raises:
            InvalidInput: the scope is not of its form.
        """
        super().__init__(
            parts.writer.store,
            parts.searcher,
            scope=validate_scope(scope),
            settings=parts.settings,
            clock=parts.writer.clock,
        )
        self._parts = parts
        self._judge = parts.judge
        self.forget_requests = ForgetRequests(parts.writer, parts.searcher, scope)
        self.scratchpad = WorkingMemory(
            self._store, build_scope_namespace(scope), settings=self.settings, clock=self._clock
        )
        self.pages = Pages(parts.writer, settings=self.settings, living=parts.living, scope=scope)

    @overload
    def scoped(self, scope: Literal["*"]) -> MemoryReader: ...  # type: ignore[overload-overlap]
    @overload
    def scoped(self, scope: str) -> ScopedMemory: ...
    def scoped(self, scope: str) -> MemoryReader:
        """Return the memory of a scope within this one.

        Args:
            scope: A path such as `user:alice` or `user:alice/task:deploy`, the widest part first.
                `EVERY_SCOPE`, from the empty scope only, gives a `MemoryReader` over all scopes.

        Raises:
            InvalidInput: the scope is not of its form, or too long together with this one.
        """
        name = self._join_scope(scope)
        return super().scoped(scope) if name == EVERY_SCOPE else ScopedMemory(self._parts, name)

    def acting(self, actor: str) -> ScopedMemory:
        """Return this scope with another author of changes, as the journal names it."""
        return ScopedMemory(self._parts.acting(actor), self.scope)

    # -- saving ------------------------------------------------------------------------------------------

    def save(self, content: str, **fields: Unpack[RecordFields]) -> SaveResult:
        """Save one record in this scope. It is on disk when this returns.

        Saving the same again never makes a duplicate: the record that says it is reinforced.

        Args:
            content: The text to remember, 1 to 100,000 characters.
            category: A slash path such as `user-preferences/style`.
            kind: A kind such as `fact`, `decision` or `failure`; None takes the kind that the
                category names, such as `decisions`, or that the content reads like.
            layer: `episodic`, `semantic` or `procedural`; None takes the layer of the kind.
            tags: Labels.
            confidence: How sure it is, 0 to 1.
            importance: How much it matters, 0 to 1.
            source: Where it came from.
            references: Files, addresses and turn ids it is about.
            origin: Who said it: `owner`, `agent`, `tool`, `web` or `import`. Search finds records of the last
                three, but they are never put into a prompt unasked.
            pinned: Whether to exempt it from decay and from every automatic change.
            valid_from: Moment from which it holds.
            valid_to: Moment until which it holds.
            ttl: Time after which it leaves search, such as `30d`; None for never.
            metadata: Text to text, for the caller's own use.
            created_at: When it was learned; None for now.
            draft: Whether background thinking may split it into well-formed records, if there is a model. It
                is stored and found as it is until then, and the archive keeps it.
            keep_secret: Whether to store secrets in the content, such as a gate code. Only text of the owner may keep
                them. The setting `keep_secrets` does the same for categories.

        Returns:
            The record, whether it was created or reinforced, and a notice of secrets that were redacted.

        Raises:
            InvalidInput: an argument is not of its form; nothing was changed.
            StoreUnavailable: it could not be written; nothing was changed.
        """
        record = NewRecord(content=content, scope=self.scope, **fields)
        return self._trace_save(lambda: [self._parts.records.save(record)])[0]

    def save_many(
        self,
        records: Iterable[str | NewRecord | Mapping[str, Any]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> builtins.list[SaveResult]:
        """Save many records in this scope, a thousand in one transaction.

        Args:
            records: Each a text, a `NewRecord` or a mapping with the arguments of `save`. All are checked before
                any is written.
            progress: Callback that receives the number of records of each transaction.

        Returns:
            The result for each, in order.

        Raises:
            InvalidInput: one of them is not of its form, or names another scope; nothing was changed.
        """
        given = validation.validate_values(records, name="records", of="texts, records or mappings")
        progress = validation.validate_progress(progress)
        notes = [self._add_scope(parse_new_record(each)) for each in given]
        return self._trace_save(lambda: self._parts.records.save_many(notes, progress=progress))

    def promote(self, id: str, *, to: str = "") -> SaveResult:
        """Copy a record to a wider scope that contains this one. The record itself stays.

        Nothing is promoted automatically. `promoted_from` of the copy names the record. If the
        wider scope says the same already, that record is reinforced. `history.undo` takes it back.

        Args:
            id: The id of the record.
            to: A scope that contains the record's own; empty for everybody's.

        Returns:
            The record in the wider scope, and whether it was created or reinforced.

        Raises:
            NotFound: there is no such record here.
            InvalidInput: the scope is not a wider one, the record is archived or expired, or it comes from a
                tool, the web or an import.
        """
        from reverie.repositories.key_value import select_other_metadata  # here: few programs promote

        record = self.get(id)
        if record is None:
            raise NotFound(describe_missing_record(id))
        wider = visible_scopes(record.scope)[1:]
        if validate_scope(to, name="to") not in wider:
            possible = (
                f"only to {', '.join(map(repr, wider))}" if wider else "no further: it is in the shared scope"
            )
            raise InvalidInput(f"to is {to!r}, and record {id!r} can be promoted {possible}")
        if record.archived:
            raise InvalidInput(f"record {id!r} is archived: restore it first")
        if record.origin in UNTRUSTED:
            raise InvalidInput(
                f"record {id!r} has the origin {record.origin!r}, and unconfirmed records cannot be promoted: "
                "save it in your own words, or leave it where it is"
            )
        ttl = None if record.expires_at is None else record.expires_at - self._clock()
        if ttl is not None and ttl <= timedelta(0):
            raise InvalidInput(f"record {id!r} has expired: give it a later `expires_at` first")
        shared = {name: getattr(record, name) for name in NOTE_FIELDS if hasattr(record, name)}
        metadata = select_other_metadata(record.metadata)  # it is no item there
        note = NewRecord(**{**shared, "scope": to, "ttl": ttl, "metadata": metadata})
        save = self._parts.records.save
        return self._trace_save(lambda: [save(note, promoted_from=record.id)], scope=to)[0]

    # -- changing ----------------------------------------------------------------------------------------

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[RecordChanges]) -> Record:
        """Change fields of a record; fields that are not given stay.

        Args:
            id: The id of the record.
            expected: The record as it was read; if it has changed since, nothing is done.
            **changes: The new values; see `reverie.repositories.records.RecordChanges`.

        Returns:
            The record as it is now; the same as before, with its `updated_at`, if nothing changed.

        Raises:
            NotFound: there is no such record here.
            InvalidInput: an argument is not of its form, another live record says the same, or the record
                belongs to everybody and this is a scope.
            Conflict: the record is no longer `expected`.
        """
        update = self._parts.records.update
        return self._trace_update(lambda: update(self._require_own(id), changes, expected=expected))

    def end(self, id: str, *, expected: Record | None = None) -> Record:
        """Say that a record is no longer true: it ends now, leaves prompts, and stays searchable.

        Arguments and errors are those of `update`. A record that has ended stays as it is.
        """
        record, now = self.get(id), self._clock()
        if record is not None and has_ended(record, now):
            return self.update(id, expected=expected)
        return self.update(id, expected=expected, valid_to=now)

    def archive(self, id: str, *, reason: str = "", expected: Record | None = None) -> Record:
        """Take a record out of search. It stays readable by id, and `restore` brings it back.

        Arguments and errors are those of `update`; `reason` is for the journal.
        """
        take = self._parts.records.archive
        return self._trace_update(lambda: take([self._require_own(id)], reason=reason, expected=expected)[0])

    def restore(self, id: str) -> Record:
        """Bring an archived record back into search.

        Raises:
            NotFound: there is no such record here.
            InvalidInput: a live record says the same, or it belongs to everybody and this is a scope.
        """
        return self._trace_update(lambda: self._parts.records.restore(self._require_own(id)))

    def archive_many(self, ids: Iterable[str], *, reason: str = "") -> builtins.list[Record]:
        """Take several records out of search in one transaction, which one undo takes back.

        Raises:
            NotFound: one of them is not here; nothing was changed.
            InvalidInput: one belongs to everybody and this is a scope.
        """
        return self._parts.records.archive([self._require_own(name) for name in ids], reason=reason)

    def label(self, ids: Iterable[str], tags: Iterable[str], *, reason: str = "") -> builtins.list[Record]:
        """Add tags, at least one, to several records in one transaction; errors are those of `archive_many`."""
        if not (added := tuple(tags)):
            raise InvalidInput("tags is empty: name the tags to add")

        def change(record: Record) -> Record:
            return replace(record, tags=normalize_labels((*record.tags, *added), name="tag"))

        return self._change_many(ids, change, operation="tag", reason=reason)

    def vouch(self, ids: Iterable[str], *, reason: str = "") -> builtins.list[Record]:
        """Give several records the owner's word, so that they may stand in a prompt unasked.

        Whoever calls this speaks for the owner. Errors are those of `archive_many`.
        """
        return self._change_many(ids, partial(replace, origin="owner"), operation="vouch", reason=reason)

    def settle(
        self,
        holds: str,
        other: str,
        verdict: Settlement,
        *,
        expected: tuple[Record, Record] | None = None,
        reason: str = "",
    ) -> tuple[Record, Record]:
        """Decide which of two records holds, in one transaction.

        Args:
            holds: The id of the record that holds.
            other: The id of the other one.
            verdict: `ended` if the other one held until now, `wrong` if it never did, so that it is archived, `both` if
                it holds too.
            expected: Both as they were read; if one has changed since, nothing is done.
            reason: A reason for the journal.

        Returns:
            The record that holds and the other one, as they are now. Errors are those of `update`.
        """
        own = self._require_own(holds), self._require_own(other)
        return self._parts.records.settle(*own, verdict, expected=expected, reason=reason)

    # -- the living page ---------------------------------------------------------------------------------

    def page(self, *, is_fresh: bool = True) -> str:
        """Return what this scope knows as one Markdown page, composed anew if something has changed.

        Each line is one record and ends in its id in a comment. A memory too large for `page_tokens` shows what is
        used, important and recent, and says how many records are not shown. Everybody's page ends `MEMORY.md`.

        Args:
            is_fresh: False returns the page as it was composed last, which takes no time; empty if it never was.
        """
        if not is_fresh:
            return read_block(self._store, self.scope)
        if self._judge is not None:
            self._judge.prepare_search()  # so that no line has been replaced by another
        return self._parts.living.read(self.scope)

    def edit_page(
        self, text: str, *, expected: str | None = None, origin: Origin = "owner", reason: str = ""
    ) -> PageEdit:
        """Change records by an edited page: a changed line, a deleted line, a new line.

        If more than three lines are gone, or a comment line of the page, no record is changed: the changes wait for
        review.

        Args:
            text: The page, as `page` returned it, with the edits.
            expected: The page that was edited; None for the present one.
            origin: Who edits it; a record is no more trusted than that afterwards.
            reason: A reason for the journal.

        Raises:
            InvalidInput: a text cannot be that of a record; nothing was changed.
        """
        text = validation.validate_raw_text(text, name="text", longest=LONGEST_PAGE, empty=True)
        base = self.page() if expected is None else expected
        return self._parts.living.edit_block(
            self.scope, text, base, writer=self._parts.writer, origin=origin, note=reason
        )

    # -- conversations -----------------------------------------------------------------------------------

    def session(self, id: str) -> Session:
        """Open a conversation of this scope. Nothing is written before its first turn.

        Each scope has its own names: `telegram:1` of `user:alice` is stored as `user:alice//telegram:1`. That
        is the `id` of the session, and may be passed as well. The empty scope stores names as they are.

        Args:
            id: `{channel}:{chat}`, or any text of 1 to 200 characters.

        Raises:
            InvalidInput: the id is not of its form, or too long together with the scope.
        """
        return self._parts.sessions.open(self._resolve_own_session(id), self.scope)

    def consolidate_session(self, id: str) -> builtins.list[SaveResult]:
        """Save what a session concluded, by rule and without a model (agentkit's session consolidation).

        Sentences with "decided", "conclusion", "important", "remember", "note that", "key insight", "learned
        that", "will use", "should use" or "agreed" become insights. The last answer of over 100 characters
        becomes a summary, in place of the one before. Each turn is read once, however often this is called.
        What is saved already, and what seems to hold a secret, is left out.

        Args:
            id: The id of the session; an unknown one has nothing to save.

        Returns:
            The result for each insight; the summary last, if there is a new one.
        """
        return self._parts.learner.consolidate(self._resolve_own_session(id))

    def delete_session(self, id: str) -> int:
        """Remove a session, its turns, its working memory and its lines in daily notes.

        The journal keeps the turns, so `history.undo` can bring them back; `admin.forget` erases them.

        Returns:
            The number of turns removed; 0 for an unknown session.
        """
        parts, own = self._parts, self._resolve_own_session(id)
        parts.sessions.discard(own)
        return delete_session(parts.writer, own, cursors={build_cursor_name(own): None})

    # -- other ways in -----------------------------------------------------------------------------------

    def tools(self, *, session: str | None = None, groups: Sequence[str] | None = None) -> Toolset:
        """Return tools that let a model use this scope, neutral towards every provider.

        Args:
            session: The conversation in which they are called: they use its working memory, and it becomes
                the source of what is saved. None for none.
            groups: The tools, in this order: any of `long_term`, `working`, `memory`, `fil`, `scratchpad`,
                `conversation`, `pages`. None takes `long_term`, `working` (with a session), `conversation`
                and `pages`, of which no two do the same.

        Raises:
            InvalidInput: there is no such group, or `working` was asked for without a session.
        """
        from reverie.tools import DEFAULT_GROUPS, memory_tools  # here: a search needs no tools

        actor = self._parts.writer.actor
        tools = memory_tools(
            self.acting("agent" if actor == "owner" else actor),
            session=None if session is None else self.session(session),
            groups=DEFAULT_GROUPS if groups is None else groups,
            clock=self._clock,
        )
        return tools if self.settings.is_recording else tools.reading()

    def key_value(
        self, name: str, *, origin: Origin = "agent", determine_origin: OriginFunction | None = None
    ) -> KeyValueStore:
        """Return a key-value store of this scope. Each item is a record that people can see and change.

        Args:
            name: Name of the store, the first segment of its records' categories.
            origin: Who said the values: search finds those of a `tool`, the `web` or an `import`, but they
                are never put into a prompt unasked.
            determine_origin: Function that returns the origin of a text to be written, such as
                `Session.determine_origin`, if a model writes; the less trusted of the two counts.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        from reverie.repositories.key_value import KeyValueStore  # here: few programs keep values

        return KeyValueStore(
            name,
            writer=self._parts.writer,
            searching=self._searcher,
            scope=self.scope,
            origin=origin,
            determine_origin=determine_origin,
        )

    def refresh_files(self) -> None:
        """Import what a person changed in the files."""
        self._parts.refresh_files()

    # -- inside ------------------------------------------------------------------------------------------

    def _require_own(self, id: str) -> str:
        """Return the id of a record that may be changed here; raise otherwise."""
        record = self.get(id)
        if record is None:
            raise NotFound(describe_missing_record(id))
        if self.scope and not record.scope:
            raise InvalidInput(
                f"record {id!r} belongs to the shared scope: it can be read here, and changed only outside of "
                f"{self.scope!r}. Save what differs as a separate record"
            )
        return id

    def _change_many(
        self, ids: Iterable[str], change: Callable[[Record], Record], *, operation: Operation, reason: str
    ) -> builtins.list[Record]:
        own = [self._require_own(name) for name in ids]
        return self._parts.records.change(own, change, operation=operation, note=reason, touch=True)

    def _trace_save(
        self, save: Callable[[], builtins.list[SaveResult]], *, scope: str | None = None
    ) -> builtins.list[SaveResult]:
        if not self.settings.telemetry:
            return save()
        with trace(self.settings, "upsert_memory", scope=self.scope if scope is None else scope) as span:
            results = save()
            describe_records(span, [each.record for each in results])
            if len(results) == 1:
                span.set("reverie.outcome", results[0].outcome)
            return results

    def _trace_update(self, update: Callable[[], Record]) -> Record:
        with trace(self.settings, "update_memory", scope=self.scope) as span:
            record = update()
            describe_records(span, [record])
            return record

    def _add_scope(self, record: NewRecord) -> NewRecord:
        if record.scope not in ("", self.scope):
            raise InvalidInput(
                f"a record has the scope {record.scope!r}: here everything is saved in {self.scope!r}"
            )
        return replace(record, scope=self.scope)

    def _get_session_state(self, session: str) -> SessionState | None:
        state = super()._get_session_state(session)
        if state is None and (opened := self._parts.sessions.get(session)) is not None:
            return opened.state
        return state


class SessionPool:
    """Open sessions of one memory in this process, one object for each conversation.

    Args:
        make: Function that opens a session of an id, in the keyword `scope`.
        clock: The clock.
        idle: Time after which an unused session is closed.
    """

    def __init__(self, make: Callable[..., Session], *, clock: Clock, idle: timedelta) -> None:
        self._make = make
        self._clock = clock
        self._idle = idle
        self._lock = ForkSafeLock()
        self._sessions: dict[str, Session] = {}
        self._closed = False

    def open(self, id: str, scope: str) -> Session:
        """Return the session, opened if need be."""
        with self._lock:
            self._close_idle()
            session = self._sessions.get(id)
            if session is None:
                session = self._sessions[id] = self._make(id, scope=scope)
            elif scope and scope != session.state.scope:
                raise InvalidInput(
                    f"session {id!r} belongs to the scope {session.state.scope!r}, not to {scope!r}: "
                    "open it with its own, or choose another id"
                )
            return session

    def get(self, id: str) -> Session | None:
        """Return the session if it is open."""
        return self._sessions.get(id)

    def discard(self, id: str) -> None:
        """Drop a session without storing anything, because it is being deleted."""
        with self._lock:
            session = self._sessions.pop(id, None)
        if session is not None:
            session.discard()

    def flush(self) -> builtins.list[Session]:
        """Store what the open sessions were shown; return them."""
        with self._lock:
            sessions = builtins.list(self._sessions.values())
        for session in sessions:
            session.flush()
        return sessions

    def remove_all(self) -> builtins.list[Session]:
        """Remove and return all open sessions; none after the first call, because the store is closed then."""
        with self._lock:
            sessions = [] if self._closed else builtins.list(self._sessions.values())
            self._sessions.clear()
            self._closed = True
        return sessions

    def _close_idle(self) -> None:
        """Close sessions that were not used for a while and whose content is all in the store."""
        limit = self._clock() - self._idle
        for session in builtins.list(self._sessions.values()):
            if session._last_used < limit:
                with suppress(StoreUnavailable):  # a full disk; it stays open until there is room
                    if session.flush():
                        del self._sessions[session.id]
