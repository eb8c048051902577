"""Copies of a memory to another place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from reverie.admin.transfer.history_file import HistoryFile, is_history_file
from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.validation import validate_progress
from reverie.files.names import resolve_path
from reverie.search.analyzer import analyze
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
