"""Files that journal entries affect. Pure: reads neither the store nor a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from reverie.domain.change import JournalEntry, Subject, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files.layout import build_path


@dataclass(slots=True, kw_only=True)
class FileGrowth:
    """Changes of a file that grows at its end.

    Attributes:
        name: The id of the session, or the name of the log.
        added: The new turns or paragraphs, in order.
        only: Whether there are no other changes.
    """

    name: str
    added: list[Turn | Paragraph] = field(default_factory=list)
    only: bool = True


@dataclass(slots=True, kw_only=True)
class AffectedFiles:
    """Files that some journal entries affect.

    Attributes:
        records: The last state of each changed record, by id; None if it was removed.
        places: The paths where these records stand or stood, with the ids there.
        arrived: The ids of records, by path, that did not stand there before.
        pages: The last state of each changed page, by path; None if it was removed.
        growing: Sessions and logs, by path.
        erased: The kinds of values of which some lost earlier versions, so that nothing says where they stood.
        last: The number of the last entry that affects each path.
    """

    records: dict[str, Record | None] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=dict)
    arrived: dict[str, set[str]] = field(default_factory=dict)
    pages: dict[str, Page | None] = field(default_factory=dict)
    growing: dict[str, FileGrowth] = field(default_factory=dict)
    erased: set[Subject] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)


def find_affected_files(rows: Iterable[JournalEntry]) -> AffectedFiles:
    """Return the files that journal entries, in their order, affect."""
    affected = AffectedFiles()
    for row in rows:
        if row.forgotten:
            affected.erased.add(row.subject)
        if row.edit is None:
            continue
        before, after = row.edit.before, row.edit.after
        for value in (before, after):
            if value is not None:
                path = build_path(value)
                affected.last[path] = row.sequence
                if isinstance(value, Record):
                    ids = affected.places.setdefault(path, set())
                    if value is not before and value.id not in ids:
                        affected.arrived.setdefault(path, set()).add(value.id)
                    ids.add(value.id)
        value = row.edit.value
        if isinstance(value, Record):
            affected.records[value.id] = value if after is not None else None
        elif isinstance(value, Page):
            affected.pages[build_path(value)] = value if after is not None else None
        else:
            growth = affected.growing.setdefault(build_path(value), FileGrowth(name=_get_file_id(value)))
            _record_growth(growth, value, is_new=before is None)
    return affected


def _record_growth(growth: FileGrowth, value: Turn | SessionState | Paragraph, *, is_new: bool) -> None:
    if is_new and not isinstance(value, SessionState):
        growth.added.append(value)
    else:
        growth.only = False


def _get_file_id(value: Value) -> str:
    match value:
        case Turn():
            return value.session
        case Paragraph():
            return value.page
        case _:
            return value.id
