"""Parsing of files that a person may have edited. Pure.

The counterpart of `layout`: what it renders is parsed exactly. A byte-order mark, Windows line ends and
missing fields are accepted. Everything else that is not valid is refused, with the name and place of the
error.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from reverie.domain.category import validate_category
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import classify, describe_intake, reread
from reverie.domain.lazy_dataclass import fields, replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import Line, is_visible_tag, parse_line
from reverie.domain.page import HISTORY, parse_daily_note_day
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
from reverie.domain.text.ids import NewId, validate_id
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
_MERGE_CONFLICT = defer_regex(r"^<{7}(?: .*)?\n(?:.*\n)*?={7}\n(?:.*\n)*?>{7}(?: .*)?$", re.MULTILINE)
_BLANK_LINES = defer_regex(r"\n[^\S\n]*\n")
_STAMP = defer_regex(r"\[(?:(\d{4}-\d{2}-\d{2})[ T])?(\d{2}):(\d{2})\]")
_WORD = defer_regex(r"\w")
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class EmptiedFile(InvalidInput):
    """A file without content, or without most of it. It is not imported, and deleting it deletes what it said."""


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


# -- files of each form --------------------------------------------------------------------------------------


def read_record(path: str, data: bytes) -> Fields:
    """Parse the file of a record; fields may be missing.

    Raises:
        InvalidInput: it cannot be parsed; the message says what is wrong, with the line where possible.
    """
    return _parse_record(_decode_text(path, data))


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


def check_utf8(text: str) -> None:
    """Raise `InvalidInput` if a line is not UTF-8."""
    if _SURROGATES.search(text):
        raise InvalidInput("it is not UTF-8 text: save it as UTF-8")


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
    found = _parse_record(others or "{}", line=row.number)
    category = found.get("category", given)
    usual = {"kind": layout.infer_line_kind(place, category), "category": category}
    tags = merge_visible_tags(found.get("tags", ()), line.tags)
    return usual | found | fields | {"created_at": moment, "tags": tags}


def merge_visible_tags(tags: Sequence[str], visible: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a record after an edit of those that its line shows."""
    kept = [tag for tag in tags if tag in visible or not is_visible_tag(tag)]
    return normalize_labels([*kept, *(tag for tag in visible if tag not in kept)], name="tag")


def read_session(
    path: str, data: bytes, *, now: datetime, new_id: NewId, check: Callable[[Turn], None]
) -> tuple[SessionState, list[Turn], list[str]]:
    """Parse the file of a session, line by line; what is missing is as in a new session or turn.

    Args:
        path: The path of the file.
        data: Its content.
        now: The current time.
        new_id: Returns a new id.
        check: Raises `InvalidInput` for a turn that cannot be imported.

    Returns:
        The session, its turns, and why other lines could not be parsed.

    Raises:
        InvalidInput: no turn can be parsed, or the file as a whole is not valid.
    """
    text = _decode_text(path, data, errors="surrogateescape")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise EmptiedFile("it is empty: delete the file, or restore what stood there")
    place, at = layout.parse_path(path), timestamps.format_time(now)
    usual = {"id": None if place is None else parse_session_id(place.name), "created_at": at}
    broken: list[str] = []
    try:
        state = SessionState.from_dict({**usual, **_parse_line(SessionState, *lines[0])})
    except InvalidInput as error:
        broken.append(_locate_error(error, lines[0][0]))
        state = SessionState.from_dict(usual)
    if layout.build_session_path(state.id) != path and usual["id"] != state.id:
        raise InvalidInput(f"line 1: the id {state.id!r} is not that of the file: put the file's own back")
    turns: dict[str, Turn] = {}
    for number, line in lines[1:]:
        try:
            fields = {"role": "user", "at": at, "scope": state.scope, **_parse_line(Turn, number, line)}
            if (fields.get("session", state.id), fields["scope"]) != (state.id, state.scope):
                raise InvalidInput("its session or scope is not that of the file: take the field out")
            values = {"id": new_id(), **fields, "session": state.id, "position": len(turns)}
            turn = Turn.from_dict(values)
            if turn.id in turns:
                raise InvalidInput(f"the id {turn.id!r} is that of a line above: take it out of one")
            check(turn)
            turns[turn.id] = turn
        except InvalidInput as error:
            broken.append(_locate_error(error, number))
    if broken and not turns:
        raise InvalidInput(broken[0])
    return state, list(turns.values()), broken


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
    conflict = _MERGE_CONFLICT.search(text) if "<<<<<<<" in text else None
    if conflict is not None and not _MERGE_CONFLICT.search(was):
        line = text.count("\n", 0, conflict.start()) + 1
        raise InvalidInput(
            f"line {line}: there are merge-conflict markers: keep what is right and take out the "
            "lines of <<<<<<<, ======= and >>>>>>>"
        )
    return text


# -- JSON ----------------------------------------------------------------------------------------------------


def _to_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (repeated, _), *_ = Counter(name for name, _ in pairs).most_common()
        raise InvalidInput(f"the field {repeated!r} stands there twice: take one out")
    return found


_SURROGATES = defer_regex("[\udc80-\udcff]")
_decode = json.JSONDecoder(object_pairs_hook=_to_unique_dict).decode


def _parse_object(text: str, names: Collection[str], *, line: int = 0) -> dict[str, Any]:
    """Return the fields of a JSON object; refuse unknown ones.

    Args:
        text: The object.
        names: The known fields.
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
    if names is _RECORD and isinstance(found, dict):
        found = move_former_metadata(found)
    if not isinstance(found, dict):
        raise InvalidInput(f"{before}it is {describe_type(found)}: it should be one JSON object, {{…}}")
    if unknown := [name for name in found if name not in names]:
        raise InvalidInput(f"{before}unknown field {unknown[0]!r}: use {', '.join(names)}")
    return found


def _parse_record(text: str, *, line: int = 0) -> dict[str, Any]:
    """Return the fields of a record in JSON, each checked by its form."""
    found = _parse_object(text, _RECORD, line=line)
    try:
        return {name: _read_field(name, value) for name, value in found.items()}
    except InvalidInput as error:
        raise InvalidInput(_locate_error(error, line)) from None


def _parse_line(kind: type[SessionState | Turn], number: int, text: str) -> dict[str, Any]:
    check_utf8(text)
    return _parse_object(text, [each.name for each in fields(kind)], line=number)


def _locate_error(error: InvalidInput, line: int) -> str:
    return str(error) if not line or str(error).startswith("line ") else f"line {line}: {error}"


# -- fields --------------------------------------------------------------------------------------------------


_TEXT = (str, "text, in quotes")
_FORMS: Mapping[Any, tuple[Any, str]] = MappingProxyType(
    {
        float: ((int, float), "a number"),
        int: (int, "a whole number up to 1,000,000,000"),
        bool: (bool, "true or false"),
        datetime: (str, 'a time, such as "2026-02-07T10:30:00Z"'),
        tuple: (list, 'a list of texts, such as ["a", "b"]'),
        Mapping: (dict, 'an object of texts, such as {"name": "value"}'),
    }
)
"""JSON types of fields, in words too, by the types that their class declares; others are text."""

_RECORD: Mapping[str, Any] = MappingProxyType(get_type_hints(Record))


def _read_field(name: str, value: Any) -> Any:
    """Return the value of a field of a record; raise `InvalidInput` if it is not of its form."""
    inner = get_args(_RECORD[name])
    is_optional = type(None) in inner
    if value is None and is_optional:
        return None
    hint = inner[0] if is_optional else get_origin(_RECORD[name]) or _RECORD[name]
    kinds, should = _FORMS.get(hint, _TEXT)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if (
        not isinstance(value, kinds)
        or (isinstance(value, bool) and hint is not bool)
        or not all(isinstance(part, str) for part in parts)
        or (is_number and hint is int and abs(value) > _MOST_OFTEN)
    ):
        raise InvalidInput(f"the field {name!r} is {describe_type(value)}: it should be {should}")
    try:
        if hint is tuple:
            return normalize_labels(value, name="label", longest=2_000)
        if hint is datetime:
            return timestamps.parse_time(value)
        return validate_id(value) if name == "id" else MappingProxyType(value) if hint is Mapping else value
    except InvalidInput as error:
        raise InvalidInput(f"the field {name!r}: {error}") from None


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
    day = parse_daily_note_day(f"{place.name}.md") if place.is_day else None
    at = now if day in (None, now.date()) else datetime.combine(day or now, time(12), UTC)
    created = given.setdefault("created_at", at)
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
