"""How common a word is in all texts."""

from __future__ import annotations

from reverie import Memory
from reverie.search.related_words import get_shares


def test_a_common_word_counts_less_than_a_rare_one_that_as_few_records_have(memory: Memory) -> None:
    memory.save("Bring your own thing, everybody needs one")
    wanted = memory.save("The dentist wants cash").record
    assert memory.search("which thing does my dentist need")[0].id == wanted.id


def test_the_share_of_texts_is_that_of_the_language() -> None:
    assert get_shares(["need", "invoic"], "en").keys() == {"need"}
    assert get_shares(["need"], "de") == get_shares(["need"], "xx") == {}
