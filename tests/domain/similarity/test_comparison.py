"""Whether two texts say the same: a labelled set of pairs, and laws that hold for any text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.comparison import classify_relation, compare, normalize

PAIRS = [
    json.loads(line)
    for line in Path(__file__).with_name("pairs.jsonl").read_text("utf-8").splitlines()
    if line
]
"""`repeats`, `extends` and `differs` are what must come out, or `differs`; of `differs_ok` nothing is asked:
folding it needs knowledge or judgement that form alone does not have."""

VOCABULARY = """
    Alice Bob likes tea coffee never not the a deploys on Friday Monday 30 60 s blue green and because since
    2019 is really Berlin, Germany. . ? No, `x_y` /etc/app 不喜欢 i'm don't it's very user The
"""
WORDS = st.sampled_from(VOCABULARY.split())
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
TEXTS = st.one_of(st.text(min_size=1), SENTENCES).filter(str.strip)


def _named(label: str) -> list[dict[str, str]]:
    return [pair for pair in PAIRS if pair["label"] == label]


def test_the_set_has_enough_pairs_of_every_label_and_no_pair_twice() -> None:
    counts = Counter(pair["label"] for pair in PAIRS)
    assert set(counts) == {"repeats", "extends", "differs", "differs_ok"}
    assert counts["repeats"] >= 80
    assert counts["extends"] >= 15
    assert counts["differs"] >= 200
    assert len({(pair["new"], pair["old"]) for pair in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize("label", ["repeats", "extends", "differs"])
def test_no_pair_is_folded_wrongly(label: str) -> None:
    found = [
        (classify_relation(pair["new"], pair["old"]), pair["new"], pair["old"]) for pair in _named(label)
    ]
    assert [item for item in found if item[0] not in (label, "differs")] == []


@pytest.mark.parametrize(("label", "floor"), [("repeats", 0.96), ("extends", 1.0)])
def test_most_pairs_that_form_alone_can_tell_are_folded(label: str, floor: float) -> None:
    pairs = _named(label)
    found = sum(classify_relation(pair["new"], pair["old"]) == label for pair in pairs)
    assert found / len(pairs) >= floor


def test_no_pair_that_differs_folds_the_other_way_round() -> None:
    assert [
        pair for pair in _named("differs") if classify_relation(pair["old"], pair["new"]) != "differs"
    ] == []


def test_what_extends_is_repeated_by_the_other_way_round() -> None:
    assert {classify_relation(pair["old"], pair["new"]) for pair in _named("extends")} == {"repeats"}


@given(TEXTS)
def test_a_text_repeats_itself(text: str) -> None:
    assert classify_relation(text, text) == "repeats"


@given(SENTENCES)
def test_case_and_spacing_make_no_difference(text: str) -> None:
    assert classify_relation(text.upper(), f"  {text.upper().lower()}\n") == "repeats"


@given(SENTENCES, st.data(), st.sampled_from(["not", "never", "no", "without", "hardly", "Not", "nobody"]))
def test_adding_a_negation_never_folds(text: str, data: st.DataObject, negation: str) -> None:
    words = text.split()
    place = data.draw(st.integers(0, len(words)))
    denied = " ".join([*words[:place], negation, *words[place:]])
    assert classify_relation(denied, text) == "differs"
    assert classify_relation(text, denied) == "differs"


@given(
    SENTENCES, st.data(), st.sampled_from(["7", "purple", "Carol", "Tuesday", "3.10", "/srv/x", "--dry-run"])
)
def test_another_word_in_place_of_one_never_folds(text: str, data: st.DataObject, other: str) -> None:
    words = text.split()
    place = data.draw(st.integers(0, len(words) - 1))
    changed = " ".join([*words[:place], other, *words[place + 1 :]])
    dropped = {"the", "a", "."}
    if words[place].lower() not in dropped | {"really", "very"} and words[place - 1] != "a":
        assert classify_relation(changed, text) == "differs"


@given(TEXTS, TEXTS)
def test_two_readings_are_never_both_an_extension_of_the_other(one: str, two: str) -> None:
    assert (classify_relation(one, two), classify_relation(two, one)) != ("extends", "extends")


@given(SENTENCES, SENTENCES)
def test_an_extension_holds_every_word_of_the_old_text_in_order(new: str, old: str) -> None:
    if classify_relation(new, old) == "extends":
        words = iter(normalize(new).words)
        assert all(word in words for word in normalize(old).words)


def test_readings_made_before_give_the_same_answer() -> None:
    for pair in PAIRS:
        assert compare(normalize(pair["new"]), normalize(pair["old"])) == classify_relation(
            pair["new"], pair["old"]
        )


def test_texts_without_any_word_repeat_only_themselves() -> None:
    assert classify_relation("...", "!!!") == "differs"
    assert classify_relation("...", "...") == "repeats"
    assert classify_relation("", "") == "differs"
    assert classify_relation("the", "a") == "differs"


def test_texts_of_a_hundred_thousand_characters_are_compared() -> None:
    long = "Alice likes tea and Bob drinks coffee. " * 2_500
    assert classify_relation(long, long + " Carol knows Welsh well.") == "repeats"
    assert classify_relation(long + " Nobody likes milk.", long) == "differs"
