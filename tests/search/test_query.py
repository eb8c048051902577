"""What a question asks for."""

from __future__ import annotations

import doctest
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text.tokenizer import tokenize
from reverie.search import query
from reverie.search.query import parse_query


def kinds(text: str, *speakers: str) -> dict[str, str]:
    return {
        term.token: term.kind for term in parse_query(text, speakers=speakers).terms if term.kind != "joined"
    }


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(query).failed == 0


def test_terms_of_questions() -> None:
    for text, speakers, expected in [
        ("What would you say about the rock concerts?", (), {"rock": "word", "concert": "word"}),
        ("Who are you?", (), {"who": "common", "are": "common", "you": "common"}),
        ("getUserName", (), {"get": "word", "user": "word", "name": "word", "getusernam": "whole"}),
    ]:
        assert kinds(text, *speakers) == expected
    assert kinds("Which user did the assistant add?", "user", "assistant")["user"] == "word"
    text = "Which deployment of the LinkedIn scraper failed on src/main.py?"
    assert set(kinds(text)) <= set(tokenize(text))
    assert parse_query("rock and music").pairs == ()
    only_name = parse_query("What did Ann say?", speakers=["Ann"])
    assert [term.token for term in only_name.wanted(turns=True)] == ["ann"]


def test_speakers_and_properties_of_questions() -> None:
    for text, speakers, expected in [
        ("Ann's dog", ["Ann Lee", "ann poe"], {"ann lee", "ann poe"}),
        ("what will happen", ["Will"], frozenset()),
        ("What did Will do?", ["Will"], {"will"}),
    ]:
        assert parse_query(text, speakers=speakers).speakers == expected
    for text, name, expected_value in [
        ("What is my plan?", "first_person", True),
        ("what did i decide", "first_person", True),
        ("What is the plan?", "first_person", False),
        ("When did it rain?", "wants_time", True),
        ("How many dogs?", "wants_number", True),
        ("How long was it?", "wants_time", True),
        ("Where was it?", "wants_time", False),
    ]:
        assert getattr(parse_query(text), name) is expected_value


def test_a_question_without_a_usable_word_is_empty() -> None:
    for text in ["", " ", "?", "a b", "→", "\ud800\x00", "of it"]:
        query = parse_query(text)
        assert not query
        assert query.terms == query.pairs == query.tokens == ()


def test_words_that_stand_together_are_pairs_and_may_be_written_as_one() -> None:
    query = parse_query("the best ice creams of Rome")
    assert query.pairs == (("best", "ice"), ("ice", "cream"), ("cream", "rome"))
    joined = {term.token: term.of for term in query.terms if term.kind == "joined"}
    assert joined["icecream"] == ("ice", "cream")
    assert "creamrom" not in joined


def test_the_name_of_a_speaker_says_whose_turn_and_is_a_word_in_records_only() -> None:
    query = parse_query("What did Ann Lee paint?", speakers=["ann lee", "Bob"])
    assert query.speakers == {"ann lee"}
    assert [term.token for term in query.wanted(turns=True)] == ["paint"]
    assert {term.token for term in query.wanted(turns=False)} == {"paint", "ann", "lee"}


def test_a_name_that_is_a_word_too_is_told_by_its_capital() -> None:
    for text, called in [
        ("Does Rose like tea?", True),
        ("does rose like tea", True),
        ("Which wines did the Rose serve, which rose early?", True),
        ("When prices rose, what did Bob do?", False),
    ]:
        assert ("rose" in parse_query(text, speakers=["Rose"]).speakers) is called


def test_a_date_is_no_word_and_what_may_be_a_word_stays_one() -> None:
    now = datetime(2026, 3, 18, 9, tzinfo=UTC)
    assert parse_query("Was the dentist on 7 January?", now=now).tokens == ("dentist",)
    assert parse_query("rent of May 2023", now=now).tokens[:3] == ("rent", "may", "2023")
    assert parse_query("rent of Friday", now=now).tokens[:2] == ("rent", "friday")


def test_a_question_with_nothing_but_a_date_is_one() -> None:
    now = datetime(2026, 3, 18, 9, tzinfo=UTC)
    query = parse_query("What did I do yesterday?", now=now)
    assert query
    assert query.terms == ()
    assert [one.start for one in query.dates.days] == [date(2026, 3, 17)]
    assert not parse_query("What did I do then?", now=now).dates


@given(st.text(st.characters(), max_size=60), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_can_be_parsed_and_gives_the_same_again(text: str, speakers: list[str]) -> None:
    query = parse_query(text, speakers=speakers)
    assert query == parse_query(text, speakers=speakers[::-1])
    found = set(query.tokens)
    assert len(found) == len(query.tokens)
    assert all(left in found and right in found for left, right in query.pairs)


def test_what_asks_for_something_to_be_done_is_told_by_its_form() -> None:
    for text, is_request in [
        ("Book a table for four at the harbour", True),
        ("harbour table for four, what was its number", False),
        ("WLAN bricht weg, wie hatten wir das damals hingekriegt", False),
        ("いつまで?", False),
        ("Schreib dem Verlag, dass der Umschlag fertig ist.", True),
        ("資料をまとめてください。", True),
        ("帮我写一封邮件", True),
        ("Where did I book the table for four?", False),
        ("what did I write to the publisher", False),
        ("Book the harbour table for four?", False),
        ("harbour table", False),
        ("資料はどこ?", False),
        ("Remind me everything that broke in the house this year", False),
        ("Remind me to book the harbour table tomorrow", True),
        ("dime las clases de la tarde de mis hijos", False),
        ("主治医の名前を教えて", False),
        ("Sag mir Milas Schuhgröße und ihre Lehrerin", False),
    ]:
        assert parse_query(text).is_request is is_request


@pytest.mark.slow
def test_a_very_long_question_is_parsed() -> None:
    assert parse_query("May 8 the-thing_of 2023 x" * 4_000).tokens


def test_only_a_pair_of_two_hiragana_weighs_less() -> None:
    weights = {term.token: term.weight for term in parse_query("食べたって").terms}
    assert weights["食べ"] == 1.0
    assert weights["って"] < 1.0


def test_the_language_of_short_questions() -> None:
    for text, language in [
        ("car insurance", "en"),
        ("son birthday", "en"),
        ("war museum tickets", "en"),
        ("was kostet die Miete", "de"),
        ("que coche", "es"),
        ("wo arbeitet Jonas", "de"),
        ("qui garde Hugo le mercredi ?", "fr"),
        ("¿qué coche manejo?", "es"),
        ("invoice number of Acme", "en"),
        ("MOT", "en"),
        ("port staging database", "en"),
    ]:
        query = parse_query(text)
        assert query.language == language
        assert query.terms[0].weight == 1.0
