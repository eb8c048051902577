"""Forms of a word that a stemmer leaves apart."""

from __future__ import annotations

import pytest

from reverie import Memory
from reverie.search.word_forms import get_forms


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Katrin isst seit 2011 kein Fleisch", "was wird gegessen?"),
        ("Ik heb gisteren met Anna brood gegeten", "wat aten wij eigenlijk?"),
    ],
)
def test_another_form_of_the_word_is_found_and_explained(memory: Memory, fact: str, question: str) -> None:
    memory.save(fact)
    (hit,) = memory.search(question)
    assert hit.content == fact
    assert hit.explanation.stands_for


def test_forms_are_those_of_the_language() -> None:
    assert "gegess" in get_forms("isst", "de")
    assert get_forms("isst", "fr") == get_forms("isst", "xx") == []
