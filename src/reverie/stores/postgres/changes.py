"""Parameters of the function `change_things` for a commit, and conflicts for its refusals."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reverie.domain.change import Change, Value
from reverie.domain.conversation import Turn
from reverie.domain.errors import Conflict
from reverie.domain.passage import Analyse
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import build_conflict
from reverie.stores.codec import TABLES, analyze_searched, to_document, to_json
from reverie.stores.protocol import CommitOptions

CHANGE = (
    "SELECT * FROM reverie.change_things(%(space)s, %(token)s, %(is_retry)s, %(is_erasure)s, %(patience)s, "
    "%(actor)s, %(operation)s, %(note)s, %(reference)s, %(at)s, %(since)s, "
    "%(subjects)s::text[], %(ids)s::text[], %(befores)s::text[], "
    "%(afters)s::text[], %(fingerprints)s::text[], %(tags)s::text[], %(lengths)s::integer[], "
    "%(voices)s::text[], %(cues)s::text[], %(dates)s::text[], %(terms)s::text[], %(cursor_names)s::text[], "
    "%(cursor_values)s::text[], %(counter_names)s::text[], %(counter_values)s::bigint[], %(marks)s::text[], "
    "%(restored_keys)s::bigint[])"
)
"""The call, which takes besides these parameters `is_retry`."""


def build_parameters(
    edits: Sequence[Change],
    analyse: Analyse,
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
    """Return the parameters of `CHANGE`, all encoded and analyzed before the memory is locked.

    Args:
        edits: The changes, in order.
        analyse: The analyzer.
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
    analyses = [analyze_searched(edit.after, analyse) for edit in edits]

    def pick(name: str) -> list[Any]:
        return [getattr(analysis, name, None) for analysis in analyses]

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
        "befores": [_encode(edit.before) for edit in edits],
        "afters": [_encode(edit.after) for edit in edits],
        "fingerprints": [
            edit.after.fingerprint if isinstance(edit.after, Record) else None for edit in edits
        ],
        "tags": [_encode_tags(edit.after) for edit in edits],
        "lengths": pick("length"),
        "voices": pick("speaker"),
        "cues": pick("cues"),
        "dates": pick("dates"),
        "terms": pick("terms"),
        "cursor_names": list(cursors),
        "cursor_values": list(cursors.values()),
        "counter_names": list(counts),
        "counter_values": list(counts.values()),
        "marks": list(marks),
        "restored_keys": None if restored_keys is None else list(restored_keys),
    }


def _encode(value: Value | None) -> str | None:
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
