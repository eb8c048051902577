"""Tests of `reverie.stores.writer`: commits are published, and lost races are retried."""

from __future__ import annotations

import pytest

from reverie.domain.change import Change, JournalEntry
from reverie.domain.errors import Conflict
from reverie.domain.page import Page
from reverie.search.analyzer import analyze
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.writer import ATTEMPTS, StoreWriter
from tests.factories import MovableClock

NAME = "notes.md"


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore(analyse=analyze)


def change(store: InMemoryStore, text: str, clock: MovableClock) -> Change:
    pages = store.pages([NAME])
    after = Page(name=NAME, content=text, updated_at=clock())
    return Change(before=pages[0] if pages else None, after=after)


def test_a_commit_names_the_actor_the_reason_and_the_time_and_is_published(
    store: InMemoryStore, clock: MovableClock
) -> None:
    published: list[JournalEntry] = []
    writer = StoreWriter(store=store, clock=clock, actor="owner", publish=published.extend)
    rows = writer.acting("agent").commit([change(store, "a", clock)], note="write")
    assert [(row.actor, row.note, row.at) for row in rows] == [("agent", "write", clock())]
    assert published == rows
    assert writer.actor == "owner"


def test_a_commit_of_cursors_alone_publishes_nothing(store: InMemoryStore, clock: MovableClock) -> None:
    published: list[object] = []
    writer = StoreWriter(store=store, clock=clock, publish=published.append)
    assert writer.commit([], cursors={"a": "1"}, counts={"n": 2}) == []
    assert (store.cursor("a"), store.count("n"), published) == ("1", 2, [])


def test_a_lost_race_is_retried_with_the_number_of_failures(
    store: InMemoryStore, clock: MovableClock
) -> None:
    writer = StoreWriter(store=store, clock=clock)
    tried: list[int] = []

    def attempt(tries: int) -> str:
        mine = change(store, f"mine {tries}", clock)
        tried.append(tries)
        if tries < 3:  # somebody else commits between the read and the write
            writer.commit([change(store, f"theirs {tries}", clock)])
        writer.commit([mine])
        return "done"

    assert writer.retrying(attempt) == "done"
    assert tried == [0, 1, 2, 3]
    assert store.pages([NAME])[0].content == "mine 3"


@pytest.mark.parametrize("attempts", [3, ATTEMPTS])
def test_the_last_lost_race_is_raised(store: InMemoryStore, clock: MovableClock, attempts: int) -> None:
    writer = StoreWriter(store=store, clock=clock)
    tried: list[int] = []

    def attempt(tries: int) -> None:
        tried.append(tries)
        mine = change(store, "mine", clock)
        writer.commit([change(store, f"theirs {tries}", clock)])
        writer.commit([mine])

    with pytest.raises(Conflict):
        writer.retrying(attempt, attempts=attempts)
    assert tried == list(range(attempts))


def test_a_conflict_that_no_commit_explains_is_raised_after_a_second_look(
    store: InMemoryStore, clock: MovableClock
) -> None:
    writer = StoreWriter(store=store, clock=clock)
    writer.commit([change(store, "there", clock)])
    stale = Change(before=None, after=Page(name=NAME, content="mine", updated_at=clock()))
    tried: list[int] = []

    def attempt(tries: int) -> None:
        tried.append(tries)
        writer.commit([stale])

    with pytest.raises(Conflict):
        writer.retrying(attempt)
    assert tried == [0, 1]
