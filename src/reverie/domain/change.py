"""Changes of stored values, and the journal entries of changes that were made.

Values and pure functions; applying them is the store's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypedDict, get_args

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record

Subject = Literal["record", "turn", "session", "page", "paragraph"]

Value = Record | Turn | SessionState | Page | Paragraph


Operation = Literal[
    "save", "reinforce", "update", "pin", "unpin", "archive", "restore", "expire", "purge", "promote", "vouch", "tag",
    "settle", "import", "edit_file", "delete_file", "rebuild", "accept", "dream", "withdraw", "say", "restart",
    "set_status", "set_metadata", "feedback", "delete", "write", "append", "replace", "rename", "clear", "put", "renew",
    "undo", "forget",
]  # fmt: skip
"""What a change was made for. `forget` is an erasure, `dream` a pass, `say` the turns of a conversation."""

OPERATIONS: tuple[Operation, ...] = get_args(Operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One proposed change of a stored value.

    The store applies it only if `before` is still the stored value. Of two writers that change the same value, the
    second gets a `Conflict` and has to read again.

    Attributes:
        before: The value as it was read; None to create it.
        after: The new value; None to delete it for good.
    """

    before: Value | None
    after: Value | None

    def __post_init__(self) -> None:
        if len({(type(each), each.id) for each in (self.before, self.after) if each is not None}) != 1:
            raise ValueError("a change is of one value: before and after must have the same type and id")

    @property
    def value(self) -> Value:
        """The new value, or the old one of a deletion."""
        value = self.after if self.after is not None else self.before
        assert value is not None
        return value

    @property
    def subject(self) -> Subject:
        """Kind of the changed value."""
        return get_subject(self.value)

    @property
    def id(self) -> str:
        """Id of the changed value."""
        return self.value.id

    @property
    def values(self) -> tuple[Value, ...]:
        """The values before and after, those of them that exist."""
        return tuple(value for value in (self.before, self.after) if value is not None)

    def invert(self) -> Change:
        """Return the change that undoes this one."""
        return Change(before=self.after, after=self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change that was made.

    Attributes:
        sequence: Its number in the journal; a later change has a larger one.
        batch: The number of the first change of the same transaction.
        at: When it was made.
        actor: Who made it, such as `owner`, `agent`, `dream`.
        operation: The operation that made it.
        note: A person's words about it, or the file of a hand edit; often empty. Erased with the values.
        reference: Its origin: the numbers of the undone changes, the id of the promoted record, the pass and plan of
            a dream. Never content.
        key: The store's number of the changed value, which the search index uses too.
        subject: Kind of the changed value.
        edit: The change; None after its values were erased (`Store.erase`).
    """

    sequence: int
    batch: int
    at: datetime
    actor: str
    operation: Operation = "update"
    note: str = ""
    reference: str = ""
    key: int
    subject: Subject
    edit: Change | None

    @property
    def before(self) -> Value | None:
        """The value before; None if there was none, or it was erased."""
        return None if self.edit is None else self.edit.before

    @property
    def after(self) -> Value | None:
        """The value after; None if it was deleted or erased."""
        return None if self.edit is None else self.edit.after

    @property
    def values(self) -> tuple[Value, ...]:
        """The values before and after, those of them that exist and were not erased."""
        return () if self.edit is None else self.edit.values

    @property
    def summary(self) -> str:
        """Format operation, reference and note as one text, such as `undo of 3 to 9` or `archive: sold`."""
        link = " of " if self.operation == "undo" else " "
        words = f"{self.operation.replace('_', ' ')}{link if self.reference else ''}{self.reference}"
        return f"{words}: {self.note}" if self.note else words

    @property
    def forgotten(self) -> bool:
        """Whether the value before was erased, so that nobody can undo the change or follow it."""
        return self.edit is None or (self.edit.before is None and self.key != self.sequence)


class JournalNote(TypedDict, total=False):
    """What the journal says of a transaction, beside its author and its time.

    Attributes:
        operation: The operation; `update` if it is left out.
        note: A person's words about it.
        reference: Its origin: ids and numbers, never content.
    """

    operation: Operation
    note: str
    reference: str


def build_entries(
    first: int,
    made: Iterable[tuple[int, Subject, Change | None]],
    *,
    at: datetime,
    actor: str,
    note: JournalNote,
) -> list[JournalEntry]:
    """Return the journal entries of one transaction.

    Args:
        first: The number of the first entry.
        made: Key, subject and content of each change.
        at: When they were made.
        actor: Who made them.
        note: What the journal says of it.
    """
    told: dict[str, Any] = {name: each for name, each in note.items() if name in JournalNote.__annotations__}
    return [
        JournalEntry(
            sequence=number, batch=first, at=at, actor=actor, key=key, subject=subject, edit=edit, **told
        )
        for number, (key, subject, edit) in enumerate(made, first)
    ]


def get_subject(value: Value) -> Subject:
    """Return the kind of a value."""
    return _SUBJECT_OF[type(value)]


_SUBJECT_OF: Mapping[type, Subject] = MappingProxyType(
    {Record: "record", Turn: "turn", SessionState: "session", Page: "page", Paragraph: "paragraph"}
)
