"""Conversion between values and rows or documents of a database, the same for all stores in SQL.

Times are whole microseconds since 1970, flags 0 or 1, lists and mappings JSON text. A document is a JSON object of
the same columns, without those that hold what they most often do: they would take half of its room.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from json.encoder import encode_basestring
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Any, Generic, NamedTuple, TypeVar

from reverie.domain.change import OPERATIONS, Change, JournalEntry, Subject, Value, get_subject
from reverie.domain.conversation import ROLES, SESSION_STATUSES, SessionState, ToolCall, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import StoreCorrupt
from reverie.domain.lazy_dataclass import MISSING, fields
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import KINDS, LAYERS, NOTHING, ORIGINS, Record
from reverie.domain.text.timestamps import from_microseconds, to_microseconds

Row = tuple[Any, ...]

T = TypeVar("T")

to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
"""Encoder of all JSON in this module."""


_ID = defer_regex(r"\b[0-9a-f]{12}\b")


class UnreadableRow(Exception):
    """A row is not what was written. The message says how, and never quotes content."""


# -- types of columns ----------------------------------------------------------------------------------


class ColumnType(NamedTuple):
    """Conversion between a field of a value and its column.

    Attributes:
        encode: Converts the field to the column.
        decode: Converts the column to the field; raises `UnreadableRow`.
        same: Types of values that are the same in both. They are not converted.
        is_json: Whether the column holds JSON text.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    same: frozenset[type] = frozenset()
    is_json: bool = False


def _expect(
    accept: Callable[[Any], bool], why: str, convert: Callable[[Any], Any] = lambda stored: stored
) -> Callable[[Any], Any]:
    """Return a decoder that refuses a column, for that reason, unless it is accepted."""

    def decode(stored: Any) -> Any:
        if not accept(stored):
            raise UnreadableRow(why)
        return convert(stored)

    return decode


def _require(kind: type, what: str) -> ColumnType:
    """Return the column type of a field that has this type in its column too."""
    return ColumnType(kind, _expect(lambda _: False, f"is no {what}"), frozenset({kind}))


def _choose_from(values: Collection[str]) -> ColumnType:
    allowed = frozenset(values)
    return ColumnType(str, _expect(lambda stored: type(stored) is str and stored in allowed, "is unknown"))


def _allow_none(form: ColumnType) -> ColumnType:
    return form._replace(same=form.same | {NoneType})


def decode_moment(stored: Any) -> datetime:
    """Return the moment of a column; raise `UnreadableRow` if it is none."""
    if type(stored) is not int:
        raise UnreadableRow("is not a time")
    try:
        return from_microseconds(stored)
    except OverflowError:
        raise UnreadableRow("is a time out of range") from None


def _as_json(
    form: str,
    accept: Callable[[Any], bool],
    convert: Callable[[Any], Any],
    empty: Any,
    empty_text: str = "[]",
) -> Callable[[Any], Any]:
    """Return a decoder of JSON text, or of its value in a document."""

    def decode(stored: Any) -> Any:
        if stored == empty_text:
            return empty
        try:
            value = json.loads(stored) if type(stored) is str else stored
        except (ValueError, RecursionError):
            raise UnreadableRow("is not JSON") from None
        if not accept(value):
            raise UnreadableRow(f"is not a {form}")
        return convert(value)

    return decode


def _are_texts(values: Any) -> bool:
    return all(type(each) is str for each in values)


_TEXT = _require(str, "text")
_NUMBER = _require(int, "number")
_REAL = ColumnType(  # SQLite keeps no negative zero
    lambda value: float(value) + 0.0, _expect(lambda stored: type(stored) is float, "is no number")
)
_SHARE = ColumnType(
    float, _expect(lambda stored: type(stored) is float and 0 <= stored <= 1, "is not a number from 0 to 1")
)
_FLAG = ColumnType(int, _expect(lambda stored: stored in (0, 1), "is not 0 or 1", bool))
_OPTIONAL_TEXT = ColumnType(
    lambda text: text or None,
    _expect(lambda stored: type(stored) in (str, NoneType), "is no text", lambda stored: stored or ""),
)
_OPTIONAL_FLAG = ColumnType(
    lambda flag: 1 if flag else None, _expect(lambda stored: stored in (0, 1, None), "is not 0 or 1", bool)
)
_MOMENT = ColumnType(to_microseconds, decode_moment)
_WORDS = ColumnType(
    lambda words: " ".join(words) or None,
    lambda stored: tuple(_OPTIONAL_TEXT.decode(stored).split()),
)
_TEXTS = ColumnType(  # not by `to_json`, which takes four times as long
    lambda texts: f"[{','.join(map(encode_basestring, texts))}]",
    _as_json("list of texts", lambda value: type(value) is list and _are_texts(value), tuple, ()),
    is_json=True,
)
_METADATA = ColumnType(
    lambda data: to_json(dict(data)) if data else "{}",
    _as_json(
        "mapping of texts",
        lambda value: type(value) is dict and _are_texts(value.values()),
        MappingProxyType,
        NOTHING,
        "{}",
    ),
    is_json=True,
)
_TOOL_CALLS = ColumnType(
    lambda calls: to_json([[call.id, call.name, call.arguments] for call in calls]) if calls else "[]",
    _as_json(
        "list of calls",
        lambda value: (
            type(value) is list
            and all(type(call) is list and len(call) == 3 and _are_texts(call) for call in value)
        ),
        lambda value: tuple(ToolCall(id=call[0], name=call[1], arguments=call[2]) for call in value),
        (),
    ),
    is_json=True,
)


# -- tables --------------------------------------------------------------------------------------------


# Columns that SQLite has also where they hold what they most often do: they are in its indexes, or empty.
_WRITTEN = {
    *("scope", "pinned", "updated_at", "seen_count"),
    *("source", "archive_reason", "speaker", "tool_call_id"),
}


class Column(NamedTuple):
    """Column of a table.

    Attributes:
        name: Its name in SQL.
        form: How the field stands in it.
        usual: What it holds where the journal or SQLite leaves it out. Part of the format: never to be changed.
        copies: Name of the column that has the same where they leave it out; empty for none.
        field: The field of the value; empty if it has the name of the column.
    """

    name: str
    form: ColumnType
    usual: Any = None
    copies: str = ""
    field: str = ""


class RowCodec(Generic[T]):
    """Conversion between values of one type and their rows.

    Attributes:
        kind: The type.
        columns: The columns.
        names: Names of the columns.
    """

    def __init__(self, kind: type[T], columns: tuple[Column, ...]) -> None:
        self.kind = kind
        self.columns = columns
        self.names = tuple(column.name for column in columns)
        # Field, encoder, decoder and types of each column, whether None stands for the field's default, this default
        # and its column: a loop over these is quicker than one over `columns`.
        defaults = {each.name: each.default for each in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
        self._steps = [
            (name, *each.form[:3], each.usual is None and _means(each.form, usual), usual, stored)
            for each in columns
            for name in [each.field or each.name]
            for usual in [defaults[name]]
            for same in [each.form.same | {type(MISSING)}]
            for stored in [usual if type(usual) in same else each.form.encode(usual)]
        ]
        self._get_fields = attrgetter(*(each.field or each.name for each in columns))

    def encode(self, value: T) -> Row:
        """Return a value as its columns."""
        return tuple(
            [
                stored if each is usual else each if type(each) in same else encode(each)
                for each, (_, encode, _, same, _, usual, stored) in zip(
                    self._get_fields(value), self._steps, strict=True
                )
            ]
        )

    def decode(self, row: Sequence[Any]) -> T:
        """Return the value in the columns; raise `UnreadableRow`."""
        given = {}
        for (field, _, decode, same, is_optional, _, _), stored in zip(self._steps, row, strict=True):
            if stored is None and is_optional:
                continue
            try:
                given[field] = stored if type(stored) in same else decode(stored)
            except UnreadableRow as error:
                raise UnreadableRow(f"its {field} {error}") from None
        return self.kind(**given)


def _means(form: ColumnType, default: Any) -> bool:
    """Return whether a column without a value decodes to a field's default."""
    try:
        return bool(form.decode(None) == default) if NoneType not in form.same else default is None
    except UnreadableRow:
        return False


class TableCodec(RowCodec[T]):
    """A table of things with a history. Its first column is the id; those with JSON come last.

    Attributes:
        subject: Which kind of thing it keeps.
        name: Its name in SQL.
        source: The tables from which SQLite selects `selected`.
        expressions: The columns as SQLite selects them, by name; a turn has the key of its session.
        selected: All of these.
        derived: Names of the columns of SQLite beside those of the value, which follow from it.
    """

    def __init__(self, kind: type[T], columns: tuple[Column, ...], subject: Subject, name: str) -> None:
        super().__init__(kind, columns)
        self.subject = subject
        self.name = name
        joined = " JOIN sessions ON sessions.key = it.session" if subject == "turn" else ""
        self.source = f"{name} AS it{joined}"
        self.derived = ("fingerprint", "checksum") if subject == "record" else ("checksum",)
        self.expressions: dict[str, str] = {}
        self._left_out: list[tuple[int, Any, int]] = []
        for place, each in enumerate(columns):
            expression = "sessions.id" if each.name == "session" else f"it.{each.name}"
            if each.name not in _WRITTEN and (each.copies or each.usual is not None):
                usual = f"it.{each.copies}" if each.copies else repr(each.usual)
                expression = f"coalesce({expression}, {usual})"
                self._left_out.append((place, each.usual, self.names.index(each.copies or "id")))
            self.expressions[each.name] = expression
        self.selected = ", ".join(self.expressions.values())

    def shorten(self, row: Row) -> Row:
        """Return a row as SQLite has it: with NULL where some columns hold what they most often do."""
        short = list(row)
        for place, usual, copied in self._left_out:
            if row[place] == (row[copied] if copied else usual):
                short[place] = None
        return tuple(short)

    def complete(self, columns: Mapping[str, Any]) -> Row:
        """Return a row of columns by name, in which those are missing that hold what they most often do."""
        return tuple([columns.get(each.name, columns.get(each.copies, each.usual)) for each in self.columns])

    def derive(self, value: T, row: Row) -> Row:
        """Return the columns that follow from a value and its row."""
        checksum = compute_checksum(row)
        if not isinstance(value, Record):
            return (checksum,)
        return compute_mark(value.scope, value.fingerprint), checksum


def compute_mark(scope: str, fingerprint: str) -> bytes:
    """Return the fingerprint of a text within a scope. An index of it need not have the scopes."""
    name = scope.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=12, key=bytes.fromhex(fingerprint)).digest()


def compute_checksum(row: Row) -> int:
    """Return a number that differs for damaged columns of a value, by which `check` and `repair` know a whole row."""
    return zlib.crc32("\x1f".join(map(str, row)).encode("utf-8", "surrogatepass"))


RECORDS = TableCodec(
    Record,
    (
        Column("id", _TEXT),
        Column("scope", _TEXT, ""),
        Column("kind", _choose_from(KINDS), "fact"),
        Column("layer", _choose_from(LAYERS), "semantic"),
        Column("origin", _choose_from(ORIGINS), "owner"),
        Column("category", _allow_none(_TEXT)),
        Column("pinned", _FLAG, 0),
        Column("confidence", _SHARE, 0.8),
        Column("importance", _SHARE, 0.5),
        Column("created_at", _MOMENT),
        Column("updated_at", _MOMENT, copies="created_at"),
        Column("last_seen_at", _MOMENT, copies="created_at"),
        Column("seen_count", _NUMBER, 1),
        Column("valid_from", _allow_none(_MOMENT)),
        Column("valid_to", _allow_none(_MOMENT)),
        Column("expires_at", _allow_none(_MOMENT)),
        Column("archived_at", _allow_none(_MOMENT)),
        Column("content", _TEXT),
        Column("source", _TEXT, ""),
        Column("archive_reason", _TEXT, ""),
        Column("parts", _WORDS),
        Column("draft", _OPTIONAL_FLAG),
        Column("keep_secret", _OPTIONAL_FLAG),
        Column("item_key", _OPTIONAL_TEXT),
        Column("resolved_dates", _OPTIONAL_TEXT),
        Column("replaced_by", _OPTIONAL_TEXT),
        Column("replaces", _WORDS),
        Column("promoted_from", _OPTIONAL_TEXT),
        Column("perhaps_replaced_by", _OPTIONAL_TEXT),
        Column("about", _OPTIONAL_TEXT),
        Column("until", _allow_none(_MOMENT)),
        Column("permission", _OPTIONAL_FLAG),
        Column("tags", _TEXTS, "[]"),
        Column("refs", _TEXTS, "[]", field="references"),
        Column("metadata", _METADATA, "{}"),
    ),
    "record",
    "records",
)
TURNS = TableCodec(
    Turn,
    (
        Column("id", _TEXT),
        Column("session", _TEXT),
        Column("position", _NUMBER),
        Column("role", _choose_from(ROLES)),
        Column("at", _MOMENT),
        Column("scope", _TEXT, ""),
        Column("speaker", _TEXT, ""),
        Column("content", _TEXT),
        Column("tool_call_id", _TEXT, ""),
        Column("tool_calls", _TOOL_CALLS, "[]"),
        Column("metadata", _METADATA, "{}"),
    ),
    "turn",
    "turns",
)
SESSIONS = TableCodec(
    SessionState,
    (
        Column("id", _TEXT),
        Column("created_at", _MOMENT),
        Column("status", _choose_from(SESSION_STATUSES)),
        Column("scope", _TEXT),
        Column("window_start", _NUMBER),
        Column("summary", _TEXT),
        Column("metadata", _METADATA),
    ),
    "session",
    "sessions",
)
PAGES = TableCodec(
    Page,
    (Column("id", _TEXT, field="name"), Column("updated_at", _MOMENT), Column("content", _TEXT)),
    "page",
    "pages",
)
PARAGRAPHS = TableCodec(
    Paragraph,
    (
        Column("id", _TEXT),
        Column("page", _TEXT),
        Column("position", _REAL),
        Column("at", _MOMENT),
        Column("source", _TEXT),
        Column("content", _TEXT),
    ),
    "paragraph",
    "paragraphs",
)
ENTRIES = RowCodec(
    Entry,
    (
        Column("namespace", _TEXT),
        Column("key", _TEXT),
        Column("stored_at", _MOMENT),
        Column("expires_at", _allow_none(_MOMENT)),
        Column("category", _allow_none(_TEXT)),
        Column("tags", _TEXTS),
        Column("data", _TEXT),
    ),
)

TABLES: Mapping[Subject, TableCodec[Any]] = MappingProxyType(
    {table.subject: table for table in (RECORDS, TURNS, SESSIONS, PAGES, PARAGRAPHS)}
)


def count_positions(last: Any, session: str) -> int:
    """Return the number of positions in a session; raise `StoreCorrupt` if the last one is no number."""
    if last is None:
        return 0
    if type(last) not in (int, float):  # PostgreSQL has positions of turns and of paragraphs in one column
        raise StoreCorrupt(
            f"a turn of session {session!r} has a position that is not a number: run `reverie doctor --fix`"
        )
    return int(last) + 1


# -- documents -----------------------------------------------------------------------------------------


def to_document(table: TableCodec[Any], row: Sequence[Any]) -> str:
    """Return a row as a document, without the columns that hold what they most often do."""
    columns = dict(zip(table.names, row, strict=True))
    kept = {
        each.name: columns[each.name]
        for each in table.columns
        if columns[each.name] != (columns[each.copies] if each.copies else each.usual)
    }
    nested = [
        f',"{each.name}":{kept.pop(each.name)}'  # it is JSON already
        for each in table.columns
        if each.form.is_json and each.name in kept
    ]
    return f"{to_json(kept)[:-1]}{''.join(nested)}}}"


def from_document(table: TableCodec[T], document: str) -> T:
    """Return the value that `to_document` wrote, now or in an earlier version; raise `UnreadableRow`."""
    try:
        row = table.complete(json.loads(document))
    except (ValueError, AttributeError, RecursionError, TypeError):
        raise UnreadableRow("its JSON cannot be read") from None
    return table.decode(row)


def get_id(document: str) -> str:
    """Return the id of the value in a document; raise `UnreadableRow`."""
    try:
        return str(json.loads(document)["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UnreadableRow("its JSON has no id") from None


IN_ROW = ""
"""The `after` of a creation in the journal as long as nothing has changed: its value is in the row."""


def find_ids(text: str) -> set[str]:
    """Return the ids in a text: words of 12 hexadecimal digits."""
    return set(_ID.findall(text))


def encode_value(value: Value | None) -> str | None:
    """Return the document of a value, as the journal has it."""
    if value is None:
        return None
    table = TABLES[get_subject(value)]
    return to_document(table, table.encode(value))


def decode_value(subject: Subject, document: str | None) -> Value | None:
    """Return a value from its form in the journal; raise `UnreadableRow`."""
    if document is None:
        return None
    value: Value = from_document(TABLES[subject], document)
    return value


USUAL_CHANGE = MappingProxyType({"actor": "owner", "operation": "save", "subject": "record"})
"""What most changes have in the journal. SQLite has NULL for it, which the view `changes` fills in."""

CHANGE_COLUMNS = "sequence, batch, at, actor, operation, note, reference, key, subject, before, after"


def decode_journal_entry(row: Sequence[Any], created: Value | None = None) -> JournalEntry:
    """Return the journal entry in these columns, with a created value that is in its row; raise `UnreadableRow`."""
    sequence, batch, at, actor, operation, note, reference, key, subject, before, after = row
    if not (int is type(batch) is type(key) and str is type(actor) is type(note) is type(reference)):
        raise UnreadableRow("a number is none, or a text is not text")
    if subject not in TABLES or operation not in OPERATIONS or not 0 < key <= sequence:
        raise UnreadableRow("its subject, its operation or its key is unknown")
    old, new = decode_value(subject, before), created or decode_value(subject, after)
    if old is not None and new is not None and old.id != new.id:
        raise UnreadableRow("it names two ids")
    try:
        moment = decode_moment(at)
    except UnreadableRow as error:
        raise UnreadableRow(f"its time {error}") from None
    return JournalEntry(
        sequence=sequence,
        batch=batch,
        at=moment,
        actor=actor,
        operation=operation,
        note=note,
        reference=reference,
        key=key,
        subject=subject,
        edit=None if old is None and new is None else Change(before=old, after=new),
    )


def decode_change(row: Sequence[Any]) -> JournalEntry:
    """Return the journal entry of a row; raise `StoreCorrupt` if it cannot be read."""
    try:
        return decode_journal_entry(row)
    except UnreadableRow as error:
        raise StoreCorrupt(f"change {row[0]} in the journal cannot be read, {error}: run check()") from error
