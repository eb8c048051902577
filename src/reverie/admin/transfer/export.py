"""Export of a store as JSON lines.

It has every field of records, sessions, turns, pages and logs, and can be imported again. The
journal, the marks of erased content and working memory are in a backup, not in an export.

Others may write meanwhile: every record and every session is exported as it is when it is reached.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from reverie.admin.transfer.atomic_writes import create_file
from reverie.admin.transfer.formats.own import ExportWriter
from reverie.admin.transfer.items import Skipped
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter, parse_values
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE, validate_scope
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.validation import validate_progress
from reverie.files.names import resolve_path
from reverie.stores.protocol import Store

_BATCH = 500

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport(JsonObject):
    """Result of an export.

    Attributes:
        path: The file.
        records: How many records.
        sessions: How many sessions.
        turns: How many turns.
        pages: How many pages.
        paragraphs: How many paragraphs of logs.
        left_out: What could not be read in the store and is missing in the export.
    """

    path: Path
    records: int
    sessions: int
    turns: int
    pages: int
    paragraphs: int
    left_out: tuple[Skipped, ...] = ()


def export(
    store: Store,
    target: str | os.PathLike[str],
    *,
    scope: str | Sequence[str] | None,
    at: datetime,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ExportReport:
    """Write an export; the file gets its name when it is complete (see `Administration.export`).

    Args:
        at: The time now, which is written into it.
    """
    every = scope is None or scope == EVERY_SCOPE
    scopes = None if every else tuple(validate_scope(each) for each in parse_values(scope, name="scope"))
    run = _Export(store, scopes, validate_progress(progress))
    path = resolve_path(target, name="target")
    with create_file(path, overwrite=overwrite) as file:
        run.write(ExportWriter(file, at=at))
    return run.summarize_export(path)


class _Export:
    """State of one export."""

    def __init__(self, store: Store, scopes: tuple[str, ...] | None, progress: Callable[[int], None]) -> None:
        self._store = store
        self._scopes = scopes
        self._progress = progress
        self._counts = Counter[str](records=0, sessions=0, turns=0, pages=0, paragraphs=0)
        self._left_out: list[Skipped] = []

    def write(self, writer: ExportWriter) -> None:
        """Write everything in the scopes; pages and logs belong to the empty one."""
        for record in self._iter_records():
            writer.put(record)
            self._count("records")
        for overview in self._list_sessions():
            writer.put(overview.state)
            for turn in self._iter_turns(overview):
                writer.put(turn)
            self._counts["sessions"] += 1
        if self._scopes is None or "" in self._scopes:
            for page in self._store.pages():
                writer.put(page)
                self._counts["pages"] += 1
            for name in self._store.logs():
                paragraphs = self._store.paragraphs(page=name)
                for paragraph in paragraphs:
                    writer.put(paragraph)
                self._counts["paragraphs"] += len(paragraphs)
        writer.finish(dict(self._counts))

    def summarize_export(self, path: Path) -> ExportReport:
        """Return the report of the export."""
        return ExportReport(path=path, left_out=tuple(self._left_out), **self._counts)

    def _iter_records(self) -> Iterator[Record]:
        """Yield records, the oldest first, so that an import stores them in this order."""
        wanted = Filter(scopes=self._scopes, archived=None)
        before = sum(self._store.tally("kind", wanted).values())
        ids = [record.id for record in self._store.find(wanted, order="created")]
        missing = min(before, sum(self._store.tally("kind", wanted).values())) - len(ids)
        if missing > 0:
            self._leave_out("record", "the store", missing)
        ids.reverse()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            yield from self._read_readable(
                batch, self._store.records, "record", lambda name: f"record {name!r}"
            )

    def _list_sessions(self) -> list[SessionOverview]:
        overviews = self._store.sessions(scopes=self._scopes)
        return sorted(overviews, key=lambda each: (each.state.created_at, each.state.id))

    def _iter_turns(self, overview: SessionOverview) -> Iterator[Turn]:
        session = overview.state.id

        def read(positions: Sequence[int]) -> list[Turn]:
            return self._store.turns(session=session, start=positions[0], stop=positions[-1] + 1)

        for start in range(0, overview.turns, _BATCH):
            positions = range(start, min(start + _BATCH, overview.turns))
            place = f"session {session!r}, position {{}}"
            for turn in self._read_readable(positions, read, "turn", place.format):
                yield turn
                self._count("turns")

    def _read_readable(
        self,
        keys: Sequence[_K],
        read: Callable[[Sequence[_K]], list[_V]],
        what: Literal["record", "turn"],
        name: Callable[[_K], str],
    ) -> list[_V]:
        """Return what stands under some keys, and leave out what cannot be read."""
        try:
            return read(keys)
        except StoreCorrupt:
            if len(keys) > 1:
                return [value for key in keys for value in self._read_readable([key], read, what, name)]
            self._leave_out(what, name(keys[0]), 1)
            return []

    def _leave_out(self, what: Literal["record", "turn"], place: str, count: int) -> None:
        detail = "it cannot be read; `check` names it"
        self._left_out.append(Skipped(what=what, place=place, why="broken", detail=detail, count=count))

    def _count(self, what: str) -> None:
        self._counts[what] += 1
        self._progress(1)
