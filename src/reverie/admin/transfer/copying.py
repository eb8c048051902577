"""Copies of a memory to a folder, a database, or a file with its history, which is the source of a copy again.

Such a file has JSON lines:

    {"type": "header", "format": "reverie", "form": "history", "version": 1}
    {"type": "change", "sequence": 1, "batch": 1, "at": …, "actor": …, "operation": …, "note": …, "reference": …,
     "key": 1, "subject": "record", "id": …, "before": null, "after": {…}}      every change, in order
    {"type": "entry", "namespace": …, "key": …, "data": …, …}                   working memory
    {"type": "rest", "cursors": {…}, "counters": {…}, "tombstones": […]}        what no change tells
    {"type": "end", "changes": …}                                               so that a cut file is noticed

Records, turns, sessions, pages and paragraphs are the values in `before` and `after`, with all fields. An erased change
has neither. The file is read as a source of a copy, so the new memory is compared with it change by change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, translate_os_errors
from reverie.domain.filter import Filter
from reverie.domain.text.json_values import JsonObject, to_json_value
from reverie.domain.text.validation import validate_progress
from reverie.files.atomic import create_file
from reverie.files.names import resolve_path
from reverie.search.analyzer import analyze
from reverie.stores.base import CopiedRow, Unjournaled
from reverie.stores.postgres.connections import is_postgres_url
from reverie.stores.protocol import Store, iterate_rows
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.rewriting import SQLiteCopyTarget

if TYPE_CHECKING:
    from reverie.stores.postgres.copying import PostgresCopyTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport(JsonObject):
    """Report of a copy.

    Attributes:
        changes: Rows of the journal.
        records: Records, archived ones too.
        sessions: Sessions.
        resumed_after: How many rows an earlier copy that was interrupted had made.
    """

    changes: int
    records: int
    sessions: int
    resumed_after: int


def copy_memory(
    source: str, target: str, *, progress: Callable[[int], None] = lambda done: None
) -> CopyReport:
    """Copy a memory to a place that has none yet.

    Changes that are made to the source while the last of it is copied are not in the copy: stop what uses it first,
    or copy again to another place.

    Args:
        source: A folder, the URL of a database, or a file with a history.
        target: A folder, or the URL of a database.
        progress: Callback that receives how many more changes were copied.

    Raises:
        NotFound: there is no memory at the source.
        InvalidInput: there is one at the target, or an unfinished copy of another.
        StoreCorrupt: the copy differs from the source; it has not got its name.
    """
    note = validate_progress(progress)
    with ExitStack() as stack:
        reader = stack.enter_context(closing(_read_file(source) or open_source(source)))
        copied, writer = _open_target(target)
        stack.callback(copied.close)
        if isinstance(writer, SQLiteCopyTarget):
            stack.callback(writer.close)
        resumed = copied.sequence()
        _refuse_other(reader, copied, resumed)
        with reader.reading():
            for rows in iterate_rows(reader, after=resumed):
                writer.write_rows(rows)
                note(len(rows))
            writer.finish(reader.read_unjournaled())
            report = _compare(reader, copied, resumed)
        if isinstance(copied, SQLiteStore):
            copied.close()  # a file is renamed when nothing has it open
        writer.publish()
    return report


def _compare(reader: Store | HistoryFile, copied: Store, resumed: int) -> CopyReport:
    """Compare a finished copy with its source; return the report."""
    changes = 0
    for ours, theirs in zip_longest(iterate_rows(reader), iterate_rows(copied)):
        # The id of what was erased is no part of the journal: a store may keep it for longer than another.
        if [row[:-1] for row in ours or ()] != [row[:-1] for row in theirs or ()]:
            raise StoreCorrupt(
                f"the copy differs from the source after change {changes}: remove it and copy again"
            )
        changes += len(ours)
    problems = copied.check()
    if problems or not _has_same_rest(reader, copied):
        what = problems[0].what if problems else "what is not in the journal differs"
        raise StoreCorrupt(f"the copy is not sound ({what}): remove it and copy again")
    return CopyReport(
        changes=changes,
        records=sum(copied.tally("kind", Filter(archived=None)).values()),
        sessions=len(copied.sessions()),
        resumed_after=resumed,
    )


def _has_same_rest(reader: Store | HistoryFile, copied: Store) -> bool:
    ours, theirs = reader.read_unjournaled(), copied.read_unjournaled()
    return (
        {(entry.namespace, entry.key): entry for entry in ours.entries}
        == {(entry.namespace, entry.key): entry for entry in theirs.entries}
        and ours.cursors == theirs.cursors
        and ours.counters == theirs.counters
        and set(ours.tombstones) == set(theirs.tombstones)
    )


def _refuse_other(reader: Store | HistoryFile, copied: Store, resumed: int) -> None:
    """Raise `InvalidInput` if the unfinished copy at the target is one of another memory."""
    if resumed and reader.read_rows(resumed - 1, 1) != copied.read_rows(resumed - 1, 1):
        raise InvalidInput("there is an unfinished copy of another memory at the target: name another place")


def _read_file(place: str) -> HistoryFile | None:
    """Return a file with a history; None if a place is none."""
    if is_postgres_url(place) or not is_history_file(path := resolve_path(place)):
        return None
    return HistoryFile(path)


def open_source(place: str) -> Store:
    """Return the store in a folder or a database.

    Raises:
        NotFound: there is no memory.
    """
    if is_postgres_url(place):
        from reverie.stores.postgres import PostgresStore

        return PostgresStore(place, analyse=analyze, create=False)
    database = _find_database(place)
    if not database.exists():
        raise NotFound(f"no memory in {str(database.parent)!r}: name its folder, or the URL of a database")
    return SQLiteStore(database, analyse=analyze, create=False)


def _open_target(place: str) -> tuple[Store, SQLiteCopyTarget | PostgresCopyTarget]:
    if is_postgres_url(place):
        from reverie.stores.postgres.copying import PostgresCopyTarget

        shared = PostgresCopyTarget(place, analyse=analyze)
        return shared.store, shared
    target = SQLiteCopyTarget(_find_database(place))
    return SQLiteStore(target.draft, analyse=analyze), target


def _find_database(place: str) -> Path:
    return resolve_path(place) / DATABASE


# -- a file with the history ---------------------------------------------------------------------------------


HEADER = {"type": "header", "format": "reverie", "form": "history", "version": 1}
_DOCUMENTS = ("before", "after")


def is_history_file(path: Path) -> bool:
    """Return whether a file begins with the header of a history."""
    try:
        with path.open(encoding="utf-8") as file:
            return bool(json.loads(file.readline(1_000) or "null") == HEADER)
    except (OSError, ValueError):
        return False


def write_history(source: Store, target: Path, *, overwrite: bool = False) -> int:
    """Write everything of a store into a file, which gets its name when it is complete; return the number of changes.

    Raises:
        InvalidInput: the name is taken.
        StoreUnavailable: the file cannot be written.
    """
    changes = 0
    with create_file(target, overwrite=overwrite) as file, source.reading():

        def write(line: dict[str, Any]) -> None:
            file.write(f"{json.dumps(line, ensure_ascii=False)}\n".encode())

        write(HEADER)
        for rows in iterate_rows(source):
            for row in rows:
                documents = {name: _open_document(getattr(row, name)) for name in _DOCUMENTS}
                write({"type": "change", **row._asdict(), **documents})
            changes += len(rows)
        rest = source.read_unjournaled()
        for entry in rest.entries:
            write(
                {"type": "entry", **{name: to_json_value(getattr(entry, name)) for name in Entry.__slots__}}
            )
        kept = {"cursors": dict(rest.cursors), "counters": dict(rest.counters)}
        write({"type": "rest", **kept, "tombstones": [*rest.tombstones]})
        write({"type": "end", "changes": changes})
    return changes


def _open_document(document: str | None) -> Any:
    """Return the value of a document, or its text if writing the value again would give another text."""
    if document is None:
        return None
    value = json.loads(document)
    return value if _close_document(value) == document else document


def _close_document(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class HistoryFile:
    """A file of `write_history` as the source of a copy.

    Args:
        path: The file.

    Raises:
        InvalidInput: it is cut, or a line is broken.
        StoreUnavailable: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = self._iterate()
        self._position = 0
        self._rest = self._read_rest()

    def reading(self) -> AbstractContextManager[None]:
        """Return a block; a file does not change."""
        return nullcontext()

    def close(self) -> None:
        """Release the file."""
        self._rows.close()

    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return changes with larger numbers, in ascending order; quickest where the last call ended."""
        if after != self._position:
            self._rows.close()
            self._rows = self._iterate(after)
        rows = [*islice(self._rows, limit)]
        self._position = rows[-1].sequence if rows else after
        return rows

    def read_unjournaled(self) -> Unjournaled:
        """Return what no change tells."""
        return self._rest

    def _lines(self) -> Iterator[dict[str, Any]]:
        with (
            translate_os_errors(f"{str(self._path)!r} cannot be read"),
            self._path.open(encoding="utf-8") as file,
        ):
            for number, line in enumerate(file, start=1):
                try:
                    value = json.loads(line)
                    yield {"type": value.pop("type"), "line": value}
                except (ValueError, KeyError, AttributeError) as error:
                    raise InvalidInput(
                        f"{self._path.name}, line {number} is broken ({error}): export again"
                    ) from None

    def _iterate(self, after: int = 0) -> Generator[CopiedRow, None, None]:
        for each in self._lines():
            if each["type"] == "change" and each["line"]["sequence"] > after:
                line = each["line"]
                yield CopiedRow(**{**line, **{name: _close_document(line[name]) for name in _DOCUMENTS}})

    def _read_rest(self) -> Unjournaled:
        entries, rest, changes, told = [], None, 0, None
        for each in self._lines():
            line = each["line"]
            changes += each["type"] == "change"
            if each["type"] == "entry":
                times = {name: _parse_time(line[name]) for name in ("stored_at", "expires_at")}
                entries.append(Entry(**{**line, **times, "tags": tuple(line["tags"])}))
            elif each["type"] == "rest":
                rest = line
            elif each["type"] == "end":
                told = line["changes"]
        if rest is None or told != changes:
            raise InvalidInput(
                f"{self._path.name} was cut: it has {changes:,} changes and no end. Export again."
            )
        return Unjournaled(entries=entries, **rest)


def _parse_time(text: str | None) -> Any:
    return None if text is None else datetime.fromisoformat(text)
