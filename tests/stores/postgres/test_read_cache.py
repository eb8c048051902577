"""What a process remembers of a memory is what the state it reads has, whoever changes it."""

from __future__ import annotations

import random
import threading
import uuid
from contextlib import closing

import pytest

from reverie.domain.record import Record
from reverie.stores.postgres import PostgresStore
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import (
    NOW,
    analyse,
    make_additions,
    make_change,
    make_record,
    make_removals,
)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url(uuid.uuid4().hex)


def read(store: PostgresStore, names: list[str]) -> tuple[object, ...]:
    """Return everything that may be remembered."""
    keys = range(1, 70)
    return (
        sorted(store.passages("record", keys)),
        store.records(names),
        [record for key in keys for record in store.records([key])],
        store.measure("record", None),
    )


@pytest.mark.parametrize("steps", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_views_see_the_changes_of_all_processes(url: str, steps: int) -> None:
    chance = random.Random(4)
    there: dict[str, Record] = {}
    with (
        closing(PostgresStore(url, analyse=analyse)) as one,
        closing(PostgresStore(url, analyse=analyse)) as two,
    ):
        for step in range(steps):
            store = chance.choice((one, one, two))
            number = chance.randrange(min(8, steps // 4))
            new = make_record(number, content=f"House {number} has {step} doors")
            old = there.pop(new.id, None)
            if old is None or chance.random() < 0.6:
                edits = make_additions(new) if old is None else make_change(old, new)
                store.commit(edits, actor="owner", at=NOW)
                there[new.id] = new
            elif chance.random() < 0.5:
                store.commit(make_removals(old), actor="owner", at=NOW)
            else:
                store.erase(make_removals(old), actor="owner", at=NOW)
            expected = read(one, list(there))  # outside a view nothing is remembered
            for each in (one, two):
                with each.reading():
                    assert each.sequence() == step + 1
                    assert read(each, list(there)) == expected


@pytest.mark.parametrize("asks_first", [True, False])
def test_an_older_view_neither_sees_nor_leaves_anything_of_another_state(url: str, asks_first: bool) -> None:
    old, new = make_record(1, content="One door"), make_record(1, content="Two doors")
    has_begun, may_read = threading.Event(), threading.Event()
    seen: list[tuple[object, ...]] = []

    def look() -> None:
        with store.reading():
            store.sequence() if asks_first else store.cursor("any")
            has_begun.set()
            assert may_read.wait(30)
            store.sequence()
            seen.append(read(store, [old.id]))

    def look_now() -> tuple[object, ...]:
        with store.reading():
            store.sequence()
            return read(store, [old.id])

    with closing(PostgresStore(url, analyse=analyse)) as store:
        store.commit(make_additions(old), actor="owner", at=NOW)
        before = read(store, [old.id])
        looking = threading.Thread(target=look)
        looking.start()
        assert has_begun.wait(30)
        store.commit(make_change(old, new), actor="owner", at=NOW)
        after = read(store, [old.id])
        assert look_now() == after != before
        may_read.set()
        looking.join()
        assert seen == [before]
        assert look_now() == after
