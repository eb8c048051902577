"""Statistics that follow the journal are those that are counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie import Memory, Settings
from reverie.domain.filter import Filter
from reverie.interfaces.http import live_stats
from reverie.interfaces.http.live_stats import LiveStats
from reverie.interfaces.http.serve import warm_up
from reverie.interfaces.http.server import HttpServer
from reverie.reader import MemoryReader
from tests.factories import MovableClock
from tests.interfaces.http.conftest import serve_here


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=clock, settings=Settings(files=False)) as memory:
        yield memory


def list_readers(memory: Memory) -> list[MemoryReader]:
    return [memory, memory.scoped("user:alice"), memory.scoped("*")]


def change_something(memory: Memory, chance: random.Random, number: int) -> None:
    scope = chance.choice([memory, memory.scoped("user:alice"), memory.scoped("user:bob")])
    records = memory.scoped("*").list(limit=None, archived=None)
    match chance.choice(["save", "save", "archive", "restore", "update", "turn", "forget", "undo", "delete"]):
        case "save":
            scope.save(
                f"Host {number} has port {number * 7}",
                kind=chance.choice(["fact", "decision"]),
                category=chance.choice([None, "hosts", "hosts/linux"]),
            )
        case "turn":
            scope.session(f"chat:{chance.randrange(3)}").add("user", f"Where is host {number}?")
        case "undo" if number > 5:
            memory.history.undo(batch=memory.history.log(newest_first=True, limit=1)[0].batch)
        case "delete":
            scope.delete_session(f"chat:{chance.randrange(3)}")
        case "forget" if records and number % 3 == 0:
            memory.admin.forget(chance.choice(records).id)
        case "update" if records:
            one = chance.choice(records)
            (memory.scoped(one.scope) if one.scope else memory).update(one.id, category="other")
        case ("archive" | "restore") as what if records:
            one = chance.choice(records)
            getattr(memory.scoped(one.scope) if one.scope else memory, what)(one.id)


@pytest.mark.parametrize("seed", range(4))
def test_they_follow_every_change(memory: Memory, seed: int) -> None:
    stats, chance = LiveStats(memory._store), random.Random(seed)
    for number in range(40):
        change_something(memory, chance, number)
        for reader in list_readers(memory):
            assert stats.read(reader) == reader.stats()
        assert stats.count_by_scope(memory) == memory._store.tally("scope", Filter())


def test_they_count_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = LiveStats(memory._store)
    stats.read(memory)
    counted: list[MemoryReader] = []
    monkeypatch.setattr(live_stats, "_count", counted.append)
    for number in range(5):
        memory.save(f"Host {number} has port {number * 7}")
        assert stats.read(memory).records == number + 1
    assert counted == []


def test_what_expires_counts_for_some_minutes_and_then_never_again(
    memory: Memory, clock: MovableClock
) -> None:
    stats = LiveStats(memory._store)
    record = memory.save("The code is in the drawer", ttl="5m").record
    assert stats.read(memory).records == 1
    clock.move(minutes=11)
    assert stats.read(memory) == memory.stats()
    memory.archive(record.id)
    assert stats.read(memory) == memory.stats()


def test_a_server_that_is_warm_counts_and_compiles_nothing_for_its_first_views(memory: Memory) -> None:
    pytest.importorskip("jinja2")
    from reverie.interfaces.http.page import rendering

    memory.save("Alice drinks black tea", kind="preference")
    server = HttpServer(memory)
    rendering._ENVIRONMENT.cache.clear()
    warm_up(server)
    assert "search" not in memory.admin.activity(days=1)[0].counts
    templates = len(rendering._ENVIRONMENT.cache)
    assert templates == len(list((rendering.FOLDER / "templates").iterdir()))
    counted: list[str] = []

    def note(what: str, wanted: object) -> dict[str, int]:
        counted.append(what)
        return {}

    memory._store.tally = note  # type: ignore[attr-defined,method-assign]
    with serve_here(server) as client:
        for path in ("/", "/records", "/scopes", "/inspect?message=tea"):
            assert client.get(path).status_code == 200
    assert counted == []
    assert len(rendering._ENVIRONMENT.cache) == templates


def test_a_warm_up_that_fails_is_logged_and_harms_nothing(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    server = HttpServer(memory)
    memory.close()
    warm_up(server)
    assert "Traceback" in caplog.text
