"""The same text has one fingerprint, and a text that differs in more than form has another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text.same_text import compute_fingerprint, fold_text, normalize_case

SAME = (
    ("Likes tea", "likes  TEA", "Likes tea.", "Likes tea!", " likes\ntea ", "“Likes tea”", "- Likes tea"),
    ("Ada, Bo and Cy sail", "Ada Bo and Cy sail."),
    ("It isn't open", "It isn’t open"),
    ("Open 10-12", "Open 10–12", "open 10—12,"),
    ("Café Zürich", "Cafe\u0301 Zu\u0308rich"),
    ("Hello 5", "Ｈｅｌｌｏ ５"),
    ("私は猫が好き", "私は猫が好き。"),
    ("START THE SERVER", "start the server"),
    ("The dog is called Bosun", "the dog is called bosun"),
)
DIFFERENT = (
    ("It is 3.5", "It is 35", "It is 3,5", "It is -35"),
    ("I write C", "I write C++", "I write C#"),
    ("She can't swim", "She cant swim", "She can swim"),
    ("The file is App.js", "The file is app.js"),
    ("Start it with -p", "Start it with -P"),
    ("The area is 5²", "The area is 52"),
    ("It takes 1½ days", "It takes 11/2 days"),
    ("The result is 5!", "The result is 5"),
    ("Is it open?", "Is it open"),
    ("The path is a.b", "The path is ab"),
    ("Run `a; b`", "Run `a b`"),
    ("The token is aB3dE9", "The token is ab3de9"),
    ("He is ill", "He was ill", "He is not ill"),
    ("Use f()", "Use f"),
    ("See https://a.b/c", "See https://a.b/C"),
    ("Alice: knows Bob", "Alice knows Bob"),
)


def test_case_unicode_form_punctuation_and_spacing_make_no_difference() -> None:
    for texts in SAME:
        assert len({compute_fingerprint(text) for text in texts}) == 1, texts


def test_every_other_difference_counts() -> None:
    for texts in DIFFERENT:
        assert len({compute_fingerprint(text) for text in texts}) == len(texts), texts


@given(st.text(max_size=40))
def test_folding_twice_changes_nothing_more_than_spacing_and_no_text_is_lost(text: str) -> None:
    assert bool(fold_text(text)) == bool(text.split())
    assert normalize_case(text).lower() == text.lower()
