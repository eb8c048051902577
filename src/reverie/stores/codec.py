"""Conversion between values and rows or documents of a database, the same for all stores in SQL.

Times are whole microseconds since 1970, flags 0 or 1, lists and mappings JSON text. A document is a JSON object of
the same columns, without those that are NULL. In the journal of SQLite it is without those that hold what they most
often do, too: they would take half of its room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reverie.domain.change import Change, JournalEntry, Subject, Value
from reverie.domain.conversation import ROLES, SESSION_STATUSES, SessionState, ToolCall, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import StoreCorrupt
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import KINDS, LAYERS, NOTHING, ORIGINS, Record
from reverie.domain.text.timestamps import from_microseconds, to_microseconds

Row = tuple[Any, ...]

T = TypeVar("T", Record, Turn, SessionState, Page, Paragraph)

ANALYSIS_COLUMNS = ("length", "voice", "cues", "dates", "terms")
"""Columns of an analysis. `voice` is the speaker in lower case."""

_KINDS, _LAYERS, _ORIGINS = frozenset(KINDS), frozenset(LAYERS), frozenset(ORIGINS)
_ROLES, _STATUSES = frozenset(ROLES), frozenset(SESSION_STATUSES)
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
"""Encoder of all JSON in this module."""


class UnreadableRow(Exception):
    """A row is not what was written. The message says how, and never quotes content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCodec(Generic[T]):
    """A table of things with a history.

    Attributes:
        subject: Which kind of thing it keeps.
        name: Its name in SQL.
        columns: The columns of the value itself; `id` is the first.
        json: The last of them, which hold JSON text.
        encode: A value to these columns.
        decode: These columns to a value; raises `UnreadableRow`.
        source: What to select `selected` from.
        selected: The columns as SQL selects them.
        analysed: Whether the columns of the analysis stand beside them.
        usual: What columns hold that the journal leaves out. Part of the format: never to be changed.
        copied: Columns that the journal leaves out where they hold the same as another one.
        plain: The columns that are not JSON.
        nesting: How a document ends with those that are.
    """

    subject: Subject
    name: str
    columns: tuple[str, ...]
    json: tuple[str, ...]
    encode: Callable[[T], Row]
    decode: Callable[[Sequence[Any]], T]
    source: str
    selected: str
    analysed: bool
    usual: Mapping[str, Any] = field(default_factory=dict)
    copied: Mapping[str, str] = field(default_factory=dict)
    plain: tuple[str, ...] = field(init=False)
    nesting: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", self.columns[: len(self.columns) - len(self.json)])
        nested = "".join(f',"{name}":%s' for name in self.json)
        object.__setattr__(self, "nesting", f"%s{nested}}}")


def encode_analyzed_text(analysis: AnalyzedText) -> Row:
    """Return an analysis as its columns."""
    return analysis.length, analysis.speaker, analysis.cues, analysis.dates, analysis.terms


def to_document(table: TableCodec[Any], row: Sequence[Any]) -> str:
    """Return a row as a document. Columns that are JSON already come last and are not parsed."""
    plain = table.plain
    document = to_json({name: value for name, value in zip(plain, row, strict=False) if value is not None})
    return table.nesting % (document[:-1], *row[len(plain) :])


def to_short_document(table: TableCodec[Any], row: Sequence[Any]) -> str:
    """Return a row as a document without the columns that hold what they most often do."""
    columns = dict(zip(table.columns, row, strict=True))
    left_out = {**table.usual, **{name: columns[other] for name, other in table.copied.items()}}
    kept = {
        name: value
        for name, value in columns.items()
        if value is not None and (name not in left_out or value != left_out[name])
    }
    nested = [f',"{name}":{kept.pop(name)}' for name in table.json if name in kept]
    return f"{to_json(kept)[:-1]}{''.join(nested)}}}"


def from_document(table: TableCodec[T], document: str) -> T:
    """Return the value that `to_document` or `to_short_document` wrote; raise `UnreadableRow`."""
    try:
        columns = json.loads(document)
        left_out = {name: columns.get(other) for name, other in table.copied.items()}
        columns = {**table.usual, **left_out, **columns}
        row = [columns.get(name) for name in table.columns]
    except (ValueError, AttributeError, RecursionError, TypeError):
        raise UnreadableRow("its JSON cannot be read") from None
    return table.decode(row)


def lengthen_document(table: TableCodec[Any], document: str) -> str:
    """Return a document with what `to_short_document` left out; one that has all of it as it is."""
    try:
        if set(json.loads(document)).issuperset((*table.usual, *table.copied)):
            return document
        return to_document(table, table.encode(from_document(table, document)))
    except (UnreadableRow, ValueError, RecursionError, TypeError):
        return document


def shorten_document(table: TableCodec[Any], document: str) -> str:
    """Return a document as the journal of SQLite has it; one that `lengthen_document` would not restore as it is."""
    try:
        short = to_short_document(table, table.encode(from_document(table, document)))
    except UnreadableRow:
        return document
    return short if lengthen_document(table, short) == document else document


# -- records -------------------------------------------------------------------------------------------

_RECORD_COLUMNS = (
    "id", "scope", "kind", "layer", "origin", "category", "pinned", "confidence", "importance",
    "created_at", "updated_at", "last_seen_at", "seen_count", "valid_from", "valid_to", "expires_at",
    "archived_at", "content", "source", "archive_reason", "parts", "tags", "refs", "metadata",
)  # fmt: skip


def _encode_record(record: Record) -> Row:
    return (
        record.id,
        record.scope,
        record.kind,
        record.layer,
        record.origin,
        record.category,
        int(record.pinned),
        float(record.confidence),
        float(record.importance),
        to_microseconds(record.created_at),
        to_microseconds(record.updated_at),
        to_microseconds(record.last_seen_at),
        record.seen_count,
        _count(record.valid_from),
        _count(record.valid_to),
        _count(record.expires_at),
        _count(record.archived_at),
        record.content,
        record.source,
        record.archive_reason,
        " ".join(record.parts) or None,
        _list(record.tags) if record.tags else "[]",
        _list(record.references) if record.references else "[]",
        to_json(dict(record.metadata)) if record.metadata else "{}",
    )


def _decode_record(row: Sequence[Any]) -> Record:
    (
        name, scope, kind, layer, origin, category, pinned, confidence, importance,
        created_at, updated_at, last_seen_at, seen_count, valid_from, valid_to, expires_at,
        archived_at, content, source, archive_reason, parts, tags, refs, metadata,
    ) = row  # fmt: skip
    if not (str is type(name) is type(scope) is type(content) is type(source) is type(archive_reason)):
        raise UnreadableRow("a text is not text")
    if not (parts is None or type(parts) is str):
        raise UnreadableRow("its parts are not text")
    if kind not in _KINDS or layer not in _LAYERS or origin not in _ORIGINS:
        raise UnreadableRow("its kind, layer or origin is unknown")
    if not (category is None or type(category) is str):
        raise UnreadableRow("its category is not text")
    if not (float is type(confidence) is type(importance) and 0 <= confidence <= 1 and 0 <= importance <= 1):
        raise UnreadableRow("its confidence or importance is not a number from 0 to 1")
    if type(seen_count) is not int or pinned not in (0, 1):
        raise UnreadableRow("its count or flag is not a number")
    return Record(
        id=name,
        content=content,
        created_at=decode_moment(created_at),
        updated_at=decode_moment(updated_at),
        last_seen_at=decode_moment(last_seen_at),
        category=category,
        kind=kind,
        layer=layer,
        tags=_decode_texts(tags),
        confidence=confidence,
        importance=importance,
        source=source,
        references=_decode_texts(refs),
        origin=origin,
        scope=scope,
        pinned=pinned == 1,
        seen_count=seen_count,
        valid_from=None if valid_from is None else decode_moment(valid_from),
        valid_to=None if valid_to is None else decode_moment(valid_to),
        expires_at=None if expires_at is None else decode_moment(expires_at),
        metadata=_decode_metadata(metadata),
        archived_at=None if archived_at is None else decode_moment(archived_at),
        archive_reason=archive_reason,
        parts=() if parts is None else tuple(parts.split()),
    )


RECORDS: TableCodec[Record] = TableCodec(
    subject="record",
    name="records",
    columns=_RECORD_COLUMNS,
    json=("tags", "refs", "metadata"),
    encode=_encode_record,
    decode=_decode_record,
    source="records AS it",
    selected=", ".join(f"it.{name}" for name in _RECORD_COLUMNS),
    analysed=True,
    usual=MappingProxyType(
        {
            "scope": "",
            "kind": "fact",
            "layer": "semantic",
            "origin": "owner",
            "pinned": 0,
            "confidence": 0.8,
            "importance": 0.5,
            "seen_count": 1,
            "source": "",
            "archive_reason": "",
            "tags": "[]",
            "refs": "[]",
            "metadata": "{}",
        }
    ),
    copied=MappingProxyType({"updated_at": "created_at", "last_seen_at": "created_at"}),
)


# -- turns and sessions --------------------------------------------------------------------------------

_TURN_COLUMNS = (
    "id", "session", "position", "role", "at", "scope", "speaker", "content", "tool_call_id",
    "tool_calls", "metadata",
)  # fmt: skip


def _encode_turn(turn: Turn) -> Row:
    return (
        turn.id,
        turn.session,
        turn.position,
        turn.role,
        to_microseconds(turn.at),
        turn.scope,
        turn.speaker,
        turn.content,
        turn.tool_call_id,
        to_json([[call.id, call.name, call.arguments] for call in turn.tool_calls])
        if turn.tool_calls
        else "[]",
        to_json(dict(turn.metadata)) if turn.metadata else "{}",
    )


def _decode_turn(row: Sequence[Any]) -> Turn:
    name, session, position, role, at, scope, speaker, content, call_id, calls, metadata = row
    if not (
        str is type(name) is type(session) is type(scope) is type(speaker) is type(content) is type(call_id)
    ):
        raise UnreadableRow("a text is not text")
    if role not in _ROLES or type(position) is not int:
        raise UnreadableRow("its role is unknown or its position is no number")
    return Turn(
        id=name,
        session=session,
        position=position,
        role=role,
        content=content,
        at=decode_moment(at),
        speaker=speaker,
        tool_calls=_decode_tool_calls(calls),
        tool_call_id=call_id,
        metadata=_decode_metadata(metadata),
        scope=scope,
    )


def count_positions(last: Any, session: str) -> int:
    """Return the number of positions in a session; raise `StoreCorrupt` if the last one is no number."""
    if last is None:
        return 0
    if type(last) is not int:
        raise StoreCorrupt(
            f"a turn of session {session!r} has a position that is no number: run `reverie doctor --fix`"
        )
    return last + 1


TURNS: TableCodec[Turn] = TableCodec(
    subject="turn",
    name="turns",
    columns=_TURN_COLUMNS,
    json=("tool_calls", "metadata"),
    encode=_encode_turn,
    decode=_decode_turn,
    source="turns AS it JOIN sessions ON sessions.key = it.session",
    selected=", ".join("sessions.id" if name == "session" else f"it.{name}" for name in _TURN_COLUMNS),
    analysed=True,
    usual=MappingProxyType(
        {"scope": "", "speaker": "", "tool_call_id": "", "tool_calls": "[]", "metadata": "{}"}
    ),
)

_SESSION_COLUMNS = ("id", "created_at", "status", "scope", "window_start", "summary", "metadata")


def _encode_session(state: SessionState) -> Row:
    return (
        state.id,
        to_microseconds(state.created_at),
        state.status,
        state.scope,
        state.window_start,
        state.summary,
        to_json(dict(state.metadata)) if state.metadata else "{}",
    )


def _decode_session(row: Sequence[Any]) -> SessionState:
    name, created_at, status, scope, window_start, summary, metadata = row
    if not (str is type(name) is type(scope) is type(summary)):
        raise UnreadableRow("a text is not text")
    if status not in _STATUSES or type(window_start) is not int:
        raise UnreadableRow("its status is unknown or its window is no number")
    return SessionState(
        id=name,
        created_at=decode_moment(created_at),
        status=status,
        scope=scope,
        window_start=window_start,
        summary=summary,
        metadata=_decode_metadata(metadata),
    )


SESSIONS: TableCodec[SessionState] = TableCodec(
    subject="session",
    name="sessions",
    columns=_SESSION_COLUMNS,
    json=("metadata",),
    encode=_encode_session,
    decode=_decode_session,
    source="sessions AS it",
    selected=", ".join(f"it.{name}" for name in _SESSION_COLUMNS),
    analysed=False,
)


# -- pages and paragraphs --------------------------------------------------------------------------------

_PAGE_COLUMNS = ("id", "updated_at", "content")


def _encode_page(page: Page) -> Row:
    return page.name, to_microseconds(page.updated_at), page.content


def _decode_page(row: Sequence[Any]) -> Page:
    name, updated_at, content = row
    if not (str is type(name) is type(content)):
        raise UnreadableRow("a text is not text")
    return Page(name=name, content=content, updated_at=decode_moment(updated_at))


PAGES: TableCodec[Page] = TableCodec(
    subject="page",
    name="pages",
    columns=_PAGE_COLUMNS,
    json=(),
    encode=_encode_page,
    decode=_decode_page,
    source="pages AS it",
    selected=", ".join(f"it.{name}" for name in _PAGE_COLUMNS),
    analysed=False,
)

_PARAGRAPH_COLUMNS = ("id", "page", "position", "at", "source", "content")


def _encode_paragraph(paragraph: Paragraph) -> Row:
    return (
        paragraph.id,
        paragraph.page,
        float(paragraph.position) + 0.0,  # SQLite keeps no negative zero
        to_microseconds(paragraph.at),
        paragraph.source,
        paragraph.content,
    )


def _decode_paragraph(row: Sequence[Any]) -> Paragraph:
    name, page, position, at, source, content = row
    if not (str is type(name) is type(page) is type(source) is type(content)):
        raise UnreadableRow("a text is not text")
    if type(position) is not float:
        raise UnreadableRow("its position is no number")
    return Paragraph(
        id=name, page=page, position=position, at=decode_moment(at), content=content, source=source
    )


PARAGRAPHS: TableCodec[Paragraph] = TableCodec(
    subject="paragraph",
    name="paragraphs",
    columns=_PARAGRAPH_COLUMNS,
    json=(),
    encode=_encode_paragraph,
    decode=_decode_paragraph,
    source="paragraphs AS it",
    selected=", ".join(f"it.{name}" for name in _PARAGRAPH_COLUMNS),
    analysed=True,
)

TABLES: Mapping[Subject, TableCodec[Any]] = MappingProxyType(
    {table.subject: table for table in (RECORDS, TURNS, SESSIONS, PAGES, PARAGRAPHS)}
)


def decode_value(subject: Subject, document: str | None) -> Value | None:
    """Return a value from its form in the journal; raise `UnreadableRow`."""
    if document is None:
        return None
    value: Value = from_document(TABLES[subject], document)
    return value


CHANGE_COLUMNS = "sequence, batch, at, actor, reason, key, subject, before, after"


def decode_journal_entry(row: Sequence[Any]) -> JournalEntry:
    """Return the journal entry in these columns; raise `UnreadableRow`."""
    sequence, batch, at, actor, reason, key, subject, before, after = row
    if not (int is type(batch) is type(key) and str is type(actor) is type(reason)):
        raise UnreadableRow("a number is none, or a text is not text")
    if subject not in TABLES or not 0 < key <= sequence:
        raise UnreadableRow("its subject or its key is unknown")
    old, new = decode_value(subject, before), decode_value(subject, after)
    if old is not None and new is not None and old.id != new.id:
        raise UnreadableRow("it names two things")
    return JournalEntry(
        sequence=sequence,
        batch=batch,
        at=decode_moment(at),
        actor=actor,
        reason=reason,
        key=key,
        subject=subject,
        edit=None if old is None and new is None else Change(before=old, after=new),
    )


# -- working memory ------------------------------------------------------------------------------------

ENTRY_COLUMNS = ("namespace", "key", "stored_at", "expires_at", "category", "tags", "data")


def encode_entry(entry: Entry) -> Row:
    """Return an entry as its columns."""
    return (
        entry.namespace,
        entry.key,
        to_microseconds(entry.stored_at),
        _count(entry.expires_at),
        entry.category,
        _list(entry.tags),
        entry.data,
    )


def decode_entry(row: Sequence[Any]) -> Entry:
    """Return the entry in these columns; raise `UnreadableRow`."""
    namespace, key, stored_at, expires_at, category, tags, data = row
    if not (str is type(namespace) is type(key) is type(data)):
        raise UnreadableRow("a text is not text")
    if not (category is None or type(category) is str):
        raise UnreadableRow("its category is not text")
    return Entry(
        namespace=namespace,
        key=key,
        data=data,
        stored_at=decode_moment(stored_at),
        expires_at=None if expires_at is None else decode_moment(expires_at),
        category=category,
        tags=_decode_texts(tags),
    )


# -- single columns ------------------------------------------------------------------------------------


def _list(texts: Sequence[str]) -> str:
    return f"[{','.join(map(encode_basestring, texts))}]"  # a quarter of the time that `to_json` takes


def _count(moment: datetime | None) -> int | None:
    return None if moment is None else to_microseconds(moment)


def decode_moment(count: Any) -> datetime:
    """Return the moment of a column; raise `UnreadableRow` if it is none."""
    if type(count) is not int:
        raise UnreadableRow("a time is not a number")
    try:
        return from_microseconds(count)
    except OverflowError:
        raise UnreadableRow("a time is out of range") from None


def _parse_json(stored: Any) -> Any:
    """JSON text, or (from the journal) what it says already."""
    if stored == "[]":
        return []
    if stored == "{}":
        return {}
    if type(stored) is not str:
        return stored
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        raise UnreadableRow("a list or mapping in it is not JSON") from None


def _decode_texts(stored: Any) -> tuple[str, ...]:
    if stored == "[]":
        return ()
    found = _parse_json(stored)
    if type(found) is not list or not all(type(text) is str for text in found):
        raise UnreadableRow("a list in it is not one of texts")
    return tuple(found)


def _decode_metadata(stored: Any) -> Mapping[str, str]:
    if stored == "{}":
        return NOTHING
    found = _parse_json(stored)
    if type(found) is not dict or not all(type(text) is str for text in found.values()):
        raise UnreadableRow("its metadata is not a mapping of texts")
    return MappingProxyType(found)


def _decode_tool_calls(stored: Any) -> tuple[ToolCall, ...]:
    if stored == "[]":
        return ()
    found = _parse_json(stored)
    if type(found) is not list or not all(
        type(call) is list and len(call) == 3 and all(type(text) is str for text in call) for call in found
    ):
        raise UnreadableRow("its tool calls are not a list of calls")
    return tuple(ToolCall(id=call[0], name=call[1], arguments=call[2]) for call in found)
