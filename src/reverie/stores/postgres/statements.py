"""Statements of a memory: the call that changes it, filters as conditions on `reverie.thing`, and a cache of reads.

The conditions agree with `is_record_allowed` and `is_turn_allowed`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from reverie.domain.change import Change, Value
from reverie.domain.conversation import Turn
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.domain.passage import Analyse, Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import build_conflict
from reverie.stores.codec import TABLES, analyze_searched, to_document, to_json
from reverie.stores.protocol import CommitOptions
from reverie.stores.sql import Conditions

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


def build_passage_conditions(space: int, subject: Searchable, wanted: Filter) -> MemoryConditions:
    """Return a filter as conditions on passages. Paragraphs belong to everybody."""
    where = MemoryConditions(space, subject)
    if subject == "record":
        where.add_record_filter(wanted)
    elif subject == "turn":
        where.add_turn_filter(wanted)
    else:
        is_left_out = wanted.scopes is not None and "" not in wanted.scopes
        if wanted.only_records or wanted.only_turns or is_left_out:
            where.add("false")
        where.add_times("it.at", wanted)
    return where


# -- what has been read ------------------------------------------------------------------------------------


_MAX_ITEMS = 10_000
"""Passages and documents that are remembered; a document counts twice."""

_MAX_CHARACTERS = 10_000
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
        if newest < sequence or not memo or sum(map(len, memo.values())) > _MAX_ITEMS:
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
        ((subject, passage.key), passage) for passage in passages if len(passage.terms) <= _MAX_CHARACTERS
    )


def remember_documents(memo: dict[str, Any], subject: str, rows: Iterable[tuple[int, str, str]]) -> None:
    """Add documents, given with their key and id, to the memo of a view."""
    known = memo.setdefault(subject, {})
    for key, name, body in rows:
        if len(body) <= _MAX_CHARACTERS:
            known[key] = known[name] = (key, body)
