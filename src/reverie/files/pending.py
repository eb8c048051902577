"""Changes that the files are not known to show.

A process may be killed, or `files.db` refuse the commit, after files were written and before that is recorded.
Such a file is no hand edit: it has the content of a moment since the last entry that the files are known to show.
"""

from __future__ import annotations

from functools import cached_property

from reverie.domain.change import Change, Value
from reverie.files.expected import read_values, render_values
from reverie.files.layout import build_path
from reverie.stores.protocol import Store

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
