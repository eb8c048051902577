"""Learn from what the owner says, right after it was stored.

Each sentence passes `reverie.domain.intake`. Nothing here asks a language model, changes what was said, or raises: a
failure is a warning and a counter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from reverie.consolidation.entities import extract_references, extract_tags, is_likely_secret
from reverie.consolidation.patterns import find_failure, has_correction, is_fiction, is_statement
from reverie.consolidation.sentences import (
    is_self_contained,
    split_sentences,
    strip_greeting,
    strip_question,
)
from reverie.consolidation.wishes import find_wishes
from reverie.context.retrieval import FRESH, LONGEST_ANSWER, LONGEST_QUESTION, shorten_text
from reverie.context.window import build_history_cursor, parse_position
from reverie.domain import provenance
from reverie.domain.conversation import SAVED, SIGNAL, Turn, Wish, set_signal
from reverie.domain.errors import ReverieError
from reverie.domain.intake import classify, rate_importance
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import HISTORY, MEMORY, build_session_source
from reverie.domain.record import FIL, SUMMARY_TAG, Kind, Origin, Record
from reverie.domain.text.escaping import NOTICE, unquoted_text
from reverie.domain.text.same_text import compute_fingerprint
from reverie.domain.text.timestamps import Clock
from reverie.repositories.pages import Pages
from reverie.repositories.records import NewRecord, RecordRepository, SaveResult
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter, setting_cursors

_log = logging.getLogger("reverie")

CORRECTION = "correction"
TOOL_FAILURE = "tool_failure"

FAILED = "learn.failed"
"""Counter of exchanges from which nothing could be learned."""

ACTOR = "rules"
"""Actor of what is learned in the journal."""

CONFIDENCE = 0.85
"""Confidence of a sentence of the owner's. Records of 0.75 and more are promoted."""

SHORTEST_SUMMARY = 100
"""Characters that the last answer must exceed to stand for its session (agentkit)."""

_LONGEST_SUMMARY = 4_000
_SAVING = frozenset({"save_memory", "edit_memory", "memory", "remember"})
"""Tools with which an assistant saves what the user said; facts of that exchange are then not saved again."""

_TOOL_FAILED = defer_regex(
    r"""\A\s*(?:
        (?:fatal\ )?error\b(?!\s*(?:handling|code\ is|rate|:\s*(?:none|null|0)\b)|s?\ (?:found:\ )?0\b)
      | (?:\w+\.)*\w+(?:Error|Exception):
      | traceback\ \(most\ recent
      | (?:command\ )?failed\b
      | [({]\s*"(?:error|is_error|isError)"\s*:(?!\s*(?:null|false|""|\{\}|\[\]))
      | (?:exit\ (?:code|status)|exited\ with(?:\ (?:code|status))?)\s*:?\s*[1-9]
      | (?:bash|sh|zsh):\ .*(?:not\ found|no\ such\ file|permission\ denied)
    )
    | ^Traceback\ \(most\ recent\ call\ last\):
    | \n(?:exit\ code|exit\ status)\s*:?\s*[1-9]\d*\s*\Z
    """,
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)


class _Exchange(NamedTuple):
    """A question with its final answer.

    Attributes:
        asked: The user's turns.
        answer: The assistant's answer.
        used_tools: Whether a tool was used for it.
        saved: Whether one of those tools saved something.
    """

    asked: tuple[Turn, ...]
    answer: Turn
    used_tools: bool
    saved: bool = False


class RuleLearner:
    """Learner of records and signals from turns. Safe to use from several threads."""

    def __init__(
        self, store: Store, saving: RecordRepository, *, settings: Settings, clock: Clock, zone: tzinfo = UTC
    ) -> None:
        """Learn into a store.

        Args:
            store: The store with the turns.
            saving: The repository that saves, so that a repetition reinforces.
            settings: The settings.
            clock: The clock.
            zone: Time zone of the owner.
        """
        self._zone = zone
        self._store = store
        self._saving = saving
        self._settings = settings
        self._clock = clock

    # -- signals of new turns ----------------------------------------------------------------------------

    def mark_origins(self, turns: Sequence[Turn], window: Sequence[Turn]) -> list[Turn]:
        """Return the turns that are about to be added, with their signals in their metadata.

        A turn of the user's that puts the assistant right gets `signal: correction`, a tool's turn that tells
        of a failure `signal: tool_failure`. A signal that the caller set stays, and what was said more than a
        day ago gets none.

        Args:
            turns: The turns, in their order.
            window: The turns before them.
        """
        if not self._settings.learn:
            return list(turns)
        last, now = _find_last_answer(window), self._clock()
        marked = []
        for turn in turns:
            is_recent = SIGNAL not in turn.metadata and abs(now - turn.at) <= FRESH
            signal = self._detect_signal(turn, last) if is_recent else ""
            if turn.role == "assistant" and turn.content.strip():
                last = turn
            marked.append(set_signal(turn, signal) if signal else turn)
        return marked

    @staticmethod
    def _detect_signal(turn: Turn, last: Turn | None) -> str:
        if turn.role == "tool":
            return TOOL_FAILURE if _TOOL_FAILED.search(turn.content[:20_000]) else ""
        if turn.role != "user" or last is None:
            return ""
        is_answer = last.content.rstrip().endswith("?")
        is_correction = any(
            has_correction(sentence, answering=is_answer) for sentence in split_sentences(turn.content)
        )
        return CORRECTION if is_correction else ""

    # -- wishes ------------------------------------------------------------------------------------------

    def find_wishes(self, turn: Turn) -> list[Wish]:
        """Return the wishes of a turn of the user; none if it was said more than a day ago."""
        is_own = turn.role == "user" and NOTICE not in turn.content
        return find_wishes(turn.content) if is_own and abs(self._clock() - turn.at) <= FRESH else []

    def save_wish(self, text: str, turn: Turn) -> SaveResult:
        """Save a statement that a turn asks to remember, filed like any saved sentence."""
        is_stored = bool(self._store.turns([turn.id]))
        note = NewRecord(
            content=text,
            confidence=CONFIDENCE,
            source=_build_source(turn),
            references=(turn.id,) if is_stored else (),
            origin=turn.origin,
            scope=turn.scope,
            created_at=turn.at,
        )
        return self._saving.save(note)

    # -- records of exchanges ----------------------------------------------------------------------------

    def on_turns_added(self, window: Sequence[Turn], added: Sequence[Turn], shown: Collection[str]) -> None:
        """Learn from the exchanges that new turns complete. Never raises a `ReverieError`.

        What was said more than a day ago, or is read in from elsewhere with its old times, is left alone.

        Args:
            window: The last turns of the session, the new ones among them or not.
            added: The turns that were just stored.
            shown: The ids of what the session has been shown, and still sees.
        """
        self._learn(window, added, shown, now=self._clock())

    def learn_from_past(self, window: Sequence[Turn], added: Sequence[Turn]) -> int:
        """Learn from the exchanges of imported turns, whatever their age; return how many records were saved.

        Args:
            window: Turns of the session in their order, with those before the new ones.
            added: The new ones.
        """
        return self._learn(window, added, (), now=None)

    def _learn(
        self, window: Sequence[Turn], added: Sequence[Turn], shown: Collection[str], *, now: datetime | None
    ) -> int:
        wanted = self._settings.learn or self._settings.learn_events
        if not wanted or all(turn.role != "assistant" for turn in added):
            return 0
        try:
            turns = list({turn.id: turn for turn in (*window, *added)}.values())
            new = {turn.id for turn in added}
            notes: list[NewRecord] = []
            for exchange in _iter_exchanges(turns, new, now):
                notes += self._collect_notes(exchange, turns, shown)
            return len(self._saving.save_many([self._as_insight(note) for note in notes])) if notes else 0
        except ReverieError as error:
            _log.warning("nothing could be learned from an exchange: %s", error)
            self._count_failure()
            return 0

    def _count_failure(self) -> None:
        try:
            self._store.commit([], actor=ACTOR, at=self._clock(), counts={FAILED: 1})
        except ReverieError as error:
            _log.warning("%s could not be counted: %s", FAILED, error)

    def _collect_notes(
        self, exchange: _Exchange, turns: Sequence[Turn], shown: Collection[str]
    ) -> list[NewRecord]:
        notes = [self._build_event(exchange)] if self._settings.learn_events else []
        if self._settings.learn and (statements := [*self._extract_statements(exchange)]):
            known = _list_keys(self._list_injected_texts(shown), turns, exchange)
            own = self._store.records(self._store.citing([turn.id for turn in exchange.asked]))
            known |= {compute_fingerprint(record.content) for record in own}  # asked to be remembered
            notes += [note for note in statements if compute_fingerprint(note.content) not in known]
        return [note for note in notes if note is not None]

    def _extract_statements(self, exchange: _Exchange) -> Iterator[NewRecord]:
        """Yield the sentences of the owner that are worth keeping, as records."""
        for turn in exchange.asked:
            if SAVED in turn.metadata:
                continue
            for whole in split_sentences(_extract_own_text(turn)):
                if is_fiction(whole):
                    break
                if find_wishes(whole):
                    continue
                sentence = strip_greeting(strip_question(whole))
                if (
                    not is_statement(sentence)
                    or not is_self_contained(sentence)
                    or is_likely_secret(sentence)
                ):
                    continue
                kind = find_failure(sentence) or self._classify(sentence, turn)
                if kind is None or (exchange.saved and kind == "fact"):
                    continue
                tags, references = self._extract_tags_and_references(sentence)
                yield NewRecord(
                    content=sentence,
                    kind=kind,
                    layer="episodic",
                    tags=tags,
                    confidence=CONFIDENCE,
                    importance=rate_importance(sentence, kind),
                    source=_build_source(turn),
                    references=(turn.id, *references),
                    origin=turn.origin,
                    scope=turn.scope,
                    created_at=turn.at,
                )

    def _classify(self, sentence: str, turn: Turn) -> Kind | None:
        return classify(sentence, origin=turn.origin, at=turn.at, zone=self._zone, door="conversation").kind

    def _build_event(self, exchange: _Exchange) -> NewRecord | None:
        """Return a short record of both sides of an exchange; None where one seems to hold a secret."""
        question, answer = exchange.asked[-1], exchange.answer
        request = shorten_text(question.content, LONGEST_QUESTION)
        reply = shorten_text(answer.content, LONGEST_ANSWER)
        if is_likely_secret(request) or is_likely_secret(reply):
            return None
        tags, references = self._extract_tags_and_references(f"{request}\n{reply}")
        return NewRecord(
            content=f"User: {request} | Assistant: {reply}",
            kind="event",
            layer="episodic",
            tags=tags,
            confidence=0.6,
            importance=0.3,
            source=_build_source(answer),
            references=(question.id, answer.id, *references),
            origin=_determine_origin(exchange),
            scope=answer.scope,
            created_at=answer.at,
        )

    def _extract_tags_and_references(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tags and references of a text."""
        if not self._settings.code_aware_extraction:
            return (), ()
        return extract_tags(text), extract_references(text)

    def _list_injected_texts(self, shown: Collection[str]) -> list[str]:
        """Return the texts that Reverie put into the session's prompts."""
        records = self._store.records(list(shown)) if shown else []
        pages = self._store.pages([MEMORY])
        texts = [record.content for record in records]
        return texts + [line for page in pages for line in page.content.splitlines() if line.strip()]

    # -- sessions (agentkit) -----------------------------------------------------------------------------

    def consolidate(self, session: str) -> list[SaveResult]:
        """Save what a session came to, without a model (see `Memory.consolidate_session`)."""
        turns = self._store.turns(session=session)
        done, summary = _read_mark(self._store.cursor(build_cursor_name(session)))
        tooled = _find_turns_after_tools(turns)
        fresh = [turn for turn in turns if turn.position >= done]
        saved = self._saving.save_many(self._collect_insights(fresh, tooled))
        last = next((turn for turn in reversed(turns) if _is_summary(turn)), None)
        if last is not None and last.position >= done:
            result = self._save_summary(last, summary, origin="tool" if last.id in tooled else last.origin)
            saved += [] if result is None else [result]
            summary = summary if result is None else result.record.id
        if fresh:
            mark = f"{turns[-1].position + 1} {summary}".strip()
            at, cursors = self._clock(), {build_cursor_name(session): mark}
            self._store.commit([], actor=ACTOR, at=at, cursors=cursors)
        return saved

    def _collect_insights(self, turns: Iterable[Turn], tooled: Collection[str]) -> list[NewRecord]:
        from reverie.consolidation.passes.history import TRIGGER

        notes: dict[str, NewRecord] = {}
        for turn in turns:
            if turn.role not in {"user", "assistant"}:
                continue
            for sentence in split_sentences(_extract_own_text(turn)):
                is_question = sentence.endswith("?")
                if is_question or not TRIGGER.search(sentence) or is_likely_secret(sentence):
                    continue
                if not is_self_contained(sentence) or self._find_statement(turn.scope, sentence):
                    continue
                basis: Origin = "tool" if turn.id in tooled else turn.origin
                note = NewRecord(
                    content=sentence[:_LONGEST_SUMMARY],
                    kind="insight",
                    confidence=0.7,
                    source=_build_source(turn),
                    references=(turn.id,),
                    origin=provenance.least_trusted(turn.origin, basis),
                    scope=turn.scope,
                    created_at=turn.at,
                )
                notes.setdefault(" ".join(sentence.lower().split()), note)
        return list(notes.values())

    def _as_insight(self, note: NewRecord) -> NewRecord:
        """Return the note as an insight where its text is stored as one, so that it is stored once."""
        known = self._store.record_like(note.scope, compute_fingerprint(note.content))
        if known is None or known.kind != "insight":
            return note
        return replace(note, kind="insight", layer=known.layer)

    def _find_statement(self, scope: str, sentence: str) -> Record | None:
        """Return the record that has a sentence already as what it states."""
        known = self._store.record_like(scope, compute_fingerprint(sentence.strip()))
        return known if known is not None and known.kind not in FIL else None

    def _save_summary(self, turn: Turn, before: str, *, origin: Origin) -> SaveResult | None:
        """Save the answer that stands for its session; return None where it is secret."""
        content = shorten_text(turn.content, _LONGEST_SUMMARY)
        if is_likely_secret(content):
            return None
        found = self._store.records([before]) if before else []
        is_own = bool(found) and found[0].kind == "insight" and found[0].source == _build_source(turn)
        if is_own and not found[0].archived:
            self._saving.archive([before], operation="withdraw")
        known = self._find_statement(turn.scope, content)
        note = NewRecord(
            content=content,
            kind="insight" if known is None else known.kind,
            layer=None if known is None else known.layer,
            tags=(SUMMARY_TAG,),
            confidence=0.7,
            importance=0.4,
            source=_build_source(turn),
            references=(turn.id,),
            origin=origin,
            scope=turn.scope,
            created_at=turn.at,
        )
        return self._saving.save(note)


def build_cursor_name(session: str) -> str:
    """Return the name of the cursor that says up to which turn a session was consolidated by rule."""
    return f"fil:{session}"


def read_consolidated_position(store: Store, session: str) -> int:
    """Return the position of the first turn of a session that was not consolidated by rule."""
    return _read_mark(store.cursor(build_cursor_name(session)))[0]


def _list_keys(injected: Sequence[str], turns: Sequence[Turn], exchange: _Exchange) -> frozenset[str]:
    """Return the keys of the sentences that were put before the owner: they are no evidence of the owner's will."""
    others = (
        turn.content for turn in turns if turn.role != "user" and turn.position < exchange.answer.position
    )
    return frozenset(
        compute_fingerprint(part) for text in (*injected, *others) for part in (text, *split_sentences(text))
    )


def _iter_exchanges(turns: Sequence[Turn], new: Collection[str], now: datetime | None) -> Iterator[_Exchange]:
    """Yield each answer among the new turns, with what was asked since the answer before.

    Args:
        now: The time now, to leave out what was said more than a day ago; None for turns of any age.
    """
    asked: list[Turn] = []
    used_tools = saved = False
    for turn in turns:
        saved = saved or any(call.name in _SAVING for call in turn.tool_calls)
        if turn.role == "user":
            asked.append(turn)
        elif turn.role == "tool":
            used_tools = True
        elif turn.role == "assistant" and not turn.tool_calls and turn.content.strip():
            if asked and turn.id in new and (now is None or abs(now - turn.at) <= FRESH):
                yield _Exchange(asked=tuple(asked), answer=turn, used_tools=used_tools, saved=saved)
            asked, used_tools, saved = [], False, False


def _determine_origin(exchange: _Exchange) -> Origin:
    """Return the origin of an answer. After a tool was used, it is trusted no more than the tool."""
    return provenance.least_trusted(exchange.answer.origin, "tool" if exchange.used_tools else "agent")


def _extract_own_text(turn: Turn) -> str:
    """Return what the speaker says in a turn, without what the owner quotes.

    Nothing of a message that contains remembered text is known to be the owner's.
    """
    if turn.role != "user":
        return turn.content
    return "" if NOTICE in turn.content else unquoted_text(turn.content)


def _find_turns_after_tools(turns: Sequence[Turn]) -> frozenset[str]:
    """Return the ids of the assistant's turns after the first result of a tool."""
    found, used = set(), False
    for turn in turns:
        if turn.role == "tool":
            used = True
        elif used and turn.role == "assistant":
            found.add(turn.id)
    return frozenset(found)


def _find_last_answer(turns: Sequence[Turn]) -> Turn | None:
    return next((turn for turn in reversed(turns) if turn.role == "assistant" and turn.content.strip()), None)


def _is_summary(turn: Turn) -> bool:
    return turn.role == "assistant" and len(turn.content.strip()) > SHORTEST_SUMMARY


def _read_mark(text: str | None) -> tuple[int, str]:
    position, _, summary = (text or "").partition(" ")
    return (int(position) if position.isdecimal() else 0), summary


def _build_source(turn: Turn) -> str:
    return f"session:{turn.session}"[:200]


# -- history -----------------------------------------------------------------------------------------------


TOLD = timedelta(days=7)
"""Greatest age of a conversation that gets a paragraph; an older one was imported."""


class HistoryWriter:
    """Writer of a paragraph of `HISTORY.md` for each conversation that is over; a digest tells what leaves a window.

    It quotes the first request and the last answer, of trusted turns only. Conversations of a scope get none, since the
    log is everybody's.
    """

    def __init__(self, writer: StoreWriter, *, settings: Settings) -> None:
        self._store = writer.store
        self._clock = writer.clock
        self._settings = settings
        self._writer = writer
        self._pages = Pages(writer, settings=settings)
        self._done: tuple[int, datetime] | None = None  # as of a journal entry, until a time

    def write(self) -> int:
        """Write what is due; return the number of paragraphs."""
        now, sequence = self._clock(), self._store.sequence()
        if self._done is not None and self._done[0] == sequence and now < self._done[1]:
            return 0
        waiting = [now + self._settings.idle]
        written = 0
        for overview in self._store.sessions(scopes=("",)):
            state, ends_at = overview.state, overview.last_at + self._settings.idle
            told = parse_position(self._store.cursor(build_history_cursor(state.id)))
            if abs(now - overview.last_at) > TOLD or told >= overview.turns:
                continue
            window = self._settings.memory_window
            if window and overview.turns - state.window_start > window:
                continue  # a digest is due, and tells its beginning
            if state.status != "terminated" and ends_at > now:
                waiting.append(ends_at)
                continue
            written += self._write_one(state.id, told)
        self._done = self._store.sequence(), min(waiting)
        return written

    def _write_one(self, session: str, start: int) -> bool:
        """Write the paragraph about the turns from a position; they count as told in the same transaction."""
        from reverie.consolidation.passes.history import build_headline  # here: it comes with all passes

        turns = self._store.turns(session=session, start=start)
        cursors = {build_history_cursor(session): str(turns[-1].position + 1)}
        if not any(turn.role == "user" and turn.origin == "owner" for turn in turns):
            self._writer.commit([], cursors=cursors)
            return False
        with setting_cursors(cursors):
            self._pages.append_many(
                HISTORY,
                [build_headline(turns)],
                at=turns[-1].at,
                source=build_session_source(session),
                operation="append",
            )
        return True
