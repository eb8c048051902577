"""Base versions of hand edits: what a person had before them when they began to edit.

A three-way merge needs the base: what differs from it is what the person changed. `written_texts.read_base_text`
gives the text that was last written to a file, and it is parsed here. An editor may have had the file open longer
than that. So the changes that the program made shortly before (`list_unseen_changes`) are looked up in the
journal, and `merge` decides whether the person can have seen them.

Where `files.db` was lost there is no base. Then nothing that is missing from a file counts as removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, TypeVar

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.similarity.three_way_merge import match_items
from reverie.files import parsing
from reverie.files.layout import complete_record
from reverie.stores.protocol import Store

ACTOR = "owner, by hand"
"""Actor of hand edits in the journal."""

OPEN_FOR = timedelta(minutes=2)
"""Maximum time between opening and saving a file in an editor. If it were longer, a line that the program got
wrong could not simply be deleted; if it were shorter, more edits would undo what the program wrote."""

_MAX_VERSIONS = 1_000

_V = TypeVar("_V", Record, Page, Turn, SessionState, Paragraph)


def list_versions(store: Store, id: str, kind: type[_V]) -> list[_V]:
    """Return the versions of a value in the journal, the newest first, without immediate repetitions."""
    versions: list[_V] = []
    for entry in store.journal(id=id, newest_first=True, limit=_MAX_VERSIONS):
        for value in reversed(entry.values):
            if isinstance(value, kind) and (not versions or versions[-1] != value):
                versions.append(value)
    return versions


def list_unseen_changes(store: Store, id: str, kind: type[Value], saved_at: datetime) -> list[Change]:
    """Return the program's changes of a value within `OPEN_FOR` before a file was saved, the newest first."""
    entries = store.journal(id=id, newest_first=True, limit=_MAX_VERSIONS)
    recent = takewhile(lambda entry: entry.at >= saved_at - OPEN_FOR, entries)
    edits = (entry.edit for entry in recent if entry.actor != ACTOR)
    return [edit for edit in edits if edit is not None and isinstance(edit.value, kind)]


def find_closest_version(versions: Sequence[Record], fields: Mapping[str, Any]) -> Record | None:
    """Return the version that shares the most fields with a file, the newest of several."""

    def count_shared_fields(record: Record) -> int:
        return sum(getattr(record, name) == value for name, value in fields.items())

    return max(versions, key=count_shared_fields, default=None)


# -- texts of files.db -------------------------------------------------------------------------------------


def parse_base_records(text: bytes | None, *, lines: bool) -> dict[str, Record] | None:
    """Return the records of a base text by id; None if there is no text, or it is not in canonical form.

    Args:
        text: The text that was last written to the file.
        lines: Whether it is an episodic file, with a record in each line.
    """
    try:
        objects = [] if text is None else text.split(b"\n")[:-1] if lines else [text]
        records = [Record.from_dict(complete_record(json.loads(each))) for each in objects]
    except (ValueError, TypeError, AttributeError, InvalidInput):
        return None
    return None if text is None else {record.id: record for record in records}


def parse_base_session(text: bytes | None) -> tuple[SessionState, list[Turn]] | None:
    """Return the session and turns of a base text; None as for `parse_base_records`."""
    if text is None:
        return None
    try:
        first, *rest = [json.loads(line) for line in text.split(b"\n")[:-1]]
        state = SessionState.from_dict(first)
        return state, [Turn.from_dict(fields | {"session": state.id}) for fields in rest]
    except (ValueError, TypeError, InvalidInput):
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
