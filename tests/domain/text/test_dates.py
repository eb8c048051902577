"""Dates in every common form are days, and plain words are none."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.text.dates import find_dates
from reverie.domain.text.relative_dates import parse_han_number
from tests.profiles import examples

TODAY = date(2026, 3, 18)  # a Wednesday
NAMES = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}
FORMS = {
    "en": (
        "{d} {name} {y}", "{name} {d}, {y}", "{name} {d}{th} {y}", "the {d}{th} of {name} {y}", "{d} {short} {y}",
        "{short} {d}, {y}",
    ),
    "de": ("{d}. {name} {y}", "am {d}.{m}.{y}"),
    "es": ("el {d} de {name} de {y}", "{d} {name} {y}"),
    "fr": ("le {d} {name} {y}",),
    "it": ("il {d} {name} {y}",),
    "pt": ("{d} de {name} de {y}",),
}  # fmt: skip
COMMON = (
    "{y}-{m:02d}-{d:02d}",
    "{y}/{m:02d}/{d:02d}",
    "{d:02d}.{m:02d}.{y}",
    "{y}年{m}月{d}日",
    "{y} 年 {m} 月 {d} 号",
)
WITHOUT_YEAR = (
    "{d} {name}",
    "{name} {d}{th}",
    "{d}. {german}",
    "{d} de {spanish}",
    "am {d}.{m}.",
    "{m}月{d}日",
)


def write(form: str, day: date, language: str = "en") -> str:
    names = {code: words.split()[day.month - 1] for code, words in NAMES.items()}
    th = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return form.format(
        d=day.day, m=day.month, y=day.year, name=names[language], short=names["en"][:3], th=th,
        german=names["de"], spanish=names["es"],
    )  # fmt: skip


def days(text: str, today: date = TODAY) -> list[str]:
    return [str(one.start) for one in find_dates(text, today) if one.start == one.end]


@given(st.dates(date(1950, 1, 1), date(2090, 12, 31)))
@settings(max_examples=examples(800))
def test_every_day_is_read_in_every_form(day: date) -> None:
    written = [write(form, day, language) for language, forms in FORMS.items() for form in forms]
    written += [write(form, day) for form in COMMON]
    for text in written:
        assert days(text) == [str(day)], text
        assert days(f"What was on {text}?") == [str(day)], text
        assert days(f"We met ({text}) at Ann's.") == [str(day)], text


@given(st.integers(-180, 180))
@settings(max_examples=examples(400))
def test_a_day_without_a_year_is_the_nearest(offset: int) -> None:
    day = TODAY + timedelta(days=offset)
    for form in WITHOUT_YEAR:
        text = write(form, day)
        assert days(text) == [str(day)], text
        assert [one.yearly for one in find_dates(text, TODAY)] == [True]


@given(st.dates(date(1950, 1, 1), date(2090, 12, 31)))
@settings(max_examples=examples(200))
def test_slashes_mean_both_days_where_both_are_possible(day: date) -> None:
    text = f"{day.day:02d}/{day.month:02d}/{day.year}"
    other = [str(date(day.year, day.day, day.month))] if day.day <= 12 and day.day != day.month else []
    assert days(text) == [str(day), *other]


def test_plain_words_and_numbers_are_no_dates() -> None:
    for text in [
        "may",
        "march",
        "sun",
        "mar",
        "sat",
        "mon",
        "You may come",
        "2 may come",
        "the march of time",
        "march on",
        "sun and sea",
        "el mar",
        "il mare",
        "May I? Yes. March on!",
        "Marco is here",
        "on Mars",
        "guten Morgen",
        "hier ist es schön",
        "por la mañana",
        "version 2.4.",
        "Python 3.11.24",
        "10.0.0.1",
        "7 out of 10",
        "10:30",
        "3/4 of it",
        "room 12345",
        "call 555-01-02",
        "€2026",
        "every Friday",
        "3か月",
        "第1章",
        "兄弟",
        "a second",
        "decade",
        "jan",
        "dec",
        "1.5 million",
        "2023-99-99",
        "on the 2nd floor",
    ]:
        assert find_dates(text, TODAY) == []


def test_relative_days_are_read_in_every_language() -> None:
    for text, meant in [
        ("gestern", "2026-03-17"),
        ("ayer", "2026-03-17"),
        ("ce que j'ai fait hier", "2026-03-17"),
        ("ieri", "2026-03-17"),
        ("ontem", "2026-03-17"),
        ("昨天", "2026-03-17"),
        ("昨日", "2026-03-17"),
        ("übermorgen", "2026-03-20"),
        ("pasado mañana", "2026-03-20"),
        ("après-demain", "2026-03-20"),
        ("dopodomani", "2026-03-20"),
        ("depois de amanhã", "2026-03-20"),
        ("后天", "2026-03-20"),
        ("明後日", "2026-03-20"),
        ("two days before yesterday", "2026-03-15"),
        ("zwei Tage vor gestern", "2026-03-15"),
        ("in a fortnight", "2026-04-01"),
        ("a fortnight ago", "2026-03-04"),
        ("vor zwei Wochen", "2026-03-04"),
        ("hace tres días", "2026-03-15"),
        ("il y a 3 jours", "2026-03-15"),
        ("tre giorni fa", "2026-03-15"),
        ("há 2 dias", "2026-03-16"),
        ("三天前", "2026-03-15"),
        ("3日後", "2026-03-21"),
        ("letzten Freitag", "2026-03-13"),
        ("el lunes pasado", "2026-03-16"),
        ("vendredi prochain", "2026-03-20"),
        ("sabato scorso", "2026-03-14"),
        ("sexta-feira passada", "2026-03-13"),
        ("先週の火曜", "2026-03-10"),
        ("下周三", "2026-03-25"),
        ("the 30th of this month", "2026-03-30"),
        ("今月の30日", "2026-03-30"),
    ]:
        assert days(text) == [meant]


def test_ranges_are_read() -> None:
    for text, start, end in [
        ("this weekend", "2026-03-21", "2026-03-22"),
        ("nächste Woche", "2026-03-23", "2026-03-29"),
        ("la semana que viene", "2026-03-23", "2026-03-29"),
        ("le mois dernier", "2026-02-01", "2026-02-28"),
        ("l'anno scorso", "2025-01-01", "2025-12-31"),
        ("下个月", "2026-04-01", "2026-04-30"),
        ("来年", "2027-01-01", "2027-12-31"),
        ("3-7 May", "2026-05-03", "2026-05-07"),
        ("from 3 May to 7 June", "2026-05-03", "2026-06-07"),
        ("vom 3. bis 7. Mai", "2026-05-03", "2026-05-07"),
        ("del 3 al 7 de mayo", "2026-05-03", "2026-05-07"),
        ("two months ago", "2026-01-01", "2026-01-31"),
        ("im März 2025", "2025-03-01", "2025-03-31"),
        ("2025年3月", "2025-03-01", "2025-03-31"),
        ("2026-12-20 to 2026-12-31", "2026-12-20", "2026-12-31"),
        ("13 and 14 June", "2026-06-13", "2026-06-14"),
        ("am 13. und 14. Juni", "2026-06-13", "2026-06-14"),
        ("les 13 et 14 juin", "2026-06-13", "2026-06-14"),
        ("el 13 y 14 de junio", "2026-06-13", "2026-06-14"),
        ("June 13 and 14", "2026-06-13", "2026-06-14"),
        ("in room 5 and 20 June", "2026-06-20", "2026-06-20"),
        ("June 13 and 20", "2026-06-13", "2026-06-13"),
    ]:
        assert [(str(one.start), str(one.end)) for one in find_dates(text, TODAY)] == [(start, end)]


def test_a_bare_weekday_is_the_last_or_the_next_one() -> None:
    assert days("on Friday") == days("am Freitag") == days("el viernes") == ["2026-03-20", "2026-03-13"]
    assert days("Friday, 20 March 2026") == ["2026-03-20"]


@given(st.text(max_size=200), st.dates())
def test_any_text_can_be_read(text: str, today: date) -> None:
    for one in find_dates(text, today):
        assert one.start <= one.end
        assert 0 <= one.at < one.stop <= len(text)


def test_chinese_numbers_are_read() -> None:
    assert [parse_han_number(text) for text in ("一", "十", "十二", "二十", "三十一", "两", "一一")] == [
        1, 10, 12, 20, 31, 2, 0,
    ]  # fmt: skip


def test_a_date_without_a_year_is_found_also_without_spaces() -> None:
    for text, day in [
        ("7thmay", "2026-05-07"),
        ("7mai", "2026-05-07"),
        ("7.mai", "2026-05-07"),
        ("7º maio", "2026-05-07"),
        ("due by the 20th", "2026-03-20"),
        ("am 7.5.", "2026-05-07"),
        ("am 7/5", "2026-05-07"),
        ("5月7日", "2026-05-07"),
    ]:
        assert [str(mention.start) for mention in find_dates(text, TODAY)] == [day]
