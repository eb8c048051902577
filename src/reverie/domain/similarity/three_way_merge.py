"""Three-way merge of values and texts that two sides changed.

`base` is the common base version, `ours` the program's version, `theirs` the person's. In a conflict the person's
version is taken, and the result reports it. The caller finds the base version and keeps the losing one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, TypeVar

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import MOST_LABELS, Record, merge_tags

V = TypeVar("V", bound=Record | Turn | SessionState | Page | Paragraph)

_TOGETHER = (("archived_at", "archive_reason"), ("valid_from", "valid_to"), ("window_start", "summary"))
"""Fields that belong together, and are taken from the same side."""


# -- values ------------------------------------------------------------------------------------------------


def merge_values(base: V | None, ours: V, theirs: V) -> tuple[V, tuple[str, ...]]:
    r"""Return one value with the changes of both sides, and the fields that both changed differently.

    A field that one side changed is taken from it. A field that both changed differently is a conflict, and `theirs`
    is taken. Some fields never conflict. `tags` and `references` merge as sets in the order of `theirs`, the content
    of a page merges by lines (`merge_text`), `updated_at` and `last_seen_at` take the later time, and `seen_count`
    takes both increments. The two times of validity are merged as one field, and so are archiving and its reason.

    Args:
        base: The common base version. None if it is unknown; then every difference is a change of both.
        ours: The program's version. If it equals `base`, the result is exactly `theirs`.
        theirs: The person's version. If it equals `base`, the result is exactly `ours`.

    Raises:
        InvalidInput: they are versions of different values.

    Example:
        >>> from datetime import datetime, UTC
        >>> old = Page(name="MEMORY.md", content="one\ntwo\n", updated_at=datetime(2026, 1, 1, tzinfo=UTC))
        >>> ours = replace(old, content="one\ntwo\nthree\n")
        >>> theirs = replace(old, content="ONE\ntwo\n")
        >>> merge_values(old, ours, theirs)[0].content
        'ONE\ntwo\nthree\n'
    """
    for one in (base, ours):
        if one is not None and (type(one), one.id) != (type(theirs), theirs.id):
            raise InvalidInput(f"{one.id!r} and {theirs.id!r} are different objects: merge versions of one")
    if ours == theirs or theirs == base:
        return ours, ()
    if ours == base:
        return theirs, ()
    values: dict[str, Any] = {}
    conflicts: list[str] = []
    mergers = {**_MERGERS, "content": merge_text} if isinstance(theirs, Page) else _MERGERS
    groups = {name: group for group in _TOGETHER for name in group}
    for names in dict.fromkeys(groups.get(each.name, (each.name,)) for each in fields(theirs)):
        sides: list[Any] = [[getattr(side, name, None) for name in names] for side in (base, ours, theirs)]
        was, mine, yours = sides
        if mine == yours or (base is not None and yours == was):
            yours = mine
        elif base is None or mine != was:
            if merge := mergers.get(names[0]):
                yours = [merge(*(side[0] for side in sides))]
            else:
                conflicts += names
        values |= zip(names, yours, strict=True)
    return replace(theirs, **values), tuple(conflicts)


def _merge_labels(old: Sequence[str] | None, mine: Sequence[str], yours: Sequence[str]) -> tuple[str, ...]:
    was = set(old or ())
    removed = was - set(mine)
    kept = [label for label in yours if label not in removed]
    return tuple(dict.fromkeys([*kept, *(label for label in mine if label not in was)]))[:MOST_LABELS]


_MERGERS: Mapping[str, Callable[[Any, Any, Any], Any]] = MappingProxyType(
    {
        "updated_at": lambda _, mine, yours: max(mine, yours),
        "last_seen_at": lambda _, mine, yours: max(mine, yours),
        "seen_count": lambda was, mine, yours: max(1, mine + yours - was) if was else max(mine, yours),
        "tags": lambda was, mine, yours: merge_tags(_merge_labels(was, mine, yours)),
        "references": _merge_labels,
    }
)
"""Fields that never conflict, with the value of a field that both sides changed."""


# -- texts -------------------------------------------------------------------------------------------------


def merge_text(base: str | None, ours: str, theirs: str) -> str:
    r"""Return one text with the changes that both sides made to `base`, line by line.

    The result has every line that a side added or changed. A line that a side removed is left out, unless the other
    side changed it. Where both sides changed the same place, the result has both versions, `theirs` first, with common
    lines once. There are no conflict markers. Repeated lines may be doubled in a long text, but are never lost.

    Args:
        base: The common base version; lines end in `\n`. None stands for an empty one.
        ours: One side. If it equals `base`, the result is exactly `theirs`.
        theirs: The other side. If it equals `base`, the result is exactly `ours`.

    Example:
        >>> merge_text("a\nb\n", "a\nours\n", "a\ntheirs\n")
        'a\ntheirs\nours\n'
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    was, mine, yours = map(split_lines, (base or "", ours, theirs))
    hunks = [
        (*old, is_mine, side[slice(*new)])
        for is_mine, side in ((False, yours), (True, mine))
        for old, new in find_changed_ranges(was, side)
    ]
    sections: list[
        tuple[int, int, list[str], list[str]]
    ] = []  # changed lines of the base; those of both sides
    for start, stop, is_mine, lines in sorted(hunks):
        if not sections or not (start < sections[-1][1] or (start, stop) == sections[-1][:2]):
            sections.append((start, stop, [], []))
        first, last, their_lines, our_lines = sections.pop()
        (our_lines if is_mine else their_lines).extend(lines)
        sections.append((first, max(last, stop), their_lines, our_lines))
    result: list[str] = []
    done = 0
    for start, stop, their_lines, our_lines in sections:
        result += [*was[done:start], *_combine_sides(their_lines, our_lines)]
        done = stop
    result += was[done:]
    return "\n".join(result) + "\n" * any(text.endswith("\n") for text in (ours, theirs)) if result else ""


def _combine_sides(theirs: list[str], ours: list[str]) -> list[str]:
    """Return both versions of a section, `theirs` first, with common lines once. A blank line stays with its text."""
    result: list[str] = []
    left = right = 0
    common = [(i, j) for i, j in match_items(theirs, ours) if theirs[i]]
    for i, j in [*common, (len(theirs), len(ours))]:
        yours, mine = theirs[left:i], ours[right:j]
        result += [*yours, *(mine if mine != yours[: len(mine)] else []), *theirs[i : i + 1]]
        left, right = i + 1, j + 1
    return result


def match_items(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the common items of two sequences, as pairs of ascending positions.

    Of 200 items or more, those that are over a hundredth of them only count at the beginning, at the end and beside
    others, so the time stays short for texts of repeated lines.

    Example:
        >>> match_items(["a", "b", "c"], ["a", "x", "c"])
        [(0, 0), (2, 2)]
    """
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    tail = next((n for n in range(shorter - head) if old[-1 - n] != new[-1 - n]), shorter - head)
    inner = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    blocks = [(head + i, head + j, size) for i, j, size in inner.get_matching_blocks()]
    blocks = [(0, 0, head), *blocks, (len(old) - tail, len(new) - tail, tail)]
    return [(i + n, j + n) for i, j, size in blocks for n in range(size)]


def find_changed_ranges(
    old: Sequence[str], new: Sequence[str]
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the ranges of lines in which two texts differ: that of the old text and that of the new one."""
    i = j = 0
    for a, b in [*match_items(old, new), (len(old), len(new))]:
        if i < a or j < b:
            yield (i, a), (j, b)
        i, j = a + 1, b + 1


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; none for an empty text."""
    return text.removesuffix("\n").split("\n") if text else []
