"""Learn from what the owner says, right after it was stored.

Each sentence passes `reverie.domain.intake`. Nothing here asks a language model, changes what was said, or raises: a
failure is a warning and a counter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple

from reverie.consolidation.sentences import (
    TRIGGER,
    extract_references,
    extract_tags,
    find_failure,
    find_wishes,
    has_correction,
    is_fiction,
    is_likely_secret,
    is_self_contained,
    is_statement,
    split_sentences,
    strip_question,
)
from reverie.context.retrieval import FRESH, LONGEST_ANSWER, LONGEST_QUESTION, shorten_text
from reverie.context.window import parse_position
from reverie.domain import provenance
from reverie.domain.conversation import SAVED, SIGNAL, Turn, Wish, set_signal
from reverie.domain.errors import ReverieError
from reverie.domain.filter import Filter
from reverie.domain.intake import Door, classify, rate_importance
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import MEMORY
from reverie.domain.record import SUMMARY_TAG
from reverie.domain.text.escaping import NOTICE, unquoted_text
from reverie.domain.text.same_text import compute_fingerprint
from reverie.domain.text.timestamps import Clock
from reverie.repositories.records import NewRecord, RecordRepository, SaveResult
from reverie.settings import Settings
from reverie.stores.protocol import Store

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
    saved: bool


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
        now = self._clock()
        last = next((turn for turn in reversed(window) if _is_answer(turn)), None)
        marked = []
        for turn in turns:
            is_recent = SIGNAL not in turn.metadata and abs(now - turn.at) <= FRESH
            signal = self._detect_signal(turn, last) if is_recent else ""
            last = turn if _is_answer(turn) else last
            marked.append(set_signal(turn, signal) if signal else turn)
        return marked

    @staticmethod
    def _detect_signal(turn: Turn, last: Turn | None) -> str:
        if turn.role == "tool":
            return TOOL_FAILURE if _TOOL_FAILED.search(turn.content[:20_000]) else ""
        if turn.role != "user" or last is None:
            return ""
        is_answer = last.content.rstrip().endswith("?")
        sentences = split_sentences(turn.content)
        return CORRECTION if any(has_correction(each, answering=is_answer) for each in sentences) else ""

    # -- wishes ------------------------------------------------------------------------------------------

    def find_wishes(self, turn: Turn) -> list[Wish]:
        """Return the wishes of a turn of the user; none if it was said more than a day ago."""
        is_own = turn.role == "user" and NOTICE not in turn.content
        return find_wishes(turn.content) if is_own and abs(self._clock() - turn.at) <= FRESH else []

    def save_wish(self, text: str, turn: Turn) -> SaveResult:
        """Save a statement that a turn asks to remember, filed like any saved sentence."""
        is_stored = bool(self._store.turns([turn.id]))
        return self._saving.save(_build_note(turn, text, references=(turn.id,) if is_stored else ()))

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
                if self._settings.learn_events:
                    notes += self._iter_events(exchange)
                if self._settings.learn:
                    notes += self._collect_statements(exchange, turns, shown)
            return len(self._saving.save_many(notes)) if notes else 0
        except ReverieError as error:
            _log.warning("nothing could be learned from an exchange: %s", error)
        try:
            self._store.commit([], actor=ACTOR, at=self._clock(), counts={FAILED: 1})
        except ReverieError as error:
            _log.warning("%s could not be counted: %s", FAILED, error)
        return 0

    def _collect_statements(
        self, exchange: _Exchange, turns: Sequence[Turn], shown: Collection[str]
    ) -> list[NewRecord]:
        """Return the sentences of the owner that are worth keeping, as records, without those that are known.

        A sentence that was put before the owner is no evidence of the owner's will.
        """
        statements = list(self._iter_statements(exchange))
        if not statements:
            return []
        records = self._store.records(list(shown)) if shown else []
        texts = [record.content for record in records]
        texts += [line for page in self._store.pages([MEMORY]) for line in page.content.splitlines()]
        before = exchange.answer.position
        texts += [turn.content for turn in turns if turn.role != "user" and turn.position < before]
        own = self._store.records(self._store.citing([turn.id for turn in exchange.asked]))
        known = {record.fingerprint for record in own}  # asked to be remembered
        known |= {compute_fingerprint(part) for text in texts for part in (text, *split_sentences(text))}
        return [note for note in statements if compute_fingerprint(note.content) not in known]

    def _iter_statements(self, exchange: _Exchange) -> Iterator[NewRecord]:
        """Yield the sentences of the owner that are worth keeping, as records."""
        for turn in exchange.asked:
            for whole in split_sentences(_extract_own_text(turn)) if SAVED not in turn.metadata else ():
                if is_fiction(whole):
                    break
                sentence = strip_question(whole)
                is_plain = is_statement(sentence) and is_self_contained(sentence)
                if not is_plain or find_wishes(whole) or is_likely_secret(sentence):
                    continue
                door: Door = "reply" if turn.position else "conversation"
                given = classify(sentence, origin=turn.origin, at=turn.at, zone=self._zone, door=door)
                kind = given.kind and (find_failure(sentence) or given.kind)
                if kind is None or (exchange.saved and kind == "fact"):
                    continue
                tags, references = self._extract_tags_and_references(sentence)
                yield _build_note(
                    turn,
                    sentence,
                    kind=kind,
                    layer="episodic",
                    tags=tags,
                    importance=rate_importance(sentence, kind),
                    references=(turn.id, *references),
                )

    def _iter_events(self, exchange: _Exchange) -> Iterator[NewRecord]:
        """Yield a short record of both sides of an exchange, unless one seems to hold a secret (golemcore)."""
        question, answer = exchange.asked[-1], exchange.answer
        request = shorten_text(question.content, LONGEST_QUESTION)
        reply = shorten_text(answer.content, LONGEST_ANSWER)
        if not is_likely_secret(f"{request}\n{reply}"):
            tags, references = self._extract_tags_and_references(f"{request}\n{reply}")
            yield _build_note(
                answer,
                f"User: {request} | Assistant: {reply}",
                kind="event",
                layer="episodic",
                tags=tags,
                confidence=0.6,
                importance=0.3,
                references=(question.id, answer.id, *references),
                # after a tool was used, an answer is trusted no more than the tool
                origin=provenance.least_trusted(answer.origin, "tool" if exchange.used_tools else "agent"),
            )

    def _extract_tags_and_references(self, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tags and references of a text."""
        if not self._settings.code_aware_extraction:
            return (), ()
        return extract_tags(text), extract_references(text)

    # -- sessions (agentkit) -----------------------------------------------------------------------------

    def consolidate(self, session: str) -> list[SaveResult]:
        """Save what a session came to, without a model (see `Memory.consolidate_session`).

        The last long answer stands for the session, in place of the one that did before.
        """
        turns = self._store.turns(session=session)
        done = parse_position(self._store.cursor(build_cursor_name(session)))
        fresh = [turn for turn in turns if turn.position >= done]
        if not fresh:
            return []
        tooled = _find_turns_after_tools(turns)
        notes = {compute_fingerprint(note.content): note for note in self._iter_insights(fresh, tooled)}
        answers = [
            turn for turn in fresh if _is_answer(turn) and len(turn.content.strip()) > SHORTEST_SUMMARY
        ]
        last = answers[-1] if answers else None
        if last is not None and not is_likely_secret(content := shorten_text(last.content, _LONGEST_SUMMARY)):
            summary = _build_insight(last, content, tooled, tags=(SUMMARY_TAG,), importance=0.4)
            earlier = self._store.find(Filter(tags=(SUMMARY_TAG,), scopes=(last.scope,)))
            replaced = [each.id for each in earlier if each.source == summary.source]
            self._saving.archive(replaced, operation="withdraw")
            notes[compute_fingerprint(content)] = summary
        saved = self._saving.save_many(list(notes.values()))
        cursors = {build_cursor_name(session): str(turns[-1].position + 1)}
        self._store.commit([], actor=ACTOR, at=self._clock(), cursors=cursors)
        return saved

    def _iter_insights(self, turns: Iterable[Turn], tooled: Collection[str]) -> Iterator[NewRecord]:
        """Yield the sentences of turns that have a word of agentkit's, without those that are records already."""
        for turn in turns:
            is_spoken = turn.role in {"user", "assistant"}
            for sentence in split_sentences(_extract_own_text(turn)) if is_spoken else ():
                is_named = TRIGGER.search(sentence) and not sentence.endswith("?")
                if is_named and is_self_contained(sentence) and not is_likely_secret(sentence):
                    known = self._store.record_like(turn.scope, compute_fingerprint(sentence))
                    if known is None or turn.id not in known.references:
                        yield _build_insight(turn, sentence[:_LONGEST_SUMMARY], tooled)


def build_cursor_name(session: str) -> str:
    """Return the name of the cursor that says up to which turn a session was consolidated by rule."""
    return f"fil:{session}"


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
        elif _is_answer(turn) and not turn.tool_calls:
            if asked and turn.id in new and (now is None or abs(now - turn.at) <= FRESH):
                yield _Exchange(asked=tuple(asked), answer=turn, used_tools=used_tools, saved=saved)
            asked, used_tools, saved = [], False, False


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


def _is_answer(turn: Turn) -> bool:
    return turn.role == "assistant" and bool(turn.content.strip())


def _build_note(turn: Turn, content: str, **fields: Any) -> NewRecord:
    """Return a record of a turn with the trust, scope and time of the turn; further fields as in `NewRecord`."""
    source = f"session:{turn.session}"[:200]
    own = {"confidence": CONFIDENCE, "origin": turn.origin, "source": source, **fields}
    return NewRecord(content=content, scope=turn.scope, created_at=turn.at, **own)


def _build_insight(turn: Turn, content: str, tooled: Collection[str], **fields: Any) -> NewRecord:
    """Return an insight from a turn. After a tool was used, an answer is trusted no more than the tool."""
    origin = provenance.least_trusted(turn.origin, "tool") if turn.id in tooled else turn.origin
    own = {"kind": "insight", "confidence": 0.7, "references": (turn.id,), "origin": origin, **fields}
    return _build_note(turn, content, **own)
