"""Salvage of the marks of erased content, and their key, from a damaged file.

Other content can be found elsewhere. The marks cannot, and without them forgotten content could come back.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from reverie.stores.forks import not_forking
from reverie.stores.sqlite.migrations import build_uri


class SalvagedMarks(NamedTuple):
    """Tombstones that were read from a damaged file.

    Attributes:
        tombstones: The marks.
        cursor: The value of the cursor that was asked for; None if there is none.
        complete: Whether all could be read.
    """

    tombstones: tuple[str, ...]
    cursor: str | None
    complete: bool


def salvage_marks(path: Path, cursor: str) -> SalvagedMarks:
    """Read the tombstones in a store's file, however damaged, and the value of one cursor.

    Args:
        path: The file; nothing in it is changed.
        cursor: The name of the cursor.
    """
    marks: list[str] = []
    value: str | None = None
    try:
        with not_forking, closing(sqlite3.connect(build_uri(path, "mode=ro"), uri=True)) as file:
            file.text_factory = lambda data: data.decode(errors="replace")
            for (found,) in file.execute("SELECT value FROM cursors WHERE name = ?", (cursor,)):
                value = str(found)
            for (mark,) in file.execute("SELECT mark FROM tombstones"):
                marks.append(str(mark))
    except (sqlite3.Error, UnicodeError):  # the latter quotes a damaged definition
        return SalvagedMarks(tuple(marks), value, complete=False)
    return SalvagedMarks(tuple(marks), value, complete=True)
