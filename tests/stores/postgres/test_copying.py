"""A memory is copied between folders and databases with its journal to the last byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from reverie import InvalidInput, Memory, NotFound, Settings
from reverie.admin.transfer.copying import copy_memory
from reverie.domain.errors import StoreCorrupt
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.copying import PostgresCopyTarget
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.rewriting import SQLiteCopyTarget
from tests.factories import MovableClock
from tests.support.contract.factories import NOW, make_entry
from tests.support.contract.replay import is_journal_consistent, read_contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory with everything in it: scopes, sessions, pages, entries, and things that were removed or erased."""
    clock = MovableClock()
    with Memory.open(tmp_path / "from", settings=Settings(files="none"), clock=clock) as memory:
        saved = [
            memory.scoped(f"user:{n % 3}").save(f"Fact {n} about Oslo and tea", tags=["x"]) for n in range(40)
        ]
        for name in ("chat:1", "chat:2"):
            for n in range(12):
                clock.move(minutes=1)
                memory.session(name).add("user", f"What of fact {n}?")
        memory.pages.write("MEMORY.md", "# Notes\n\nTea at four.\n")
        memory.scoped("user:0").update(saved[0].record.id, content="Fact 0 about Bergen and tea")
        memory.scoped("user:1").archive(saved[1].record.id)
        memory.admin.forget(saved[2].record.id)
        memory.admin.forget(session="chat:2")
        memory.save("Said after all that")
        memory._store.put_entry(make_entry(expires_at=NOW + timedelta(days=9)), capacity=None, now=NOW)
    return tmp_path / "from"


def open_either(place: Path | str) -> Store:
    if isinstance(place, Path):
        return SQLiteStore(place / "reverie.db", analyse=analyze, create=False)
    return PostgresStore(place, analyse=analyze, create=False)


def describe(place: Path | str) -> dict[str, object]:
    """Return all that a store answers."""
    with closing(open_either(place)) as store:
        assert store.check() == []
        assert is_journal_consistent(store)
        rows = store.journal(limit=100_000)
        ids = {row.edit.id for row in rows if row.edit is not None}
        return {
            "journal": rows,
            "of each": {name: store.journal(id=name) for name in sorted(ids)},
            "contents": read_contents(store),
            "entries": store.entries(None, now=NOW),
            "cursors": store.cursors(),
        }


def read_raw(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "reverie.db")) as file:
        return file.execute("SELECT * FROM journal ORDER BY sequence").fetchall()


def test_a_memory_comes_back_from_a_database_as_it_went(folder: Path, url: str, tmp_path: Path) -> None:
    there, back = copy_memory(str(folder), url), copy_memory(url, str(tmp_path / "back"))
    assert there == back
    assert there.changes == len(read_raw(folder)) > 60
    assert describe(folder) == describe(url) == describe(tmp_path / "back")
    assert read_raw(tmp_path / "back") == read_raw(folder)
    with Memory.open(tmp_path / "back") as memory:
        assert memory.scoped("user:0").search("Bergen")
        assert not memory.admin.doctor().findings


@pytest.mark.slow
@pytest.mark.parametrize("to_database", [True, False])
def test_an_interrupted_copy_goes_on(
    folder: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_database: bool
) -> None:
    target = url if to_database else str(tmp_path / "to")
    writes: Callable[..., None] = (PostgresCopyTarget if to_database else SQLiteCopyTarget).finish
    monkeypatch.setattr("reverie.stores.protocol._CHUNK", 25)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_memory(str(folder), target, progress=stop)
    with pytest.raises(NotFound):
        Memory.open(target, create=False)
    owner = PostgresCopyTarget if to_database else SQLiteCopyTarget

    def break_after(self: object, rest: object) -> None:
        writes(self, rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(owner, "finish", break_after)
        with pytest.raises(KeyboardInterrupt):
            copy_memory(str(folder), target)
    report = copy_memory(str(folder), target)
    assert report.resumed_after == (report.changes if to_database else 0), "a finished file is made again"
    assert describe(target if to_database else Path(target)) == describe(folder)


@pytest.mark.slow
def test_a_place_that_is_taken_or_empty_is_refused(folder: Path, url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        copy_memory(str(tmp_path / "nothing"), url)
    with pytest.raises(NotFound):
        copy_memory(url, str(tmp_path / "to"))
    copy_memory(str(folder), url)
    for place in (url, str(folder)):
        with pytest.raises(InvalidInput, match="already"):
            copy_memory(str(folder), place)
    with closing(PostgresStore(url, analyse=analyze)) as store:
        assert (
            store._connections.rows("SELECT name FROM reverie.space WHERE name LIKE '%%(being copied)'") == []
        )
    assert not list(folder.glob("*.copying*"))


@pytest.mark.slow
def test_a_copy_that_differs_is_not_published(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = PostgresCopyTarget.write_rows
    monkeypatch.setattr(
        PostgresCopyTarget,
        "write_rows",
        lambda self, rows: writes(
            self, [row._replace(actor="somebody") if row.sequence == 7 else row for row in rows]
        ),
    )
    with pytest.raises(StoreCorrupt, match="differs"):
        copy_memory(str(folder), url)
    with pytest.raises(NotFound):
        Memory.open(url, create=False)
