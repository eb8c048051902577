"""Statements by which another one is over, without a new value: "Quit the gym", "The visa was approved".

English, German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity import change_words as cues
from reverie.domain.similarity.different_subjects import tell_of_different_owners
from reverie.domain.similarity.specifics import NUMBER_WORDS
from reverie.domain.similarity.statement import IGNORED, TOKEN, StatedWord, Statement, are_in, compute_keys
from reverie.domain.word_lists import parse_word_set

_FEW = 2
_OWN = cues.DETERMINERS - cues.ARTICLES - {"a", "an"}
_VERBS = cues.LEADING_WORDS | cues.CHOICE | parse_word_set("has have hat haben tiene tienen ont")
_OWNER_AFTER = defer_regex(
    r"\s+(?:of|von|vom|der|des|de|du|del)\s+(?:(?:the|my|der|dem|la|los|las|mi|mon|ma)\s+)?\w"
)
_WHICH = defer_regex(
    r"\s+(?:to|for|with|at|bei|beim|fur|furs|mit|para|con|chez|pour|avec)\s+(?:the\s+|die\s+|den\s+|das\s+|la\s+)?"
)
_TITLED = defer_regex(r"\b(?:mr|mrs|ms|mx|dr|prof|herrn?|frau|m|mme|mlle|sra?|don|dona|senora?)\.?\s+$")
_BE_AFTER = defer_regex(
    r"(?:\s+#?\d+)?\s+(?:is|are|was|were|ist|sind|war|waren|es|son|esta|estan|est|sont)\b"
)
_MATTER = defer_regex(
    r"\b(?:an?|my|eine?n?|meine?n?|una?|une?|mi|mon|ma)\s\w+\s(?:on|about|uber|sobre|sur)\s$"
)
"""Words before the subject of a work: "a thesis on bees"."""
_LAST_DAY = defer_regex(r"\s(?:on|am|el|le)\s+[\w. ]+$")
_BE = parse_word_set("is are was were ist sind war est sont es son")


def ends_without_value(new: Statement, old: Statement) -> bool:
    """Return whether the old statement is over by the new one."""
    again, renewed, ended = new.ends
    if again and _is_what_was_denied(new, old):
        return True
    if not ended and not renewed:
        return False
    if any(found.group() not in new.plain for found in cues.NOT_HELD.finditer(old.plain)):
        return False
    if not new.values and any(":" in old.plain[: value.start] for value in old.values):
        return False  # an amount of a list
    if new.is_repair and cues.BROKEN.search(old.plain) is None:
        return False
    if not old.keys.issuperset(_list_values(new)) or not are_in(new.words, old.keys | old.leading):
        return False
    if not new.words and not (renewed and new.leading & old.leading):
        return False
    if renewed and not _is_renewed(new, old):
        return False
    extra = [word for word in old.words if word.keys.isdisjoint(new.keys)]
    return len(extra) <= _FEW + (not renewed) and (renewed or _is_about_what_ended(new, old))


def tells_of_end(new: Statement, old: Statement) -> bool:
    """Return whether the new statement reports an end, and mentions a name of the old one."""
    return new.ends[2] and any(word.named and not word.keys.isdisjoint(new.keys) for word in old.topic)


def _list_values(new: Statement) -> list[str]:
    """Return the values of a statement without the day of a final end: "sold the car on Monday"."""
    day = _LAST_DAY.search(new.plain) if cues.FINAL.search(new.plain) else None
    return [value.text for value in new.values if day is None or value.start < day.start()]


def _is_renewed(new: Statement, old: Statement) -> bool:
    """Return whether the old statement means the one renewed thing, unlike "a daughter"."""
    found = cues.RENEWED.search(new.plain)
    if found is None:
        return False
    thing = found["thing"]
    return (thing in new.leading or any(word.text == thing for word in new.words)) and re.search(
        rf"\b(?:an?|{'|'.join(NUMBER_WORDS)}|\d+)\s+(?:\w+\s+)?{re.escape(thing)}", old.plain
    ) is None


def _is_what_was_denied(new: Statement, old: Statement) -> bool:
    """Return whether the new statement affirms, in the same words, what the old one denied: "unpaid", "not yet"."""
    if cues.NEGATED.search(new.plain):
        return False
    positive = cues.UN.sub("", old.plain)
    if positive == old.plain and not cues.NEGATED.search(old.plain):
        return False
    said, denied = _list_content(new.plain), _list_content(positive)
    one, other = (frozenset(key for keys in content for key in keys) for content in (said, denied))
    return bool(said) and all(keys & other for keys in said) and all(keys & one for keys in denied)


def _list_content(plain: str) -> list[frozenset[str]]:
    """Return the stems of each word, without words of grammar, time and denial."""
    for pattern in (cues.AGAIN, cues.YET, cues.NEGATED):
        plain = pattern.sub(" ", plain)
    return [compute_keys(word) for word in TOKEN.findall(plain) if word not in cues.FUNCTION_WORDS]


def _is_about_what_ended(new: Statement, old: Statement) -> bool:
    """Return whether the old statement is over, and not only something that it mentions.

    "Quit the gym" ends "Goes to the gym on Mondays", but neither "The gym bag is in the hall" nor "The gym opens at
    six".
    """
    dates = (value.text for value in old.values if value.kind == "date" and value.text[0].isdigit())
    held = [word for word in old.topic if not word.keys.isdisjoint(new.keys)]
    if not held or not new.keys.issuperset(dates) or tell_of_different_owners(new, old):
        return False
    if _is_one_of_several(held, new, old) or _is_a_surname(held, new, old) or _is_of_somebody_else(new, old):
        return False
    first, last = held[0], held[-1]
    end = last.start + len(last.text)
    if not last.named and any(
        old.plain[end : word.start] == " " and not cues.BROKEN.fullmatch(word.text)
        for word in old.words
        if not word.named
    ):
        return False  # it is a part of the name of another thing, such as a gym bag
    before = TOKEN.findall(old.plain[: first.start])
    if cues.DESCRIBED.match(old.plain, end) or _MATTER.search(old.plain[: first.start]):
        return False
    if _BE_AFTER.match(old.plain, end) and not {*TOKEN.findall(new.plain[: new.words[0].start])} <= {
        *before[:1]
    }:
        return False  # it is what the old statement speaks of, and something else has ended
    if before and len(before) <= _FEW and (before[0] in cues.DETERMINERS or before[-1].endswith("'s")):
        return new.plain.startswith((before[0], new.words[0].text))  # it is the subject of both
    return not before or before[0] not in cues.ARTICLES or before[-1] in IGNORED - _BE


def _is_one_of_several(held: Sequence[StatedWord], new: Statement, old: Statement) -> bool:
    """Return whether only the old statement says which one of several things it means: "the car of Ben"."""
    end = held[-1].start + len(held[-1].text)
    following = next((word for word in old.words if word.start > end), None)
    if following is None or not following.keys.isdisjoint(new.keys):
        return False
    if found := _OWNER_AFTER.match(old.plain, end):
        return found.end() > following.start
    found = _WHICH.match(old.plain, end)
    return found is not None and following.named and found.end() == following.start


def _is_of_somebody_else(new: Statement, old: Statement) -> bool:
    """Return whether the old statement is about somebody whom the new one, of the speaker, does not name."""
    if cues.COLLECTIVE.match(new.plain) or not TOKEN.findall(new.plain[: new.words[0].start]):
        return False
    first, second = old.words[0], old.words[1] if len(old.words) > 1 else None
    if second is None or first.text in _VERBS or not first.keys.isdisjoint(new.keys):
        return False
    before, after = (TOKEN.findall(part) for part in (old.plain[: first.start], old.plain[first.start :]))
    is_verb = after[1] in _VERBS or (
        after[1] == second.text and not second.named and second.keys.isdisjoint(new.keys)
    )
    return is_verb and ((not before and first.named) or (len(before) == 1 and before[0] in _OWN))


def _is_a_surname(held: Sequence[StatedWord], new: Statement, old: Statement) -> bool:
    """Return whether a word of the new statement is a surname in the old one: "Herr Rauch"."""
    titled = [word for word in held if _TITLED.search(old.plain[: word.start])]
    names = {word.text for word in new.words}
    return any(word.text not in names for word in titled)
