from __future__ import annotations

import json
import re
from pathlib import Path

from evaluation.measures import prompt_quoting
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.text import escaping

CASES = json.loads((Path(__file__).parent / "marks.json").read_text(encoding="utf-8"))
ANY = st.text(max_size=80) | st.text(
    alphabet="ab -#[]():<|>/\n\r\t`*!\\\u2028\x85\u200b\u200c\u200d\u202e\x1b[m😀\ufe0f\U000e0041می",
    max_size=60,
)


@given(ANY)
def test_what_nobody_sees_is_gone_and_doing_it_again_changes_nothing(text: str) -> None:
    shown = escaping.strip_invisible(text)
    assert escaping.strip_invisible(shown) == shown
    assert not prompt_quoting.find_unseen(shown) or "\u200c" in shown or "\u200d" in shown


@given(ANY)
def test_one_line_is_one_line_and_stable(text: str) -> None:
    shown = escaping.escape_line(text)
    assert len(shown.splitlines()) <= 1
    assert escaping.escape_line(shown) == shown
    assert not re.search(r"<\|[^<>|]{0,40}\|>", shown)


@given(ANY)
def test_no_line_of_a_block_is_one_of_ours(text: str) -> None:
    for line in escaping.escape_block(text).split("\n"):
        assert line not in prompt_quoting._HEADERS
        assert not prompt_quoting._ITEM.fullmatch(line)
        assert not prompt_quoting._ROLE.match(line)


@given(ANY)
def test_a_fence_cannot_be_ended_from_inside(text: str) -> None:
    shown = escaping.fence(text)
    first, *inside, last = shown.split("\n")
    assert last == f"data {first.removeprefix('<<<data ')}>>>"
    assert last not in inside
    assert "\n".join(inside) == escaping.escape_message(text).strip("\n")


def test_letters_that_joiners_hold_together_stay_together() -> None:
    for text in CASES["kept"]:
        assert escaping.strip_invisible(text) == text


def test_what_carries_something_else_than_text_is_dropped() -> None:
    for text, shown in CASES["dropped"]:
        assert escaping.strip_invisible(text) == shown


def test_a_line_that_looks_like_ours_gets_a_backslash() -> None:
    for line in (*CASES["ours"], escaping.NOTICE):
        assert escaping.escape_block(f"fine\n{line}\nfine").split("\n")[1].startswith("\\")


def test_what_is_quoted_is_not_the_writers_own_word() -> None:
    for said, own in CASES["quoted"]:
        assert escaping.unquoted_text(said) == own
