"""Excerpts: the part of a long text with most of some words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from reverie.domain.text import tokenizer


def find_excerpt_start(text: str, matched: Collection[str], longest: int) -> int:
    """Return the start of the part of `text` with most different matched words; 0 without any.

    The words are within half of `longest`. The part begins a quarter of `longest` before them, since a sentence
    rarely begins with a matched word.

    Args:
        text: The text.
        matched: Words in the analyzer's form.
        longest: The characters of the part.
    """
    wanted = frozenset(matched)
    if not wanted:
        return 0
    language = tokenizer.find_language(text)
    places = [
        (match.start(), term)
        for match in re.finditer(r"\S+", text)
        for _, parts, wholes in tokenizer.tokenize_chunks(match.group(), language)
        for term in wanted.intersection((*parts, *wholes))
    ]
    inside: Counter[str] = Counter()
    best, most, end = 0, 0, 0
    for first, (at, term) in enumerate(places):
        while end < len(places) and places[end][0] < at + longest // 2:
            inside[places[end][1]] += 1
            end += 1
        if len(inside) > most:
            best, most = at, len(inside)
        assert end > first
        inside[term] -= 1
        if not inside[term]:
            del inside[term]
    if best < longest // 2:
        return 0
    return text.rfind(" ", 0, max(0, best - longest // 4)) + 1
