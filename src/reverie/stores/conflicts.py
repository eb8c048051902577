"""Conflicts that a store raises, with the same words in every store."""

from __future__ import annotations

from typing import Literal, TypeAlias

from reverie.domain.errors import Conflict

Reason: TypeAlias = Literal[
    "since",
    "exists",
    "missing",
    "changed",
    "has turns",
    "same words",
    "no session",
    "place taken",
    "gap",
    "cursor",
]

_MESSAGES: dict[Reason, str] = {
    "since": "a record was changed (change {sequence}) after change {since}: search again and retry",
    "exists": "{subject} {id!r} exists already: read it, or take another id",
    "missing": "{subject} {id!r} is not there any more: read again and retry",
    "changed": "{subject} {id!r} has changed since it was read: read it again and retry",
    "has turns": "session {id!r} still has turns: delete them first",
    "same words": "record {id!r} says the same as the live record {other!r}: read that one and change it",
    "no session": "there is no session {session!r} to put turn {id!r} in: create it first",
    "place taken": "turn {id!r}: position {position} of session {session!r} is taken: "
    "read the session again and retry",
    "gap": "session {session!r} would have later turns but none at position {position}: "
    "read it again and retry",
    "cursor": "{name!r} has changed since it was read: read it again and retry",
}


def build_conflict(reason: Reason, **values: object) -> Conflict:
    """Return the conflict to raise; the values are those that the message of the reason names."""
    return Conflict(_MESSAGES[reason].format(**values))
