"""What must survive a merge: recognised by class, spelled in one way, missed when it is gone."""

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


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        (
            "We met Alice Smith in New York.",
            "names",
            {"alice", "smith", "alice smith", "new", "york", "new york"},
        ),
        ("I know Ann Lee, Bob and Carl", "names", {"ann", "lee", "ann lee", "bob", "carl"}),
        ("Kubernetes is used. The team likes it.", "names", {"kubernetes"}),
        ("Prefers tabs. Refactored it. Always runs tests.", "names", set()),
        ("Bob's sister knows Éva and Петя", "names", {"bob", "éva", "петя"}),
        ("It costs 1,000 and 3.50 $, three times", "numbers", {"1000", "3.5", "3"}),
        ("Uses Python 3.10, not 3.11.2", "numbers", {"3.10", "3.11.2"}),
        ("It fell to -5 in room 12", "numbers", {"-5", "12"}),
        ("On 3 May 2025 at 5 pm", "times", {"2025-05-03", "2025-05", "05-03", "17:00"}),
        (
            "On May 3rd, then 2024-12-01 at 10:30",
            "times",
            {"05-03", "2024-12-01", "2024-12", "12-01", "10:30"},
        ),
        ("Every Friday, from today", "times", {"friday", "today"}),
        ("See /etc/app.toml, src/a/b.py and ~/x.", "addresses", {"/etc/app.toml", "src/a/b.py", "~/x"}),
        ("Mail bob@a.com or (https://a.b/c?d=1).", "addresses", {"bob@a.com", "https://a.b/c?d=1"}),
        (r"It is in C:\Users\bob", "addresses", {r"C:\Users\bob"}),
        (
            "Call parseTime, max_size and `git push` --force",
            "code",
            {"parseTime", "max_size", "git push", "--force"},
        ),
        ("Fixed in 3f9a0c4 by os.path.join", "code", {"3f9a0c4", "os.path.join"}),
        ("Never deploy; don't run tests", "negations", {"not deploy", "not run"}),
        ("Avoid deploying on Friday", "negations", {"not deploy"}),
        ("不喜欢红茶", "negations", {"not 不喜欢红茶"}),
        ("Twice a week, half a dozen", "quantities", {"twice", "half", "dozen"}),
        ("More than ten, before noon, only here", "comparisons", {"more", "than", "before", "only"}),
        ("Wait 30s or 30 minutes for $5 or 5 %", "units", {"30 s", "30 min", "5 $", "5 %"}),
        ("我喜欢红茶 and أحب الشاي", "scripts", {"我喜欢红茶", "أحب", "الشاي"}),
    ],
)
def test_each_class_is_recognised_and_spelled_in_one_way(text: str, where: str, expected: set[str]) -> None:
    assert getattr(extract_specifics(text), where) == expected


@pytest.mark.parametrize(
    ("source", "merged", "missing"),
    [
        ("Likes Bob", "The user likes Bob and Alice", set()),
        ("Likes Bob", "The user does not like Bob", {"like, affirmed"}),
        ("Does not like Bob", "Likes Bob", {"not like"}),
        ("Never deploys on Friday", "Do not deploy on Friday or Monday", set()),
        ("Costs 1,000 euros", "It costs 1000 € now", set()),
        ("The timeout is 30 s", "Timeout: 30 min, tried every 5 s", {"30 s"}),
        ("Uses Python 3.10", "Uses Python 3.1", {"3.10"}),
        ("Meets on 3 May", "They meet on May 3, 2025", set()),
        ("Meets on 3 May 2025", "They meet on 3 May", {"2025-05-03", "2025-05"}),
        ("Works with Alice Smith", "Works with Alice", {"smith", "alice smith"}),
        ("Run `make test` first", "First run make test", set()),
        ("The config is /etc/a.toml", "The config is in /etc", {"/etc/a.toml"}),
        ("Has three cats", "Has 3 cats", set()),
        ("Drinks tea twice a day", "Drinks tea every day", {"twice"}),
        ("Pay before Friday", "Pay after Friday", {"before"}),
        ("我喜欢红茶", "我喜欢红茶和绿茶", set()),
        ("我喜欢红茶", "我喜欢绿茶", {"我喜欢红茶"}),
    ],
)
def test_what_a_merge_has_lost_is_named(source: str, merged: str, missing: set[str]) -> None:
    assert extract_specifics(source).find_missing_from(extract_specifics(merged)) == missing


@given(st.one_of(SENTENCES, st.text()))
def test_a_text_loses_nothing_to_itself(text: str) -> None:
    assert extract_specifics(text).find_missing_from(extract_specifics(text)) == frozenset()


@given(SENTENCES, SENTENCES)
def test_two_texts_side_by_side_lose_nothing_of_either(one: str, two: str) -> None:
    both = extract_specifics(f"{one}\n{two}")
    assert extract_specifics(one).find_missing_from(both) == frozenset()
    assert extract_specifics(two).find_missing_from(both) == frozenset()


@given(SENTENCES)
def test_everything_specific_is_missing_from_nothing(text: str) -> None:
    found = extract_specifics(text)
    assert bool(found.find_missing_from(Specifics())) == bool(found)


def test_a_changed_date_version_or_number_is_always_missed() -> None:
    for old, new in (
        ("It was released on 3 May 2025", "It was released on 4 May 2025"),
        ("Uses Python 3.11", "Uses Python 3.12"),
        ("The limit is 30 s", "The limit is 60 s"),
        ("The meeting is at 10:30", "The meeting is at 10:45"),
    ):
        assert extract_specifics(new).find_missing_from(extract_specifics(old)), new


@pytest.mark.parametrize(
    ("source", "merged", "missing"),
    [
        ("会議2356はFaridaさんと行われます", "会議2361はFaridaさんと行われます", {"2356"}),
        ("締め切りは2025-05-03の17:30です", "締め切りは2025-05-04の17:30です", {"2025-05-03", "05-03"}),
        ("第3回は10%です", "第4回は10%です", {"3"}),
        ("必ず--forceを使う", "必ず--dryを使う", {"--force"}),
    ],
)
def test_numbers_beside_letters_without_spaces_are_specific(
    source: str, merged: str, missing: set[str]
) -> None:
    assert missing <= extract_specifics(source).find_missing_from(extract_specifics(merged))


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_the_time_is_linear_in_hostile_texts() -> None:
    for piece in ("a~", "-", "`", "a@", "1,", "x\n", "/", "A.", "我 ", "May 3 "):
        assert isinstance(extract_specifics(piece * (100_000 // len(piece))), Specifics)
