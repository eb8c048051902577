"""A whole memory with its history as one file of JSON lines: how it is written, and how it becomes a memory again.

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
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, translate_os_errors
from reverie.domain.text.json_values import to_json_value
from reverie.files.atomic import create_file
from reverie.stores.base import CopiedRow, Unjournaled
from reverie.stores.protocol import Store, iterate_rows

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
