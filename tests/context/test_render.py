from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from reverie.context import render
from tests.context.values import NOW, call, entry, hit, packed, record, turn


def test_a_line_says_what_it_quotes() -> None:
    known = record(0xABC, category="user-preferences/timezone")
    line = "- [000000000abc] (user-preferences/timezone): User is in Chicago"
    assert render.render_record(known) == render.render_record(known, now=NOW + timedelta(hours=20)) == line
    assert "timezone, 2025-01-15): User" in render.render_record(known, now=NOW + timedelta(days=2))
    assert render.render_record(record(0xABC)) == "- [000000000abc]: User is in Chicago"
    held = record(valid_from=datetime(2020, 1, 1, tzinfo=NOW.tzinfo), valid_to=NOW)
    assert render.render_record(held).endswith("Chicago (holds from 2020-01-01 until 2025-01-15)")
    line = render.render_turn(turn(7, "user", "Did it work?", speaker="Ann"))
    assert line == "- [000000a00007] (telegram:12345, 2025-01-15 10:31, user Ann): Did it work?"
    assert render.render_turn(call(3, "c1")).endswith("assistant): [calls of tools only]")


def test_long_content_is_cut_and_names_the_id_that_has_the_rest():
    line = render.render_record(record(0xABC, "word " * 400))
    assert line.endswith("… [cut: 799 of 2,000 characters of 000000000abc]")


@given(st.lists(st.sampled_from(["vault", "noon", "other", "x" * 30]), min_size=1, max_size=600))
def test_a_quotation_is_never_much_longer_than_asked_for_and_shows_a_matched_word_if_there_is_one(words):
    shown = render.quote_text(" ".join(words), id="000000000abc", matched=("vault", "noon"), longest=200)
    assert len(shown) <= 200 + 70
    if {"vault", "noon"} & set(words):
        assert "vault" in shown or "noon" in shown


def test_an_entry_is_listed_as_rockbot_does_and_never_with_its_data():
    kept = [
        entry("chunked-page-1", category="web-content", tags=("github", "rockbot")),
        entry("draft-email", seconds=121),
        entry("plan", seconds=None),
        entry("gone", seconds=0),
    ]
    assert packed(entries=kept).text.endswith(
        "Working memory (scratch space — use search_working_memory or get_from_working_memory to retrieve):\n"
        "- chunked-page-1: expires in 4m32s, category: web-content, tags: github, rockbot\n"
        "- draft-email: expires in 2m01s\n"
        "- plan: kept"
    )


def test_a_countdown_has_two_units():
    cases = {0: "0s", 0.9: "0s", 59: "59s", 60: "1m00s", 3599: "59m59s", 3900: "1h05m", 266_400: "3d02h"}
    for seconds, shown in cases.items():
        assert render.format_countdown(timedelta(seconds=seconds)) == shown


def test_of_a_long_record_the_passage_that_matched_is_shown():
    filler = "Nothing of note happened at the harbour that day and the boats stayed in. " * 30
    text = f"{filler}The spare key hangs behind the barometer. {filler}"
    found = hit(record(1, text), 0.5, "spare", "key", "barometer")
    line = render.render_hit(found)
    assert "The spare key hangs behind the barometer" in line
    assert len(found.passage) <= 300 < len(line) < 450
    assert f"characters of {record(1).id}]" in line
    assert "The spare key hangs behind the barometer" in found.passage == found.to_dict()["passage"]
    assert hit(record(1, "short")).passage == "short"
