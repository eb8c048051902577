"""Export as JSON lines: one document a line, each with its `type`.

    {"type": "header", "format": "reverie", "form": "jsonl", "version": 1, "made_at": …}
    {"type": "record", "id": …, …}            every record, the oldest first
    {"type": "session", "id": …, …}           a session, followed by its turns
    {"type": "turn", "id": …, …}
    {"type": "page", "name": …, …}
    {"type": "paragraph", "id": …, …}
    {"type": "end", "records": …, …}          the counts, so that a truncated file is noticed

It has everything that `to_dict` returns, so importing it gives equal things.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.native import codec
from reverie.admin.transfer.items import (
    FoundTurns,
    FoundValue,
    ImportTerms,
    Item,
    Skipped,
)
from reverie.domain.change import Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record

PIECE = 250
"""Turns of a session that are handed on together."""


class JsonlWriter:
    """Writer of an export to an open file."""

    def __init__(self, file: BinaryIO, *, at: datetime) -> None:
        self._file = file
        self._write({"type": "header", **codec.build_header("jsonl", at=at)})

    def put_record(self, record: Record) -> None:
        """Write one record."""
        self._put(record)

    def put_session(self, state: SessionState, turns: Iterable[Turn]) -> None:
        """Write one session with its turns."""
        self._put(state)
        for turn in turns:
            self._put(turn)

    def put_page(self, page: Page) -> None:
        """Write one page."""
        self._put(page)

    def put_log(self, name: str, paragraphs: list[Paragraph]) -> None:
        """Write one log."""
        del name  # every paragraph has it
        for paragraph in paragraphs:
            self._put(paragraph)

    def finish(self, counts: Mapping[str, int]) -> None:
        """Write the last line."""
        self._write({"type": "end", **counts})

    def _put(self, value: Value) -> None:
        self._write({"type": get_subject(value), **value.to_dict()})

    def _write(self, data: dict[str, Any]) -> None:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        self._file.write(f"{text}\n".encode())


def read(path: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield the content of an export.

    Raises:
        InvalidInput: it cannot be read, is not such an export, or was made by a newer Reverie.
    """
    with safe_reading.open_file(path) as file:
        reading = _Reading(path.name, terms)
        for number, data in safe_reading.iter_documents(file):
            place = f"{path.name}, line {number}"
            if isinstance(data, InvalidInput):
                yield notes.skip("line", place, data)
            else:
                yield from reading.take(data, place)
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
        self._told = True

    def take(self, data: dict[str, Any], place: str) -> Iterator[Item]:
        """Yield the items that a line holds or completes."""
        kind = data.pop("type", None)
        if not self._begun:
            self._begin(kind, data, place)
            return
        if kind not in ("turn", "end"):
            yield from self._flush_turns()
        try:
            if kind == "turn":
                yield from self._take_turn(self._terms.apply(codec.read(Turn, data)), place)
            elif kind == "session":
                self._enter(self._terms.apply(codec.read(SessionState, data)), place)
            elif kind == "record":
                yield FoundValue(place=place, value=self._terms.apply(codec.read(Record, data)))
            elif kind == "page":
                yield FoundValue(place=place, value=codec.read(Page, data))
            elif kind == "paragraph":
                yield FoundValue(place=place, value=codec.read(Paragraph, data))
            elif kind == "end":
                self._ended = True
            elif kind != "header":  # two exports may have been put into one file
                detail = "no type of line that is known"
                yield Skipped(what="line", place=place, why="unsupported", detail=detail)
        except InvalidInput as error:
            yield notes.skip(codec.parse_type(kind), place, error)

    def end(self) -> Iterator[Item]:
        """Yield the remaining items at the end of the file."""
        yield from self._flush_turns()
        if not self._begun:
            raise InvalidInput(f"{self._name}: no export of Reverie: it does not begin with a header")
        if not self._ended:
            detail = "it has no last line of type 'end', so it may have been cut; what stands in it was read"
            yield Skipped(what="file", place=self._name, why="broken", detail=detail)

    def _begin(self, kind: object, data: Mapping[str, Any], place: str) -> None:
        if kind != "header" or data.get("format") != codec.FORMAT:
            raise InvalidInput(f"{place}: no export of Reverie: it does not begin with a header")
        codec.validate_header(data, place)
        self._begun = True

    def _enter(self, state: SessionState, place: str) -> None:
        self._state, self._place, self._turns, self._told = state, place, [], False

    def _take_turn(self, turn: Turn, place: str) -> Iterator[Item]:
        if self._state is None or self._state.id != turn.session:
            yield from self._flush_turns()
            # Its session's line is missing or broken: what was said counts more.
            self._enter(SessionState(id=turn.session, created_at=turn.at, scope=turn.scope), place)
        assert self._state is not None
        self._turns.append(replace(turn, scope=self._state.scope))
        if len(self._turns) >= PIECE:
            yield from self._flush_turns(keep=True)

    def _flush_turns(self, *, keep: bool = False) -> Iterator[Item]:
        """Yield the turns gathered so far; a session without any is yielded once."""
        if self._state is not None and (self._turns or not self._told):
            yield FoundTurns(place=self._place, state=self._state, turns=tuple(self._turns))
            self._turns, self._told = [], True
        if not keep:
            self._state = None
