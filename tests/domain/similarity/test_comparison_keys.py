"""Whatever folds is found by its keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.comparison import compute_keys, is_repetition, normalize

LINES = (Path(__file__).parent / "pairs.jsonl").read_text().splitlines()
PAIRS = [json.loads(line) for line in LINES if line]


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_a_pair_that_folds_shares_a_key(pair: dict[str, str]) -> None:
    new, old = normalize(pair["new"]), normalize(pair["old"])
    for a, b in ((new, old), (old, new)):
        if (is_repetition(a, b) or is_repetition(b, a)) and a.letters != b.letters:
            assert set(compute_keys(a)) & set(compute_keys(b))


SAID = """
The user likes tea. Really because since 2019 and drinks coffee! He prefers Berlin, Germany at
Monday 10:30 does not don't very lives in Ann works . ¶ Thanks.
""".split()  # noqa: SIM905
WORDS = st.lists(
    st.sampled_from(SAID),
    min_size=1,
    max_size=12,
)


@given(first=WORDS, second=WORDS)
def test_what_folds_shares_a_key(first: list[str], second: list[str]) -> None:
    for a, b in (
        (" ".join(first), " ".join(second)),
        (" ".join(first), " ".join(first + second)),
        (" ".join(second), " ".join(first) + ". " + " ".join(second)),
        (" ".join(first), "really " + " ".join(first)),
    ):
        one, other = normalize(a), normalize(b)
        if is_repetition(one, other) or is_repetition(other, one):
            assert set(compute_keys(one)) & set(compute_keys(other)) or one.letters == other.letters


def test_a_long_text_has_a_bounded_number_of_keys() -> None:
    assert len(compute_keys(normalize("One thing happened. Then another. " * 20_000))) < 300
    assert len(compute_keys(normalize("and so " * 50_000))) < 300
