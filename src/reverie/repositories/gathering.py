"""Everything that a pack is made of, read from one state of the store, and the redaction of a finished pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from reverie.context import retrieval
from reverie.context.candidates import PackInput, StaticContext
from reverie.context.pack import Pack
from reverie.context.render import TokenBudget
from reverie.context.retrieval import Retriever
from reverie.context.window import ShownLedger, find_question, prepend_question, trim_window
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.filter import Filter, is_record_allowed
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.timestamps import Clock
from reverie.domain.text.validation import validate_count
from reverie.settings import Settings
from reverie.stores.protocol import Store


class SessionView(NamedTuple):
    """A session at one moment.

    Attributes:
        state: Its state.
        window: Its window.
        following: Position of its next turn.
        shown: Ledger of its earlier prompts.
    """

    state: SessionState
    window: tuple[Turn, ...]
    following: int
    shown: ShownLedger


@dataclass(slots=True)
class PackGatherer:
    """Reader of the inputs of one session's packs.

    Attributes:
        store: The store.
        recaller: Searches the memory.
        settings: The settings.
        clock: The clock.
        read_static: Returns profile, pages and daily notes for some scopes.
        read_entries: Returns the working memory of the session.
        latest_rules: The last result of `retrieval.retrieve_standing`, with what it depends on.
    """

    store: Store
    recaller: Retriever
    settings: Settings
    clock: Clock
    read_static: Callable[[Sequence[str]], StaticContext]
    read_entries: Callable[[], Sequence[Entry]]
    latest_rules: tuple[tuple[int, tuple[str, ...]], list[Record]] | None = None

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
        with self.store.reading():
            state, window, following, shown = read_session()
            asking = find_question(message, window)
            now_at = following if asking is None else asking.position
            scopes = visible_scopes(state.scope)
            standing = self.read_static(scopes)._replace(summary=state.summary)
            now = self.clock()
            given = PackInput(
                query=retrieval.query_from_message(message or "" if asking is None else asking.content),
                candidates=(),
                replay=prepend_question(trim_window(window, self.settings.replay_turns), asking),
                now_at=now_at,
                now=now.astimezone(self.settings.zone),
                budget=budget,
                standing=standing,
                entries=self.read_entries(),
                shown=shown,
            )
            if not self.settings.is_injecting:
                return given._replace(standing=standing._replace(pages=(), changed="", notes=()))
            is_first = not state.summary and all(turn.position >= now_at for turn in window)
            return self._recall(given, scopes, now, is_first=is_first)._replace(
                related=related, related_tokens=self.settings.rag_tokens
            )

    def _recall(
        self, given: PackInput, scopes: tuple[str, ...], now: datetime, *, is_first: bool
    ) -> PackInput:
        """Return the input with everything that is recalled for its query."""
        recaller, settings, standing = self.recaller, self.settings, given.standing
        replayed = frozenset(turn.id for turn in given.replay)
        records = self._retrieve_standing(scopes, now)
        hits = retrieval.retrieve(recaller, settings, given.query, scopes, exclude=replayed, now=now)
        recent: list[Record] = []
        if is_first and not any(standing.pages):
            ids = frozenset(record.id for record in records)
            recent = retrieval.retrieve_recent(recaller, settings, scopes, hits, standing=ids, now=now)
        stored, said = (self.store.measure(kind, scopes).passages for kind in ("record", "turn"))
        notes = retrieval.drop_replayed(standing.notes, replayed)
        return given._replace(
            candidates=hits,
            recent=recent,
            standing=standing._replace(records=records, notes=notes),
            recall_limit=settings.recall_limit,
            marks=retrieval.describe_successors(self.store, hits, now),
            memories=stored + max(0, said - len(given.replay)),
        )

    def _retrieve_standing(self, scopes: tuple[str, ...], now: datetime) -> tuple[Record, ...]:
        """Return the records that are in every prompt now; read again when the store has changed."""
        key = self.store.sequence(), scopes
        if self.latest_rules is None or self.latest_rules[0] != key:
            found = retrieval.retrieve_standing(self.recaller, self.settings, scopes)
            self.latest_rules = key, found
        holding = Filter(alive_at=now, valid_at=now)
        return tuple(
            record
            for record in self.latest_rules[1]
            if is_record_allowed(holding, record) and (record.until is None or record.until >= now)
        )


def build_budget(settings: Settings, *, soft: int | None, hard: int | None) -> TokenBudget:
    """Return the budget of a pack; None takes the settings."""
    least = 0 if soft is None else validate_count(soft, name="soft_tokens", least=0)
    most = (
        max(settings.hard_tokens, least)
        if hard is None
        else validate_count(hard, name="hard_tokens", least=0)
    )
    return TokenBudget(
        soft_tokens=min(settings.soft_tokens, most) if soft is None else soft,
        hard_tokens=most,
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
