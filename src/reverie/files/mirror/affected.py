"""Which files does a change concern, and how? Pure: reads the rows of the journal, no store and no file."""

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
    """What happened to a file that grows at its end.

    Attributes:
        name: The session's id, or the log's name.
        begun: The session, if it was begun here, before any of its turns.
        added: The turns or paragraphs that are new, in order.
        only: Whether that is all that happened to it.
    """

    name: str
    begun: SessionState | None = None
    added: list[Turn | Paragraph] = field(default_factory=list)
    only: bool = True


@dataclass(slots=True, kw_only=True)
class AffectedFiles:
    """The files that some changes concern.

    Attributes:
        records: The last state of each record changed, by id; None where it is gone.
        places: The paths at which these records stand or stood, each with the ids concerned.
        arrived: Ids of records, by path, that did not stand there before these changes.
        pages: The last state of each page changed, by path; None where it is gone.
        growing: Sessions and logs, by path.
        erased: Sorts of things of which some were forgotten, so that nothing says which.
        last: The number of the last change that concerns a path.
    """

    records: dict[str, Record | None] = field(default_factory=dict)
    places: dict[str, set[str]] = field(default_factory=dict)
    arrived: dict[str, set[str]] = field(default_factory=dict)
    pages: dict[str, Page | None] = field(default_factory=dict)
    growing: dict[str, FileGrowth] = field(default_factory=dict)
    erased: set[Subject] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=dict)


def find_affected_files(rows: Iterable[JournalEntry]) -> AffectedFiles:
    """The files that rows of the journal, in their order, concern."""
    found = AffectedFiles()
    for row in rows:
        if row.edit is None:
            found.erased.add(row.subject)
            continue
        before, after = row.edit.before, row.edit.after
        for value in (before, after):
            if value is not None:
                path = build_path(value)
                found.last[path] = row.sequence
                if isinstance(value, Record):
                    ids = found.places.setdefault(path, set())
                    if value is not before and value.id not in ids:
                        found.arrived.setdefault(path, set()).add(value.id)
                    ids.add(value.id)
        value = row.edit.value
        if isinstance(value, Record):
            found.records[value.id] = value if after is not None else None
        elif isinstance(value, Page):
            found.pages[build_path(value)] = value if after is not None else None
        else:
            growth = found.growing.setdefault(build_path(value), FileGrowth(name=_get_file_id(value)))
            _record_growth(growth, value, is_new=before is None)
    return found


def _record_growth(growth: FileGrowth, value: Turn | SessionState | Paragraph, *, is_new: bool) -> None:
    if not is_new or (isinstance(value, SessionState) and (growth.begun or growth.added)):
        growth.only = False
    elif isinstance(value, SessionState):
        growth.begun = value
    else:
        growth.added.append(value)


def _get_file_id(value: Value) -> str:
    match value:
        case Turn():
            return value.session
        case Paragraph():
            return value.page
        case _:
            return value.id
