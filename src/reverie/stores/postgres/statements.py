"""Statements of a memory: the call that changes it, and filters as conditions.

The conditions agree with `is_record_allowed` and `is_turn_allowed`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reverie.domain.change import Change, Value
from reverie.domain.conversation import Turn
from reverie.domain.errors import Conflict
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import Conditions, build_conflict
from reverie.stores.codec import TABLES, to_document, to_json
from reverie.stores.protocol import CommitOptions

CHANGE = (
    "SELECT * FROM reverie.change_things(%(space)s, %(token)s, %(is_retry)s, %(is_erasure)s, %(patience)s, "
    "%(actor)s, %(operation)s, %(note)s, %(reference)s, %(at)s, %(since)s, "
    "%(subjects)s::text[], %(ids)s::text[], %(befores)s::text[], "
    "%(afters)s::text[], %(fingerprints)s::text[], %(tags)s::text[], "
    "%(cursor_names)s::text[], "
    "%(cursor_values)s::text[], %(counter_names)s::text[], %(counter_values)s::bigint[], %(marks)s::text[], "
    "%(restored_keys)s::bigint[])"
)
"""The call, which takes besides these parameters `is_retry`."""


def build_parameters(
    edits: Sequence[Change],
    *,
    space: int,
    patience: str,
    actor: str,
    at: datetime,
    options: CommitOptions,
    marks: Sequence[str] = (),
    is_erasure: bool = False,
    restored_keys: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the parameters of `CHANGE`, all encoded before the memory is locked.

    Args:
        edits: The changes, in order.
        space: The number of the memory.
        patience: How long to wait for its lock, as PostgreSQL writes it.
        actor: The author.
        at: The time of the change.
        options: The options of the commit.
        marks: Tombstones.
        is_erasure: Whether to empty the journal rows of the things concerned.
        restored_keys: Keys under which to insert things that the journal has already; None for a commit.
    """
    cursors, counts = options.get("cursors") or {}, options.get("counts") or {}

    return {
        "space": space,
        "token": uuid.uuid4(),
        "is_erasure": is_erasure,
        "patience": patience,
        "actor": actor,
        "operation": options.get("operation", "update"),
        "note": options.get("note", ""),
        "reference": options.get("reference", ""),
        "at": to_microseconds(at),
        "since": options.get("since"),
        "subjects": [edit.subject for edit in edits],
        "ids": [edit.id for edit in edits],
        "befores": [encode_document(edit.before) for edit in edits],
        "afters": [encode_document(edit.after) for edit in edits],
        "fingerprints": [
            edit.after.fingerprint if isinstance(edit.after, Record) else None for edit in edits
        ],
        "tags": [_encode_tags(edit.after) for edit in edits],
        "cursor_names": list(cursors),
        "cursor_values": list(cursors.values()),
        "counter_names": list(counts),
        "counter_values": list(counts.values()),
        "marks": list(marks),
        "restored_keys": None if restored_keys is None else list(restored_keys),
    }


def encode_document(value: Value | None) -> str | None:
    """Return the document of a value, as the journal keeps it."""
    if value is None:
        return None
    table = TABLES[Change(before=None, after=value).subject]
    return to_document(table, table.encode(value))


def _encode_tags(value: Value | None) -> str:
    return to_json([tag.casefold() for tag in value.tags]) if isinstance(value, Record) else "[]"


def build_refusal(
    edits: Sequence[Change],
    since: int | None,
    *,
    reason: Any,
    change: int = 0,
    sequence: int = 0,
    side: str = "after",
    position: int | None = None,
    other: str | None = None,
) -> Conflict:
    """Return the conflict that the server's refusal means; it names changes by their number from 1."""
    if not change:
        return build_conflict(reason, since=since, sequence=sequence, name=other)
    edit = edits[change - 1]
    value = getattr(edit, side) or edit.value
    turn = {"session": value.session, "position": value.position} if isinstance(value, Turn) else {}
    if position is not None:
        turn["position"] = position
    return build_conflict(reason, subject=edit.subject, id=edit.id, other=other, **turn)


# -- reading -----------------------------------------------------------------------------------------------


_LOWER = {ord(capital): ord(capital.lower()) for capital in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class MemoryConditions(Conditions):
    """Conditions on the rows of one memory.

    Args:
        space: The number of the memory.
        subject: Of `reverie.thing`, only things of this kind; None for all rows.
        table: What the query calls the table.
    """

    placeholder = "%s"
    created_at = "it.at"
    role = "it.kind"
    parts = "it.body ->> 'parts'"

    def __init__(self, space: int, subject: str | None = None, *, table: str = "it") -> None:
        super().__init__()
        self._space = space
        self.add(f"{table}.space = ?", space)
        if subject is not None:
            self.add(f"{table}.subject = ?", subject)

    def add_any(self, column: str, wanted: Sequence[Any]) -> None:
        """Add that a column has one of some values; the query is the same for any number of them."""
        kind = "bigint" if wanted and isinstance(wanted[0], int) else "text"
        self.add(f"{column} = ANY (?::{kind}[])", list(wanted))

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add that a record has all of some tags, whatever their case."""
        self.add("it.tags @> ?::text[]", [tag.casefold() for tag in tags])

    def add_sessions(self, ids: Sequence[str]) -> None:
        """Add that a turn is of one of some sessions."""
        sessions = MemoryConditions(self._space, "session", table="thing")
        sessions.add_any("thing.id", ids)
        comparison = "=" if len(ids) == 1 else "IN"
        self.add(f"it.thread {comparison} (SELECT key FROM reverie.thing WHERE {sessions})", *sessions.values)

    def add_text(self, text: str) -> None:
        """Add that the content has a text, whatever the case of ASCII letters."""
        # In the collation "C", `lower` changes ASCII letters only.
        self.add("""strpos(lower((it.body ->> 'content') COLLATE "C"), ?) > 0""", text.translate(_LOWER))
