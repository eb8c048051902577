"""The same text has one fingerprint, and a text that differs in more than form has another."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text.same_text import compute_fingerprint, fold_text, normalize_case

CASES = json.loads((Path(__file__).parent / "same_text.json").read_text(encoding="utf-8"))


def test_case_unicode_form_punctuation_and_spacing_make_no_difference() -> None:
    for texts in CASES["same"]:
        assert len({compute_fingerprint(text) for text in texts}) == 1, texts


def test_every_other_difference_counts() -> None:
    for texts in CASES["different"]:
        assert len({compute_fingerprint(text) for text in texts}) == len(texts), texts


@given(st.text(max_size=40))
def test_folding_twice_changes_nothing_more_than_spacing_and_no_text_is_lost(text: str) -> None:
    assert bool(fold_text(text)) == bool(text.split())
    assert normalize_case(text).lower() == text.lower()
