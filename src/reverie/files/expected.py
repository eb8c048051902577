"""Expected content of files, now and at earlier times, from the store and `files.db`. Reads no file.

A file with the content of an earlier time is merely old, and may be replaced. Any other content is an edit.
What was last written to a file is the base version of an edit. `files.db` keeps it only where the journal
cannot give it back (`decisions/0028`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, StoreCorrupt
from reverie.domain.living_page import strip_intact_block
from reverie.domain.page import HISTORY, MEMORY
from reverie.domain.record import Record
from reverie.domain.text.ids import validate_id
from reverie.files.layout import (
    FIRST_LINE,
    build_page_path,
    build_path,
    build_session_path,
    build_stem,
    parse_form,
    parse_path,
    render_added_lines,
    render_lines,
    render_log,
    render_page,
    render_record,
    render_session,
    split_numbered_path,
)
from reverie.files.names import parse_session_id
from reverie.files.state import FileRecord, LineIndex, LockedFileState, compute_checksum
from reverie.stores.living_page import read_memory_pages
from reverie.stores.protocol import Store, iter_rows_forwards


class ExpectedContent(NamedTuple):
    """Content that a file should have.

    Attributes:
        data: The bytes.
        pieces: The number of turns, paragraphs or lines of records in it; -1 for other files.
    """

    data: bytes
    pieces: int = -1


def render_expected_content(
    store: Store, index: LineIndex | LockedFileState, path: str
) -> ExpectedContent | None:
    """Return the content that a file should have now; None if there should be no file.

    Raises:
        StoreCorrupt: the content cannot be read.
    """
    return render_values(path, read_values(store, index, path))


def read_values(store: Store, index: LineIndex | LockedFileState, path: str) -> Sequence[Value]:
    """Return the values that a file should show: records in the order of their page, others in no particular order.

    Raises:
        StoreCorrupt: something of it cannot be read.
    """
    place = parse_path(path)
    if place is None:
        return []
    match place.form:
        case "record":
            records = store.records([place.name]) if is_id(place.name) else []
            return [each for each in records if has_own_file(each, index.layout) and build_path(each) == path]
        case "lines":
            stem, _ = split_numbered_path(path)
            records = store.records(index.read_ids(path))
            return [record for record in records if build_stem(record, index.layout) == stem]
        case "session":
            state = _find_session(store, path, place.name)
            return [] if state is None else [state, *store.turns(session=state.id)]
        case "page":
            return read_memory_pages(store, [place.name])
        case "log":
            return store.paragraphs(page=place.name)


def has_own_file(record: Record, layout: str) -> bool:
    """Return whether a record has a file of its own in a layout."""
    return build_stem(record, layout) is None


def render_values(path: str, values: Collection[Any]) -> ExpectedContent | None:
    """Return the content of a file that shows these values; None for none, and for turns without a session."""
    match parse_form(path) if values else None:
        case "record":
            return ExpectedContent(render_record(next(iter(values))))
        case "page":
            return ExpectedContent(render_page(next(iter(values))))
        case "lines":
            return ExpectedContent(render_lines(path, values), len(values))
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


def render_expected_records(
    store: Store, index: LineIndex | LockedFileState, paths: Iterable[str]
) -> dict[str, ExpectedContent]:
    """Return the content of those of some files that should hold one record each, read with one query.

    It is empty if a record cannot be read; `render_expected_content` tells which.
    """
    names = {path: place.name for path in paths if (place := parse_path(path)) and place.form == "record"}
    try:
        records = store.records([name for name in names.values() if is_id(name)])
    except StoreCorrupt:
        return {}
    contents = {
        build_path(record): ExpectedContent(render_record(record))
        for record in records
        if has_own_file(record, index.layout)
    }
    return {path: contents[path] for path in names if path in contents}


def iter_contents(store: Store, path: str) -> Iterator[bytes]:
    """Yield every content that the file of a record or page should have had, as far as the journal tells."""
    place = parse_path(path)
    if place is not None and (place.form == "page" or (place.form == "record" and is_id(place.name))):
        for row in iter_rows_forwards(store, id=place.name):
            for value in row.values:
                if build_path(value) == path and (content := render_values(path, [value])) is not None:
                    yield content.data


def is_earlier_content(store: Store, index: LineIndex | LockedFileState, path: str, data: bytes) -> bool:
    """Return whether a file, of which nothing else is known, should have had this content at some time.

    A session may be as it likes, because sessions are not edited by hand. A log may lack its end. The lines of a page
    of records are compared one by one, when it is imported.
    """
    place = parse_path(path)
    if place is None or place.form == "lines":
        return False
    if place.form in ("record", "page"):
        return drop_block(path, data) in (drop_block(path, each) for each in iter_contents(store, path))
    content = render_expected_content(store, index, path)
    if place.form == "session":
        session = parse_session_id(place.name) or _parse_id(data) or ""
        return content is not None or bool(store.journal(id=session, limit=1))
    if content is None or not content.data.startswith(data) or not data.endswith(b"\n"):
        return False
    return content.data == data or place.name != HISTORY or content.data[len(data) :].startswith(b"\n")


def drop_block(path: str, data: bytes) -> bytes:
    """Return the content of `MEMORY.md` without a block that nobody has edited; other content as it is."""
    if path != build_page_path(MEMORY):
        return data
    return (
        strip_intact_block(data.decode("utf-8", "surrogateescape")).strip().encode("utf-8", "surrogateescape")
    )


def _find_session(store: Store, path: str, name: str) -> SessionState | None:
    session = parse_session_id(name)
    if session is not None:
        return store.session(session) if build_session_path(session) == path else None
    states = (overview.state for overview in store.sessions())
    return next((state for state in states if build_session_path(state.id) == path), None)


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


# -- what was written --------------------------------------------------------------------------------


def keep_written(ledger: LockedFileState, file: FileRecord, data: bytes) -> None:
    """Set the record of a file with the content of the store; store its text if an edit of it needs that."""
    ledger.put_text(file, data if parse_form(file.path) in _WITH_TEXT else None)


_WITH_TEXT = frozenset({"lines", "page", "log"})


def read_base_text(store: Store, ledger: LockedFileState, path: str) -> bytes | None:
    """Return the text that was last written to a file; None if it is not known."""
    text = ledger.read_text(path)
    file = ledger.find(path) if text is None and parse_form(path) == "record" else None
    if file is None:
        return text
    try:
        for data in iter_contents(store, path):
            if (len(data), compute_checksum(data)) == (file.size, file.checksum):
                return data
    except StoreCorrupt:  # the merge reads the same entries, and reports it
        return None
    return None


_ROWS = 1_000


class PendingChanges:
    """Changes since the last journal entry that the files are known to show, by the files that they affect."""

    def __init__(self, store: Store, ledger: LockedFileState) -> None:
        """Follow the journal of a store after the last entry that a state shows; nothing is read before it is needed.

        Args:
            store: The store.
            ledger: The state. If it shows no entry, no file is known, and nothing is pending.
        """
        self._store = store
        self._ledger = ledger
        self._sequence = ledger.progress.sequence

    def may_have_removed(self, path: str) -> bool:
        """Return whether something was moved away from a path, or removed; of a page, all its records."""
        if parse_form(path) == "lines":
            return any(not lines for lines in self._iter_lines(path))
        return any(_is_at(each.before, path) and not _is_at(each.after, path) for each in self._find(path))

    def may_have_written(self, path: str, data: bytes) -> bool:
        """Return whether a file should have had this content at some moment; of a page, in any order."""
        if parse_form(path) == "lines":
            written = sorted(data.splitlines())
            header = FIRST_LINE.splitlines()
            return any(sorted([*header, *lines]) == written for lines in self._iter_lines(path))
        changes = self._find(path)
        present = read_values(self._store, self._ledger, path) if changes else ()
        values = {value.id: value for value in present}
        for change in (*reversed(changes), None):
            content = render_values(path, values.values())
            if content is not None and drop_block(path, content.data) == drop_block(path, data):
                return True
            if change is not None and _is_at(change.after, path):
                values.pop(change.id, None)
            if change is not None and change.before is not None and _is_at(change.before, path):
                values[change.id] = change.before
        return False

    def _iter_lines(self, path: str) -> Iterator[list[bytes]]:
        """Yield the lines that a page should have had after each change since it was known."""
        stem, _ = split_numbered_path(path)
        text = self._ledger.read_text(path) if self._ledger.find(path) is not None else None
        lines = (text or b"").removeprefix(FIRST_LINE).splitlines()
        for change in self._find(f"{stem}.md"):
            before, after = (
                render_added_lines(path, [value]).rstrip(b"\n")
                if isinstance(value, Record) and build_stem(value, self._ledger.layout) == stem
                else None
                for value in (change.before, change.after)
            )
            if before is not None and before not in lines:
                continue  # it is on another page of the category
            if before is not None:
                lines.remove(before)
            if after is not None:
                lines.append(after)
            yield lines

    def _find(self, path: str) -> list[Change]:
        return self._by_path.get(path, [])

    @cached_property
    def _by_path(self) -> dict[str, list[Change]]:
        found: dict[str, list[Change]] = {}
        after = self._sequence
        while after and (rows := self._store.journal(after=after, limit=_ROWS)):
            for row in rows:
                if row.edit is not None:
                    for path in set(map(self._locate, row.values)):
                        found.setdefault(path, []).append(row.edit)
            after = rows[-1].sequence
        return found

    def _locate(self, value: Value) -> str:
        """Return the path of the file that contains a value, or of the first page for it."""
        stem = build_stem(value, self._ledger.layout) if isinstance(value, Record) else None
        return build_path(value) if stem is None else f"{stem}.md"


def _is_at(value: Value | None, path: str) -> bool:
    return value is not None and build_path(value) == path
