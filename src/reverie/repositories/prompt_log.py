"""The prompt log: which contexts a model was given, and why each line was in them.

An entry has ids and numbers, no text. The exact texts of the last prompts of a session are stored separately; an
erasure removes all of them. Without its text a prompt shows its rules and recalled lines with their present words. A
session stores the entry of a context with its next change.
"""

from __future__ import annotations

import builtins
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from reverie.context.candidates import CandidateDecision, PackInput, Verdict
from reverie.context.pack import Pack
from reverie.context.retrieval import query_from_message
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.domain.text.json_values import from_json_object, to_json_object
from reverie.domain.text.timestamps import format_time
from reverie.domain.text.validation import estimate_tokens, validate_count
from reverie.search.page_index import PageIndex
from reverie.stores.protocol import Store

RETENTION = timedelta(days=30)
"""Lifetime of an entry."""

MAX_ENTRIES = 2_000
"""Largest number of entries of a memory. Older ones are removed when a session begins, so there may be more."""

MAX_SESSION_ENTRIES = 200
"""Entries of a session. A later entry replaces the one 200 positions before."""

MAX_SESSION_TEXTS = 50
"""Prompts of a session whose exact text is stored. A later one replaces the text 50 positions before."""

_TEXT_PREFIX = "prompt:"  # of the cursors of texts, each with its session and a number up to 50
_PREFIX = "receipt:"  # of the cursors of entries, each with its session and a number up to 200
_PRUNE_INTERVAL = 100  # positions of a session

_log = logging.getLogger("reverie")

LineType = Literal["record", "turn", "paragraph"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLogLine:
    """One candidate of a context.

    Attributes:
        id: Id of the record, turn or paragraph.
        type: `record`, `turn` or `paragraph`.
        verdict: `selected`, or the reason for leaving it out.
        score: 0 to 1.
        tokens: Tokens of its line.
        recent: Whether it was a candidate because it is recent, since little was found on the first turn.
        shown_at: The position of the replayed turn for which it was already shown; None otherwise.
        parts: The parts of its score by name, for a selected candidate.
    """

    id: str
    type: LineType
    verdict: Verdict
    score: float
    tokens: int
    recent: bool = False
    shown_at: int | None = None
    parts: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


_LINE_FIELDS = tuple(each.name for each in fields(PromptLogLine))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLogEntry:
    """Contents of one context in ids and numbers.

    Attributes:
        session: The session.
        position: Position of the user's turn that was answered.
        at: When the context was made; the last time, if it was made several times for one turn.
        sequence: Number of the newest change at that time.
        asked: Whether the search was for that turn.
        soft_tokens: The soft budget.
        hard_tokens: The hard budget.
        tokens: Tokens of each section.
        cut: Sections that did not fit completely.
        replayed_messages: Number of replayed messages.
        replayed_tokens: Their tokens, outside the budget.
        standing: Ids of the rules.
        lines: The candidates, best first.
        erased: Number of candidates that were erased later.
    """

    session: str
    position: int
    at: datetime
    sequence: int
    asked: bool
    soft_tokens: int
    hard_tokens: int
    tokens: Mapping[str, int]
    cut: tuple[str, ...]
    replayed_messages: int
    replayed_tokens: int
    standing: tuple[str, ...]
    lines: tuple[PromptLogLine, ...]
    erased: int = 0

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
        question: The text that was searched for; None if that cannot be determined any more.
        contents: What the rules and candidates say now, by id, without those that are gone.
        text: The prompt line by line, each with its reason.
        is_rebuilt: Whether the exact text is no longer stored, so that `text` has only the rules and the recalled
            lines that are still there, with their present words.
    """

    entry: PromptLogEntry
    question: str | None
    contents: Mapping[str, str]
    text: tuple[PromptLine, ...]
    is_rebuilt: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the entry with its texts as a JSON object."""
        return self.entry.to_dict() | {
            "question": self.question,
            "lines": [
                to_json_object(line) | {"content": self.contents.get(line.id)} for line in self.entry.lines
            ],
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


def explain_parts(
    parts: Iterable[tuple[str, str]], verdicts: Mapping[str, tuple[Verdict, bool]]
) -> tuple[PromptLine, ...]:
    """Return the parts of a prompt line by line, each with its reason.

    Args:
        parts: Name and text of each part, as `Pack.parts` has them.
        verdicts: Verdict on each candidate by id, and whether it is there because it is recent.
    """
    lines: list[PromptLine] = []
    for section, text in parts:
        if lines:
            lines.append(PromptLine(section, "", 0, "", ""))
        for row in text.split("\n"):
            named = _NAMED.fullmatch(row) if section not in ("profile", "summary", "related") else None
            name = (named[1] or named[2]) if named else ""
            reason = _REASONS[section] if row.strip() else ""
            if not name and (row.startswith("#") or (section in _HEADED and row.endswith(":"))):
                reason = "Heading"
            if section == "recalled" and name in verdicts:
                verdict, is_recent = verdicts[name]
                reason = _RECENT if is_recent else _VERDICT_REASONS.get(verdict, reason)
            lines.append(PromptLine(section, row, estimate_tokens(row) if row else 0, name, reason))
    return tuple(lines)


def explain_pack(pack: Pack) -> tuple[PromptLine, ...]:
    """Return the text of a context line by line, each with its reason."""
    return explain_parts(
        pack.parts, {choice.hit.id: (choice.verdict, choice.recent) for choice in pack.choices}
    )


class PromptLog:
    """Prompt log of the sessions of some scopes. Safe to use from several threads.

    `Session.context` logs one entry for each turn of a user. Entries stay for thirty days: of the last 200 turns of a
    session, and about 2,000 in all.
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
        if limit is not None:
            validate_count(limit, name="limit", least=0)
        if session is not None:
            session = self._resolve(session)
        entries: builtins.list[PromptLogEntry] = []
        visible: dict[str, bool] = {}
        stored = self._store.cursors(_build_prefix(session))
        times = {name: text.partition(" ")[0] for name, text in stored.items()}
        for name in sorted(stored, key=times.__getitem__, reverse=True):
            owner = _get_session(name)
            if limit is not None and len(entries) > limit and times[name] < format_time(entries[-1].at):
                break
            if owner not in visible:
                visible[owner] = session in (None, owner) and self._is_visible(owner)
            try:
                entries += [decode_entry(owner, stored[name])] if visible[owner] else []
            except InvalidInput as error:
                _log.warning("the entry %r of the prompt log cannot be read and is left out: %s", name, error)
        entries.sort(key=lambda entry: (entry.at, entry.position), reverse=True)
        return entries if limit is None else entries[:limit]

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
        entry = None if text is None else decode_entry(session, text)
        if entry is None or entry.position != position or not self._is_visible(session):
            raise NotFound(
                f"The prompt log has no entry for turn {position} of session {session!r}. List the entries."
            )
        with self._store.reading():
            turns = self._store.turns(session=session, start=position, stop=position + 1)
            contents = self._read_contents(entry)
            parts = self._read_parts(entry)
        verdicts = {line.id: (line.verdict, line.recent) for line in entry.lines}
        return ExplainedPrompt(
            entry=entry,
            question=turns[0].content if turns and entry.asked else None,
            contents=contents,
            text=_rebuild_text(entry, contents) if parts is None else explain_parts(parts, verdicts),
            is_rebuilt=parts is None,
        )

    def _read_contents(self, entry: PromptLogEntry) -> dict[str, str]:
        """Return the present contents of the rules and candidates of an entry that are still there."""
        ids = [*entry.standing, *(line.id for line in entry.lines)]
        store = self._store
        of_pages = PageIndex(store).read().list_all()
        found: list[Record | Turn | Paragraph] = [*store.records(ids), *store.turns(ids)]
        found += [*store.paragraphs(ids), *of_pages]
        contents = {each.id: each.content for each in found}
        return {name: contents[name] for name in ids if name in contents}

    def _read_parts(self, entry: PromptLogEntry) -> Sequence[tuple[str, str]] | None:
        """Return the parts of the text that is stored for an entry; None without one."""
        text = self._store.cursor(_build_text_cursor(entry.session, entry.position)) or ""
        at, _, document = text.partition(" ")
        try:
            return json.loads(document) if at == format_time(entry.at) else None
        except ValueError:  # a secret was redacted in it
            return None

    def _is_visible(self, session: str) -> bool:
        state = self._store.session(session)
        return state is not None and (self._scopes is None or state.scope in self._scopes)


def _rebuild_text(entry: PromptLogEntry, contents: Mapping[str, str]) -> tuple[PromptLine, ...]:
    """Return the rules and the recalled lines of a prompt whose exact text is no longer stored."""
    rules = [("standing", name, _REASONS["standing"]) for name in entry.standing]
    recalled = [
        ("recalled", line.id, _VERDICT_REASONS[line.verdict])
        for line in entry.lines
        if line.verdict in _VERDICT_REASONS
    ]
    return tuple(
        PromptLine(section, contents[name], estimate_tokens(contents[name]), name, reason)
        for section, name, reason in (*rules, *recalled)
        if name in contents
    )


# -- writing -------------------------------------------------------------------------------------------


class PromptLogBuffer:
    """Contexts of one session that wait to be logged with its next turn; the session's lock guards them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._packs: dict[int, tuple[PackInput, Pack, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._packs)

    def add(self, pack_input: PackInput, pack: Pack, *, asked: bool) -> None:
        """Add the context of a turn; it replaces an earlier one for the same turn."""
        self._packs[pack_input.now_at] = (pack_input, pack, asked)

    def build_cursors(self, store: Store, changes: Sequence[Change]) -> dict[str, str | None]:
        """Return the cursors to set in the transaction of some changes.

        A message that was asked about before it was added is known by the turn that is among the changes.
        """
        cursors: dict[str, str | None] = {}
        added = {each.after.position: each.after for each in changes if isinstance(each.after, Turn)}
        for position, (pack_input, pack, asked) in self._packs.items():
            turn = added.get(position)
            is_turn = turn is not None and query_from_message(turn.content) == pack_input.query
            entry = _build_entry(self._session, pack_input, pack, asked=asked or is_turn)
            cursors[_build_cursor(self._session, position)] = encode_entry(entry)
            text = json.dumps(pack.parts, ensure_ascii=False)
            cursors[_build_text_cursor(self._session, position)] = f"{format_time(entry.at)} {text}"
            if position % _PRUNE_INTERVAL == 0:
                cursors = {**_find_old_entries(store, pack_input.now), **cursors}
        return cursors

    def clear(self) -> None:
        """Drop the contexts, because they were logged or the session is being deleted."""
        self._packs.clear()


def _build_entry(session: str, pack_input: PackInput, pack: Pack, *, asked: bool) -> PromptLogEntry:
    return PromptLogEntry(
        session=session,
        position=pack_input.now_at,
        at=pack_input.now,
        sequence=pack_input.sequence,
        asked=asked,
        soft_tokens=pack.soft_tokens,
        hard_tokens=pack.hard_tokens,
        tokens=pack.diagnostics.tokens,
        cut=pack.cut,
        replayed_messages=len(pack.replay.messages),
        replayed_tokens=pack.replay.tokens,
        standing=tuple(hit.id for hit in pack.standing),
        lines=tuple(map(_build_line, pack.choices)),
    )


def _build_line(choice: CandidateDecision) -> PromptLogLine:
    hit = choice.hit
    is_selected = choice.verdict == "selected"
    return PromptLogLine(
        id=hit.id,
        type="record" if hit.record is not None else "turn" if hit.turn is not None else "paragraph",
        verdict=choice.verdict,
        score=round(hit.score, 3),
        tokens=choice.tokens,
        recent=choice.recent,
        shown_at=choice.shown_at,
        parts={name: round(value, 3) for name, value in hit.explanation.parts.items()} if is_selected else {},
    )


def _find_old_entries(store: Store, now: datetime) -> dict[str, None]:
    """Return the cursors of entries that are too old or too many."""
    stored = store.cursors(_PREFIX)
    times = {name: text.partition(" ")[0] for name, text in stored.items()}  # in UTC, so they sort as text
    newest = sorted(times, key=times.__getitem__, reverse=True)
    first = format_time(now - RETENTION)
    old = {name: None for number, name in enumerate(newest) if number >= MAX_ENTRIES or times[name] < first}
    kept = {_get_session(name) for name in newest if name not in old}
    texts = store.cursors(_TEXT_PREFIX) if old else {}
    gone = (
        name for name, text in texts.items() if text[: len(first)] < first or _get_session(name) not in kept
    )
    return {**old, **dict.fromkeys(gone)}


def find_session_entries(store: Store, session: str) -> dict[str, None]:
    """Return the cursors of all entries of a session, to be removed."""
    names = [*store.cursors(_build_prefix(session)), *store.cursors(f"{_TEXT_PREFIX}{session}:")]
    return {name: None for name in names if _get_session(name) == session}


def find_erased_entries(
    store: Store, ids: Collection[str], sessions: Collection[str], *, pages: bool
) -> dict[str, str | None]:
    """Return the cursors of entries that an erasure changes, each with its new text, or None to remove it.

    The exact texts of all prompts are removed, because any of them may quote what is erased.

    Args:
        store: The store.
        ids: Ids of erased values.
        sessions: Erased sessions.
        pages: Whether pages are erased. Ids of their paragraphs are made from their text.
    """
    changes: dict[str, str | None] = dict.fromkeys(store.cursors(_TEXT_PREFIX))
    for name, text in store.cursors(_PREFIX).items():
        session = _get_session(name)
        try:
            entry = None if session in sessions else decode_entry(session, text)
        except InvalidInput:
            entry = None
        after = None if entry is None else _drop_erased_lines(entry, ids, pages=pages)
        if after is None or after is not entry:
            changes[name] = None if after is None else encode_entry(after)
    return changes


def _drop_erased_lines(entry: PromptLogEntry, ids: Collection[str], *, pages: bool) -> PromptLogEntry:
    lines = tuple(
        line for line in entry.lines if line.id not in ids and not (pages and line.type == "paragraph")
    )
    standing = tuple(name for name in entry.standing if name not in ids)
    left = {*(line.id for line in lines), *standing}
    erased_ids = {*(line.id for line in entry.lines), *entry.standing} - left
    if not erased_ids:
        return entry
    return replace(entry, lines=lines, standing=standing, erased=entry.erased + len(erased_ids))


# -- stored form ---------------------------------------------------------------------------------------


def _build_prefix(session: str | None) -> str:
    return _PREFIX if session is None else f"{_PREFIX}{session}:"


def _build_cursor(session: str, position: int) -> str:
    return f"{_build_prefix(session)}{position % MAX_SESSION_ENTRIES}"


def _build_text_cursor(session: str, position: int) -> str:
    return f"{_TEXT_PREFIX}{session}:{position % MAX_SESSION_TEXTS}"


def _get_session(cursor: str) -> str:
    return cursor.partition(":")[2].rpartition(":")[0]


def encode_entry(entry: PromptLogEntry) -> str:
    """Return an entry as one line of text that begins with its time, for `decode_entry`."""
    values = to_json_object(entry)
    del values["session"], values["at"]
    values["lines"] = [
        list(line.values()) for line in values["lines"]
    ]  # without names, for a third of the size
    return f"{format_time(entry.at)} {json.dumps(values, separators=(',', ':'))}"


def decode_entry(session: str, text: str) -> PromptLogEntry:
    """Return a stored entry.

    Raises:
        InvalidInput: it is not an entry.
    """
    at, _, document = text.partition(" ")
    try:
        values = json.loads(document)
        lines = [dict(zip(_LINE_FIELDS, line, strict=True)) for line in values["lines"]]
        return from_json_object(PromptLogEntry, {**values, "session": session, "at": at, "lines": lines})
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"not an entry of the prompt log: {error}") from None
