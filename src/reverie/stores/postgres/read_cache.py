"""Cache of what a process has read of one state of a memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from reverie.domain.passage import Passage

_MOST = 10_000
"""Passages and documents that are remembered; a document counts twice."""

_LONGEST = 10_000
"""Characters of the words of a passage, or of a document, that is remembered."""


class ReadCache:
    """Cache of passages and documents of one state of a memory. Safe to use from several threads.

    Each state has dictionaries of its own, which views of that state share and fill. What an older view reads never
    gets into those of a newer state. Only what the next change leaves unchanged is taken over.
    """

    def __init__(self) -> None:
        self._state: tuple[int, dict[str, dict[Any, Any]]] = (0, {})

    def recall(self, sequence: int) -> Mapping[str, dict[Any, Any]]:
        """Return what is remembered of the state after a change, to be added to, by the name in a view's memo."""
        newest, memo = self._state
        if newest > sequence:
            return {}
        if newest < sequence or not memo or sum(map(len, memo.values())) > _MOST:
            memo = {"passages": {}, "record": {}, "turn": {}, "paragraph": {}, "measures": {}}
            self._state = sequence, memo
        return memo

    def note_change(self, first: int, keys: Collection[int]) -> None:
        """Keep what a commit of this process has left unchanged, for the state after it.

        Args:
            first: The number of its first change.
            keys: The keys of the things that it changed.
        """
        newest, memo = self._state
        if newest != first - 1 or not keys:
            return
        changed = frozenset(keys)
        kept: dict[str, dict[Any, Any]] = {
            name: {place: known for place, known in things.copy().items() if known[0] not in changed}
            for name, things in memo.items()
            if name != "measures"
        }
        self._state = newest + len(keys), {**kept, "measures": {}} if memo else {}

    def clear(self) -> None:
        """Remove everything, after a change that the journal does not have."""
        self._state = (0, {})


def remember_passages(memo: dict[str, Any], subject: str, passages: Iterable[Passage]) -> None:
    """Add passages to the memo of a view."""
    memo.setdefault("passages", {}).update(
        ((subject, passage.key), passage) for passage in passages if len(passage.terms) <= _LONGEST
    )


def remember_documents(memo: dict[str, Any], subject: str, rows: Iterable[tuple[int, str, str]]) -> None:
    """Add documents, given with their key and id, to the memo of a view."""
    known = memo.setdefault(subject, {})
    for key, name, body in rows:
        if len(body) <= _LONGEST:
            known[key] = known[name] = (key, body)
