"""Output of the evaluations: a table for people and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reverie.domain.errors import InvalidInput


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], remarks: Iterable[str], *, title: str = ""
) -> None:
    """Print a table and the lines below it: in columns on a terminal, with tabs in a pipe.

    Args:
        columns: The names of all columns but the first, which has none.
        rows: The cells.
        remarks: The lines below the table.
        title: A line above the table.
    """
    cells = [("", *columns), *rows]
    if sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        cells = [
            (row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))  # names left, numbers right
            for row in cells
        ]
    between = "  " if sys.stdout.isatty() else "\t"
    for line in [*([title] if title else []), *map(between.join, cells), *remarks]:
        sys.stdout.write(f"{line}\n")


def check_output_file(out: str | Path | None) -> Path | None:
    """Return the file to write, before anything is measured.

    Raises:
        InvalidInput: its folder does not exist.
    """
    if out is None:
        return None
    file = Path(out).expanduser()
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{file}: there is no such folder to write it to")
    return file


def write_json(file: Path | None, document: Mapping[str, Any]) -> None:
    """Write a document to the file, if there is one.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if file is None:
        return
    try:
        file.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None
