"""Three-way merge of hand edits: base, store and file in, changes out. Pure.

What the person changed stands, and what the program changed elsewhere meanwhile stands too. Where both
changed the same thing, the program's version becomes a conflict, to be put beside the file. What a person
may not do to a file is refused with `InvalidInput`; the message says what to do instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from reverie.domain import category
from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import detach_changed
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, validate_paragraph
from reverie.domain.record import Record, validate_record
from reverie.domain.similarity.three_way_merge import match_items, merge_values
from reverie.domain.text import ids
from reverie.domain.text.ids import NewId
from reverie.files.hand_edits.base_versions import normalize_paragraph
from reverie.files.layout import build_path, parse_path
from reverie.files.parsing import (
    EmptiedFile,
    Fields,
    ParsedSession,
    build_record,
    build_session_state,
    build_turn,
    parse_moment,
)

FEW = 20
"""Number of items that may vanish at once. More than this and over half of all count as an accident."""

_ALIKE = 0.6
_MOST_COMPARED = 10_000
_WORD = defer_regex(r"\w+")

_V = TypeVar("_V", Record, Turn, SessionState)


class MergeConflict(NamedTuple):
    """A thing that the program changed in another way than the person.

    Attributes:
        ours: The program's version, which does not stand.
        fields: What both changed.
    """

    ours: Value
    fields: tuple[str, ...]


class MergeDecision(NamedTuple):
    """Result of a merge.

    Attributes:
        edits: The changes to commit.
        clashes: The conflicts with changes of the program.
    """

    edits: tuple[Change, ...] = ()
    clashes: tuple[MergeConflict, ...] = ()


def is_mass_removal(removed: int, before: int) -> bool:
    """Return whether so much has vanished that it looks like an accident."""
    return removed > FEW and 2 * removed > before


# -- records -------------------------------------------------------------------------------------------------


def build_placed_record(fields: Fields, *, id: str, base: Record | None, path: str, now: datetime) -> Record:
    """Return the record that a file or line describes; its place gives the category and the archive.

    Where the folder and a field contradict, the one counts that differs from `base`; if both do, the field.

    Args:
        fields: The fields of the file or line.
        id: The record's id.
        base: The version that the person began with; None for a new record.
        path: The path of the file.
        now: The time.

    Raises:
        InvalidInput: a field, or the name of the folder, is not valid.
    """
    place = parse_path(path)
    assert place is not None
    theirs = build_record(fields, id=id, base=base, place=place, now=now)
    moved = base is None or (build_path(base) != path and not _is_in_day_file(base))
    was_archived = base is not None and base.archived
    if place.form == "record" and moved:
        if base is not None and theirs.category == base.category:
            folder = None if place.category is None else category.validate_category(place.category)
            theirs = replace(theirs, category=folder)
        if theirs.archived == was_archived and place.archived != was_archived:
            theirs = replace(theirs, archived_at=now if place.archived else None)
    if theirs.archived and not was_archived and (base is not None or "archive_reason" not in fields):
        theirs = replace(theirs, archive_reason=fields.get("archive_reason") or "")
    if was_archived and not theirs.archived:
        theirs = replace(theirs, archive_reason="")
    return validate_record(theirs)


def reconstruct_base(written: _V, fields: Fields, unseen: Sequence[Change]) -> _V:
    """Return the base version of a file that may have been opened before it was last written.

    A field, label or metadata entry may have the value from before a change of the program. Then the person
    has not changed it back, but has not seen the change, unless the file has the written `updated_at`.

    Args:
        written: The value as it was last written to the file.
        fields: The fields of the file.
        unseen: The changes that the program made shortly before.
    """
    claimed = fields.get("updated_at", fields.get("created_at"))  # left out where both are the same
    if claimed is not None and claimed == getattr(written, "updated_at", None):
        return written
    values: dict[str, Any] = {}
    for name, value in fields.items():
        base_value = getattr(written, name)
        pairs = [
            (getattr(change.before, name), getattr(change.after, name))
            for change in unseen
            if change.before is not None and change.after is not None
        ]
        if name in ("tags", "references"):
            values[name] = _reconstruct_labels(base_value, value, pairs)
        elif name == "metadata":
            values[name] = MappingProxyType(_reconstruct_mapping(base_value, value, pairs))
        elif value != base_value and any(before == value != after for before, after in pairs):
            values[name] = value
    return replace(written, **values)


def _reconstruct_labels(
    base: Sequence[str], edited: Sequence[str], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> tuple[str, ...]:
    added = {label for before, after in pairs for label in after if label not in before}
    removed = {label for before, after in pairs for label in before if label not in after}
    kept = [label for label in base if label in edited or label not in added]
    return tuple(dict.fromkeys([*kept, *(label for label in edited if label in removed)]))


def _reconstruct_mapping(
    base: Mapping[str, str],
    edited: Mapping[str, str],
    pairs: Sequence[tuple[Mapping[str, str], Mapping[str, str]]],
) -> dict[str, str]:
    began = {}
    for key in dict.fromkeys([*base, *edited]):
        edited_value = edited.get(key)
        stale = any(before.get(key) == edited_value != after.get(key) for before, after in pairs)
        value = edited_value if stale else base.get(key)
        if value is not None:
            began[key] = value
    return began


def decide_record(
    base: Record | None, ours: Record | None, theirs: Record, *, now: datetime
) -> MergeDecision:
    """Merge an edited record.

    Args:
        base: The version that the person began with; None for a new record.
        ours: What the store has; None when it has none of that id.
        theirs: What the person made of it.
        now: The time.
    """
    if ours is None:
        return MergeDecision(edits=(Change(before=None, after=theirs),))
    merged = merge_values(base, ours, theirs)
    value, conflicts = merged.value, merged.conflicts
    if ours.archived and value.archived and base is not None and not (base.archived or theirs.archived):
        # The program archived it while a person worked on it, so it is of use.
        value = replace(value, archived_at=None, archive_reason="")
        conflicts = (*conflicts, "archived_at")
    loud = _drop_quiet_fields(value) != _drop_quiet_fields(ours)
    if loud and (base is None or theirs.updated_at == base.updated_at):
        value = replace(value, updated_at=now)
    if value == ours:
        return MergeDecision()
    value = detach_changed(ours, value)
    clashes = (MergeConflict(ours=ours, fields=conflicts),) if conflicts else ()
    return MergeDecision(edits=(Change(before=ours, after=validate_record(value)),), clashes=clashes)


def _drop_quiet_fields(record: Record) -> Record:
    """Return the record without the fields whose change does not make it newer."""
    return replace(
        record,
        updated_at=record.created_at,
        last_seen_at=record.created_at,
        seen_count=1,
        pinned=False,
        archived_at=None,
        archive_reason="",
    )


def _is_in_day_file(record: Record) -> bool:
    return record.layer == "episodic" and not record.archived


# -- pages and logs ------------------------------------------------------------------------------------------


def reconstruct_page_base(written: Page, text: str, unseen: Sequence[Change]) -> Page:
    """Return the base version of a page that may have been opened before it was last written.

    A line that the program wrote shortly before and that is missing was not removed by the person. It was, if
    a similar line stands in its place, or if the text has something that the program wrote at that time or
    later: then the person has seen it. A line that the program removed and that is present was not added.

    Args:
        written: The page as it was last written to its file.
        text: The text of the file.
        unseen: The changes that the program made shortly before.
    """
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    for change in _select_unseen_changes(unseen, text):
        if change.before is None:
            continue  # who edits a page has seen how it began
        before, after = (Counter(_split_lines(page)) for page in (change.before, change.after))
        added += after - before
        removed += Counter({line: count for line, count in (before - after).items() if line.strip()})
    old, new = _split_lines(written), text.split("\n")
    began: list[str] = []
    low = start = 0
    for i, j in [*match_items(old, new), (len(old), len(new))]:
        fresh = [line for line in new[start:j] if line not in removed]
        began += [
            line
            for line in old[low:i]
            if line not in added or any(_is_similar(line, other) for other in fresh)
        ]
        began += [line for line in new[start:j] if line in removed]
        began += old[i : i + 1]
        low, start = i + 1, j + 1
    return replace(written, content="\n".join(began))


def _select_unseen_changes(unseen: Sequence[Change], text: str) -> Sequence[Change]:
    """Return the changes that are newer than everything of the program's that the text has."""
    lines = set(text.split("\n"))
    for number, change in enumerate(unseen):
        fresh = set(_split_lines(change.after)) - set(_split_lines(change.before))
        if change.before is not None and any(line.strip() and line in lines for line in fresh):
            return unseen[:number]
    return unseen


def _split_lines(page: Value | None) -> list[str]:
    return page.content.split("\n") if isinstance(page, Page) else []


def _is_similar(one: str, other: str) -> bool:
    """Return whether most words of two texts are the same, as after a correction."""
    words, others = (_WORD.findall(text) for text in (one, other))
    return 2 * len(match_items(words, others)) >= _ALIKE * (len(words) + len(others)) > 0


def decide_page(base: Page | None, ours: Page | None, theirs: Page) -> MergeDecision:
    """Merge an edited page: the changes of both sides are in the result.

    Args:
        base: The version that the person began with; None when that is not known.
        ours: What the store has; None when it has none.
        theirs: What the person made of it, changed now.
    """
    if ours is None:
        return MergeDecision(edits=(Change(before=None, after=theirs),))
    merged = merge_values(base, ours, theirs)
    if merged.value.content == ours.content:
        return MergeDecision()
    clashes = (MergeConflict(ours=ours, fields=merged.conflicts),) if merged.conflicts else ()
    after = replace(merged.value, updated_at=theirs.updated_at)
    return MergeDecision(edits=(Change(before=ours, after=after),), clashes=clashes)


def decide_log(
    name: str,
    base: Sequence[Paragraph] | None,
    ours: Sequence[Paragraph],
    texts: Sequence[str],
    *,
    now: datetime,
    new_id: NewId,
    is_recent: Callable[[str], bool],
) -> MergeDecision:
    """Merge an edited log: paragraphs changed, added, removed.

    An unchanged paragraph keeps its id, and so does one that was changed in its place. One that both sides
    changed stands in both versions, the person's first. One that one side removed and the other changed
    stays.

    Args:
        name: The log's name.
        base: The paragraphs that the person began with; None when that is not known: then none is removed.
        ours: The paragraphs that the store has.
        texts: The paragraphs of the file.
        now: The time.
        new_id: Returns a new id.
        is_recent: Whether a paragraph is so new that the person may not have seen it. It is not removed then,
            and only a similar paragraph counts as a changed version of it.

    Raises:
        InvalidInput: a paragraph is not valid, or most of the log has vanished.
    """
    began = ours if base is None else base
    known_texts = set(texts)
    # A person who has a paragraph before them has seen those above it.
    seen = max(
        (n for n, paragraph in enumerate(began) if normalize_paragraph(paragraph.content) in known_texts),
        default=-1,
    )

    def is_sure(place: int) -> bool:
        return base is not None and (place < seen or not is_recent(began[place].id))

    pairs, missing = _align_paragraphs(
        [normalize_paragraph(paragraph.content) for paragraph in began], texts, is_sure=is_sure
    )
    removed = [place for place in missing if is_sure(place)]
    if is_mass_removal(len(removed), len(began)):
        raise EmptiedFile(
            f"{len(removed)} of {len(began)} paragraphs are missing: restore them, or delete the file to "
            "clear the whole log"
        )
    there = {paragraph.id: paragraph for paragraph in ours}
    known = {paragraph.id for paragraph in began}
    added = Counter(normalize_paragraph(paragraph.content) for paragraph in ours if paragraph.id not in known)
    order = _Order(ours)
    anchor: str | None = None
    for number, text in enumerate(texts):
        old = began[pairs[number]] if number in pairs else None
        mine = there.get(old.id) if old is not None else None
        if old is not None and mine is not None:
            anchor = mine.id
            fresh = _change_paragraph(order, old, mine, text)
        else:
            fresh = _select_new_text(old, text, added)
        if fresh is not None:
            at = parse_moment(name, fresh, otherwise=now)
            paragraph = Paragraph(id=new_id(), page=name, position=0.0, at=at, content=fresh)
            order.insert(validate_paragraph(paragraph), after=anchor)
            anchor = paragraph.id
    for place in removed:
        mine = there.get(began[place].id)
        if mine is not None and mine.content == began[place].content:
            order.remove(mine)
    return MergeDecision(edits=tuple(order.build_changes()))


def _change_paragraph(order: _Order, old: Paragraph, mine: Paragraph, text: str) -> str | None:
    """Change a paragraph of the store to the text of the file; return what has to stand below it.

    Args:
        old: The paragraph that the person began with.
        mine: The same one as the store has it.
        text: What the file has in its place.
    """
    if text in (normalize_paragraph(old.content), normalize_paragraph(mine.content)):
        return None
    order.change(replace(mine, content=text, at=parse_moment(mine.page, text, otherwise=mine.at)))
    return mine.content if mine.content != old.content else None  # both changed it


def _select_new_text(old: Paragraph | None, text: str, added: Counter[str]) -> str | None:
    """Return the text of the file if it is new; None if the program removed it, or has added it too.

    Args:
        old: The paragraph that the person began with, and that the store has no more; None for none.
        added: How often the program has added each text; one that the file has too is taken off.
    """
    if old is not None and text == normalize_paragraph(old.content):
        return None
    if added[text]:
        added[text] -= 1
        return None
    return text


def _align_paragraphs(
    old: Sequence[str], new: Sequence[str], *, is_sure: Callable[[int], bool]
) -> tuple[dict[int, int], list[int]]:
    """Return the old paragraph of each new one, and the old ones that are gone.

    Where as many came as went between two that stayed, and the person has surely seen those, each was
    changed. Otherwise similar ones were.
    """
    same = match_items(old, new)
    pairs = {j: i for i, j in same}
    removed: list[int] = []
    low = start = 0
    for i, j in [*same, (len(old), len(new))]:
        before, after = range(low, i), range(start, j)
        certain = len(before) == len(after) and all(map(is_sure, before))
        matched = zip(before, after, strict=True) if certain else _pair_similar(old, new, before, after)
        came_of = dict(matched)
        pairs |= {k: m for m, k in came_of.items()}
        removed += [m for m in before if m not in came_of]
        low, start = i + 1, j + 1
    return pairs, removed


def _pair_similar(
    old: Sequence[str], new: Sequence[str], before: range, after: range
) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    start = after.start
    for i in before if len(before) * len(after) <= _MOST_COMPARED else ():
        j = next((j for j in range(start, after.stop) if _is_similar(old[i], new[j])), None)
        if j is not None:
            pairs.append((i, j))
            start = j + 1
    return pairs


class _Order:
    """Paragraphs of a log in order, and the changes that keep them so."""

    def __init__(self, there: Sequence[Paragraph]) -> None:
        self._there = list(there)
        self._new: set[str] = set()
        self._edits: list[Change] = []

    def change(self, after: Paragraph) -> None:
        place = self._find_index(after.id)
        self._edits.append(Change(before=self._there[place], after=validate_paragraph(after)))
        self._there[place] = after

    def insert(self, added: Paragraph, *, after: str | None) -> None:
        self._there.insert(0 if after is None else self._find_index(after) + 1, added)
        self._new.add(added.id)

    def remove(self, removed: Paragraph) -> None:
        self._edits.append(Change(before=removed, after=None))
        del self._there[self._find_index(removed.id)]

    def build_changes(self) -> list[Change]:
        """Return the changes and removals, then the additions, at positions that keep the order."""
        edits = list(self._edits)
        for paragraph, position in zip(self._there, self._assign_positions(), strict=True):
            after = replace(paragraph, position=position)
            if paragraph.id in self._new:
                edits.append(Change(before=None, after=after))
            elif after != paragraph:
                edits.append(Change(before=paragraph, after=after))
        return edits

    def _assign_positions(self) -> list[float]:
        """Keep the present positions unless no number is free between two of them."""
        positions = [paragraph.position for paragraph in self._there]
        is_new = [paragraph.id in self._new for paragraph in self._there]
        start = 0
        for new, run in groupby(is_new):
            stop = start + len(list(run))
            if new:
                low = positions[start - 1] if start else None
                high = positions[stop] if stop < len(positions) else None
                positions[start:stop] = _interpolate_positions(low, high, stop - start)
            start = stop
        neighbours = zip(pairwise(positions), pairwise(is_new), strict=True)
        if all(low < high for (low, high), new in neighbours if any(new)):
            return positions
        return [float(number) for number in range(1, len(positions) + 1)]

    def _find_index(self, id: str) -> int:
        return next(place for place, paragraph in enumerate(self._there) if paragraph.id == id)


def _interpolate_positions(low: float | None, high: float | None, count: int) -> list[float]:
    if high is None:
        return [(low or 0.0) + number for number in range(1, count + 1)]
    if low is None:
        return [high - count + number for number in range(count)]
    return [low + (high - low) * number / (count + 1) for number in range(1, count + 1)]


# -- sessions ------------------------------------------------------------------------------------------------


def decide_session(
    path: str,
    base: tuple[SessionState, Sequence[Turn]] | None,
    ours: tuple[SessionState, Sequence[Turn]] | None,
    lines: ParsedSession,
    *,
    now: datetime,
    new_id: NewId,
    earlier: Callable[[str], Sequence[Turn]],
    is_recent: Callable[[str], bool],
) -> MergeDecision:
    """Merge an edited session.

    The content of turns may be changed, and turns may be added at the end. Turns keep their ids, positions
    and scope. Missing turns, another order, and new turns between others are refused.

    Args:
        path: The path of the file.
        base: The session and turns that the person began with; None when that is not known.
        ours: What the store has; None when it has no such session.
        lines: The content of the file.
        now: The time.
        new_id: Returns a new id.
        earlier: Returns the versions of a turn in the journal, in any session.
        is_recent: Whether a turn is so new that the person may not have seen it.

    Raises:
        InvalidInput: a change is not allowed, or a value is not valid.
    """
    state, turns = (None, []) if ours is None else ours
    began_state = base[0] if base is not None else state
    theirs = build_session_state(lines.state, path=path, base=began_state, now=now)
    if state is not None and theirs.scope != state.scope:
        raise InvalidInput("line 1: the scope of a session cannot be changed: put it back")
    seen = 0 if base is None else len(base[1])
    while base is not None and seen and is_recent(base[1][seen - 1].id):
        seen -= 1
    known = _count_known_turns(lines, turns, seen)
    edits: list[Change] = []
    clashes: list[MergeConflict] = []

    def merge(
        began: SessionState | Turn | None, mine: SessionState | Turn, edited: SessionState | Turn
    ) -> None:
        merged = merge_values(began, mine, edited)
        if merged.value != mine:
            edits.append(Change(before=mine, after=merged.value))
        if merged.conflicts:
            clashes.append(MergeConflict(ours=mine, fields=merged.conflicts))

    if state is None:
        edits.append(Change(before=None, after=theirs))
    else:
        merge(began_state, state, theirs)
    began = {turn.id: turn for turn in base[1]} if base is not None else {}
    for mine, fields in zip(turns, lines.turns[:known], strict=False):
        base_turn = began.get(mine.id, mine)
        edited = build_turn(fields, id=mine.id, state=theirs, position=mine.position, base=base_turn, now=now)
        if edited == mine or (base is None and edited in earlier(mine.id)):
            continue
        merge(base_turn, mine, edited)
    since = turns[known if base is None else len(base[1]) :]
    edits += _build_added_turns(
        since, lines.turns[known:], theirs, len(turns), now=now, new_id=new_id, earlier=earlier
    )
    count = len(turns) + sum(edit.before is None and isinstance(edit.after, Turn) for edit in edits)
    if theirs.window_start > count:
        raise InvalidInput(f"line 1: window_start is {theirs.window_start}: there are {count} turns")
    return MergeDecision(edits=tuple(edits), clashes=tuple(clashes))


def _count_known_turns(lines: ParsedSession, turns: Sequence[Turn], seen: int) -> int:
    """Return how many lines, from the first, are of present turns; the person has seen at least `seen`."""
    places = {turn.id: turn.position for turn in turns}
    found = [places.get(fields.get("id", "")) for fields in lines.turns]
    known = next((number for number, place in enumerate(found) if place is None), len(found))
    if any(place is not None for place in found[known:]):
        raise InvalidInput(f"turn {known}: a new turn stands between others: put it at the end")
    if found[:known] != sorted(place for place in found if place is not None):
        raise InvalidInput("turns stand in another order: put them back")
    missing = sorted(set(range(max(known, seen))) - set(found[:known]) - {None})
    if missing:
        raise InvalidInput(
            f"turn {missing[0]} is missing: put it back (`reverie forget` takes turns out of a conversation)"
        )
    return known


def _build_added_turns(
    since: Sequence[Turn],
    lines: Sequence[Fields],
    state: SessionState,
    first: int,
    *,
    now: datetime,
    new_id: NewId,
    earlier: Callable[[str], Sequence[Turn]],
) -> list[Change]:
    """Return the changes that add turns at the end, unless the program has added the same since."""
    alike = Counter(map(_get_identity_key, since))
    edits: list[Change] = []
    for fields in lines:
        name = fields.get("id")
        if name is not None and any(turn.session != state.id for turn in earlier(ids.validate_id(name))):
            raise InvalidInput(f"the id {name!r} is that of another turn: take it out")
        position = first + len(edits)
        turn = build_turn(fields, id=name or new_id(), state=state, position=position, base=None, now=now)
        if alike[_get_identity_key(turn)]:
            alike[_get_identity_key(turn)] -= 1
            continue
        edits.append(Change(before=None, after=turn))
    return edits


def _get_identity_key(turn: Turn) -> tuple[str, ...]:
    return (turn.role, turn.speaker, turn.tool_call_id, turn.content)
