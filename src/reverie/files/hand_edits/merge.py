"""Three-way merge of hand edits: base, store and file in, changes out. Pure.

What the person changed stands, and what the program changed elsewhere meanwhile stands too. Where both
changed the same thing, the program's version becomes a conflict, to be put beside the file. What a person
may not do to a file is refused with `InvalidInput`; the message says what to do instead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import NamedTuple

from reverie.domain.change import Change, Value
from reverie.domain.errors import InvalidInput
from reverie.domain.headlines import detach_changed
from reverie.domain.page import Page, Paragraph, validate_paragraph
from reverie.domain.record import HOME_LAYERS, Record, validate_record
from reverie.domain.similarity.three_way_merge import match_items, merge_values
from reverie.domain.text.ids import NewId
from reverie.files import parsing
from reverie.files.layout import build_home, complete_record, parse_home, parse_path
from reverie.files.parsing import (
    EmptiedFile,
    Fields,
    parse_moment,
)
from reverie.stores.protocol import Store

FEW = 20
"""Number of items that may vanish at once. More than this and over half of all count as an accident."""


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


def move_record(
    record: Record,
    base: Record | None,
    path: str,
    fields: Fields,
    category: str | None,
    now: datetime,
) -> Record:
    """Return a record as the place of its file says: its category, layer and whether it is archived.

    Where the place and a field contradict, the one counts that differs from `base`; if both do, the field.

    Args:
        record: The record that a person has written.
        base: The version that the person began with; None for a new record.
        path: The path of the file.
        fields: The fields of the entry.
        category: The category of the file.
        now: The time.

    Raises:
        InvalidInput: the record is not valid.
    """
    place, home, layout = parse_path(path), parse_home(path), "pages" if path.endswith(".md") else "records"
    assert place is not None
    was_archived = base is not None and base.archived
    if base is None or build_home(base, layout) != home:
        is_page = place.form == "lines"
        if place.archived != record.archived and (is_page or record.archived == was_archived):
            record = replace(record, archived_at=now if place.archived else None)
        if place.is_day:
            record = replace(record, layer="episodic")
        elif is_page and record.layer == "episodic" and not place.archived:
            layer = HOME_LAYERS[record.kind]
            record = replace(record, layer="semantic" if layer == "episodic" else layer)
        is_given = record.category != base.category if base is not None else not is_page
        if build_home(record, layout) != home and not (is_given or place.is_day):
            record = replace(record, category=category)
    if record.archived != was_archived and (base is not None or "archive_reason" not in fields):
        record = replace(record, archive_reason=fields.get("archive_reason") or "" if record.archived else "")
    return validate_record(record)


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


# -- pages and logs ------------------------------------------------------------------------------------------


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
    pending: Collection[str] = (),
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
        pending: The ids of paragraphs that the file may not show yet.

    Raises:
        InvalidInput: a paragraph is not valid, or most of the log has vanished.
    """
    began = ours if base is None else base
    pairs, missing = _align_paragraphs(
        [normalize_paragraph(paragraph.content) for paragraph in began], texts, is_base=base is not None
    )
    removed = missing if base is not None else []
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
        if mine is not None and mine.id not in pending and mine.content == began[place].content:
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
    old: Sequence[str], new: Sequence[str], *, is_base: bool
) -> tuple[dict[int, int], list[int]]:
    """Return the old paragraph of each new one, and the old ones that are gone.

    Where as many came as went between two that stayed, each was changed, if the old ones are what the person
    began with.
    """
    same = match_items(old, new)
    pairs = {j: i for i, j in same}
    low = start = 0
    for i, j in [*same, (len(old), len(new))]:
        if is_base and i - low == j - start:
            pairs |= zip(range(start, j), range(low, i), strict=True)
        low, start = i + 1, j + 1
    kept = set(pairs.values())
    return pairs, [i for i in range(len(old)) if i not in kept]


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


ACTOR = "owner, by hand"
"""Actor of hand edits in the journal."""

_MAX_VERSIONS = 1_000


def list_versions(store: Store, id: str) -> list[Record]:
    """Return the versions of a record in the journal, the newest first, without immediate repetitions."""
    versions: list[Record] = []
    for entry in store.journal(id=id, newest_first=True, limit=_MAX_VERSIONS):
        for value in reversed(entry.values):
            if isinstance(value, Record) and (not versions or versions[-1] != value):
                versions.append(value)
    return versions


# -- texts of files.db -------------------------------------------------------------------------------------


def parse_base_record(text: bytes | None) -> Record | None:
    """Return the record of a base text; None if there is no text, or it is not in canonical form."""
    try:
        return None if text is None else Record.from_dict(complete_record(json.loads(text)))
    except (ValueError, TypeError, AttributeError, InvalidInput):
        return None


def parse_base_page(path: str, text: bytes | None, page: Page) -> Page | None:
    """Return `page` with the content of a base text, or None."""
    try:
        return None if text is None else replace(page, content=parsing.read_page(path, text))
    except InvalidInput:
        return None


def parse_base_log(
    path: str, text: bytes | None, present: Sequence[Paragraph], now: datetime
) -> list[Paragraph] | None:
    """Return the paragraphs of a base text, or None. Those that have not changed since keep their ids."""
    try:
        contents = None if text is None else parsing.read_log(path, text)
    except InvalidInput:
        contents = None
    if contents is None:
        return None
    pairs = dict(match_items(contents, [normalize_paragraph(each.content) for each in present]))
    name = path.partition("/")[2]
    return [
        present[pairs[number]]
        if number in pairs
        else Paragraph(id=f"base-{number}", page=name, position=0.0, at=now, content=content)
        for number, content in enumerate(contents)
    ]


def normalize_paragraph(text: str) -> str:
    """Return a paragraph as it is read back from a file."""
    return text.replace("\r\n", "\n")
