"""Names of months, weekdays, days, periods and small numbers in eight languages.

English, German, Spanish, French, Italian, Portuguese, Chinese and Japanese. Latin words are in small letters and
without accents, as `fold_text` writes them.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from reverie.domain.lazy_regex import defer_regex


def _number_words(*groups: str) -> dict[str, int]:
    return {word: number for number, words in enumerate(groups, 1) for word in words.split()}


MONTHS = _number_words(
    "january januar janner enero janvier gennaio janeiro",
    "february februar febrero fevrier febbraio fevereiro",
    "march marz maerz marzo mars marco",
    "april abril avril aprile",
    "may mai mayo maggio maio",
    "june juni junio juin giugno junho",
    "july juli julio juillet luglio julho",
    "august agosto aout",
    "september septiembre setiembre septembre settembre setembro",
    "october oktober octubre octobre ottobre outubro",
    "november noviembre novembre novembro",
    "december dezember diciembre decembre dicembre dezembro",
)
SHORT_MONTHS = _number_words(
    "jan janv ene", "feb fevr fev febr", "mar mrz", "apr abr avr", "", "jun giu", "jul juil lug", "aug ago",
    "sep sept", "oct okt ott", "nov", "dec dez dic",
)  # fmt: skip
"""Abbreviations that are no common words; they are read only beside the number of a day."""

WEEKDAYS = {
    word: number - 1
    for word, number in _number_words(
        "monday montag lunes lundi lunedi segunda-feira",
        "tuesday dienstag martes mardi martedi terca-feira",
        "wednesday mittwoch miercoles mercredi mercoledi quarta-feira",
        "thursday donnerstag jueves jeudi giovedi quinta-feira",
        "friday freitag viernes vendredi venerdi sexta-feira",
        "saturday samstag sonnabend sabado samedi sabato",
        "sunday sonntag domingo dimanche domenica",
    ).items()
}
DAYS = {
    "the day before yesterday": -2, "day before yesterday": -2, "yesterday": -1, "last night": -1, "today": 0,
    "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "tomorrow": 1,
    "the day after tomorrow": 2, "day after tomorrow": 2,
    "vorvorgestern": -3, "vorgestern": -2, "gestern": -1, "heute": 0, "morgen": 1, "ubermorgen": 2,
    "uebermorgen": 2,
    "antes de ayer": -2, "anteayer": -2, "antier": -2, "ayer": -1, "anoche": -1, "hoy": 0, "manana": 1,
    "pasado manana": 2,
    "avant-hier": -2, "hier": -1, "aujourd'hui": 0, "aujourd’hui": 0, "demain": 1, "apres-demain": 2,
    "l'altro ieri": -2, "l’altro ieri": -2, "altroieri": -2, "ieri": -1, "oggi": 0, "stasera": 0, "domani": 1,
    "dopodomani": 2,
    "anteontem": -2, "ontem": -1, "hoje": 0, "depois de amanha": 2, "amanha": 1,
}  # fmt: skip
"""Words for days, with the number of days from today."""

UNITS = {
    "day": "day days tag tage tagen dia dias jour jours giorno giorni",
    "week": "week weeks woche wochen semana semanas semaine semaines settimana settimane",
    "fortnight": "fortnight fortnights",
    "weekend": "weekend week-end wochenende finde",
    "month": "month months monat monate monaten mes meses mois mese mesi",
    "quarter": "quarter quartal trimestre",
    "year": "year years jahr jahre jahren ano anos an ans annee annees anno anni",
}
UNIT_OF = {word: unit for unit, words in UNITS.items() for word in words.split()} | {
    "fin de semana": "weekend", "fim de semana": "weekend", "fine settimana": "weekend",
}  # fmt: skip
NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "couple of": 2, "three": 3, "four": 4, "five": 5,
    "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13,
    "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "ninety": 90,
} | _number_words(
    "ein eine einer einem einen un una une uno um uma",
    "zwei dos deux due dois duas", "drei tres trois tre", "vier cuatro quatre quattro quatro",
    "funf fuenf cinco cinq cinque", "sechs seis sei", "sieben siete sept sette sete",
    "acht ocho huit otto oito", "neun nueve neuf nove", "zehn diez dix dieci dez", "elf once onze undici",
    "zwolf zwoelf doce douze dodici doze", "", "vierzehn", "quince quinze quindici",
)  # fmt: skip
STEPS = {
    word: step
    for step, words in (
        (
            -1,
            "last letzte letzter letzten letztes letztem vorige voriger vorigen voriges vorigem vergangene "
            "vergangener vergangenen vergangenes pasado pasada dernier derniere passe passee scorso scorsa "
            "passado passada ultimo ultima",
        ),
        (0, "this dieser diese diesen dieses diesem este esta ce cet cette questo questa neste nesta"),
        (
            1,
            "next nachste nachster nachsten nachstes nachstem naechste naechster naechsten naechstes kommende "
            "kommender kommenden kommendes proximo proxima prochain prochaine prossimo prossima",
        ),
    )
    for word in words.split()
} | {"que viene": 1, "que vem": 1}
"""Words for the last, the current or the next one, beside a period or a weekday."""

_ACCENTS = str.maketrans(
    {
        char: plain
        for char in map(chr, range(0xC0, 0x180))
        if (plain := unicodedata.normalize("NFD", char)[0]) != char
    }
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | {chr(0xFF01 + code - 0x21): chr(code) for code in (0x2D, 0x2E, 0x2F)}
)


_LATIN_WORD = defer_regex(r"[a-z]+")


@lru_cache(maxsize=8)  # each kind of date is looked for by its words
def list_latin_words(folded: str) -> frozenset[str]:
    """Return the words in Latin letters of a text from `fold_text`."""
    return frozenset(_LATIN_WORD.findall(folded))


def fold_text(text: str) -> str:
    """Return the text in small letters without accents. Its length, and the place of each character, stay."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower if lower.isascii() else lower.translate(_ACCENTS)
