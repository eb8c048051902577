"""Expected content of files, now and at earlier times, from the store. Reads no file.

A file with the content of an earlier time is merely old, and may be replaced. Any other content is an edit.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page
from reverie.domain.record import Record
from reverie.domain.text.ids import validate_id
from reverie.domain.text.timestamps import parse_time
from reverie.files.layout import (
    FileLocation,
    build_path,
    build_session_path,
    parse_form,
    parse_path,
    render_episodic,
    render_line,
    render_log,
    render_page,
    render_record,
    render_session,
    render_turns,
)
from reverie.files.names import parse_session_id
from reverie.stores.protocol import Store, iter_rows_forwards


class ExpectedContent(NamedTuple):
    """Content that a file should have.

    Attributes:
        data: The bytes.
        pieces: The number of turns, paragraphs or episodic records in it; -1 for other files.
    """

    data: bytes
    pieces: int = -1


def render_expected_content(store: Store, path: str) -> ExpectedContent | None:
    """Return the content that a file should have now; None if there should be no file.

    Raises:
        StoreCorrupt: the content cannot be read.
    """
    return render_values(path, read_values(store, path))


def read_values(store: Store, path: str) -> Sequence[Value]:
    """Return what a file should show now, in no particular order.

    Raises:
        StoreCorrupt: something of it cannot be read.
    """
    place = parse_path(path)
    if place is None:
        return []
    match place.form:
        case "record":
            records = store.records([place.name]) if is_id(place.name) else []
            return [record for record in records if build_path(record) == path]
        case "episodic":
            return select_day_records(store, place.name)
        case "session":
            state = _find_session(store, path, place.name)
            return [] if state is None else [state, *store.turns(session=state.id)]
        case "page":
            return store.pages([place.name])
        case "log":
            return store.paragraphs(page=place.name)


def render_values(path: str, values: Collection[Any]) -> ExpectedContent | None:
    """Return the content of a file that shows these values; None for none, and for turns without a session."""
    match parse_form(path) if values else None:
        case "record":
            return ExpectedContent(render_record(next(iter(values))))
        case "page":
            return ExpectedContent(render_page(next(iter(values))))
        case "episodic":
            return ExpectedContent(render_episodic(values), len(values))
        case "log":
            paragraphs = sorted(values, key=attrgetter("position"))
            return ExpectedContent(render_log(paragraphs[0].page, paragraphs), len(paragraphs))
        case "session":
            states = [value for value in values if isinstance(value, SessionState)]
            turns = [value for value in values if isinstance(value, Turn)]
            turns.sort(key=attrgetter("position"))
            return ExpectedContent(render_session(states[0], turns), len(turns)) if states else None
        case None:
            return None


def render_expected_records(store: Store, paths: Iterable[str]) -> dict[str, ExpectedContent]:
    """Return the content of those of some files that should hold one record each, read with one query.

    It is empty if a record cannot be read; `render_expected_content` tells which.
    """
    names = {path: place.name for path in paths if (place := parse_path(path)) and place.form == "record"}
    try:
        records = store.records([name for name in names.values() if is_id(name)])
    except StoreCorrupt:
        return {}
    contents = {build_path(record): ExpectedContent(render_record(record)) for record in records}
    return {path: contents[path] for path in names if path in contents}


def select_day_records(store: Store, day: str) -> list[Record]:
    """Return the live episodic records of a day such as `2026-02-07`, in no particular order."""
    try:
        begin = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError:
        return []
    end = begin + timedelta(days=1) if begin.date() < date.max else None
    wanted = Filter(layers=("episodic",), created_after=begin, created_before=end, archived=False)
    return [record for record in store.find(wanted) if not record.archived]


def iter_record_contents(store: Store, path: str) -> Iterator[bytes]:
    """Yield every content that a file in the form of a record should have had, as far as the journal tells."""
    place = parse_path(path)
    if place is None or place.form != "record" or not is_id(place.name):
        return
    for value in _iter_versions(store, place.name):
        if isinstance(value, Record) and build_path(value) == path:
            yield render_record(value)


def is_earlier_version(store: Store, path: str, data: bytes, *, torn: bool = False) -> bool:
    """Return whether a file should have had this content at some time, as far as the journal tells.

    A session or log may lack its last turns or paragraphs, and lines of a session may be earlier versions.

    Args:
        torn: Whether a beginning of such a content counts too, because the writer may have been killed.
    """
    place = parse_path(path)
    if place is None:
        return False
    match place.form:
        case "record":
            return any(
                _is_version_match(content, data, torn) for content in iter_record_contents(store, path)
            )
        case "page":
            return any(
                isinstance(value, Page) and _is_version_match(render_page(value), data, torn)
                for value in _iter_versions(store, place.name)
            )
        case "log":
            content = render_expected_content(store, path)
            return content is not None and _is_log_prefix(place.name, content.data, data, torn)
        case "session":
            return _is_earlier_session(store, path, place, data, torn)
        case "episodic":
            return _is_earlier_day(store, path, place.name, data, torn)


def _is_version_match(whole: bytes, data: bytes, torn: bool) -> bool:
    return whole == data or (torn and whole.startswith(data))


def _is_log_prefix(name: str, whole: bytes, data: bytes, torn: bool) -> bool:
    """Return whether data is a beginning of the log, of whole paragraphs unless it may be torn."""
    if not whole.startswith(data):
        return False
    rest = whole[len(data) :]
    between = rest.startswith(b"\n") if name == HISTORY else True
    return torn or (data.endswith(b"\n") and (not rest or between))


def _is_earlier_session(store: Store, path: str, place: FileLocation, data: bytes, torn: bool) -> bool:
    """Return whether each line is a version of the turn at its position; the last may be torn."""
    state = _find_session(store, path, place.name)
    if state is None:
        name = parse_session_id(place.name) or _parse_id(data)
        if name is None or build_session_path(name) != path:
            return False
    else:
        name = state.id
    *lines, rest = data.split(b"\n")
    if (rest and not torn) or not (lines or torn):
        return False
    heads = (
        render_session(value, []) for value in _iter_versions(store, name) if isinstance(value, SessionState)
    )
    head_line = lines[0] + b"\n" if lines else rest
    if not any(_is_version_match(head, head_line, torn and not lines) for head in heads):
        return False
    turns = {turn.position: render_turns([turn]) for turn in store.turns(session=name)}
    pieces = [line + b"\n" for line in lines[1:]] + ([rest] if rest and lines else [])
    return all(
        _is_version_match(turns.get(position, b""), piece, torn and piece is rest)
        or _is_earlier_turn(store, name, position, piece)
        for position, piece in enumerate(pieces)
    )


def _is_earlier_turn(store: Store, session: str, position: int, line: bytes) -> bool:
    """Return whether a whole line is an earlier version of the turn at a position."""
    name = _parse_id(line)
    return name is not None and any(
        isinstance(value, Turn)
        and (value.session, value.position) == (session, position)
        and render_turns([value]) == line
        for value in _iter_versions(store, name)
    )


def _is_earlier_day(store: Store, path: str, day: str, data: bytes, torn: bool) -> bool:
    """Return whether every line is a version of a record that stood there, and none was removed.

    Missing records must have come there after all others: then the file is merely older. A torn file may also
    lack the records at its end.
    """
    *lines, rest = data.split(b"\n")
    if (rest or not lines) and not torn:
        return False
    today = {record.id: record for record in select_day_records(store, day)}
    if rest and not any(render_line(record).startswith(rest) for record in today.values()):
        return False
    stays: dict[str, _Stays] = {}
    for line in lines:
        name = _parse_id(line)
        if name is None or name in stays:
            return False
        stays[name] = _collect_stays(store, name, path)
        if line + b"\n" not in stays[name].lines:
            return False
    missing = [record for name, record in today.items() if name not in stays]
    if not missing or not lines:
        return True
    end, last = parse_sort_key(lines[-1]), max(stay.came[0] for stay in stays.values())
    return all(
        (torn and (record.created_at, record.id) > end)
        or _collect_stays(store, record.id, path).came[-1] > last
        for record in missing
    )


class _Stays(NamedTuple):
    """Presence of a record at a path: the numbers of the entries with which it came, and its lines there."""

    came: list[int]
    lines: set[bytes]


def _collect_stays(store: Store, id: str, path: str) -> _Stays:
    stays = _Stays([], set())
    for row in iter_rows_forwards(store, id=id):
        if not isinstance(row.after, Record) or build_path(row.after) != path:
            continue
        if row.before is None or build_path(row.before) != path:
            stays.came.append(row.sequence)
        stays.lines.add(render_line(row.after))
    if not stays.came:  # its history was erased
        stays.came.append(0)
    return stays


def _find_session(store: Store, path: str, name: str) -> SessionState | None:
    session = parse_session_id(name)
    if session is not None:
        return store.session(session) if build_session_path(session) == path else None
    states = (overview.state for overview in store.sessions())
    return next((state for state in states if build_session_path(state.id) == path), None)


def _iter_versions(store: Store, id: str) -> Iterator[Value]:
    """Yield every value in the journal of one id."""
    for row in iter_rows_forwards(store, id=id):
        yield from row.values


def patch_episodic(data: bytes, values: Mapping[str, Value | None]) -> bytes:
    """Return an episodic file in canonical form after some of its records have changed.

    Rendering all records of the day takes about ten times as long.

    Args:
        data: The file.
        values: The records by id as they are now; None for those that are no longer in it.
    """
    changed = tuple(f'{{"id": "{name}"'.encode() for name in values)
    lines = [line for line in data.splitlines(keepends=True) if not line.startswith(changed)]
    for value in values.values():
        if isinstance(value, Record):
            insort(lines, render_line(value), key=parse_sort_key)
    return b"".join(lines)


def parse_sort_key(line: bytes) -> tuple[datetime, str]:
    """Return the sort key of a line in canonical form."""
    fields = json.loads(line)
    return parse_time(fields["created_at"]), fields["id"]


def _parse_id(line: bytes) -> str | None:
    """Return the id in a line of JSON, or None."""
    try:
        fields = json.loads(line.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    value = fields.get("id") if isinstance(fields, dict) else None
    return value if isinstance(value, str) else None


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id."""
    try:
        validate_id(text)
    except InvalidInput:
        return False
    return True
