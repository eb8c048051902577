"""Thinning of the journal: earlier versions go, everything that is live stays, and undo says why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import InvalidInput, Memory
from reverie.admin.history.thinning import THINNED
from reverie.domain.filter import Filter
from reverie.stores.redacting import unwrap
from tests.factories import MovableClock
from tests.support.contract.replay import is_journal_consistent, read_contents


@pytest.fixture
def filled(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    """A memory in a folder with a history of several days."""
    memory = Memory.open(tmp_path / "memory", clock=clock)
    record = memory.save("The staging port is 5432").record
    gone = memory.save("A record that goes").record
    for n in range(5):
        clock.move(days=1)
        memory.update(record.id, content=f"The staging port is 544{n}")
        memory.pages.write("MEMORY.md", f"# Page {n}\n")
        memory.session("chat:1").add("user", f"Turn {n} about the port")
    memory.archive(gone.id)
    yield memory
    memory.close()


def test_earlier_versions_go_and_everything_else_stays(filled: Memory, clock: MovableClock) -> None:
    before = read_contents(unwrap(filled._store))
    hits = [(hit.id, hit.content) for hit in filled.search("staging port")]
    told = filled.history.log()
    until = clock() - timedelta(days=2)
    dry = filled.history.thin(until, dry_run=True)
    assert filled.history.log() == told
    done = filled.history.thin(until)
    assert (dry.changes, dry.until) == (done.changes, done.until)
    assert done.changes > 0
    assert read_contents(unwrap(filled._store)) == before
    assert [(hit.id, hit.content) for hit in filled.search("staging port")] == hits
    left = filled.history.log()
    assert [(row.sequence, row.at, row.actor, row.reason) for row in left] == [
        (row.sequence, row.at, row.actor, row.reason) for row in told
    ]
    assert left[done.until :] == told[done.until :]
    assert sum(row.forgotten for row in left) == done.changes
    assert filled.admin.check() == []
    assert is_journal_consistent(unwrap(filled._store))
    assert filled.history.thin(until).changes == 0


def test_undo_says_that_the_journal_was_thinned(filled: Memory, clock: MovableClock) -> None:
    done = filled.history.thin(clock() - timedelta(days=2))
    thinned = next(row for row in filled.history.log() if row.forgotten)
    with pytest.raises(InvalidInput, match=f"thinned up to change {done.until}"):
        filled.history.undo(thinned.sequence)
    result = filled.history.undo(since=1, dry_run=True)
    assert any(f"thinned up to change {done.until}" in one.why for one in result.left)
    kept = filled.history.log()[-1]
    assert not kept.forgotten
    filled.history.undo(kept.sequence)
    assert filled.admin.check() == []


def test_an_earlier_moment_is_refused_and_a_later_one_is_as_it_was(
    filled: Memory, clock: MovableClock
) -> None:
    until = clock() - timedelta(days=2)
    with filled.as_of(until) as past:
        then = [record.content for record in past.list(limit=None)], past.pages.read("MEMORY.md")
    done = filled.history.thin(until)
    with filled.as_of(until) as past:
        assert ([record.content for record in past.list(limit=None)], past.pages.read("MEMORY.md")) == then
    with pytest.raises(InvalidInput, match=f"thinned up to change {done.until}"):
        filled.as_of(done.until - 3)


@pytest.mark.slow
def test_a_process_that_was_behind_finds_everything(tmp_path: Path, clock: MovableClock) -> None:
    folder = tmp_path / "memory"
    with Memory.open(folder, clock=clock) as memory:
        records = [memory.save(f"Harbour number {n} has boats").record for n in range(300)]
    with Memory.open(folder, clock=clock) as behind:
        assert len(behind.search("harbour", limit=400)) == 300
        with Memory.open(folder, clock=clock) as memory:
            for record in records[:150]:
                memory.update(record.id, content=record.content.replace("Harbour", "Quay"))
            for record in records[150:160]:
                memory.archive(record.id)
            clock.move(days=1)
            memory.history.thin(clock())
        assert len(behind.search("quay", limit=400)) == 150
        assert {hit.id for hit in behind.search("harbour", limit=400)} == {
            record.id for record in records[160:]
        }
        assert behind.admin.doctor().findings == ()
        files = {path.stem for path in (folder / "memory").glob("*.json")}
        assert {record.id for record in behind._store.find(Filter())} <= files


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["update", "archive", "restore", "page", "turn"]))
    ),
    until=st.integers(0, 12),
    again=st.integers(0, 12),
)
def test_whatever_was_done_the_store_stays_sound(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]], until: int, again: int
) -> None:
    with Memory.open(tmp_path_factory.mktemp("thin") / "memory") as memory:
        records = [memory.save(f"Thing {n} is kept in hall {n * 7}").record for n in range(4)]
        for place, (n, step) in enumerate(steps):
            match step:
                case "update":
                    memory.update(records[n].id, importance=(place % 10) / 10)
                case "archive":
                    memory.archive(records[n].id)
                case "restore":
                    memory.restore(records[n].id)
                case "page":
                    memory.pages.write("notes/a.md", f"line {place}\n")
                case _:
                    memory.session("chat:1").add("user", f"turn {place}")
        before = read_contents(unwrap(memory._store))
        for number in (until, again):
            memory.history.thin(min(number, memory._store.sequence()))
        assert read_contents(unwrap(memory._store)) == before
        assert memory.admin.check() == []
        assert is_journal_consistent(unwrap(memory._store))
        assert int(memory._store.cursor(THINNED) or 0) <= max(until, again)


def test_a_memory_that_is_in_no_folder_has_nothing_to_gain() -> None:
    with Memory.open(":memory:") as memory, pytest.raises(InvalidInput, match="cannot be thinned"):
        memory.history.thin(0)
