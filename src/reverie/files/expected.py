"""What should a file say, and did it ever say that? Asked of the store; looks at no file.

A file that says what the journal knows it once said is merely old: it can be written again without asking.
Anything else in it is somebody's edit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from reverie.domain.change import JournalEntry, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page
from reverie.domain.record import Record
from reverie.domain.text.ids import valid_id
from reverie.domain.text.timestamps import parse_time
from reverie.files.layout import (
    FileLocation,
    path_of,
    place_of,
    render_episodic,
    render_line,
    render_log,
    render_page,
    render_record,
    render_session,
    render_turns,
    session_path,
)
from reverie.files.names import session_named
from reverie.stores.protocol import Store

_ROWS = 1_000


class ExpectedContent(NamedTuple):
    """What a file says.

    Attributes:
        data: Its bytes.
        pieces: How many turns, paragraphs or episodic records these are; -1 for other files.
    """

    data: bytes
    pieces: int = -1


def present(store: Store, path: str) -> ExpectedContent | None:
    """What the file of that path should say now; None if there should be none.

    Raises:
        StoreCorrupt: what it should say cannot be read.
    """
    place = place_of(path)
    if place is None:
        return None
    match place.form:
        case "record":
            found = store.records([place.name]) if _is_id(place.name) else []
            return record_content(found[0]) if found and path_of(found[0]) == path else None
        case "episodic":
            records = records_of_day(store, place.name)
            return ExpectedContent(render_episodic(records), len(records)) if records else None
        case "session":
            state = _session_at(store, path, place.name)
            return None if state is None else session_content(state, store.turns(session=state.id))
        case "page":
            pages = store.pages([place.name])
            return ExpectedContent(render_page(pages[0])) if pages else None
        case "log":
            paragraphs = store.paragraphs(page=place.name)
            content = ExpectedContent(render_log(place.name, paragraphs), len(paragraphs))
            return content if paragraphs else None


def record_content(record: Record) -> ExpectedContent:
    """What the file of a record says that has one of its own."""
    return ExpectedContent(render_record(record))


def session_content(state: SessionState, turns: list[Turn]) -> ExpectedContent:
    """What a session's file says."""
    return ExpectedContent(render_session(state, turns), len(turns))


def records_of_day(store: Store, day: str) -> list[Record]:
    """The episodic records that stand in the file of a day such as `2026-02-07`, in no particular order."""
    try:
        begin = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    except ValueError:
        return []
    end = begin + timedelta(days=1) if begin.date() < date.max else None
    wanted = Filter(layers=("episodic",), created_after=begin, created_before=end, archived=False)
    return [record for record in store.find(wanted) if not record.archived]


def was_so(store: Store, path: str, data: bytes) -> bool:
    """Whether the file of that path should have said just that at some moment, as far as the journal knows.

    For a session and a log, this is known of those that are shorter than today's by their last turns or
    paragraphs, and of a session's lines that were changed since.
    """
    return _was(store, path, data, torn=False)


def began_so(store: Store, path: str, data: bytes) -> bool:
    """Whether the file should have begun like that at some moment, as one does whose writer was killed."""
    return _was(store, path, data, torn=True)


def _was(store: Store, path: str, data: bytes, *, torn: bool) -> bool:
    place = place_of(path)
    if place is None:
        return False
    match place.form:
        case "record":
            versions = _versions(store, place.name) if _is_id(place.name) else iter(())
            return any(
                isinstance(value, Record)
                and path_of(value) == path
                and _fits(render_record(value), data, torn)
                for value in versions
            )
        case "page":
            return any(
                isinstance(value, Page) and _fits(render_page(value), data, torn)
                for value in _versions(store, place.name)
            )
        case "log":
            content = present(store, path)
            return content is not None and _log_began(place.name, content.data, data, torn)
        case "session":
            return _session_was(store, path, place, data, torn)
        case "episodic":
            return _day_was(store, path, place.name, data, torn)


def _fits(whole: bytes, data: bytes, torn: bool) -> bool:
    return whole == data or (torn and whole.startswith(data))


def _log_began(name: str, whole: bytes, data: bytes, torn: bool) -> bool:
    """Whether it is a beginning of the log, and unless it may be torn, one of whole paragraphs."""
    if not whole.startswith(data):
        return False
    rest = whole[len(data) :]
    between = rest.startswith(b"\n") if name == HISTORY else True
    return torn or (data.endswith(b"\n") and (not rest or between))


def _session_was(store: Store, path: str, place: FileLocation, data: bytes, torn: bool) -> bool:
    """Line by line: each must be a version of what stands there, the last may be torn."""
    state = _session_at(store, path, place.name)
    if state is None:
        name = session_named(place.name) or _told_id(data)
        if name is None or session_path(name) != path:
            return False
    else:
        name = state.id
    *lines, rest = data.split(b"\n")
    if (rest and not torn) or not (lines or torn):
        return False
    heads = (render_session(value, []) for value in _versions(store, name) if isinstance(value, SessionState))
    begun = lines[0] + b"\n" if lines else rest
    if not any(_fits(head, begun, torn and not lines) for head in heads):
        return False
    turns = {turn.position: render_turns([turn]) for turn in store.turns(session=name)}
    pieces = [line + b"\n" for line in lines[1:]] + ([rest] if rest and lines else [])
    return all(
        _fits(turns.get(position, b""), piece, torn and piece is rest)
        or _turn_was(store, name, position, piece)
        for position, piece in enumerate(pieces)
    )


def _turn_was(store: Store, session: str, position: int, line: bytes) -> bool:
    """Whether it is an earlier version of the turn of that position. One that is torn is known by today's."""
    name = _told_id(line)
    return name is not None and any(
        isinstance(value, Turn)
        and (value.session, value.position) == (session, position)
        and render_turns([value]) == line
        for value in _versions(store, name)
    )


def _day_was(store: Store, path: str, day: str, data: bytes, torn: bool) -> bool:
    """Whether every line is a version of a record that stood there, and none is missing on purpose.

    What is missing must have come there after all that is not: then the file is merely older. One that was
    torn while it was written may also lack what stands behind.
    """
    *lines, rest = data.split(b"\n")
    if (rest or not lines) and not torn:
        return False
    today = {record.id: record for record in records_of_day(store, day)}
    if rest and not any(render_line(record).startswith(rest) for record in today.values()):
        return False
    stays: dict[str, _Stays] = {}
    for line in lines:
        name = _told_id(line)
        if name is None or name in stays:
            return False
        stays[name] = _stays(store, name, path)
        if line + b"\n" not in stays[name].lines:
            return False
    missing = [record for name, record in today.items() if name not in stays]
    if not missing or not lines:
        return True
    end, last = _told_key(lines[-1]), max(stay.came[0] for stay in stays.values())
    return all(
        (torn and (record.created_at, record.id) > end) or _stays(store, record.id, path).came[-1] > last
        for record in missing
    )


class _Stays(NamedTuple):
    """A record at a path: the changes with which it came there, and the lines it had there."""

    came: list[int]
    lines: set[bytes]


def _stays(store: Store, id: str, path: str) -> _Stays:
    found = _Stays([], set())
    for row in _rows(store, id):
        if row.edit is None or not isinstance(row.edit.after, Record) or path_of(row.edit.after) != path:
            continue
        if row.edit.before is None or path_of(row.edit.before) != path:
            found.came.append(row.sequence)
        found.lines.add(render_line(row.edit.after))
    if not found.came:  # its past was forgotten
        found.came.append(0)
    return found


def _session_at(store: Store, path: str, name: str) -> SessionState | None:
    session = session_named(name)
    if session is not None:
        return store.session(session) if session_path(session) == path else None
    states = (overview.state for overview in store.sessions())
    return next((state for state in states if session_path(state.id) == path), None)


def _versions(store: Store, id: str) -> Iterator[Value]:
    """Every value that the journal has of a thing."""
    for row in _rows(store, id):
        if row.edit is not None:
            yield from (value for value in (row.edit.before, row.edit.after) if value is not None)


def _rows(store: Store, id: str) -> Iterator[JournalEntry]:
    after = 0
    while rows := store.journal(after=after, id=id, limit=_ROWS):
        yield from rows
        if len(rows) < _ROWS:
            return
        after = rows[-1].sequence


def _told_key(line: bytes) -> tuple[datetime, str]:
    """By what a line of our own form is sorted."""
    told = json.loads(line)
    return parse_time(told["created_at"]), told["id"]


def _told_id(line: bytes) -> str | None:
    """The id that a line of JSON tells."""
    try:
        told = json.loads(line.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return None
    name = told.get("id") if isinstance(told, dict) else None
    return name if isinstance(name, str) else None


def _is_id(text: str) -> bool:
    try:
        valid_id(text)
    except InvalidInput:
        return False
    return True
