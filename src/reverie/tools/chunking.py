"""Split a long text into pieces that can be read alone: at headings, else at blank lines, else by size.

The pieces together are the text, to the character.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from reverie.domain.lazy_regex import defer_regex

_HEADING = defer_regex(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = defer_regex(r" {0,3}(`{3,}|~{3,})")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
_LEAST_FULL = 2  # a piece is at least half full, unless that would split a block of code
_LOOKBACK = 64  # characters that are searched backwards for a boundary between letters


@dataclass(slots=True)
class _Places:
    """Places where a text may be split, each list ascending.

    Attributes:
        headings: Before a heading, by its level, the largest first.
        blanks: After blank lines.
        lines: At ends of lines outside of code blocks.
        inside: At ends of lines within them.
        fences: Where a code block begins and ends.
    """

    headings: list[list[int]] = field(default_factory=lambda: [[] for _ in range(6)])
    blanks: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    inside: list[int] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)


def split_text(text: str, longest: int) -> list[str]:
    """Return the text in pieces of at most `longest` characters, in order."""
    places = _find_cut_places(text)
    cut = []
    start = 0
    while len(text) - start > longest:
        end = _find_cut(text, places, start, start + longest)
        cut.append(text[start:end])
        start = end
    if text[start:] or not cut:
        cut.append(text[start:])
    return cut


def _find_cut(text: str, places: _Places, start: int, furthest: int) -> int:
    """Return where the piece that begins at `start` ends, at most at `furthest`."""
    least = start + max(1, (furthest - start) // _LEAST_FULL)
    for candidates in (*places.headings, places.blanks, places.lines):
        found = _find_last_place(candidates, least, furthest)
        if found is not None:
            return found
    before = _find_last_place(places.lines, start + 1, furthest)
    if before is not None and _is_whole_afterwards(places.fences, before, furthest - start):
        return before
    found = _find_last_place(places.inside, least, furthest)
    if found is not None:
        return found
    space = max(text.rfind(" ", least, furthest), text.rfind("\n", least, furthest))
    return space + 1 if space >= 0 else _find_letter_boundary(text, start, furthest)


def _find_last_place(places: Sequence[int], least: int, most: int) -> int | None:
    """Return the last place within bounds, both included."""
    at = bisect_right(places, most) - 1
    return places[at] if at >= 0 and places[at] >= least else None


def _is_whole_afterwards(fences: Sequence[tuple[int, int]], at: int, longest: int) -> bool:
    """Whether a code block begins at a place, and fits into a piece of its own."""
    number = bisect_left(fences, (at, 0))
    return number < len(fences) and fences[number][0] == at and fences[number][1] - at <= longest


def _find_letter_boundary(text: str, start: int, furthest: int) -> int:
    """Return the last place that splits neither a letter from its accents nor a line end."""
    for at in range(furthest, max(start, furthest - _LOOKBACK), -1):
        following, before = text[at], text[at - 1]
        if unicodedata.combining(following) or following in _JOINERS or before == "\u200d":
            continue
        if (before, following) != ("\r", "\n"):
            return at
    return furthest


def _find_cut_places(text: str) -> _Places:
    """Return every place where the text may be split."""
    places = _Places()
    rows = _find_line_spans(text)
    fences = _find_fences(text, rows)
    inside_until = -1
    blank_before = False
    for start, end in rows:
        if start in fences:
            inside_until = fences[start]
            places.fences.append((start, inside_until))
        is_inside = start < inside_until and start not in fences
        row = text[start : min(end, start + 80)]
        if start and is_inside:
            places.inside.append(start)
        elif start:
            places.lines.append(start)
            if blank_before and row.strip():
                places.blanks.append(start)
            if heading := _HEADING.match(row):
                places.headings[len(heading[1]) - 1].append(start)
        blank_before = not is_inside and not text[start:end].strip()
    return places


def _find_line_spans(text: str) -> list[tuple[int, int]]:
    """Return the beginning and the end of each line, line end included."""
    ends = [found.end() for found in re.finditer("\n", text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    return list(zip([0, *ends], ends, strict=False))


def _find_fences(text: str, rows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the beginning and the end of each code block. A block that is never closed is none."""
    found: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for start, end in rows:
        fence = _FENCE.match(text, start, min(end, start + 200))
        if fence is None:
            continue
        if opened is None:
            opened = (start, fence[1])
        elif fence[1].startswith(opened[1]) and not text[fence.end() : end].strip():
            found[opened[0]] = end
            opened = None
    return found
