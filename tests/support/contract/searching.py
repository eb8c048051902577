"""Contract tests of what search needs. A part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace

from reverie.domain.conversation import Turn
from reverie.domain.passage import CollectionStats, Passage, Searchable
from reverie.domain.record import Record
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    NOW,
    add,
    change,
    make_record,
    make_session,
    make_time,
    make_turn,
)
from tests.support.contract.opening import ContractBase


class SearchingContract(ContractBase):
    """Tests of what a search index needs from a store."""

    def test_a_passage_has_what_ranking_needs(self, store: Store) -> None:
        known = make_record(
            1,
            content="Is it?",
            kind="fix",
            importance=0.25,
            confidence=1,
            pinned=True,
            expires_at=make_time(1.5),
        )
        add(store, known, make_session(), make_turn(0, speaker="Bo", content="Hello there"))
        seconds = NOW.timestamp()
        assert store.passages("record", [1]) == [
            Passage(key=1, terms=" is  it? ", length=2, at=seconds, cues="asks", importance=0.25,
                    confidence=1.0, kind="fix", pinned=True, expires_at=seconds + 1.5)
        ]  # fmt: skip
        assert store.passages("turn", [3]) == [
            Passage(key=3, terms=" hello  there ", length=2, thread=2, speaker="bo", at=seconds,
                    dates=" @2026 ", kind="turn")
        ]  # fmt: skip

    def test_passages_are_of_their_subject_and_live(self, store: Store) -> None:
        old = make_record(2, archived_at=NOW)
        add(store, make_record(1), old, make_session(), make_turn(0))
        assert {one.key for one in store.passages("record", [1, 2, 3, 4, 99])} == {1}
        assert {one.key for one in store.passages("turn", [1, 2, 3, 4, 99])} == {4}
        assert store.passages("record", []) == []
        change(store, old, replace(old, archived_at=None))
        assert {one.key for one in store.passages("record", [1, 2], around=3)} == {1, 2}

    def test_neighbours_are_of_the_same_session_and_none_twice(self, store: Store) -> None:
        add(
            store,
            make_session(),
            *(make_turn(position) for position in range(10)),
            make_session("chat:2"),
            make_turn(0, "chat:2"),
        )
        found = store.passages("turn", [3, 4, 11, 13], around=2)
        assert sorted((one.thread, one.position) for one in found) == [
            (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 7), (1, 8), (1, 9), (12, 0),
        ]  # fmt: skip
        touching = store.passages("turn", [3, 7, 11], around=2)
        assert sorted(one.position for one in touching) == list(range(10))
        everything = store.passages("turn", list(range(2, 12)), around=50)
        assert len(everything) == len(set(everything)) == 10

    def test_many_passages_come_at_once(self, store: Store) -> None:
        add(store, *(make_record(number) for number in range(1, 2101)))
        assert {one.key for one in store.passages("record", range(1, 2101))} == set(range(1, 2101))

    def test_live_passages_come_with_their_values_by_key(self, store: Store) -> None:
        one, two, three = make_record(1), make_record(2, archived_at=NOW), make_record(3)
        add(store, one, two, make_session(), make_turn(0), three)
        subjects: tuple[tuple[Searchable, list[Record | Turn]], ...] = (
            ("record", [one, three]),
            ("turn", [make_turn(0)]),
        )
        for subject, values in subjects:
            found = store.live(subject)
            assert [value for _, value in found] == values
            assert [passage for passage, _ in found] == sorted(
                store.passages(subject, [passage.key for passage, _ in found])
            )
        assert [value for _, value in store.live("record", after=1)] == [three]
        assert [value for _, value in store.live("record", limit=1)] == [one]
        assert store.live("turn", after=4) == []

    def test_measures_are_exact_through_every_change(self, store: Store) -> None:
        one, two = make_record(1, content="a b c", scope="s"), make_record(2, content="d e")
        add(store, one, two, make_session(), make_turn(0, speaker="Bo", content="f"))
        assert store.measure("record", None) == CollectionStats(passages=2, tokens=5)
        assert store.measure("record", ["s"]) == CollectionStats(passages=1, tokens=3)
        assert store.measure("record", ["s", "", "s", "none"]) == CollectionStats(passages=2, tokens=5)
        assert store.measure("record", []) == CollectionStats(passages=0, tokens=0)
        assert store.measure("turn", [""]) == CollectionStats(
            passages=1, tokens=1, speakers=frozenset({"bo"})
        )
        moved = replace(one, scope="t", content="a b c d e f")
        change(store, one, moved)
        assert store.measure("record", ["s"]) == CollectionStats(passages=0, tokens=0)
        assert store.measure("record", ["t"]) == CollectionStats(passages=1, tokens=6)
        change(store, moved, replace(moved, archived_at=NOW))
        assert store.measure("record", None) == CollectionStats(passages=1, tokens=2)

    def test_a_category_is_measured_with_those_below_it(self, store: Store) -> None:
        records = [
            make_record(1, content="a b c", category="x"),
            make_record(2, content="d e", category="x/y", scope="s"),
            make_record(3, content="f", category="x-z"),
            make_record(4, content="g h i j"),
            make_record(5, content="k", category="x/y", archived_at=NOW),
        ]
        add(store, *records, make_session(), make_turn(0))
        lengths = {passage.key: passage.length for passage in store.passages("record", [1, 2])}
        assert store.measure("record", None, category="x") == CollectionStats(
            passages=2, tokens=lengths[1] + lengths[2]
        )
        assert store.measure("record", ["s", ""], category="x/y") == CollectionStats(
            passages=1, tokens=lengths[2]
        )
        assert store.measure("record", [""], category="x/y") == CollectionStats(passages=0, tokens=0)
        assert store.measure("turn", None, category="x") == CollectionStats(passages=0, tokens=0)
