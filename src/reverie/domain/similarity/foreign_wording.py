"""Common wording for statements of the same meaning in German, Spanish and French.

Numbers, units, dates and times get one form. Another order of words is allowed for a time at the beginning, for a list
of two, and for active and passive. Everything else is compared by its letters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from datetime import date

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import NEGATIONS
from reverie.domain.text.calendar_words import MONTHS, NUMBERS, UNIT_OF, WEEKDAYS, fold_text
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.text.ids import normalize_case
from reverie.domain.word_lists import parse_word_set

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HAS_UNSPACED = defer_regex(f"[{_UNSPACED}]")
_DIGIT = defer_regex(r"\d")
_TODAY = date(2024, 1, 1)
_YEAR = defer_regex(r"\d{4}")
_CLOCK = defer_regex(
    r"\b(?P<hour>[012]?\d)(?:[:.](?P<minute>[0-5]\d))? uhr\b"
    r"|(?<=à )(?P<at>[012]?\d) ?h ?(?P<past>[0-5]\d)?\b|(?<=las )(?P<las>[012]?\d) h\b"
)
_GLUED = defer_regex(r"(?<![\w.,-])(\d+(?:[.,]\d+)?)(€|\$|£|%|kg|g|mg|km|m|cm|mm|ml|l|h|min)(?!\w)")
_NUMBERS = {word: str(number) for word, number in NUMBERS.items() if number > 1 and " " not in word}
_UNITS = {
    word: unit
    for unit, words in {
        "€": "euro euros eur", "$": "dollar dollars dolar dolares usd", "£": "pfund", "%": "prozent",
        "v": "volt", "w": "watt",
        "min": "minute minuten minutes minuto minutos", "h": "stunde stunden std hora horas heure heures",
        "s": "sekunde sekunden sek segundo segundos seconde secondes",
        "g": "gramm gramo gramos gramme grammes", "mg": "milligramm miligramos milligrammes",
        "kg": "kilo kilos kilogramm kilogramos kilogrammes", "l": "liter litro litros litre litres",
        "m": "meter metro metros metre metres", "km": "kilometer kilometro kilometros kilometre kilometres",
        "cm": "zentimeter centimetro centimetros centimetre centimetres",
    }.items()
    for word in words.split()
}  # fmt: skip
_ONE_OF_TWO = {"e": "y", "u": "o"}
_LIST_WORDS = parse_word_set("und oder y o et ou")
_BEFORE_LISTS = parse_word_set(
    """
    mit von aus gegen ohne bei auf in fur con de a sin contra en para avec sans contre aux pour
    spricht lernt trinkt isst spielt mag liebt nutzt braucht habla aprende bebe come toma juega usa lee parle apprend
    boit mange aime joue utilise lit
    """
)
_DAYPARTS = parse_word_set(
    """
    morgens mittags nachmittags abends nachts morgen vormittag nachmittag abend nacht fruhling fruhjahr sommer herbst
    winter manana mananas tarde tardes noche noches primavera verano otono invierno matin matins soir soirs nuit
    printemps ete automne hiver
    """
)
_BEFORE_TIMES = parse_word_set(
    "am im an in jeden jedes jede los las el la en por cada todos todas le les chaque tous l au"
)
_LONGEST_TIME = 3
_SCOPES = NEGATIONS | parse_word_set(
    "nur auch sogar erst solo tambien incluso que seulement aussi meme dass ni"
)
"""Words that apply to the following words: "not on Mondays"."""
_PASSIVES = (
    defer_regex(r"(?P<done_to>.+) (?:wird|werden) von (?P<agent>.+) (?P<verb>\w+)"),
    defer_regex(r"(?P<done_to>.+) (?:es|son|est|sont) (?P<verb>\w+) (?:por|par) (?P<agent>.+)"),
)
_ARTICLES = {"den": "der", "dem": "der", "vom": "von der"}
_NO_CONTENT = parse_word_set("wird werden von vom es son por est sont par der den dem ist sind")


def normalize_letters(plain: str) -> tuple[str, ...]:
    """Return the words of a text in one form each, without case, spacing and final punctuation.

    >>> normalize_letters("Die Miete beträgt 780 Euro.") == normalize_letters("die Miete beträgt 780€")
    True
    """
    plain = _unify_dates(plain) if _DIGIT.search(plain) else plain
    cased = normalize_case(plain, str.lower)
    folded = cased.replace("`", "").rstrip(" \t\r\f\v" + "\"'”’».…。!！")
    if _DIGIT.search(folded):
        folded = _GLUED.sub(r"\1 \2", _CLOCK.sub(_format_clock, folded))
    words = _normalize_unspaced_scripts(folded).split()
    known = [_NUMBERS.get(fold_text(word), word) for word in words]
    for place in range(len(known) - 1):
        first, second = known[place : place + 2]
        if first in ("$", "€", "£") and second[0].isdigit():
            known[place : place + 2] = [second, first]
        elif first[0].isdigit() and (unit := _UNITS.get(fold_text(second))):
            known[place + 1] = unit
    return tuple(known)


def _unify_dates(plain: str) -> str:
    mentions = find_dates(plain, _TODAY, relative=False)
    days = [each for each in mentions if each.unit == "day" and each.start == each.end]
    if any(one.at < other.stop and other.at < one.stop for one, other in itertools.pairwise(days)):
        return plain  # 4/5/2026 may be in April or in May
    for day in reversed(days):
        plain = plain[: day.at] + _format_day(plain[day.at : day.stop], day) + plain[day.stop :]
    return plain


def _format_day(written: str, day: DateMention) -> str:
    number = _DIGIT.search(written)
    before = written[: number.start()] if number else ""
    return f"{before}{day.start:{'%Y-%m-%d' if _YEAR.search(written) else '--%m-%d'}}"


def _format_clock(found: re.Match[str]) -> str:
    hour = found["hour"] or found["at"] or found["las"]
    return f"{int(hour)}:{found['minute'] or found['past'] or '00'}"


def _normalize_unspaced_scripts(folded: str) -> str:
    """Return the text with uniform spaces beside scripts that are written without them."""
    if folded.isascii() or not _HAS_UNSPACED.search(folded):
        return folded
    return re.sub(
        rf"\s*([{_UNSPACED}，。！？；：、]+)\s*",
        r" \1 ",
        re.sub(rf"(?<=[{_UNSPACED}])\s+(?=[{_UNSPACED}])", "", folded),
    )


def list_content(words: Collection[str]) -> list[str]:
    """Return the sorted beginnings of the words, which are equal for texts that differ in order only."""
    folded = (fold_text(word).strip(",") for word in words)
    begun = (word.removeprefix("ge") if len(word) > 5 else word for word in folded if word not in _NO_CONTENT)
    return sorted(_ONE_OF_TWO.get(word, word)[:3] for word in begun)


def is_reordered(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two statements say the same in another order.

    >>> is_reordered(tuple("montags geht er schwimmen".split()), tuple("er geht montags schwimmen".split()))
    True
    >>> is_reordered(tuple("ana liebt tom".split()), tuple("tom liebt ana".split()))
    False
    """
    if len(one) == len(other):
        return _is_timed_first(one, other) or _is_timed_first(other, one) or _has_same_pair(one, other)
    return _is_passive_of(one, other) or _is_passive_of(other, one)


def _is_timed_first(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one begins with a time that the other has later. Then its subject may follow the verb."""
    if sorted(one) != sorted(other) or not _SCOPES.isdisjoint(map(fold_text, one[:_LONGEST_TIME])):
        return False
    for size in range(1, min(_LONGEST_TIME, len(one) - 2) + 1):
        phrase, rest = one[:size], one[size:]
        if not _says_when(phrase) or not (_LIST_WORDS | {"que", "dass", "aber", "pero", "mais"}).isdisjoint(
            rest
        ):
            continue
        for place in range(1, len(other) - size + 1):
            if other[place : place + size] != phrase or fold_text(other[place - 1]) in _SCOPES:
                continue
            remaining = other[:place] + other[place + size :]
            if remaining == rest and place == len(rest):
                return True
            for verb in (1, 2):  # after its subject, of one word or two
                turned = (*rest[1 : verb + 1], rest[0], *rest[verb + 1 :])
                if place > verb and remaining == turned:
                    return True
    return False


def _says_when(phrase: tuple[str, ...]) -> bool:
    *before, last = (fold_text(word) for word in phrase)
    is_time = any(
        word in times
        for word in (last, last.removesuffix("s"))
        for times in (WEEKDAYS, MONTHS, UNIT_OF, _DAYPARTS)
    )
    return is_time and _BEFORE_TIMES.issuperset(before)


def _has_same_pair(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether the two end with the same two things in a different order."""
    a, b = ([_ONE_OF_TWO.get(word, word) for word in each[-4:]] for each in (one, other))
    return (
        len(a) == 4
        and one[:-3] == other[:-3]
        and fold_text(a[0]) in _BEFORE_LISTS
        and a[2] == b[2]
        and a[2] in _LIST_WORDS
        and (a[1], a[3]) == (b[3], b[1])
        and not any(_DIGIT.search(word) for word in a)
    )


def _is_passive_of(passive: tuple[str, ...], active: tuple[str, ...]) -> bool:
    """Return whether one is the passive of the other: "A wird von B geprüft", "B prüft A"."""
    said, text = (" ".join(_ARTICLES.get(word, word) for word in each) for each in (passive, active))
    for pattern in _PASSIVES:
        found = pattern.fullmatch(said)
        if found is None:
            continue
        before, after = f"{found['agent']} ", f" {found['done_to']}"
        verb = text[len(before) : -len(after)]
        if text == f"{before}{verb}{after}" and _is_participle_of(found["verb"], verb):
            return True
    return False


def _is_participle_of(participle: str, verb: str) -> bool:
    if not verb or " " in verb:
        return False
    german = {verb, f"ge{verb}", f"{verb.removesuffix('en')}t", f"ge{verb.removesuffix('en')}t"}
    romance = re.sub(r"(?:ad[oa]s?|id[oa]s?|ée?s?)$", "", participle)
    return (participle in german and participle.endswith("t")) or (
        romance != participle and re.fullmatch(rf"{re.escape(romance)}(?:a|an|e|en|ent)", verb) is not None
    )
