"""Prompts of conversations: what they are made of, and the log of which prompts a model was given and why.

All inputs of a pack are read from one state of the store. An entry of the log has ids, numbers, the question and the
exact text line by line. An erasure removes the texts of all entries; then a prompt shows its rules and recalled lines
with their present words. A session stores the entry of a prompt with its next change.
"""

from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from reverie.context import retrieval
from reverie.context.candidates import PackInput, StaticContext, Verdict
from reverie.context.pack import Pack
from reverie.context.render import TokenBudget
from reverie.context.retrieval import Retriever
from reverie.context.window import ShownLedger, find_question, prepend_question, trim_window
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.filter import is_valid_at
from reverie.domain.lazy_dataclass import dataclass, field, replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import visible_scopes
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.json_values import from_json_object, to_json_object
from reverie.domain.text.timestamps import Clock, format_time
from reverie.domain.text.validation import estimate_tokens, validate_count, validate_limit
from reverie.search.page_index import PageIndex
from reverie.settings import Settings
from reverie.stores.protocol import Store

_log = logging.getLogger("reverie")


SessionView: TypeAlias = tuple[SessionState, tuple[Turn, ...], int, ShownLedger]
"""State and window of a session, the position of its next turn, and the ledger of its earlier prompts."""


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
            self.latest_rules = key, retrieval.retrieve_standing(self.recaller, self.settings, scopes)
        return tuple(
            record
            for record in self.latest_rules[1]
            if is_valid_at(record, now)
            and (record.expires_at is None or record.expires_at > now)
            and (record.until is None or record.until >= now)
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


# -- the log ----------------------------------------------------------------------------------------------

RETENTION = timedelta(days=30)
"""Lifetime of an entry."""

MAX_ENTRIES = 1_000
"""Largest number of entries of a memory. Older ones are removed when a session begins, so there may be more."""

MAX_SESSION_ENTRIES = 50
"""Entries of a session. A later entry replaces the one 50 positions before."""

_PREFIX = "prompt:"  # of the cursors of entries, each with its session and a number up to 50
_PRUNE_INTERVAL = 100  # positions of a session


class PromptLogLine(NamedTuple):
    """One candidate of a context.

    Attributes:
        id: Id of the record, turn or paragraph.
        type: `record`, `turn` or `paragraph`.
        verdict: `selected`, or the reason for leaving it out.
        score: 0 to 1.
        tokens: Tokens of its line.
        recent: Whether it was a candidate because it is recent, since little was found on the first turn.
    """

    id: str
    type: Literal["record", "turn", "session", "paragraph"]
    verdict: Verdict
    score: float
    tokens: int
    recent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLogEntry:
    """Contents of one prompt in ids and numbers.

    Attributes:
        session: The session.
        position: Position of the user's turn that was answered.
        at: When the context was made; the last time, if it was made several times for one turn.
        hard_tokens: The hard budget.
        tokens: Tokens of each section.
        replayed_messages: Number of replayed messages.
        replayed_tokens: Their tokens, outside the budget.
        lines: The candidates, best first.
    """

    session: str
    position: int
    at: datetime
    hard_tokens: int
    tokens: Mapping[str, int]
    replayed_messages: int
    replayed_tokens: int
    lines: tuple[PromptLogLine, ...]

    @property
    def total(self) -> int:
        """Tokens of the whole text."""
        return sum(self.tokens.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the entry without its lines as JSON values."""
        values = to_json_object(self) | {"total": self.total}
        del values["lines"]
        return values


class PromptLine(NamedTuple):
    """A line of a prompt as the model reads it.

    Attributes:
        section: Name of its section, as in `PackSection`, or `notice`.
        text: The line; empty between two paragraphs.
        tokens: Estimated tokens.
        id: Id of its record, turn or paragraph; empty for headings and other text.
        reason: Why it is in the prompt.
    """

    section: str
    text: str
    tokens: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPrompt:
    """An entry of the prompt log with its texts.

    Attributes:
        entry: The entry.
        question: The text that was searched for; None if it is no longer stored.
        text: The prompt line by line, each with its reason.
        contents: What the rules and candidates say now, by id, without those that are gone.
    """

    entry: PromptLogEntry
    question: str | None
    text: tuple[PromptLine, ...]
    contents: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_rebuilt(self) -> bool:
        """Whether the exact text is gone, and `text` has the rules and recalled lines left, as they are now."""
        return self.question is None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry with its texts as a JSON object."""
        return self.entry.to_dict() | {
            "question": self.question,
            "lines": [line._asdict() | {"content": self.contents.get(line.id)} for line in self.entry.lines],
            "text": [line._asdict() for line in self.text],
            "is_rebuilt": self.is_rebuilt,
        }


# -- the text line by line -------------------------------------------------------------------------------

_REASONS = MappingProxyType(
    {
        "notice": "Protects the model from commands in stored text",
        "profile": "Your profile",
        "pages": "On the page that is in every prompt",
        "standing": "A rule, in every prompt",
        "summary": "Summary of earlier messages",
        "changed": "Changed since the page was composed",
        "notes": "From the daily notes",
        "recalled": "Recalled for this message",
        "working": "A temporary note of this conversation",
        "related": "From the knowledge graph",
    }
)
_VERDICT_REASONS = {
    "selected": "Recalled for this message",
    "perhaps related": "Perhaps related to this message",
}
_HEADED = ("standing", "recalled", "working")  # sections whose parts begin with a line that ends in a colon
_RECENT = "One of the newest memories"
_NAMED = defer_regex(r" *- (?:\[([0-9a-f]{12})\].*|.*\[([0-9a-f]{12})\](?: \(ask before acting on it\))?)")


def explain_pack(pack: Pack) -> tuple[PromptLine, ...]:
    """Return the text of a context line by line, each with its reason."""
    choices = {choice.hit.id: choice for choice in pack.choices}
    lines: list[PromptLine] = []
    for section, text in pack.parts:
        if lines:
            lines.append(PromptLine(section, "", 0, "", ""))
        for row in text.split("\n"):
            named = _NAMED.fullmatch(row) if section not in ("profile", "summary", "related") else None
            name = (named[1] or named[2]) if named else ""
            reason = _REASONS[section] if row.strip() else ""
            if not name and (row.startswith("#") or (section in _HEADED and row.endswith(":"))):
                reason = "Heading"
            if section == "recalled" and (choice := choices.get(name)):
                reason = _RECENT if choice.recent else _VERDICT_REASONS.get(choice.verdict, reason)
            lines.append(PromptLine(section, row, estimate_tokens(row) if row else 0, name, reason))
    return tuple(lines)


class PromptLog:
    """Prompt log of the sessions of some scopes. Safe to use from several threads.

    `Session.context` logs one entry for each turn of a user. Entries stay for thirty days: of the last 50 turns of a
    session, and about 1,000 in all.
    """

    def __init__(
        self, store: Store, scopes: Sequence[str] | None, *, resolve: Callable[[str], str] = str
    ) -> None:
        """Read the prompt log of a store.

        Args:
            store: The store.
            scopes: Scopes whose sessions are visible; None for all.
            resolve: Function that returns the id under which a session is stored.
        """
        self._store = store
        self._scopes = scopes
        self._resolve = resolve

    def list(self, session: str | None = None, *, limit: int | None = 50) -> builtins.list[PromptLogEntry]:
        """Return entries without texts, the newest first; unreadable ones are left out.

        Args:
            session: The id of the session; None for all.
            limit: Most entries to return; None for all.

        Raises:
            InvalidInput: `limit` is not a number from 0 on.
        """
        validate_limit(limit, name="limit")
        if session is not None:
            session = self._resolve(session)
        entries: builtins.list[PromptLogEntry] = []
        is_visible = cache(self._is_visible)
        stored = self._store.cursors(_build_prefix(session))
        for name, text in sorted(stored.items(), key=itemgetter(1), reverse=True):
            owner = _get_session(name)
            if len(entries) == limit:
                break
            if session in (None, owner) and is_visible(owner):
                try:
                    entries.append(_decode(text).entry)
                except InvalidInput as error:
                    _log.warning("the entry %r of the prompt log cannot be read: %s", name, error)
        return entries

    def get(self, session: str, position: int) -> ExplainedPrompt:
        """Return the entry of one prompt, with its texts.

        Args:
            session: The id of the session.
            position: Position of the user's turn that it answered.

        Raises:
            NotFound: the log has no such entry.
            InvalidInput: the entry cannot be read, or an argument is not of its form.
        """
        validate_count(position, name="position", least=0)
        session = self._resolve(session)
        text = self._store.cursor(_build_cursor(session, position))
        stored = None if text is None else _decode(text)
        if stored is None or stored.entry.position != position or not self._is_visible(session):
            raise NotFound(
                f"The prompt log has no entry for turn {position} of session {session!r}. List the entries."
            )
        rows = stored.text
        named = {*(line.id for line in stored.entry.lines), *(row.id for row in rows)} - {""}
        contents = self._read_contents(sorted(named))
        if stored.is_rebuilt:
            rows = tuple(row._replace(text=contents[row.id]) for row in rows if row.id in contents)
        return replace(stored, contents=contents, text=rows)

    def _read_contents(self, ids: builtins.list[str]) -> dict[str, str]:
        """Return the present contents of records, turns and paragraphs that are still there."""
        with self._store.reading():
            found: builtins.list[Record | Turn | Paragraph] = [
                *self._store.records(ids),
                *self._store.turns(ids),
                *self._store.paragraphs(ids),
                *PageIndex(self._store).read().list_all(),
            ]
        contents = {each.id: each.content for each in found}
        return {name: contents[name] for name in ids if name in contents}

    def _is_visible(self, session: str) -> bool:
        state = self._store.session(session)
        return state is not None and (self._scopes is None or state.scope in self._scopes)


# -- writing -------------------------------------------------------------------------------------------


def build_prompt_cursors(
    store: Store, session: str, prompts: Mapping[int, tuple[PackInput, Pack]]
) -> dict[str, str | None]:
    """Return the cursors that log the prompts of a session, by the positions of their turns."""
    cursors: dict[str, str | None] = {}
    for position, (given, pack) in prompts.items():
        if position % _PRUNE_INTERVAL == 0:
            cursors |= _find_old_entries(store, given.now)
        entry = _build_entry(session, given, pack)
        prompt = ExplainedPrompt(entry=entry, question=pack.query, text=explain_pack(pack))
        cursors[_build_cursor(session, position)] = _encode(prompt)
    return cursors


def _build_entry(session: str, given: PackInput, pack: Pack) -> PromptLogEntry:
    lines = (
        PromptLogLine(
            each.hit.id, each.hit.type, each.verdict, round(each.hit.score, 3), each.tokens, each.recent
        )
        for each in pack.choices
    )
    return PromptLogEntry(
        session=session,
        position=given.now_at,
        at=given.now,
        hard_tokens=pack.hard_tokens,
        tokens=pack.diagnostics.tokens,
        replayed_messages=len(pack.replay.messages),
        replayed_tokens=pack.replay.tokens,
        lines=tuple(lines),
    )


def _find_old_entries(store: Store, now: datetime) -> dict[str, None]:
    """Return the cursors of entries that are too old or too many."""
    stored = store.cursors(_PREFIX)
    newest, first = sorted(stored, key=stored.__getitem__, reverse=True), format_time(now - RETENTION)
    return {name: None for n, name in enumerate(newest) if n >= MAX_ENTRIES or stored[name] < first}


def find_session_entries(store: Store, session: str) -> dict[str, None]:
    """Return the cursors of all entries of a session, to be removed."""
    names = store.cursors(_build_prefix(session))
    return {name: None for name in names if _get_session(name) == session}


def find_erased_entries(
    store: Store, ids: Collection[str], sessions: Collection[str], *, pages: bool
) -> dict[str, str | None]:
    """Return the cursors of all entries after an erasure, each with its new text, or None to remove it.

    The exact texts of all prompts are removed, because any of them may quote what is erased.

    Args:
        store: The store.
        ids: Ids of erased values.
        sessions: Erased sessions.
        pages: Whether pages are erased. Ids of their paragraphs are made from their text.
    """
    changes: dict[str, str | None] = {}
    for name, text in store.cursors(_PREFIX).items():
        session, changes[name] = _get_session(name), None
        if session not in sessions:
            with suppress(InvalidInput):  # what cannot be read is removed
                stored = _decode(text)
                lines = stored.entry.lines
                gone = {*ids, *(each.id for each in lines if pages and each.type == "paragraph")}
                entry = replace(stored.entry, lines=tuple(each for each in lines if each.id not in gone))
                rows = (row._replace(text="") for row in stored.text if row.id and row.id not in gone)
                changes[name] = _encode(ExplainedPrompt(entry=entry, question=None, text=tuple(rows)))
    return changes


# -- stored form ---------------------------------------------------------------------------------------


def _build_prefix(session: str | None) -> str:
    return _PREFIX if session is None else f"{_PREFIX}{session}:"


def _build_cursor(session: str, position: int) -> str:
    return f"{_build_prefix(session)}{position % MAX_SESSION_ENTRIES}"


def _get_session(cursor: str) -> str:
    return cursor.partition(":")[2].rpartition(":")[0]


def _encode(prompt: ExplainedPrompt) -> str:
    """Return an entry as one line of text that begins with its time and position, so that texts sort by them.

    After an erasure it has no question and no texts.
    """
    entry = prompt.entry
    values = {"entry": to_json_object(entry), "text": prompt.text, "question": prompt.question}
    document = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return f"{format_time(entry.at)} {entry.position:09} {document}"


def _decode(text: str) -> ExplainedPrompt:
    """Return a stored entry; raise `InvalidInput` if the text is not one."""
    try:
        values = json.loads(text.split(" ", 2)[2])
        lines = tuple(PromptLogLine(*row) for row in values["entry"]["lines"])
        entry = replace(from_json_object(PromptLogEntry, {**values["entry"], "lines": []}), lines=lines)
        rows = tuple(PromptLine(*row) for row in values["text"])
        return ExplainedPrompt(entry=entry, question=values["question"], text=rows)
    except (ValueError, TypeError, LookupError) as error:
        raise InvalidInput(f"not an entry of the prompt log: {error}") from None
