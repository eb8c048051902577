"""JSON objects of Reverie's own export formats.

The object is that of `to_dict`. Reading validates every field and names an invalid one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from reverie.admin.transfer.items import What
from reverie.domain.change import Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.text import timestamps

FORMAT = "reverie"
"""Format name in our own exports."""

VERSION = 1
"""The newest version of our own exports that can be read, and the one that is written."""

_LARGEST = 2**53
_T = TypeVar("_T", Record, Turn, SessionState, Page, Paragraph)


def encode_json(value: Any) -> str:
    """Encode a JSON document on one line, without escaping non-ASCII characters."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def to_document(value: Value) -> dict[str, Any]:
    """Return a thing as a JSON object with its type."""
    return {"type": get_subject(value), **value.to_dict()}


def build_header(form: str, *, at: datetime) -> dict[str, Any]:
    """Return the header of an export.

    Args:
        form: The export form.
        at: When it was made.
    """
    return {"format": FORMAT, "form": form, "version": VERSION, "made_at": timestamps.format_time(at)}


def validate_header(data: Mapping[str, Any], place: str) -> None:
    """Raise `InvalidInput` if an export was made by a newer Reverie."""
    version = data.get("version")
    if not isinstance(version, int) or version < 1:
        raise InvalidInput(f"{place}: it says it is of version {version!r}, which there is not")
    if version > VERSION:
        raise InvalidInput(
            f"{place}: it was made by a newer Reverie (version {version}, this one knows up to {VERSION}): "
            "upgrade Reverie"
        )


def read_record(data: Mapping[str, Any]) -> Record:
    """Return the record of an object; raise `InvalidInput` if it is invalid."""
    record = _read(Record.from_dict, data)
    if record.seen_count > _LARGEST:
        raise InvalidInput(f"seen_count is {record.seen_count}: at most {_LARGEST} can be stored")
    return record


def read_turn(data: Mapping[str, Any]) -> Turn:
    """Return the turn of an object; raise `InvalidInput` if it is invalid."""
    turn = _read(Turn.from_dict, data)
    if turn.position > _LARGEST:
        raise InvalidInput(f"position is {turn.position}: no session is as long")
    return turn


def read_session(data: Mapping[str, Any]) -> SessionState:
    """Return the session of an object; raise `InvalidInput` if it is invalid."""
    state = _read(SessionState.from_dict, data)
    if state.window_start > _LARGEST:
        raise InvalidInput(f"window_start is {state.window_start}: no session is as long")
    return state


def read_page(data: Mapping[str, Any]) -> Page:
    """Return the page of an object; raise `InvalidInput` if it is invalid."""
    return _read(Page.from_dict, data)


def read_paragraph(data: Mapping[str, Any]) -> Paragraph:
    """Return the paragraph of an object; raise `InvalidInput` if it is invalid."""
    return _read(Paragraph.from_dict, data)


def _read(read: Callable[[Mapping[str, Any]], _T], data: Mapping[str, Any]) -> _T:
    try:
        return read(data)
    except InvalidInput:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        raise InvalidInput("a field has a value of another type than it should") from None


def parse_type(kind: object) -> What:
    """Return the sort of thing that the `type` of a line names."""
    for what in ("record", "turn", "session", "page", "paragraph"):
        if kind == what:
            return what
    return "line"
