"""Files that journal entries affect. Pure: reads neither the store nor a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reverie.domain.change import JournalEntry, Value
from reverie.files.layout import build_path


@dataclass(slots=True, kw_only=True)
class FileChanges:
    """Changes of one file.

    Attributes:
        last: The number of the last of them.
        values: The values that changed, by id, as the last change left them; None for one that left the file.
        only_added: Whether no value that was in the file before was changed or removed.
    """

    last: int = 0
    values: dict[str, Value | None] = field(default_factory=dict)
    only_added: bool = True


def find_changed_files(rows: Iterable[JournalEntry]) -> dict[str, FileChanges]:
    """Return the files that journal entries, in their order, affect, by path."""
    files: dict[str, FileChanges] = {}
    for row in rows:
        if row.edit is None:
            continue
        value = row.edit.value
        old_path = None if row.before is None else build_path(row.before)
        new_path = None if row.after is None else build_path(row.after)
        for path in dict.fromkeys(filter(None, (old_path, new_path))):
            file = files.setdefault(path, FileChanges())
            file.last = row.sequence
            file.only_added &= path != old_path or value.id in file.values
            file.values[value.id] = value if path == new_path else None
    return files
