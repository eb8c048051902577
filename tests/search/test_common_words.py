"""How common a word is in all texts."""

from __future__ import annotations

from collections import Counter

from scripts.build_common_words import list_lines

from reverie import Memory
from reverie.search.related_words import TABLE, get_shares


def test_a_common_word_counts_less_than_a_rare_one_that_as_few_records_have(memory: Memory) -> None:
    memory.save("Bring your own thing, everybody needs one")
    wanted = memory.save("The dentist wants cash").record
    assert memory.search("which thing does my dentist need")[0].id == wanted.id


def test_the_share_of_texts_is_that_of_the_language() -> None:
    assert get_shares(["need", "invoic"], "en").keys() == {"need"}
    assert get_shares(["need"], "de") == get_shares(["need"], "xx") == {}


def test_words_are_grouped_by_how_many_texts_have_them() -> None:
    counts = {"the": 60_000, "things": 40, "thing": 60, "aardvark": 1, "l33t": 50, "of": 4_000}
    assert list_lines("en", counts) == ["en 100: the", "en 96: of", "en 7: thing"]


def test_no_word_of_the_table_is_listed_twice() -> None:
    lines = [line.split() for line in TABLE.read_text("utf-8").splitlines()]
    counts = Counter((line[0], word) for line in lines for word in line[2:])
    assert {word for word, count in counts.items() if count > 1} == set()
