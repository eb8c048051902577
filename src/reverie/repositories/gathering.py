"""Everything that a pack is made of, read from one state of the store, and the redaction of a finished pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from reverie.context import retrieval
from reverie.context.candidates import PackInput, StaticContext
from reverie.context.pack import Pack
from reverie.context.render import TokenBudget, validate_tokens
from reverie.context.retrieval import Retriever
from reverie.context.window import ShownLedger, find_question, prepend_question, trim_window
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.filter import Filter, is_record_allowed
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.timestamps import Clock
from reverie.search.hits import Hit
from reverie.settings import Settings
from reverie.stores.protocol import Store


class SessionView(NamedTuple):
    """A session at one moment.

    Attributes:
        state: Its state.
        window: Its window.
        following: Position of its next turn.
        shown: Ledger of its earlier prompts.
        sequence: Number of the newest change that was read.
    """

    state: SessionState
    window: tuple[Turn, ...]
    following: int
    shown: ShownLedger
    sequence: int


class PackGatherer:
    """Reader of the inputs of one session's packs.

    Args:
        store: The store.
        recaller: Searches the memory.
        settings: The settings.
        clock: The clock.
        standing: Returns profile, pages and daily notes for some scopes.
        read_entries: Returns the working memory of the session.
    """

    def __init__(
        self,
        store: Store,
        recaller: Retriever,
        settings: Settings,
        clock: Clock,
        *,
        standing: Callable[[Sequence[str]], StaticContext],
        read_entries: Callable[[], Sequence[Entry]],
    ) -> None:
        self._store = store
        self._recaller = recaller
        self._settings = settings
        self._clock = clock
        self._standing = standing
        self._read_entries = read_entries
        self._standing_records: tuple[tuple[int, tuple[str, ...]], list[Record]] | None = None

    def with_store(self, store: Store) -> PackGatherer:
        """Return the same reader over another store."""
        return PackGatherer(
            store,
            self._recaller,
            self._settings,
            self._clock,
            standing=self._standing,
            read_entries=self._read_entries,
        )

    def gather(
        self,
        message: str | None,
        budget: TokenBudget,
        related: str,
        *,
        read_session: Callable[[], SessionView],
    ) -> PackInput:
        """Return the input of a pack for a message; None for the last turn of the user.

        Args:
            message: The message.
            budget: The budget of the pack.
            related: Text of another memory.
            read_session: Returns the session. It is not kept, so that an unused session is released.
        """
        settings = self._settings
        with self._store.reading():
            state, window, following, shown, sequence = read_session()
            asking = find_question(message, window)
            now_at = following if asking is None else asking.position
            query = retrieval.query_from_message(message or "" if asking is None else asking.content)
            replayed = prepend_question(trim_window(window, settings.replay_turns), asking)
            replayed_ids = frozenset(turn.id for turn in replayed)
            now = self._clock()
            hits: list[Hit] = []
            recent: list[Record] = []
            marks: dict[str, str] = {}
            scopes = visible_scopes(state.scope)
            standing = self._standing(scopes)._replace(summary=state.summary)
            if settings.is_injecting:
                records = self._retrieve_standing(scopes, now)
                ids = frozenset(record.id for record in records)
                hits = retrieval.retrieve(
                    self._recaller, settings, query, scopes, exclude=replayed_ids, now=now
                )
                marks = retrieval.describe_successors(self._store, hits, now)
                is_first = not state.summary and all(turn.position >= now_at for turn in window)
                if is_first and not any(standing.pages):
                    recent = retrieval.retrieve_recent(
                        self._recaller, settings, scopes, hits, standing=ids, now=now
                    )
                notes = retrieval.drop_replayed(standing.notes, replayed_ids)
                standing = standing._replace(records=records, notes=notes)
            else:
                standing, related = standing._replace(pages=(), changed="", notes=()), ""
            return PackInput(
                query=query,
                candidates=hits,
                recent=recent,
                replay=replayed,
                now_at=now_at,
                now=now,
                sequence=sequence,
                budget=budget,
                standing=standing,
                entries=self._read_entries(),
                shown=shown,
                related=related,
                related_tokens=settings.rag_tokens,
                recall_limit=settings.recall_limit,
                marks=marks,
                memories=self._count_memories(scopes, replayed) if settings.is_injecting else 0,
            )

    def _count_memories(self, scopes: Sequence[str], replayed: Sequence[Turn]) -> int:
        """Return the number of records and turns that a prompt can recall, without the replayed ones."""
        records, turns = (self._store.measure(subject, scopes).passages for subject in ("record", "turn"))
        return records + max(0, turns - len(replayed))

    def _retrieve_standing(self, scopes: tuple[str, ...], now: datetime) -> tuple[Record, ...]:
        """Return the records that are in every prompt now; read again when the store has changed."""
        key = self._store.sequence(), scopes
        if self._standing_records is None or self._standing_records[0] != key:
            found = retrieval.retrieve_standing(self._recaller, self._settings, scopes)
            self._standing_records = key, found
        holding = Filter(alive_at=now, valid_at=now)
        return tuple(
            record
            for record in self._standing_records[1]
            if is_record_allowed(holding, record) and (record.until is None or record.until >= now)
        )


def build_budget(settings: Settings, *, soft: int | None, hard: int | None) -> TokenBudget:
    """Return the budget of a pack; None takes the settings."""
    if hard is None:
        hard = settings.hard_tokens if soft is None else max(settings.hard_tokens, validate_tokens(soft))
    if soft is None:
        soft = min(settings.soft_tokens, validate_tokens(hard, name="hard_tokens"))
    return TokenBudget(
        soft_tokens=soft,
        hard_tokens=hard,
        layer_limits=settings.layer_limits,
        working=settings.working_top_k,
        page_tokens=settings.page_tokens,
        standing_tokens=settings.standing_tokens,
        notes_tokens=settings.notes_tokens,
    )


def redact_pack(pack: Pack, redactor: Redactor) -> Pack:
    """Return the pack without secrets, which profile files and texts stored without redaction may contain.

    Secrets that the owner keeps in a record stay.
    """
    kept = {
        hit.record.content[span.start : span.end]
        for hit in (*pack.hits, *pack.standing)
        if hit.record is not None and hit.record.keep_secret
        for span in redactor.find(hit.record.content)
    }
    sections = tuple(each._replace(text=redactor.text(each.text, keep=kept)) for each in pack.sections)
    return pack if sections == pack.sections else replace(pack, sections=sections)
