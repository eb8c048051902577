"""Requests for an erasure and its report; what matches a request, and what remains of each match.

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

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from reverie.consolidation.values import SignalKind
from reverie.domain.change import JournalEntry, Operation, Subject, Value, get_subject
from reverie.domain.conversation import FORGOTTEN, ORIGIN, SIGNAL, SessionState, ToolCall, Turn
from reverie.domain.entry import SCOPE, Entry, build_session_namespace
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.headlines import LEFT_OUT, MERGED_FROM, PARTS_VERSION
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, build_session_source, parse_daily_note_day
from reverie.domain.provenance import SUMMARY_ORIGIN
from reverie.domain.record import NOTHING, ORIGINS, Record
from reverie.domain.scope import is_within, parse_session_scope, validate_scope
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.shingles import RUN, Phrase, PhraseMatcher, normalize_text, normalize_words
from reverie.domain.text.validation import validate_text

Fate = Literal["removed", "emptied", "cut", "past", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRequest:
    """Request for an erasure: by ids, session, scope or text.

    Attributes:
        ids: Ids of records, turns and paragraphs.
        session: The id of a session.
        scope: A scope with all that is below it; not the empty one.
        match: A text, compared without case and with white space folded.
        turns: Whether to erase turns that repeat it, too. Those that contain the text of `match` are erased anyway.
    """

    ids: tuple[str, ...] = ()
    session: str | None = None
    scope: str | None = None
    match: str | None = None
    turns: bool = False

    def __post_init__(self) -> None:
        for name in self.ids:
            if not isinstance(name, str):
                raise InvalidInput(f"id is {quote_value(name)}: pass a string")
        given = [bool(self.ids), *(each is not None for each in (self.session, self.scope, self.match))]
        if sum(given) != 1:
            problem = "ids, session, scope, match go alone" if any(given) else "nothing says what to forget"
            raise InvalidInput(f"{problem}: pass ids, or session=, or scope=, or match=")
        if self.scope is not None and not validate_scope(self.scope):
            raise InvalidInput("scope is empty, which is the shared scope: pass one such as 'user:alice'")
        if self.session is not None and not isinstance(self.session, str):
            raise InvalidInput(f"session is {quote_value(self.session)}: pass the id of a session")
        if self.match is not None:
            validate_text(self.match, name="match", longest=10_000)
            if not normalize_text(self.match):
                raise InvalidInput("match is blank: pass the text that shall be forgotten")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureItem:
    """One thing that contains, or once contained, the text to erase.

    Attributes:
        subject: `record`, `turn`, `session`, `page`, `paragraph`, `entry` (of working memory), `scope`,
            `cursor` (a note of Reverie's own), or `file` (not one of Reverie's).
        id: Its id; a page's or file's name; an entry's namespace and key.
        fate: `removed`; `emptied`, for a turn, which keeps its place; `cut`, if only lines or labels are
            removed; `past`, if only earlier versions are; `kept`.
        because: The reason.
        text: Its first words; empty once it has been erased.
    """

    subject: str
    id: str
    fate: Fate
    because: str
    text: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """Its subject and id."""
        return self.subject, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """Plan or result of an erasure.

    Attributes:
        going: What is erased, each item with its fate and reason.
        left: What stays although it contains the text, or was derived from it.
        done: Whether it was carried out; otherwise it is a plan.
        pending: What could not be finished; the next erasure, or `reverie doctor --fix`, finishes it.
        notes: What else a person should know: copies that are not reached, and where a database server keeps
            what was erased for a while, such as its write-ahead log.
    """

    going: tuple[ErasureItem, ...]
    left: tuple[ErasureItem, ...] = ()
    done: bool = False
    pending: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of erased things of each sort; those that lose only earlier versions under `past`."""
        return dict(Counter("past" if item.fate == "past" else item.subject for item in self.going))

    def to_dict(self) -> dict[str, Any]:
        """Return every field in a fixed order as JSON values."""
        return to_json_object(self, "done", "counts", "going", "left", "pending", "notes")


# -- criteria ---------------------------------------------------------------------------------------

# Tolerance: what a turn taught may be stored shortly before the turn itself, which is stored with the reply.
_BEFORE = timedelta(minutes=10)

Name = tuple[Subject | Literal["entry"], str]
"""Kind and id of a value. The id of an entry is its namespace, a line end and its key."""

_ID = defer_regex(r"\b[0-9a-f]{12}\b")
# Metadata with ids and states, as `key=value`.
_OWN_METADATA = defer_regex(
    f"({MERGED_FROM}|{LEFT_OUT}|{PARTS_VERSION})=[0-9a-f ]+|"
    f"({ORIGIN}|{SUMMARY_ORIGIN})=({'|'.join(ORIGINS)})|"
    f"{SIGNAL}=({'|'.join(get_args(SignalKind))})"
)
# Operations whose reason of an archiving the program writes.
_EXPLAINED: frozenset[Operation] = frozenset(
    {*("dream", "expire", "delete", "delete_file"), *("withdraw", "clear", "put", "forget")}
)
_FIRST_WORDS = 60
_LONGEST_LABEL = 200
# Fields of each kind of thing that say something beside its content.
_SIDE_FIELDS: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {
        Record: ("tags", "source", "references", "metadata", "item_key", "resolved_dates"),
        Turn: ("speaker", "metadata"),
        SessionState: ("metadata",),
        Paragraph: ("source",),
    }
)


class ErasureHit(NamedTuple):
    """What of a request a version of a thing, or a note about a change of it, has.

    Attributes:
        asked: Why it is erased regardless of its text; empty for no reason.
        has_piece: Whether it contains the requested text.
        phrases: The shingles that it contains.
        is_copy: Whether it contains all of a requested text, in other spelling.
        names_session: Whether a label names an erased session.
        has_name: Whether its name, or that of its session, page or scope, contains the requested text.
    """

    asked: str = ""
    has_piece: bool = False
    phrases: Collection[Phrase] = ()
    is_copy: bool = False
    names_session: bool = False
    has_name: bool = False

    @property
    def is_suspect(self) -> bool:
        """Whether the thing has to be decided about."""
        return bool(self.asked or self.has_piece or self.phrases or self.names_session)


@dataclass(slots=True)
class Thing:
    """Present and past versions of one thing, and the notes about its changes, with their times.

    Attributes:
        name: Its sort and id.
        now: The present version; None if it was removed.
        versions: The versions before and after each change, the oldest first.
        notes: What a person or a model wrote about its changes.
    """

    name: Name
    now: Value | Entry | None = None
    versions: list[tuple[datetime, Value]] = field(default_factory=list)
    notes: list[tuple[datetime, str]] = field(default_factory=list)

    def add_row(self, row: JournalEntry) -> None:
        """Add a change of it."""
        self.versions += ((row.at, value) for value in row.values)
        self.notes += ((row.at, note) for note in extract_notes(row))


@dataclass(frozen=True, kw_only=True)
class EraseQuery:
    """Criteria of one erasure.

    Attributes:
        phrases: The shingles, and the requested text, if any.
        sessions: The erased sessions.
        scope: The erased scope; None for none.
        said_at: For sessions and scopes, when each shingle first occurred in them.
        always: Shingles that count in however many things they are: a short requested text.
        turns: Whether turns that repeat it are erased, too.
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
    turns: bool = False
    names: frozenset[Name] = frozenset()
    texts: tuple[str, ...] = ()
    related: frozenset[str] = frozenset()
    gone: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def is_copy(self, text: str) -> bool:
        """Return whether a text contains all words of a requested one in their order."""
        present = f" {' '.join(normalize_words(text))} "
        return any(f" {words} " in present for words in self._words)

    @cached_property
    def _words(self) -> list[str]:
        return [words for text in self.texts if (words := " ".join(normalize_words(text)))]

    @property
    def is_of_ids(self) -> bool:
        """Whether things are requested by their ids."""
        return bool(self.names) and self.scope is None and not self.sessions

    @cached_property
    def labels(self) -> frozenset[str]:
        """The labels that name an erased session."""
        return frozenset(label for session in self.sessions for label in get_session_labels(session))

    def was_known(self, phrase: Phrase, at: datetime | None) -> bool:
        """Return whether a thing had a shingle at a time before an erased conversation said it."""
        said_at = self.said_at.get(phrase)
        return said_at is not None and at is not None and at < said_at - _BEFORE

    def examine(self, value: Value | Entry) -> ErasureHit:
        """Return what of the request a version of a thing has."""
        texts, sides = extract_texts(value, by_label=True), extract_side_texts(value)
        phrases = {phrase for text in (*texts, *sides) if text for phrase in self.phrases.find_phrases(text)}
        return ErasureHit(
            asked=self._explain(value),
            has_piece=any(map(self.phrases.has_piece, texts)) or any(map(self._has_side_piece, sides)),
            phrases=phrases,
            is_copy=bool(phrases) and any(map(self.is_copy, (*texts, *sides))),
            names_session=not self.labels.isdisjoint(sides),
            has_name=any(map(self.phrases.has_piece, _list_names(value))),
        )

    def examine_note(self, note: str) -> ErasureHit:
        """Return what of the request a note about a change has."""
        return ErasureHit(has_piece=self._has_side_piece(note), phrases=self.phrases.find_phrases(note))

    def examine_row(self, row: JournalEntry) -> list[ErasureHit]:
        """Return what of the request a change has: in each version, and in each note."""
        notes = map(self.examine_note, extract_notes(row)) if row.edit is not None else ()
        return [*map(self.examine, row.values), *notes]

    def _has_side_piece(self, text: str) -> bool:
        return has_side_piece(text, self.phrases)

    def _explain(self, value: Value | Entry) -> str:
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
        thing: The thing.
        item: The item of the report.
        is_reported: Whether a thing that stays is reported, because its present version matches.
        after: Its next version; None if it is removed.
        forgotten: Values with the erased content, for tombstones.
    """

    thing: Thing
    item: ErasureItem
    is_reported: bool
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
    names = [getattr(value, field, "") for field in ("scope", "session", "page")]
    return [*names, value.id] if isinstance(value, SessionState | Page) else names


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
        return has_side_piece(text, query) or bool(query.find_phrases(text)) or text in labels

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
        kept = {
            key: text
            for key, text in field.items()
            if _is_own_metadata(key, text) or not (bad(key) or bad(text))
        }
        return MappingProxyType(kept)
    return tuple(text for text in field if not bad(text))


# -- decisions --------------------------------------------------------------------------------------


class _Evidence(NamedTuple):
    """What of a request a thing has, in all of its versions.

    Attributes:
        asked: Why it is erased regardless of its text; empty for no reason.
        present: What the present version has.
        is_derived: Whether it may have been made from a requested thing.
        matcher: The text that it repeats.
        had_it: Whether an earlier version, or a note about a change, repeated it.
        versions: Earlier versions that match.
        labels: Labels to remove.
    """

    asked: str
    present: ErasureHit
    is_derived: bool
    matcher: PhraseMatcher
    had_it: bool
    versions: Sequence[Value]
    labels: Collection[str]


def decide(thing: Thing, query: EraseQuery) -> EraseDecision | None:
    """Decide about a thing; return None if it has nothing of the request."""
    found = _collect_evidence(thing, query)
    if found is None:
        return None
    fate, because, after, values = _judge(thing, query, found)
    forgotten = [
        replace(value, content="\n".join(found.matcher.cut(value.content)[1]))
        if isinstance(value, Page)
        else value
        for value in values
    ]
    shown = thing.now
    if fate == "past" or (isinstance(shown, Page) and forgotten):
        shown = forgotten[0] if forgotten else None
    subject, name = thing.name
    item = ErasureItem(
        subject=subject, id=name.replace("\n", " "), fate=fate, because=because, text=format_preview(shown)
    )
    is_reported = bool(found.present.phrases or found.present.has_piece)
    return EraseDecision(thing=thing, item=item, is_reported=is_reported, after=after, forgotten=forgotten)


def _collect_evidence(thing: Thing, query: EraseQuery) -> _Evidence | None:
    """Return what of a request a thing has; None for nothing."""
    (subject, name), is_removed = thing.name, thing.now is None
    present = ErasureHit() if thing.now is None else query.examine(thing.now)
    versions = [(at, value, query.examine(value)) for at, value in thing.versions]
    past = [(at, hit) for at, _, hit in versions]
    past += [(at, query.examine_note(note)) for at, note in thing.notes]
    hits = [*(hit for _, hit in past), present]
    has_name = is_removed and any(hit.has_name for hit in hits)
    if not (has_name or any(hit.is_suspect for hit in hits)):
        return None
    asked = next((hit.asked for hit in hits if hit.asked), "")
    has_label = any(hit.names_session for hit in hits)
    is_linked = name in query.related or subject in ("page", "session")
    is_derived = is_linked or bool(asked) or has_label or any(hit.is_copy for hit in hits)
    once_had: dict[Phrase, datetime] = {}
    for at, hit in past:
        once_had |= {phrase: min(at, once_had.get(phrase, at)) for phrase in hit.phrases}
    repeated = {
        phrase
        for phrase in {*present.phrases, *once_had}
        if phrase in query.always or (is_derived and not query.was_known(phrase, once_had.get(phrase)))
    }
    had_piece = any(hit.has_piece for _, hit in past)
    return _Evidence(
        asked=asked,
        present=present,
        is_derived=is_derived,
        matcher=PhraseMatcher.of(repeated, piece=query.phrases.piece),
        had_it=has_name or had_piece or has_label or not repeated.isdisjoint(once_had),
        versions=[value for _, value, hit in versions if hit.asked or hit.has_piece or hit.phrases],
        labels=query.labels if has_label else (),
    )


def _judge(
    thing: Thing, query: EraseQuery, found: _Evidence
) -> tuple[Fate, str, Value | None, Sequence[Value]]:
    """Return the fate of a thing, the reason, its next version, and the values that are forgotten."""
    now, asked = thing.now, found.asked
    present = None if isinstance(now, Entry) else now
    if foreign := _find_foreign_scope(thing, query.scope):
        return "kept", f"it belongs to {foreign!r}", present, ()
    withheld = thing.name[0] == "turn" and not query.turns and not asked
    matcher = replace(found.matcher, of_length=MappingProxyType({})) if withheld else found.matcher
    repeats = "it repeats it" if found.present.phrases else "it names the session"
    because = "it has the text" if found.present.has_piece else repeats
    if now is None:
        if asked or found.had_it:
            return "past", asked or "it was removed before", None, found.versions
    elif asked:
        forgotten = [*([] if present is None else [present]), *found.versions]
        if isinstance(now, Turn) and now.session not in query.sessions:
            return "emptied", asked, empty_turn(now), forgotten
        return "removed", asked, None, forgotten
    elif isinstance(now, Entry):
        if any(map(matcher.has_match, extract_texts(now, by_label=True))):
            return "removed", because, None, ()
    elif (after := _remove_all(thing, now, query, matcher, found.labels)) != now:
        has_lost = after is None or extract_texts(after, by_label=False) != extract_texts(now, by_label=False)
        fate: Fate = (
            "removed" if after is None else "emptied" if isinstance(now, Turn) and has_lost else "cut"
        )
        return fate, because, after, [*([now] if has_lost else []), *found.versions]
    elif found.had_it and not (withheld and found.present.phrases):
        return "past", "it once said so", now, found.versions
    stays = "it said so before" if found.is_derived else "it resembles it: forget it too if it should go"
    return "kept", "turns stay unless they are asked for" if withheld else stays, present, ()


def _find_foreign_scope(thing: Thing, scope: str | None) -> str:
    """Return the scope of a thing if another scope is erased; else an empty text."""
    values = [thing.now] if thing.now is not None else [value for _, value in thing.versions[-1:]]
    own = get_owning_scope(values[0]) if values else ""
    return "" if scope is None or not own or is_within(own, scope) else own


def _remove_all(
    thing: Thing, now: Value, query: EraseQuery, matcher: PhraseMatcher, labels: Collection[str]
) -> Value | None:
    """Return a thing without its matches, and without a reason of its archiving that has one."""
    after = remove_matches(now, matcher, labels=labels) if matcher or labels else now
    if isinstance(after, Record) and after.archive_reason:
        notes = [note for _, note in thing.notes if query.examine_note(note).is_suspect]
        if any(note in after.archive_reason for note in notes):
            after = replace(after, archive_reason="")
    return after


def get_name(value: Value | Entry) -> Name:
    """Return the sort and id of a thing."""
    if isinstance(value, Entry):
        return "entry", f"{value.namespace}\n{value.key}"
    return get_subject(value), value.id
