"""A long text is cut where a reader would cut it, and its pieces put together are the text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.tools.large_results import split_text
from tests.profiles import examples

TEXTS = st.text(alphabet="ab \n#`\r~é\u0301\u200d👩", max_size=300) | st.text(max_size=200)


@settings(max_examples=examples(400), deadline=None)
@given(text=TEXTS, longest=st.integers(1, 40))
def test_the_pieces_are_the_text_and_none_is_too_long(text: str, longest: int) -> None:
    cut = split_text(text, longest)
    assert "".join(cut) == text
    assert all(len(piece) <= longest for piece in cut)
    assert all(cut) or cut == [""]


def test_it_is_cut_before_the_largest_heading() -> None:
    text = "# One\n" + "a" * 40 + "\n## Two\n" + "b" * 40 + "\n# Three\n" + "c" * 30 + "\n## Four\nd\n"
    assert [piece.split("\n")[0] for piece in split_text(text, 110)] == ["# One", "# Three"]
    assert [piece.split("\n")[0] for piece in split_text(text, 60)] == ["# One", "## Two", "# Three"]


def test_else_it_is_cut_after_blank_lines() -> None:
    text = "one one\none one\n\ntwo two\ntwo two\n\nthree three\n"
    assert split_text(text, 20) == ["one one\none one\n\n", "two two\ntwo two\n\n", "three three\n"]


def test_else_at_the_end_of_a_line_and_else_between_words() -> None:
    assert split_text("one two\nthree\nfour\n", 14) == ["one two\nthree\n", "four\n"]
    assert split_text("one two three four", 9) == ["one two ", "three ", "four"]


def test_a_block_of_code_is_not_torn_where_it_fits_a_piece() -> None:
    for fence in ["```", "~~~~"]:
        code = f"{fence}python\n" + "\n\n".join(f"# line {n}" for n in range(6)) + f"\n{fence}\n"
        text = "intro\n" + code + "after\n" * 20
        cut = split_text(text, len(code) + 2)
        assert code in cut[1]
        assert cut[0] == "intro\n"


def test_a_heading_within_a_block_of_code_is_no_heading() -> None:
    code = "```\n# no heading\n# none either\n```\n"
    text = code + "\n" + "word " * 5 + "\n\n" + code
    assert all(piece.count("```") == 2 for piece in split_text(text, len(code) + 30))


def test_a_block_of_code_that_never_ends_is_none() -> None:
    text = "```\n" + "one two\n\n" * 10
    assert all(piece.endswith("\n\n") for piece in split_text(text, 40))


def test_a_block_of_code_that_is_too_long_is_cut_at_its_lines() -> None:
    text = "```\n" + "x = 1\n" * 50 + "```\n"
    cut = split_text(text, 60)
    assert "".join(cut) == text
    assert all(piece.endswith("\n") for piece in cut)


def test_letters_are_not_torn_from_their_accents_nor_line_ends_apart() -> None:
    assert split_text("e\u0301" * 10, 5) == ["e\u0301" * 2] * 5
    family = "👩\u200d👩\u200d👧"
    assert all(piece.count("\u200d") % 2 == 0 for piece in split_text(family * 4, 12))
    assert not any(piece.endswith("\r") for piece in split_text("abc\r\n" * 10, 4))
