"""Migration of the records of an SQLite file; see `reverie.stores.record_migration`."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from reverie.domain.passage import Analyse
from reverie.domain.record import Record
from reverie.stores.codec import RECORDS, UnreadableRow, to_short_document
from reverie.stores.record_migration import ACTOR, find_merges, move_fields, read_moved
from reverie.stores.sqlite.reading import iter_things_tolerantly
from reverie.stores.sqlite.transaction import WriteTransaction, prepare_change


def rewrite_records(file: sqlite3.Connection, analyse: Analyse) -> None:
    """Move fields, compute fingerprints, and merge records with the same text, within the caller's transaction."""
    _rewrite_journal(file)
    assignments = ", ".join(f"{name} = ?" for name in RECORDS.names)
    records: dict[int, Record] = {}
    for key, *row in iter_things_tolerantly(file, RECORDS):
        try:
            record = RECORDS.decode(row)
        except UnreadableRow:
            continue  # the check of the file reports it
        records[key] = moved = move_fields(record)
        if moved is not record:
            file.execute(f"UPDATE records SET {assignments} WHERE key = ?", (*RECORDS.encode(moved), key))
    if changes := find_merges(records.values(), now=(now := datetime.now(UTC))):
        file.execute("DROP INDEX records_live")  # the fingerprints of the others are still those of before
        transaction = WriteTransaction(file)
        for change in changes:
            transaction.make(prepare_change(change, analyse))
        transaction.finish(actor=ACTOR, operation="reinforce", at=now)
    file.executemany(
        "UPDATE records SET fingerprint = ? WHERE key = ? AND fingerprint <> ?",
        [(mark, key, mark) for key, mark in ((key, each.fingerprint) for key, each in records.items())],
    )
    file.execute(
        "CREATE UNIQUE INDEX IF NOT EXISTS records_live ON records (fingerprint, scope) WHERE archived_at IS NULL"
    )


def _rewrite_journal(file: sqlite3.Connection) -> None:
    rows = file.execute("SELECT sequence, before, after FROM journal WHERE subject = 'record'").fetchall()
    for sequence, *documents in rows:
        for name, document in zip(("before", "after"), documents, strict=True):
            if (moved := read_moved(document)) is not None:
                short = to_short_document(RECORDS, RECORDS.encode(moved))
                file.execute(f"UPDATE journal SET {name} = ? WHERE sequence = ?", (short, sequence))
