"""Records, the units of long-term memory, with their kinds, layers and limits. Values only."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal, get_args

from reverie.domain import category
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_dataclass import dataclass, field, fields, replace
from reverie.domain.scope import validate_scope
from reverie.domain.text import dates, ids, timestamps
from reverie.domain.text.json_values import from_json_object, to_json_object
from reverie.domain.text.same_text import compute_fingerprint
from reverie.domain.text.validation import validate_count, validate_text

Layer = Literal["episodic", "semantic", "procedural"]
Kind = Literal[
    "fact", "preference", "decision", "constraint", "project_fact", "task_state", "command_result",
    "failure", "fix", "finding", "insight", "lesson", "anti_pattern", "event",
]  # fmt: skip
Origin = Literal["owner", "agent", "tool", "web", "import"]
About = Literal["", "owner"]

LAYERS: tuple[Layer, ...] = get_args(Layer)
KINDS: tuple[Kind, ...] = get_args(Kind)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""Origins of records, the most trusted first."""

UNTRUSTED: frozenset[Origin] = frozenset({"tool", "web", "import"})
"""Origins whose records can be searched for but are never put into a prompt by themselves."""

FIL: tuple[Kind, ...] = ("finding", "insight", "lesson")
"""The three kinds of agentkit's observations."""

STANDING: tuple[Kind, ...] = ("preference", "constraint")
"""Kinds of rules, which hold for every task."""

_PROCEDURAL: tuple[Kind, ...] = ("lesson", "anti_pattern", "failure", "fix", "command_result")
_EPISODIC: tuple[Kind, ...] = ("event", "task_state")


def infer_kind(category_path: str | None) -> Kind | None:
    """Return the kind that a category names, such as `finding` or `work/decisions`; None if it names none."""
    if category_path is None:
        return None
    if category.is_within_category(category_path, category.ANTI_PATTERNS):
        return "anti_pattern"
    if category.is_within_category(category_path, category.USER_PREFERENCES):
        return "preference"
    return _KINDS_BY_NAME.get((category_path or "").rpartition("/")[2].lower().replace("-", "_"))


HOME_LAYERS: Mapping[Kind, Layer] = MappingProxyType(
    {
        kind: "procedural" if kind in _PROCEDURAL else "episodic" if kind in _EPISODIC else "semantic"
        for kind in KINDS
    }
)
"""The layer of each kind where the caller names none."""

LONGEST_CONTENT = 100_000
_FOR_LONG_TEXTS = (
    "import it as a document, which is cut into passages: `reverie import FILE --format document`"
)
LONGEST_LABEL = 200
MOST_LABELS = 100
NOTHING: Mapping[str, str] = MappingProxyType({})


def _freeze_mapping(values: dict[str, object]) -> MappingProxyType[str, object]:
    return MappingProxyType(values)


def _reduce_mapping(view: MappingProxyType[str, object]) -> tuple[Any, ...]:
    return _freeze_mapping, (dict(view),)


# The mappings in records, turns and hits are read-only views, which Python does not pickle or deep-copy by itself.
copyreg.pickle(MappingProxyType, _reduce_mapping)

SUMMARY_TAG = "session-summary"
"""Tag of the summary of a whole session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing remembered for the long term. An immutable value.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        content: What is remembered, in words; 1 to 100,000 characters.
        category: A slash path such as `user-preferences/style`, or None.
        kind: What sort of thing it is; one of `KINDS`.
        layer: `episodic`, `semantic` or `procedural`.
        tags: Labels without repetitions, in the order given.
        confidence: How certain it is, 0 to 1.
        importance: How important it is, 0 to 1 (golemcore's salience).
        source: Where it came from, such as `GOAL:deploy` or `session:telegram:1`; may be empty.
        references: Files, addresses and ids of turns that it is about.
        origin: Who said it; one of `ORIGINS`.
        scope: Owner of the memory, such as `user:alice`; empty for everybody.
        pinned: Whether it is protected from decay and from every automatic change.
        created_at: When it was learned.
        updated_at: When its content or fields last changed.
        last_seen_at: When it was last saved again.
        seen_count: How often it was saved, 1 or more.
        valid_from: Beginning of its validity; None if that is unlimited.
        valid_to: End of its validity; None if that is unlimited.
        expires_at: When searches stop finding it; None for never.
        metadata: Text to text, for the caller's own use.
        archived_at: When it was archived, after which searches do not find it; None while it is live.
        archive_reason: Reason for archiving it.
        parts: Ids of the records that it summarizes; only a headline has any. They stay live, and searches show the
            headline in their place where it says the same (`decisions/0023`).
        draft: Whether background thinking may still split and file it (`Memory.save(draft=True)`).
        keep_secret: Whether secrets in its content are stored, because the owner wants it (`Memory.save`).
        item_key: Namespace and key of the key-value item that it stores, as JSON; empty for other records.
        resolved_dates: Its relative dates with their days, such as `tomorrow = 2026-03-02`; may be empty.
        replaced_by: Id of the later record that ended it; empty for none.
        replaces: Ids of the records that it ended.
        promoted_from: Id of the record in a narrower scope that it is a copy of; empty for none.
        perhaps_replaced_by: Id of a later record that may have replaced it; empty for none.
        about: `owner` if it is about the owner; empty for somebody or something else. Preferences and constraints are
            about the owner whatever it says.
        until: End of the last day on which it matters, if its content names one.
        permission: Whether acting on it touches money, credentials or security, so that the owner is asked first.
    """

    id: str
    content: str
    created_at: datetime
    updated_at: datetime
    last_seen_at: datetime
    category: str | None = None
    kind: Kind = "fact"
    layer: Layer = "semantic"
    tags: tuple[str, ...] = ()
    confidence: float = 0.8
    importance: float = 0.5
    source: str = ""
    references: tuple[str, ...] = ()
    origin: Origin = "owner"
    scope: str = ""
    pinned: bool = False
    seen_count: int = 1
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NOTHING, hash=False)
    archived_at: datetime | None = None
    archive_reason: str = ""
    parts: tuple[str, ...] = ()
    draft: bool = False
    keep_secret: bool = False
    item_key: str = ""
    resolved_dates: str = ""
    replaced_by: str = ""
    replaces: tuple[str, ...] = ()
    promoted_from: str = ""
    perhaps_replaced_by: str = ""
    about: About = ""
    until: datetime | None = None
    permission: bool = False

    @property
    def fingerprint(self) -> str:
        """Hash of the content that is equal for the same text (24 hexadecimal characters; see `fold_text`).

        A key-value item and a headline repeat no other record, so theirs is a hash of the id.
        """
        if self.is_item or self.is_headline:
            return ids.compute_fingerprint("id", self.id)
        return compute_fingerprint(self.content)

    @property
    def is_headline(self) -> bool:
        """Whether it summarizes other records. Searches find it through these alone, and no save adds to it."""
        return bool(self.parts)

    @property
    def is_item(self) -> bool:
        """Whether it stores a key-value item, to which no save adds and which no pass changes."""
        return bool(self.item_key)

    @property
    def archived(self) -> bool:
        """Whether it is archived, so that searches do not find it."""
        return self.archived_at is not None

    def to_searchable_text(self) -> str:
        """Return the text that is searched: content, tags, and the words of the category (RockBot's rule).

        A category segment that only names a kind (`finding`, `lessons`) is left out. Otherwise a search for
        "finding" would find every finding. The resolved relative dates of the content are included.
        """
        if not (self.category or self.tags or self.resolved_dates):
            return self.content
        days = " ".join(str(start) for _, start, _ in dates.parse_dates(self.resolved_dates))
        parts = (self.content, *self.tags, _list_category_words(self.category or ""), days)
        return "\n".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in a fixed order, as JSON values; `from_dict` restores it.

        `parts` and the fields after it are left out if they are empty, unless the metadata has a name that was
        theirs in earlier files.
        """
        is_like_former = bool(self.metadata.keys() & _FORMER_METADATA.keys())
        optional = [name for name in WRITTEN_IF_SET if is_like_former or getattr(self, name)]
        return to_json_object(self, *_ALWAYS_WRITTEN, *optional) | {
            "confidence": float(self.confidence),
            "importance": float(self.importance),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Read what `to_dict` wrote, checking every field; files of earlier versions too.

        Raises:
            InvalidInput: a field is missing, unknown or not of its form.
        """
        if unknown := set(data) - set(_FIELDS):
            raise InvalidInput(f"unknown field of a record: {sorted(unknown)!r}")
        return validate_record(from_json_object(cls, move_former_metadata(data)))


_FIELDS = tuple(f.name for f in fields(Record))
_ALWAYS_WRITTEN = _FIELDS[: _FIELDS.index("parts")]
WRITTEN_IF_SET = _FIELDS[_FIELDS.index("parts") :]
"""Fields that files leave out if they are empty."""


_FORMER_METADATA: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "rough": ("draft", "true"),
        "kept": ("item_key", r'\[".*'),
        "dates": ("resolved_dates", ".* = .*"),
        "superseded_by": ("replaced_by", "[0-9a-f]{12}"),
        "supersedes": ("replaces", r"\s*[0-9a-f]{12}(?:\s+[0-9a-f]{12})*\s*"),
        "promoted_from": ("promoted_from", "[0-9a-f]{12}"),
    }
)
"""Fields that earlier versions stored in the metadata, by their name there, with the pattern of their text."""

_FORMER_FIELDS = frozenset(field for field, _ in _FORMER_METADATA.values())


def move_former_metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of a record's fields with those of `_FORMER_METADATA` as fields.

    Data that has one of these fields is of today's version, and its metadata is the caller's.
    """
    metadata = data.get("metadata")
    if not isinstance(metadata, Mapping) or data.keys() & _FORMER_FIELDS:
        return dict(data)
    former = {
        name: field
        for name, (field, form) in _FORMER_METADATA.items()
        if re.fullmatch(form, metadata.get(name, ""), re.DOTALL)
    }
    if not former:
        return dict(data)
    moved: dict[str, Any] = {field: metadata[name] for name, field in former.items()}
    moved |= {"draft": True} if "draft" in moved else {}
    moved |= {"replaces": moved["replaces"].split()} if "replaces" in moved else {}
    return {**data, "metadata": {name: metadata[name] for name in metadata if name not in former}, **moved}


_TIMES = tuple(each.name for each in fields(Record) if "datetime" in str(each.type))
_KINDS_BY_NAME: Mapping[str, Kind] = MappingProxyType(
    {name: kind for kind in KINDS for name in (kind, f"{kind}s")} | {"fixes": "fix"}
)
_KIND_NAMES = {name for kind in FIL for name in (kind, f"{kind}s")}


@lru_cache(maxsize=1_024)
def _list_category_words(path: str) -> str:
    """Return the words of a category that are searched."""
    named = "/".join(segment for segment in path.split("/") if segment and segment.lower() not in _KIND_NAMES)
    return category.to_search_words(named or None)


def validate_record(record: Record) -> Record:
    """Return the record.

    Raises:
        InvalidInput: a field is not valid; the message names it and says what to do.
    """
    ids.validate_id(record.id)
    validate_text(record.content, name="content", longest=LONGEST_CONTENT, advice=_FOR_LONG_TEXTS)
    if record.category is not None:
        category.validate_category(record.category)
    validate_choice(record.kind, KINDS, name="kind")
    validate_choice(record.layer, LAYERS, name="layer")
    validate_choice(record.origin, ORIGINS, name="origin")
    validate_fraction(record.confidence, name="confidence")
    validate_fraction(record.importance, name="importance")
    normalize_labels(record.tags, name="tag")
    normalize_labels(record.references, name="reference", longest=2_000)
    validate_parts(record.parts, of=record.id)
    validate_text(record.source, name="source", longest=LONGEST_LABEL, empty=True)
    if record.scope != "":  # everybody's has none
        validate_scope(record.scope)
    validate_text(record.archive_reason, name="reason", longest=2_000, empty=True)
    validate_count(record.seen_count, name="seen_count")
    for name in _TIMES:
        moment = getattr(record, name)
        if moment is not None:
            timestamps.to_utc(moment, name=name)
    if record.valid_from and record.valid_to and record.valid_to < record.valid_from:
        raise InvalidInput("valid_to lies before valid_from: swap them or leave one out")
    for name in ("pinned", "draft", "keep_secret", "permission"):
        if not isinstance(getattr(record, name), bool):
            raise InvalidInput(f"{name} is {quote_value(getattr(record, name))}: pass True or False")
    validate_choice(record.about, get_args(About), name="about")
    validate_text(record.item_key, name="item_key", longest=LONGEST_CONTENT, empty=True)
    validate_text(record.resolved_dates, name="resolved_dates", longest=LONGEST_CONTENT, empty=True)
    for name in ("replaced_by", "promoted_from", "perhaps_replaced_by"):
        if linked := getattr(record, name):
            ids.validate_id(linked, name=name)
    for linked in normalize_labels(record.replaces, name="replaced record"):
        ids.validate_id(linked, name="replaces")
    for key, text in record.metadata.items():
        validate_text(key, name="metadata key", longest=LONGEST_LABEL)
        validate_text(text, name=f"metadata {key!r}", longest=LONGEST_CONTENT, empty=True)
    return record


def validate_parts(parts: Iterable[str], *, of: str = "") -> tuple[str, ...]:
    """Return the ids of a headline's parts; raise `InvalidInput` if they are not of their form."""
    names = normalize_labels(parts, name="part")
    for name in names:
        ids.validate_id(name, name="part")
    if of in names:
        raise InvalidInput(f"{of!r} is a part of itself: leave it out of parts")
    return names


def validate_choice(value: object, allowed: tuple[str, ...], *, name: str) -> None:
    """Raise `InvalidInput` unless `value` is among `allowed`."""
    if value not in allowed:
        raise InvalidInput(f"{name} is {quote_value(value)}: use one of {', '.join(allowed)}")


def validate_fraction(value: object, *, name: str) -> None:
    """Raise `InvalidInput` unless `value` is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} is {quote_value(value)}: pass a number from 0 to 1")


def normalize_labels(values: Iterable[str], *, name: str, longest: int = LONGEST_LABEL) -> tuple[str, ...]:
    """Return the labels in their order, stripped and without repetitions. Tags that differ in case only are one tag.

    Raises:
        InvalidInput: one is blank or too long, or there are more than 100.
    """
    if type(values) is tuple and not values:
        return ()
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name}s are {quote_value(values)}: pass a list of strings")
    cleaned = tuple(dict.fromkeys(validate_text(v, name=name, longest=longest).strip() for v in values))
    if name == "tag":
        cleaned = merge_tags(cleaned)
    if len(cleaned) > MOST_LABELS:
        raise InvalidInput(f"{len(cleaned)} {name}s: at most {MOST_LABELS} are allowed")
    return cleaned


def note_dates(record: Record, moment: datetime, zone: tzinfo) -> Record:
    """Return a record with the resolved relative dates of its content.

    Args:
        record: The record.
        moment: When it was said.
        zone: Time zone of the days.
    """
    mentions = dates.resolve_dates(record.content, moment, zone=zone)
    resolved = dates.format_dates(record.content, mentions)
    return record if resolved == record.resolved_dates else replace(record, resolved_dates=resolved)


def freeze_metadata(given: object) -> Mapping[str, str]:
    """Return a read-only copy of metadata that a caller passed; raise `InvalidInput` if it is no mapping."""
    if not isinstance(given, Mapping):
        raise InvalidInput(f"metadata is {type(given).__name__}: pass a mapping of text to text")
    return MappingProxyType(dict(given))


def merge_tags(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of all groups; of tags that differ in case only, the first spelling.

    >>> merge_tags(["Python", "sql"], ["python", "SQL", "Go"])
    ('Python', 'sql', 'Go')
    """
    first: dict[str, str] = {}
    for tag in chain.from_iterable(groups):
        first.setdefault(tag.casefold(), tag)
    return tuple(first.values())
