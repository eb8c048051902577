"""Rewriting of short statements to a common form: "Budget: 5000 €" and "The budget is 5,000 euros".

A statement is rewritten by its grammar alone. Every word that could distinguish two statements stays in its place, so
two texts say the same if the rewritten ones do. English, and simple forms of German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import NUMBER_WORDS, WEEKDAYS
from reverie.domain.text.tokenizer import MONTHS

_LONGEST = 160
_NO_LABEL = (
    r"(?:is|are|was|were|has|have|had|do|does|did|not|no|never|said|says|told|asked|thinks|wrote|if|when|while|because"
    r"|\w+n't|ist|sind|war|hat|haben|sagt|sagte|nicht|keine?|wenn|es|son|era|tiene|dijo|dice|si|cuando|est|sont|avait|dit"
    r"|instead|except|only|there|it|this|that|he|she|they|we|you|i)"
)
"""Words that are no label of a value before a colon."""
_LABEL_WORD = rf"(?!{_NO_LABEL}\b)[^\W\d_][\w'-]*"
_MONTH = rf"(?:{'|'.join(month for month in MONTHS)})\b"
_WEEKDAY = rf"(?:{'|'.join(WEEKDAYS)})s?\b"
_LABEL = defer_regex(
    rf"(?:(?:the|die|der|das|el|la|les?) |l')?(?P<label>{_LABEL_WORD}(?: {_LABEL_WORD}){{0,3}})"
    rf"(?: ?:| (?:is|ist|es|est))(?: (?:on|am|el|le)(?= (?:\w+ )?(?:\d|{_WEEKDAY})))?(?: (?:at|um|a las|à)(?= \d))? "
    r"(?P<value>(?:[^:;,?!\n]|[,:](?=\d))+)",
    re.IGNORECASE,
)
_PERIODS = {
    "nightly": "night", "hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year",
}  # fmt: skip
_ADVERBS = "never|always|only|also|really|usually|often|sometimes"
_FIRST_PERSON = defer_regex(
    rf"^(?:(?P<be>I'm|I am)|(?P<have>I've|I have)|I(?: (?P<adverb>{_ADVERBS}))? (?P<verb>[a-z]+?(?:n't)?))(?![\w'])"
)
_THIRD_PERSON = {"do": "does", "go": "goes", "don't": "doesn't", "am": "is", "have": "has"}
_INVARIABLE = defer_regex(
    r"(?:can|could|will|would|must|should|may|might|was|had|did|\w*[^e\W]ed|(?:agr|fr|guarant)eed"
    r"|(?!do)\w+n't|cannot)$"
)


def _say_of_user(found: re.Match[str]) -> str:
    """Return "prefers" for "I prefer", as in notes about the user."""
    if found["be"] or found["have"]:
        return "is" if found["be"] else "has"
    verb = found["verb"]
    if verb in _THIRD_PERSON:
        verb = _THIRD_PERSON[verb]
    elif not _INVARIABLE.match(verb):
        is_changed = verb.endswith("y") and verb[-2:-1] not in "aeou"
        ending = "es" if verb.endswith(("s", "sh", "ch", "x", "z")) else "s"
        verb = f"{verb[:-1]}ies" if is_changed else f"{verb}{ending}"
    return f"{found['adverb']} {verb}" if found["adverb"] else verb


def _say_allergic(found: re.Match[str]) -> str:
    what = found["to"] or found["what"]
    verb = {"has": "is", "have": "are", "i have": "I am"}[found["verb"].lower()]
    return f"{verb} allergic to {what}{'' if found['to'] or what.endswith('s') else 's'}"


def _say_time(found: re.Match[str]) -> str:
    """Return "9:30" for "half past nine"."""
    named = found["hour"].lower()
    number = NUMBER_WORDS.get(named, named)
    hour = int(number) if number.isdecimal() else 0
    if not 1 <= hour <= 12:
        return found.group()
    if found["part"].lower() == "quarter to":
        return f"{(hour - 2) % 12 + 1}:45"
    return f"{hour}:{'30' if found['part'].lower() == 'half past' else '15'}"


def _sort_names(found: re.Match[str]) -> str:
    """Return two names in alphabetical order."""
    one, other = sorted(found.group("one", "other"))
    return f"{one}{found['and']}{other}"


_REWRITES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (defer_regex(r"\b(?P<part>half past|quarter past|quarter to) (?P<hour>\w+)", re.IGNORECASE), _say_time),
    (defer_regex(r"(?<= (?:at|by)) (\d{1,2})(?=[.!]?$)"), r" \1:00"),
    (defer_regex(r"\b(um|à) (\d{1,2}) ?(?=Uhr\b|h\b)"), r"\1 \2:00 "),
    (defer_regex(r"(?<=\d)\s?[-–]\s?(?=\d{1,2}\.? [A-Z][a-z]{2})"), " to "),
    (defer_regex(r"\b(\d{1,2}/\d{1,2}/)(?=\d\d(?!\d))"), r"\g<1>20"),
    (
        defer_regex(
            rf"\b(starts|ends|begins|due|leaves|arrives|opens|closes) (?=(?:{'|'.join(WEEKDAYS)})s?\b)",
            re.IGNORECASE,
        ),
        r"\1 on ",
    ),
    (
        defer_regex(
            r"^(?P<one>[A-ZÀ-Þ][\w-]+)(?P<and> (?:and|und|y|et) )(?P<other>[A-ZÀ-Þ][\w-]+)(?= [a-zà-þ])"
            r"(?!.*(?:[,;:]| (?:and|or|und|oder|y|o|et|ou|respectively|order)\b))"
        ),
        _sort_names,
    ),
    (
        defer_regex(
            rf"\bfor (?=(?:\d+|{'|'.join(NUMBER_WORDS)}) (?:second|minute|hour|day|night|week|month|year)s?\b)"
        ),
        "",
    ),
    (defer_regex(r"\b(bis zu|ab de|seit de)m (?=\d)"), lambda found: found[1].split()[0] + " "),
    (defer_regex(r"(?<=[\w€$£%])\s?/\s?(?=(?:second|minute|hour|day|night|week|month|year)\b)"), " a "),
    (
        defer_regex(r"\b(?:per (?=second\b|minute\b)|(?:per|each) (?=(?:hour|day|night|week|month|year)\b))"),
        "a ",
    ),
    (defer_regex(r"\beach (?=morning|afternoon|evening)"), "every "),
    (defer_regex(r"(?<=once|wice|imes) daily\b"), " a day"),
    (
        defer_regex(
            r"(?<=\d) ?(€|Euro) (?:im (?=Monat\b|Jahr\b)|in der (?=Woche\b)|am (?=Tag\b))(?!\w+ [A-Z\d])"
        ),
        r" \1 pro ",
    ),
    (defer_regex(r"(?<=[\w€])\s?/\s?(?=(?:Monat|Woche|Tag|Jahr)\b)"), " pro "),
    (defer_regex(r"(?<=[\w€])\s?/\s?(?=(?:mois|semaine|jour)\b)"), " par "),
    (defer_regex(r"(?<=[\w€])\s?/\s?(?=(?:mes|semana|día)\b)"), " al "),
    (defer_regex(r"(?<=\d)( ?(?:[GMKT]B|[mk]?g|m?l)) of (?=[A-Za-z])"), r"\1 "),
    (
        defer_regex(rf"(?<=\w )(?:{'|'.join(_PERIODS)})(?=[.!]?$| (?:at|on|in|around|from|before|after) )"),
        lambda found: f"every {_PERIODS[found.group()]}",
    ),
    (
        defer_regex(
            r"\b(?P<verb>has|I have|have) (?:an? )?(?:allergy to (?P<to>\w+)|(?P<what>\w+) allergy)(?=[.!]?$)",
            re.IGNORECASE,
        ),
        _say_allergic,
    ),
    (defer_regex(r"\b(is|are) (?:called|named) (?=[A-ZÀ-Þ])"), r"\1 "),
    (defer_regex(r"^[Tt]he ([a-z][\w-]+) of (?:the (?=[a-z])|(?=[A-ZÀ-Þ]))([\w-]+)(?= is |:)"), r"\2's \1"),
    (defer_regex(r"^([A-Z][a-z-]+) of the ([a-z][\w-]+)(?= is |:)"), r"\2's \1"),
    (defer_regex(r"\b(?:my|the user's) (?=[a-z])", re.IGNORECASE), "user's "),
    (defer_regex(rf"\bon (?=\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}|{_MONTH}\.? \d)", re.IGNORECASE), ""),
    (defer_regex(r"(?<=\w)'s name is (?=[A-ZÀ-Þ])"), " is "),
    (defer_regex(r"\bhei(?:ß|ss)t (?=[A-ZÀ-Þ])"), "ist "),
    (defer_regex(r"\bse llama (?=[A-ZÀ-Þ])"), "es "),
    (defer_regex(r" s'appelle (?=[A-ZÀ-Þ])|, c'est (?=[A-ZÀ-Þ])"), " est "),
    (defer_regex(r"\b(?:beträgt|beläuft sich auf|liegt bei) (?=\d)"), "ist "),
    (defer_regex(r"\b(es|est) de (?=\d)"), r"\1 "),
    (defer_regex(r"^(?:please )?(?:don't|do not) (?:ever )?(?=[a-z]+ )", re.IGNORECASE), "never "),
    (_FIRST_PERSON, _say_of_user),
    (defer_regex(r"\bworks as (?=an? )"), "is "),
    (defer_regex(r"^is (?!(?:the|an?|it|this|that|there|my|our|your)\b)(?=[a-z])", re.IGNORECASE), ""),
    (defer_regex(r"^(?:ich (?=[a-zäöü]+e )|je |j')", re.IGNORECASE), ""),
)
"""Patterns with their replacements: times, days, rates, amounts, frequencies, allergies, names, values, orders, "I"."""


def restate(text: str) -> str:
    """Return a short statement in its common form, and any other text as it is.

    >>> restate("Budget: 5000 €"), restate("I prefer tea"), restate("Backups run nightly at 2:00")
    ('Budget is 5000 €', 'prefers tea', 'Backups run every night at 2:00')
    """
    if len(text) > _LONGEST or "\n" in text or "?" in text:
        return text
    text = text.strip()
    for pattern, form in _REWRITES:
        text = pattern.sub(form, text)
    found = _LABEL.fullmatch(text.rstrip(".!"))
    return f"{found['label']} is {found['value']}" if found else text
