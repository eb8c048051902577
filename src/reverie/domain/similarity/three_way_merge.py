"""Three-way merge of values and texts that two sides changed.

`base` is the common base version, `ours` the program's version, `theirs` the person's. In a conflict the person's
version is taken, and the result reports it. The caller finds the base version and keeps the losing one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import LONGEST_PAGE, Page, Paragraph
from reverie.domain.record import MOST_LABELS, Record, merge_tags

V = TypeVar("V", bound=Record | Turn | SessionState | Page | Paragraph)

_TOGETHER: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {Record: ("archived_at", "archive_reason"), SessionState: ("window_start", "summary")}
)
"""Fields that belong together, and are taken from the same side."""


# -- values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Generic[V]):
    """Result of a merge.

    Attributes:
        value: The merged value.
        conflicts: The fields that both sides changed differently, such as `content`. Their
            values are those of `theirs`.
    """

    value: V
    conflicts: tuple[str, ...]


def merge_values(base: V | None, ours: V, theirs: V) -> MergeResult[V]:
    r"""Return one value with the changes of both sides.

    A field that one side changed is taken from it. A field that both changed differently is a conflict, and `theirs`
    is taken. Some fields never conflict. `tags` and `references` merge as sets in the order of `theirs`, the content
    of a page merges by lines (`merge_text`), `updated_at` and `last_seen_at` take the later time, and `seen_count`
    takes both increments. Changes that are valid alone but not together are conflicts too,
    such as a `valid_to` before the `valid_from`.

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
        >>> merge_values(old, ours, theirs).value.content
        'ONE\ntwo\nthree\n'
    """
    for one in (base, ours):
        if one is not None and (type(one), one.id) != (type(theirs), theirs.id):
            raise InvalidInput(f"{one.id!r} and {theirs.id!r} are different things: merge versions of one")
    if ours == theirs or theirs == base:
        return MergeResult(value=ours, conflicts=())
    if ours == base:
        return MergeResult(value=theirs, conflicts=())
    values: dict[str, Any] = {}
    conflicts: list[str] = []
    mergers = {**_MERGERS, "content": _merge_pages} if isinstance(theirs, Page) else _MERGERS
    for name in (each.name for each in fields(theirs)):
        sides: list[Any] = [getattr(side, name, None) for side in (base, ours, theirs)]
        was, mine, yours = sides
        if mine == yours or (base is not None and yours == was):
            values[name] = mine
        elif base is not None and mine == was:
            values[name] = yours
        elif name in mergers:
            values[name] = mergers[name](was, mine, yours)
        else:
            values[name] = yours
            conflicts.append(name)
    for name in _list_mismatches(values, ours, theirs):
        values[name] = getattr(theirs, name)
        conflicts.append(name)
    return MergeResult(value=replace(theirs, **values), conflicts=tuple(dict.fromkeys(conflicts)))


def _merge_pages(was: str | None, mine: str, yours: str) -> str:
    return merge_text(was or "", mine, yours)


def _merge_labels(old: Sequence[str] | None, mine: Sequence[str], yours: Sequence[str]) -> tuple[str, ...]:
    was = set(old or ())
    removed = was - set(mine)
    kept = [label for label in yours if label not in removed]
    return tuple(dict.fromkeys([*kept, *(label for label in mine if label not in was)]))


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


def _list_mismatches(values: Mapping[str, Any], ours: object, theirs: object) -> Iterator[str]:
    """Yield the fields that are valid on both sides but not merged, so that both have to come from one side."""
    together = _TOGETHER.get(type(theirs), ())
    sides = [[getattr(side, name) for name in together] for side in (ours, theirs)]
    if [values[name] for name in together] not in sides:
        yield from together
    if isinstance(theirs, Record):
        start, end = values["valid_from"], values["valid_to"]
        if start is not None and end is not None and end < start:
            yield from ("valid_from", "valid_to")
        yield from (name for name in ("references", "tags") if len(values[name]) > MOST_LABELS)
    if isinstance(theirs, Page) and len(values["content"]) > LONGEST_PAGE:
        yield "content"


# -- texts -------------------------------------------------------------------------------------------------


def merge_text(base: str, ours: str, theirs: str) -> str:
    r"""Return one text with the changes that both sides made to `base`, line by line.

    The result has every line that a side added or changed. A line that a side removed is left out, unless the other
    side changed it. Where both sides changed the same place, the result has both versions, `theirs` first, with common
    lines once. There are no conflict markers. Repeated lines may be doubled in a long text, but are never lost.

    Args:
        base: The common base version; lines end in `\n`.
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
    was, mine, yours = split_lines(base), split_lines(ours), split_lines(theirs)
    result: list[str] = []
    done = 0
    for cluster in _cluster_changes(was, mine, yours):
        result += was[done : cluster.start]
        result += _combine_sides(cluster.theirs, cluster.ours)
        done = cluster.stop
    result += was[done:]
    return "\n".join(result) + _merge_line_end(base, ours, theirs) if result else ""


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


@dataclass(slots=True)
class _Cluster:
    """Changed section of the base, with the lines of each side."""

    start: int
    stop: int
    theirs: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; none for an empty text."""
    return text.removesuffix("\n").split("\n") if text else []


def _merge_line_end(base: str, ours: str, theirs: str) -> str:
    """Return the line end after the last line; an empty side is ignored."""
    was, mine, yours = ("\n" if text.endswith("\n") else "" for text in (base, ours, theirs))
    if not ours or not theirs:
        return yours or mine
    return mine if yours == was else yours


def _cluster_changes(was: Sequence[str], mine: Sequence[str], yours: Sequence[str]) -> list[_Cluster]:
    """Return the changes of both sides in order, with one cluster for changes of the same lines or gap."""
    hunks = [
        (*old, is_mine, side[slice(*new)])
        for is_mine, side in ((False, yours), (True, mine))
        for old, new in find_changed_ranges(was, side)
    ]
    clusters: list[_Cluster] = []
    for start, stop, is_mine, lines in sorted(hunks):
        last = clusters[-1] if clusters else None
        if last is None or not (start < last.stop or (start, stop) == (last.start, last.stop)):
            clusters.append(last := _Cluster(start, stop))
        last.stop = max(last.stop, stop)
        (last.ours if is_mine else last.theirs).extend(lines)
    return clusters


def _combine_sides(theirs: list[str], ours: list[str]) -> list[str]:
    """Return both versions of a section, `theirs` first, with common lines once."""
    if _is_within(ours, theirs):
        return theirs
    if _is_within(theirs, ours):
        return ours
    yours, mine = _group_blank_lines(theirs), _group_blank_lines(ours)
    result: list[str] = []
    left = right = 0
    for i, j in [*match_items(yours, mine), (len(yours), len(mine))]:
        for some in (yours[left:i], mine[right:j], yours[i : i + 1]):
            result += [line for lines in some for line in lines]
        left, right = i + 1, j + 1
    return result


def _group_blank_lines(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each line with its blank lines: the following ones, or the preceding ones if the text begins with one."""
    before = bool(lines) and not lines[0]
    groups: list[tuple[str, ...]] = []
    for line in lines:
        alone = bool(groups) and not any(groups[-1])
        if groups and (alone if before else not line):
            groups[-1] += (line,)
        else:
            groups.append((line,))
    return groups


def _is_within(short: list[str], long: list[str]) -> bool:
    if not short:
        return True
    return "\n".join(["", *short, ""]) in "\n".join(["", *long, ""])
