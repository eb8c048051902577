"""Export of a store as JSON lines: how it is made, written and read.

    {"type": "header", "format": "reverie", "form": "jsonl", "version": 1, "made_at": …}
    {"type": "record", "id": …, …}            every record, the oldest first
    {"type": "session", "id": …, …}           a session, followed by its turns
    {"type": "turn", "id": …, …}
    {"type": "page", "name": …, …}
    {"type": "paragraph", "id": …, …}
    {"type": "end", "records": …, …}          the counts, so that a truncated file is noticed

It has every field of records, sessions, turns, pages and logs, so importing it gives equal values. The
journal, the marks of erased content and working memory are in a backup, not in an export.

Others may write meanwhile: every record and every session is exported as it is when it is reached.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from reverie.admin.transfer.batch import FoundTurns, FoundValue, ImportTerms, Item, Skipped, What
from reverie.admin.transfer.formats.foreign import PIECE, skip
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.change import Value, get_subject
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.errors import InvalidInput, StoreCorrupt
from reverie.domain.filter import Filter, parse_values
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE, validate_scope
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.validation import validate_progress
from reverie.files.atomic import create_file
from reverie.files.names import resolve_path
from reverie.stores.protocol import Store

FORMAT = "reverie"
VERSION = 1
"""The newest version of an export that can be read, and the version that is written."""

_KINDS: Mapping[What, type[Any]] = {
    "record": Record, "turn": Turn, "session": SessionState, "page": Page, "paragraph": Paragraph,
}  # fmt: skip
_COUNTED = ("records", "sessions", "turns", "pages", "paragraphs")
_LARGEST = 2**53
_T = TypeVar("_T", Record, Turn, SessionState, Page, Paragraph)

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
    report = validate_progress(progress)
    path = resolve_path(target, name="target")
    with create_file(path, overwrite=overwrite) as file:
        run = _Export(store, scopes, file, report)
        run.write(at)
    return ExportReport(path=path, left_out=tuple(run.left_out), **run.counts)


@dataclass
class _Export:
    """State of one export.

    Attributes:
        store: The store.
        scopes: The exported scopes; None for all.
        file: The file.
        progress: Receives the number of records and turns written since the last call.
        counts: Number of exported things of each type.
        left_out: What could not be read.
    """

    store: Store
    scopes: tuple[str, ...] | None
    file: BinaryIO
    progress: Callable[[int], None]
    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_COUNTED, 0)))
    left_out: list[Skipped] = field(default_factory=list)

    def write(self, at: datetime) -> None:
        """Write everything in the scopes; pages and logs belong to the empty one."""
        made_at = timestamps.format_time(at)
        header = {"format": FORMAT, "form": "jsonl", "version": VERSION, "made_at": made_at}
        self._write_line({"type": "header", **header})
        for record in self._iter_records():
            self._put(record)
            self.progress(1)
        for overview in self._list_sessions():
            self._put(overview.state)
            for turn in self._iter_turns(overview):
                self._put(turn)
                self.progress(1)
        if self.scopes is None or "" in self.scopes:
            for page in self.store.pages():
                self._put(page)
            for log in self.store.logs():
                for paragraph in self.store.paragraphs(page=log):
                    self._put(paragraph)
        self._write_line({"type": "end", **self.counts})

    def _put(self, value: Value) -> None:
        self._write_line({"type": get_subject(value), **value.to_dict()})
        self.counts[f"{get_subject(value)}s"] += 1

    def _write_line(self, data: dict[str, Any]) -> None:
        self.file.write(f"{json.dumps(data, ensure_ascii=False, allow_nan=False)}\n".encode())

    def _iter_records(self) -> Iterator[Record]:
        """Yield records, the oldest first, so that an import stores them in this order."""
        wanted = Filter(scopes=self.scopes, archived=None)
        before = sum(self.store.tally("kind", wanted).values())
        ids = [record.id for record in self.store.find(wanted, order="created")]
        missing = min(before, sum(self.store.tally("kind", wanted).values())) - len(ids)
        if missing > 0:
            self._leave_out("record", "the store", missing)
        ids.reverse()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            yield from self._read_readable(
                batch, self.store.records, "record", lambda name: f"record {name!r}"
            )

    def _list_sessions(self) -> list[SessionOverview]:
        overviews = self.store.sessions(scopes=self.scopes)
        return sorted(overviews, key=lambda each: (each.state.created_at, each.state.id))

    def _iter_turns(self, overview: SessionOverview) -> Iterator[Turn]:
        session = overview.state.id

        def read(positions: Sequence[int]) -> list[Turn]:
            return self.store.turns(session=session, start=positions[0], stop=positions[-1] + 1)

        for start in range(0, overview.turns, _BATCH):
            positions = range(start, min(start + _BATCH, overview.turns))
            place = f"session {session!r}, position {{}}"
            yield from self._read_readable(positions, read, "turn", place.format)

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
        self.left_out.append(Skipped(what=what, place=place, why="broken", detail=detail, count=count))


# -- the file -----------------------------------------------------------------------------------------------


def is_export_header(value: object) -> bool:
    """Return whether a JSON value is the header of an export."""
    return isinstance(value, dict) and value.get("type") == "header" and value.get("format") == FORMAT


def read_export(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the content of an export.

    Raises:
        InvalidInput: it cannot be read, is not an export, or was made by a newer Reverie.
    """
    met: set[object] = set()
    session: FoundTurns | None = None
    for place, line in file.values():
        kind = line.get("type") if isinstance(line, dict) else None
        met.add(kind)
        if is_export_header(line):
            _validate_version(line, place)
            continue
        try:
            value = None if kind == "end" else _parse_line(line, terms)
        except InvalidInput as error:
            yield skip(next((what for what in _KINDS if what == kind), "line"), place, error)
            continue
        if isinstance(value, Turn):
            if session is None or session.state.id != value.session:
                yield from () if session is None else (session,)
                # The line of its session is missing or broken: the turn counts more.
                state = SessionState(id=value.session, created_at=value.at, scope=value.scope)
                session = FoundTurns(place=place, state=state, turns=())
            elif len(session.turns) >= PIECE:
                yield session
                session = replace(session, turns=())
            session = replace(session, turns=(*session.turns, replace(value, scope=session.state.scope)))
            continue
        yield from () if session is None else (session,)
        session = FoundTurns(place=place, state=value, turns=()) if isinstance(value, SessionState) else None
        if isinstance(value, Record | Page | Paragraph):
            yield FoundValue(place=place, value=value)
        elif value is None and kind != "end":
            yield Skipped(what="line", place=place, why="unsupported", detail="no known type of line")
    yield from () if session is None else (session,)
    if "header" not in met:
        raise InvalidInput(f"{file.name}: no export of Reverie. It has no header.")
    if "end" not in met:
        detail = "it has no last line of type 'end', so it may have been cut; the lines before were read"
        yield Skipped(what="file", place=file.name, why="broken", detail=detail)


def _parse_line(line: Any, terms: ImportTerms) -> Value | None:
    """Return the value of a line under the terms of an import; None for an unknown type."""
    if not isinstance(line, dict):
        raise line if isinstance(line, InvalidInput) else InvalidInput("not an object")
    kind = _KINDS.get(line["type"]) if isinstance(line.get("type"), str) else None
    if kind is None:
        return None
    return terms.apply(_parse(kind, {name: field for name, field in line.items() if name != "type"}))


def _validate_version(data: Mapping[str, Any], place: str) -> None:
    """Raise `InvalidInput` if an export was made by a newer Reverie."""
    version = data.get("version")
    if not isinstance(version, int) or version < 1:
        raise InvalidInput(f"{place}: no version {version!r} of exports exists.")
    if version > VERSION:
        raise InvalidInput(
            f"{place}: it was made by a newer Reverie (version {version}, this one knows up to {VERSION}). "
            "Upgrade Reverie."
        )


def _parse(kind: type[_T], data: Mapping[str, Any]) -> _T:
    """Return the value of an object; raise `InvalidInput` if it is invalid."""
    for name, number in data.items():
        if isinstance(number, int) and number > _LARGEST:
            raise InvalidInput(f"{name} is {number}: at most {_LARGEST} can be stored")
    try:
        return kind.from_dict(data)
    except InvalidInput:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        raise InvalidInput("a field is missing or has a value of another type") from None
