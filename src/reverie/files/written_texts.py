"""Texts that were last written to files: the base versions of hand edits.

`files.db` keeps them only where the journal cannot give them back (`decisions/0028`).
"""

from __future__ import annotations

from functools import cached_property

from reverie.domain.change import Change, Value
from reverie.domain.errors import StoreCorrupt
from reverie.files.disk.state import FileRecord, LockedFileState, compute_checksum
from reverie.files.expected import iter_record_contents, read_values, render_values
from reverie.files.layout import build_path, parse_form
from reverie.stores.protocol import Store


def keep_written(ledger: LockedFileState, file: FileRecord, data: bytes) -> None:
    """Set the record of a file with the content of the store; store its text unless the journal has it."""
    ledger.put_text(file, None if parse_form(file.path) == "record" else data)


def read_base_text(store: Store, ledger: LockedFileState, path: str) -> bytes | None:
    """Return the text that was last written to a file; None if it is not known."""
    text = ledger.read_text(path)
    file = ledger.find(path) if text is None and parse_form(path) == "record" else None
    if file is None:
        return text
    try:
        for data in iter_record_contents(store, path):
            if (len(data), compute_checksum(data)) == (file.size, file.checksum):
                return data
    except StoreCorrupt:  # the merge reads the same entries, and reports it
        return None
    return None


_ROWS = 1_000


class PendingChanges:
    """Changes since the last journal entry that the files are known to show, by the files that they affect."""

    def __init__(self, store: Store, sequence: int) -> None:
        """Follow the journal of a store after an entry; nothing is read before it is needed.

        Args:
            store: The store.
            sequence: The number of the entry. If it is 0, no file is known, and nothing is pending.
        """
        self._store = store
        self._sequence = sequence

    def may_have_removed(self, path: str) -> bool:
        """Return whether something was moved away from a path, or removed."""
        return any(_is_at(each.before, path) and not _is_at(each.after, path) for each in self._find(path))

    def may_have_written(self, path: str, data: bytes) -> bool:
        """Return whether a file should have had this content at some moment."""
        changes = self._find(path)
        values = {value.id: value for value in read_values(self._store, path)} if changes else {}
        for change in reversed(changes):
            content = render_values(path, values.values())
            if content is not None and content.data == data:
                return True
            if _is_at(change.after, path):
                values.pop(change.id, None)
            if change.before is not None and _is_at(change.before, path):
                values[change.id] = change.before
        return False

    def _find(self, path: str) -> list[Change]:
        return self._by_path.get(path, [])

    @cached_property
    def _by_path(self) -> dict[str, list[Change]]:
        found: dict[str, list[Change]] = {}
        after = self._sequence
        while after and (rows := self._store.journal(after=after, limit=_ROWS)):
            for row in rows:
                if row.edit is not None:
                    for path in set(map(build_path, row.values)):
                        found.setdefault(path, []).append(row.edit)
            after = rows[-1].sequence
        return found


def _is_at(value: Value | None, path: str) -> bool:
    return value is not None and build_path(value) == path
