"""Protection of a page against a rewrite that leaves something out.

A model that updates a page returns the whole of it, and may return half. So an old line may go only if the new text
has a successor: a line with its specifics (names, numbers, dates, code, negations) and most of its words, or, in the
same place, that line reworded or with one value replaced. A line without a successor stays where it was. A line kept
needlessly is a repetition; a line dropped wrongly is a loss.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from reverie.domain.similarity.specifics import NEGATIONS, Specifics, extract_specifics
from reverie.domain.word_lists import parse_word_set

_MARKER = re.compile(r"\s*(?:#{1,6}\s+|(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|>\s*)*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+\S")
_BARE_MARKER = re.compile(r"(?<=\n)[^\S\n]*(?:#{1,6}|[-*+>]|\d{1,3}[.)])\s*\Z")
_SAYS_SOMETHING = re.compile(r"\w")
_DIGIT = re.compile(r"\d")

_ALIKE = 0.75
"""A successor has at least this share of the words that carry the old line."""

_ALIKE_IN_PLACE = 0.5
"""The same for a line that stands where the old one stood."""

_ALIKE_IN_PART = 0.3
"""The same for one of several lines that say together what the old one said."""

_REVISED = 0.6
"""A line with one value exchanged keeps at least this share of its words."""

_DENYING = NEGATIONS | parse_word_set(
    "don't forbidden prohibited banned disallowed deprecated rejected wrong false obsolete outdated dislikes"
)
"""Words of a heading under which a line says the opposite of what it says elsewhere."""

_MOST_CANDIDATES = 12
_LONGEST_RUN = 3
"""So many new lines, one after the other, may together say what one old line said."""


class GuardedRewrite(NamedTuple):
    """Rewrite of a page with all that it left out put back.

    Attributes:
        text: The new text, with the old lines that had to be kept.
        kept: These lines, in their order.
    """

    text: str
    kept: tuple[str, ...]


def guard_rewrite(old: str, new: str) -> GuardedRewrite:
    r"""Return the rewrite `new` of `old`, with every line of `old` that would be lost without a successor.

    A new text that says nothing at all gives the old one back. A last line that is the beginning of an old
    one is taken as cut off, and the old line stands instead. What is only moved, joined, split, reworded or
    brought up to date ("port 5432" to "port 5433") is not kept back. A negation is never given up by
    exchanging a value, and a line under a heading that has gone needs a successor that holds the heading's
    specifics too.

    Args:
        old: The page as it was when the rewrite was asked for.
        new: The rewrite.

    Example:
        >>> page = "# Facts\n- Ann lives in Oslo\n- Never deploy on Fridays\n- The port is 5432\n"
        >>> guard_rewrite(page, "# Facts\n- The port is 5433\n").kept
        ('- Ann lives in Oslo', '- Never deploy on Fridays')
        >>> guard_rewrite(page, "").text == page
        True
    """
    if not _SAYS_SOMETHING.search(new):
        return GuardedRewrite(old, tuple(line for line in old.split("\n") if _SAYS_SOMETHING.search(line)))
    before = _read(old)
    text = _trim_broken_end(before, new)
    after = _Rewrite(_read(text), {line.form for line in before})
    places, lost = _judge(before, after)
    if not lost:
        return GuardedRewrite(text, ())
    return GuardedRewrite(
        _restore_lost_lines(text, before, after, places, lost), tuple(line.text for line in lost)
    )


# -- reading -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Line:
    """A line that says something.

    Attributes:
        number: Its number in the text, blank lines counted.
        text: As it stands there.
        form: What makes it the same as another: its words without marks and case.
        heading: The heading that it stands under; None for none, and for headings.
        is_heading: Whether it is one.
    """

    number: int
    text: str
    form: str
    heading: _Line | None
    is_heading: bool

    @cached_property
    def plain(self) -> str:
        """Its words as they are written, without the marks of headings and lists."""
        return _MARKER.sub("", self.text, count=1).strip()

    @cached_property
    def own(self) -> Specifics:
        return extract_specifics(self.plain)

    @cached_property
    def together(self) -> Specifics:
        """Specifics of the line and its heading."""
        return self.own if self.heading is None else extract_specifics(f"{self.heading.plain}\n{self.plain}")

    @cached_property
    def is_denied(self) -> bool:
        """Whether its heading denies what it says, as "Never" does."""
        words = () if self.heading is None else self.heading.words
        return any(word in _DENYING or word.endswith("n't") for word in words)

    @cached_property
    def words(self) -> list[str]:
        return self.own.wording.split() or [self.form]

    @cached_property
    def carrying(self) -> frozenset[str]:
        """Stems of its words, numbers, names and the like; all words if there are none."""
        carrying = self.own
        denied = {value.removeprefix("not ") for value in carrying.negations}
        numbers = carrying.numbers | carrying.times
        return (
            carrying.affirmed | denied | numbers | carrying.addresses | carrying.code | carrying.scripts
            or frozenset(self.words)
        )


def _read(text: str) -> list[_Line]:
    lines: list[_Line] = []
    heading: _Line | None = None
    for number, line in enumerate(text.split("\n")):
        if not _SAYS_SOMETHING.search(line):
            continue
        form = " ".join(_MARKER.sub("", line, count=1).casefold().split())
        is_heading = bool(_HEADING.match(line))
        read = _Line(number, line, form, None if is_heading else heading, is_heading)
        heading = read if is_heading else heading
        lines.append(read)
    return lines


def _trim_broken_end(before: Sequence[_Line], new: str) -> str:
    """Return the new text without a last line that is a truncated old line or a list mark alone."""
    new = _BARE_MARKER.sub("", new)
    last = _read(new)[-1]
    if any(line.form == last.form for line in before):
        return new
    if not any(line.form.startswith(last.form) for line in before):
        return new
    return "\n".join(new.split("\n")[: last.number])


# -- looking for successors --------------------------------------------------------------------------------


class _Rewrite:
    """The new text, ready to be asked for successors. A place is the number of one of its lines."""

    def __init__(self, lines: Sequence[_Line], old_forms: set[str]) -> None:
        self.lines = lines
        self._old_forms = old_forms
        self._by_form: dict[str, list[int]] = {}
        self._by_word: dict[str, list[int]] = {}
        for place, line in enumerate(lines):
            self._by_form.setdefault(line.form, []).append(place)
            for word in line.carrying:
                self._by_word.setdefault(word, []).append(place)

    def has_heading_of(self, line: _Line) -> bool:
        """Return whether the heading of an old line is there still, or there was none."""
        return line.heading is None or line.heading.form in self._by_form

    def added(self, places: Iterable[int]) -> list[int]:
        """Return those of the places whose lines are no old ones."""
        return [place for place in places if self.lines[place].form not in self._old_forms]

    def find_equivalent(self, line: _Line) -> int | None:
        """Return the place of a line that says what the old line said; None if there is none."""
        has_heading = self.has_heading_of(line)
        for place in self._by_form.get(line.form, ()):
            if self.lines[place].is_denied != line.is_denied:
                continue
            if has_heading or _has_all_specifics(self.lines[place].together, line.together):
                return place
        for place in self._find_similar(line, _ALIKE):
            new = self.lines[place]
            if new.is_denied != line.is_denied:
                continue
            if (
                _has_all_specifics(new.own, line.own)
                if has_heading
                else _has_all_specifics(new.together, line.together)
            ):
                return place
        for place in self.added(self._find_similar(line, _ALIKE_IN_PART)):
            if self._is_covered_by_run(place, line):
                return place
        return None

    def _find_similar(self, line: _Line, share: float) -> list[int]:
        """Return lines with at least this share of the stems, the largest share first."""
        shared = Counter(place for word in line.carrying for place in self._by_word.get(word, ()))
        places = [place for place, count in shared.items() if count >= share * len(line.carrying)]
        return sorted(places, key=lambda place: (-shared[place], place))[:_MOST_CANDIDATES]

    def _is_covered_by_run(self, place: int, line: _Line) -> bool:
        """Return whether new lines around `place` together have the line, as when one line was split into several."""
        for start in range(max(0, place - _LONGEST_RUN + 1), place + 1):
            run = self.added(range(start, min(start + _LONGEST_RUN, len(self.lines))))
            run = [each for each in run if self.lines[each].is_denied == line.is_denied]
            words = frozenset().union(*(self.lines[each].carrying for each in run))
            if len(run) > 1 and len(words & line.carrying) >= _ALIKE * len(line.carrying):
                specifics = extract_specifics("\n".join(self.lines[each].plain for each in run))
                if _has_all_specifics(specifics, line.own):
                    return True
        return False


def _has_all_specifics(new: Specifics, old: Specifics) -> bool:
    """Return whether the new text has everything specific of the old one, including words with a digit."""
    if old.find_missing_from(new):
        return False
    numbered = {word for word in old.wording.split() if _DIGIT.search(word)}
    return numbered <= set(new.wording.split())


def _judge(before: Sequence[_Line], after: _Rewrite) -> tuple[dict[_Line, int], list[_Line]]:
    """Return the place of each old line in the new text, and the lines without one."""
    places = {line: place for line in before if (place := after.find_equivalent(line)) is not None}
    for old, new in _find_gaps(before, len(after.lines), places):
        remaining = [line for line in old if after.has_heading_of(line)]
        free = after.added(new)
        exchanged = _match_exchanged_lines(remaining, free, after.lines)
        places |= exchanged
        if len(new) >= len(old):
            left = [place for place in free if place not in exchanged.values()]
            places |= _match_reworded_lines(
                [line for line in remaining if line not in exchanged], left, after.lines
            )
    return places, [line for line in before if line not in places and (not line.is_heading or bool(line.own))]


def _find_gaps(
    before: Sequence[_Line], count: int, places: Mapping[_Line, int]
) -> list[tuple[Sequence[_Line], range]]:
    """Yield stretches of old lines without a place, each with the places around it."""
    held = [-1, *(number for number, line in enumerate(before) if line in places), len(before)]
    gaps = []
    for first, last in pairwise(held):
        if last - first > 1:
            start = places[before[first]] + 1 if first >= 0 else 0
            stop = places[before[last]] if last < len(before) else count
            gaps.append((before[first + 1 : last], range(start, stop)))
    return gaps


def _match_exchanged_lines(
    old: Sequence[_Line], new: Sequence[int], lines: Sequence[_Line]
) -> dict[_Line, int]:
    """Return old lines with the places where they stand with one value replaced, if that is unambiguous."""
    by_first_word: dict[str, list[int]] = {}
    for place in new:
        by_first_word.setdefault(lines[place].words[0], []).append(place)
    pairs = [
        (line, place)
        for line in old
        for place in by_first_word.get(line.words[0], ())
        if line.is_heading == lines[place].is_heading
        and line.is_denied == lines[place].is_denied
        and line.own.negations <= lines[place].own.negations
        and _is_one_value_exchanged(line.words, lines[place].words)
    ]
    of_line, of_place = Counter(line for line, _ in pairs), Counter(place for _, place in pairs)
    return {line: place for line, place in pairs if of_line[line] == of_place[place] == 1}


def _is_one_value_exchanged(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether the words are the same at the beginning and the end, and others between them."""
    most = min(len(old), len(new))
    start = 0
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    same = start + end
    return start > 0 and same < most and same >= _REVISED * len(old)


def _match_reworded_lines(
    old: Sequence[_Line], new: Sequence[int], lines: Sequence[_Line]
) -> dict[_Line, int]:
    """Return old lines with the places where they stand in other words, each place for one line."""
    matched: dict[_Line, int] = {}
    free = list(new)
    for line in old:
        for place in free:
            shared = len(line.carrying & lines[place].carrying)
            if (
                line.is_denied == lines[place].is_denied
                and shared >= _ALIKE_IN_PLACE * len(line.carrying)
                and _has_all_specifics(lines[place].own, line.own)
            ):
                matched[line] = place
                free.remove(place)
                break
    return matched


# -- putting back ------------------------------------------------------------------------------------------


def _restore_lost_lines(
    text: str,
    before: Sequence[_Line],
    after: _Rewrite,
    places: Mapping[_Line, int],
    lost: Sequence[_Line],
) -> str:
    """Return the new text with the lost lines in their places: after their predecessors, under their heading."""
    lines = text.split("\n")
    put: dict[int, list[str]] = {}
    missing = set(lost)
    restored: set[_Line] = set()
    ends: dict[_Line | None, int] = {None: 0}  # behind the last line of each section that is there
    last = 0  # behind the last line that is there
    for line in before:
        section = line if line.is_heading else line.heading
        if line in places:
            last = ends[section] = after.lines[places[line]].number + 1
        elif line not in missing:
            continue
        elif section is not None and section not in places:
            spot = ends.setdefault(section, _find_section_end(lines, last))
            block = put.setdefault(spot, [])
            if section not in restored:
                restored.add(section)
                block += ["", section.text]
            if line is not section:
                block.append(line.text)
        else:
            put.setdefault(ends[section], []).append(line.text)
    for spot in sorted(put, reverse=True):
        lines[spot:spot] = _set_apart(put[spot], lines, spot)
    while len(lines) > 1 and not lines[-2].strip() and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines)


def _find_section_end(lines: Sequence[str], start: int) -> int:
    """Return the end of the section around line `start`: before the next heading and its blank lines."""
    end = next((n for n in range(start, len(lines)) if _HEADING.match(lines[n])), len(lines))
    while end > start and not lines[end - 1].strip():
        end -= 1
    return end


def _set_apart(block: list[str], lines: Sequence[str], spot: int) -> list[str]:
    """Return a block that begins with a heading with one blank line before and after it."""
    if block[0] == "":
        if spot == 0 or not lines[spot - 1].strip():
            block = block[1:]
        if spot < len(lines) and lines[spot].strip():
            block = [*block, ""]
    return block
