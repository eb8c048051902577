"""The database of passages: filled by whoever searches, at once in every process, and made again after anything."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.passage import SEARCHABLE
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.database_file import find_passages
from tests.stores.sqlite.conftest import open_store, run
from tests.support.contract.factories import (
    NOW,
    add,
    change,
    erase,
    make_additions,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_turn,
)
from tests.support.contract.model import StoreModel
from tests.support.disks import small_disk


def describe(store: Store | StoreModel) -> object:
    """Return all that a store tells a search."""
    return [
        (
            sorted(store.passages(subject, range(1, 400))),
            sorted(store.passages(subject, range(1, 400), around=1)),
            store.measure(subject, None),
            store.measure(subject, ["user:ana"]),
            store.measure(subject, [""], category="food"),
        )
        for subject in SEARCHABLE
    ]


def copy_changes(store: SQLiteStore) -> StoreModel:
    """Return a model with the same changes."""
    model = StoreModel()
    for row in store.journal():
        if row.edit is not None:
            model.commit([row.edit], actor="owner", at=NOW)
    return model


def change_everything(store: SQLiteStore, *, start: int = 1) -> None:
    """Create, change, archive and remove values of all kinds."""
    records = [
        make_record(start + number, category="food", content=f"Rice {start + number}") for number in range(30)
    ]
    records[3] = replace(records[3], scope="user:ana")
    add(store, *records)
    name = f"chat:{start}"
    turns = [make_turn(place, name, id=f"{start:06x}{place:06x}") for place in range(4)]
    add(store, make_session(name), *turns)
    add(store, make_paragraph(start))
    change(store, records[0], replace(records[0], content=f"Tea {start}"))
    change(store, records[1], replace(records[1], archived_at=NOW))
    store.commit(make_removals(records[2], turns[3]), actor="owner", at=NOW)


def test_it_tells_what_a_store_without_it_tells(path: Path, store: SQLiteStore) -> None:
    for start in (1, 101):
        change_everything(store, start=start)
        assert describe(store) == describe(copy_changes(store))
    with contextlib.closing(open_store(path)) as other:
        assert describe(other) == describe(store)
    assert not path.read_bytes().count(b" rice  ")  # the store has what was said, and no analysis of it


def test_it_may_be_removed_damaged_or_of_another_store_at_any_time(path: Path, store: SQLiteStore) -> None:
    change_everything(store)
    expected, file = describe(store), find_passages(path.parent)
    other = path.parent.parent / "other" / "reverie.db"
    with contextlib.closing(open_store(other)) as another:
        another.commit(make_additions(*(make_record(number) for number in range(60))), actor="a", at=NOW)
        assert another.measure("record", None).passages == 60

    def damage() -> None:
        file.write_bytes(file.read_bytes()[:4096] + os.urandom(file.stat().st_size - 4096))

    def exchange() -> None:
        shutil.copy(find_passages(other.parent), file)

    def make_older() -> None:
        with contextlib.closing(sqlite3.connect(file)) as found:
            found.execute("PRAGMA user_version = 77")

    def obstruct() -> None:
        file.unlink()
        file.mkdir()

    removals = (file.unlink, lambda: shutil.rmtree(file.parent), damage, exchange, make_older, obstruct)
    for spoil in removals:
        store.close()
        for ending in ("-wal", "-shm"):
            file.with_name(file.name + ending).unlink(missing_ok=True)
        spoil()
        store = open_store(path)
        assert describe(store) == expected, spoil
    store.close()


def test_it_is_made_again_while_others_have_it_open(path: Path, store: SQLiteStore) -> None:
    change_everything(store)
    with contextlib.closing(open_store(path)) as other:
        assert describe(other) == describe(store)
        shutil.rmtree(find_passages(path.parent).parent)
        change_everything(store, start=101)
        assert describe(other) == describe(store) == describe(copy_changes(store))
    assert find_passages(path.parent).exists()


WRITES = """
    import sys
    from pathlib import Path
    from reverie.stores.sqlite import SQLiteStore
    from reverie.stores.sqlite.database_file import find_passages
    from tests.support.contract.factories import NOW, analyse, make_additions, make_record
    path, worker = Path(sys.argv[1]), int(sys.argv[2])
    store = SQLiteStore(path, analyse=analyse, passages=find_passages(path.parent))
    for number in range(int(sys.argv[3])):
        (row,) = store.commit(make_additions(make_record(10_000 * worker + number)), actor="owner", at=NOW)
        assert [passage.key for passage in store.passages("record", [row.key])] == [row.key]
        print(row.key, flush=True)
"""


def test_processes_find_each_write_at_once_and_count_it_once(path: Path, store: SQLiteStore) -> None:
    processes = [run(WRITES, path, worker, 60) for worker in (1, 2, 3)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert store.measure("record", None).passages == 180
    assert describe(store) == describe(copy_changes(store))


@pytest.mark.slow
def test_whoever_is_killed_leaves_it_right(path: Path, store: SQLiteStore) -> None:
    for worker in range(1, 12):
        process = run(WRITES, path, worker, 10_000)
        assert process.stdout is not None
        for _ in range(3 * worker):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert store.measure("record", None).passages == store.sequence()
    assert describe(store) == describe(copy_changes(store))


def test_where_the_disk_is_full_it_goes_on_in_memory(path: Path, store: SQLiteStore) -> None:
    with small_disk(find_passages(path.parent).parent, "100k"):
        for start in (1, 101, 201):
            change_everything(store, start=start)
            assert describe(store) == describe(copy_changes(store))
        store.close()


def test_what_is_erased_is_removed_though_the_file_is_not_in_use(path: Path, store: SQLiteStore) -> None:
    secret = make_record(1, content="under the xylophone", scope="user:xylophone", category="xylophone/keys")
    add(store, secret)
    assert store.measure("record", ["user:xylophone"], category="xylophone").passages == 1
    find = find_passages(path.parent)
    assert b"xylophone" in find.read_bytes() + find.with_name(f"{find.name}-wal").read_bytes()
    with contextlib.closing(open_store(path)) as other:
        erase(other, make_removals(secret))
        assert other.scrub()
    assert store.read_changes(0) == (2, {"record": ([1], [])})
    for file in path.parent.rglob("*"):
        assert file.is_dir() or b"xylophone" not in file.read_bytes(), file
