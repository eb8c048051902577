"""Specifics of a text must survive a merge: they are recognised by class, spelled in one way, missed when gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.similarity.specifics import Specifics, extract_specifics

VOCABULARY = """
    Alice Bob Smith likes tea not never the 30 60 s 3.50 $ 5 pm May 2025 3 on Friday twice before `x y` a_b
    /etc/app https://a.b/c bob@a.com --flag 不喜欢 Пётр don't 1,000 v3.11.2 . ? :
"""
SENTENCES = st.lists(st.sampled_from(VOCABULARY.split()), max_size=15).map(" ".join)


def test_each_class_is_recognised_and_spelled_in_one_way() -> None:
    for where, text, expected in (
        ("names", "We met Alice Smith in New York.", "alice|smith|alice smith|new|york|new york"),
        ("names", "I know Ann Lee, Bob and Carl", "ann|lee|ann lee|bob|carl"),
        ("names", "Kubernetes is used. The team likes it.", "kubernetes"),
        ("names", "Prefers tabs. Refactored it. Always runs tests.", ""),
        ("names", "Bob's sister knows Éva and Петя", "bob|éva|петя"),
        ("numbers", "It costs 1,000 and 3.50 $, three times", "1000|3.50|3"),
        ("numbers", "Uses Python 3.10, not 3.11.2", "3.10|3.11.2"),
        ("numbers", "It fell to -5 in room 12", "-5|12"),
        ("times", "On 3 May 2025 at 5 pm", "2025-05-03|2025-05|05-03|17:00"),
        ("times", "On May 3rd, then 2024-12-01 at 10:30", "05-03|2024-12-01|2024-12|12-01|10:30"),
        ("times", "Every Friday, from today", "friday|today"),
        ("addresses", "See /etc/app.toml, src/a/b.py and ~/x.", "/etc/app.toml|src/a/b.py|~/x"),
        ("addresses", "Mail bob@a.com or (https://a.b/c?d=1).", "bob@a.com|https://a.b/c?d=1"),
        ("addresses", r"It is in C:\Users\bob", r"C:\Users\bob"),
        ("code", "Call parseTime, max_size and `git push` --force", "parseTime|max_size|git push|--force"),
        ("code", "Fixed in 3f9a0c4 by os.path.join", "3f9a0c4|os.path.join"),
        ("negations", "Never deploy; don't run tests", "not deploy|not run"),
        ("negations", "Avoid deploying on Friday", "not deploy"),
        ("negations", "不喜欢红茶", "not 不喜欢红茶"),
        ("limits", "Twice a week, before noon, only here", " twice | before | only "),
        ("units", "Wait 30s or 30 minutes for $5 or 5 %", "30 s|30 min|5 $|5 %"),
    ):
        assert getattr(extract_specifics(text), where) == set(filter(None, expected.split("|"))), text


def test_a_merge_names_the_specifics_that_it_lost() -> None:
    for source, merged, missing in (
        ("Likes Bob", "The user likes Bob and Alice", ""),
        ("Likes Bob", "The user does not like Bob", "like, affirmed"),
        ("Does not like Bob", "Likes Bob", "not like"),
        ("Never deploys on Friday", "Do not deploy on Friday or Monday", ""),
        ("Costs 1,000 euros", "It costs 1000 € now", ""),
        ("The timeout is 30 s", "Timeout: 30 min, tried every 5 s", "30 s"),
        ("Uses Python 3.10", "Uses Python 3.1", "3.10"),
        ("Meets on 3 May", "They meet on May 3, 2025", ""),
        ("Meets on 3 May 2025", "They meet on 3 May", "2025-05-03|2025-05"),
        ("It was released on 4 May 2025", "It was released on 3 May 2025", "2025-05-04|05-04"),
        ("The meeting is at 10:45", "The meeting is at 10:30", "10:45"),
        ("Works with Alice Smith", "Works with Alice", "smith|alice smith"),
        ("Run `make test` first", "First run make test", ""),
        ("The config is /etc/a.toml", "The config is in /etc", "/etc/a.toml"),
        ("Has three cats", "Has 3 cats", ""),
        ("Drinks tea twice a day", "Drinks tea every day", "twice"),
        ("Pay before Friday", "Pay after Friday", "before"),
        ("我喜欢红茶", "我喜欢红茶和绿茶", ""),
        ("我喜欢红茶", "我喜欢绿茶", "我喜欢红茶"),
        ("締め切りは2025-05-03の17:30です", "締め切りは2025-05-04の17:30です", "2025-05-03|05-03"),
        ("第3回は10%です", "第4回は10%です", "3"),
        ("必ず--forceを使う", "必ず--dryを使う", "--force"),
    ):
        found = extract_specifics(source).find_missing_from(extract_specifics(merged))
        assert found == set(filter(None, missing.split("|"))), source


@given(st.text(), SENTENCES, SENTENCES)
def test_a_text_loses_nothing_to_itself_or_beside_another(text: str, one: str, two: str) -> None:
    assert extract_specifics(text).find_missing_from(extract_specifics(text)) == frozenset()
    both = extract_specifics(f"{one}\n{two}")
    for each in (one, two):
        assert extract_specifics(each).find_missing_from(both) == frozenset()


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_the_time_is_linear_in_hostile_texts() -> None:
    for piece in ("a~", "-", "`", "a@", "1,", "x\n", "/", "A.", "我 ", "May 3 "):
        assert isinstance(extract_specifics(piece * (100_000 // len(piece))), Specifics)
