"""Tests whether two statements are about different things: other numbers, persons, owners or times.

English, German, Spanish and French.
"""

from __future__ import annotations

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity import change_words as cues
from reverie.domain.similarity.statement import IGNORED, TOKEN, Statement

_NUMBERED = defer_regex(r"\b([^\W\d_]{3,}) (\d+)(?![\w:./-]|,\d)")
_NUMBER_IS = defer_regex(r"\b[^\W\d_]{3,} \d+\s+(?:is|are|was|ist|wurde|es|esta|est)\b")
_OWNED = defer_regex(r"'s?\s+")
_WAY = defer_regex(r"\b(to|from|nach|aus|hacia|desde|vers|depuis) (\w+)(?! (?:to|nach|a|vers)\b)")
_FIRST_PERSON = defer_regex(
    r"\b(?:i|we|my|mine|ours?|ich|wir|meine?[mnrs]?|unsere?[mnrs]?|yo|mis?|nosotros|nuestr[oa]s?|je|j(?=')|nous|mon"
    r"|ma|notre)\b"
)
_THIRD_PERSON = defer_regex(
    r"\b(?:s?he|they|his|hers?|theirs?|er|sie|seine[mnrs]?|ihre?[mnrs]?|ell[ao]s?|sus?|ils?|elles?|sa|ses|leurs?"
    r"|son(?= (?!is|has|was)\w))\b"
)
_PRONOUN_FIRST = defer_regex(r"(?:s?he|they|er|sie|ell[ao]s?|ils?|elles?)\b")


def tell_of_different_numbers(new: Statement, old: Statement) -> bool:
    """Return whether both give values of things with different numbers: room 12 and room 11."""
    if (len(new.values) < 2 or len(old.values) < 2) and not all(
        _NUMBER_IS.search(each.plain) for each in (new, old)
    ):
        return False
    numbers = dict(_NUMBERED.findall(old.plain))
    return any(
        word not in IGNORED and numbers.get(word, number) != number
        for word, number in _NUMBERED.findall(new.plain)
    )


def tell_of_different_persons(new: Statement, old: Statement) -> bool:
    """Return whether only one is about a third person: "Her boss is Tom now"."""
    third, before = (_THIRD_PERSON.search(each.plain) is not None for each in (new, old))
    if third == before:
        return False
    one, other = (new, old) if third else (old, new)
    is_first = _FIRST_PERSON.search(other.plain) is not None
    return (is_first and _FIRST_PERSON.search(one.plain) is None) or (
        third
        and _PRONOUN_FIRST.match(one.plain) is not None
        and any(frame is not None and frame.start() == 0 for frame in old.frames)
    )


def tell_of_different_owners(new: Statement, old: Statement) -> bool:
    """Return whether one is about a thing of somebody, and the other about the owner: "Ben's class", "Ben is 12"."""
    return (
        not new.leading & old.leading
        and any(
            not owner.keys.isdisjoint(other.keys) and thing.keys.isdisjoint(other.keys)
            for one, other in ((new, old), (old, new))
            if "'" in one.plain  # else nothing is owned; the words cost most
            for owner, thing in zip(one.words, one.words[1:], strict=False)
            if _OWNED.fullmatch(one.plain, owner.start + len(owner.text), thing.start)
        )
    )


def tell_of_different_times(new: Statement, old: Statement) -> bool:
    """Return whether one is about a beginning and the other about an end, or both are about different periods."""
    said, before = (set(TOKEN.findall(each.plain)) for each in (new, old))
    for one, other in ((cues.STARTS, cues.STOPS), (cues.STOPS, cues.STARTS)):
        if said & one and before & other and not (said & other or before & one):
            return True
    spans = [_list_spans(each) for each in (new, old)]
    if all(spans) and spans[0].isdisjoint(spans[1]):
        return True
    periods = [set(cues.PERIOD.findall(each.plain)) for each in (new, old)]
    if all(periods) and periods[0].isdisjoint(periods[1]):
        return True
    if cues.FORMER.search(old.plain) and cues.NEWER.search(new.plain):
        return True
    days = [{value.text for value in each.values if value.text.startswith("weekday")} for each in (new, old)]
    if not all(days) or days[0] == days[1] or len(new.values) < 2 or new.is_moved:
        return False
    is_time_alone = all(value.kind in ("date", "time") or value.text in old.keys for value in new.values)
    return not (is_time_alone and cues.NOW.search(new.plain))


def _list_spans(statement: Statement) -> set[str]:
    """Return the words for times before the value: a day pass, a weekly report."""
    value = next((value for value in statement.values if value.kind != "frequency"), None)
    before = TOKEN.findall(statement.plain[: value.start]) if value is not None else ()
    return {word for word in before if word in cues.SPANS or word in cues.FREQUENCIES}


def tell_of_different_ways(new: Statement, old: Statement) -> bool:
    """Return whether one is about a way to a place, and the other about a way from it."""
    found = [_WAY.findall(each.plain) for each in (new, old)]
    if not all(found) or len({way for each in found for way, _ in each}) < len(found):
        return False  # first, because the words cost most
    if cues.SWITCHED.search(new.plain):
        return False
    shared = new.keys & old.keys
    ways = [{way for way, word in each if word in shared} for each in found]
    return all(ways) and ways[0].isdisjoint(ways[1])
