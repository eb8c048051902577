"""Three-way merge of hand edits of records and logs: base, store and file in, changes out. Pure.

What the person changed stands, and what the program changed elsewhere meanwhile stands too. Where both
changed the same thing, the program's version becomes a conflict, to be put beside the file. What a person
may not do to a file is refused with `InvalidInput`; the message says what to do instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import NamedTuple

from reverie.domain.change import Change, Value
from reverie.domain.headlines import detach_changed
from reverie.domain.page import Paragraph, validate_paragraph
from reverie.domain.record import HOME_LAYERS, Record, validate_record
from reverie.domain.similarity.three_way_merge import merge_text, merge_values, split_lines
from reverie.domain.text.ids import NewId
from reverie.files.layout import build_home, parse_home, parse_path
from reverie.files.parsing import EmptiedFile, Fields, parse_moment
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


def merge_record(
    base: Record | None, ours: Record, theirs: Record, *, now: datetime
) -> tuple[Record, MergeConflict | None]:
    """Return an edited record with the changes of both sides, and the conflict with those of the program.

    Args:
        base: The version that the person began with; None if that is not known.
        ours: What the store has.
        theirs: What the person made of it.
        now: The time.
    """
    if theirs == base:
        return ours, None
    merged = merge_values(base, ours, theirs)
    value, conflicts = merged.value, merged.conflicts
    if ours.archived and value.archived and base is not None and not (base.archived or theirs.archived):
        # The program archived it while a person worked on it, so it is of use.
        value = replace(value, archived_at=None, archive_reason="")
        conflicts = (*conflicts, "archived_at")
    loud = _drop_quiet_fields(value) != _drop_quiet_fields(ours)
    if loud and (base is None or theirs.updated_at == base.updated_at):
        value = replace(value, updated_at=now)
    if value != ours:
        value = validate_record(detach_changed(ours, value))
    return value, MergeConflict(ours, conflicts) if conflicts else None


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


# -- logs ----------------------------------------------------------------------------------------------------


def merge_log(
    name: str,
    base: Sequence[str],
    ours: Sequence[Paragraph],
    texts: Sequence[str],
    *,
    now: datetime,
    new_id: NewId,
) -> list[Change]:
    """Return the changes of an edited log: paragraphs changed, added, removed.

    An unchanged paragraph keeps its id, and so does one that was changed in its place. One that both sides
    changed stands in both versions, the person's first. One that one side removed and the other changed
    stays.

    Args:
        name: The log's name.
        base: The paragraphs that the person began with; none when that is not known: then none is removed.
        ours: The paragraphs that the store has.
        texts: The paragraphs of the file.
        now: The time.
        new_id: Returns a new id.

    Raises:
        InvalidInput: a paragraph is not valid, or most of the log has vanished.
    """
    if is_mass_removal(len(base) - len(texts), len(base)):
        raise EmptiedFile(
            f"{len(base) - len(texts)} of {len(base)} paragraphs are missing: restore them, or delete "
            "the file to clear the whole log"
        )
    present = [each.content.replace("\r\n", "\n") for each in ours]  # as they are read back from a file
    lines = split_lines(merge_text(*map(_to_lines, (base, present, texts))))
    merged = [line.replace(_LINE_END, "\n") for line in lines]
    changes: list[Change] = []
    after: list[Paragraph] = []
    for what, low, high, start, stop in SequenceMatcher(None, present, merged, False).get_opcodes():
        old = list(ours[low:high])
        if what == "equal":
            after += old
            continue
        if high - low != stop - start:
            changes += [Change(before=each, after=None) for each in old]
            old = []
        for number, text in enumerate(merged[start:stop]):
            at = parse_moment(name, text, otherwise=old[number].at if old else now)
            made = (
                old[number] if old else Paragraph(id=new_id(), page=name, position=0.0, at=at, content=text)
            )
            after.append(validate_paragraph(replace(made, content=text, at=at)))
    known = {each.id: each for each in ours}
    placed = _place_paragraphs(after, known.keys())
    return changes + [
        Change(before=known.get(each.id), after=each) for each in placed if each != known.get(each.id)
    ]


def _to_lines(paragraphs: Iterable[str]) -> str:
    return "".join(f"{text.replace(chr(10), _LINE_END)}\n" for text in paragraphs)


_LINE_END = "\0"  # which no text has


def _place_paragraphs(paragraphs: Sequence[Paragraph], known: Collection[str]) -> list[Paragraph]:
    """Return paragraphs with positions in their order; the known ones keep theirs if there is room between them."""
    placed: list[Paragraph] = []
    for is_known, run in groupby(paragraphs, key=lambda each: each.id in known):
        group = list(run)
        if not is_known:
            room = len(group) + 1.0
            following = paragraphs[len(placed) + len(group) :]
            low = placed[-1].position if placed else following[0].position - room if following else 0.0
            step = ((following[0].position if following else low + room) - low) / room
            group = [replace(each, position=low + step * number) for number, each in enumerate(group, 1)]
        placed += group
    if any(low.position >= high.position for low, high in pairwise(placed)):
        return [replace(each, position=float(number)) for number, each in enumerate(placed, 1)]
    return placed


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
