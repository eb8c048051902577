"""Records for the tests of the index, and their commits."""

from __future__ import annotations

from datetime import UTC, datetime

from reverie.domain.change import Change
from reverie.domain.record import Record
from reverie.stores.protocol import Store
from tests.factories import make_record

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
WORDS = ["rock", "music", "tea", "coffee", "train", "berlin", "python", "garden"]


def record(number: int, content: str, **fields: object) -> Record:
    return make_record(number, content=content, moment=NOON, **fields)


def put(store: Store, before: Record | None, after: Record | None) -> None:
    store.commit([Change(before=before, after=after)], actor="test", at=NOON)
