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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from reverie.admin.transfer.batch import FoundTurns, FoundValue, ImportTerms, Item, Skipped, What
from reverie.admin.transfer.formats.foreign import skip
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.change import Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput, StoreCorrupt
from reverie.domain.filter import Filter, parse_values
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE, validate_scope
from reverie.domain.text import timestamps
from reverie.domain.text.json_values import JsonObject
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
    """

    path: Path
    records: int
    sessions: int
    turns: int
    pages: int
    paragraphs: int


def export(
    store: Store,
    target: str | os.PathLike[str],
    *,
    scope: str | Sequence[str] | None,
    at: datetime,
    overwrite: bool = False,
) -> ExportReport:
    """Write an export; the file gets its name when it is complete (see `Administration.export`).

    Args:
        at: The time now, which is written into it.
    """
    every = scope is None or scope == EVERY_SCOPE
    scopes = None if every else tuple(validate_scope(each) for each in parse_values(scope, name="scope"))
    path = resolve_path(target, name="target")
    counts = dict.fromkeys(_COUNTED, 0)
    with create_file(path, overwrite=overwrite) as file:

        def write(kind: str, data: Mapping[str, Any]) -> None:
            line = json.dumps({"type": kind, **data}, ensure_ascii=False, allow_nan=False)
            file.write(f"{line}\n".encode())

        made_at = timestamps.format_time(at)
        write("header", {"format": FORMAT, "form": "jsonl", "version": VERSION, "made_at": made_at})
        for value in _iter_exported(store, scopes):
            subject = get_subject(value)
            write(subject, value.to_dict())
            counts[f"{subject}s"] += 1
        write("end", counts)
    return ExportReport(path=path, **counts)


def _iter_exported(store: Store, scopes: tuple[str, ...] | None) -> Iterator[Value]:
    """Yield everything in the scopes, records in the order of their creation; pages and logs belong to the empty one.

    Raises:
        StoreCorrupt: something cannot be read.
    """
    wanted = Filter(scopes=scopes, archived=None)
    before = sum(store.tally("kind", wanted).values())
    ids = [record.id for record in store.find(wanted, order="created")][::-1]
    if unread := max(0, min(before, sum(store.tally("kind", wanted).values())) - len(ids)):
        raise StoreCorrupt(
            f"{unread:,} records cannot be read: run `reverie doctor --fix`, then export again"
        )
    for start in range(0, len(ids), _BATCH):
        yield from store.records(ids[start : start + _BATCH])
    for overview in sorted(
        store.sessions(scopes=scopes), key=lambda each: (each.state.created_at, each.state.id)
    ):
        session = overview.state.id
        yield overview.state
        for start in range(0, overview.turns, _BATCH):
            yield from store.turns(session=session, start=start, stop=min(start + _BATCH, overview.turns))
    if scopes is None or "" in scopes:
        yield from store.pages()
        for log in store.logs():
            yield from store.paragraphs(page=log)


# -- the file -----------------------------------------------------------------------------------------------


def is_export_header(value: object) -> bool:
    """Return whether a JSON value is the header of an export."""
    return isinstance(value, dict) and value.get("type") == "header" and value.get("format") == FORMAT


def read_export(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the content of an export.

    Raises:
        InvalidInput: it cannot be read, is not an export, or was made by a newer Reverie.
    """
    for session, group in groupby(_read_values(file, terms), key=lambda each: _get_session(each[1])):
        if session is None:
            for place, value in group:
                yield value if isinstance(value, Skipped) else FoundValue(place=place, value=value)  # type: ignore[arg-type]
            continue
        found = list(group)
        place, first = found[0]
        turns = [value for _, value in found if isinstance(value, Turn)]
        if isinstance(first, SessionState):
            state = first
        else:  # the line of the session is missing or broken: the turns count more
            state = SessionState(id=session, created_at=turns[0].at, scope=turns[0].scope)
        turns = [replace(turn, scope=state.scope) for turn in turns]
        yield FoundTurns(place=place, state=state, turns=tuple(turns))


def _get_session(value: Value | Skipped) -> str | None:
    if isinstance(value, Turn):
        return value.session
    return value.id if isinstance(value, SessionState) else None


def _read_values(file: SourceFile, terms: ImportTerms) -> Iterator[tuple[str, Value | Skipped]]:
    """Yield the values of an export with their places, and what is left out."""
    met: set[object] = set()
    for place, line in file.values():
        kind = line.get("type") if isinstance(line, dict) else None
        met.add(kind)
        if is_export_header(line):
            _validate_version(line, place)
        elif kind != "end":
            try:
                value = _parse_line(line, terms)
                unknown = Skipped(what="line", place=place, why="unsupported", detail="no known type of line")
                yield place, value or unknown
            except InvalidInput as error:
                yield place, skip(next((what for what in _KINDS if what == kind), "line"), place, error)
    if "header" not in met:
        raise InvalidInput(f"{file.name}: no export of Reverie. It has no header.")
    if "end" not in met:
        detail = "it has no last line of type 'end', so it may have been cut; the lines before were read"
        yield file.name, Skipped(what="file", place=file.name, why="broken", detail=detail)


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
