"""Counters by day: what was done is counted once, whoever did it, and old days take little room."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from reverie import InvalidInput, Memory, Settings
from reverie.repositories.activity import KEPT_DAYS
from tests.factories import MovableClock


def count(memory: Memory, days: int = 1) -> dict[str, int]:
    total: dict[str, int] = {}
    for day in memory.admin.activity(days=days):
        for name, number in day.counts.items():
            total[name] = total.get(name, 0) + number
    return total


def use(memory: Memory) -> None:
    memory.save("Ada prefers tea")
    memory.save("Ada prefers tea")
    memory.scoped("user:bob").save_many([{"content": "Bob prefers coffee"}])
    memory.search("tea")
    memory.scoped("*").search("zebra stripes")
    memory.session("chat").add("user", "What does Ada prefer?")
    memory.session("chat").context()
    memory.session("chat").context(record_shown=False)


def test_searches_saves_and_prompts_are_counted_over_several_processes(tmp_path: Path) -> None:
    for _ in range(2):
        with Memory.open(tmp_path / "m") as memory:
            use(memory)
    with Memory.open(tmp_path / "m") as memory, Memory.open(tmp_path / "m") as other:
        use(other)
        other.admin.activity()
        counts = count(memory)
    assert counts == {"search": 6, "search.nothing": 3, "save.created": 2, "save.reinforced": 7, "prompt": 3}


def test_days_are_apart_and_those_without_activity_are_there() -> None:
    clock = MovableClock()
    with Memory.open(":memory:", clock=clock) as memory:
        memory.search("tea")
        clock.move(days=2)
        memory.search("tea")
        memory.search("coffee")
        days = memory.admin.activity(days=4)
        assert [day.counts.get("search", 0) for day in days] == [0, 1, 0, 2]
        assert [each.day for each in days][-1] == clock().date()
        for wrong in (0, KEPT_DAYS + 1):
            with pytest.raises(InvalidInput, match="days"):
                memory.admin.activity(days=wrong)


def test_the_day_is_that_of_the_owner() -> None:
    clock = MovableClock()  # 9:00 in UTC
    with Memory.open(":memory:", clock=clock, settings=Settings(time_zone="Pacific/Kiritimati")) as memory:
        clock.move(hours=4)
        memory.search("tea")
        assert memory.admin.activity(days=1)[0].day == clock().date() + timedelta(days=1)


def test_a_day_has_one_counter_whoever_counts_and_days_long_past_go(tmp_path: Path) -> None:
    clock = MovableClock()
    with Memory.open(tmp_path, clock=clock) as memory, Memory.open(tmp_path, clock=clock) as other:
        for each in (memory, other, memory):
            each.search("tea")
            each.admin.activity()
        assert len(memory._store.cursors("activity:")) == 1
        clock.move(days=3)
        other.search("tea")
        other.admin.activity()
        assert count(memory, days=4)["search"] == 4
        clock.move(days=KEPT_DAYS - 3)
        memory.search("tea")
        assert count(memory, days=KEPT_DAYS)["search"] == 2
        assert len(memory._store.cursors("activity:")) == 2


def test_nothing_is_counted_where_nothing_is_recorded(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m") as memory:
        memory.save("Ada prefers tea")
    with Memory.open(tmp_path / "m", settings=Settings(recording_enabled=False)) as memory:
        memory.search("tea")
        assert "search" not in count(memory)


def test_a_search_answers_where_its_counters_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save("Ada prefers tea")
        with closing(sqlite3.connect(tmp_path / "reverie.db")) as file:
            file.execute("ALTER TABLE cursors RENAME TO spoilt")
        memory._parts.activity._next = 0.0  # as a minute later
        assert [hit.content for hit in memory.search("tea")] == ["Ada prefers tea"]
    assert "the counters of the day could not be written" in caplog.text
