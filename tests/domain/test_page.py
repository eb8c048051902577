"""What a page or a log may be called."""

from __future__ import annotations

from datetime import date

from reverie.domain.page import format_daily_note_name, parse_daily_note_day


def test_the_name_of_a_daily_note_tells_its_day() -> None:
    for day in [date.min, date(999, 12, 31), date(2026, 2, 7), date.max]:
        assert parse_daily_note_day(format_daily_note_name(day)) == day
