"""Which records or turns does a caller want to see? One value that every store and index understands.

`is_record_allowed`, `is_turn_allowed` and `is_paragraph_allowed` say what it means; SQL and index queries must agree
with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from reverie.domain import category
from reverie.domain.conversation import ROLES, Role, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Paragraph
from reverie.domain.record import KINDS, LAYERS, ORIGINS, Kind, Layer, Origin, Record, validate_choice
from reverie.domain.scope import EVERY_SCOPE, validate_scope
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_raw_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a search or a list is restricted to. An empty filter lets every live record through.

    Attributes:
        scopes: Only these scopes, of which the first stands for those that say the same; None for all.
            Paragraphs belong to the empty scope, which is everybody's.
        category: Only this category and those below it, by whole segments.
        tags: Only what has all of these tags.
        kinds: Only these kinds; empty for all.
        layers: Only these layers; empty for all.
        origins: Only these origins; empty for all.
        created_after: Only what was created (for turns: said) at this moment or later.
        created_before: Only what was created (said) before this moment.
        valid_at: Only what holds at this moment.
        alive_at: Leave out what has expired by this moment; None to keep expired ones.
        archived: False for live records, True for archived ones, None for both.
        pinned: True for pinned records only, False for the others, None for both.
        sessions: Only turns of these sessions; empty for all.
        roles: Only turns of these roles; empty for all.
    """

    scopes: tuple[str, ...] | None = None
    category: str | None = None
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
    sessions: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()

    @property
    def only_records(self) -> bool:
        """Whether it asks for something that only records have."""
        return bool(
            self.category or self.tags or self.kinds or self.layers or self.origins
            or self.valid_at or self.archived or self.pinned is not None
        )  # fmt: skip

    @property
    def only_turns(self) -> bool:
        """Whether it asks for something that only turns have."""
        return bool(self.sessions or self.roles)


class ScopedRestrictions(TypedDict, total=False):
    """What a search for records within a scope may be restricted to, as keyword arguments.

    Attributes:
        category: Only this category and those below it, by whole segments.
        tags: Only what has all of these tags.
        kinds: Only these kinds, such as `["decision"]`.
        layers: Only these layers.
        origins: Only these origins.
        created_after: Only what was created (for turns: said) at this moment or later.
        created_before: Only what was created (said) before this moment.
        valid_at: Only what holds at this moment.
    """

    category: str | None
    tags: Sequence[str]
    kinds: Sequence[Kind]
    layers: Sequence[Layer]
    origins: Sequence[Origin]
    created_after: datetime | None
    created_before: datetime | None
    valid_at: datetime | None


class ScopedTurnRestrictions(TypedDict, total=False):
    """What a search for turns within a scope may be restricted to, as keyword arguments.

    Attributes:
        session: Only turns of this session, or these.
        roles: Only turns of these roles, such as `["user"]`.
        created_after: Only what was said at this moment or later.
        created_before: Only what was said before this moment.
    """

    session: str | Sequence[str] | None
    roles: Sequence[Role]
    created_after: datetime | None
    created_before: datetime | None


class ScopedAllRestrictions(ScopedRestrictions, ScopedTurnRestrictions, total=False):
    """Both of them; one that only records, or only turns, have leaves everything else out."""


class ScopedListRestrictions(ScopedRestrictions, total=False):
    """What a list of records within a scope may be restricted to.

    Attributes:
        archived: False for live records (the default), True for archived ones, None for both.
        pinned: True or False for only those that are, or are not; None for both.
    """

    archived: bool | None
    pinned: bool | None


class RecordFilters(ScopedRestrictions, total=False):
    """What a search for records may be restricted to: what it may be within a scope, and the scope.

    Attributes:
        scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.
    """

    scope: str | Sequence[str] | None


class TurnFilters(ScopedTurnRestrictions, total=False):
    """What a search for turns may be restricted to: what it may be within a scope, and the scope.

    Attributes:
        scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.
    """

    scope: str | Sequence[str] | None


class SearchFilters(RecordFilters, TurnFilters, total=False):
    """Both of them; one that only records, or only turns, have leaves everything else out."""


class ListFilters(ScopedListRestrictions, total=False):
    """What a list of records may be restricted to: what it may be within a scope, and the scope.

    Attributes:
        scope: Only this scope, or these; `EVERY_SCOPE` for all; None where no scopes are in use.
    """

    scope: str | Sequence[str] | None


_SEVERAL = {"tags": "tags", "kinds": "kinds", "layers": "layers", "origins": "origins", "roles": "roles"}


def build_filter(options: Mapping[str, Any], allowed: type = SearchFilters) -> Filter:
    """The filter that keyword arguments ask for, checked.

    Args:
        options: The arguments, by name.
        allowed: The typed dictionary that says which there are.

    Raises:
        InvalidInput: one is not of its form.
        TypeError: there is no such argument.
    """
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in allowed.__annotations__:
            raise TypeError(
                f"unexpected keyword argument {name!r}; there are {sorted(allowed.__annotations__)}"
            )
        if name == "scope":
            values["scopes"] = parse_scopes(value)
        elif name == "session":
            if value is not None:
                values["sessions"] = (value,) if isinstance(value, str) else _parse_texts(name, value)
        elif name in _SEVERAL:
            if isinstance(value, str):
                raise InvalidInput(f"{name} is {value!r}: pass a list, such as [{value!r}]")
            values[name] = () if value is None else _parse_texts(name, value)
        else:
            values[name] = value
    return validate_filter(Filter(**values))


def parse_scopes(scope: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A scope, or several, as a filter has them; None for `EVERY_SCOPE`, and where none is given.

    Raises:
        InvalidInput: one is not of its form.
    """
    if scope is None or scope == EVERY_SCOPE:
        return None
    return tuple(
        validate_scope(each)
        for each in ((scope,) if isinstance(scope, str) else _parse_texts("scope", scope))
    )


def _parse_texts(name: str, value: Any) -> tuple[str, ...]:
    texts = tuple(value) if isinstance(value, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"{name} is {value!r}: pass a list of strings")
    return texts


def validate_filter(wanted: Filter) -> Filter:
    """The filter itself, when every field of it is of its form; raises `InvalidInput` otherwise."""
    for kind in wanted.kinds:
        validate_choice(kind, KINDS, name="kind")
    for layer in wanted.layers:
        validate_choice(layer, LAYERS, name="layer")
    for origin in wanted.origins:
        validate_choice(origin, ORIGINS, name="origin")
    for role in wanted.roles:
        validate_choice(role, ROLES, name="role")
    for name, texts in (("scope", wanted.scopes or ()), ("tag", wanted.tags), ("session", wanted.sessions)):
        for text in texts:
            validate_raw_text(text, name=name, longest=len(text), empty=True)
    if wanted.category is not None:
        category.validate_category(wanted.category)
    for name in ("created_after", "created_before", "valid_at", "alive_at"):
        moment = getattr(wanted, name)
        if moment is not None:
            timestamps.to_utc(moment, name=name)
    if wanted.created_after and wanted.created_before and wanted.created_before <= wanted.created_after:
        raise InvalidInput("created_before lies before created_after, so nothing can match: swap them")
    return wanted


def is_record_allowed(wanted: Filter, record: Record) -> bool:
    """Whether the record is one that the filter lets through."""
    return (
        (wanted.archived is None or record.archived == wanted.archived)
        and (wanted.scopes is None or record.scope in wanted.scopes)
        and (wanted.category is None or category.is_within_category(record.category, wanted.category))
        and all(tag in record.tags for tag in wanted.tags)
        and (not wanted.kinds or record.kind in wanted.kinds)
        and (not wanted.layers or record.layer in wanted.layers)
        and (not wanted.origins or record.origin in wanted.origins)
        and (wanted.pinned is None or record.pinned == wanted.pinned)
        and _is_in_time_range(wanted, record.created_at)
        and (wanted.valid_at is None or is_valid_at(record, wanted.valid_at))
        and (wanted.alive_at is None or record.expires_at is None or record.expires_at > wanted.alive_at)
        and not wanted.only_turns
    )


def is_turn_allowed(wanted: Filter, turn: Turn) -> bool:
    """Whether the turn is one that the filter lets through."""
    return (
        not wanted.only_records
        and (wanted.scopes is None or turn.scope in wanted.scopes)
        and (not wanted.sessions or turn.session in wanted.sessions)
        and (not wanted.roles or turn.role in wanted.roles)
        and _is_in_time_range(wanted, turn.at)
    )


def is_paragraph_allowed(wanted: Filter, paragraph: Paragraph) -> bool:
    """Whether the paragraph is one that the filter lets through; what stands in a log is everybody's."""
    return (
        not wanted.only_records
        and not wanted.only_turns
        and (wanted.scopes is None or "" in wanted.scopes)
        and _is_in_time_range(wanted, paragraph.at)
    )


def _is_in_time_range(wanted: Filter, moment: datetime) -> bool:
    return (wanted.created_after is None or moment >= wanted.created_after) and (
        wanted.created_before is None or moment < wanted.created_before
    )


def is_valid_at(record: Record, moment: datetime) -> bool:
    """Whether what the record says holds at a moment."""
    return (record.valid_from is None or record.valid_from <= moment) and (
        record.valid_to is None or moment < record.valid_to
    )
