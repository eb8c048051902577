"""Other words that stand for a word of a query."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from reverie.domain.text.tokenizer import tokenize
from reverie.memory import Memory
from reverie.search import expansion
from reverie.search.expansion import expand_query
from reverie.search.query import parse_query
from reverie.search.related_words import RelatedWords
from tests.factories import get_search_index


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(expansion).failed == 0


class Pairs(RelatedWords):
    """Related words of a test."""

    def __init__(self, pairs: dict[str, list[tuple[str, float]]]) -> None:
        super().__init__()
        self.pairs = pairs

    def get(self, word: str) -> tuple[tuple[str, float], ...]:
        return tuple(self.pairs.get(word, ()))

    def split_unspaced(self, run: str) -> tuple[str, ...]:
        return tuple(word for word in self.pairs if not word.isascii() and word in run)


def expand(
    question: str, texts: Sequence[str], related: dict[str, list[tuple[str, float]]] | None = None
) -> set[str]:
    """Return the alternatives of all words of a question over some texts."""
    counts = Counter(token for text in texts for token in set(tokenize(text)))
    query = expand_query(
        parse_query(question),
        count=lambda tokens: {token: counts[token] for token in tokens},
        collect_words=lambda word: counts,
        related=Pairs(related or {}),
    )
    return {alternative.token for term in query.terms for alternative in term.alternatives}


def test_a_word_nobody_uses_is_looked_for_as_it_may_be_meant() -> None:
    for question, text, expected in [
        ("who is my physiotherapist?", "switched physio to Anneke", "physio"),
        ("did Lindquist call?", "Lindqvist is the plumber", "lindqvist"),
        ("Beatriks", "Beatrix plays the violin", "beatrix"),
        ("who does SOC2?", "The SOC 2 auditor is Larkin", "soc"),
        ("postgress version", "We run Postgres 15", "postgr"),
        ("allergy", "Allergic to shellfish", "allerg"),
        (
            "Bei welchen Aerzten bin ich?",
            "Der Hausarzt ist Dr. Uhlig, und der Termin ist am Montag",
            "hausarzt",
        ),
        (
            "Wer ist mein Zahnarzt?",
            "Zahnarzttermin am 7. Mai in der Praxis und nicht im Haus",
            "zahnarzttermin",
        ),
    ]:
        assert expected in expand(question, [text])


def test_a_word_in_use_is_not_respelled() -> None:
    assert expand("who is Anna?", ["Anna sings", "Hanna dances"]) == set()


def test_another_word_that_is_spelled_quite_differently_is_none() -> None:
    assert expand("insurance", ["The entrance is closed", "insular"]) == set()


def test_related_words_are_alternatives_where_somebody_uses_them() -> None:
    related = {"car": [("vehicle", 0.8), ("volvo", 0.5)]}
    assert expand("which car?", ["drives a Volvo"], related) == {"volvo"}


def test_of_a_word_that_somebody_uses_only_close_relatives_are_alternatives() -> None:
    related = {"boss": [("manager", 0.6), ("office", 0.4)]}
    texts = ["the manager moved", "a new office"]
    assert expand("my boss?", texts, related) == {"manag", "offic"}
    assert expand("my boss?", [*texts, "boss fights"], related) == {"manag"}


def test_words_without_spaces_are_related() -> None:
    assert expand("飼い猫の名前は?", ["キティ"], {"飼い": [("キティ", 0.9)]}) == {"キテ", "ティ"}


def test_a_known_word_is_trusted_more_than_its_neighbours_in_spelling() -> None:
    counts = {"house": 1}
    query = expand_query(
        parse_query("horse"),
        count=lambda tokens: {token: counts.get(token, 0) for token in tokens},
        collect_words=lambda word: ["hous"],
        related=Pairs({"horse": [("stable", 0.5)]}),
    )
    assert all(alternative.similarity <= 0.5 for alternative in query.terms[0].alternatives)


def test_a_wrong_letter_counts_twice_its_share_of_the_word() -> None:
    query = expand_query(
        parse_query("lindenst"),
        count=lambda tokens: {token: int(token == "lindenbt") for token in tokens},
        collect_words=lambda word: ["lindenbt"],
        related=Pairs({}),
    )
    assert [each.similarity for each in query.terms[0].alternatives] == [pytest.approx(0.9 * (1 - 2 / 8))]


def test_the_search_says_what_stood_for_what(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save("Lindqvist repaired the boiler")
        [hit] = memory.search("when did Lindquist come?")
        assert "lindquist ≈ lindqvist" in str(hit.explanation)


def test_words_of_another_scope_are_no_alternatives(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        memory.scoped("user:bob").save("Lindqvist repaired the boiler")
        memory.scoped("user:alice").save("The lindens bloom")
        assert memory.scoped("user:alice").search("Lindquist") == []


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wann ist der Termin?", "Der Zahnarzttermin ist am Montag und nicht im Mai"),
        ("Wo ist meine Versicherung?", "Die Versicherungsnummer ist 4711 und steht auf der Karte"),
        ("did Lindquist call?", "Lindqvist is the plumber"),
    ],
)
def test_words_near_an_unknown_one_are_found_in_the_commit(tmp_path: Path, question: str, text: str) -> None:
    with Memory.open(tmp_path) as memory:
        memory.save(text)
        get_search_index(memory).fold()
        [hit] = memory.search(question)
        assert hit.explanation.stands_for
