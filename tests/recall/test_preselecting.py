"""Within a scope the pool is chosen by the scope's own numbers."""

from __future__ import annotations

from reverie.passages import Passage, Wanted
from reverie.recall.preselecting import preselected
from reverie.recall.ranking import Statistics

STATISTICS = Statistics(passages=100, mean_length=4.0, frequencies={"tea": 50, "oolong": 2})


def passage(key: int, text: str, dates: str = "") -> Passage:
    words = text.split()
    return Passage(key=key, terms="".join(f" {word} " for word in words), length=len(words), dates=dates)


def chosen(*passages: Passage, limit: int, wanted: Wanted | None = None) -> list[int]:
    wanted = wanted or Wanted(words=[("tea", 1.0), ("oolong", 1.0), ("unknown", 9.0)])
    return [each.key for each in preselected(wanted, passages, statistics=STATISTICS, limit=limit)]


def test_all_are_taken_where_there_is_room() -> None:
    assert chosen(passage(1, "tea"), passage(2, "coffee"), limit=2) == [1, 2]


def test_rare_words_often_said_and_short_texts_come_first() -> None:
    rare, twice, once = passage(1, "oolong a b c"), passage(2, "tea tea a b"), passage(3, "tea a b c")
    long = passage(4, "tea a b c d e f g h i j k")
    assert chosen(long, once, twice, rare, limit=3) == [1, 2, 3]
    assert chosen(long, once, twice, rare, limit=1) == [1]


def test_of_equals_the_newest_keys_are_taken_in_whatever_order_they_came() -> None:
    some = [passage(key, "tea a b c") for key in range(1, 9)]
    assert chosen(*some, limit=3) == chosen(*reversed(some), limit=3) == [8, 7, 6]


def test_a_date_that_is_asked_for_counts() -> None:
    wanted = Wanted(words=[("tea", 1.0)], dates=[("@2025", 0.6)])
    dated, other = passage(1, "tea a b c", " @2025 "), passage(2, "tea a b c", " @2024 ")
    assert chosen(dated, other, passage(3, "tea a"), limit=1, wanted=wanted) == [1]
