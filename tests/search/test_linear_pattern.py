"""Regular expressions in linear time: the same answers as `re`, and an end to every search."""

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.errors import InvalidInput
from reverie.search import linear_pattern
from reverie.search.linear_pattern import LinearPattern

LEAVES = st.sampled_from(
    [
        r"a",
        r"b",
        r"B",
        r"é",
        r"ſ",
        r".",
        r"^",
        r"$",
        r"\d",
        r"\w",
        r"\W",
        r"\s",
        r"\b",
        r"\B",
        r"\A",
        r"\Z",
        r"\n",
        r"[ab]",
        r"[^a]",
        r"[a-c]",
        r"(?:)",
        r"(?s:.)",
        r"(?-i:b)",
        r"(?a:\b)",
        r"(?a:\w)",
        r"(?m:^)",
        r"(?m:$)",
    ]
)
PATTERNS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"({both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abBÉé1 \nſ_-", max_size=8))
def test_it_finds_a_match_where_re_does(pattern: str, text: str) -> None:
    expected = re.compile(pattern, re.IGNORECASE).search(text) is not None
    linear = LinearPattern(pattern)
    assert linear.has_match(text) is expected
    assert linear.has_match(text) is expected


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    [
        "(a|aa)+$",
        "(a+)+$",
        "^(a|aa){0,100}$",
        "(.*a){20}$",
        r"(?:\w*\s*)*x$",
        ".*.*.*.*x",
        "a+$",
        "(?:a?){50}a{50}x",
    ],
)
def test_what_takes_re_for_ever_is_searched_in_a_moment(pattern: str) -> None:
    assert not LinearPattern(pattern).has_match("a" * 50_000 + "!")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("steps", [40_000, pytest.param(linear_pattern._MOST_STEPS, marks=pytest.mark.slow)])
def test_a_pattern_with_too_many_states_is_given_up(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(linear_pattern, "_MOST_STEPS", steps)
    pattern = LinearPattern("[ab]*a[ab]{900}c")
    text = "".join(f"{number * 0x9E3779B97F4A7C15 % 2**64:064b}" for number in range(1_000))
    with pytest.raises(InvalidInput, match="takes too long"):
        pattern.has_match(text.replace("0", "a").replace("1", "b"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern", ["((a{1000}){1000}){1000}", "((){2000}){2000}", "a{0,100000}", "(?:a{50}){50}"]
)
def test_large_numbers_of_repeats_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match=r"repeats too much: write \* or \+"):
        LinearPattern(pattern)


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", "a*+", "(?>a)", "(a)?(?(1)b|c)"]
)
def test_what_remembers_or_looks_around_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="looks around or refers back"):
        LinearPattern(pattern)


def test_a_doubtful_set_is_no_warning() -> None:
    with warnings.catch_warnings(action="error"):
        assert LinearPattern("[[a]").has_match("A")
