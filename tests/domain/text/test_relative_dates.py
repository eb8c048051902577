"""Relative dates mean exact days, from the moment and the place where they were said."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie import InvalidInput, Memory, Settings
from reverie.domain.text.relative_dates import format_dates, parse_dates, resolve_dates

WEDNESDAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


def days(text: str, said_at: datetime = WEDNESDAY, **more: object) -> list[str]:
    return [str(when) for when in resolve_dates(text, said_at, **more)]  # type: ignore[arg-type]


def test_an_expression_means_exact_days() -> None:
    for text, day in [
        ("today", "2025-01-15"),
        ("tonight", "2025-01-15"),
        ("this morning", "2025-01-15"),
        ("yesterday", "2025-01-14"),
        ("last night", "2025-01-14"),
        ("tomorrow", "2025-01-16"),
        ("the day before yesterday", "2025-01-13"),
        ("day after tomorrow", "2025-01-17"),
        ("3 days ago", "2025-01-12"),
        ("three days ago", "2025-01-12"),
        ("a week ago", "2025-01-08"),
        ("two weeks ago", "2025-01-01"),
        ("a couple of weeks ago", "2025-01-01"),
        ("a month ago", "2024-12-15"),
        ("six months ago", "2024-07-15"),
        ("a year ago", "2024-01-15"),
        ("ten years ago", "2015-01-15"),
        ("in 5 days", "2025-01-20"),
        ("in a week", "2025-01-22"),
        ("in three months", "2025-04-15"),
        ("in two weeks' time", "2025-01-29"),
        ("in one year", "2026-01-15"),
        ("10 days from now", "2025-01-25"),
        ("a week from today", "2025-01-22"),
        ("last Monday", "2025-01-13"),
        ("last Wednesday", "2025-01-08"),
        ("last Friday", "2025-01-10"),
        ("this Wednesday", "2025-01-15"),
        ("this Friday", "2025-01-17"),
        ("coming Monday", "2025-01-20"),
        ("next Monday", "2025-01-20"),
        ("next Wednesday", "2025-01-22"),
        ("next Friday", "2025-01-24"),
        ("next Sunday", "2025-01-26"),
        ("Friday next week", "2025-01-24"),
        ("Monday last week", "2025-01-06"),
        ("Tuesday this week", "2025-01-14"),
        ("a week from Friday", "2025-01-24"),
        ("last week", "2025-01-06/2025-01-12"),
        ("this week", "2025-01-13/2025-01-19"),
        ("next week", "2025-01-20/2025-01-26"),
        ("this weekend", "2025-01-18/2025-01-19"),
        ("last weekend", "2025-01-11/2025-01-12"),
        ("next month", "2025-02-01/2025-02-28"),
        ("last month", "2024-12-01/2024-12-31"),
        ("this month", "2025-01-01/2025-01-31"),
        ("last year", "2024-01-01/2024-12-31"),
        ("next year", "2026-01-01/2026-12-31"),
        ("this quarter", "2025-01-01/2025-03-31"),
        ("next quarter", "2025-04-01/2025-06-30"),
        ("last quarter", "2024-10-01/2024-12-31"),
        ("last May", "2024-05-01/2024-05-31"),
        ("next May", "2025-05-01/2025-05-31"),
        ("last January", "2024-01-01/2024-01-31"),
        ("next January", "2026-01-01/2026-01-31"),
        ("the end of the month", "2025-01-31"),
        ("by the end of this week", "2025-01-19"),
        ("at the end of the year", "2025-12-31"),
    ]:
        assert days(text) == [day]
        assert days(f"We met {text}, with Ann.") == [day]
        assert days(text.upper()) == [day]


def test_edges_of_weeks_months_and_years() -> None:
    for said, text, day in [
        ("2025-01-17", "next Friday", "2025-01-24"),
        ("2025-01-17", "this Friday", "2025-01-17"),
        ("2025-01-17", "last Friday", "2025-01-10"),
        ("2025-01-18", "next Friday", "2025-01-24"),
        ("2025-01-19", "next Monday", "2025-01-20"),
        ("2025-01-20", "next Monday", "2025-01-27"),
        ("2025-01-19", "this weekend", "2025-01-18/2025-01-19"),
        ("2025-01-31", "in a month", "2025-02-28"),
        ("2024-01-31", "in a month", "2024-02-29"),
        ("2025-03-31", "a month ago", "2025-02-28"),
        ("2024-02-29", "in a year", "2025-02-28"),
        ("2024-12-31", "tomorrow", "2025-01-01"),
        ("2025-01-01", "yesterday", "2024-12-31"),
        ("2025-12-15", "next month", "2026-01-01/2026-01-31"),
        ("2025-11-30", "next quarter", "2026-01-01/2026-03-31"),
        ("2024-03-10", "last month", "2024-02-01/2024-02-29"),
    ]:
        assert days(text, datetime.fromisoformat(said).replace(hour=12, tzinfo=UTC)) == [day]


def test_what_has_no_one_meaning_is_left_alone() -> None:
    for text in [
        "on Friday",
        "Friday",
        "recently",
        "a few days ago",
        "soon",
        "some weeks ago",
        "in May",
        "the other day",
        "in 2025",
        "every day",
        "in days",
        "yesterdays",
        "todayish",
        "next",
        "last",
        "this",
        "next of kin",
        "last year of school",
        "the week of hell",
        "within 3 days",
        "in 99999 days",
        "in 9999 years",
        "9999 years ago",
        "两三天前",
        "五六年前",
    ]:
        assert days(text) == []


def test_the_speakers_place_decides_what_day_it_is() -> None:
    late = datetime(2025, 1, 15, 23, 30, tzinfo=UTC)
    assert days("today", late) == ["2025-01-15"]
    assert days("today", late, zone=ZoneInfo("Europe/Berlin")) == ["2025-01-16"]
    assert days("yesterday", late, zone=ZoneInfo("America/New_York")) == ["2025-01-14"]
    assert days("today", late.astimezone(ZoneInfo("Asia/Tokyo"))) == ["2025-01-15"]


def test_several_stand_in_their_order_with_their_words() -> None:
    found = resolve_dates("Moved from Next  Friday to tomorrow; tomorrow, I said", WEDNESDAY)
    assert [(when.words, str(when)) for when in found] == [
        ("Next  Friday", "2025-01-24"), ("tomorrow", "2025-01-16"), ("tomorrow", "2025-01-16"),
    ]  # fmt: skip
    line = format_dates(found)
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


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_no_text_breaks_it(text: str, said_at: datetime) -> None:
    for when in resolve_dates(text, said_at):
        assert when.start <= when.end
        assert text[when.at :].startswith(when.words)


@given(st.dates(min_value=date(1990, 1, 1), max_value=date(2090, 1, 1)))
def test_next_last_and_this_never_cross(today: date) -> None:
    said_at = datetime(today.year, today.month, today.day, 12, tzinfo=UTC)
    for name in ("Monday", "Thursday", "Sunday"):
        last, this, following = (
            resolve_dates(f"{which} {name}", said_at)[0].start for which in ("last", "this", "next")
        )
        assert last < today <= this
        assert today < following <= today + timedelta(days=13)
        assert {last.weekday(), this.weekday(), following.weekday()} == {
            ["Monday", "Thursday", "Sunday"].index(name) * 3
        }


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
