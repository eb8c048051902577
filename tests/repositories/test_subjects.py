"""People and subjects of a memory, counts of filters, titles of conversations, and the end of a record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reverie import Memory, Settings
from reverie.domain.errors import Conflict
from reverie.repositories.subjects import Subject, find_title, list_names
from tests.factories import MovableClock


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=clock, settings=Settings(files="none")) as memory:
        yield memory


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


def test_names_and_categories_are_counted_and_follow_every_change(
    memory: Memory, clock: MovableClock
) -> None:
    texts = (
        "Priya Raman leads operations",
        "We met Priya on Friday",
        "Leon Marsh drove van 2",
        "Leon has gloves",
    )
    saved = [memory.save(text, category="people/team").record for text in texts]
    memory.scoped("user:bob").save("Priya is Bob's sister")
    assert memory.subjects.list() == [
        Subject("people/team", 4, True),
        Subject("Leon Marsh", 2),
        Subject("Priya Raman", 2),
    ]
    memory.archive(saved[3].id)
    clock.move(minutes=1)
    memory.save("Leon Marsh moved to Bergen", category="people/team")
    memory.update(saved[1].id, content="We met Sam on Friday")
    assert [each.name for each in memory.subjects.list()] == ["people/team", "Leon Marsh"]
    assert [each.content for each in memory.subjects.find("Leon Marsh")] == [
        "Leon Marsh moved to Bergen",
        "Leon Marsh drove van 2",
    ]
    assert memory.subjects.find("Priya Raman") == []
    memory.admin.forget(saved[2].id)
    assert "Leon Marsh" not in [each.name for each in memory.subjects.list()]


def test_a_name_is_neither_a_day_nor_part_of_a_longer_one() -> None:
    assert list_names("Priya Raman met Leon at Harvest Lane on Friday in March") == {
        "Priya Raman",
        "Leon",
        "Harvest Lane",
    }


def test_each_filter_finds_as_many_records_as_it_says(memory: Memory, clock: MovableClock) -> None:
    memory.save("The kettle is in the cellar", pinned=True)
    memory.save("A forum says that tea is green", origin="web")
    memory.archive(memory.save("The old kettle leaks").record.id)
    clock.move(days=10)
    ended = memory.save("The new kettle is blue").record
    memory.end(ended.id)
    clock.move(minutes=1)
    counts = memory.subjects.counts()
    assert (counts.live, counts.archived, counts.pinned, counts.ended) == (3, 1, 1, 1)
    assert counts.origins == {"owner": 2, "web": 1}
    assert counts.days == {1: 1, 7: 1, 30: 3}
    assert counts.origins["web"] == len(memory.list(origin="web"))


def test_a_record_that_ends_leaves_prompts_and_stays_found(memory: Memory, clock: MovableClock) -> None:
    record = memory.save("The office is in Bergen").record
    clock.move(minutes=1)
    memory.update(record.id, tags=["x"])
    with pytest.raises(Conflict):
        memory.end(record.id, expected=record)
    ended = memory.end(record.id)
    assert ended.valid_to == clock()
    clock.move(minutes=1)
    assert memory.end(ended.id) == ended
    assert memory.search("office Bergen")[0].id == record.id
    assert "Bergen" not in memory.session("s").context("Where is the office?").text
    assert timedelta(0) < clock() - ended.valid_to


def test_a_conversation_is_called_by_its_first_message_until_it_is_named(memory: Memory) -> None:
    session = memory.session("telegram:1")
    session.add_many(
        [
            {"role": "system", "content": "You are kind"},
            {"role": "user", "content": "How do I cook rice? I have a pot."},
        ]
    )
    assert memory.title("telegram:1") == "How do I cook rice?"
    session.set_metadata("title", "Rice")
    assert memory.title("telegram:1") == "Rice"
    assert memory.title("telegram:2") == "telegram:2"
    assert len(find_title("", ["many words " * 50])) <= 72
