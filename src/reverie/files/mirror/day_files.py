"""Patches of episodic files, which hold the records of a day in lines, by time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from reverie.domain.record import Record
from reverie.domain.text.timestamps import parse_time
from reverie.files.layout import render_line

_ID = slice(len(b'{"id": "'), len(b'{"id": "') + 12)


def patch_episodic_file(old: bytes, changed: Mapping[str, Record | None]) -> bytes:
    """Return an episodic file after some of its records have changed.

    Args:
        old: The file in canonical form.
        changed: The records by id as they are now; None for those that stand there no more.
    """
    lines = [line for line in old.split(b"\n")[:-1] if line[_ID].decode() not in changed]
    keys: list[tuple[datetime, str] | None] = [None] * len(lines)
    new = [record for record in changed.values() if record is not None]
    for record in sorted(new, key=get_sort_key):
        place = len(lines)
        while place and (keys[place - 1] or parse_sort_key(lines[place - 1])) > get_sort_key(record):
            place -= 1
        lines.insert(place, render_line(record)[:-1])
        keys.insert(place, get_sort_key(record))
    return b"".join(line + b"\n" for line in lines)


def get_sort_key(record: Record) -> tuple[datetime, str]:
    """Return what orders records within a day."""
    return record.created_at, record.id


def parse_sort_key(line: bytes) -> tuple[datetime, str]:
    """Return the sort key of the record in a line."""
    fields = json.loads(line)
    return parse_time(fields["created_at"]), fields["id"]
