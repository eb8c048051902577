"""Whether one text repeats another, in any spelling that a person would call the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text.shingles import (
    RUN,
    PhraseMatcher,
    collect_text_shingles,
    normalize_text,
    normalize_words,
    shingles,
)

SECRET = "Anna lives in a small flat near the harbour of Lisbon"


def repeats(text: str, secret: str = SECRET) -> bool:
    return bool(PhraseMatcher.of(collect_text_shingles(secret)).find_phrases(text))


def test_five_words_in_a_row_are_a_repetition() -> None:
    for text in [
        SECRET,
        "so she lives in a small flat, they say",
        "LIVES  IN\n\ta small\u00a0flat",
        "**lives** (in) a — small: flat!",
        "lives-in-a-small-flat",
        "lives_in_a_small_flat",
        '{"q": "lives in a\\nsmall flat"}',
        json.dumps({"note": "lives in a ſmall flat"}),  # a long s, escaped as \u017f
        "lives in a sm\u00adall flat",  # a soft hyphen
    ]:
        assert repeats(text)


def test_fewer_or_others_are_none() -> None:
    for text in [
        "",
        "lives in a small",
        "lives in a very small flat",
        "flat small a in lives",
        "in a small flat",
    ]:
        assert not repeats(text)


def test_all_of_a_short_text_is_its_phrase() -> None:
    assert collect_text_shingles("Likes tea.") == {("likes", "tea")}
    assert collect_text_shingles("Likes tea.", short=False) == set()
    assert repeats("Bob likes tea, too", "Likes tea.")
    assert not repeats("He likes green tea", "Likes tea.")
    assert collect_text_shingles("…") == set()


def test_two_characters_count_for_a_word_where_words_are_not_spaced() -> None:
    secret = "安娜住在里斯本港口附近的一间小公寓里"
    assert repeats("我听说安娜住在里斯本港口附近。", secret)
    assert not repeats("她住在里斯本", secret)
    assert all(len(run) == 2 * RUN for run in shingles(normalize_words(secret)))
    assert repeats("nur Anna 住在里斯本港口附近的", "Anna 住在里斯本港口附近的一间")


def test_accented_and_marked_letters_stay_in_their_words() -> None:
    assert normalize_words("नमस्ते दुनिया, Café CAFE\u0301") == ["नमस्ते", "दुनिया", "café", "café"]


def test_a_piece_is_found_inside_words_and_across_lines() -> None:
    phrases = PhraseMatcher.of((), piece=normalize_text(" Berlin\tWall "))
    assert phrases.has_piece("the berlin\n\n  wallpaper")
    assert phrases.has_piece('"Berlin\\nWall"')
    assert not phrases.has_piece("Berlin's Wall")
    assert PhraseMatcher.of((), piece=normalize_text("😀!")).has_piece(json.dumps("oh 😀!"))
    assert not PhraseMatcher.of(())


def test_the_lines_that_say_it_are_cut_and_no_others() -> None:
    page = "# Anna\n\n- lives in a\n  small flat\n- likes tea\nNear THE harbour of Lisbon, too\n"
    phrases = PhraseMatcher.of(collect_text_shingles(SECRET))
    left, gone = phrases.cut(page)
    assert left == "# Anna\n\n- likes tea\n"
    assert sorted(gone) == ["  small flat", "- lives in a", "Near THE harbour of Lisbon, too"]
    assert PhraseMatcher.of((), piece="flat - likes").cut(page)[1] == ["  small flat", "- likes tea"]
    assert PhraseMatcher.of((), piece="anna").cut("\n\nAnna and Anna\nBob\nanna") == (
        "\n\nBob",
        ["Anna and Anna", "anna"],
    )
    assert PhraseMatcher.of((), piece="nothing").cut(page) == (page, [])


TEXTS = st.text(st.sampled_from("ab ,.\n\\é字猫A_-"), max_size=80)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_repeats_itself_wherever_it_stands(before: str, secret: str, after: str) -> None:
    phrases = PhraseMatcher.of(collect_text_shingles(secret))
    if phrases:
        assert phrases.has_match(f"{before} {secret} {after}")
        assert phrases.has_match(json.dumps(f"{before} {secret} {after}"))


@given(TEXTS, TEXTS)
def test_without_its_lines_nothing_is_left_of_it(text: str, secret: str) -> None:
    phrases = PhraseMatcher.of(collect_text_shingles(secret), piece=normalize_text(secret))
    left, gone = phrases.cut(text)
    assert not phrases.has_match(left)
    assert sorted([*left.split("\n"), *gone]) == sorted(text.split("\n")) or (not left and gone)
