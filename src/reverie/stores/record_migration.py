"""Migration of records from the version in which Reverie's own facts were metadata and a kind was part of the text.

The facts move from the metadata to fields, and records get the fingerprints of today. Of live records that then have
the same text, one stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from reverie.domain.change import Change
from reverie.domain.record import NOTHING, Record, move_former_metadata
from reverie.domain.similarity.deduplication import merge_same_texts
from reverie.stores.codec import RECORDS, UnreadableRow, from_document

ACTOR = "reverie"


def move_fields(record: Record) -> Record:
    """Return a record with the facts in its metadata as fields."""
    moved = move_former_metadata({"archived_at": record.archived_at, "metadata": record.metadata})
    metadata = moved.pop("metadata")
    if metadata is record.metadata:
        return record
    moved["replaces"] = tuple(moved.get("replaces", ()))
    return replace(record, metadata=MappingProxyType(metadata) if metadata else NOTHING, **moved)


def read_moved(document: str | None) -> Record | None:
    """Return the record of a document in the journal if its fields move; None otherwise, or if it cannot be read."""
    if document is None or '"metadata"' not in document:
        return None
    try:
        record = from_document(RECORDS, document)
    except UnreadableRow:
        return None
    moved = move_fields(record)
    return None if moved is record else moved


def find_merges(records: Iterable[Record], *, now: datetime) -> list[Change]:
    """Return the changes that leave one live record for each scope and fingerprint."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if not record.archived:
            groups[record.scope, record.fingerprint].append(record)
    merged = (merge_same_texts(group, now=now) for group in groups.values() if len(group) > 1)
    return [change for changes in merged for change in changes]
