"""Questions whose clue is a date."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory, Settings
from reverie.domain.passage import Passage
from reverie.domain.text.dates import get_local_day
from reverie.domain.text.tokenizer import tokenize_date
from reverie.search.dates import Closeness, analyze_dates, find_query_dates
from tests.factories import MovableClock
from tests.profiles import examples

NOW = datetime(2026, 3, 18, 9, tzinfo=UTC)  # a Wednesday


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(NOW)


def save(memory: Memory, clock: MovableClock, at: datetime, text: str) -> None:
    clock.now = at
    memory.save(text)
    clock.now = NOW


def first(memory: Memory, question: str, **more: object) -> str:
    hits = memory.search(question, limit=3, **more)  # type: ignore[arg-type]
    return hits[0].content if hits else ""


def test_what_was_saved_or_is_dated_then_is_found(memory: Memory, clock: MovableClock) -> None:
    save(memory, clock, NOW - timedelta(days=1), "Planted garlic")
    save(memory, clock, NOW - timedelta(days=3), "Sold the old bicycle")
    save(memory, clock, NOW - timedelta(days=30), "Bought a kettle")
    save(memory, clock, datetime(2026, 1, 12, 9, tzinfo=UTC), "Met the notary")
    save(memory, clock, datetime(2025, 11, 3, 9, tzinfo=UTC), "Concert of the choir on 1 April")
    save(memory, clock, datetime(2025, 11, 4, 9, tzinfo=UTC), "Visit of Aunt Rosa on 21.3.2026")
    save(memory, clock, datetime(2025, 11, 5, 9, tzinfo=UTC), "Code freeze from 2026-12-20 to 2026-12-31")
    for question, answer in [
        ("what did I do yesterday?", "Planted garlic"),
        ("was habe ich gestern gemacht?", "Planted garlic"),
        ("¿qué hice ayer?", "Planted garlic"),
        ("qu'est-ce que j'ai fait hier ?", "Planted garlic"),
        ("cosa ho fatto ieri?", "Planted garlic"),
        ("o que fiz ontem?", "Planted garlic"),
        ("我昨天做了什么?", "Planted garlic"),
        ("昨日何をした?", "Planted garlic"),
        ("what happened two days before yesterday?", "Sold the old bicycle"),
        ("what is in a fortnight?", "Concert of the choir on 1 April"),
        ("what happened in January?", "Met the notary"),
        ("what happened last month?", "Bought a kettle"),
        ("what happened last weekend?", "Sold the old bicycle"),
        ("anything this weekend?", "Visit of Aunt Rosa on 21.3.2026"),
        ("can I deploy on December 22?", "Code freeze from 2026-12-20 to 2026-12-31"),
        ("what was on 12 January", "Met the notary"),
        ("was war am 12. Januar?", "Met the notary"),
        ("1月12日は?", "Met the notary"),
    ]:
        assert first(memory, question) == answer


def test_turns_are_found_by_date_alone(memory: Memory, clock: MovableClock) -> None:
    for days, text in ((1, "The boiler is loud"), (9, "We painted the fence")):
        clock.now = NOW - timedelta(days=days)
        memory.session(f"chat:{days}").add("user", text)
    clock.now = NOW
    assert first(memory, "what did I tell you yesterday?", sources=["turns"]) == "The boiler is loud"
    assert first(memory, "what did I tell you last week?", sources=["turns"]) == "We painted the fence"


def test_tomorrow_in_an_old_note_is_the_day_after_it(memory: Memory, clock: MovableClock) -> None:
    save(memory, clock, datetime(2026, 2, 9, 12, tzinfo=UTC), "Dentist tomorrow at nine")
    save(memory, clock, datetime(2026, 2, 20, 12, tzinfo=UTC), "Haircut tomorrow at nine")
    assert first(memory, "what was on 10 February?") == "Dentist tomorrow at nine"
    assert first(memory, "what was on 21 February?") == "Haircut tomorrow at nine"
    assert memory.search("what is on tomorrow?") == []


@pytest.mark.parametrize("kind", ["records", "turns"])
def test_days_begin_where_the_owner_lives(clock: MovableClock, kind: str) -> None:
    chosen = Settings(time_zone="America/Los_Angeles")
    clock.now = datetime(2026, 3, 11, 2, tzinfo=UTC)  # the evening of the tenth over there
    with closing(Memory.open(":memory:", clock=clock, settings=chosen)) as memory:
        if kind == "records":
            memory.save("Dentist tomorrow at nine")
        else:
            memory.session("chat:1").add("user", "Dentist tomorrow at nine")
        for at, question, answer in (
            (datetime(2026, 3, 12, 3, tzinfo=UTC), "what is today?", "Dentist tomorrow at nine"),
            (datetime(2026, 3, 12, 3, tzinfo=UTC), "what did I note yesterday?", "Dentist tomorrow at nine"),
            (datetime(2026, 3, 13, 3, tzinfo=UTC), "what is today?", ""),
        ):
            clock.now = at
            assert first(memory, question, sources=[kind]) == answer


def test_the_day_that_a_text_names_stands_before_the_day_it_was_saved(
    memory: Memory, clock: MovableClock
) -> None:
    save(memory, clock, datetime(2026, 2, 3, 12, tzinfo=UTC), "Parents' evening is on 5 March")
    save(memory, clock, datetime(2026, 3, 5, 12, tzinfo=UTC), "Exam is on 20 June")
    hits = memory.search("what's on the 5th of March?")
    assert [hit.content for hit in hits] == ["Parents' evening is on 5 March", "Exam is on 20 June"]


def test_what_is_next_stands_first(memory: Memory, clock: MovableClock) -> None:
    saved = datetime(2026, 1, 10, 12, tzinfo=UTC)
    save(memory, clock, saved, "Dentist appointment on 8 September, with X-ray")
    save(memory, clock, saved, "Dentist appointment on 2 March")
    save(memory, clock, saved, "Dentist appointment on 20 April, bring the card")
    for question in [
        "when is the next dentist appointment?",
        "wann ist der nächste Termin: dentist appointment?",
        "next dentist appointment",
    ]:
        assert first(memory, question) == "Dentist appointment on 20 April, bring the card"


def test_a_birthday_without_a_year_comes_every_year(memory: Memory, clock: MovableClock) -> None:
    save(memory, clock, datetime(2023, 8, 1, 12, tzinfo=UTC), "Mila's birthday: 19 March")
    assert first(memory, "what is tomorrow?") == "Mila's birthday: 19 March"


@given(
    st.integers(0, 60 * 365 * 24 * 60),
    st.sampled_from(["UTC", "Asia/Tokyo", "America/Los_Angeles", "Asia/Kathmandu"]),
)
@settings(max_examples=examples(200))
def test_a_day_named_in_a_question_is_a_candidate_and_near(minutes: int, zone: str) -> None:
    written = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    there = written.astimezone(ZoneInfo(zone))
    passage = Passage(key=1, terms="", length=1, at=written.timestamp())
    for question in (f"{there:%Y-%m-%d}", f"{there:%d.%m.%Y}", f"{there.year}年{there.month}月"):
        dates = find_query_dates(question, today=NOW.date(), zone=ZoneInfo(zone) if zone != "UTC" else UTC)
        assert set(dates.tokens) & set(tokenize_date(written.date()))
        assert Closeness(dates, days_before=1, days_after=15).compute(passage) == (1.0, True)
    other = find_query_dates(f"{there.date() + timedelta(days=2)}", today=NOW.date(), zone=ZoneInfo(zone))
    near, is_on = Closeness(other, days_before=1, days_after=15).compute(passage)
    assert near < 1.0
    assert not is_on


def test_dates_of_a_text_have_tokens_of_their_own() -> None:
    tokens = analyze_dates("Dentist on 7 January, call tomorrow", datetime(2026, 1, 2, tzinfo=UTC)).split()
    assert {"#2026-01-07", "~01-07", "+2026-01-03"} <= set(tokens)
    assert not any(token.startswith("@") for token in tokens)
    assert "#2026-01-03" not in tokens


@pytest.mark.parametrize("written", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_dates_at_the_ends_of_the_calendar_are_read(written: datetime, zone: str) -> None:
    text = "yesterday, tomorrow, last year, next quarter, on Friday, 29 February, in May, 31 December, in 9 weeks"
    packed = " ".join((analyze_dates(text, written), *tokenize_date(written.date())))
    dates = find_query_dates(text, today=get_local_day(written, ZoneInfo(zone)), zone=ZoneInfo(zone))
    assert set(dates.tokens) & set(packed.split())
    passage = Passage(key=1, terms="", length=1, at=written.timestamp(), dates=packed)
    assert Closeness(dates, days_before=1, days_after=15).compute(passage)[1]


def test_without_a_clock_relative_dates_mean_nothing() -> None:
    assert not find_query_dates("yesterday")
    assert [one.start for one in find_query_dates("2026-01-07").days] == [date(2026, 1, 7)]


def test_a_year_or_month_alone_finds_what_says_it_and_as_a_time_also_what_was_written_then(
    memory: Memory, clock: MovableClock
) -> None:
    save(memory, clock, datetime(2025, 6, 2, tzinfo=UTC), "The house burned down")
    save(memory, clock, datetime(2024, 3, 5, tzinfo=UTC), "The invoice of June 2025 is paid")
    says, written = "The invoice of June 2025 is paid", "The house burned down"
    for question in ["2025", "the 2025 budget", "June 2025", "our June 2025 trip", "juin 2025", "June"]:
        assert [hit.content for hit in memory.search(question)] == [says], question
    for question in [
        "what happened in 2025",
        "Was ist 2025 passiert?",
        "2025年に何があった",
        "events of June 2025",
    ]:
        assert {hit.content for hit in memory.search(question)} == {says, written}, question


def test_a_range_of_days_with_one_month_is_found_by_a_day_in_it(memory: Memory, clock: MovableClock) -> None:
    for words in [
        "from the 12th to the 20th of October",
        "between the 12th and the 20th of October",
        "the 12th through the 20th of October",
        "October 12th to the 20th",
        "from the 12th of October to the 20th",
        "from 12 October through the 20th",
        "vom 12. bis zum 20. Oktober",
        "zwischen dem 12. und dem 20. Oktober",
        "entre el 12 y el 20 de octubre",
        "du 12 au 20 octobre",
        "between October 12 and October 20",
    ]:
        saved = memory.save(f"The fair {words}").record
        assert first(memory, "what is on 15 October?") == saved.content, words
        memory.archive(saved.id)
    memory.save("The fair on the 12th and 20th of October")
    assert first(memory, "what is on 15 October?") == ""
