"""Whether two texts say the same: a labelled set of pairs, and laws that hold for any text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.comparison import is_repetition, normalize

PAIRS = [
    json.loads(line)
    for line in Path(__file__).with_name("pairs.jsonl").read_text("utf-8").splitlines()
    if line
]
"""`repeats`, `extends` and `differs` are what must come out, or `differs`; of `differs_ok` nothing is asked:
folding it needs knowledge or judgement that form alone does not have."""


def repeats(new: str, old: str) -> bool:
    return is_repetition(normalize(new), normalize(old))


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


@pytest.mark.parametrize("label", ["extends", "differs"])
def test_no_pair_is_folded_wrongly(label: str) -> None:
    assert [pair for pair in _named(label) if repeats(pair["new"], pair["old"])] == []


def test_most_repetitions_that_form_alone_can_tell_are_folded() -> None:
    pairs = _named("repeats")
    assert sum(repeats(pair["new"], pair["old"]) for pair in pairs) / len(pairs) >= 0.96


def test_no_pair_that_differs_folds_the_other_way_round() -> None:
    assert [pair for pair in _named("differs") if repeats(pair["old"], pair["new"])] == []


def test_what_extends_is_repeated_by_the_other_way_round() -> None:
    assert [pair for pair in _named("extends") if not repeats(pair["old"], pair["new"])] == []


@given(TEXTS)
def test_a_text_repeats_itself(text: str) -> None:
    assert repeats(text, text)


@given(SENTENCES)
def test_case_and_spacing_make_no_difference(text: str) -> None:
    assert repeats(text.upper(), f"  {text.upper().lower()}\n")


@given(SENTENCES, st.data(), st.sampled_from(["not", "never", "no", "without", "hardly", "Not", "nobody"]))
def test_adding_a_negation_never_folds(text: str, data: st.DataObject, negation: str) -> None:
    words = text.split()
    place = data.draw(st.integers(0, len(words)))
    denied = " ".join([*words[:place], negation, *words[place:]])
    assert not repeats(denied, text)
    assert not repeats(text, denied)


@given(
    SENTENCES, st.data(), st.sampled_from(["7", "purple", "Carol", "Tuesday", "3.10", "/srv/x", "--dry-run"])
)
def test_another_word_in_place_of_one_never_folds(text: str, data: st.DataObject, other: str) -> None:
    words = text.split()
    place = data.draw(st.integers(0, len(words) - 1))
    changed = " ".join([*words[:place], other, *words[place + 1 :]])
    dropped = {"the", "a", "."}
    if words[place].lower() not in dropped | {"really", "very"} and words[place - 1] != "a":
        assert not repeats(changed, text)


@given(SENTENCES, SENTENCES)
def test_a_longer_text_holds_every_word_of_what_repeats_it_in_order(new: str, old: str) -> None:
    if len(normalize(new).words) < len(normalize(old).words) and repeats(new, old):
        words = iter(normalize(old).words)
        assert all(word in words for word in normalize(new).words)


def test_texts_without_any_word_repeat_only_themselves() -> None:
    assert not repeats("...", "!!!")
    assert repeats("...", "...")
    assert not repeats("", "")
    assert not repeats("the", "a")


def test_texts_of_a_hundred_thousand_characters_are_compared() -> None:
    long = "Alice likes tea and Bob drinks coffee. " * 2_500
    assert repeats(long, long + " Carol knows Welsh well.")
    assert not repeats(long + " Nobody likes milk.", long)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Der Urlaub ist vom 3. Mai bis 9. Juni", "Der Urlaub ist vom 3. Mai bis 7. Juni"),
        ("Der Kurs ist am 13. und 14. Juni", "Der Kurs ist am 13. Juni"),
        ("Las vacaciones son del 3 de mayo al 9 de junio", "Las vacaciones son del 3 de mayo al 7 de junio"),
    ],
)
def test_periods_that_end_on_other_days_are_told_apart(new: str, old: str) -> None:
    assert not repeats(new, old)
    assert not repeats(old, new)
