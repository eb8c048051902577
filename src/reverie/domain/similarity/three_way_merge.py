"""Three-way merge of values and texts that two sides changed.

`base` is the common base version, `ours` the program's version, `theirs` the person's. In a conflict the person's
version is taken, and the result reports it. The caller finds the base version and keeps the losing one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import SequenceMatcher
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import LONGEST_PAGE, Page, Paragraph
from reverie.domain.record import MOST_LABELS, Record, merge_tags

V = TypeVar("V", bound=Record | Turn | SessionState | Page | Paragraph)

_TOGETHER: Mapping[type, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {Record: (("archived_at", "archive_reason"),), SessionState: (("window_start", "summary"),)}
)
"""Fields that belong together, and are taken from the same side."""

_MAX_CELLS = 100_000
"""Most pairs of repeated lines that are compared; a larger section counts as rewritten."""


# -- values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult(Generic[V]):
    """Result of a merge.

    Attributes:
        value: The merged value.
        conflicts: The fields that both sides changed differently, such as `content` or `metadata.owner`. Their
            values are those of `theirs`.
    """

    value: V
    conflicts: tuple[str, ...]


def merge_values(base: V | None, ours: V, theirs: V) -> MergeResult[V]:
    r"""Return one value with the changes of both sides.

    A field that one side changed is taken from it. A field that both changed differently is a conflict, and `theirs`
    is taken. Some fields never conflict. `tags` and `references` merge as sets in the order of `theirs`, the content
    of a page merges by lines (`merge_text`), `updated_at` and `last_seen_at` take the later time, and `seen_count`
    takes both increments. `metadata` merges by key. Changes that are valid alone but not together are conflicts too,
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
    for other in (ours, theirs):
        if base is not None and (type(other) is not type(base) or other.id != base.id):
            raise InvalidInput(f"{other.id!r} and {base.id!r} are different things: merge versions of one")
    if type(ours) is not type(theirs) or ours.id != theirs.id:
        raise InvalidInput(f"{ours.id!r} and {theirs.id!r} are different things: merge versions of one")
    if ours == theirs or theirs == base:
        return MergeResult(value=ours, conflicts=())
    if ours == base:
        return MergeResult(value=theirs, conflicts=())
    values: dict[str, Any] = {}
    conflicts: list[str] = []
    for group in _iterate_field_groups(type(theirs)):
        name = group[0]
        mine, yours = ({each: getattr(side, each) for each in group} for side in (ours, theirs))
        was = {each: getattr(base, each) for each in group} if base is not None else {}
        if mine == yours or yours == was:
            values |= mine
        elif mine == was:
            values |= yours
        elif name in _MERGERS:
            values[name] = _MERGERS[name](was.get(name), mine[name], yours[name])
        elif name == "metadata":
            merged, clashing = _merge_mapping(was.get(name) or {}, mine[name], yours[name])
            values[name] = MappingProxyType(merged)
            conflicts += [f"metadata.{key}" for key in clashing]
        elif name == "content" and isinstance(theirs, Page):
            values[name] = merge_text(was.get(name) or "", mine[name], yours[name])
        else:
            values |= yours
            conflicts += [each for each in group if mine[each] != yours[each]]
    conflicts += _repair_invariants(values, ours, theirs)
    return MergeResult(value=replace(theirs, **values), conflicts=tuple(dict.fromkeys(conflicts)))


def _iterate_field_groups(kind: type) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a value in groups; most groups are single fields."""
    together = _TOGETHER.get(kind, ())
    for each in fields(kind):
        group = next((group for group in together if each.name in group), (each.name,))
        if group[0] == each.name:
            yield group


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


def _merge_mapping(
    old: Mapping[str, str], mine: Mapping[str, str], yours: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    result: dict[str, str] = {}
    clashing = []
    for key in dict.fromkeys([*yours, *mine]):
        was, here, there = old.get(key), mine.get(key), yours.get(key)
        taken = here if there == was else there
        if was not in (here, there) and here != there:
            clashing.append(key)
        if taken is not None:
            result[key] = taken
    return result, clashing


def _repair_invariants(values: dict[str, Any], ours: object, theirs: object) -> list[str]:
    """Take fields from `theirs` that are valid on both sides but not merged; return their names."""
    wrong: list[str] = []
    if isinstance(theirs, Record) and isinstance(ours, Record):
        start, end = values["valid_from"], values["valid_to"]
        if start is not None and end is not None and end < start:
            wrong += ["valid_from", "valid_to"]
        wrong += [name for name in ("references", "tags") if len(values[name]) > MOST_LABELS]
    if isinstance(theirs, Page) and len(values["content"]) > LONGEST_PAGE:
        wrong.append("content")
    values |= {name: getattr(theirs, name) for name in wrong}
    return wrong


# -- texts -------------------------------------------------------------------------------------------------


def merge_text(base: str, ours: str, theirs: str) -> str:
    r"""Return one text with the changes that both sides made to `base`, line by line.

    The result has every line that a side added or changed. A line that a side removed is left out, unless the other
    side changed it. Where both sides changed the same place, the result has both versions, `theirs` first, with common
    lines once. There are no conflict markers. A section with over 100,000 pairs of repeated lines counts as
    rewritten; its lines may be doubled, but are never lost.

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

    First the equal items at the beginning and end are paired. Then follow the items that occur once in both, as many
    as have the same order, and the longest common subsequence of the others. Time is nearly linear; a section of
    repeated items costs at most a million comparisons.

    Example:
        >>> match_items(["a", "b", "c"], ["a", "x", "c"])
        [(0, 0), (2, 2)]
    """
    matches: list[tuple[int, int]] = []
    todo = [(0, len(old), 0, len(new))]
    while todo:
        low, high, start, stop = todo.pop()
        while low < high and start < stop and old[low] == new[start]:
            matches.append((low, start))
            low, start = low + 1, start + 1
        while low < high and start < stop and old[high - 1] == new[stop - 1]:
            high, stop = high - 1, stop - 1
            matches.append((high, stop))
        if low == high or start == stop:
            continue
        anchors = _find_anchors(old[low:high], new[start:stop])
        if not anchors:
            if (high - low) * (stop - start) <= _MAX_CELLS:
                blocks = SequenceMatcher(None, old[low:high], new[start:stop], False).get_matching_blocks()
                matches += [(low + i + n, start + j + n) for i, j, size in blocks for n in range(size)]
            continue
        edges = [(low - 1, start - 1), *((low + i, start + j) for i, j in anchors), (high, stop)]
        matches += edges[1:-1]
        todo += [(i + 1, k, j + 1, m) for (i, j), (k, m) in pairwise(edges)]
    return sorted(matches)


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


def _find_anchors(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return items that occur once on both sides; as many as have the same order."""
    old_counts, new_counts = Counter(old), Counter(new)
    places = {item: j for j, item in enumerate(new) if new_counts[item] == 1}
    pairs = [(i, places[item]) for i, item in enumerate(old) if old_counts[item] == 1 and item in places]
    tails: list[int] = []  # the smallest end of an ascending run of each length
    ends: list[int] = []  # and which pair that is
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [n]
    run = []
    at = ends[-1] if ends else -1
    while at >= 0:
        run.append(pairs[at])
        at = before[at]
    return run[::-1]
