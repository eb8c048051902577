"""Reverie's own export, JSON lines: how it is written and read.

    {"type": "header", "format": "reverie", "form": "jsonl", "version": 1, "made_at": …}
    {"type": "record", "id": …, …}            every record, the oldest first
    {"type": "session", "id": …, …}           a session, followed by its turns
    {"type": "turn", "id": …, …}
    {"type": "page", "name": …, …}
    {"type": "paragraph", "id": …, …}
    {"type": "end", "records": …, …}          the counts, so that a truncated file is noticed

It has everything that `to_dict` returns, so importing it gives equal values. Reading validates every field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, TypeVar

from reverie.admin.transfer.formats.foreign import PIECE, skip
from reverie.admin.transfer.items import Form, FoundTurns, FoundValue, ImportTerms, Item, Skipped, What
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.change import Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.text import timestamps

FORMAT = "reverie"
VERSION = 1
"""The newest version of an export that can be read, and the version that is written."""

_TYPES: tuple[What, ...] = ("record", "turn", "session", "page", "paragraph")
_LARGEST = 2**53
_T = TypeVar("_T", Record, Turn, SessionState, Page, Paragraph)


class ExportWriter:
    """Writer of an export to an open file."""

    def __init__(self, file: BinaryIO, *, at: datetime) -> None:
        """Write the header.

        Args:
            file: The file.
            at: When the export is made.
        """
        self._file = file
        header = {
            "format": FORMAT,
            "form": "jsonl",
            "version": VERSION,
            "made_at": timestamps.format_time(at),
        }
        self._write({"type": "header", **header})

    def put(self, value: Value) -> None:
        """Write a record, a session, a turn, a page or a paragraph."""
        self._write({"type": get_subject(value), **value.to_dict()})

    def finish(self, counts: Mapping[str, int]) -> None:
        """Write the last line."""
        self._write({"type": "end", **counts})

    def _write(self, data: dict[str, Any]) -> None:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        self._file.write(f"{text}\n".encode())


class OwnExport:
    """The format of Reverie's own exports."""

    form: Form = "jsonl"

    def recognises(self, value: object) -> bool:
        """Return whether a value is the header of an export."""
        return isinstance(value, dict) and value.get("type") == "header" and value.get("format") == FORMAT

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the content of an export.

        Raises:
            InvalidInput: it cannot be read, is not an export, or was made by a newer Reverie.
        """
        reading = _Reading(file.name, terms)
        for place, value in file.values():
            if isinstance(value, InvalidInput):
                yield skip("line", place, value)
            elif not isinstance(value, dict):
                yield Skipped(what="line", place=place, why="broken", detail="not an object")
            else:
                yield from reading.take(value, place)
        yield from reading.end()


class _Reading:
    """Reader of one file."""

    def __init__(self, name: str, terms: ImportTerms) -> None:
        self._name = name
        self._terms = terms
        self._begun = False
        self._ended = False
        self._state: SessionState | None = None
        self._turns: list[Turn] = []
        self._place = ""
        self._is_yielded = True

    def take(self, data: dict[str, Any], place: str) -> Iterator[Item]:
        """Yield the items that a line contains or completes."""
        kind = data.pop("type", None)
        if kind == "header" and data.get("format") == FORMAT:
            _validate_version(data, place)
            self._begun = True
            return
        if kind not in ("turn", "end"):
            yield from self._flush_turns()
        try:
            if kind == "turn":
                yield from self._take_turn(self._terms.apply(_parse(Turn, data)), place)
            elif kind == "session":
                self._enter(self._terms.apply(_parse(SessionState, data)), place)
            elif kind == "record":
                yield FoundValue(place=place, value=self._terms.apply(_parse(Record, data)))
            elif kind == "page":
                yield FoundValue(place=place, value=_parse(Page, data))
            elif kind == "paragraph":
                yield FoundValue(place=place, value=_parse(Paragraph, data))
            elif kind == "end":
                self._ended = True
            else:
                yield Skipped(what="line", place=place, why="unsupported", detail="no known type of line")
        except InvalidInput as error:
            yield skip(next((what for what in _TYPES if kind == what), "line"), place, error)

    def end(self) -> Iterator[Item]:
        """Yield the remaining items at the end of the file."""
        yield from self._flush_turns()
        if not self._begun:
            raise InvalidInput(f"{self._name}: no export of Reverie. It has no header.")
        if not self._ended:
            detail = "it has no last line of type 'end', so it may have been cut; the lines before were read"
            yield Skipped(what="file", place=self._name, why="broken", detail=detail)

    def _enter(self, state: SessionState, place: str) -> None:
        self._state, self._place, self._turns, self._is_yielded = state, place, [], False

    def _take_turn(self, turn: Turn, place: str) -> Iterator[Item]:
        if self._state is None or self._state.id != turn.session:
            yield from self._flush_turns()
            # The line of its session is missing or broken: the turn counts more.
            self._enter(SessionState(id=turn.session, created_at=turn.at, scope=turn.scope), place)
        assert self._state is not None
        self._turns.append(replace(turn, scope=self._state.scope))
        if len(self._turns) >= PIECE:
            yield from self._flush_turns(keep=True)

    def _flush_turns(self, *, keep: bool = False) -> Iterator[Item]:
        """Yield the turns gathered so far; a session without any is yielded once."""
        if self._state is not None and (self._turns or not self._is_yielded):
            yield FoundTurns(place=self._place, state=self._state, turns=tuple(self._turns))
            self._turns, self._is_yielded = [], True
        if not keep:
            self._state = None


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
