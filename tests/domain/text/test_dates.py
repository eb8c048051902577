"""Dates in every common form are days, plain words are none, and relative dates mean the day that they were said."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import InvalidInput, Memory, Settings
from reverie.domain.text.dates import find_dates, format_dates, parse_dates, resolve_dates
from tests.profiles import examples

TODAY = date(2026, 3, 18)  # a Wednesday
DATES = json.loads((Path(__file__).parent / "dates.json").read_text(encoding="utf-8"))
"""Texts by the days that they mean, said on `TODAY` and on `WEDNESDAY`, and by the day on which they are said."""
FORMS = (
    "%d %B %Y", "%B %d, %Y", "%d %b %Y", "%b %d, %Y", "%Y-%m-%d", "%Y/%m/%d", "am %d.%m.%Y", "%Y年%m月%d日",
    "%Y 年 %m 月 %d 号",
)  # fmt: skip


def days(text: str, today: date = TODAY) -> list[str]:
    return [str(one.start) for one in find_dates(text, today) if one.start == one.end]


@given(st.dates(date(1950, 1, 1), date(2090, 12, 31)))
@settings(max_examples=examples(800))
def test_every_day_is_read_in_every_form(day: date) -> None:
    for form in FORMS:
        text = day.strftime(form)
        assert days(text) == [str(day)], text
        assert days(f"What was on {text}?") == [str(day)], text
        assert days(f"We met ({text}) at Ann's.") == [str(day)], text


@given(st.integers(-180, 180))
def test_a_day_without_a_year_is_the_nearest(offset: int) -> None:
    day = TODAY + timedelta(days=offset)
    for form in ("%d %B", "%B %d", "am %d.%m.", "%m月%d日"):
        [found] = find_dates(day.strftime(form), TODAY)
        assert (found.start, found.end, found.yearly) == (day, day, True)


@given(st.dates(date(1950, 1, 1), date(2090, 12, 31)))
@settings(max_examples=examples(200))
def test_slashes_mean_both_days_where_both_are_possible(day: date) -> None:
    text = f"{day.day:02d}/{day.month:02d}/{day.year}"
    other = [str(date(day.year, day.day, day.month))] if day.day <= 12 and day.day != day.month else []
    assert days(text) == [str(day), *other]


WEDNESDAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


def resolved(text: str, said_at: datetime = WEDNESDAY, **more: object) -> list[str]:
    return [str(when) for when in resolve_dates(text, said_at, **more)]  # type: ignore[arg-type]


def test_plain_words_and_numbers_are_no_dates() -> None:
    for text in DATES["plain"]:
        assert find_dates(text, TODAY) == []


def test_dates_are_read_in_every_language() -> None:
    for meant, texts in DATES["languages"].items():
        for text in texts:
            assert [str(one) for one in find_dates(text, TODAY)] == [meant], text


def test_a_bare_weekday_is_the_last_or_the_next_one() -> None:
    assert days("on Friday") == days("am Freitag") == days("el viernes") == ["2026-03-20", "2026-03-13"]
    assert days("réunion jeudi") == days("giovedì") == ["2026-03-19", "2026-03-12"]
    assert days("Friday, 20 March 2026") == ["2026-03-20"]


@given(st.text(max_size=200), st.dates())
def test_any_text_can_be_read(text: str, today: date) -> None:
    said_at = datetime.combine(today, datetime.min.time(), UTC)
    for one in [*find_dates(text, today), *resolve_dates(text, said_at)]:
        assert one.start <= one.end
        assert 0 <= one.at < one.stop <= len(text)


# -- relative dates ------------------------------------------------------------------------------------------


def test_an_expression_means_exact_days() -> None:
    for day, texts in DATES["expressions"].items():
        for text in texts:
            for said in (text, f"We met {text}, with Ann.", text.upper()):
                assert resolved(said) == [day], said


def test_edges_of_weeks_months_and_years() -> None:
    for said, cases in DATES["edges"].items():
        for text, day in (case.split("=") for case in cases):
            assert resolved(text, datetime.fromisoformat(said).replace(hour=12, tzinfo=UTC)) == [day], text


def test_what_has_no_one_meaning_is_left_alone() -> None:
    for text in DATES["vague"]:
        assert resolved(text) == []


def test_the_speakers_place_decides_what_day_it_is() -> None:
    late = datetime(2025, 1, 15, 23, 30, tzinfo=UTC)
    assert resolved("today", late) == ["2025-01-15"]
    assert resolved("today", late, zone=ZoneInfo("Europe/Berlin")) == ["2025-01-16"]
    assert resolved("yesterday", late, zone=ZoneInfo("America/New_York")) == ["2025-01-14"]
    assert resolved("today", late.astimezone(ZoneInfo("Asia/Tokyo"))) == ["2025-01-15"]


def test_several_stand_in_their_order_with_their_words() -> None:
    text = "Moved from Next  Friday to tomorrow; tomorrow, I said"
    found = resolve_dates(text, WEDNESDAY)
    assert [(text[when.at : when.stop], str(when)) for when in found] == [
        ("Next  Friday", "2025-01-24"), ("tomorrow", "2025-01-16"), ("tomorrow", "2025-01-16"),
    ]  # fmt: skip
    line = format_dates(text, found)
    assert line == "Next Friday = 2025-01-24; tomorrow = 2025-01-16"
    assert list(parse_dates(line)) == [
        ("Next Friday", date(2025, 1, 24), date(2025, 1, 24)),
        ("tomorrow", date(2025, 1, 16), date(2025, 1, 16)),
    ]  # fmt: skip
    assert list(parse_dates("")) == []
    assert list(parse_dates("x = y; next week = 2025-01-20/2025-01-26")) == [
        ("next week", date(2025, 1, 20), date(2025, 1, 26))
    ]


def test_there_is_an_end_to_it() -> None:
    assert len(resolve_dates("today " * 1_000, WEDNESDAY)) == 20
    assert resolve_dates("word " * 200_000 + "today", WEDNESDAY) == []


def test_what_a_record_says_is_dated_when_it_is_saved_and_the_words_are_kept() -> None:
    with Memory.open(":memory:", clock=lambda: WEDNESDAY) as memory:
        memory.save("The launch is next Friday")
        (record,) = memory.list()
        assert record.content == "The launch is next Friday"
        assert record.resolved_dates == "next Friday = 2025-01-24"
        assert [hit.id for hit in memory.search("what happens on 2025-01-24")] == [record.id]
        chat = memory.session("cli:1")
        chat.add("user", "When is the launch?")
        assert "The launch is next Friday (next Friday = 2025-01-24)" in chat.context().text


def test_the_same_words_on_another_day_mean_both() -> None:
    now = [WEDNESDAY]
    with Memory.open(":memory:", clock=lambda: now[0]) as memory:
        memory.save("Dentist tomorrow")
        now[0] += timedelta(days=7)
        saved = memory.save("Dentist tomorrow")
        assert saved.outcome == "reinforced"
        assert saved.record.resolved_dates == "tomorrow = 2025-01-16; tomorrow = 2025-01-23"


def test_the_moment_it_was_said_counts_and_the_owners_zone() -> None:
    late = datetime(2025, 1, 15, 23, 30, tzinfo=UTC)
    with Memory.open(
        ":memory:", settings=Settings(time_zone="Europe/Berlin"), clock=lambda: WEDNESDAY
    ) as memory:
        record = memory.save("Called Ann today", created_at=late).record
        assert record.resolved_dates == "today = 2025-01-16"
    with pytest.raises(InvalidInput, match="time_zone"):
        Settings(time_zone="Mars/Olympus")
