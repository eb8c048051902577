"""Migration of the records of a PostgreSQL database; see `reverie.stores.record_migration`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reverie.domain.change import Value
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.stores.codec import RECORDS, UnreadableRow, from_document, to_document
from reverie.stores.postgres.changes import CHANGE, build_parameters
from reverie.stores.record_migration import ACTOR, find_merges, move_fields, read_moved

if TYPE_CHECKING:
    import psycopg

_THINGS = (
    "SELECT key, id, body::text, fingerprint, length, voice, cues, dates, terms FROM reverie.thing "
    "WHERE space = %s AND subject = 'record' ORDER BY key"
)
_PATIENCE = "30s"


def rewrite_records(connection: psycopg.Connection) -> None:
    """Move fields, compute fingerprints, and merge records with the same text, in all memories of a database."""
    for (space,) in connection.execute("SELECT id FROM reverie.space").fetchall():
        connection.execute("SELECT set_config('reverie.space', %s, true)", [str(space)])
        _rewrite_journal(connection, space)
        _rewrite_things(connection, space)


def _rewrite_things(connection: psycopg.Connection, space: int) -> None:
    records: dict[int, tuple[Record, str | None]] = {}
    analyses: dict[str, AnalyzedText] = {}
    for key, name, body, mark, length, voice, cues, dates, terms in connection.execute(
        _THINGS, [space]
    ).fetchall():
        try:
            record = from_document(RECORDS, body)
        except UnreadableRow:
            continue  # the check of the store reports it
        moved = move_fields(record)
        records[key] = moved, mark
        analyses[name] = AnalyzedText(terms=terms, length=length, speaker=voice, cues=cues, dates=dates)
        if moved is not record:
            document = to_document(RECORDS, RECORDS.encode(moved))
            connection.execute(
                "UPDATE reverie.thing SET body = %s::json WHERE space = %s AND subject = 'record' AND key = %s",
                [document, space, key],
            )
    _merge(connection, space, {key: record for key, (record, _) in records.items()}, analyses)
    for key, (record, mark) in records.items():
        if mark is not None and mark != record.fingerprint:
            connection.execute(
                "UPDATE reverie.thing SET fingerprint = %s "
                "WHERE space = %s AND subject = 'record' AND key = %s AND fingerprint IS NOT NULL",
                [record.fingerprint, space, key],
            )


def _merge(
    connection: psycopg.Connection,
    space: int,
    records: Mapping[int, Record],
    analyses: Mapping[str, AnalyzedText],
) -> None:
    """Merge records with the same text. Others still have the fingerprints of before, so none is in the way."""

    def analyse(value: Value) -> AnalyzedText:
        return analyses[value.id]  # background work renews the words

    now = datetime.now(UTC)
    if changes := find_merges(records.values(), now=now):
        parameters = build_parameters(
            changes, analyse, space=space, patience=_PATIENCE, actor=ACTOR, at=now, operation="reinforce"
        )
        connection.execute(CHANGE, {**parameters, "is_retry": False})


def _rewrite_journal(connection: psycopg.Connection, space: int) -> None:
    rows = connection.execute(
        "SELECT sequence, before::text, after::text FROM reverie.journal WHERE space = %s AND subject = 'record'",
        [space],
    ).fetchall()
    for sequence, *documents in rows:
        for name, document in zip(("before", "after"), documents, strict=True):
            if (moved := read_moved(document)) is not None:
                connection.execute(
                    f"UPDATE reverie.journal SET {name} = %s::json WHERE space = %s AND sequence = %s",
                    [to_document(RECORDS, RECORDS.encode(moved)), space, sequence],
                )
