"""Other words and another order that say the same: units spelled out, abbreviations, a phrase moved to the front.

Only what cannot change the meaning counts. The words are those of `comparison.normalize`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import (
    NUMBER_WORDS,
    UNITS,
    WEEKDAYS,
    is_ambiguous_thousands,
    stem_word,
)
from reverie.domain.text.tokenizer import MONTHS
from reverie.domain.word_lists import parse_word_set

_SPELLINGS = {
    "grey": "gray", "e-mail": "email", "e-mails": "emails", "okay": "ok", "practise": "practice",
    "programme": "program", "programmes": "programs", "cheque": "check", "cheques": "checks", "jewellery": "jewelry",
    "tyre": "tire", "tyres": "tires", "aluminium": "aluminum", "pyjamas": "pajamas", "moustache": "mustache",
    "artefact": "artifact", "artefacts": "artifacts", "ageing": "aging", "judgement": "judgment",
    "enquiry": "inquiry", "enquiries": "inquiries", "yoghurt": "yogurt", "doughnut": "donut", "doughnuts": "donuts",
    "sceptical": "skeptical", "plough": "plow", "kerb": "curb", "mould": "mold",
}  # fmt: skip
_BRITISH = (
    (defer_regex(r"(?<=[a-z]{3})our(?=s?$|ed$|ing$|ite|able|ful|al|less|hood)"), "or"),
    (defer_regex(r"(?<=[a-z]{3}[a-z]i)s(?=e[drs]?$|ing$|ations?$)|(?<=[a-z]{3}y)s(?=e[drs]?$|ing$)"), "z"),
    (defer_regex(r"(?<=[a-z]{3})tre(?=s?$)"), "ter"),
    (defer_regex(r"(?<=[a-z]{4})ll(?=ed$|ing$|ers?$)"), "l"),
    (defer_regex(r"(?<=[a-z]{3})ogue(?=s?$)"), "og"),
    (defer_regex(r"(?<=[a-z]{3})ence(?=[sd]?$)"), "ense"),
)
"""British endings and what stands for them and for the American ones. None makes two other words one."""
_MAY_BE_BRITISH = defer_regex(r"our|[iy]s|tre|ll|ogue|ence")
CONTRACTIONS = {
    "can't": ("can", "not"), "cannot": ("can", "not"), "won't": ("will", "not"),
    "shan't": ("shall", "not"), "let's": ("let", "us"), "dont": ("do", "not"),
    "doesnt": ("does", "not"), "didnt": ("did", "not"), "isnt": ("is", "not"), "arent": ("are", "not"),
    "wasnt": ("was", "not"), "ain't": ("ain't",),
}  # fmt: skip
ENDINGS = (("n't", "not"), ("'m", "am"), ("'re", "are"), ("'ve", "have"), ("'ll", "will"), ("'d", "'d"))
_CONTRACTED = {"'s": ("is", "has"), "'d": ("would", "had")}
"""Endings that stand for one of two words, which only a text with the word in full tells."""
_FULL = {
    "repo": "repository", "repos": "repositories", "db": "database", "dbs": "databases", "env": "environment",
    "envs": "environments", "vars": "variables", "config": "configuration", "configs": "configurations",
    "docs": "documentation", "info": "information", "approx": "approximately", "dept": "department",
    "appt": "appointment", "dev": "development", "prod": "production", "admin": "administrator",
    "admins": "administrators", "mgmt": "management", "mgr": "manager", "avg": "average", "auth": "authentication",
    "app": "application", "apps": "applications", "msg": "message", "msgs": "messages", "bday": "birthday",
    "wk": "week", "wks": "weeks", "yr": "year", "yrs": "years", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday",
    "thu": "thursday", "thur": "thursday", "thurs": "thursday", "fri": "friday", "Mon": "monday", "Sat": "saturday",
    "Sun": "sunday", "HR": "human resources", "QA": "quality assurance", "PR": "pull request", "PRs": "pull requests",
    "mtg": "meeting", "mtgs": "meetings", "govt": "government", "univ": "university", "bldg": "building",
    "std": "standard", "max": "maximum", "ave": "avenue", "k8s": "kubernetes", "JS": "javascript", "TS": "typescript",
    "noon": "12:00", "midnight": "0:00",
    "DB": "database", "UI": "user interface", "VM": "virtual machine", "OS": "operating system", "TV": "television",
}  # fmt: skip
_ORDINALS = {
    "first": "1st", "third": "3rd", "fourth": "4th", "fifth": "5th", "sixth": "6th", "seventh": "7th",
    "eighth": "8th", "ninth": "9th", "tenth": "10th", "eleventh": "11th", "twelfth": "12th",
}  # fmt: skip
"""Ordinal numbers. `second` is left out: it is a unit too."""
_PRESENT = {
    "taught": "teach", "written": "write", "driven": "drive", "bought": "buy", "sold": "sell", "made": "make",
    "paid": "pay", "sent": "send", "kept": "keep", "held": "hold", "led": "lead", "given": "give", "taken": "take",
    "chosen": "choose", "built": "build", "drawn": "draw", "done": "do", "known": "know", "grown": "grow",
    "brought": "bring", "fed": "feed", "found": "find", "spoken": "speak", "worn": "wear", "flown": "fly",
}  # fmt: skip
"""Irregular participles and their verbs."""
_SPELLED_UNITS = {
    word: unit for word, unit in UNITS.items() if len(word) > 2 and word.isalpha()
} | {
    "litre": "l", "litres": "l", "liter": "l", "liters": "l",
    "millilitre": "ml", "millilitres": "ml", "milliliters": "ml",
    "gram": "g", "grams": "g", "kilogram": "kg", "kilograms": "kg", "kilo": "kg", "kilos": "kg", "milligram": "mg",
    "milligrams": "mg", "metre": "m", "metres": "m", "meter": "m", "meters": "m", "kilometre": "km", "kilometres": "km",
    "kilometer": "km", "kilometers": "km", "centimetre": "cm", "centimetres": "cm", "centimeters": "cm",
    "millimetres": "mm", "millimeters": "mm", "megabytes": "MB", "megabyte": "MB", "gigabytes": "GB", "gigabyte": "GB",
    "terabyte": "TB", "terabytes": "TB", "kilobytes": "KB", "watt": "W", "watts": "W", "volt": "V", "volts": "V",
    "kilowatts": "kW", "hertz": "Hz", "usd": "$", "eur": "€", "gbp": "£", "hr": "h",
}  # fmt: skip
_NUMBER = defer_regex(r"[+-]?\d+(?:\.\d+)*")
_WRITTEN_NUMBER = defer_regex(
    r"(?P<sign>[+-]?)(?P<money>[$€£¥]?)(?P<digits>\d+(?:,\d{3})*(?:\.\d+)?)(?P<unit>%|[A-Za-zµ°€£]{0,3})"
)
_CLOCK = defer_regex(r"\d\d?:\d\d")
_COUNTED = defer_regex(r"(\d+)-([a-z]{3,})")
"""A number and what it counts, such as "20-minute"."""
_MULTIPLES = parse_word_set("million billion k m bn")
_POWERS = {"dozen": 12, "hundred": 100, "thousand": 1000}
_MOST_DIGITS = 15  # of a number that is multiplied
_TENS = {
    word for word, value in NUMBER_WORDS.items() if len(value) == 2 and value[1] == "0" and value != "10"
}
_FRONTED = parse_word_set(
    "on in at during every each since throughout within for under from by before after if unless when whenever while"
    " with without because despite"
)
_LONGEST_FRONTED = 10
_ADVERBS = parse_word_set("usually sometimes currently normally often generally typically occasionally")
"""Adverbs that mean the same before a sentence as after its subject."""
_POSSESSIVES = parse_word_set("my our your his her their its")
_JOINING = parse_word_set("and or but &")
_ORDERED = parse_word_set("then first second 1st 2nd 3rd last next before after than versus minus")
_NO_CONTENT = parse_word_set("is are was were be been by has have had would does do did and or but & 's 'd")
_PASSIVE = parse_word_set("is are was were")
_PHRASES = parse_word_set("as on in at during every each since throughout within for under with to")
_TIMES = parse_word_set("during every each since throughout")
_DAYPARTS = parse_word_set("morning noon afternoon evening night spring summer autumn fall winter weekdays")
_PLACES = parse_word_set("on in at under within")
_BEFORE_LISTS = (
    _PLACES
    | _PASSIVE
    | parse_word_set(
        """
    from with for by of
    likes loves hates dislikes enjoys owns speaks drinks eats plays knows uses needs wants prefers reads drives studies
    teaches cooks collects like love hate dislike enjoy own speak drink eat play know use need want prefer read drive
    study teach cook collect
    """
    )
)
"""Words after which the items of a list are things. Of what is done in turn the order counts: "wash and dry"."""
_AFTER_SUBJECTS = {(word,) for word in ("are", "were", "have", "both", "will", "can", "do")}
"""Words after several persons or things of which a statement speaks."""
_AFTER_LISTS = _PHRASES | parse_word_set("from by because since")
_REPORTING = parse_word_set(
    """
    that said says say told tells thinks think thought believes believed hopes hoped promised promises decided decides
    plans planned wants wanted agreed asked expects expected knows knew tried forgot remembers
    """
)
"""Words before which a day or a place says another thing than after them: "in May she decided to move"."""
_FIRST_WORDS = 2
_ROUGHLY = parse_word_set("around roughly approximately circa")
"""Words that say the same as "about" before a number."""
_ONE_VERB = {"begins": "starts", "begin": "start"}
_DATE = defer_regex(r"(?:--|\d{4}-)\d\d-\d\d")
_LONGEST_ABBREVIATED = 60
_BE = r"is|are|ist|sind|es|son|est|sont"
_IDENTITY = defer_regex(
    rf"(?P<one>(?:(?!\s(?:{_BE})\s)[^?:;,\n])+)\s(?P<is>{_BE})\s(?P<other>(?:(?!\s(?:{_BE})\s)[^?:;,\n])+)",
    re.IGNORECASE,
)
_DEFINITE = defer_regex(
    r"(?:the|my|our|his|her|their|your|der|die|das|(?:mein|dein|sein|ihr|unser)e?|el|la|los|las|mis?|tus?|sus?"
    r"|nuestr[oa]s?|les?|mon|ma|mes|son|sa|ses|notre|nos|leur)\s|l'|[\w.]+'s?\s",
    re.IGNORECASE,
)
_NAME = defer_regex(r"[A-ZÀ-Þ][\w.'-]*(?:\s(?:[A-ZÀ-Þ][\w.'-]*|de|von|van|la|du|del)){0,3}")
"""A name at the end of a statement, where a capital is no matter of the sentence."""


_PREAMBLE = defer_regex(
    r"\s*(?:(?P<id>(?:-\s+)?\[[0-9a-f]{12}\](?:\s+\([^()\n]{1,200}\))?:)"  # a line of our own prompts
    r"|(?:please\s+|just\s+to\s+|just\s+|a\s+|bitte\s+|quick\s+)*(?:remember|note|keep in mind|bear in mind"
    r"|don't forget|note to self|remind(?:er|ing you)|be aware|heads[ -]up|for your information|in case you forgot"
    r"|for context|merk dir|nicht vergessen|zur erinnerung|zur info|recuerda|ten en cuenta|no olvides|pour info"
    r"|pour rappel|retiens|note bien|n'oublie pas)(?:\s+(?:that|que)\b|\s*[:,](?:\s+dass\b)?)"
    r"|(?:fyi|btw|by the way|reminder|just so you know|for the record)\s*[:,]?"
    r"|(?:(?:so|well|oh|ok|okay|also|hey|right|yes|yeah|anyway|as i said|as you know|as mentioned|to be clear"
    r"|one more thing|ps|quick note|übrigens|ach ja|also|na ja|naja|wie gesagt|por cierto|bueno|pues|como dije|au fait"
    r"|d'ailleurs|bon|bref|alors|comme je disais)\s*[,:](?:\s+and\b)?)(?:\s+just so you know,)?)\s+",
    re.IGNORECASE,
)
_ADDITIONS = (
    "by the way", "btw", "fyi", "you know", "just so you know", "okay", "ok", "thanks", "thank you", "please", "lol",
    "cheers", "as i said", "as mentioned", "danke", "bitte", "übrigens", "wie gesagt", "gracias", "por favor",
    "por cierto", "merci", "s'il te plaît", "d'ailleurs",
)  # fmt: skip
"""Phrases that people add to a statement."""
_ADDED = defer_regex(rf"(?:,|(?<!\s))\s+(?:{'|'.join(_ADDITIONS)})[.!]*\s*\Z", re.IGNORECASE)
_DASH = defer_regex(r"(?<=[^\W\d_]) [-–—] (?=[^\W_])")
_SINCE = defer_regex(r"(?<!\s)\s+\(holds from \d{4}-\d\d-\d\d\)\s*\Z")
"""The end of a line of our own prompts about a record that holds."""


def strip_fillers(text: str) -> str:
    """Return a text without what people say before a statement and after it.

    >>> strip_fillers("btw, we use ruff for linting, thanks")
    'we use ruff for linting'
    >>> strip_fillers("- [5182e93c5f06]: We use ruff for linting (holds from 2026-01-31)")
    'We use ruff for linting'
    """
    if (found := _PREAMBLE.match(text)) and found.end() < len(text):
        text = text[found.end() :]
        if found["id"]:
            text = _SINCE.sub("", text)
    return _ADDED.sub("", text) if text.rstrip().rstrip(".!").lower().endswith(_ADDITIONS) else text


def unify_dash(text: str) -> str:
    """Return a text with a colon for the one dash between two words.

    >>> unify_dash("Decision - keep the monolith"), unify_dash("10 - 5")
    ('Decision: keep the monolith', '10 - 5')
    """
    return _DASH.sub(": ", text) if len(_DASH.findall(text)) == 1 else text


def unify_spelling(word: str) -> str:
    """Return a word in one of its spellings, which need not be one in use.

    Args:
        word: In small letters.

    >>> unify_spelling("colour"), unify_spelling("organises"), unify_spelling("travelled"), unify_spelling("hour")
    ('color', 'organizes', 'traveled', 'hour')
    """
    word = _SPELLINGS.get(word, word)
    if _MAY_BE_BRITISH.search(word) is None:
        return word
    for pattern, written in _BRITISH:
        word = pattern.sub(written, word)
    return word


def expand_word(word: str, lower: str) -> tuple[str, ...]:
    """Return an abbreviation or a compound number in full; nothing for other words.

    Args:
        word: The word.
        lower: The word in small letters.

    >>> expand_word("Repo", "repo"), expand_word("twenty-four", "twenty-four"), expand_word("tea", "tea")
    (('repository',), ('24',), ())
    """
    if full := _FULL.get(lower) or _FULL.get(word) or _ORDINALS.get(lower):
        return tuple(full.split())
    if found := _COUNTED.fullmatch(lower):
        return found.groups()
    tens, hyphen, ones = lower.partition("-")
    if hyphen and tens in _TENS and len(NUMBER_WORDS.get(ones, "one" if ones != "one" else "1")) == 1:
        return (str(int(NUMBER_WORDS[tens]) + int(NUMBER_WORDS.get(ones, "1"))),)
    return ()


def normalize_number(core: str) -> tuple[str, ...]:
    """Return a number, a time or a sum of money in one of its forms: sign and digits, then its unit.

    >>> normalize_number("$1,200.50"), normalize_number("3RD")
    (('$', '1200.5'), ('3rd',))
    """
    if not (match := _WRITTEN_NUMBER.fullmatch(core)):
        return (core.lower().removeprefix("0") if _CLOCK.fullmatch(core) else core.lower(),)
    sign, money, digits, unit = match.group("sign", "money", "digits", "unit")
    digits = digits.replace(",", "")
    if "." in digits and (money or unit.lower() in UNITS) and not is_ambiguous_thousands(digits):
        digits = digits.rstrip("0").rstrip(".")
    if unit == "k" and money and digits.isdigit():
        digits, unit = f"{digits}000", ""
    value = f"{sign}{digits}"
    if unit.lower() in ("st", "nd", "rd", "th"):
        return (f"{value}{unit.lower()}",)
    return tuple(part for part in (money, value, unit) if part)


def normalize_decimal(core: str) -> str:
    """Return the number without its last zeros, when the chunk is a decimal number that ends with one."""
    if core[-1] != "0" or "." not in core:
        return ""
    match = _WRITTEN_NUMBER.fullmatch(core)
    if not match or match.group("money") or match.group("unit") or is_ambiguous_thousands(core):
        return ""
    return core.replace(",", "").rstrip("0").rstrip(".")


def unify_units(words: Sequence[str]) -> list[str]:
    """Return the words with each unit after its number, and in one spelling; hundreds and thousands in digits.

    >>> unify_units(["takes", "45", "minutes"]), unify_units(["€", "3", "million"])
    (['takes', '45', 'min'], ['3', 'million', '€'])
    """
    unified = _multiply(words)
    for place in range(len(unified) - 1):
        first, second = unified[place : place + 2]
        if first in ("$", "€", "£", "¥") and (_NUMBER.fullmatch(second) or second in _MULTIPLES):
            unified[place : place + 2] = [second, first]
        elif second in _SPELLED_UNITS and (_NUMBER.fullmatch(first) or first in _MULTIPLES):
            unified[place + 1] = _SPELLED_UNITS[second]
    return unified


def _multiply(words: Sequence[str]) -> list[str]:
    """Return the words with numbers in digits in place of dozens, hundreds and thousands."""
    if _POWERS.keys().isdisjoint(words):
        return list(words)
    counted: list[str] = []
    for word in words:
        if word not in _POWERS:
            counted.append(word)
        elif counted and counted[-1].isdecimal() and len(counted[-1]) <= _MOST_DIGITS:
            counted[-1] = str(int(counted[-1]) * _POWERS[word])
        else:
            counted.append(str(_POWERS[word]))
    return counted


def simplify(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words with plain phrases in one form of several that say the same.

    >>> simplify(["paid", "each", "month"]), simplify(["runs", "every", "friday"])
    (('paid', 'every', 'month'), ('runs', 'on', 'fridays'))
    >>> simplify(["my", "cat", "'s", "name", "is", "miso"])
    ('my', 'cat', 'is', 'called', 'miso')
    """
    simple: list[str] = []
    for place, word in enumerate(words):
        before = simple[-1] if simple else ""
        after = words[place + 1] if place + 1 < len(words) else ""
        if word == "each" and (after in UNITS or after in WEEKDAYS):
            simple.append("every")
        elif word in WEEKDAYS and before == "every":
            simple[-1:] = ["on", f"{word}s"]
        elif before in ("is", "are") and (word in WEEKDAYS or _DATE.fullmatch(word)):
            simple += ["on", word]
        elif word == "is" and simple[-2:] == ["'s", "name"]:
            simple[-2:] = ["is", "called"]
        elif word == "second" and before and not before[0].isdigit() and after not in ("", "?"):
            simple.append("2nd")
        elif word == "named" and before in ("is", "are"):
            simple.append("called")
        elif word == "been" and before == "is":  # of "it's been"
            simple[-1:] = ["has", "been"]
        elif word in _ROUGHLY and _NUMBER.fullmatch(after):
            simple.append("about")
        elif not _adds_nothing(word, simple):
            simple.append(_ONE_VERB.get(word, word))
    return tuple(simple)


def _adds_nothing(word: str, before: Sequence[str]) -> bool:
    """Return whether a word adds nothing to those before it: "has got", "9 o'clock", "not any"."""
    last = before[-1] if before else ""
    if word == "any":
        return "not" in before[-2:] and last not in ("just", "only")
    return (word == "got" and last in ("has", "have")) or (word == "o'clock" and last.isdecimal())


def list_content(words: Sequence[str]) -> list[str]:
    """Return what texts share of which one says the other in another order: how its words begin, sorted."""
    return sorted(stem_word(_PRESENT.get(word, word))[:3] for word in words if word not in _NO_CONTENT)


def is_abbreviated(one: str, other: str) -> bool:
    """Return whether two texts are the same but for abbreviations that end with a full stop.

    >>> is_abbreviated("Lives in Elm Str. 5", "Lives in Elm Straße 5"), is_abbreviated("Ask Jo. Now", "Ask John Now")
    (True, False)
    """
    one, other = one.rstrip(" !"), other.rstrip(" !")
    if "." not in one and "." not in other:
        return False
    a, b = one.split(), other.split()
    if len(a) != len(b) or len(a) > _LONGEST_ABBREVIATED:
        return False
    pairs = [
        (short, full)
        for short, full in zip(a, b, strict=True)
        if short.lower().rstrip(".") != full.lower().rstrip(".")
    ]
    return bool(pairs) and all(
        _abbreviates(short, full) or _abbreviates(full, short) for short, full in pairs
    )


def _abbreviates(short: str, full: str) -> bool:
    begun, word = short.removesuffix(".").lower(), full.rstrip(",;.").lower()
    if begun == short.lower() or not begun.isalpha() or not word.isalpha() or len(word) < len(begun) + 2:
        return False
    if len(begun) > 2 and word.startswith(begun):
        return True
    letters = iter(word)
    return (
        len(begun) > 1 and begun[0] == word[0] and begun[-1] == word[-1] and all(c in letters for c in begun)
    )


def is_contracted(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two texts are the same but for words that the one has in full: "Ana's late", "Ana is late".

    >>> is_contracted(("ana", "'s", "late"), ("ana", "is", "late")), is_contracted(("ana",), ("anna",))
    (True, False)
    """
    return len(one) == len(other) and all(
        a == b or b in _CONTRACTED.get(a, ()) or a in _CONTRACTED.get(b, ())
        for a, b in zip(one, other, strict=True)
    )


def is_reordered(one: tuple[str, ...], other: tuple[str, ...], pauses: Collection[str] = ()) -> bool:
    """Return whether two sentences say the same in another order.

    Args:
        one: The words of a sentence.
        other: The words of another one.
        pauses: The words after which the one or the other pauses.

    >>> is_reordered(("on", "sundays", "he", "runs"), ("he", "runs", "on", "sundays"))
    True
    >>> is_reordered(("ana", "beat", "tom"), ("tom", "beat", "ana"))
    False
    """
    if len(one) == len(other):
        return sorted(one) == sorted(other) and (
            _is_fronted(one, other)
            or _is_fronted(other, one)
            or _has_same_list(one, other, pauses)
            or _has_same_phrases(one, other)
        )
    return any(_is_passive_of(*pair) or _has_and(*pair, pauses) for pair in ((one, other), (other, one)))


def _has_and(one: tuple[str, ...], other: tuple[str, ...], pauses: Collection[str]) -> bool:
    """Return whether the two end with a list of three, of which only the one has "and" before its last item."""
    is_list = len(other) > 3 and all(item in pauses for item in other[-3:-1])
    return is_list and one == (*other[:-1], "and", other[-1])


def _is_fronted(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether a phrase stands before one sentence and after the other, which is a single statement."""
    if one[0] in _ADVERBS and (_JOINING | _REPORTING).isdisjoint(one):
        place = 2 if len(one) > 2 and one[1] in _POSSESSIVES else 1
        return other == (*one[1 : place + 1], one[0], *one[place + 1 :])
    if one[0] not in _FRONTED:
        return False
    return any(
        one[cut:] + one[:cut] == other and (_JOINING | _REPORTING).isdisjoint(one[cut:])
        for cut in range(2, min(len(one) - 1, _LONGEST_FRONTED + 1))
    )


def _has_same_list(one: tuple[str, ...], other: tuple[str, ...], pauses: Collection[str]) -> bool:
    """Return whether the two differ in the order of the single words of one list.

    A word beside the list may belong to its nearest item alone: "green tea and coffee", "bread and soup cold".
    """
    if not _ORDERED.isdisjoint(one):
        return False
    first, last = _find_difference(one, other)
    joint = next((place for place, word in enumerate(one) if place > first and word in _JOINING), 0)
    if other[joint] != one[joint] or last > joint + 1:
        return False
    last = joint + 1
    while first > 1 and one[first - 1] in pauses and one[first - 1] not in _JOINING:
        first -= 1
    span = one[first : last + 1]
    return (
        not _has_number(span)
        and all(item in pauses for item in span[:-3])
        and (_may_precede_list(one[:first], span) if first else one[last + 1 :][:1] in _AFTER_SUBJECTS)
        and (not first or last + 1 == len(one) or one[last + 1] in _AFTER_LISTS)
    )


def _may_precede_list(words: tuple[str, ...], items: tuple[str, ...]) -> bool:
    if all(any(char.isupper() for char in item) for item in items if item not in _JOINING):
        return True
    if words[-1] == "to":  # not before what somebody wants to do
        return any(item.endswith("s") and not item.endswith("ss") for item in items)
    return words[-1] in _BEFORE_LISTS


def _find_difference(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[int, int]:
    """Return the first and the last place at which the two differ."""
    differing = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return (differing[0], differing[-1]) if differing else (0, 0)


def _has_same_phrases(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether the two differ in the order of two phrases such as "in Derby" and "on Sundays".

    Of two places one may say where the other is: "in the box under the bed".
    """
    if not (_JOINING | _REPORTING).isdisjoint(one):
        return False
    first, last = _find_difference(one, other)
    span, turned = one[first : last + 1], other[first : last + 1]
    return first > 0 and any(
        span[cut:] + span[:cut] == turned
        and {span[0], span[cut]} <= _PHRASES
        and (
            "as" in (span[0], span[cut])
            or _says_when(span[:cut])
            or _says_when(span[cut:])
            or ({span[0], span[cut]} == {"to", "with"} and first <= _FIRST_WORDS)
        )
        for cut in range(2, len(span) - 1)
    )


def _says_when(phrase: tuple[str, ...]) -> bool:
    return phrase[0] in _TIMES or any(
        word in _DAYPARTS
        or word.removesuffix("s") in WEEKDAYS
        or word in MONTHS
        or word in UNITS
        or _has_number((word,))
        for word in phrase
    )


def _has_number(words: Sequence[str]) -> bool:
    return any(char.isdigit() for word in words for char in word)


def is_turned(one: str, other: str) -> bool:
    """Return whether two statements name the same two things that are one, in the other order.

    >>> is_turned("Our CTO is Nadia", "Nadia is our CTO."), is_turned("A cat is an animal", "An animal is a cat")
    (True, False)
    """
    a, b = _match_identity(one), _match_identity(other)
    if a is None or b is None or a["is"].lower() != b["is"].lower():
        return False
    if (a["one"].lower(), a["other"].lower()) != (b["other"].lower(), b["one"].lower()):
        return False
    return any(
        _DEFINITE.match(each["one"]) is not None
        and each["other"][0].isupper()
        and _NAME.fullmatch(each["other"]) is not None
        for each in (a, b)
    )


@lru_cache(maxsize=1_024)  # each text is compared with many others
def _match_identity(text: str) -> re.Match[str] | None:
    return _IDENTITY.fullmatch(text.strip(" .!"))


def _is_passive_of(passive: tuple[str, ...], active: tuple[str, ...]) -> bool:
    """Return whether "invoices are approved by Henrike" says what "Henrike approves invoices" says."""
    if passive.count("by") != 1 or len(passive) != len(active) + 2:
        return False
    by = passive.index("by")
    if by < 3 or passive[by - 2] not in _PASSIVE:
        return False
    verb, done_to, after = passive[by - 1], passive[: by - 2], passive[by + 1 :]
    is_past = passive[by - 2] in ("was", "were")
    return any(
        active == (*after[:size], active[size], *done_to, *after[size:])
        and stem_word(active[size]) == stem_word(verb if is_past else _PRESENT.get(verb, verb))
        and (active[size] == verb) == is_past
        for size in range(1, len(after) + 1)
        if size == len(after) or (after[size] in _PHRASES and _says_when(after[size:]))
    )
