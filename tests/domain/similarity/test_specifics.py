"""Specifics of a text must survive a merge: they are recognised by class, spelled in one way, missed when gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text.specifics import Specifics, extract_specifics

VOCABULARY = """
    Alice Bob Smith likes tea not never the 30 60 s 3.50 $ 5 pm May 2025 3 on Friday twice before `x y` a_b
    /etc/app https://a.b/c bob@a.com --flag 不喜欢 Пётр don't 1,000 v3.11.2 . ? :
"""
CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))
SENTENCES = st.lists(st.sampled_from(VOCABULARY.split()), max_size=15).map(" ".join)


def test_each_class_is_recognised_and_spelled_in_one_way() -> None:
    for where, text, expected in CASES["classes"]:
        assert getattr(extract_specifics(text), where) == set(filter(None, expected.split("|"))), text


def test_a_merge_names_the_specifics_that_it_lost() -> None:
    for source, merged, missing in CASES["lost"]:
        found = extract_specifics(source).find_missing_from(extract_specifics(merged))
        assert found == set(filter(None, missing.split("|"))), source


@given(st.text(), SENTENCES, SENTENCES)
def test_a_text_loses_nothing_to_itself_or_beside_another(text: str, one: str, two: str) -> None:
    assert extract_specifics(text).find_missing_from(extract_specifics(text)) == frozenset()
    both = extract_specifics(f"{one}\n{two}")
    for each in (one, two):
        assert extract_specifics(each).find_missing_from(both) == frozenset()


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_the_time_is_linear_in_hostile_texts() -> None:
    for piece in ("a~", "-", "`", "a@", "1,", "x\n", "/", "A.", "我 ", "May 3 "):
        assert isinstance(extract_specifics(piece * (100_000 // len(piece))), Specifics)
