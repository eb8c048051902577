"""Candidates of a prompt that say the same as another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from reverie.domain.similarity.comparison import NormalizedText, compute_keys, is_repetition, normalize_cached
from reverie.domain.similarity.specifics import extract_specifics
from reverie.search.hits import Hit

_LONGEST_COMPARED = 2_000  # characters
_NEARLY_WHOLE = 0.8
"""Share of a text's words that another one has to have in one piece."""


def find_repetitions(hits: Sequence[Hit], known: Sequence[Hit] = ()) -> Mapping[int, int | None]:
    """Return the places of hits that say the same as a preferred one, with the place of that one.

    A record is preferred, then an insight, a paragraph, a turn and a headline; of two of one type the one that says
    more, then the first. The place is None for what one of `known` says.

    Args:
        hits: The hits, best first.
        known: What the prompt says already.
    """
    kept: list[tuple[int | None, Hit, NormalizedText]] = [
        (None, hit, text) for hit in known if (text := _normalize(hit))
    ]
    places = sorted(
        range(len(hits)), key=lambda place: (_get_rank(hits[place]), -len(hits[place].content), place)
    )
    repetitions: dict[int, int | None] = {}
    for place in places:
        text = _normalize(hits[place])
        if text is None:
            continue
        for other, hit, other_text in kept:
            if _has_same_speaker(hits[place], hit) and _says_the_same(text, other_text):
                repetitions[place] = other
                break
        else:
            kept.append((place, hits[place], text))
    return repetitions


def _get_rank(hit: Hit) -> int:
    if hit.record is not None and hit.record.is_headline:
        return 4  # so that no other one is left out for it
    if hit.record is not None:
        return int(hit.record.kind == "insight")
    return 2 if hit.paragraph is not None else 3


def _has_same_speaker(hit: Hit, other: Hit) -> bool:
    """Return whether both are not turns, or turns of one speaker: "I like tea" of two people says two things."""
    if hit.turn is None or other.turn is None:
        return True
    return (hit.turn.role, hit.turn.speaker) == (other.turn.role, other.turn.speaker)


def _normalize(hit: Hit) -> NormalizedText | None:
    """Return the words of the hit; None for what is too long to be compared or says nothing."""
    text = hit.content if hit.paragraph is None else hit.paragraph.text
    if len(text) > _LONGEST_COMPARED:
        return None
    words = normalize_cached(text)
    return words if words.words else None


@lru_cache(maxsize=4_096)
def _compute_keys(text: str) -> frozenset[str]:
    return frozenset(compute_keys(normalize_cached(text)))


def _says_the_same(text: NormalizedText, other: NormalizedText) -> bool:
    """Return whether the kept text says what the other one says, to a few words without names or numbers."""
    if _compute_keys(text.text).isdisjoint(_compute_keys(other.text)):
        return False
    if is_repetition(text, other):
        return True
    if len(other.words) < _NEARLY_WHOLE * len(text.words) or not is_repetition(other, text):
        return False
    return not extract_specifics(text.text).find_missing_from(extract_specifics(other.text))
