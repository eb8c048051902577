"""What only a file can go through: other files in its place, migrations, kills, full disks, forks, damage."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from reverie.domain.errors import NotFound, StoreIncompatible, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.record import Record
from reverie.domain.text.ids import generate_id
from reverie.stores.codec import RECORDS, from_document, to_document
from reverie.stores.sqlite import SQLiteStore
from tests.stores.sqlite.conftest import run
from tests.support.contract.factories import NOW, add, analyse, make_additions, make_record, make_time
from tests.support.contract.suite import FULL_RECORD

ROOT = os.geteuid() == 0
NOBODY = 65534
UNUSUAL = dataclasses.replace(FULL_RECORD, archived_at=make_time(6), archive_reason="old")
"""A record that holds in no field what is usual."""


def everything_in(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted(folder.iterdir())}


def in_a_fork(use: Callable[[], bool], *, meanwhile: Callable[[], None] = lambda: None) -> bool:
    """Whether a forked child found what it says it would find."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if use() else 2
        finally:
            os._exit(code)
    meanwhile()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def output_of(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


# -- what may be in the file's place ---------------------------------------------------------------------


def test_nothing_is_made_when_it_shall_not_be(path: Path) -> None:
    with pytest.raises(NotFound, match="no store at"):
        SQLiteStore(path, analyse=analyse, create=False)
    assert not path.parent.exists()


def test_what_is_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "reverie.db"
    head = b"SQLite format 3\x00"
    for content in (
        b"",
        b"# Memory\n\nNo database.\n",
        head + bytes(20),
        head + bytes(4080),
        os.urandom(5000),
    ):
        path.write_bytes(content)
        with pytest.raises(StoreIncompatible, match=r"reverie\.db"):
            SQLiteStore(path, analyse=analyse)
        assert everything_in(tmp_path) == {"reverie.db": content}
    with pytest.raises(StoreIncompatible, match="is a folder"):
        SQLiteStore(tmp_path, analyse=analyse)


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    foreign = sqlite3.connect(path)
    foreign.execute("PRAGMA journal_mode = WAL")
    foreign.execute("CREATE TABLE records (id TEXT)")
    before = {name: content for name, content in everything_in(tmp_path).items() if "shm" not in name}
    with pytest.raises(StoreIncompatible, match="another program"):
        SQLiteStore(path, analyse=analyse)
    after = {name: content for name, content in everything_in(tmp_path).items() if "shm" not in name}
    foreign.close()
    assert before == after


# -- documents and versions ----------------------------------------------------------------------------


def test_a_document_without_what_is_usual_is_the_same_record() -> None:
    for name in [field.name for field in dataclasses.fields(Record)]:
        record = dataclasses.replace(make_record(1), **{name: getattr(UNUSUAL, name)})
        other = dataclasses.replace(UNUSUAL, **{name: getattr(make_record(1), name)})
        for each in (record, UNUSUAL, other):
            assert from_document(RECORDS, to_document(RECORDS, RECORDS.encode(each))) == each, name


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path, store: SQLiteStore) -> None:
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    before = everything_in(path.parent)
    with pytest.raises(StoreIncompatible, match="newer Reverie"):
        SQLiteStore(path, analyse=analyse)
    assert everything_in(path.parent) == before


# -- whose files they are --------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0, 0o077, 0o377])
def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "new" / "agent" / "reverie.db"
    before = os.umask(mask)
    try:
        store = SQLiteStore(path, analyse=analyse)
        add(store, make_record(1))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {"reverie.db": 0o600, "reverie.db-wal": 0o600, "reverie.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("there", [False, True], ids=["new", "existing"])
def test_a_folder_that_may_not_be_written_is_reported(there: bool) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest's own is closed to other users
    try:
        path = folder / "reverie.db"
        if there:
            SQLiteStore(path, analyse=analyse).close()
            path.chmod(0o444)
        folder.chmod(0o555)

        def use() -> bool:
            if ROOT:
                os.setuid(NOBODY)  # nothing is read-only for root
            with pytest.raises(StoreUnavailable, match=r"reverie\.db.*(denied|writable)"):
                add(SQLiteStore(path, analyse=analyse), make_record(1))
            return True

        assert in_a_fork(use)
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


# -- several at once -------------------------------------------------------------------------------------


def test_two_that_create_one_file_share_it(path: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        stores = list(threads.map(lambda _: SQLiteStore(path, analyse=analyse), range(6)))
    for number, one in enumerate(stores):
        add(one, make_record(number))
    assert [one.sequence() for one in stores] == [6] * 6
    for one in stores:
        one.close()
    assert [one.name for one in path.parent.iterdir()] == ["reverie.db"]


COMMITS = """
    import sys
    from pathlib import Path
    from reverie.domain.errors import Conflict
    from reverie.stores.sqlite import SQLiteStore
    from tests.support.contract.factories import NOW, analyse, make_additions, make_record
    path, first = Path(sys.argv[1]), int(sys.argv[2])
    store = SQLiteStore(path, analyse=analyse)
    for number in range(60):
        same = make_record(first + number, content=f"The same fact {number}")
        try:
            store.commit(make_additions(same), actor=str(first), at=NOW)
            print(number, flush=True)
        except Conflict:
            pass
        store.commit(make_additions(make_record(first + 500 + number)), actor=str(first), at=NOW)
    store.close()
"""


def test_of_two_processes_saving_one_fact_exactly_one_wins(path: Path, store: SQLiteStore) -> None:
    processes = [run(COMMITS, path, 1000), run(COMMITS, path, 3000)]
    won = [output_of(process).split() for process in processes]
    assert sorted(map(int, won[0] + won[1])) == list(range(60))
    assert store.measure("record", None).passages == 180
    assert store.sequence() == 180
    assert store.check() == []


def test_a_lock_held_too_long_is_reported(path: Path, store: SQLiteStore) -> None:
    hasty = SQLiteStore(path, analyse=analyse, busy_timeout=timedelta(milliseconds=20))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked for too long"):
            add(hasty, make_record(1))
        assert hasty.sequence() == 0, "reading does not wait for a writer"
        other.execute("ROLLBACK")
    add(hasty, make_record(1))
    hasty.close()


def test_what_a_child_commits_after_its_parent_closed_is_kept(path: Path, store: SQLiteStore) -> None:
    add(store, make_record(1))
    closed_read, closed_write = os.pipe()

    def use() -> bool:
        started = store.sequence() == 1
        os.read(closed_read, 1)
        store.commit(make_additions(make_record(2)), actor="child", at=NOW)
        return started

    def close() -> None:
        time.sleep(0.2)  # the child has opened the file by then, or the test proves less
        store.close()
        os.write(closed_write, b"x")

    assert in_a_fork(use, meanwhile=close)
    os.close(closed_read)
    os.close(closed_write)
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as again:
        assert [row.actor for row in again.journal()] == ["test", "child"]
        assert again.check() == []


def test_a_fork_in_the_middle_of_find_is_reported_to_the_child(store: SQLiteStore) -> None:
    add(store, make_record(1), make_record(2))
    reading = store.find(Filter())
    next(reading)

    def use() -> bool:
        with pytest.raises(StoreUnavailable, match="before forking"):
            store.sequence()
        reading.close()  # type: ignore[attr-defined]
        return True

    assert in_a_fork(use)
    assert len(list(reading)) == 1
    add(store, make_record(3))
    assert store.check() == []


def test_a_fork_draws_other_ids(tmp_path: Path) -> None:
    generate_id()
    assert in_a_fork(lambda: (tmp_path / generate_id()).write_bytes(b"") == 0)
    assert {generate_id() for _ in range(100)}.isdisjoint(os.listdir(tmp_path))


# -- what goes wrong on the way --------------------------------------------------------------------------


def test_a_checkpoint_cut_short_is_finished(path: Path, store: SQLiteStore, tmp_path: Path) -> None:
    add(store, *(make_record(number) for number in range(300)))
    short, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    store.close()
    whole = path.read_bytes()
    assert len(short) < len(whole)
    copy = tmp_path / "copy" / "reverie.db"
    copy.parent.mkdir()
    copy.write_bytes(whole[:4096] + short[4096:])  # only the first page has been written back
    Path(f"{copy}-wal").write_bytes(log)
    with contextlib.closing(SQLiteStore(copy, analyse=analyse)) as after_a_crash:
        assert len(list(after_a_crash.find(Filter()))) == 300
        assert after_a_crash.check() == []


def test_a_commit_that_fails_at_its_last_page_is_undone_whole(path: Path, store: SQLiteStore) -> None:
    add(store, make_record(0))
    with store._connections.writing() as file:
        (pages,) = file.execute("PRAGMA page_count").fetchone()
        file.execute(f"PRAGMA max_page_count = {pages + 3}")
    edits = make_additions(
        *(make_record(number, content=f"{number} " + "x" * 900) for number in range(1, 60))
    )
    with pytest.raises(StoreUnavailable, match="disk is full"):
        store.commit(edits, actor="test", at=NOW)
    assert store.sequence() == 1
    assert store.check() == []
    with store._connections.writing() as file:
        file.execute("PRAGMA max_page_count = 1073741823")
    store.commit(edits, actor="test", at=NOW)
    assert store.check() == []
