"""Matching of content against an erasure request, and what remains of each match.

Pure functions: `reverie.admin.erasure.eraser` reads and erases. The rules:

* What is requested by id or session, or contains the requested text, is erased. Reverie's own words (the ids of
  other things, operations and references of changes, the state in a record's metadata) do not count as text.
* What has all of it in other spelling is a copy. A record or note that is a copy, was made from it, or is what it was
  made from, and shares five consecutive words (a shingle) with it, is erased. Of a page or summary, which a model
  writes from everything, only the lines are removed, of a record that has it in labels or metadata only those.
* Anything else that shares five words with it merely resembles it: it stays, and the report lists it.
* A thing that contained it only in an earlier version keeps its content and loses its earlier versions.
* What existed before an erased conversation repeated it was not learned from it, and stays.
* A removed thing whose name contains the requested text loses its journal. The name of a thing that is there
  cannot be changed, so it stays and is reported.
* Of an erased scope, everything in and below it is erased, and what was promoted from there. What belongs to
  another scope stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, get_args

from reverie.admin.erasure.request import ErasureItem, Fate
from reverie.consolidation.planning.material import SignalKind
from reverie.domain.change import JournalEntry, Operation, Subject, Value, get_subject
from reverie.domain.conversation import FORGOTTEN, ORIGIN, SIGNAL, SessionState, ToolCall, Turn
from reverie.domain.entry import SCOPE, Entry, build_session_namespace
from reverie.domain.headlines import LEFT_OUT, MERGED_FROM, PARTS_VERSION
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, build_session_source, parse_daily_note_day
from reverie.domain.provenance import SUMMARY_ORIGIN
from reverie.domain.record import (
    NOTHING,
    ORIGINS,
    Record,
)
from reverie.domain.scope import is_within, parse_session_scope
from reverie.domain.text.shingles import RUN, Phrase, PhraseMatcher, normalize_words

_BEFORE = timedelta(minutes=10)
"""Tolerance: what a turn taught may be stored shortly before the turn itself, which is stored with the reply."""

Name = tuple[Subject | Literal["entry"], str]
"""Kind and id of a value. The id of an entry is its namespace, a line end and its key."""

_ID = defer_regex(r"\b[0-9a-f]{12}\b")
_OWN_METADATA = defer_regex(
    f"({MERGED_FROM}|{LEFT_OUT}|{PARTS_VERSION})=[0-9a-f ]+|"
    f"({ORIGIN}|{SUMMARY_ORIGIN})=({'|'.join(ORIGINS)})|"
    f"{SIGNAL}=({'|'.join(get_args(SignalKind))})"
)
"""Metadata with ids and states, as `key=value`."""
_EXPLAINED: frozenset[Operation] = frozenset(
    {
        "dream",
        "expire",
        "delete",
        "delete_file",
        "withdraw",
        "clear",
        "put",
        "forget",
    }
)
"""Operations whose reason of an archiving the program writes."""
_CALL_PREFIXES = frozenset({"call", "fc", "toolu"})
_FIRST_WORDS = 60
_LONGEST_LABEL = 200


_SIDE_FIELDS: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        Record: ("tags", "source", "references", "metadata", "item_key", "resolved_dates"),
        Turn: ("speaker", "metadata"),
        SessionState: ("metadata",),
        Paragraph: ("source",),
    }
)
"""Fields of each kind of thing that say something beside its content."""


@dataclass(slots=True)
class Match:
    """Present and past versions of one thing, and what of the request was found in them.

    Attributes:
        name: Its sort and id.
        now: The present version; None if it was removed.
        asked: Why it is erased regardless of its text; empty for no reason.
        has_piece: Whether the present version contains the requested text.
        is_copy: Whether a version contains all of a requested text, in other spelling.
        had_piece: Whether an earlier version, or a note about a change, contained it.
        had_name: Whether its name, or that of its session, page or scope, contains it.
        now_has: Shingles in the present version.
        once_had: Shingles in any version, with the time of the change that introduced each.
        versions: Earlier versions that match.
        notes: Notes about its changes that match.
        names_session: Whether a label names an erased session.
        belongs_to: Its scope; empty for the shared scope.
    """

    name: Name
    now: Value | Entry | None = None
    asked: str = ""
    has_piece: bool = False
    is_copy: bool = False
    had_piece: bool = False
    had_name: bool = False
    now_has: set[Phrase] = field(default_factory=set)
    once_had: dict[Phrase, datetime] = field(default_factory=dict)
    versions: list[Value] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)
    names_session: bool = False
    belongs_to: str = ""

    @property
    def is_meant(self) -> bool:
        """Whether it is requested, by itself or by its text."""
        return bool(self.asked or self.has_piece or self.had_piece or self.is_copy)

    @property
    def is_suspect(self) -> bool:
        """Whether the thing has to be decided about."""
        return bool(
            self.asked
            or self.has_piece
            or self.had_piece
            or self.now_has
            or self.once_had
            or self.names_session
        )


@dataclass(frozen=True, kw_only=True)
class EraseQuery:
    """Criteria of one erasure.

    Attributes:
        phrases: The shingles, and the requested text, if any.
        sessions: The erased sessions.
        scope: The erased scope; None for none.
        said_at: For sessions and scopes, when each shingle first occurred in them.
        always: Shingles that count in however many things they are: a short requested text.
        turns: As in `EraseRequest`.
        names: The sort and id of each thing requested by its id.
        texts: The contents of what is requested by its id, the latest version first.
        related: Ids of the things that were made from a requested one, or from which one was made, and of copies.
        gone: Ids of the turns and records that are erased. For the answer to an erased turn, the text of that turn,
            which a note of both has to repeat; empty for the others.
    """

    phrases: PhraseMatcher
    sessions: frozenset[str] = frozenset()
    scope: str | None = None
    said_at: Mapping[Phrase, datetime] = field(default_factory=lambda: MappingProxyType({}))
    always: frozenset[Phrase] = frozenset()
    turns: bool | None = None
    names: frozenset[Name] = frozenset()
    texts: tuple[str, ...] = ()
    related: frozenset[str] = frozenset()
    gone: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def is_copy(self, text: str) -> bool:
        """Return whether a text contains all words of a requested one in their order."""
        present = f" {' '.join(normalize_words(text))} "
        return any(f" {' '.join(words)} " in present for words in self._words)

    @cached_property
    def _words(self) -> list[list[str]]:
        return [words for words in map(normalize_words, self.texts) if words]

    @property
    def is_of_ids(self) -> bool:
        """Whether things are requested by their ids."""
        return bool(self.names) and self.scope is None and not self.sessions

    @cached_property
    def labels(self) -> frozenset[str]:
        """Return the labels that name an erased session."""
        return frozenset(label for session in self.sessions for label in get_session_labels(session))

    def explain(self, value: Value | Entry) -> str:
        """Return why a thing is erased regardless of its text; empty for no reason."""
        if isinstance(value, Paragraph) and value.source in self.labels:
            return "written from it"
        if isinstance(value, Record) and ("record", value.promoted_from) in self.names:
            return "copied from it"
        if isinstance(value, Record) and not self.gone.keys().isdisjoint(value.parts):
            return "a headline over it"
        if isinstance(value, Paragraph) and self._is_note(value):
            return "written from a turn that goes"
        own = get_name(value) in self.names
        if self.scope is not None and not isinstance(value, Paragraph | Page):
            own = own or is_within(get_owning_scope(value), self.scope)
        return "asked for" if own or get_session(value) in self.sessions else ""

    def _is_note(self, value: Paragraph) -> bool:
        """Return whether a paragraph was written from an erased turn."""
        text = self.gone.get(value.source)
        # A line of a daily note repeats the turn; a paragraph of `HISTORY.md` is about a whole conversation.
        if text is None or not (self.sessions or parse_daily_note_day(value.page)):
            return False
        beginning = PhraseMatcher.of([tuple(normalize_words(text)[:RUN])])
        return not text or bool(beginning.find_phrases(value.content))


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseDecision:
    """Decision about one thing.

    Attributes:
        match: The match.
        item: The item of the report.
        after: Its next version; None if it is removed.
        forgotten: Values with the erased content, for tombstones.
    """

    match: Match
    item: ErasureItem
    after: Value | None = None
    forgotten: Sequence[Value] = ()


# -- texts of a value -------------------------------------------------------------------------------


def extract_texts(value: Value | Entry, *, by_label: bool) -> list[str]:
    """Return the texts that count as the content of a thing.

    Args:
        by_label: Whether a record's tags and category count, as they do for a requested text.
    """
    match value:
        case Record():
            labels = [*value.tags, value.category or ""] if by_label else []
            return [value.content, *labels]
        case Turn():
            calls = [text for call in value.tool_calls for text in (call.name, call.arguments)]
            return [value.content, *calls]
        case SessionState():
            return [value.summary]
        case Entry():
            return [value.key, value.data, *value.tags, value.category or ""]
        case _:
            return [value.content]


def extract_side_texts(value: Value | Entry) -> list[str]:
    """Return the texts beside the content of a thing, which can be removed alone."""
    texts: list[str] = []
    for name in _SIDE_FIELDS.get(type(value), ()):
        field: str | tuple[str, ...] | Mapping[str, str] = getattr(value, name)
        if isinstance(field, Mapping):
            texts += [text for pair in field.items() if not _is_own_metadata(*pair) for text in pair]
        else:
            texts += [field] if isinstance(field, str) else field
    return texts


def extract_notes(row: JournalEntry) -> list[str]:
    """Return a person's or a model's words about a change: its note, and the reason of an archiving.

    The program writes the reason of its own operations: only the words after a colon are somebody's.
    """
    before, after = row.before, row.after
    reason = after.archive_reason if isinstance(after, Record) else ""
    if row.operation == "undo" or (isinstance(before, Record) and before.archive_reason == reason):
        reason = ""
    if row.operation in _EXPLAINED:
        reason = reason.partition(": ")[2]
    return list(filter(None, dict.fromkeys((row.note, reason))))


def _is_own_metadata(key: str, text: str) -> bool:
    return _OWN_METADATA.fullmatch(f"{key}={text}") is not None


def has_side_piece(text: str, phrases: PhraseMatcher) -> bool:
    """Whether a text beside the content has the requested text, other than as a part of an id."""
    return phrases.has_piece(_ID.sub(lambda name: name[0] if name[0] == phrases.piece else " ", text))


def has_call_id(value: Value | Entry, phrases: PhraseMatcher) -> bool:
    """Whether the id of a tool call in a turn has the requested text as whole words.

    Such ids are random: a part of a word means nothing, nor does the word that providers begin them with.
    """
    if not isinstance(value, Turn) or phrases.piece in _CALL_PREFIXES:
        return False
    wanted = normalize_words(phrases.piece)
    ids = (value.tool_call_id, *(call.id for call in value.tool_calls))
    return bool(wanted) and any(
        f" {' '.join(wanted)} " in f" {' '.join(normalize_words(each))} " for each in ids
    )


def has_side_match(text: str, phrases: PhraseMatcher) -> bool:
    """Whether a text beside the content has the requested text or one of the shingles."""
    return has_side_piece(text, phrases) or bool(phrases.find_phrases(text))


def get_session_labels(session: str) -> tuple[str, ...]:
    """Return the labels that name a session, such as a record's source."""
    names = (session, f"session:{session}"[:_LONGEST_LABEL], f"session/{session}"[:_LONGEST_LABEL])
    return (*names, build_session_source(session, from_tools=True))


def format_preview(value: Value | Entry | None) -> str:
    """Return the beginning of a thing's text, on one line."""
    if value is None:
        return ""
    content = value.data if isinstance(value, Entry) else extract_texts(value, by_label=False)[0]
    text = " ".join(content[: 4 * _FIRST_WORDS].split())
    return text if len(text) <= _FIRST_WORDS else f"{text[: _FIRST_WORDS - 1].rstrip()}…"


def get_entry_session(entry: Entry) -> str:
    """Return the session of a working-memory entry; empty for a scratchpad."""
    own = build_session_namespace("")
    return entry.namespace[len(own) :] if entry.namespace.startswith(own) else ""


def get_session(value: Value | Entry) -> str | None:
    """Return the session that a thing is or belongs to; empty for a scratchpad's entry, None for other things."""
    match value:
        case Entry():
            return get_entry_session(value)
        case Turn():
            return value.session
        case SessionState():
            return value.id
        case _:
            return None


def get_owning_scope(value: Value | Entry) -> str:
    """Return the scope of a thing; empty for the shared scope."""
    if isinstance(value, Entry):
        scratchpad = value.namespace.startswith(SCOPE)
        return value.namespace[len(SCOPE) :] if scratchpad else parse_session_scope(get_entry_session(value))
    return value.scope if isinstance(value, Record | Turn | SessionState) else ""


def _list_names(value: Value | Entry) -> list[str]:
    """Return the names of a thing and of what it belongs to, which are no content."""
    match value:
        case Turn():
            return [value.session, value.scope]
        case SessionState():
            return [value.id, value.scope]
        case Page():
            return [value.name]
        case Paragraph():
            return [value.page]
        case Record():
            return [value.scope]
        case Entry():
            return []


# -- collection of matches ------------------------------------------------------------------------------


class MatchCollector:
    """Collection of everything that may match a request.

    Attributes:
        query: The query, to which more can be added.
        matches: Matches by the name of the thing.
    """

    def __init__(self, query: EraseQuery) -> None:
        """Collect matches of a query."""
        self.matches: dict[Name, Match] = {}
        self.query = query

    def add_row(self, row: JournalEntry) -> None:
        """Examine a journal entry and its note."""
        if row.edit is None:
            return
        for value in row.values:
            self._add_value(value, at=row.at)
        for note in extract_notes(row):
            if has_side_match(note, self.query.phrases):
                name = get_name(row.edit.value)
                match = self.matches.setdefault(name, Match(name=name))
                match.had_piece |= has_side_piece(note, self.query.phrases)
                match.notes.add(note)
                for phrase in self.query.phrases.find_phrases(note):
                    match.once_had.setdefault(phrase, row.at)

    def add_value(self, value: Value | Entry) -> None:
        """Examine the present version of a thing."""
        match = self._add_value(value, at=None)
        if match is not None:
            match.now = value

    def _add_value(self, value: Value | Entry, *, at: datetime | None) -> Match | None:
        name = get_name(value)
        asked = self.query.explain(value)
        piece, phrases = self._find_hits(value)
        labelled = not self.query.labels.isdisjoint(extract_side_texts(value))
        named = any(map(self.query.phrases.has_piece, _list_names(value))) or has_call_id(
            value, self.query.phrases
        )
        match = self.matches.get(name)
        if match is None:
            match = Match(name=name)
            if asked or piece or phrases or labelled or named:
                self.matches[name] = match
        match.asked = match.asked or asked
        match.names_session |= labelled
        match.had_name |= named
        match.belongs_to = get_owning_scope(value)
        if phrases and not match.is_copy:
            texts = (*extract_texts(value, by_label=True), *extract_side_texts(value))
            match.is_copy = any(map(self.query.is_copy, texts))
        if at is None:
            match.has_piece, match.now_has = piece, phrases
            return match
        match.had_piece |= piece
        for phrase in phrases:
            match.once_had[phrase] = min(at, match.once_had.get(phrase, at))
        if (asked or piece or phrases) and not isinstance(value, Entry) and value not in match.versions:
            match.versions.append(value)
        return match

    def _find_hits(self, value: Value | Entry) -> tuple[bool, set[Phrase]]:
        phrases, texts, sides = (
            self.query.phrases,
            extract_texts(value, by_label=True),
            extract_side_texts(value),
        )
        hits = {phrase for text in (*texts, *sides) if text for phrase in phrases.find_phrases(text)}
        piece = any(map(phrases.has_piece, texts)) or any(has_side_piece(text, phrases) for text in sides)
        return piece, hits


# -- removal of matches ------------------------------------------------------------------------------


def empty_turn(turn: Turn) -> Turn:
    """Return the turn without content; tool calls keep their ids, which their results refer to."""
    calls = tuple(ToolCall(id=call.id, name="forgotten") for call in turn.tool_calls)
    return replace(turn, content=FORGOTTEN, speaker="", tool_calls=calls, metadata=NOTHING)


def remove_matches(value: Value, query: PhraseMatcher, *, labels: Collection[str] = ()) -> Value | None:
    """Return what is left of a thing without its matches; None if nothing is.

    Args:
        query: The criteria for its content.
        labels: Labels to remove, such as the names of a session.
    """

    def bad(text: str) -> bool:
        return has_side_match(text, query) or text in labels

    if isinstance(value, Page):
        return replace(value, content=query.cut(value.content)[0])
    if isinstance(value, SessionState):
        value = replace(value, summary=query.cut(value.summary)[0])
    elif any(query.has_match(text) for text in extract_texts(value, by_label=bool(query.piece))):
        return empty_turn(value) if isinstance(value, Turn) else None
    sides = {name: _drop_texts(getattr(value, name), bad) for name in _SIDE_FIELDS[type(value)]}
    return replace(value, **sides)


def _drop_texts(field: Any, bad: Callable[[str], bool]) -> Any:
    """Return a text, texts or a mapping of texts without the bad ones."""
    if isinstance(field, str):
        return "" if bad(field) else field
    if isinstance(field, Mapping):
        return MappingProxyType(
            {
                key: text
                for key, text in field.items()
                if _is_own_metadata(key, text) or not (bad(key) or bad(text))
            }
        )
    return tuple(text for text in field if not bad(text))


# -- decisions --------------------------------------------------------------------------------------


def decide(match: Match, query: EraseQuery) -> EraseDecision:
    """Decide about a thing."""
    if query.scope is not None and match.belongs_to and not is_within(match.belongs_to, query.scope):
        after = None if isinstance(match.now, Entry) else match.now
        return _build_decision(match, "kept", f"it belongs to {match.belongs_to!r}", after)
    if query.turns is False and match.name[0] == "turn" and match.name not in query.names:
        return _decide_kept(match, True, query)
    piece = query.phrases.piece if match.has_piece or match.had_piece else ""
    repeated = {
        phrase for phrase in {*match.now_has, *match.once_had} if _is_repetition(match, phrase, query)
    }
    withheld = match.name[0] == "turn" and not query.turns and not match.asked
    effective = PhraseMatcher.of(() if withheld else repeated, piece=piece)
    if match.now is None:
        is_erased = bool(match.asked or match.had_piece or match.had_name or match.names_session or repeated)
        return (
            _decide_past(match, PhraseMatcher.of(repeated, piece=piece))
            if is_erased
            else _decide_kept(match, withheld, query)
        )
    if match.asked:
        return _decide_asked(match, query)
    if isinstance(match.now, Entry):
        hit = any(map(effective.has_match, extract_texts(match.now, by_label=True)))
        return (
            _build_decision(match, "removed", _explain_match(match), None)
            if hit
            else _decide_kept(match, withheld, query)
        )
    labels = query.labels if match.names_session else frozenset[str]()
    after = remove_matches(match.now, effective, labels=labels) if effective or labels else match.now
    if isinstance(after, Record) and any(note in after.archive_reason for note in match.notes):
        after = replace(after, archive_reason="")
    if after != match.now:
        return _decide_changed(match, after, effective)
    left = withheld and bool(match.now_has)
    once = match.had_piece or match.names_session or not repeated.isdisjoint(match.once_had)
    if once and not left:
        return _decide_past(match, PhraseMatcher.of(repeated, piece=piece))
    return _decide_kept(match, withheld, query)


def _is_repetition(match: Match, phrase: Phrase, query: EraseQuery) -> bool:
    """Whether a shingle makes a thing a repetition of the text to erase."""
    if phrase in query.always:
        return True
    in_request, in_thing = query.said_at.get(phrase), match.once_had.get(phrase)
    was_there_before = in_request is not None and in_thing is not None and in_thing < in_request - _BEFORE
    return _is_derived(match, query) and not was_there_before


def _is_derived(match: Match, query: EraseQuery) -> bool:
    """Whether a thing may have been made from a requested one."""
    subject, name = match.name
    return (
        name in query.related
        or bool(match.asked)
        or match.is_copy
        or match.names_session
        or subject in ("page", "session")
    )


def _decide_asked(match: Match, query: EraseQuery) -> EraseDecision:
    now = match.now
    keeps_place = isinstance(now, Turn) and now.session not in query.sessions
    after = empty_turn(now) if keeps_place and isinstance(now, Turn) else None
    present = [] if now is None or isinstance(now, Entry) else [now]
    return _build_decision(
        match,
        "emptied" if keeps_place else "removed",
        match.asked,
        after,
        forgotten=[*present, *match.versions],
    )


def _decide_changed(match: Match, after: Value | None, effective: PhraseMatcher) -> EraseDecision:
    now = match.now
    assert now is not None
    assert not isinstance(now, Entry)
    fate: Fate = "removed" if after is None else "cut"
    forgotten: list[Value] = [now]
    if isinstance(now, Turn) and isinstance(after, Turn) and after.content != now.content:
        fate = "emptied"
    elif isinstance(now, Page):
        forgotten = _extract_forgotten([now], effective)
    elif after is not None and not isinstance(now, SessionState):
        forgotten = []  # only labels went: what it says stays
    return _build_decision(
        match,
        fate,
        _explain_match(match),
        after,
        forgotten=[*forgotten, *_extract_forgotten(match.versions, effective)],
    )


def _decide_past(match: Match, effective: PhraseMatcher) -> EraseDecision:
    after = None if isinstance(match.now, Entry) else match.now
    because = match.asked or ("it once said so" if after is not None else "it was removed before")
    return _build_decision(
        match, "past", because, after, forgotten=_extract_forgotten(match.versions, effective)
    )


def _decide_kept(match: Match, withheld: bool, query: EraseQuery) -> EraseDecision:
    after = None if isinstance(match.now, Entry) else match.now
    because = "it said so before"
    if withheld:
        because = "turns stay unless they are asked for"
    elif not _is_derived(match, query):
        because = "it resembles it: forget it too if it should go"
    return _build_decision(match, "kept", because, after)


def _build_decision(
    match: Match, fate: Fate, because: str, after: Value | None, *, forgotten: Sequence[Value] = ()
) -> EraseDecision:
    subject, name = match.name
    shown = match.now
    if fate == "past" or (isinstance(shown, Page) and forgotten):
        shown = forgotten[0] if forgotten else None
    item = ErasureItem(
        subject=subject, id=name.replace("\n", " "), fate=fate, because=because, text=format_preview(shown)
    )
    return EraseDecision(match=match, item=item, after=after, forgotten=forgotten)


def _explain_match(match: Match) -> str:
    if match.has_piece:
        return "it has the text"
    return "it repeats it" if match.now_has else "it names the session"


def _extract_forgotten(values: Iterable[Value], effective: PhraseMatcher) -> list[Value]:
    """Return values with the erased content; of pages the matching lines."""
    return [
        replace(value, content="\n".join(effective.cut(value.content)[1]))
        if isinstance(value, Page)
        else value
        for value in values
    ]


def get_name(value: Value | Entry) -> Name:
    """Return the sort and id of a thing."""
    if isinstance(value, Entry):
        return "entry", f"{value.namespace}\n{value.key}"
    return get_subject(value), value.id
