"""A page of the database is zeroed, or the file is cut: `reverie doctor --fix` brings back what can be read."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reverie import Memory
from reverie.domain.filter import Filter
from reverie.domain.text.timestamps import utc_now
from reverie.interfaces.cli.main import cli
from reverie.stores.protocol import Store, iter_rows, iter_values

PAGE = 4096
KEPT = "reverie.db.broken-1"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of more than seventy pages, with content of every kind and every way of changing it."""
    folder = tmp_path_factory.mktemp("whole") / "memory"
    with Memory.open(folder, embedder="none") as memory:
        forgotten = memory.save("The spare key lies under the old oak in the garden").record
        records = []
        for number in range(34):
            shelves = (f"Shelf {number}-{n} has {n * number + n} boxes of rice. " for n in range(3 * number))
            text = f"Hall {number}. {''.join(shelves)}"
            records.append(memory.save(text, tags=[f"hall-{number}"], category="stock").record)
        for record in records[::3]:
            memory.update(record.id, tags=["counted"])
        memory.archive(records[5].id)
        memory.pages.write("MEMORY.md", "# Stock\n\n" + "The halls are counted in May.\n" * 40)
        for number in range(30):
            memory.pages.append(
                "HISTORY.md", f"[2026-01-{number + 1:02} 10:00] Week {number} was counted. " * 3
            )
        chat = memory.session("chat:1")
        messages = (f"The {n} crates of week {n * 3} came by ship {n * 11}. " * 9 for n in range(60))
        chat.add_many({"role": "user", "content": message} for message in messages)
        for number in range(40):
            chat.working.set(f"note-{number}", f"until later {number} " * 20, ttl=None)
        memory.admin.forget(forgotten.id)
    return folder


def damage_page(whole: Path, folder: Path, number: int) -> Path:
    """Return a copy of a folder with one page of zeros, counted from 1."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    with (folder / "reverie.db").open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(bytes(PAGE))
    return folder


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["--store", str(folder), *arguments])
    return done.exit_code, done.output


def read_everything(store: Store) -> dict[str, Any]:
    return {
        "values": {(type(value).__name__, value.id): value for value in iter_values(store)},
        "entries": {(entry.namespace, entry.key): entry for entry in store.entries(None, now=utc_now())},
        "changes": {row.sequence: row for row in iter_rows(store)},
    }


def count_pages(folder: Path) -> int:
    return (folder / "reverie.db").stat().st_size // PAGE


def read_rows_by_page(folder: Path) -> dict[int, tuple[str, int]]:
    """Return the name of the tree of each page, and the number of cells on it."""
    with closing(sqlite3.connect(folder / "reverie.db")) as file:
        return {
            page: (name, cells)
            for page, name, cells in file.execute("SELECT pageno, name, ncell FROM dbstat")
        }


def assert_repaired(whole: Path, folder: Path, page: tuple[str, int], expected: dict[str, Any]) -> None:
    """Repair a folder, and compare it with what was there: only content of the lost page may be missing."""
    code, output = run(folder, "doctor", "--fix")
    assert code == int("could not be read" in output), output
    name, cells = page
    with Memory.open(folder, embedder="none") as memory:
        store = memory._store
        assert store.check() == []
        found = read_everything(store)
        assert memory.search("boxes of rice")
    assert found["values"] == expected["values"]
    lost = expected["entries"].keys() - found["entries"].keys()
    assert len(lost) <= (cells if name == "entries" else 0), (page, lost)
    assert found["entries"].items() <= expected["entries"].items()
    assert found["changes"].keys() >= expected["changes"].keys() or name == "journal"
    differing = [
        number
        for number, row in expected["changes"].items()
        if number not in found["changes"] or row != found["changes"][number]
    ]
    assert len(differing) <= (max(cells, 1) if name == "journal" else 0), (page, differing)
    assert code == 1 or not lost, "what was lost is not told"


@pytest.fixture(scope="module")
def expected(whole: Path) -> dict[str, Any]:
    with Memory.open(whole, embedder="none") as memory:
        return read_everything(memory._store)


def test_a_zeroed_page_costs_only_its_own_bytes(
    whole: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    """A sample: the first page, and one of the journal and of the turns."""
    pages = read_rows_by_page(whole)
    first_of_tree = {name: number for number, (name, _) in reversed(pages.items())}
    for number in (1, first_of_tree["journal"], first_of_tree["turns"]):
        assert_repaired(whole, damage_page(whole, tmp_path / "copy", number), pages[number], expected)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_each_zeroed_page_costs_only_its_own_bytes(
    whole: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    pages = read_rows_by_page(whole)
    assert count_pages(whole) > 70
    for number in range(1, count_pages(whole) + 1):
        folder = damage_page(whole, tmp_path / "copy", number)
        assert_repaired(whole, folder, pages.get(number, ("", 0)), expected)


def test_a_file_cut_short_keeps_what_is_left_and_garbage_is_refused(
    whole: Path, tmp_path: Path, expected: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "cut"))
    database = folder / "reverie.db"
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2 // PAGE * PAGE)
    for name in ("memory", "sessions", "files.db"):
        shutil.rmtree(folder / name, ignore_errors=True)
    code, output = run(folder, "doctor", "--fix")
    assert (code, "could not be read" in output) == (1, True), output
    with Memory.open(folder, embedder="none") as memory:
        assert memory._store.check() == []
        found = read_everything(memory._store)["values"]
    assert 0 < len(found) < len(expected["values"])
    assert {value.content for value in found.values() if hasattr(value, "content")} <= {
        value.content for value in expected["values"].values() if hasattr(value, "content")
    }, "nothing is invented"
    for content in (b"garbage" * 5_000, b"SQLite format 3\0" + bytes(8_000)):
        database.write_bytes(content)
        code, output = run(folder, "doctor", "--fix")
        assert (code, "reverie recover" in output) == (5, True)
        assert database.read_bytes() == content


def test_what_is_only_in_the_log_is_copied_too(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with Memory.open(folder, embedder="none") as memory:
        for number in range(200):
            memory.save(f"Bay {number} has {number * 7} sacks of flour")
        copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    log = copy / "reverie.db-wal"
    assert log.stat().st_size > PAGE * 20
    with (copy / "reverie.db").open(
        "r+b"
    ) as file:  # unreadable without its log, which has a page of each number
        file.write(bytes(PAGE))
    for name in ("memory", "files.db", "files.db-wal", "files.db-shm", "reverie.db-shm"):
        shutil.rmtree(copy / name) if (copy / name).is_dir() else (copy / name).unlink(missing_ok=True)
    run(copy, "doctor", "--fix")
    with Memory.open(copy, embedder="none") as memory:
        assert memory._store.check() == []
        assert len(list(memory._store.find(Filter()))) == 200
