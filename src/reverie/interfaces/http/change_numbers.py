"""Numbers of changes as the sender of a request sees them.

The numbers of the journal count the changes of all scopes, so they would tell a token that is bound to a scope how much
others do. Such a token sees positions in the list of the changes that it may see.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from reverie.admin.history import History
from reverie.domain.errors import NotFound
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.scope import is_within, visible_scopes
from reverie.domain.text.json_values import to_json_value

if TYPE_CHECKING:
    from reverie.interfaces.http.operations import OperationAnswer

_CHUNK = 1_000
_NUMBER = defer_regex(r"(?<![0-9a-z])\d+(?![0-9a-z]| others)")


class ChangesByScope:
    """Numbers of all changes by scope, read once and then followed. Safe to use from several threads."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        self._followed = 0

    def follow(self) -> int:
        """Read the changes since the last call; return the number of the newest one."""
        with self._lock:
            while self._followed < self._history.sequence():
                for row in self._history.log(after=self._followed, limit=_CHUNK):
                    if row.edit is not None:
                        # Pages and paragraphs have no scope: they are everybody's.
                        self._numbers[getattr(row.edit.value, "scope", "")].append(row.sequence)
                    self._followed = row.sequence
            return self._followed

    def list_visible(self, scope: str) -> list[list[int]]:
        """Return the numbers of the changes that a token of a scope may see, as one list for each scope."""
        seen = visible_scopes(scope)
        with self._lock:
            return [
                numbers
                for name, numbers in self._numbers.items()
                if name in seen or (name and is_within(name, scope))
            ]


class ChangeNumbers:
    """Conversion between the numbers of the journal and those that a caller sees.

    Args:
        changes: The changes of all scopes.
        scope: The scope of the caller's token; empty for a token of all scopes, which sees those of the journal.
    """

    def __init__(self, changes: ChangesByScope, scope: str) -> None:
        self._is_bound = bool(scope)
        self._newest = changes.follow() if scope else 0
        self._visible = changes.list_visible(scope) if scope else []

    def show(self, sequence: int) -> int:
        """Return the number that the caller sees for a change: how many visible ones there are up to it."""
        if not self._is_bound:
            return sequence
        return sum(bisect_right(numbers, sequence) for numbers in self._visible)

    def show_answer(self, answer: OperationAnswer) -> None:
        """Change the numbers in an answer to those that the caller sees."""
        if self._is_bound and not isinstance(answer.body, bytes | Response):
            answer.body = self.show_all(to_json_value(answer.body))
            answer.reference = self.show_all(answer.reference)

    def find(self, number: int) -> int:
        """Return the number in the journal of the change that has this number for the caller.

        A number that no change has yet is after the newest one.
        """
        if not self._is_bound or number < 1:
            return number
        found = bisect_left(range(self._newest + 1), number, key=self.show)
        return found if found <= self._newest else self._newest + number - self.show(self._newest)

    def skip_up(self, after: int) -> int:
        """Return the number in the journal before the first visible change after another one."""
        return self.find(self.show(after) + 1) - 1

    def skip_down(self, before: int) -> int:
        """Return the number in the journal after the last visible change before another one."""
        return self.find(self.show(before - 1)) + 1

    def require(self, number: int, *, least: int = 1) -> int:
        """Return what `find` does; raise `NotFound` if there is no such change, and it is not `least`."""
        last = self.show(self._newest)
        if self._is_bound and not least <= number <= last:
            raise NotFound(f"there is no change {number}: the last one is {last}")
        return self.find(number)

    def show_all(self, value: Any) -> Any:
        """Return an answer with the numbers of changes in it as the caller sees them."""
        if not self._is_bound:
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
        return _NUMBER.sub(lambda found: str(self.show(int(found.group()))), text) if self._is_bound else text
