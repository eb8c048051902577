"""A store can be copied while others write, and the copy is a store."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput, StoreUnavailable
from reverie.stores.sqlite import SQLiteStore
from tests.support.contract.factories import (
    NOW,
    add,
    analyse,
    make_additions,
    make_page,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_turn,
)
from tests.support.contract.replay import read_contents


@pytest.mark.parametrize("mask", [0, 0o377])
def test_a_copy_has_everything_and_is_for_its_owner_alone(
    store: SQLiteStore, tmp_path: Path, mask: int
) -> None:
    add(store, make_record(1), make_session(), make_turn(0), make_page(), make_paragraph(1))
    store.erase(make_removals(make_record(1)), actor="owner", at=NOW, tombstones=["mark"])
    target = tmp_path / "backups" / "monday.db"
    before = os.umask(mask)
    try:
        store.backup(target)
    finally:
        os.umask(before)
    assert [one.name for one in target.parent.iterdir()] == ["monday.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    with contextlib.closing(SQLiteStore(target, analyse=analyse, create=False)) as copy:
        assert copy.journal() == store.journal()
        assert read_contents(copy) == read_contents(store)
        assert copy.tombstones(["mark"]) == {"mark"}
        assert copy.check() == []
        add(copy, make_record(2))
        assert copy.check() == []
    assert store.sequence() == 6, "the store itself is not touched"


@pytest.mark.parametrize("what", ["file", "folder", "link to nothing"])
def test_nothing_is_written_over(store: SQLiteStore, tmp_path: Path, what: str) -> None:
    target = tmp_path / "there"
    if what == "file":
        target.write_text("mine")
    elif what == "folder":
        target.mkdir()
    else:
        target.symlink_to(tmp_path / "nowhere")
    before = sorted(one.name for one in tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="is there already"):
        store.backup(target)
    assert sorted(one.name for one in tmp_path.iterdir()) == before
    assert what != "file" or target.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_reported(store: SQLiteStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="choose another place"):
        store.backup(tmp_path / "file" / "copy.db")


@pytest.mark.slow
def test_copies_made_while_others_write_are_each_of_one_moment(store: SQLiteStore, tmp_path: Path) -> None:
    done = threading.Event()

    def write(first: int) -> None:
        number = first
        while not done.is_set():
            other = make_record(number + 500_000, content=f"The other of {number} " + "x" * 3000)
            store.commit(make_additions(make_record(number), other), actor=str(first), at=NOW)
            number += 1

    with ThreadPoolExecutor(2) as threads:
        writing = [threads.submit(write, first) for first in (1, 100_000)]
        try:
            for number in range(6):
                target, seen = tmp_path / f"copy-{number}.db", store.sequence()
                store.backup(target)
                with contextlib.closing(SQLiteStore(target, analyse=analyse)) as copy:
                    assert copy.check() == []
                    assert seen <= copy.sequence() <= store.sequence()
                    assert copy.sequence() % 2 == 0, "a commit is copied whole"
        finally:
            done.set()
        for each in writing:
            each.result()
    assert store.check() == []
