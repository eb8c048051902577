"""Detection of statements that end an older statement. In doubt nothing ends.

A statement ends another if it gives the same thing another value of the same type: "The rent went up to 1,350 €" ends
"Rent is 1,200 €", and "Moved to Leipzig" ends "Lives in Hamburg". The old one must have all topic words of the new
one: "The budget meeting was postponed" does not end "Board meeting is on 3 June". English, German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity import change_words as cues
from reverie.domain.similarity.different_subjects import (
    tell_of_different_numbers,
    tell_of_different_owners,
    tell_of_different_persons,
    tell_of_different_times,
    tell_of_different_ways,
)
from reverie.domain.similarity.endings import ends_without_value, tells_of_end
from reverie.domain.similarity.specifics import NUMBER_WORDS, normalize_characters
from reverie.domain.similarity.statement import (
    MOVES,
    ORDINAL,
    TOKEN,
    WORD_VALUES,
    StatedValue,
    StatedWord,
    Statement,
    are_in,
    compute_keys,
    is_single_valued,
)
from reverie.domain.text.calendar_words import MONTHS, SHORT_MONTHS, fold_text
from reverie.domain.word_lists import parse_word_set

LONGEST = 300
"""Characters of a statement that can end another one or be ended."""

_MOST_WORDS = 14
_FEW = 2
_CLAUSE = defer_regex(r"[;,:]\s+(?!\d{4}\b)|\s+(?:and|but|und|aber|y|pero|et|mais)\s+|\s[–—-]\s")
_JOINED = defer_regex(r"\s+(?:and|und|y|et)\s")
_BE_AMONG = defer_regex(r"\b(?:is|are|ist|sind|es|son|est|sont)\b")
_SENTENCE = defer_regex(r"(?<=[.!?])\s+(?=\S)|\n+")
_ABBREVIATED = defer_regex(r"\b(?:dr|mr|mrs|ms|m|mme|st|prof|no|nr|\d{1,2})\.$", re.IGNORECASE)

_TIME_OF_CHANGE = defer_regex(r"\b(?:now|again|jetzt|wieder|ahora|maintenant)\b")
_INTRANSITIVE = defer_regex(r"\s+(?:(?:up|down|back|forward)\s+)?(?:to|into|from)\b")
_DATIVE = defer_regex(r"(?:al|a (?:su|mi|tu|la|los|las))\s")
"""Beginning of a Spanish statement with a dative object."""
_OBJECT = defer_regex(
    r"(?:[^\W\d_]+[st]|(?:.+\s)?(?:is|are|ist|sind|es|son|est|sont)(?:\s\w+e[dn]?)?)\s"
    r"(?:(?:to|at|by|with|in|on|bei|mit|zu|von|chez|avec|con|en|par|por)\s)?"
    r"(?:the|an?|der|die|das|dem|den|la|le|el)?\s*"
)
"""Beginning of a statement before the object of its verb, or before the place or provider of its subject."""
_BETWEEN_NAMES = defer_regex(r"\s(?!(?:and|und|y|et|de|von|van|di|del)\b)[a-z]+\s")


@lru_cache(maxsize=256)
def may_supersede(text: str) -> bool:
    """Return whether a statement can end any other one. It is quick, since every save asks.

    >>> may_supersede("Ada lives in Oslo now"), may_supersede("Ada likes Oslo")
    (True, False)
    """
    if len(text) > LONGEST:
        return False
    plain = fold_text(normalize_characters(text))
    may_end = _MAY_END.search(plain) or (_DIGIT.search(plain) and _MAY_END_WITH_NUMBER.search(plain))
    return bool(may_end) and any(new.parts for new in _read_new(text))


def _join(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern that matches where one of the patterns does."""
    return defer_regex("|".join(f"(?:{re.sub(r'[?]P<[a-z]+>', '?:', each.pattern)})" for each in patterns))


_DIGIT = defer_regex(rf"\d|\b(?:{'|'.join(NUMBER_WORDS)})\b")
_MAY_END = _join(
    cues.CHANGED, cues.ENDED, cues.REPAIRED, cues.NOW, cues.AGAIN, cues.REPLACED, cues.HOME, cues.MOVED, cues.EMPLOYED
)  # fmt: skip
_BEFORE_DAY = "|".join(
    (*parse_word_set("on by until is for since the am vom zum bis ab seit dem den der el dia le il"), *MONTHS,
     *SHORT_MONTHS)
)  # fmt: skip
_LED_VALUE = defer_regex(
    rf"(?:{cues.LINK.pattern.removesuffix('$')}|{cues.TO.pattern.removesuffix('$')})(?:(?:{_BEFORE_DAY})\.?\s+){{0,2}}"
    rf"(?:\S*(?:[\d@#$]|[./]\S|[^\x00-\x7f])|(?:{'|'.join(WORD_VALUES)})\b)"
)
"""A word of `LINK` or `TO` before what may be a value."""
_MAY_END_WITH_NUMBER = _join(_LED_VALUE, cues.RENEWED_INSIDE, cues.OLD_OR_NEW)


def list_hints(text: str) -> list[str]:
    """Return words to search for statements that a statement may end: its own, stemmed in each language, and others.

    The index may have a short statement in the wrong language.

    >>> list_hints("Moved to Leipzig")[:2], list_hints("Lucía y él lo han dejado")
    (['live', 'wohn'], ['luci', 'lucia'])
    """
    hints = (
        ["live", "wohn", "wohnt", "viv", "vivo", "vive", "habit", "habite", "vit", "base"]
        if cues.MOVED.search(fold_text(text))
        else []
    )
    own = {key for new in _read_new(text) for word in new.whole.words for key in compute_keys(word.text)}
    return hints + sorted(key for key in own if not key.endswith("~"))


def supersedes(new: str, old: str, *, is_same_topic: bool = True) -> bool:
    """Return whether the new statement ends the old one.

    Args:
        new: The new statement.
        old: The older statement.
        is_same_topic: Whether they may be about the same thing. If not, a statement that something is over ends none.

    Example:
        >>> supersedes("The staging port is 5433", "The staging port is 5432")
        True
        >>> supersedes("Ana is pregnant now", "Ana is allergic to nuts")
        False
    """
    if not may_supersede(new):
        return False
    before = _read_old(old)
    # The checks that most statements fail come first; words and values cost most.
    return (
        before is not None
        and any(
            (
                _ends(
                    part,
                    before,
                    changed=sentence.whole.is_change
                    or (not part.ends[2] and tells_of_end(sentence.whole, before)),
                )
                or (is_same_topic and ends_without_value(part, before))
            )
            and not tell_of_different_persons(sentence.whole, before)
            and not tell_of_different_ways(sentence.whole, before)
            for sentence in _read_new(new)
            for part in sentence.parts
        )
        and _holds(before)
        and len(before.words) <= _MOST_WORDS
    )


class _Sentence(NamedTuple):
    """A sentence, with the statements in it that can end another one: the whole sentence and its clauses."""

    whole: Statement
    parts: Sequence[Statement]


@lru_cache(maxsize=16)
def _read_new(text: str) -> Sequence[_Sentence]:
    """Return the sentences of a text that may end others."""
    read = []
    for sentence in _split_sentences(text):
        whole = Statement(sentence, is_new=True)
        if _is_doubtful(whole.plain):
            continue
        clauses = _split_clauses(whole)
        parts = [whole, *(Statement(clause, is_new=True) for clause in clauses if len(clauses) > 1)]
        able = [part for part in parts if _can_end(part, changed=whole.is_change or whole.ends[2])]
        read.append(_Sentence(whole, able))
    return read


def _split_clauses(whole: Statement) -> list[str]:
    """Return the clauses of a sentence, each with its subject; none if the sentence begins with several subjects."""
    text, clauses, start, joint = whole.text, list[str](), 0, ""
    for found in _CLAUSE.finditer(text):
        clauses.append(_add_subject(whole, text[start : found.start()], joint))
        start, joint = found.end(), found.group().strip()
    first = fold_text(clauses[0]) if clauses else ""
    is_subject = len(first.split()) <= _FEW and not _MAY_END.search(first) and not _BE_AMONG.search(first)
    if is_subject and _JOINED.match(whole.plain, len(first)):
        return []
    clauses.append(_add_subject(whole, text[start:], joint))
    return [clause for clause in clauses if clause.strip()]


def _add_subject(whole: Statement, clause: str, joint: str) -> str:
    """Return a clause after "and" with the subject of the sentence, if it has none."""
    if not joint.isalpha() or not clause[:1].islower() or not whole.words:
        return clause
    plain = fold_text(clause)
    first, begins = whole.words[0], TOKEN.match(plain)
    before = TOKEN.findall(whole.plain[: first.start])
    is_subject = first.named if not before else before[-1] in cues.DETERMINERS and len(before) == 1
    if (
        not is_subject
        or cues.NOW.match(plain)
        or (begins is not None and begins.group() in cues.FUNCTION_WORDS)
    ):
        return clause
    return f"{whole.text[: first.start + len(first.text)]} {clause}"


@lru_cache(maxsize=1_024)
def _read_old(text: str) -> Statement | None:
    """Return the statement of a text that may be ended; None if the text is long or has not just one sentence."""
    return None if len(text) > LONGEST or len(_split_sentences(text)) != 1 else Statement(text)


def _holds(old: Statement) -> bool:
    """Return whether a statement is certain and describes a state, not an event."""
    if cues.UNSURE.search(old.plain):
        return False
    return not cues.EVENT.search(old.plain) or bool(
        cues.NOW.search(old.plain) or cues.CHANGED.search(old.plain)
    )


def _is_doubtful(plain: str) -> bool:
    """Return whether a statement is uncertain, temporary, additional or about the past: it ends no other one."""
    if cues.UNSURE.search(plain) or cues.BESIDE.search(cues.SINCE.sub("", plain)):
        return True
    return cues.PAST.search(plain) is not None and cues.NOW.search(plain) is None


def _split_sentences(text: str) -> list[str]:
    parts: list[str] = []
    for part in _SENTENCE.split(text.strip()):
        if parts and _ABBREVIATED.search(parts[-1]):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return [part for part in parts if part.strip()]


def _can_end(new: Statement, *, changed: bool) -> bool:
    """Return whether a statement may end any other one; if not, `_ends` is false for all."""
    return bool(changed or new.is_single_valued or any(new.frames[:3]) or new.replacements or any(new.ends))


def _ends(new: Statement, old: Statement, *, changed: bool) -> bool:
    return (
        _ends_by_frame(new, old)
        or _ends_by_value(new, old, changed=changed)
        or _ends_by_name(new, old, changed=changed)
        or _ends_by_old_value(new, old)
        or ((changed or new.ends[0]) and _ends_by_state(new, old))
        or (changed and _ends_by_place(new, old))
    ) and not (tell_of_different_numbers(new, old) or tell_of_different_owners(new, old))


# -- another value -------------------------------------------------------------------------------------------


def _ends_by_value(new: Statement, old: Statement, *, changed: bool) -> bool:
    """Return whether both give a different number, date, time or address of the same thing."""
    if not (changed or new.is_single_valued) or (
        cues.NEGATED.search(old.plain) and not cues.NEGATED.search(new.plain)
    ):
        return False
    return _gives_another_value(new, old, changed=changed) and not tell_of_different_times(new, old)


def _gives_another_value(new: Statement, old: Statement, *, changed: bool) -> bool:
    if not old.values:
        return False
    # A secret is in neither set: it may be another one.
    known = {(value.kind, value.text) for value in old.values if value.kind != "secret"}
    added = [value for value in new.values if (value.kind, value.text) not in known]
    stated = {
        (value.kind, value.text)
        for value in new.values
        if value.kind != "secret" and not (changed and cues.BEFORE_OLD_VALUE.search(new.plain[: value.start]))
    }
    outdated = [value for value in old.values if (value.kind, value.text) not in stated]
    for value in outdated:
        same = [each for each in outdated if each.kind == value.kind]
        others = [each for each in added if _is_same_type(each, value)]
        if len(same) != 1 or len(others) != 1:
            continue
        if _counts_something_else(new, others[0], old, value):
            continue
        if _have_number_before(outdated, value) and _have_number_before(added, others[0]):
            continue  # the phone of room 12, and that of room 11
        topic = _drop_actor(new)
        known_words = [word for word in topic if not word.keys.isdisjoint(old.keys)]
        foreign = len(topic) - len(known_words)
        known_words = [word for word in known_words if word.text not in cues.CHOICE]
        begins = TOKEN.findall(old.plain[: value.start])
        if changed and len(begins) > _FEW and begins == TOKEN.findall(new.plain[: others[0].start]):
            return True
        if not (topic or new.leading & old.leading) or foreign > (len(known_words) >= _FEW):
            continue
        extra = [word for word in old.words if word.keys.isdisjoint(new.keys)]
        if foreign and (
            extra or any(new.plain[: word.start].endswith("'s ") for word in topic if word not in known_words)
        ):
            continue  # each names something that the other does not, or somebody's: two things
        if changed and len(extra) <= (_FEW if topic else 0):
            return True
        if not extra and not foreign and is_single_valued(new, others[0]) and is_single_valued(old, value):
            return True
    return False


def _counts_something_else(new: Statement, other: StatedValue, old: Statement, value: StatedValue) -> bool:
    """Return whether the old value counts or numbers something that the new statement does not mention."""
    if value.kind != "number" or value.unit:
        return False
    counted = next((word for word in old.words if word.start >= value.end), None)
    if counted is not None and not old.plain[value.end : counted.start].strip():
        return other.unit != "" or counted.keys.isdisjoint(new.keys)
    numbered = next((word for word in old.words if word.start + len(word.text) + 1 == value.start), None)
    return numbered is not None and numbered.text not in cues.CHOICE and numbered.keys.isdisjoint(new.keys)


def _have_number_before(values: Sequence[StatedValue], end: StatedValue) -> bool:
    return any(value.kind == "number" and value.start < end.start for value in values)


def _is_same_type(one: StatedValue, other: StatedValue) -> bool:
    if {one.kind, other.kind} == {"time", "number"}:
        is_version = "." in one.text and "." in other.text
        return not one.unit and not other.unit and (is_version or "." not in one.text + other.text)
    if {one.kind, other.kind} == {"date", "number"}:
        return ORDINAL in (one.unit, other.unit)
    return one.kind == other.kind and (not one.unit or not other.unit or one.unit == other.unit)


def _drop_actor(new: Statement) -> list[StatedWord]:
    """Return the topic words without the one who made the change ("SAS changed the flight")."""
    found = cues.CHANGED.search(new.plain)
    if (
        found is None
        or cues.PASSIVE.search(new.plain[: found.start()])
        or re.match(r"\s+(?:his|her|their|ihre?n?|seine?n?|sus?|sa|son|ses)\b", new.plain[found.end() :])
        or _INTRANSITIVE.match(new.plain, found.end())
        or _DATIVE.match(new.plain)
    ):
        return new.words
    after = [word for word in new.words if word.start >= found.end()]
    return after if after and len(new.words) - len(after) <= 1 else new.words


# -- another name --------------------------------------------------------------------------------------------


def _ends_by_frame(new: Statement, old: Statement) -> bool:
    """Return whether both say where somebody lives or works, and differ."""
    lives, moved, works, _ = new.frames
    if not (lives or moved or works):
        return False
    lived, _, worked, located = old.frames
    for before, now in ((lived, moved or lives), (worked, works)):
        if before is None or now is None:
            continue
        place, earlier = _read_name(new, now), _read_name(old, before)
        left = now["from"] if now.re.pattern == cues.MOVED.pattern else None
        if (
            place
            and earlier
            and (left is None or left in earlier)
            and place.isdisjoint(earlier)
            and _have_same_subject(new, now.start(), old, before.start())
        ):
            return True
    if located is None or moved is None or (moved["from"] and moved["from"] not in old.keys):
        return False
    subject = [word for word in new.words if word.start < moved.start()]
    return bool(subject) and are_in(
        subject, frozenset(k for w in old.words if w.start < located.start() for k in w.keys)
    )


def _read_name(statement: Statement, found: re.Match[str]) -> frozenset[str]:
    """Return the stems of the name at the end of a match; none if there is no name."""
    start = next(
        found.start(group) for group in range(1, found.re.groups + 1) if found.group(group) is not None
    )
    keys: set[str] = set()
    for word in statement.words:
        if word.start >= start:
            if keys and not word.named:
                break
            if word.named:
                keys |= word.keys
    return frozenset(keys)


def _have_same_subject(new: Statement, new_end: int, old: Statement, old_end: int) -> bool:
    one = [word for word in new.words if word.start < new_end]
    other = [word for word in old.words if word.start < old_end]
    if len(one) != len(other):
        return False
    if one:
        return all(not a.keys.isdisjoint(b.keys) for a, b in zip(one, other, strict=True))
    return _says_relative(new, new_end) == _says_relative(old, old_end)


def _says_relative(statement: Statement, end: int) -> bool:
    return re.search(r"\b(?:her|his|their|you)\b", statement.plain[:end]) is not None


def _ends_by_name(new: Statement, old: Statement, *, changed: bool) -> bool:
    """Return whether the two differ only in a name of which there is one at a time."""
    if not changed or new.values or old.values or old.frames[0] or _denies_or_replaces(new, old):
        return False
    shared = [word for word in new.words if not word.keys.isdisjoint(old.keys)]
    added = [word for word in new.words if word.keys.isdisjoint(old.keys)]
    dropped = [word for word in old.words if word.keys.isdisjoint(new.keys)]
    if not shared or not added or not dropped:
        return False
    verbs = {word.text for word in shared if word.text in cues.CHOICE}
    topic = [word for word in shared if word.text not in cues.CHOICE]
    added, dropped = ([word for word in each if word.text not in cues.LEADING] for each in (added, dropped))
    things = [word for word in topic if not word.named]
    names = all(word.named for word in (*added, *dropped))
    if (
        not added
        or not dropped
        or not topic
        or not (_are_together(added, new.words) and _are_together(dropped, old.words))
    ):
        return False
    if not names and (
        max(len(added), len(dropped)) > _FEW + 1
        or len(topic) + bool(verbs) + (cues.CHANGED.search(new.plain) is not None) < _FEW
    ):
        return False
    if (verbs or not names) and not things:
        return False
    for each, part in ((new, added), (old, dropped)):
        named = [word.start for word in part if word.named] or [0]
        if cues.IS_BETWEEN.search(each.plain, part[0].start, part[-1].start) or _BETWEEN_NAMES.search(
            each.plain, named[0], named[-1]
        ):
            return False  # each says what another thing is, or what somebody else does
    if verbs and not _are_chosen_for_the_same(added[-1], new, dropped[-1], old):
        return False
    first = next(word for word in old.words if not word.keys.isdisjoint(shared[0].keys))
    if names and _get_next(added[-1], new) & _get_next(dropped[-1], old):
        return True
    if (
        names
        and len(things) >= _FEW
        and _is_agent(added[0], new)
        and old.plain[: dropped[0].start].endswith(" by ")
    ):
        return True
    if added[0].start > shared[0].start and dropped[0].start > first.start:
        value = next((word for word in dropped if word.named), dropped[0])
        return _have_same_preposition(new, added[0], old, value)
    return names and (
        cues.HAS_ROLE.search(new.plain) is not None
        or (bool(things) and cues.IS.search(new.plain[: topic[0].start]) is not None)
    )


def _denies_or_replaces(new: Statement, old: Statement) -> bool:
    """Return whether a statement only denies something, or names a replaced value."""
    is_denial = cues.NEGATED.search(new.plain) is not None and cues.NEGATED.search(old.plain) is None
    return is_denial or cues.REPLACED.search(new.plain) is not None


def _are_chosen_for_the_same(added: StatedWord, new: Statement, dropped: StatedWord, old: Statement) -> bool:
    """Return whether the two are of one kind or for one purpose: "light mode", "Slack for chat"."""
    if _get_next(added, new) & _get_next(dropped, old):
        return True
    return all(
        cues.PURPOSE.match(each.plain, word.start + len(word.text)) is not None
        for each, word in ((new, added), (old, dropped))
    )


def _is_agent(word: StatedWord, new: Statement) -> bool:
    return word.start == 0 and cues.NOW.search(new.plain) is not None


def _have_same_preposition(new: Statement, added: StatedWord, old: Statement, dropped: StatedWord) -> bool:
    """Return whether two names have no different prepositions, unlike "ship with DHL" and "ship to Norway"."""
    found = [
        cues.PREPOSITION.search(each.plain[: word.start]) for each, word in ((new, added), (old, dropped))
    ]
    prepositions = {match["at"] for match in found if match is not None}
    if new.is_moved and not dropped.named:
        return found[1] is not None or cues.LINK.search(old.plain[: dropped.start]) is not None
    return len(prepositions) < _FEW or new.is_moved


def _get_next(word: StatedWord, statement: Statement) -> frozenset[str]:
    """Return the stems of the next word, such as "plan" in "the Pro plan"."""
    end = word.start + len(word.text)
    return next((each.keys for each in statement.words if each.start == end + 1), frozenset())


def _are_together(words: Sequence[StatedWord], among: Sequence[StatedWord]) -> bool:
    """Return whether the words are consecutive."""
    starts = [word.start for word in among]
    first = starts.index(words[0].start)
    return [word.start for word in words] == starts[first : first + len(words)]


def _ends_by_state(new: Statement, old: Statement) -> bool:
    """Return whether the two give opposite states of the same thing: "is on", "is off now"."""
    now, before = cues.STATE.fullmatch(new.plain.rstrip(" .!")), cues.STATE.fullmatch(old.plain.rstrip(" .!"))
    if now is None or before is None or cues.OPPOSITE[before["state"]] != now["state"]:
        return False
    rest = [_TIME_OF_CHANGE.sub("", found["rest"]).strip() for found in (now, before)]
    subject = [word for word in new.words if word.start < now.start("state")]
    if {value.text for value in new.values} - {value.text for value in old.values}:
        return False
    return bool(subject) and rest[0] == rest[1] and are_in(subject, old.keys)


def _ends_by_place(new: Statement, old: Statement) -> bool:
    """Return whether the two give different places of the same thing, which is no person."""
    now, before = new.frames[3], old.frames[3]
    if now is None or before is None or now["by"] != before["by"] or new.values or old.values:
        return False
    subject, place = _split_at(new, now.start("at"))
    other, former = _split_at(old, before.start("at"))
    return (
        len(subject) == len(other) > 0
        and bool(place and former)
        and (
            len(place) == len(former) == 1
            or all(word.named for word in (*place, *former))
            or (
                len(place) <= _FEW >= len(former)
                and all(found["at"].startswith("the ") for found in (now, before))
            )
        )
        and not subject[-1].named
        and all(not a.keys.isdisjoint(b.keys) for a, b in zip(subject, other, strict=True))
        and place[0].keys.isdisjoint(old.keys)
    )


def _split_at(statement: Statement, start: int) -> tuple[list[StatedWord], list[StatedWord]]:
    before = [word for word in statement.words if word.start < start]
    return before, statement.words[len(before) :]


# -- the old value is named ----------------------------------------------------------------------------------


def _ends_by_old_value(new: Statement, old: Statement) -> bool:
    """Return whether the new statement names the old value and its replacement."""
    for found in new.replacements:
        offset = len(new.plain) - len(new.plain.lstrip(" .!"))
        dropped, added, topic = (_list_within(new, found, name, offset) for name in ("old", "new", "topic"))
        last = old.words[-1].keys if old.words else frozenset()
        if not dropped or not added or not are_in(dropped, old.keys) or are_in(added, last):
            continue
        if _names_another_thing(dropped, old):
            continue
        topic = [word for word in topic if word.text not in cues.CHOICE]
        remaining = [
            word
            for word in old.words
            if word.text not in cues.CHOICE
            and not any(not word.keys.isdisjoint(each.keys) for each in (*dropped, *topic))
            and not cues.HOME.match(old.plain, word.start)
        ]
        is_all = len(remaining) <= _FEW and (
            all(found.re.pattern != move.pattern for move in MOVES)
            or not remaining
            or _is_verb_of(remaining, dropped[0], old)
            or (
                cues.SWITCHED.search(new.plain) is not None
                and (
                    any(not word.named for word in topic)
                    or _is_value_of(dropped, old)
                    or _is_chosen_for(remaining, dropped, old, added, new)
                    or _is_object(dropped, old)
                )
            )
        )
        if is_all and are_in(topic, old.keys):
            return True
    return False


def _is_verb_of(words: Sequence[StatedWord], value: StatedWord, old: Statement) -> bool:
    """Return whether the words are one word directly before the value: "nutzen Jira", not "a friend in Berlin"."""
    start = next((word.start for word in old.words if not word.keys.isdisjoint(value.keys)), 0)
    return len(words) == 1 and old.plain[:start].rstrip() == old.plain[: words[0].start + len(words[0].text)]


def _names_another_thing(words: Sequence[StatedWord], old: Statement) -> bool:
    """Return whether one of the words is the first part of a compound in the old statement: "support inbox"."""
    stems = {key for word in words for key in word.keys}
    return any(
        not (one.named or other.named or one.keys.isdisjoint(stems))
        and other.keys.isdisjoint(stems)
        and old.plain[one.start + len(one.text) : other.start] == " "
        for one, other in zip(old.words, old.words[1:], strict=False)
    )


def _is_object(words: Sequence[StatedWord], old: Statement) -> bool:
    """Return whether the words are the object of a statement: "Goes to spin class", "is with Allianz"."""
    start = next((word.start for word in old.words if not word.keys.isdisjoint(words[0].keys)), 0)
    return start > 0 and _OBJECT.fullmatch(old.plain[:start]) is not None


def _is_chosen_for(
    purpose: Sequence[StatedWord],
    value: Sequence[StatedWord],
    old: Statement,
    added: Sequence[StatedWord],
    new: Statement,
) -> bool:
    """Return whether words give the purpose of a value, as in "Slack for chat", and the new value has no other one."""
    chosen = [word for word in old.words if any(not word.keys.isdisjoint(each.keys) for each in value)]
    end = chosen[-1].start + len(chosen[-1].text)
    other = cues.PURPOSE.search(new.plain, added[0].start)
    return (
        cues.PURPOSE.match(old.plain, end) is not None
        and all(word.start > end and not word.named for word in purpose)
        and (other is None or are_in([word for word in added if word.start > other.start()], old.keys))
    )


def _is_value_of(words: Sequence[StatedWord], old: Statement) -> bool:
    """Return whether the words are the value at the end of a statement: "Bank is Barclays"."""
    last = old.words[-len(words) :]
    same = len(last) == len(words) and all(
        not a.keys.isdisjoint(b.keys) for a, b in zip(last, words, strict=True)
    )
    return same and cues.LINK.search(old.plain[: last[0].start]) is not None


def _list_within(statement: Statement, found: re.Match[str], group: str, offset: int) -> list[StatedWord]:
    if group not in found.groupdict():
        return []
    start, end = found.start(group) + offset, found.end(group) + offset
    words = [word for word in statement.words if start <= word.start < end]
    words += [
        StatedWord(value.text, frozenset({value.text}), True, value.start)
        for value in statement.values
        if words and value.kind == "number" and start <= value.start < end
    ]
    named = statement.plain[start:end].strip(" .!,")
    if not words and group != "topic" and named and " " not in named:
        return [StatedWord(named, frozenset({named}), True, start)]
    return words
