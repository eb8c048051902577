"""Parsing of files that a person may have edited. Pure.

The counterpart of `layout`: what it renders is parsed exactly. A byte-order mark, Windows line ends and
missing fields are accepted. Everything else that is not valid is refused, with the name and place of the
error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, get_type_hints

from reverie.domain.category import validate_category
from reverie.domain.conversation import (
    SessionState,
    ToolCall,
    Turn,
    validate_session,
    validate_session_id,
    validate_turn,
)
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import classify, describe_intake, reread
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import Line, is_visible_tag, parse_line
from reverie.domain.page import HISTORY, Page, parse_daily_note_day, validate_page, validate_page_name
from reverie.domain.record import (
    HOME_LAYERS,
    KINDS,
    Kind,
    Record,
    infer_kind,
    move_former_metadata,
    normalize_labels,
    validate_choice,
    validate_record,
)
from reverie.domain.text import timestamps
from reverie.domain.text.ids import validate_id
from reverie.domain.text.json_values import describe_type
from reverie.files import layout
from reverie.files.names import parse_session_id

Fields = Mapping[str, Any]
"""Present fields of a JSON object, validated, with times parsed."""

MAX_BYTES = 256 * 2**20
"""Largest size of a file; larger ones are not read."""

ANTI_PATTERN_TAG = "anti-pattern"
"""Tag of every anti-pattern."""

_MOST_OFTEN = 1_000_000_000
_MARKERS = (defer_regex(r"<{7}(?: .*)?"), defer_regex(r"={7}"), defer_regex(r">{7}(?: .*)?"))
_BLANK_LINES = defer_regex(r"\n[^\S\n]*\n")
_STAMP = defer_regex(r"\[(?:(\d{4}-\d{2}-\d{2})[ T])?(\d{2}):(\d{2})\]")
_WORD = defer_regex(r"\w")
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class EmptiedFile(InvalidInput):
    """A file without content, or without most of it. It is not imported, and deleting it deletes what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """A file that cannot be imported. Its last good content stays in force.

    Attributes:
        path: The path, relative to the memory's folder.
        why: What is wrong, with the line where possible; never content.
    """

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class PageRow(NamedTuple):
    """A line of a page of records.

    Attributes:
        number: Its number in the file, counted from 1.
        text: The row.
        line: The parsed line; its id is empty if a row above it has the same.
    """

    number: int
    text: str
    line: Line


class ParsedLine(NamedTuple):
    """A line of a file of JSON Lines.

    Attributes:
        number: Its number, counted from 1.
        fields: Its fields; None if it cannot be parsed.
        why: Why it cannot be parsed; empty if it can.
    """

    number: int
    fields: Fields | None
    why: str = ""


# -- files of each form --------------------------------------------------------------------------------------


def read_record(path: str, data: bytes) -> Fields:
    """Parse the file of a record; fields may be missing.

    Raises:
        InvalidInput: it cannot be parsed; the message says what is wrong, with the line where possible.
    """
    return _parse_object(_decode_text(path, data), _RECORD)


def read_rows(path: str, data: bytes) -> list[PageRow]:
    """Parse a page of records; properties at its beginning, headings and rows without a word are left out.

    Raises:
        InvalidInput: the file as a whole is not valid.
    """
    text = _decode_text(path, data, errors="surrogateescape")
    if not text.strip():
        raise EmptiedFile("it is empty: delete the file, or restore what stood there")
    rows = text.split("\n")
    start = rows.index("---", 1) + 1 if rows[0] == "---" and "---" in rows[1:] else 0
    found: list[PageRow] = []
    seen: set[str] = set()
    for number, row in enumerate(rows[start:], start + 1):
        line = parse_line(row)
        if line is None or not (line.id or _WORD.search(line.text)):
            continue
        if line.id in seen:
            line = line._replace(id="")
        seen.add(line.id)
        found.append(PageRow(number, row, line))
    return found


def check_row(row: PageRow) -> None:
    """Raise `InvalidInput` if a row is not UTF-8."""
    if _SURROGATES.search(row.text):
        raise InvalidInput(f"line {row.number}: it is not UTF-8 text: save it as UTF-8")


def read_row(row: PageRow, place: layout.FileLocation) -> dict[str, Any]:
    """Return the fields of the record that a row describes; only the given ones for a row that a person has written.

    Raises:
        InvalidInput: the row is not valid.
    """
    before, line = f"line {row.number}: ", row.line
    fields: dict[str, Any] = {"content": line.text, "tags": line.tags, "pinned": line.is_pinned}
    fields |= {"permission": True} if line.permission else {}
    given = None if place.category is None else validate_category(place.category)
    if not line.details:
        return {**fields, "category": given}
    created_at, _, others = line.details.partition(" ")
    try:
        moment = timestamps.parse_time(created_at, name="time")
    except InvalidInput as error:
        raise InvalidInput(f"{before}{error}") from None
    found = _parse_object(others or "{}", _RECORD, line=row.number)
    category = found.get("category", given)
    usual = {"kind": layout.infer_line_kind(place, category), "category": category}
    tags = merge_visible_tags(found.get("tags", ()), line.tags)
    return usual | found | fields | {"created_at": moment, "tags": tags}


def merge_visible_tags(tags: Sequence[str], visible: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a record after an edit of those that its line shows."""
    kept = [tag for tag in tags if tag in visible or not is_visible_tag(tag)]
    return normalize_labels([*kept, *(tag for tag in visible if tag not in kept)], name="tag")


def read_lines(path: str, data: bytes) -> list[ParsedLine]:
    """Parse the lines of a file that are not blank: a session, and then its turns.

    A line that cannot be parsed, or has the id of a line above it, is returned with the reason.

    Raises:
        InvalidInput: no line can be parsed, or the file as a whole is not valid.
    """
    text = _decode_text(path, data, errors="surrogateescape")
    if not text.strip():
        raise EmptiedFile("it is empty: delete the file, or restore what stood there")
    found: list[ParsedLine] = []
    numbers: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            forms = _TURN if found else _STATE
            try:
                found.append(ParsedLine(number, _parse_line(line, forms, number, numbers)))
            except InvalidInput as error:
                found.append(ParsedLine(number, None, str(error)))
    if all(line.why for line in found):
        raise InvalidInput(found[0].why)
    return found


def read_page(path: str, data: bytes, *, was: str = "") -> str:
    """Parse a page; return its text with line feeds for line ends.

    Args:
        path: The path of the file.
        data: Its content.
        was: The present text of the page. An empty file, or one with conflict markers, counts as an accident
            unless the page was like that.

    Raises:
        InvalidInput: as for `read_record`.
    """
    return _decode_text(path, data, was=was).replace("\r", "\n")


def read_log(path: str, data: bytes, *, was: str = "") -> list[str]:
    """Parse a log; return its paragraphs in order.

    Args:
        path: The path of the file; in `HISTORY.md` blank lines separate paragraphs, in a daily note every
            line is one.
        data: Its content.
        was: The present text of the log, as for `read_page`.

    Raises:
        InvalidInput: as for `read_record`.
    """
    split = _BLANK_LINES if path.endswith(f"/{HISTORY}") else re.compile("\n")
    return [part.strip() for part in split.split(_decode_text(path, data, was=was)) if part.strip()]


def check_size(size: int) -> None:
    """Raise `InvalidInput` if a file of this size is too large."""
    if size > MAX_BYTES:
        raise InvalidInput(f"it has {size:,} bytes: at most {MAX_BYTES:,} are allowed")


def _find_conflict_line(text: str) -> int:
    """Return the line where a complete merge conflict begins, or 0."""
    began = reached = 0
    for number, line in enumerate(text.split("\n"), 1):
        if _MARKERS[0].fullmatch(line):
            began, reached = number, 1
        elif reached and _MARKERS[reached].fullmatch(line):
            reached += 1
            if reached == len(_MARKERS):
                return began
    return 0


def _decode_text(path: str, data: bytes, *, was: str = "", errors: str = "strict") -> str:
    """Decode the content of a file, without a byte-order mark, and with line feeds for line ends.

    Args:
        was: The present text.
        errors: What to do with bytes that are not UTF-8, as for `bytes.decode`.
    """
    check_size(len(data))
    if not data and was:
        raise EmptiedFile("it is empty: delete the file if its content is to go, or restore it")
    if data and not data.strip(b"\0"):
        raise InvalidInput("it holds nothing but zero bytes, as after a crash: restore or delete it")
    if data.startswith(_WIDE):
        raise InvalidInput("it is UTF-16: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig", errors=errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"line {line}: it is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from None
    text = text.replace("\r\n", "\n")
    line = _find_conflict_line(text)
    if line and not _find_conflict_line(was):
        raise InvalidInput(
            f"line {line}: there are merge-conflict markers: keep what is right and take out the "
            "lines of <<<<<<<, ======= and >>>>>>>"
        )
    return text


# -- JSON ----------------------------------------------------------------------------------------------------


def _to_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"the field {repeated!r} stands there twice: take one out")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is no number that JSON knows")


_SURROGATES = defer_regex("[\udc80-\udcff]")
_decode = json.JSONDecoder(object_pairs_hook=_to_unique_dict, parse_constant=_refuse_constant).decode


def _parse_object(text: str, forms: _Forms, *, line: int = 0) -> dict[str, Any]:
    """Return the fields of a JSON object, checked; refuse unknown ones.

    Args:
        text: The object.
        forms: The forms of the known fields.
        line: The number of its line in a file of several; 0 in a file of one.
    """
    before = f"line {line}: " if line else ""
    if not text.strip():
        raise EmptiedFile("it is empty: write a JSON object there, or delete the file")
    try:
        found = _decode(text)
    except json.JSONDecodeError as error:
        place = f"line {line or error.lineno}, column {error.colno}"
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise InvalidInput(
                f"{place}: it ends in the middle, as if it was saved half: save it again"
            ) from None
        reason = error.msg.removesuffix(" at")
        raise InvalidInput(f"{place}: it is not JSON: {reason[0].lower()}{reason[1:]}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{before}{error}") from None
    except (ValueError, RecursionError):
        raise InvalidInput(
            f"{before}it is not JSON that can be read: a number is too long, or it is too deep"
        ) from None
    if forms is _RECORD and isinstance(found, dict):
        found = move_former_metadata(found)
    if not isinstance(found, dict):
        raise InvalidInput(f"{before}it is {describe_type(found)}: it should be one JSON object, {{…}}")
    if unknown := [name for name in found if name not in forms]:
        key = re.search(rf'"{re.escape(unknown[0])}"\s*:', text)
        if not line and key is not None and "\n" in text[: key.start()]:
            before = f"line {text.count(chr(10), 0, key.start()) + 1}: "  # the log does not name the field
        raise InvalidInput(f"{before}unknown field {unknown[0]!r}: use {', '.join(forms)}")
    try:
        return {name: forms[name].parse(name, value) for name, value in found.items()}
    except InvalidInput as error:
        raise InvalidInput(f"{before}{error}") from None


def _parse_line(text: str, forms: _Forms, number: int, seen: dict[str, int]) -> Fields:
    if _SURROGATES.search(text):
        raise InvalidInput(f"line {number}: it is not UTF-8 text: save it as UTF-8")
    fields = _parse_object(text, forms, line=number)
    name = fields.get("id")
    if name is not None and seen.setdefault(name, number) != number:
        raise InvalidInput(f"lines {seen[name]} and {number} have the same id {name!r}: take it out of one")
    return fields


# -- fields --------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """Form of a field.

    Attributes:
        should: What the value should be.
        accepts: Returns whether a JSON value is that.
        read: Converts it.
    """

    should: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value

    def parse(self, name: str, value: Any) -> Any:
        """Return the value of a field; raise `InvalidInput` if it is not of this form."""
        if not self.accepts(value):
            raise InvalidInput(f"the field {name!r} is {describe_type(value)}: it should be {self.should}")
        try:
            return self.read(value)
        except InvalidInput as error:
            raise InvalidInput(f"the field {name!r}: {error}") from None

    def or_none(self) -> _Form:
        """Return the form of a field that may also be null."""
        return _Form(
            self.should,
            lambda value: value is None or self.accepts(value),
            lambda value: None if value is None else self.read(value),
        )


_Forms = Mapping[str, _Form]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_call(value: Any) -> bool:
    names = {"id", "name", "arguments"}
    return (
        isinstance(value, dict)
        and {"id", "name"} <= value.keys() <= names
        and all(map(_is_text, value.values()))
    )


_TEXT = _Form("text, in quotes", _is_text)
_LABELS = _Form(
    'a list of texts, such as ["a", "b"]',
    lambda value: isinstance(value, list) and all(map(_is_text, value)),
    lambda value: normalize_labels(value, name="label", longest=2_000),
)
_TIME = _Form(
    'a time, such as "2026-02-07T10:30:00Z"',
    _is_text,
    lambda value: timestamps.parse_time(value, name="time"),
)
_BY_TYPE: Mapping[Any, _Form] = MappingProxyType(
    {
        float: _Form("a number", _is_number),
        int: _Form(
            "a whole number up to 1,000,000,000",
            lambda value: _is_number(value) and isinstance(value, int) and abs(value) <= _MOST_OFTEN,
        ),
        bool: _Form("true or false", lambda value: isinstance(value, bool)),
        datetime: _TIME,
        datetime | None: _TIME.or_none(),
        str | None: _TEXT.or_none(),
        tuple[str, ...]: _LABELS,
        tuple[ToolCall, ...]: _Form(
            'a list of {"id", "name", "arguments"}, all of them texts',
            lambda value: isinstance(value, list) and all(map(_is_call, value)),
            lambda value: tuple(ToolCall(**call) for call in value),
        ),
        Mapping[str, str]: _Form(
            'an object of texts, such as {"name": "value"}',
            lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
            MappingProxyType,
        ),
    }
)
"""Forms of fields by the types that their classes declare."""


def _list_forms(kind: type) -> _Forms:
    """Return the form of each field of a class; all but those of `_BY_TYPE` are texts."""
    forms = {name: _BY_TYPE.get(hint, _TEXT) for name, hint in get_type_hints(kind).items()}
    return forms | {"id": _TEXT._replace(read=validate_id)} if kind is Record else forms


_RECORD, _STATE, _TURN = map(_list_forms, (Record, SessionState, Turn))


# -- values --------------------------------------------------------------------------------------------------


def build_record(
    fields: Fields, *, id: str, base: Record | None, place: layout.FileLocation, now: datetime
) -> Record:
    """Return the record that a file or line describes, with the missing fields filled in.

    A missing field has the value of `base`. In a new record a missing category is that of the folder, the kind
    follows from the category, and the layer from the kind. The times are now; on the page of another day they are its
    noon. All else is as in `Record`.

    Args:
        fields: The given fields.
        id: The id of the record.
        base: The record that the person began with; None for a new one.
        place: The parsed path of the file.
        now: The current time.

    Raises:
        InvalidInput: a field is not of its form, or there is no content.
    """
    given = {name: value for name, value in fields.items() if name != "id"}
    if base is not None:
        return validate_record(reread(replace(base, **given), base.content))
    if "content" not in given:
        raise InvalidInput("the field 'content' is missing: write there what is to be remembered")
    if "category" not in given and place.form == "record":
        given["category"] = None if place.category is None else validate_category(place.category)
    is_by_hand = "created_at" not in given  # what the program leaves out of a file has its usual value
    created = given.setdefault("created_at", _infer_created_at(place, now))
    named = given.get("kind") or ("event" if place.is_day else infer_kind(given.get("category")))
    intake = classify(
        str(given["content"]), origin=given.get("origin", "owner"), at=created, zone=UTC, kind=named
    )
    kind: Kind = given.setdefault("kind", intake.kind or "fact")
    validate_choice(kind, KINDS, name="kind")
    if is_by_hand:
        given = {**describe_intake(intake), **given}
    if kind == "anti_pattern" and (is_by_hand or "tags" not in given):
        given["tags"] = given.get("tags") or (ANTI_PATTERN_TAG,)
    given.setdefault("layer", "episodic" if place.is_day else HOME_LAYERS[kind])
    for name in ("updated_at", "last_seen_at"):
        given.setdefault(name, created)
    return validate_record(Record(id=id, **given))


def _infer_created_at(place: layout.FileLocation, now: datetime) -> datetime:
    """Return the time of a new record that has none: now, or noon of the day of its file."""
    day = parse_daily_note_day(f"{place.name}.md") if place.is_day else None
    return now if day in (None, now.date()) else datetime.combine(day or now, time(12), UTC)


def build_session_state(fields: Fields, *, path: str, now: datetime) -> SessionState:
    """Return the session that the first line of a file describes; missing fields are as in a new session.

    Raises:
        InvalidInput: a field is not of its form, or the id is not that of the file.
    """
    place = layout.parse_path(path)
    named = None if place is None else parse_session_id(place.name)
    session_id = validate_session_id(fields.get("id", named))
    if layout.build_session_path(session_id) != path and named != session_id:
        raise InvalidInput(f"line 1: the id {session_id!r} is not that of the file: put the file's own back")
    return validate_session(SessionState(**{"created_at": now, **fields, "id": session_id}))


def build_turn(line: ParsedLine, *, id: str, state: SessionState, position: int, now: datetime) -> Turn:
    """Return the turn that a line describes; missing fields are as in a new turn.

    Raises:
        InvalidInput: a field is not of its form or missing, or it belongs to another session.
    """
    fields, place = line.fields or {}, f"line {line.number}"
    if fields.get("session", state.id) != state.id:
        raise InvalidInput(f"{place}: its session is not that of the file: take the field out")
    if "content" not in fields:
        raise InvalidInput(f"{place}: the field 'content' is missing")
    if fields.get("scope", state.scope) != state.scope:
        raise InvalidInput(f"{place}: its scope is not that of the session: take the field out")
    began = {"role": "user", "at": now, "scope": state.scope}
    try:
        return validate_turn(Turn(**{**began, **fields, "id": id, "session": state.id, "position": position}))
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from None


def build_page(name: str, content: str, *, now: datetime) -> Page:
    """Return a page with this name and content.

    Raises:
        InvalidInput: the name is not valid, or the content is too long.
    """
    return validate_page(Page(name=validate_page_name(name), content=content, updated_at=now))


def parse_moment(name: str, paragraph: str, *, otherwise: datetime) -> datetime:
    """Return the time that a paragraph of a log is about.

    A paragraph begins with its time: `[2026-02-07 10:30]`, or in a daily note `[10:30]`. One without a time has
    that of `otherwise`; in the daily note of another day, that day's noon.

    Args:
        name: The log's name.
        paragraph: The text.
        otherwise: The time of a paragraph that names none.
    """
    day = parse_daily_note_day(name)
    found = _STAMP.match(paragraph)
    if found is not None and (found[1] or day is not None):
        try:
            return timestamps.parse_time(f"{found[1] or day}T{found[2]}:{found[3]}")
        except InvalidInput:
            pass  # a text may begin with `[99:99]`, which is no time
    if day is None or abs(otherwise - datetime.combine(day, time(12), UTC)) <= timedelta(hours=12):
        return otherwise
    return datetime.combine(day, time(12), UTC)
