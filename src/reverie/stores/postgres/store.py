"""Store in a PostgreSQL database that many processes on many machines share.

`tables.sql` has the tables and the function that makes a commit in one round trip. The words for search are in the
derived database of each machine, as those of a folder are.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from reverie.domain.change import Change, JournalEntry, Subject, build_entries
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import Analyse, Searchable, is_searched
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores import codec
from reverie.stores.base import Conditions, CopiedRow, KeptVector, ServerStatus, build_conflict, format_limit
from reverie.stores.postgres import schema
from reverie.stores.postgres.connections import ChangeRefused, PostgresConnections, Row, parse_postgres_url
from reverie.stores.protocol import CommitOptions, Store
from reverie.stores.sqlite.derived import DerivedDatabase

if TYPE_CHECKING:
    from reverie.stores.base import StoreProblem

_log = logging.getLogger("reverie")

T = TypeVar("T", Record, Turn, SessionState, Page, Paragraph)

_SUBJECTS = {table.name: table.subject for table in codec.TABLES.values()}
_TABLES = {
    "journal": "journal", "entries": "entry", "cursors": "cursor", "counters": "counter", "tombstones": "tombstone",
}  # fmt: skip
_COPIED = ", ".join(f"{name}::text" if name in ("before", "after") else name for name in CopiedRow._fields)
_READ_VECTORS = (
    "SELECT key, digest, scale, numbers FROM reverie.vector "
    "WHERE space = %s AND key = ANY (%s::bigint[]) AND embedder = %s"
)


# -- changes and filters in SQL --------------------------------------------------------------------------

CHANGE = Path(__file__).with_name("change.sql").read_text("utf-8")
"""The call, which takes besides these parameters `is_retry`."""


def build_parameters(
    edits: Sequence[Change],
    *,
    space: int,
    patience: str,
    actor: str,
    at: datetime,
    options: CommitOptions,
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
        restored_keys: Keys under which to insert things that the journal has already; None for a commit.
    """
    cursors, counts = options.get("cursors") or {}, options.get("counts") or {}
    expected = options.get("expected") or {}

    return {
        "space": space,
        "token": uuid.uuid4(),
        "is_erasure": options.get("tombstones") is not None,
        "patience": patience,
        "actor": actor,
        "operation": options.get("operation", "update"),
        "note": options.get("note", ""),
        "reference": options.get("reference", ""),
        "at": to_microseconds(at),
        "since": options.get("since"),
        "subjects": [edit.subject for edit in edits],
        "ids": [edit.id for edit in edits],
        "befores": [codec.encode_value(edit.before) for edit in edits],
        "afters": [codec.encode_value(edit.after) for edit in edits],
        "fingerprints": [
            edit.after.fingerprint if isinstance(edit.after, Record) else None for edit in edits
        ],
        "tags": [
            codec.to_json([tag.casefold() for tag in getattr(edit.after, "tags", ())]) for edit in edits
        ],
        "expected_names": list(expected),
        "expected_values": list(expected.values()),
        "cursor_names": list(cursors),
        "cursor_values": list(cursors.values()),
        "counter_names": list(counts),
        "counter_values": list(counts.values()),
        "marks": list(options.get("tombstones", ())),
        "restored_keys": None if restored_keys is None else list(restored_keys),
    }


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


# -- the store -------------------------------------------------------------------------------------------


class PostgresStore(Store):
    """A memory in a PostgreSQL database, from version 15. Safe to use from several threads and across forks.

    Args:
        url: The database and the memory, such as `postgresql://host/database?memory=acme`.
        analyse: Returns the tokens of a record, turn or paragraph.
        create: Whether to make the memory, and the tables, where there are none.
        busy_timeout: How long to wait for others that write, and for a server that is away.

    Attributes:
        shown: The address without user and password.
        identity: A UUID of the memory, unlike that of any other in any database.
        origin: An identifier of the database that a copy, a restore or a fail-over changes.

    Raises:
        NotFound: there is no such memory and `create` is false.
        StoreIncompatible: another version of Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
        MissingExtra: psycopg is not installed.
    """

    is_on_server = True
    _connections: PostgresConnections
    _REMEDY = "bring back a backup"
    _TALLIED = MappingProxyType(
        {
            "category": ("coalesce(it.category, '')", ""),
            "tag": ("tag", " CROSS JOIN json_array_elements_text(it.body -> 'tags') AS tag"),
            "kind": ("it.kind", ""),
            "scope": ("it.scope", ""),
        }
    )

    def __init__(
        self,
        url: str,
        *,
        analyse: Analyse,
        create: bool = True,
        busy_timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        patience = busy_timeout.total_seconds()
        address = parse_postgres_url(url)
        self.shown = address.shown
        self._analyse = analyse
        self._space, self.identity, self.origin = schema.open_space(address, create=create)
        self._connections = PostgresConnections(address, space=self._space, patience=patience)
        self._derived = DerivedDatabase(None, analyse=analyse)

    def keep_passages(self, path: Path) -> None:
        """Keep the analyses of all texts in a file of this machine, which is made when it is missing."""
        self._derived = DerivedDatabase(path, analyse=self._analyse)

    # -- changing ------------------------------------------------------------------------------------

    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Make all changes, or none, durably, with a journal row for each in the same transaction."""
        values = build_parameters(
            edits,
            space=self._space,
            patience=self._connections.lock_timeout,
            actor=actor,
            at=at,
            options=options,
        )
        try:
            first, keys = self._connections.change(CHANGE, values)
        except ChangeRefused as refusal:
            raise build_refusal(edits, options.get("since"), **refusal.detail) from None
        made = ((key, edit.subject, edit) for edit, key in zip(edits, keys, strict=True))
        rows = build_entries(first, made, at=at, actor=actor, note=options)
        if options.get("tombstones") is None:
            return rows
        newest = {(edit.subject, edit.id): number for number, edit in enumerate(edits)}
        left = (
            Change(before=None, after=edit.after)
            if newest[edit.subject, edit.id] == number and edit.after is not None
            else None
            for number, edit in enumerate(edits)
        )
        return [replace(row, edit=edit) for row, edit in zip(rows, left, strict=True)]

    def scrub(self) -> bool:
        """Rewrite the tables of the memory and its file here, so that no erased content is left in free space.

        `describe_remains` returns where the server still has such content.

        Returns:
            False if others had them in use, or if the role may not rewrite tables.
        """
        self._connections.refuse_change()
        with self._connections.connection() as connection:
            are_rewritten = schema.rewrite_tables(connection, schema.list_places(connection, self._space))
        return self._derived.scrub(self) and are_rewritten

    def describe_remains(self) -> tuple[str, ...]:
        """Return descriptions of where the server keeps erased content that `scrub` cannot remove."""
        with self._connections.connection() as connection:
            return schema.describe_remains(connection)

    def server_status(self) -> ServerStatus:
        """Return the health of the server, of the connections to it, and of background work."""
        return schema.read_status(self._connections)

    # -- the journal ---------------------------------------------------------------------------------

    def citing(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of values of which a version in the journal names one of these ids. Reads the journal."""
        sql = (
            "SELECT id FROM reverie.journal WHERE space = %s AND id <> '' "
            "AND EXISTS (SELECT FROM unnest(%s::text[]) AS c "
            "WHERE strpos(coalesce(after::text, before::text), c) > 0 AND c <> id) GROUP BY id ORDER BY min(key)"
        )
        return [name for (name,) in self._connections.rows(sql, (self._space, list(ids)))] if ids else []

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Return sessions with their numbers of turns, the most recently active first."""
        where = MemoryConditions(self._space, "session")
        if scopes is not None:
            where.add_any("it.scope", scopes)
        rows = self._connections.rows(
            "SELECT it.key, it.id, it.body::text, last.position, coalesce(last.at, it.at) AS last_at "
            "FROM reverie.thing AS it LEFT JOIN LATERAL (SELECT position, at FROM reverie.thing AS turn "
            "WHERE turn.space = %s AND turn.thread = it.key ORDER BY position DESC LIMIT 1) AS last ON true "
            f"WHERE {where} ORDER BY last_at DESC, it.key DESC{format_limit(limit)}",
            (self._space, *where.values),
        )
        return [self._build_overview(row[:3], *row[3:]) for row in rows]

    # -- for search -----------------------------------------------------------------------------------

    def read_searched(
        self, subject: Searchable, keys: Sequence[int]
    ) -> list[tuple[int, Record | Turn | Paragraph, int | None, str]]:
        """Return those of some values that are searched: key, value, key of a turn's session, document."""
        where = MemoryConditions(self._space, subject)
        where.add_any("it.key", keys)
        sql = f"SELECT it.key, it.id, it.body::text, it.thread FROM reverie.thing AS it WHERE {where}"
        found = []
        for row in sorted(self._connections.rows(sql, where.values)):
            if is_searched(value := self._decode_or_skip(subject, row[0], row)):
                found.append((row[0], value, row[3], row[2]))
        return found

    # -- working memory --------------------------------------------------------------------------------

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one with the same namespace and key; False if the namespace is full."""
        given = (*codec.ENTRIES.encode(entry), capacity, to_microseconds(now))
        return bool(self._connections.call_function("put_entry", *given))

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); return how many there were."""
        names = None if keys is None else list(keys)
        return int(self._connections.call_function("drop_entries", namespace, names))

    # -- vectors, ---------------------------------------------------------------------------------

    def read_vectors(self, embedder: int, keys: Sequence[int]) -> dict[int, KeptVector]:
        """Return the vectors that are there of some passages, by key. They may be of an earlier text."""
        if not keys:
            return {}
        rows = self._connections.rows(_READ_VECTORS, (self._space, list(keys), embedder))
        return {key: KeptVector(digest, scale, bytes(numbers)) for key, digest, scale, numbers in rows}

    def keep_vectors(self, embedder: int, vectors: Mapping[int, KeptVector], *, read_at: int) -> None:
        """Keep vectors of passages, except of those that have changed or gone meanwhile."""
        if vectors:
            kept = vectors.values()
            self._connections.call_function(
                "keep_vectors",
                embedder,
                read_at,
                list(vectors),
                [each.digest for each in kept],
                [each.scale for each in kept],
                [rf"\x{each.numbers.hex()}" for each in kept],
            )

    def drop_vectors(self, *, but: int) -> None:
        """Remove the vectors of all embedders except one."""
        self._connections.call_function("drop_vectors", but)

    # -- leases ----------------------------------------------------------------------------------------

    def take_lease(self, owner: str, lasting: timedelta) -> int | None:
        """Take or renew the lease of background work; return its token, None where another owner has it."""
        self._connections.refuse_change()
        sql = "SELECT reverie.take_lease(%s, %s, %s)"
        token: int | None = self._connections.call(sql, (self._space, owner, lasting))[0]
        return token

    def release_lease(self, owner: str) -> None:
        """Give the lease back, if this owner has it."""
        self._connections.call(
            "WITH released AS (UPDATE reverie.work SET owner = NULL, expires_at = '-infinity' "
            "WHERE space = %s AND owner = %s) SELECT 1",
            (self._space, owner),
        )

    def fencing(self, token: int) -> AbstractContextManager[None]:
        """Refuse all changes of this thread with `StoreUnavailable` once the lease has another token."""
        return self._connections.fencing(token)

    # -- housekeeping ----------------------------------------------------------------------------------

    def check(self) -> list[StoreProblem]:
        """Return all problems of the stored data; an empty list if there are none."""
        with self._connections.viewing():
            return schema.find_problems(self._connections)

    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""
        rows = self._connections.rows(
            f"SELECT {_COPIED} FROM reverie.journal WHERE space = %s AND sequence > %s ORDER BY sequence LIMIT %s",
            (self._space, after, limit),
        )
        return [CopiedRow(*row) for row in rows]

    # -- below -----------------------------------------------------------------------------------------

    def _where(self, table: str) -> Conditions:
        return MemoryConditions(self._space, _SUBJECTS.get(table))

    def _name(self, table: str) -> str:
        return f"reverie.{'thing' if table in _SUBJECTS else _TABLES[table]} AS it"

    def _select_changes(
        self, where: Conditions, id: str | None, order: str, limit: int
    ) -> list[JournalEntry]:
        if id is not None:
            where.add("it.id = ?", id)
        columns = codec.CHANGE_COLUMNS.replace("before, after", "before::text, after::text")
        end = f" ORDER BY it.sequence {order}{format_limit(limit)}"
        return [codec.decode_change(row) for row in self._read(columns, "journal", where, end)]

    def _form(self, subject: Subject) -> tuple[str, str]:
        return "it.key, it.id, it.body::text", "reverie.thing AS it"

    def _decode(self, subject: Subject, row: Row) -> Any:
        return codec.decode_value(subject, row[2])
