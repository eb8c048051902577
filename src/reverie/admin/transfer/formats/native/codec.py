"""JSON objects of Reverie's own export formats.

The object is that of `to_dict`. Reading validates every field and names an invalid one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from reverie.admin.transfer.items import What
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.text import timestamps

FORMAT = "reverie"
"""Format name in our own exports."""

VERSION = 1
"""The newest version of our own exports that can be read, and the one that is written."""

_TYPES: tuple[What, ...] = ("record", "turn", "session", "page", "paragraph")
_LARGEST = 2**53
_T = TypeVar("_T", Record, Turn, SessionState, Page, Paragraph)


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


def read(kind: type[_T], data: Mapping[str, Any]) -> _T:
    """Return the record, turn, session, page or paragraph of an object; raise `InvalidInput` if it is invalid."""
    for name, number in data.items():
        if isinstance(number, int) and number > _LARGEST:
            raise InvalidInput(f"{name} is {number}: at most {_LARGEST} can be stored")
    try:
        return kind.from_dict(data)
    except InvalidInput:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        raise InvalidInput("a field has a value of another type than it should") from None


def parse_type(kind: object) -> What:
    """Return the sort of thing that the `type` of a line names."""
    return next((what for what in _TYPES if kind == what), "line")
