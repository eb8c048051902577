"""What tokens a text has."""

from __future__ import annotations

import doctest
import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text import tokenizer
from reverie.domain.text.tokenizer import (
    extract_cues,
    is_question,
    pack,
    tokenize,
    tokenize_date,
)

CASES = Path(__file__).parent / "tokens.json"
TEXT = st.text(st.characters(), max_size=80)  # lone surrogates and control characters too


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(tokenizer).failed == 0


def test_a_text_gives_its_words() -> None:
    for text, expected in json.loads(CASES.read_text(encoding="utf-8")).items():
        assert tokenize(text) == expected


def test_composed_and_decomposed_letters_are_the_same_word() -> None:
    assert tokenize("café") == tokenize("cafe\u0301") == tokenize("CAFE")
    assert tokenize("가나다") == tokenize("\u1100\u1161\u1102\u1161\u1103\u1161")


def test_a_packed_string_counts_and_shows_adjacency() -> None:
    packed = pack(tokenize("rock music, rock, rocks and rocking horses"))
    assert packed.count(" rock ") == 4
    assert " rock music " in packed
    assert " music hors " not in packed
    assert " known author " in pack(tokenize("a well-known author"))
    assert pack([]) == ""


@given(TEXT)
def test_no_token_has_a_blank_or_is_empty_or_long_and_packing_can_be_undone(text: str) -> None:
    found = tokenize(text)
    assert all(0 < len(token) <= tokenizer.LONGEST_TOKEN and token.split() == [token] for token in found)
    assert pack(found).split() == found
    for token in found:
        assert pack(found).count(f" {token} ") == found.count(token)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_hundred_thousand_hostile_characters_are_analysed() -> None:
    for unit in [*"aé東.0?_🎂\u0300\ud800\x00ﷺ", *["a-", "a_", "aB", "é", "1,"], "1st "]:
        text = (unit * 100_000)[:100_000]
        assert tokenize(text) == tokenize(text)
        assert extract_cues(text)[:2].isdigit()


def test_a_day_goes_by_all_its_names() -> None:
    assert tokenize_date(date(2023, 12, 1)) == ("@2023", "@december", "@2023-12", "@2023-12-01", "@12-01")
    assert tokenize_date(date(900, 1, 2))[0] == "@0900"
    assert not set(tokenize("@2023 @may @2023-05-08")) & set(tokenize_date(date(2023, 5, 8)))


def test_a_text_asks_if_it_ends_with_a_question() -> None:
    for text in ["How are you?", "Really?!", '"Why?"', "元気？", "كيف؟", "So? \t\n", "Right? **"]:
        assert is_question(text)
    for text in ["", "Fine.", "How are you? I am fine.", "?" + "x" * 50]:
        assert not is_question(text)


def test_cues_tell_how_much_is_said_and_how() -> None:
    for text, expected in [
        ("How did it go? Mine was a great trip.", "02q"),
        ("Three of us went", "02n"),
        ("See you on Friday", "02t"),
        ("In 2019?", "01aqnt"),
        ("word " * 300, "99"),
    ]:
        assert extract_cues(text) == expected
