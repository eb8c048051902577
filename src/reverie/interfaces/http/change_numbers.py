"""Numbers of changes as the sender of a request sees them.

The numbers of the journal count the changes of all scopes, so they would tell a token that is bound to a scope how much
others do. Such a token sees positions in the list of the changes that it may see.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from reverie.admin.history import History
from reverie.domain.change import JournalEntry
from reverie.domain.errors import NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.scope import is_within, visible_scopes
from reverie.domain.text.json_values import to_json_value

if TYPE_CHECKING:
    from reverie.interfaces.http.operations import OperationAnswer

_CHUNK = 1_000
_NUMBER = defer_regex(r"(?<![0-9a-z])\d+(?![0-9a-z]| others)")


def find_row_scope(row: JournalEntry) -> str | None:
    """Return the scope of a change; that of a page or a paragraph is everybody's. None if its content was erased."""
    return None if row.edit is None else getattr(row.edit.value, "scope", "")


class VisibleChanges:
    """Changes of the journal by scope, read once and then followed. Safe to use from several threads."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._scopes: list[tuple[int, str]] = []
        self._followed = 0
        self._lists: dict[str, tuple[int, list[int]]] = {}

    def list(self, scope: str) -> list[int]:
        """Return the numbers of the changes of a scope, of those around it and of those within it, in their order."""
        with self._lock:
            while self._followed < self._history.sequence():
                for row in self._history.log(after=self._followed, limit=_CHUNK):
                    if (name := find_row_scope(row)) is not None:
                        self._scopes.append((row.sequence, name))
                    self._followed = row.sequence
            known, numbers = self._lists.get(scope, (0, []))
            around = visible_scopes(scope)
            for number, name in self._scopes[known:]:
                if name in around or (name and is_within(name, scope)):
                    numbers.append(number)
            self._lists[scope] = len(self._scopes), numbers
            return numbers

    def number(self, scope: str) -> ChangeNumbers:
        """Return the numbers for a caller whose token is bound to a scope; empty for a token of all scopes."""
        visible = self.list(scope) if scope else None
        return ChangeNumbers(visible, self._followed)


class ChangeNumbers:
    """Conversion between the numbers of the journal and those that a caller sees.

    Args:
        visible: Numbers of the changes that the caller sees; None for a caller that sees those of the journal.
        newest: Number of the newest change.
    """

    def __init__(self, visible: list[int] | None, newest: int) -> None:
        self._visible = visible
        self._newest = newest

    def show(self, sequence: int) -> int:
        """Return the number that the caller sees for a change: how many visible ones there are up to it."""
        return sequence if self._visible is None else bisect_right(self._visible, sequence)

    def find(self, number: int) -> int:
        """Return the number in the journal of the change that has this number for the caller.

        A number that no change has yet is after the newest one.
        """
        if self._visible is None or number < 1:
            return number
        last = len(self._visible)
        return self._visible[number - 1] if number <= last else self._newest + number - last

    def require(self, number: int, *, least: int = 1) -> int:
        """Return what `find` does; raise `NotFound` if there is no such change, and it is not `least`."""
        if self._visible is not None and not least <= number <= len(self._visible):
            raise NotFound(f"there is no change {number}: the last one is {len(self._visible)}")
        return self.find(number)

    def show_answer(self, answer: OperationAnswer[Any]) -> None:
        """Change the numbers in an answer to those that the caller sees."""
        if not isinstance(answer.body, bytes | Response):
            answer.body = self.show_all(to_json_value(answer.body))
            answer.reference = self.show_all(answer.reference)

    def show_all(self, value: Any) -> Any:
        """Return an answer with the numbers of changes in it as the caller sees them."""
        if self._visible is None:
            return value
        if isinstance(value, list):
            return [self.show_all(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {name: self._show_field(name, each, value) for name, each in value.items()}

    def _show_field(self, name: str, value: Any, fields: dict[str, Any]) -> Any:
        if name == "sequence" and isinstance(value, int):
            return self.show(value)
        if name == "batch" and isinstance(value, int):
            return self.show(value - 1) + 1  # the first visible change of the transaction
        if name in ("changes", "made") and isinstance(value, list):
            return [self.show(each) if isinstance(each, int) else self.show_all(each) for each in value]
        if name == "reference" and fields.get("operation") == "undo":
            return self.show_text(value)
        if name == "reason" and str(value).startswith("undo of "):
            numbers, colon, note = value.partition(":")
            return self.show_text(numbers) + colon + note
        return self.show_all(value)

    def show_text(self, text: str) -> str:
        """Return a text about changes with their numbers as the caller sees them."""
        if self._visible is None:
            return text
        return _NUMBER.sub(lambda found: str(self.show(int(found.group()))), text)
