"""Filter over records, turns and paragraphs, which every store and index understands.

`is_record_allowed`, `is_turn_allowed` and `is_paragraph_allowed` define it. SQL and index queries agree
with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from reverie.domain.category import is_within_category, validate_category
from reverie.domain.conversation import ROLES, Role, Turn
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.page import Paragraph
from reverie.domain.record import KINDS, LAYERS, ORIGINS, Kind, Layer, Origin, Record, validate_choice
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_raw_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Restriction of a search or a list. An empty filter lets every live record through.

    Attributes:
        scopes: Only these scopes; None for all. Of equal records in several scopes, the one in the first scope is
            taken. Paragraphs belong to the empty scope.
        categories: Only these categories and those below them, by whole segments; empty for all.
        tags: Only what has all of these tags, in any case.
        kinds: Only these kinds; empty for all.
        layers: Only these layers; empty for all.
        origins: Only these origins; empty for all.
        created_after: Only what was created (for turns: said) at this moment or later.
        created_before: Only what was created (said) before this moment.
        valid_at: Only what holds at this moment.
        alive_at: Leave out what has expired by this moment; None to keep expired ones.
        archived: False for live records, True for archived ones, None for both.
        pinned: True for pinned records only, False for the others, None for both.
        headlines: True for headlines only, False for other records only, None for both.
        sessions: Only turns of these sessions; empty for all.
        roles: Only turns of these roles; empty for all.
    """

    scopes: tuple[str, ...] | None = None
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    layers: tuple[Layer, ...] = ()
    origins: tuple[Origin, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    valid_at: datetime | None = None
    alive_at: datetime | None = None
    archived: bool | None = False
    pinned: bool | None = None
    headlines: bool | None = None
    sessions: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()

    @property
    def only_records(self) -> bool:
        """Whether it restricts what only records have."""
        return bool(
            self.categories or self.tags or self.kinds or self.layers or self.origins
            or self.valid_at or self.archived or self.pinned is not None or self.headlines is not None
        )  # fmt: skip

    @property
    def only_turns(self) -> bool:
        """Whether it restricts what only turns have."""
        return bool(self.sessions or self.roles)


class RecordFilters(TypedDict, total=False):
    """Keyword arguments that restrict a search to some records. Each takes one value or several.

    Attributes:
        category: These categories and those below them, by whole segments.
        tags: Records that have all of these tags, in any case.
        kind: These kinds.
        layer: These layers.
        origin: These origins.
        created_after: Records that were created at this moment or later.
        created_before: Records that were created before this moment.
        valid_at: Records that hold at this moment.
    """

    category: str | Sequence[str] | None
    tags: str | Sequence[str] | None
    kind: Kind | Sequence[Kind] | None
    layer: Layer | Sequence[Layer] | None
    origin: Origin | Sequence[Origin] | None
    created_after: datetime | None
    created_before: datetime | None
    valid_at: datetime | None


class ListFilters(RecordFilters, total=False):
    """Keyword arguments that restrict a list of records.

    Attributes:
        archived: False for live records (the default), True for archived ones, None for both.
        pinned: True for pinned records only, False for the others, None for both.
    """

    archived: bool | None
    pinned: bool | None


class SearchFilters(RecordFilters, total=False):
    """Keyword arguments that restrict a search. An argument that applies to some sources leaves the others out.

    Attributes:
        session: Turns of these sessions, one or several.
        role: Turns of these roles, one or several.
    """

    session: str | Sequence[str] | None
    role: Role | Sequence[Role] | None


MOST_VALUES = 500
"""Values of a field, at most: each is a condition, of which a database takes about a thousand."""

_FIELDS = {
    "category": "categories",
    "tags": "tags",
    "kind": "kinds",
    "layer": "layers",
    "origin": "origins",
    "session": "sessions",
    "role": "roles",
}
"""Keyword arguments that take one value or several, and the field of `Filter` for each."""

_CHOICES = {"kind": KINDS, "layer": LAYERS, "origin": ORIGINS, "role": ROLES}


def build_filter(
    options: Mapping[str, Any], allowed: type, *, scopes: tuple[str, ...] | None = None
) -> Filter:
    """Return the filter that keyword arguments describe.

    Args:
        options: The arguments, by name.
        allowed: The typed dictionary of the valid arguments.
        scopes: The scopes to search; None for all.

    Raises:
        InvalidInput: an argument is not of its form.
        TypeError: there is no such argument.
    """
    values: dict[str, Any] = {"scopes": scopes}
    for name, value in options.items():
        if name not in allowed.__annotations__:
            raise TypeError(
                f"unexpected keyword argument {name!r}; there are {sorted(allowed.__annotations__)}"
            )
        values[_FIELDS.get(name, name)] = parse_values(value, name=name) if name in _FIELDS else value
    return validate_filter(Filter(**values))


def parse_values(value: str | Iterable[str] | None, *, name: str) -> tuple[str, ...]:
    """Return one string or several as a tuple; None gives an empty one.

    Raises:
        InvalidInput: the value is neither a string nor a list of strings.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    texts = tuple(value) if isinstance(value, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"{name} is {quote_value(value)}: pass a string, or a list of strings")
    return texts


def validate_filter(wanted: Filter) -> Filter:
    """Return the filter, or raise `InvalidInput` if a field is not of its form."""
    for name, field in _FIELDS.items():
        values = getattr(wanted, field)
        if len(values) > MOST_VALUES:
            raise InvalidInput(
                f"{name} has {len(values)} values: pass at most {MOST_VALUES}, and filter in several calls"
            )
        for each in values:
            if name in _CHOICES:
                validate_choice(each, _CHOICES[name], name=name)
            elif name == "category":
                validate_category(each)
            else:
                validate_raw_text(each, name=name, longest=len(each), empty=True)
    for scope in wanted.scopes or ():
        validate_raw_text(scope, name="scope", longest=len(scope), empty=True)
    for name in ("archived", "pinned", "headlines"):
        if (value := getattr(wanted, name)) not in (None, True, False):
            raise InvalidInput(f"{name} is {quote_value(value)}: pass True, False, or None for both")
    for name in ("created_after", "created_before", "valid_at", "alive_at"):
        moment = getattr(wanted, name)
        if moment is not None:
            timestamps.to_utc(moment, name=name)
    if wanted.created_after and wanted.created_before and wanted.created_before <= wanted.created_after:
        raise InvalidInput("created_before is not after created_after, so nothing can match: swap them")
    return wanted


def is_record_allowed(wanted: Filter, record: Record) -> bool:
    """Return whether the filter lets the record through."""
    return (
        (wanted.archived is None or record.archived == wanted.archived)
        and (wanted.scopes is None or record.scope in wanted.scopes)
        and (
            not wanted.categories
            or any(is_within_category(record.category, each) for each in wanted.categories)
        )
        and (not wanted.tags or _fold(wanted.tags) <= _fold(record.tags))
        and (not wanted.kinds or record.kind in wanted.kinds)
        and (not wanted.layers or record.layer in wanted.layers)
        and (not wanted.origins or record.origin in wanted.origins)
        and (wanted.pinned is None or record.pinned == wanted.pinned)
        and (wanted.headlines is None or record.is_headline == wanted.headlines)
        and _is_in_time_range(wanted, record.created_at)
        and (wanted.valid_at is None or is_valid_at(record, wanted.valid_at))
        and (wanted.alive_at is None or record.expires_at is None or record.expires_at > wanted.alive_at)
        and not wanted.only_turns
    )


def is_turn_allowed(wanted: Filter, turn: Turn) -> bool:
    """Return whether the filter lets the turn through."""
    return (
        not wanted.only_records
        and (wanted.scopes is None or turn.scope in wanted.scopes)
        and (not wanted.sessions or turn.session in wanted.sessions)
        and (not wanted.roles or turn.role in wanted.roles)
        and _is_in_time_range(wanted, turn.at)
    )


def is_paragraph_allowed(wanted: Filter, paragraph: Paragraph) -> bool:
    """Return whether the filter lets the paragraph through. Paragraphs belong to the empty scope."""
    return (
        not wanted.only_records
        and not wanted.only_turns
        and (wanted.scopes is None or "" in wanted.scopes)
        and _is_in_time_range(wanted, paragraph.at)
    )


def _fold(tags: Iterable[str]) -> set[str]:
    return {tag.casefold() for tag in tags}


def _is_in_time_range(wanted: Filter, moment: datetime) -> bool:
    after, before = wanted.created_after, wanted.created_before
    return (after is None or moment >= after) and (before is None or moment < before)


def is_valid_at(record: Record, moment: datetime) -> bool:
    """Return whether the record holds at a moment."""
    return (record.valid_from is None or record.valid_from <= moment) and (
        record.valid_to is None or moment < record.valid_to
    )


def has_passed(record: Record, moment: datetime) -> bool:
    """Return whether a record expired, ended, or mattered until an earlier moment."""
    return any(end and end <= moment for end in (record.expires_at, record.valid_to, record.until))


def has_ended(record: Record, moment: datetime) -> bool:
    """Return whether the record held or mattered until an earlier moment, and does no longer."""
    end = get_end(record)
    return end is not None and end <= moment


def get_start(record: Record) -> datetime:
    """Return the moment from which a record holds, as far as it is known."""
    return record.valid_from or record.created_at


def get_end(record: Record) -> datetime | None:
    """Return the moment until which a record holds or matters; None for no end."""
    return min((end for end in (record.valid_to, record.until) if end is not None), default=None)
