"""Output of the evaluations: a table for people and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reverie.domain.errors import InvalidInput


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    remarks: Iterable[str],
    *,
    title: str = "",
    headings: Mapping[str, str] | None = None,
) -> None:
    """Print a table and the lines below it: drawn on a terminal, with tabs in a pipe.

    Args:
        console: The destination.
        columns: The names of all columns but the first, which has none.
        rows: The cells.
        remarks: The lines below the table.
        title: A line above the table.
        headings: Shorter names of columns, for a terminal.
    """
    if not console.is_terminal:
        lines = [*([title] if title else []), *("\t".join(row) for row in [("", *columns), *rows]), *remarks]
        console.file.write("\n".join(lines) + "\n")  # the console would replace the tabs
        return
    table = Table(title=title or None, title_justify="left", box=None, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column((headings or {}).get(name, name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in remarks:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


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
