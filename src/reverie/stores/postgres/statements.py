"""Statements of a memory: the call that changes it, filters as conditions, a cache of reads, and postings.

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
from reverie.domain.passage import Among, Analyse, Passage, Searchable, TermWeight
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import Conditions, build_conflict, format_limit
from reverie.stores.codec import TABLES, analyze_searched, to_document, to_json
from reverie.stores.postgres.connections import PostgresConnections
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


# -- postings ------------------------------------------------------------------------------------------

_SORTS: dict[Among, str] = {"words": "w", "dates": "d", "speakers": "s"}
_OTHER_LETTERS = 3
"""By how much the lengths of words differ that may be meant for one another."""

_KEYS = (
    "SELECT t.key FROM reverie.thing AS t WHERE t.space = %(space)s AND t.subject = %(subject)s AND t.searched "
    "AND NOT EXISTS (SELECT FROM "
    "reverie.list_postings(t.subject, t.length, t.voice, t.cues, t.dates, t.terms) AS d LEFT JOIN reverie.posting AS p "
    "ON p.space = t.space AND p.field = d.field AND p.token = d.token AND p.scope = t.scope AND p.key = t.key "
    "WHERE p.key IS NULL) UNION SELECT p.key FROM reverie.posting AS p WHERE p.space = %(space)s "
    "AND p.key > 0 AND starts_with(p.field, %(letter)s) AND NOT EXISTS (SELECT "
    "FROM reverie.thing AS t WHERE t.space = p.space AND t.subject = %(subject)s AND t.key = p.key AND t.searched)"
)

PASSAGE = (
    "it.key, it.terms, it.length, it.thread, CASE it.subject WHEN 'turn' THEN it.position::integer ELSE 0 END, "
    "it.voice, it.at / 1e6::double precision, it.cues, it.dates, coalesce(it.importance, 0.5), "
    "coalesce(it.confidence, 0.8), CASE it.subject WHEN 'record' THEN it.kind ELSE it.subject END, "
    "coalesce(it.pinned, false), it.expires_at / 1e6::double precision"
)
"""The columns of a `Passage`."""


class PostingTables:
    """The postings of one memory, which its changes maintain.

    Args:
        connections: The connections of its store.
    """

    def __init__(self, connections: PostgresConnections) -> None:
        self._connections = connections
        self._space = connections.space

    def count_words(
        self,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None = None,
    ) -> dict[str, int]:
        """Return in how many passages of some scopes (None: of all) each word stands; those in none are left out.

        With a category, only records of it and those below it count.
        """
        where = MemoryConditions(self._space, table="p")
        where.add("p.field = %s AND p.token = u.token", _name_field(subject, "words"))
        if scopes is not None:
            where.add_any("p.scope", list(scopes))
        if category is not None:
            within = build_passage_conditions(self._space, "record", Filter(categories=(category,)))
            where.add(
                f"EXISTS (SELECT FROM reverie.thing AS it WHERE it.key = p.key AND {within})", *within.values
            )
        # `OFFSET 0` keeps the inner query as it is: each word is looked up in the index, whatever the statistics are.
        rows = self._connections.rows(
            "SELECT u.token, count(*) FROM unnest(%s::text[]) AS u (token) CROSS JOIN LATERAL "
            f"(SELECT FROM reverie.posting AS p WHERE {where} OFFSET 0) AS held GROUP BY u.token",
            (list(dict.fromkeys(words)), *where.values),
        )
        return {token: int(count) for token, count in rows}

    def find_heaviest(
        self,
        subject: Searchable,
        weights: Sequence[TermWeight],
        allowed: Filter,
        limit: int,
    ) -> list[int]:
        """Return the keys of passages by the sum of the weights of their tokens times their brevity, newest first.

        In a `viewing` block the passages and the records are remembered for `PostgresStore.passages` and
        `PostgresStore.records`, which are asked for them next.

        Args:
            subject: Records, turns, or paragraphs.
            weights: What to look for.
            allowed: What the result is restricted to.
            limit: The largest number of keys.
        """
        if not weights:
            return []
        postings = MemoryConditions(self._space, table="p")
        if allowed.scopes is not None:
            postings.add_any("p.scope", allowed.scopes)
        passages = build_passage_conditions(self._space, subject, allowed)
        view = self._connections.view
        columns = "it.key" if view is None else f"{PASSAGE}, it.id, it.body::text"
        # `OFFSET 0` keeps the inner queries as they are, whatever the statistics of the tables: each token is
        # looked up in the index, and only passages that may be among the best are looked at.
        rows = self._connections.rows(
            "SELECT held.* FROM (SELECT p.key, sum(w.weight * p.emphasis) * max(p.brevity) AS figure "
            "FROM unnest(%s::text[], %s::text[], %s::integer[]) AS w (field, token, weight) "
            "CROSS JOIN LATERAL (SELECT p.key, p.emphasis, p.brevity FROM reverie.posting AS p "
            f"WHERE {postings} AND p.field = w.field AND p.token = w.token OFFSET 0) AS p "
            "GROUP BY p.key ORDER BY figure DESC, p.key DESC) AS best JOIN LATERAL ("
            f"SELECT {columns} FROM reverie.thing AS it WHERE it.key = best.key AND {passages} OFFSET 0) "
            f"AS held ON true ORDER BY best.figure DESC, best.key DESC{format_limit(limit)}",
            (
                [_name_field(subject, each.among) for each in weights],
                [each.token for each in weights],
                [each.weight for each in weights],
                *postings.values,
                *passages.values,
            ),
        )
        if view is not None:
            remember_passages(view.memo, subject, (Passage._make(row[:-2]) for row in rows))
            remember_documents(view.memo, subject, ((row[0], row[-2], row[-1]) for row in rows))
        return [int(row[0]) for row in rows]

    def list_similar_words(self, subject: Searchable, word: str, scopes: Collection[str] | None) -> set[str]:
        """Return the words of some scopes (None: of all) that have this one in them, or about as many letters."""
        where = MemoryConditions(self._space, table="p")
        where.add("p.field = %s", f"{subject[0]}v")
        if scopes is not None:
            where.add_any("p.scope", list(scopes))
        size = len(word)
        where.add(
            "(length(p.token) BETWEEN %s AND %s OR strpos(p.token, %s) > 0)",
            size - _OTHER_LETTERS,
            size + _OTHER_LETTERS,
            word,
        )
        rows = self._connections.rows(f"SELECT p.token FROM reverie.posting AS p WHERE {where}", where.values)
        return {token for (token,) in rows}

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of passages that have all their postings, or that have some and are not passages."""
        values = {"space": self._space, "subject": subject, "letter": subject[0]}
        return {int(key) for (key,) in self._connections.rows(_KEYS, values)}

    def make(self) -> None:
        """Make the postings of the memory if it has none."""
        self._connections.call_function("make_postings", False)

    def rebuild(self) -> None:
        """Make the postings of the memory again."""
        self._connections.call_function("make_postings", True)


def _name_field(subject: Searchable, among: Among) -> str:
    return subject[0] + _SORTS[among]
