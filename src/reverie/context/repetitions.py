"""Candidates of a prompt that say the same as another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reverie.search.hits import Hit

_LONGEST_COMPARED = 2_000  # characters
_NEARLY_WHOLE = 0.8
"""Least ratio of the words of a contained text to those of the whole one."""
_BEGINNING = 4  # common letters of the forms of a word


class _Candidate(NamedTuple):
    """A hit that is compared with others.

    Attributes:
        place: Its place among the hits; None for a hit that is already in the prompt.
        hit: The hit.
        text: Its text.
        beginnings: The beginnings of its longer words.
    """

    place: int | None
    hit: Hit
    text: str
    beginnings: frozenset[str]


def find_repetitions(hits: Sequence[Hit], known: Sequence[Hit] = ()) -> Mapping[int, int | None]:
    """Return the places of hits that say the same as a preferred hit, each with the place of that one.

    Records are preferred, then insights, paragraphs, turns and headlines; of one type the longer one, then the first.
    The place is None for a hit in `known`. Hits that are too long are not compared.

    Args:
        hits: The hits, best first.
        known: Hits that are already in the prompt.
    """
    candidates = [_build_candidate(place, hit) for place, hit in enumerate(hits)]
    candidates.sort(key=lambda each: (_get_rank(each.hit), -len(each.hit.content)))
    kept = [_build_candidate(None, hit) for hit in known]
    repetitions: dict[int, int | None] = {}
    for new in candidates:
        for old in kept:
            if _may_say_the_same(new, old) and _says_the_same(new.text, old.text):
                assert new.place is not None
                repetitions[new.place] = old.place
                break
        else:
            kept.append(new)
    return repetitions


def _build_candidate(place: int | None, hit: Hit) -> _Candidate:
    text = hit.content if hit.paragraph is None else hit.paragraph.text
    words = text.casefold().split() if len(text) <= _LONGEST_COMPARED else []
    return _Candidate(
        place, hit, text, frozenset(word[:_BEGINNING] for word in words if len(word) >= _BEGINNING)
    )


def _get_rank(hit: Hit) -> int:
    if hit.record is not None and hit.record.is_headline:
        return 4  # so that no other hit is left out for it
    if hit.record is not None:
        return int(hit.record.kind == "insight")
    return 2 if hit.paragraph is not None else 3


def _may_say_the_same(new: _Candidate, old: _Candidate) -> bool:
    """Return whether the two should be compared, which takes a hundred times longer than this test.

    Texts that say the same have at least half of the words of the shorter text, in any form. Turns must also have the
    same speaker, since "I like tea" of two people are two facts.
    """
    if max(len(new.text), len(old.text)) > _LONGEST_COMPARED:
        return False
    turn, other = new.hit.turn, old.hit.turn
    if turn and other and (turn.role, turn.speaker) != (other.role, other.speaker):
        return False
    fewest = min(len(new.beginnings), len(old.beginnings))
    return fewest < 2 or 2 * len(new.beginnings & old.beginnings) >= fewest


def _says_the_same(text: str, other: str) -> bool:
    """Return whether the kept text says the same as the other one, except for a few words without specifics."""
    from reverie.domain.similarity.comparison import is_repetition, normalize_cached  # has many patterns
    from reverie.domain.similarity.specifics import extract_specifics

    one, kept = normalize_cached(text), normalize_cached(other)
    if not one.words or not kept.words:
        return False
    if is_repetition(one, kept):
        return True
    if len(kept.words) < _NEARLY_WHOLE * len(one.words) or not is_repetition(kept, one):
        return False
    return not extract_specifics(text).find_missing_from(extract_specifics(other))
