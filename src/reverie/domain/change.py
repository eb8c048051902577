"""Changes of stored values, and the journal entries of changes that were made.

Values and pure functions; applying them is the store's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record

Subject = Literal["record", "turn", "session", "page", "paragraph"]

Value = Record | Turn | SessionState | Page | Paragraph


UNDO = "undo of "
"""Beginning of the reason of a change that undoes an earlier one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One proposed change: what was, and what shall be.

    The store makes it only if `before` is still what is there, so two who change the same thing at
    once can never overwrite one another: the second is told (`Conflict`) and reads again.

    Attributes:
        before: The value as it was read; None when it shall be new.
        after: The value as it shall be; None when it shall be gone for good.
    """

    before: Value | None
    after: Value | None

    def __post_init__(self) -> None:
        if len({(type(each), each.id) for each in (self.before, self.after) if each is not None}) != 1:
            raise ValueError("an edit changes one thing: before and after must have the same type and id")

    @property
    def value(self) -> Value:
        """The value it is about: the later one where there are two."""
        value = self.after if self.after is not None else self.before
        assert value is not None
        return value

    @property
    def subject(self) -> Subject:
        """Kind of the changed value."""
        return get_subject(self.value)

    @property
    def id(self) -> str:
        """The id of what it changes."""
        return self.value.id

    @property
    def values(self) -> tuple[Value, ...]:
        """What was and what shall be, as far as there is either."""
        return tuple(value for value in (self.before, self.after) if value is not None)

    def invert(self) -> Change:
        """Return the edit that takes this one back."""
        return Change(before=self.after, after=self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change that was made.

    Attributes:
        sequence: Its number in the journal; a later change has a larger one.
        batch: The number of the first change made in the same transaction.
        at: When it was made.
        actor: Who made it, such as `owner`, `agent`, `dream`.
        reason: Why, in words; may be empty.
        key: The store's own number of the thing changed, which the search index uses.
        subject: Which kind of thing it changed.
        edit: What was, and what is; None where both have been forgotten (`Store.erase`).
    """

    sequence: int
    batch: int
    at: datetime
    actor: str
    reason: str
    key: int
    subject: Subject
    edit: Change | None

    @property
    def before(self) -> Value | None:
        """What was; None where there was nothing, or it has been forgotten."""
        return None if self.edit is None else self.edit.before

    @property
    def after(self) -> Value | None:
        """What is; None where it is gone, or has been forgotten."""
        return None if self.edit is None else self.edit.after

    @property
    def values(self) -> tuple[Value, ...]:
        """What was and what is, as far as there is either and it has not been forgotten."""
        return () if self.edit is None else self.edit.values

    @property
    def takes_back(self) -> bool:
        """Whether it takes an earlier change back."""
        return self.reason.startswith(UNDO)

    @property
    def forgotten(self) -> bool:
        """Whether it does not say any more what was before it: it cannot be taken back, nor followed."""
        return self.edit is None or (self.edit.before is None and self.key != self.sequence)


def build_entries(
    first: int,
    made: Iterable[tuple[int, Subject, Change | None]],
    *,
    at: datetime,
    actor: str,
    reason: str,
) -> list[JournalEntry]:
    """Return the journal entries of one transaction.

    Args:
        first: The number of the first one.
        made: Key, subject and edit of each change.
        at: When they were made.
        actor: Who made them.
        reason: Why.
    """
    return [
        JournalEntry(
            sequence=sequence,
            batch=first,
            at=at,
            actor=actor,
            reason=reason,
            key=key,
            subject=subject,
            edit=edit,
        )
        for sequence, (key, subject, edit) in enumerate(made, first)
    ]


def get_subject(value: Value) -> Subject:
    """Return which kind of thing a value is."""
    return _SUBJECT_OF[type(value)]


def undo_of(rows: Iterable[JournalEntry]) -> list[Change]:
    """Return the edits that undo the entries, the last first. An erased entry cannot be undone."""
    latest_first = sorted(rows, key=lambda row: -row.sequence)
    return [row.edit.invert() for row in latest_first if row.edit is not None and not row.forgotten]


_SUBJECT_OF: Mapping[type, Subject] = MappingProxyType(
    {Record: "record", Turn: "turn", SessionState: "session", Page: "page", Paragraph: "paragraph"}
)
