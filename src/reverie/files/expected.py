"""Expected content of files, now and at earlier times, from the store and `files.db`. Reads no file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.living_page import strip_intact_block
from reverie.domain.page import Page
from reverie.domain.text.ids import is_id
from reverie.files import layout
from reverie.files.names import parse_session_id
from reverie.files.state import FileState
from reverie.stores.living_page import read_memory_pages
from reverie.stores.protocol import Store, iter_rows


class ExpectedContent(NamedTuple):
    """Content that a file should have.

    Attributes:
        data: The bytes.
        pieces: The number of turns, paragraphs or lines of records in it; -1 for other files.
    """

    data: bytes
    pieces: int = -1


def render_expected_content(store: Store, state: FileState, path: str) -> ExpectedContent | None:
    """Return the content that a file should have now; None if there should be no file.

    Raises:
        StoreCorrupt: the content cannot be read.
    """
    return render_values(path, read_values(store, state, path))


def read_values(store: Store, state: FileState, path: str, *, start: int = 0) -> Sequence[Value]:
    """Return the values that a file should show: records in the order of their page, others in no particular order.

    Args:
        store: The store.
        state: The state of the files.
        path: The path of the file.
        start: How many turns, paragraphs or lines of records to leave out; if any, also the session itself.

    Raises:
        StoreCorrupt: something of it cannot be read.
    """
    place = layout.parse_path(path)
    if place is None:
        return []
    match place.form:
        case "record":
            records = store.records([place.name]) if is_id(place.name) else []
            own = (each for each in records if layout.build_stem(each, state.layout) is None)
            return [each for each in own if layout.build_path(each) == path]
        case "lines":
            records, home = store.records(state.read_ids(path)[start:]), layout.parse_home(path)
            kind = state.layout
            return [each for each in records if layout.build_home(each, kind) == home]
        case "session":
            session = _find_session(store, path, place.name)
            turns = [] if session is None else store.turns(session=session.id, start=start)
            return turns if session is None or start else [session, *turns]
        case "page":
            return read_memory_pages(store, [place.name])
        case "log":
            return store.paragraphs(page=place.name, start=start)


def render_values(path: str, values: Collection[Any]) -> ExpectedContent | None:
    """Return the content of a file that shows these values; None for none, and for turns without a session."""
    match layout.parse_form(path) if values else None:
        case "record":
            return ExpectedContent(layout.render_record(next(iter(values))))
        case "page":
            return ExpectedContent(next(iter(values)).content.encode())
        case "lines":
            return ExpectedContent(layout.render_lines(path, values), len(values))
        case "log":
            logged = sorted(values, key=attrgetter("position"))
            text = layout.render_addition(logged[0].page, logged, to_empty=True)
            return ExpectedContent(text, len(logged))
        case "session":
            states = [value for value in values if isinstance(value, SessionState)]
            turns = [value for value in values if isinstance(value, Turn)]
            turns.sort(key=attrgetter("position"))
            return ExpectedContent(layout.render_session(states[0], turns), len(turns)) if states else None
        case None:
            return None


def render_end(path: str, values: Sequence[Any]) -> bytes:
    """Return what values add to the end of a session, log or page of records that has others."""
    if (form := layout.parse_form(path)) == "lines":
        return layout.render_added_lines(path, values)
    if form == "log":
        return layout.render_addition(values[0].page, values, to_empty=False)
    return layout.render_turns(values)


def is_earlier_page(store: Store, path: str, data: bytes, *, after: int = 0) -> bool:
    """Return whether the file of a page should have had this content at some time.

    Args:
        store: The store.
        path: The path of the file.
        data: Its content.
        after: The number of the last entry of the journal that the file is known to show; 0 if that is not known.
    """
    written = strip_intact_block(data.decode(errors="replace")).strip()
    rows = iter_rows(store, id=path.removeprefix(f"{layout.MEMORY}/"), after=after)
    versions = (value.content for row in rows for value in row.values if isinstance(value, Page))
    return any(strip_intact_block(content).strip() == written for content in versions)


def _find_session(store: Store, path: str, name: str) -> SessionState | None:
    session = parse_session_id(name)
    if session is not None:
        return store.session(session) if layout.build_session_path(session) == path else None
    states = (overview.state for overview in store.sessions())
    return next((state for state in states if layout.build_session_path(state.id) == path), None)


def find_pending(store: Store, *, after: int) -> dict[str, list[Value]]:
    """Return the values that have changed since an entry of the journal, by id, in all their versions since.

    A killed process may have written these changes and not recorded that. So no file or line of theirs was written or
    deleted by a person.

    Args:
        store: The store.
        after: The number of the last entry that the files are known to show; 0 for none, which gives no values.
    """
    found: defaultdict[str, list[Value]] = defaultdict(list)
    for row in iter_rows(store, after=after) if after else ():
        for value in row.values:
            found[value.id] += [value]
    return found
