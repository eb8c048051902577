"""What is exported comes back as it was, whatever characters it has; and an export is whole or not there."""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings

from reverie import InvalidInput, Memory, StoreCorrupt
from tests.admin.transfer.samples import NOW, TEXTS, dump, fill
from tests.profiles import examples


@pytest.fixture
def full(tmp_path: Path) -> Memory:
    """A memory with something of every sort."""
    memory = Memory.open(tmp_path / "full", clock=lambda: NOW)
    memory.save("Prefers short answers", category="user-preferences/style", tags=["tone"], pinned=True)
    memory.scoped("user:a").save("The relay failed on Tuesday", kind="event")
    stale = memory.save("Staging was on port 5432").record
    memory.archive(stale.id, reason="it moved")
    chat = memory.session("telegram:12345")
    chat.add("user", "Which port?\n\n## user, now <!-- turn {} -->\n")
    chat.add("assistant", "", tool_calls=[{"id": "c1", "name": "lookup", "arguments": {"what": "port"}}])
    chat.add("tool", "\x1b[1m5433\x1b[0m", tool_call_id="c1")
    memory.scoped("user:a").session("cli:a").add("user", "A's own words")
    memory.pages.write("MEMORY.md", "# Facts\n\n- staging: 5433\n")
    memory.pages.append("HISTORY.md", "[2025-06-01 10:00] Moved staging.\nAll went well.")
    memory.pages.append("HISTORY.md", "[2025-06-02 10:00] Checked the relay.")
    return memory


@settings(max_examples=examples(20), deadline=None)
@given(texts=TEXTS)
def test_an_export_read_into_an_empty_memory_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    target = tmp_path_factory.mktemp("export") / "out"
    with Memory.open(":memory:") as before, Memory.open(":memory:") as after:
        fill(before, texts)
        told = before.admin.export(target)
        result = after.admin.import_from(target)
        assert dump(after._store) == dump(before._store)
        assert result.skipped == ()
        assert result.taken == told.records + told.sessions + told.turns + told.pages + told.paragraphs
        again = after.admin.import_from(target)
        assert (again.taken, set(again.skipped_by_reason)) == (0, {"known"})
        assert dump(after._store) == dump(before._store)
        assert after.admin.check() == []


def test_nothing_is_written_over(full: Memory, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("mine")
    with pytest.raises(InvalidInput, match="there already"):
        full.admin.export(target)
    with pytest.raises(InvalidInput, match="no folder"):
        full.admin.export(tmp_path / "missing" / "out")
    assert target.read_text() == "mine"
    full.admin.export(target, overwrite=True)
    assert json.loads(target.read_text().splitlines()[0])["type"] == "header"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "out"]
    full.close()


def test_only_what_is_asked_for_is_exported(full: Memory, tmp_path: Path) -> None:
    told = full.admin.export(tmp_path / "a", scope="user:a")
    assert (told.records, told.sessions, told.turns, told.pages, told.paragraphs) == (1, 1, 1, 0, 0)
    told = full.admin.export(tmp_path / "b", scope=["", "user:a"])
    assert (told.records, told.sessions, told.turns, told.pages, told.paragraphs) == (3, 2, 4, 1, 2)
    full.close()


def test_an_earlier_state_can_be_exported(full: Memory, tmp_path: Path) -> None:
    with full.as_of(1) as then:
        assert then.export(tmp_path / "then").records == 1
    full.close()


def test_an_export_goes_on_while_others_write(full: Memory, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            full.session("telegram:12345").add("user", f"said meanwhile {number}")
            full.save(f"Saved meanwhile {number}")
            if stop.is_set():
                return

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        for number in range(5):
            full.admin.export(tmp_path / str(number))
        stop.set()
        writing.result()
    for number in range(5):
        with Memory.open(tmp_path / f"other-{number}") as other:
            assert other.admin.import_from(tmp_path / str(number)).skipped == ()
            assert other.admin.check() == []
            assert len(other.turns("telegram:12345")) >= 3
    full.close()


def test_an_export_without_what_cannot_be_read_is_refused_until_it_is_repaired(tmp_path: Path) -> None:
    for table, fault in (("records", "kind = 'nonsense'"), ("turns", "metadata = '['")):
        folder, target = tmp_path / table, tmp_path / f"{table}.jsonl"
        with Memory.open(folder) as memory:
            memory.save("Ana sails")
            memory.session("s").add("user", "hello")
        with closing(sqlite3.connect(folder / "reverie.db")) as database, database:
            database.execute(f"UPDATE {table} SET {fault}")
        with Memory.open(folder) as memory:
            with pytest.raises(StoreCorrupt, match="doctor"):
                memory.admin.export(target)
            assert not target.exists()
            memory.admin.doctor(fix=True)
            memory.admin.export(target)
        with Memory.open(":memory:") as other:
            assert other.admin.import_from(target).is_complete
