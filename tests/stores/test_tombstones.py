"""What was forgotten is known again when it comes back, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from reverie.domain.change import Change, Value
from reverie.domain.conversation import Role, SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store
from reverie.stores.tombstones import (
    KEY,
    compute_content_marks,
    drop_forgotten,
    find_forgotten_texts,
    is_forgotten,
    make_key,
    tombstone_keys,
)
from tests.factories import make_paragraph, make_record, make_turn

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
LONG = "Anna lives in a small flat near the harbour of Lisbon and feeds the gulls"


@pytest.fixture
def store() -> Store:
    return InMemoryStore(analyse=analyze)


def record(number: int, content: str) -> Record:
    return make_record(number, content=content, moment=NOON)


def turn(number: int, content: str, *, session: str = "chat:1", role: Role = "user") -> Turn:
    return make_turn(0, session, id=f"{number:012x}", role=role, content=content, at=NOON)


def paragraph(number: int, content: str, *, page: str = "HISTORY.md") -> Paragraph:
    return make_paragraph(number, page=page, position=0.0, at=NOON, content=content)


def bury(store: Store, *values: Value) -> None:
    key = make_key(store, at=NOON)
    store.erase(
        [], actor="owner", at=NOON, tombstones=[m for value in values for m in tombstone_keys(value, key)]
    )


def test_nothing_is_forgotten_where_nothing_was(store: Store) -> None:
    assert is_forgotten(store, [record(1, LONG)]) == set()
    assert find_forgotten_texts(store, [LONG]) == set()
    page = Page(name="MEMORY.md", content=LONG, updated_at=NOON)
    assert drop_forgotten(store, page) == page
    assert store.cursor(KEY) is None, "asking makes no key"


def test_it_is_known_by_its_id_and_by_its_words(store: Store) -> None:
    bury(store, record(1, LONG))
    edited = record(1, "Something else altogether now")
    spelled = record(2, f"  {LONG.upper()}!\n")
    assert is_forgotten(store, [edited, spelled, record(3, "Bob likes tea")]) == {edited.id, spelled.id}
    assert is_forgotten(store, [turn(4, LONG), paragraph(5, LONG)]) == {turn(4, "").id, paragraph(5, "").id}
    assert find_forgotten_texts(store, [LONG, "Bob likes tea"]) == {LONG}


def test_a_short_text_is_known_only_where_it_stood(store: Store) -> None:
    bury(store, turn(1, "ok"), record(2, "Likes tea"), paragraph(3, "Rain.", page="2025-03-01.md"))
    again: list[Value] = [turn(4, "Ok!"), record(5, "likes TEA"), paragraph(6, "rain", page="2025-03-01.md")]
    others: list[Value] = [
        turn(7, "ok", session="chat:2"),
        record(8, "ok"),
        turn(9, "Likes tea"),
        paragraph(10, "Rain.", page="2025-03-02.md"),
    ]
    assert is_forgotten(store, [*again, *others]) == {value.id for value in again}
    assert find_forgotten_texts(store, ["ok", "hm"], kind="turn", place="chat:1") == {"ok"}
    assert find_forgotten_texts(store, ["ok"], kind="turn", place="chat:2") == set()


def test_what_many_conversations_begin_with_is_known_only_in_its_own(store: Store) -> None:
    rules = "You are a helpful assistant who answers briefly and never invents facts about people"
    bury(store, turn(1, rules, role="system"), turn(2, "Please summarise the following text for me"))
    assert is_forgotten(store, [turn(3, rules, role="system")]) == {turn(3, "").id}
    assert is_forgotten(store, [turn(4, rules, role="system", session="chat:2")]) == set()
    assert (
        is_forgotten(store, [turn(5, "Please summarise the following text for me", session="chat:2")])
        == set()
    )
    bury(store, turn(6, LONG))
    assert is_forgotten(store, [turn(7, LONG, session="chat:2")]) == {turn(7, "").id}


def test_what_its_owner_saved_anew_is_not_forgotten(store: Store) -> None:
    bury(store, record(1, LONG), paragraph(2, LONG))
    anew = record(3, LONG)
    store.commit([Change(before=None, after=anew)], actor="owner", at=NOON)
    assert is_forgotten(store, [anew, record(4, LONG)]) == set()
    assert is_forgotten(store, [paragraph(5, LONG)]) == {paragraph(5, "").id}


def test_an_old_copy_of_a_turn_that_was_emptied_is_known(store: Store) -> None:
    said = turn(1, LONG)
    emptied = replace(said, content="[forgotten]")
    state = SessionState(id="chat:1", created_at=NOON)
    store.commit(
        [Change(before=None, after=state), Change(before=None, after=emptied)], actor="owner", at=NOON
    )
    key = make_key(store, at=NOON)
    store.erase([], actor="owner", at=NOON, tombstones=compute_content_marks(said, key))
    assert is_forgotten(store, [said]) == {said.id}
    assert is_forgotten(store, [emptied]) == set()


def test_a_page_loses_the_lines_that_were_forgotten(store: Store) -> None:
    bury(store, Page(name="MEMORY.md", content=f"- {LONG}\n- tea", updated_at=NOON))
    old = Page(name="MEMORY.md", content=f"# Notes\n* {LONG}.\n- tea\n- Bob\n", updated_at=NOON)
    assert drop_forgotten(store, old).content == "# Notes\n- Bob\n"
    other = replace(old, name="other.md")
    assert drop_forgotten(store, other).content == "# Notes\n- tea\n- Bob\n"
    there = replace(old, content="- tea\n")
    store.commit([Change(before=None, after=there)], actor="owner", at=NOON)
    assert drop_forgotten(store, old).content == "# Notes\n- tea\n- Bob\n", "its owner wrote it again"


def test_marks_have_no_content_and_differ_between_stores(store: Store) -> None:
    key = make_key(store, at=NOON)
    assert make_key(store, at=NOON) == key
    marks = tombstone_keys(record(1, LONG), key)
    assert all(len(mark) == 32 and int(mark, 16) >= 0 for mark in marks)
    other = make_key(InMemoryStore(analyse=analyze), at=NOON)
    assert not set(marks) & set(tombstone_keys(record(1, LONG), other))
    assert store.sequence() == 0


def test_of_two_that_make_the_key_at_once_both_get_the_first(store: Store) -> None:
    class Racing:
        """The store of a process that another one overtakes after it has seen that there is no key."""

        commit = staticmethod(store.commit)

        def __init__(self) -> None:
            self.first = b""

        def cursor(self, name: str) -> str | None:
            if self.first:
                return store.cursor(name)
            self.first = make_key(store, at=NOON)
            return None

    racing = Racing()
    assert make_key(cast(Store, racing), at=NOON) == racing.first == make_key(store, at=NOON)
