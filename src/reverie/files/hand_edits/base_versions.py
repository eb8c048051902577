"""What did the person begin with? The version of a file that stood there, found in the journal.

A merge needs it: what differs from it is what the person changed. The state knows the checksum of what was
last written, and here the versions that the journal holds are rendered until one has it. But an editor may
have had the file open before that: what is saved then does not have what the program wrote since, and that
must not count as taken out. So what the program did just before is told too (`unseen`), for
`deciding` to look whether the person can have seen it.

Where nothing has the checksum (the state was lost, or what the journal said was forgotten), the version most
like the file is the best guess for a record or a page, and nothing is the answer for a file of many things:
then nobody can tell what is missing from it on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.similarity.three_way_merge import match_items
from reverie.files.disk.state import FileRecord, compute_checksum
from reverie.files.layout import build_path, render_line, render_log, render_session, render_turns
from reverie.stores.protocol import Store

ACTOR = "owner, by hand"
"""Who the journal names for what a person did in a file."""

OPEN_FOR = timedelta(minutes=2)
"""What the program did so shortly before a file was saved a person may not have seen in it. Longer, and a
line that the program got wrong could not simply be deleted; shorter, and more edits that were begun before it
was written would undo it."""

_MOST_VERSIONS = 1_000
_MOST_COMPARED = 50
_MOST_ROWS = 5_000
_ROWS = 500

_V = TypeVar("_V", Record, Page, Turn, SessionState, Paragraph)


@dataclass(frozen=True, slots=True)
class ProgramChange(Generic[_V]):
    """What the program made of a thing.

    Attributes:
        before: What it was; None when it was new.
        after: What it became; None when it went.
    """

    before: _V | None
    after: _V | None


def list_versions(store: Store, name: str, sort: type[_V]) -> list[_V]:
    """The versions of one thing that the journal holds, the newest first, none twice in a row.

    Args:
        store: Where the journal is.
        name: The id of the thing.
        sort: What it is, such as `Record`.
    """
    found: list[_V] = []
    for row in store.journal(id=name, newest_first=True, limit=_MOST_VERSIONS):
        for value in () if row.edit is None else (row.edit.after, row.edit.before):
            if isinstance(value, sort) and (not found or found[-1] != value):
                found.append(value)
    return found


def list_unseen_changes(
    store: Store, name: str, sort: type[_V], saved_at: datetime
) -> list[ProgramChange[_V]]:
    """What the program did to a thing that a person who saved a file at that moment may not have seen in it.

    That is what was done within `OPEN_FOR` before: an editor may have had the file open so long.
    """
    found: list[ProgramChange[_V]] = []
    for row in store.journal(id=name, newest_first=True, limit=_MOST_VERSIONS):
        if row.at < saved_at - OPEN_FOR:
            break
        if row.actor == ACTOR or row.edit is None:
            continue
        before, after = row.edit.before, row.edit.after
        found.append(
            ProgramChange(
                before if isinstance(before, sort) else None,
                after if isinstance(after, sort) else None,
            )
        )
    return found


def find_written_version(
    known: Sequence[_V], render: Callable[[_V], bytes], written: FileRecord | None
) -> int | None:
    """Which version its file said when it was last written, as a place in the sequence; None for none."""
    places = (number for number, value in enumerate(known) if _is(render(value), written))
    return next(places, None)


def find_closest_version(known: Sequence[_V], fields: Mapping[str, Any]) -> _V | None:
    """The version that shares the most fields with what a file says, the newest of several."""
    return max(known, key=lambda value: _count_shared_fields(value, fields), default=None)


def find_closest_page(known: Sequence[Page], text: str) -> Page | None:
    """The version that differs from a text in the fewest words and lines, the newest of several.

    Words, because a line that was corrected is closer to what it was than to nothing.
    """
    words, lines = text.split(), text.split("\n")

    def difference(page: Page) -> tuple[int, int]:
        old_words, old_lines = page.content.split(), page.content.split("\n")
        return (
            len(old_words) + len(words) - 2 * len(match_items(old_words, words)),
            len(old_lines) + len(lines) - 2 * len(match_items(old_lines, lines)),
        )

    return min(known[:_MOST_COMPARED], key=difference, default=None)


@dataclass(frozen=True, slots=True)
class FileParts:
    """What a file of many things said: the records of a day, the paragraphs of a log, a session's turns.

    Attributes:
        state: What was kept of the session; None for other files.
        values: The rest, in the order of the file.
    """

    state: SessionState | None
    values: tuple[Record | Paragraph | Turn, ...]


def reconstruct_written_pieces(
    store: Store, path: str, present: FileParts, written: FileRecord | None
) -> FileParts | None:
    """What a file of many things said when it was last written; None if the journal does not tell.

    The changes since then are taken back one by one, the newest first, until what the file would say has the
    checksum of what was written. At most the last 5,000 changes are looked at.

    Args:
        store: Where the journal is.
        path: Which file.
        present: What it should say now.
        written: What is known of it as it was last written; None: nothing.
    """
    if written is None:
        return None
    walk = _Walk(path, present)
    if walk.is_as_written(written):
        return walk.pieces()
    for row in _iter_newest_rows(store):
        if row.edit is None:
            return None  # what it was has been forgotten
        before, after = row.edit.before, row.edit.after
        if not any(value is not None and build_path(value) == path for value in (before, after)):
            continue
        walk.take_back(row)
        if walk.is_as_written(written):
            return walk.pieces()
    return None


class _Walk:
    """What a file would have said, further and further back."""

    def __init__(self, path: str, present: FileParts) -> None:
        self._path = path
        self._state = present.state
        self._values = {value.id: value for value in present.values}
        self._sizes = {value.id: _compute_size(value) for value in present.values}

    def take_back(self, row: JournalEntry) -> None:
        assert row.edit is not None
        before = row.edit.before
        if row.subject == "session":
            self._state = before if isinstance(before, SessionState) else None
            return
        self._values.pop(row.edit.id, None)
        self._sizes.pop(row.edit.id, None)
        if isinstance(before, Record | Paragraph | Turn) and build_path(before) == self._path:
            self._values[before.id] = before
            self._sizes[before.id] = _compute_size(before)

    def is_as_written(self, written: FileRecord) -> bool:
        """Whether this is what was written; rendered only when the length may be right."""
        size = sum(self._sizes.values()) + self._count_separator_bytes()
        if self._state is not None:
            size += len(render_session(self._state, []))
        if size != written.size:
            return False
        return _is(render_pieces(self.pieces()), written)

    def _count_separator_bytes(self) -> int:
        """How many bytes stand between the paragraphs of a log and at its end."""
        count = sum(isinstance(value, Paragraph) for value in self._values.values())
        return max(0, 2 * count - 1) if self._path.endswith(f"/{HISTORY}") else count

    def pieces(self) -> FileParts:
        return FileParts(self._state, tuple(sorted(self._values.values(), key=_get_sort_key)))


def render_pieces(pieces: FileParts) -> bytes:
    """What a file of many things says that has these in it."""
    turns = [value for value in pieces.values if isinstance(value, Turn)]
    if pieces.state is not None:
        return render_session(pieces.state, turns)
    paragraphs = [value for value in pieces.values if isinstance(value, Paragraph)]
    if paragraphs:
        return render_log(paragraphs[0].page, paragraphs)
    return b"".join(render_line(value) for value in pieces.values if isinstance(value, Record))


def _iter_newest_rows(store: Store) -> Iterator[JournalEntry]:
    until = store.sequence()
    for _ in range(_MOST_ROWS // _ROWS):
        rows = store.journal(until=until, newest_first=True, limit=_ROWS)
        yield from rows
        if len(rows) < _ROWS:
            return
        until = rows[-1].sequence - 1


def _compute_size(value: Record | Paragraph | Turn) -> int:
    if isinstance(value, Record):
        return len(render_line(value))
    return len(value.content.encode()) if isinstance(value, Paragraph) else len(render_turns([value]))


def _get_sort_key(value: Record | Paragraph | Turn) -> tuple[Any, ...]:
    match value:
        case Record():
            return (value.created_at, value.id)
        case Turn():
            return (value.position,)
        case Paragraph():
            return (value.position,)


def _count_shared_fields(value: object, fields: Mapping[str, Any]) -> int:
    return sum(getattr(value, name) == told for name, told in fields.items())


def _is(data: bytes, written: FileRecord | None) -> bool:
    return written is not None and len(data) == written.size and compute_checksum(data) == written.checksum
