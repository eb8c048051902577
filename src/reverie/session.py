"""One conversation: its turns are added, replayed and packed into prompts.

A session is a view of the store: other processes may add to the same conversation at any time, and the next call
sees what they have added. It holds a copy of the window, and what was shown since the last turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from reverie.context.candidates import PackInput, StaticContext
from reverie.context.pack import Pack, build
from reverie.context.retrieval import Retriever
from reverie.context.window import ShownBuffer, trim_window
from reverie.domain import provenance
from reverie.domain.change import Change, JournalEntry, Operation, Value
from reverie.domain.conversation import (
    ITEMS_FROM,
    OFF_RECORD,
    Role,
    SessionState,
    SessionStatus,
    ToolCall,
    Turn,
    draft_turn,
    set_signal,
    validate_session,
    validate_session_id,
    validate_turn,
)
from reverie.domain.entry import build_session_namespace
from reverie.domain.errors import InvalidInput, quote_value, translate_os_errors
from reverie.domain.lazy_dataclass import replace
from reverie.domain.record import UNTRUSTED, Origin
from reverie.domain.scope import validate_scope, visible_scopes
from reverie.domain.text import timestamps, validation
from reverie.repositories import turns as stored_turns
from reverie.repositories.prompts import (
    PackGatherer,
    SessionView,
    build_budget,
    build_prompt_cursors,
    redact_pack,
)
from reverie.repositories.wishes import WishResult, fulfil_wishes, split_by_recording
from reverie.repositories.working_memory import WorkingMemory
from reverie.settings import Settings
from reverie.stores.forks import ForkSafeLock
from reverie.stores.redacting import get_redactor, redact_value
from reverie.stores.telemetry import trace
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.consolidation.rule_learning import RuleLearner

_log = logging.getLogger("reverie")

_SPARE = 32  # turns read beyond the window, so that a call at its edge comes with its results

_T = TypeVar("_T")


class Session:
    """One conversation. Safe to use from several threads, and beside other processes.

    Attributes:
        wishes: What became of what the last message of the user asks of the memory.

    Args:
        id: `{channel}:{chat}`, or any text of 1 to 200 characters.
        scope: The scope of a session that begins now; a stored session keeps its own.
        standing: Returns profile, pages and daily notes for a prompt of some scopes; called for each prompt.
        look: Called with these scopes before a prompt is made; imports what a person changed in the files.
        listener: Receives the turns that are added; None for no listener.
        open_transient: Returns a writer for what is off the record, with the stored turns; it is lost with the process.

    Raises:
        InvalidInput: the id or scope is not of its form.
    """

    def __init__(
        self,
        id: str,
        *,
        writer: StoreWriter,
        recaller: Retriever,
        settings: Settings,
        scope: str = "",
        standing: Callable[[Sequence[str]], StaticContext] = lambda scopes: StaticContext(),
        look: Callable[[Sequence[str]], None] = lambda scopes: None,
        listener: RuleLearner | None = None,
        open_transient: Callable[[str], StoreWriter] | None = None,
    ) -> None:
        self.id = validate_session_id(id)
        self.wishes: tuple[WishResult, ...] = ()
        self._writer = self._recorded_writer = writer
        self._store = writer.store
        self._clock = writer.clock
        self.working = WorkingMemory(
            self._store, build_session_namespace(id), settings=settings, clock=self._clock
        )
        self._last_used = self._clock()
        self._redactor = get_redactor(self._store)
        self._recaller = recaller
        self._settings = settings
        self._scope = validate_scope(scope)
        self._look = look
        self._listener = listener
        self._open_transient = open_transient
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._sequence = -1  # of the journal, when the copy below was made; -1 for no copy
        self._stored: SessionState | None = None
        self._window: tuple[Turn, ...] = ()
        self._next = 0
        self._shown = ShownBuffer(id)
        self._prompts: dict[int, tuple[PackInput, Pack]] = {}  # by the turn, until they are logged
        self._gatherer = PackGatherer(
            self._store, recaller, settings, self._clock, standing, self.working.list
        )

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    # -- adding ----------------------------------------------------------------------------------------

    def add(
        self,
        role: Role,
        content: str,
        *,
        speaker: str = "",
        at: datetime | None = None,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        tool_call_id: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Turn:
        """Add one turn at the end; it is on disk when this returns.

        A final answer of the assistant goes into the daily note of its day as well, unless the session has a scope or
        it was said more than a day ago. What the turn asks of the memory is done: see `wishes`.

        Args:
            role: `user`, `assistant`, `system` or `tool`.
            content: Its text, up to 2,000,000 characters.
            speaker: The speaker, if the role is not enough.
            at: When it was said; None for now.
            tool_calls: The calls that an assistant's turn asks for, also as mappings of chat APIs.
            tool_call_id: The call that a tool's turn answers.
            metadata: Text to text, for the caller's own use.

        Returns:
            The turn, with its id and position.

        Raises:
            InvalidInput: an argument is not of its form, or the session is terminated.
        """
        names = {"tool_calls": tool_calls, "tool_call_id": tool_call_id, "metadata": metadata}
        return self.add_many([{"role": role, "content": content, "speaker": speaker, "at": at, **names}])[0]

    def add_many(self, turns: Iterable[Mapping[str, Any]]) -> list[Turn]:
        """Add several turns one after the other, all of them or none, in one transaction if all are recorded.

        Args:
            turns: Mappings with `role`, `content` and any other argument of `add`.

        Raises:
            InvalidInput: one of them is not of its form, or the session is terminated; nothing was added.
        """
        given = validation.validate_values(turns, name="turns", of="mappings with role and content")
        said = [draft_turn(each, session=self.id, now=self._clock()) for each in given]
        added: list[Turn] = []
        drafts = [redact_value(each, self._redactor) for each in said]
        for mode, run in split_by_recording(drafts, lambda: self.state, self._listener):
            self._set_recording(mode)
            earlier, new = self.turns(), self._add(run)
            self._fulfil_wishes(new, earlier)
            self._notify(new)
            added += new
        return added

    def _add(self, drafts: Sequence[Turn]) -> list[Turn]:
        def attempt() -> list[Turn]:
            state = self._read_state()
            if state.status == "terminated":
                raise InvalidInput(f"session {self.id!r} is terminated: add to another one")
            added = [
                replace(draft, id=self._writer.new_id(), position=self._next + n, scope=state.scope)
                for n, draft in enumerate(drafts)
            ]
            added = self._mark_origins(added, self._window)
            beginning = [] if self._stored is not None else [Change(before=None, after=state)]
            notes = stored_turns.build_daily_note_changes(
                self._store,
                [*self._window, *added] if self._settings.daily_notes else [],
                since=added[0].position,
                now=self._clock(),
                new_id=self._writer.new_id,
            )
            self._commit([*beginning, *(Change(before=None, after=turn) for turn in added), *notes])
            return added

        return self._run_with_retries(attempt)

    # -- wishes ----------------------------------------------------------------------------------------

    @property
    def is_recorded(self) -> bool:
        """Return whether turns are stored: not during an exchange or a conversation that is off the record."""
        with self._lock:
            self._refresh()
            return self._writer is self._recorded_writer

    def _fulfil_wishes(self, turns: Sequence[Turn], earlier: Sequence[Turn]) -> None:
        if self._listener is not None and any(turn.role == "user" for turn in turns):
            self.wishes = fulfil_wishes(
                self._recorded_writer,
                self._recaller,
                self._listener,
                turns,
                earlier,
                is_recorded=self.is_recorded,
            )

    def _set_recording(self, mode: str) -> None:
        """Store turns from now on if the mode is empty; otherwise hold them in this process only."""
        if self._open_transient is None or mode == self.state.metadata.get(OFF_RECORD, ""):
            return
        with self._lock:
            opening, self._open_transient = self._open_transient, None
            try:
                self._use(self._recorded_writer)
                self.set_metadata(OFF_RECORD, mode or None)
            finally:
                self._open_transient, self._sequence = opening, -1

    def _use(self, writer: StoreWriter) -> None:
        """Read and write another store, and drop what was read; the caller holds the lock."""
        self._writer, self._store = writer, writer.store
        self._gatherer = replace(self._gatherer, store=writer.store)
        self.discard()

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """Return what is stored of the session beside its turns. A session without turns is active."""
        with self._lock:
            return self._read_state()

    def turns(self) -> list[Turn]:
        """Return the window: the last turns, 50 by default, since the session was reset or summarised.

        It can be a little longer or shorter, because a call of tools and its results are never separated.
        """
        with self._lock:
            self._refresh()
            return list(self._window)

    def recent_turns(self, limit: int | None = None) -> list[Turn]:
        """Return the turns that go into a prompt: the last of the window, 20 by default, calls with results.

        Args:
            limit: Their number, 0 or more; None takes the setting.
        """
        wanted = self._settings.replay_turns if limit is None else limit
        return trim_window(self.turns(), validation.validate_count(wanted, name="limit", least=0))

    def stored_turns(self, start: int = 0) -> list[Turn]:
        """Return all turns from a position on, also those before a reset; a negative number counts from the end."""
        return self._store.turns(session=self.id, start=start)

    def determine_origin(self, text: str, *, labels: Iterable[str] = ()) -> Origin:
        """Return the origin of a text that the model wants to save: its own, or a tool whose result it has seen.

        While a result of a tool is among the replayed turns, a text that the owner has not said counts as the tool's,
        unless the tool is Reverie's or one of `trusted_tools` and shows nothing unconfirmed.

        Args:
            text: The text.
            labels: Its category, tags or path, which a prompt may show too.

        Returns:
            `agent`, or the least trusted origin among the replayed turns.
        """
        with self._lock:
            state = self._read_state()
            view = provenance.build_model_view(self._window, state, self._settings.replay_turns)
        trusted = provenance.parse_trusted_tools(self._settings.trusted_tools)
        return provenance.determine_origin(text, view, labels=labels, trusted_tools=trusted)

    # -- the prompt ------------------------------------------------------------------------------------

    def context(
        self,
        message: str | None = None,
        *,
        soft_tokens: int | None = None,
        hard_tokens: int | None = None,
        record_shown: bool = True,
        extra_context: str = "",
    ) -> Pack:
        """Build what goes into the prompt now: profile, pages, notes, recalled memories, working memory and replay.

        What this session was shown for an earlier turn that is still replayed is left out. Asking again for the same
        turn shows the same again. Nothing is written: what was shown is stored along with the next turn.

        Args:
            message: The message to recall for; None takes the last user turn.
            soft_tokens, hard_tokens: The budgets; None takes the setting, and fits it to the other one.
            record_shown: Whether what is shown counts as shown; False for a preview.
            extra_context: Text of another memory, such as a knowledge graph; quoted last, with at most `rag_tokens`.

        Raises:
            InvalidInput: a budget is negative, or the soft one exceeds the hard one.
        """
        if message is not None and not isinstance(message, str):
            raise InvalidInput(f"message is {quote_value(message)}: pass text or None for the last user turn")
        if not isinstance(extra_context, str):
            raise InvalidInput(f"extra_context is {quote_value(extra_context)}: pass a string")
        message = None if message is None else self.redact_text(message)  # as it was stored, if it was
        budget = build_budget(self._settings, soft=soft_tokens, hard=hard_tokens)
        tracing = trace(self._settings, "search_memory", scope=self._scope, session=self.id)
        with translate_os_errors("the memory cannot be searched"), tracing as span:
            self._look(visible_scopes(self._scope if self._stored is None else self._stored.scope))
            given = self._gatherer.gather(message, budget, extra_context, read_session=self._read_view)
            pack = redact_pack(build(given), self._redactor)
            span.measure("reverie.pack.tokens", pack.diagnostics.tokens, by="section")
        if record_shown:
            with self._lock:
                self._prompts[given.now_at] = given, pack
                begin = given.replay[0].position if given.replay else given.now_at
                self._shown.add([*pack.hits, *pack.standing], since=begin, at=given.now_at)
        return pack

    def redact_text(self, text: str) -> str:
        """Return a text as this session would store it: with secrets replaced, unless the setting is off."""
        return self._redactor.text(text)

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value as this session would store it: with secrets replaced, unless the setting is off."""
        return self._redactor.json_value(value)

    # -- changing the session --------------------------------------------------------------------------

    def remove_turns(self, turn_ids: Iterable[str]) -> list[Turn]:
        """Remove turns, as when an answer is regenerated, with the lines that they left in daily notes.

        `history.undo` brings them back. Records that were learned from them stay.

        Args:
            turn_ids: The ids of the turns.

        Returns:
            The turns that were removed.

        Raises:
            NotFound: this session has no such turn; nothing was removed.
        """
        ids = validation.validate_values(turn_ids, name="turn_ids", of="ids")
        return [turn for turn, _ in self._rewrite(ids, lambda turn, state: None, operation="delete")]

    def replace_turn(self, turn_id: str, content: str, *, metadata: Mapping[str, str] | None = None) -> Turn:
        """Give a turn a new version, as when a message was edited; it is learned from like a new turn.

        Args:
            turn_id: The id of the turn.
            content: The new text; see `add`.
            metadata: Metadata of the new version; that of the earlier one is dropped.

        Raises:
            NotFound: this session has no such turn.
            InvalidInput: an argument is not of its form.
        """
        given = {"role": "user", "content": content, "metadata": metadata}
        draft = draft_turn(given, session=self.id, now=self._clock())

        def change(turn: Turn, state: SessionState) -> Turn:
            after = replace(turn, content=draft.content, metadata=draft.metadata)
            earlier = [each for each in self._window if each.position < turn.position]
            return self._mark_origins([after], earlier)[0]

        ((before, after),) = self._rewrite([turn_id], change, operation="replace")
        if after != before:
            self._notify([cast(Turn, after)])
        return cast(Turn, after)

    def rewrite_last_turn(self, change: Callable[[Turn, SessionState], Turn | None]) -> None:
        """Replace or remove the last turn, and with it the line that it left in a daily note.

        Args:
            change: Returns the new turn for the last turn and the session's state; None to remove it.
        """
        self._rewrite(None, change, operation="delete")

    def reset(self) -> None:
        """Begin again with an empty window (`/new`). Its turns stay stored and can be searched.

        What was shown is forgotten, so the next turn counts as a first turn. A conversation that was off the record
        is recorded again.
        """
        self._set_recording("")

        def attempt() -> None:
            state = self._read_state()
            if self._stored is None:
                return
            fresh = replace(provenance.set_summary(state, "", origin="agent"), window_start=self._next)
            if ITEMS_FROM in (items := dict(fresh.metadata)):
                items[ITEMS_FROM] = str(self._next)
                fresh = replace(fresh, metadata=MappingProxyType(items))
            edits = [Change(before=state, after=fresh)] if fresh != state else []
            self._commit(edits, operation="restart", is_restart=True)

        self._run_with_retries(attempt)

    def feedback(self, turn_id: str, thumb: Literal["up", "down"], *, note: str = "") -> Turn:
        """Store what the user thinks of an answer, for background thinking.

        Args:
            turn_id: The id of the turn of the assistant.
            thumb: `up` or `down`; a later one replaces an earlier one.
            note: The reason, in words.

        Returns:
            The turn, with `signal: thumbs_up` or `thumbs_down` in its metadata, the note as `signal_note`.

        Raises:
            NotFound: this session has no such turn.
            InvalidInput: it is not the assistant's, or an argument is not of its form.
        """
        if thumb not in ("up", "down"):
            raise InvalidInput(f"thumb is {quote_value(thumb)}: use up or down")

        def change(turn: Turn, state: SessionState) -> Turn:
            if turn.role != "assistant":
                raise InvalidInput(f"turn {turn_id!r} is the {turn.role}'s: feedback is about an answer")
            return set_signal(turn, f"thumbs_{thumb}", note=note)

        return cast(Turn, self._rewrite([turn_id], change, operation="feedback")[0][1])

    def set_turn_metadata(self, turn_id: str, metadata: Mapping[str, str | None]) -> Turn:
        """Set items of a turn's metadata.

        Args:
            turn_id: The id of the turn.
            metadata: The items by their keys; None removes an item.

        Raises:
            NotFound: this session has no such turn.
            InvalidInput: a key or a value is not valid.
        """

        def change(turn: Turn, state: SessionState) -> Turn:
            items = {**turn.metadata, **metadata}
            kept = {key: value for key, value in items.items() if value is not None}
            return replace(turn, metadata=MappingProxyType(kept))

        before, after = self._rewrite([turn_id], change, operation="set_metadata")[0]
        assert after is not None
        if before.origin in UNTRUSTED and after.origin not in UNTRUSTED:
            earlier = [each for each in self.turns() if each.position < after.position]
            self._fulfil_wishes([after], earlier)
        return after

    def pause(self) -> SessionState:
        """Mark the session as paused; turns can still be added."""
        return self._set_status("paused")

    def resume(self) -> SessionState:
        """Mark a paused session as active again.

        Raises:
            InvalidInput: it is terminated.
        """
        return self._set_status("active")

    def terminate(self) -> SessionState:
        """End the session for good: no turn can be added any more. Its turns stay stored."""
        return self._set_status("terminated")

    def set_metadata(self, key: str, value: str | None) -> SessionState:
        """Set one item of the session's metadata; None removes it."""
        if not isinstance(key, str):
            raise InvalidInput(f"key is {quote_value(key)}: pass a string")

        def change(state: SessionState) -> SessionState:
            metadata = {name: text for name, text in state.metadata.items() if name != key}
            if value is not None:
                metadata[key] = value
            return replace(state, metadata=MappingProxyType(metadata))

        return self._change_state(change, operation="set_metadata")

    def flush(self) -> bool:
        """Store what was shown since the last turn was added.

        Returns:
            Whether all of it is stored. Before the first turn there is no session in the store.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        with self._lock:
            if (self._prompts or not self._shown.is_stored) and self._stored is not None:
                self._commit([])
            return self._shown.is_stored

    def discard(self) -> None:
        """Drop everything that this object has read, and what was shown since, without storing anything."""
        with self._lock:
            self._sequence, self._stored, self._window, self._next = -1, None, (), 0
            self._shown = ShownBuffer(self.id)
            self._prompts.clear()

    # -- inside ----------------------------------------------------------------------------------------

    def _mark_origins(self, turns: Sequence[Turn], window: Sequence[Turn]) -> list[Turn]:
        """Return turns that follow a window with their origins and signals; the caller has the lock."""
        trusted = provenance.parse_trusted_tools(self._settings.trusted_tools)
        view = provenance.build_model_view(window, self._read_state(), self._settings.replay_turns)
        marked = list(provenance.mark_origins(turns, view, trusted_tools=trusted))
        return marked if self._listener is None else list(self._listener.mark_origins(marked, window))

    def _notify(self, added: Sequence[Turn]) -> None:
        if self._listener is not None and self.is_recorded:
            with self._lock:
                self._refresh()
                window, shown = self._window, frozenset(self._shown.ledger.marks)
            self._listener.on_turns_added(window, added, shown)

    def _reset_after_fork(self) -> None:
        self._sequence = -1

    def _refresh(self) -> None:
        """Read the window again if anything changed in the store; the caller has the lock."""
        self._last_used = self._clock()
        sequence = self._store.sequence()
        if sequence == self._sequence:
            return
        stored = self._store.session(self.id)
        if stored is not None and self._scope not in {"", stored.scope}:
            raise InvalidInput(f"session {self.id!r} belongs to another scope than {self._scope!r}")
        read = self._store.turns(session=self.id, start=-(self._settings.retain_turns + _SPARE))
        self._stored = stored
        self._next = read[-1].position + 1 if read else 0
        self._set_window(read)
        self._shown.read(self._store.cursor if stored is not None else lambda name: None)
        self._sequence = sequence
        open_transient = self._open_transient if self._writer is self._recorded_writer else None
        if open_transient is not None and stored is not None and OFF_RECORD in stored.metadata:
            self._use(open_transient(self.id))
            self._refresh()

    def _set_window(self, turns: Sequence[Turn]) -> None:
        start = self._stored.window_start if self._stored is not None else 0
        inside = [turn for turn in turns if turn.position >= start]
        self._window = tuple(trim_window(inside, self._settings.retain_turns))

    def _read_view(self) -> SessionView:
        with self._lock:
            state = self._read_state()
            return state, self._window, self._next, self._shown.ledger

    def _read_state(self) -> SessionState:
        """Return the stored state, or the state of a new session. The caller holds the lock."""
        self._refresh()
        if self._stored is not None:
            return self._stored
        return SessionState(id=self.id, created_at=self._clock(), scope=self._scope)

    def _commit(
        self,
        edits: Sequence[Change],
        *,
        operation: Operation = "say",
        is_restart: bool = False,
    ) -> None:
        """Make the edits and store what was shown, in one transaction; the caller has the lock.

        After a restart nothing counts as shown.
        """
        now = self._clock()
        counters = self._shown.list_counters()
        cursors = self._shown.build_cursors(is_restart=is_restart)
        cursors |= dict.fromkeys(counters, timestamps.format_time(now))
        cursors |= build_prompt_cursors(self._store, self.id, self._prompts)
        rows = self._writer.commit(
            edits,
            operation=operation,
            at=now,
            cursors=cursors or None,
            counts=dict.fromkeys(counters, 1) or None,
        )
        self._shown.mark_stored(is_restart=is_restart)
        self._prompts.clear()
        if rows:
            self._take_in(rows)

    def _take_in(self, rows: Sequence[JournalEntry]) -> None:
        """Update the copy after a commit of this session, unless others have committed in between."""
        if rows[0].sequence != self._sequence + 1:
            self._sequence = -1
            return
        values: list[Value] = [row.edit.value for row in rows if row.edit is not None]
        self._stored = next((v for v in values if isinstance(v, SessionState)), self._stored)
        added = [value for value in values if isinstance(value, Turn)]
        self._set_window((*self._window, *added))
        self._next += len(added)
        self._sequence = rows[-1].sequence

    def _run_with_retries(self, attempt: Callable[[], _T]) -> _T:
        """Run `StoreWriter.retrying`; each attempt has the lock, and all but the first a fresh copy."""

        def run(tries: int) -> _T:
            with self._lock:
                if tries:
                    self._sequence = -1
                return attempt()

        return self._writer.retrying(run)

    def _rewrite(
        self,
        turn_ids: Sequence[str] | None,
        change: Callable[[Turn, SessionState], Turn | None],
        *,
        operation: Operation,
    ) -> list[tuple[Turn, Turn | None]]:
        """Change or remove turns, or the last one, with their lines in daily notes; return them before and after."""

        def validate(turn: Turn | None) -> Turn | None:
            return None if turn is None else redact_value(validate_turn(turn), self._redactor, known=True)

        def attempt() -> list[tuple[Turn, Turn | None]]:
            state = self._read_state()
            found = stored_turns.find_turns(self._store, self.id, turn_ids)
            pairs = [(turn, validate(change(turn, state))) for turn in found]
            if edits := [Change(before=turn, after=new) for turn, new in pairs if new != turn]:
                said = {turn.id: new for turn, new in pairs if new is None or new.content != turn.content}
                notes = stored_turns.build_note_rewrites(self._store, self.id, said)
                self._commit([*notes, *edits], operation=operation)
                self._sequence = -1  # the copy of the window still has the turns
            return pairs

        return self._run_with_retries(attempt)

    def _change_state(
        self, change: Callable[[SessionState], SessionState], *, operation: Operation
    ) -> SessionState:
        def attempt() -> SessionState:
            state = self._read_state()
            after = redact_value(validate_session(change(state)), self._redactor)
            if after != state or self._stored is None:
                self._commit([Change(before=self._stored, after=after)], operation=operation)
            return after

        return self._run_with_retries(attempt)

    def _set_status(self, status: SessionStatus) -> SessionState:
        def change(state: SessionState) -> SessionState:
            if state.status == "terminated" and status != "terminated":
                raise InvalidInput(f"session {self.id!r} is terminated for good: begin another one")
            return replace(state, status=status)

        return self._change_state(change, operation="set_status")
