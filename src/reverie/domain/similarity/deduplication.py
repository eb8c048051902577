"""What becomes of a new record when others are there already? It is created, reinforces one, or extends one.

Values in, values out: finding the candidates and storing the outcome is the caller's work. Whether two
texts say the same is `reverie.domain.similarity.comparison`; here stands which records may become one, and what the
one has of both.

Who may change what (a repetition is no evidence of trust):

* The origin of what is there never changes, whoever repeats it; an extension has the less trusted origin of
  the two.
* A repetition by an untrusted source counts on a trusted record and leaves it its tags and references
  (labels, which no prompt shows); it does not touch confidence, importance, expiry, validity, pin, category
  or metadata.
* An untrusted text never changes a trusted record's content, nor a trusted text an untrusted one's: a
  record is created.
* The owner's word is never hidden in an untrusted record, which no prompt would ever show. Said in other
  form, it is a record of its own. Said in the same words (a store has one live record of them), it takes
  the untrusted record's place with the owner's category, source and metadata: all that stands there then
  was said by the owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from reverie.domain.record import DATES, MOST_LABELS, ORIGINS, ROUGH, UNTRUSTED, Origin, Record

if TYPE_CHECKING:
    from reverie.domain.similarity.comparison import NormalizedText, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Nothing says it yet: the record is added.

    Attributes:
        record: The new record.
    """

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforce:
    """A record says it already.

    Attributes:
        old: That record as it was read.
        after: The same, seen once more.
    """

    old: Record
    after: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Extend:
    """A record says part of it.

    Attributes:
        old: That record as it was read.
        after: The same with the whole text.
    """

    old: Record
    after: Record


Decision = Create | Reinforce | Extend


def decide(new: Record, candidates: Sequence[Record], *, now: datetime) -> Decision:
    """What becomes of `new`: the same words reinforce, then a near repetition, then an extension; else it
    is created.

    Args:
        new: The record to be saved, checked.
        candidates: Records that may say the same, in any order; those that cannot take it are passed over.
        now: The time.

    Returns:
        The decision; the same for the same candidates in any order.
    """
    ranked = sorted(
        (old for old in candidates if old.id != new.id and not old.archived),
        key=lambda old: _compute_preference(new, old),
    )
    for old in ranked:
        if old.scope == new.scope and old.fingerprint == new.fingerprint:
            return Reinforce(old=old, after=_reinforce_exact_repeat(old, new, now=now))
    reading: NormalizedText | None = None
    extends: list[Record] = []
    for old in ranked:
        if _is_expired(old, now) or not can_deduplicate(old, new):
            continue
        from reverie.domain.similarity.comparison import (  # here: a search never needs its patterns
            compare,
            read_again,
        )

        reading = reading if reading is not None else read_again(new.content)
        found: Relation = compare(reading, read_again(old.content))
        if found == "repeats":
            return Reinforce(old=old, after=reinforce_record(old, new, now=now))
        if found == "extends" and _can_extend(old, new):
            extends.append(old)
    if extends:
        longest = max(
            extends, key=lambda old: len(old.content)
        )  # the first of the longest: the preferred one
        return Extend(old=longest, after=extend_record(longest, new, now=now))
    return Create(record=new)


def can_deduplicate(old: Record, new: Record) -> bool:
    """Whether `new` may disappear into `old` when their texts say the same.

    Same scope, kind and layer; the same category or none for the new one; the same time of validity; neither
    archived, nor a value under a key; no metadata that contradicts; labels that fit together into one record.
    What is kept for ever does not disappear into what expires, nor the owner's word into an untrusted record.
    Where the new one's source is not trusted and the old one's is, nothing may be asked of the old one that
    this could not grant.
    """
    if old.archived or new.archived or old.is_kept or new.is_kept or old.id == new.id:
        return False
    same = (
        (old.scope, old.kind, old.layer, old.valid_from, old.valid_to)
        == (new.scope, new.kind, new.layer, new.valid_from, new.valid_to)
    )  # fmt: skip
    return (
        same
        and new.category in (None, old.category)
        and _is_trust_compatible(old, new)
        and _is_expiry_compatible(old, new)
        and all(old.metadata.get(key, text) == text for key, text in new.metadata.items())
        and len({*old.tags, *new.tags}) <= MOST_LABELS
        and len({*old.references, *new.references}) <= MOST_LABELS
    )


def reinforce_record(old: Record, new: Record, *, now: datetime) -> Record:
    """`old`, said once more by `new`: counted, and with what the new one knows better.

    Seen once more, at `now`; the tags and references of both; unless `new` is untrusted and `old` is not, the
    larger confidence and importance, the later expiry, the pin and the metadata of both too (the old values
    where they differ). Content, category, kind, source, origin and the other times stay.
    """
    after = replace(
        old,
        seen_count=old.seen_count + 1,
        last_seen_at=max(old.last_seen_at, now),
        tags=_merge_labels(old.tags, new.tags),
        references=_merge_labels(old.references, new.references),
    )
    if _is_less_trusted(new, old):
        return after
    return replace(
        after,
        confidence=max(old.confidence, new.confidence),
        importance=max(old.importance, new.importance),
        pinned=old.pinned or new.pinned,
        expires_at=_select_latest(old.expires_at, new.expires_at),
        metadata=_merge_metadata(old.metadata, new.metadata),
    )


def extend_record(old: Record, new: Record, *, now: datetime) -> Record:
    """`old` with what `new` adds: golemcore's upsert merge.

    The longer content; kind, layer, category and source of the newer one (where it has any); the larger
    confidence and importance; the tags, references and metadata of both; id and `created_at` of the old
    one; the less trusted origin of the two. It was seen once more, and changed, at `now`.
    """
    return replace(
        old,
        content=new.content if len(new.content) >= len(old.content) else old.content,
        kind=new.kind,
        layer=new.layer,
        category=new.category if new.category is not None else old.category,
        source=new.source or old.source,
        origin=_select_less_trusted_origin(old.origin, new.origin),
        confidence=max(old.confidence, new.confidence),
        importance=max(old.importance, new.importance),
        tags=_merge_labels(old.tags, new.tags),
        references=_merge_labels(old.references, new.references),
        metadata=_merge_metadata(old.metadata, new.metadata),
        pinned=old.pinned or new.pinned,
        expires_at=_select_latest(old.expires_at, new.expires_at),
        seen_count=old.seen_count + 1,
        last_seen_at=max(old.last_seen_at, now),
        updated_at=max(old.updated_at, now),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateGroup:
    """Records that say what another says already.

    Attributes:
        duplicates: Those that may go.
        into: The one that stays, as it is.
        after: The one that stays, with what the others know better.
    """

    duplicates: tuple[Record, ...]
    into: Record
    after: Record


def find_duplicate_groups(records: Iterable[Record], changed: Collection[str]) -> Iterator[DuplicateGroup]:
    """Which of the records say the same by form, and need not stand side by side.

    Saving folds at once; what is left for this are records that were edited, restored or imported into
    repetitions, and the rare two that were saved in one moment. Of each group the pinned, else the oldest
    record stays.

    Args:
        records: Live records.
        changed: Ids of those to look at; each is compared with all others.
    """
    from reverie.domain.similarity.comparison import (
        classify_relation,  # here: a search never needs its patterns
    )

    live = {record.id: record for record in records if not record.archived}
    order = sorted(live.values(), key=_compute_seniority)
    words = {record.id: _compute_keys(record.content) for record in order}
    having: dict[str, list[Record]] = defaultdict(list)
    for record in order:
        for key in words[record.id]:
            having[key].append(record)
    gone: set[str] = set()
    for record in order:
        if record.id not in changed or record.id in gone:
            continue
        found = {other.id: other for key in words[record.id] for other in having[key]}
        group = sorted((other for name, other in found.items() if name not in gone), key=_compute_seniority)
        stays, others = group[0], group[1:]
        after, duplicates = stays, []
        for other in others:
            if can_deduplicate(after, other) and classify_relation(other.content, stays.content) == "repeats":
                merged = reinforce_record(after, other, now=max(after.last_seen_at, other.last_seen_at))
                after = replace(merged, seen_count=after.seen_count + other.seen_count)
                duplicates.append(other)
        if duplicates:
            gone |= {stays.id, *(other.id for other in duplicates)}
            yield DuplicateGroup(duplicates=tuple(duplicates), into=stays, after=after)


@lru_cache(maxsize=16_384)  # every live record is looked at each night, and few have changed
def _compute_keys(text: str) -> tuple[str, ...]:
    from reverie.domain.similarity.comparison import (  # here: a search never needs its patterns
        compute_keys,
        normalize,
    )

    return compute_keys(normalize(text))


def _compute_seniority(record: Record) -> tuple[bool, datetime, str]:
    return not record.pinned, record.created_at, record.id


def _reinforce_exact_repeat(old: Record, new: Record, *, now: datetime) -> Record:
    """`old` after its very words were saved again, whatever else differs: a store has one live record of
    them.

    Nothing that the new one brings is dropped where there is room for it: a category that the old one lacks
    becomes its own, another one becomes a tag; validity and expiry reach as far as either.
    """
    after = reinforce_record(old, new, now=now)
    if _is_less_trusted(new, old):
        return after
    if new.origin == "owner" and old.origin in UNTRUSTED:
        return replace(
            after,
            content=new.content,
            category=new.category,
            source=new.source,
            origin=new.origin,
            layer=new.layer,
            confidence=new.confidence,
            importance=new.importance,
            pinned=new.pinned,
            metadata=new.metadata,
            valid_from=new.valid_from,
            valid_to=new.valid_to,
            expires_at=new.expires_at,
            updated_at=max(old.updated_at, now),
        )
    other = new.category if old.category is not None and new.category != old.category else None
    changed = replace(
        after,
        category=old.category if old.category is not None else new.category,
        tags=_merge_labels(after.tags, (other,) if other else ()),
        valid_from=_select_earliest(old.valid_from, new.valid_from),
        valid_to=_select_latest(old.valid_to, new.valid_to),
    )
    return changed if changed == after else replace(changed, updated_at=max(old.updated_at, now))


def _can_extend(old: Record, new: Record) -> bool:
    """Whether the old record's content may be changed to the new one's: between equals only, never on a
    pin.
    """
    same_side = (old.origin in UNTRUSTED) == (new.origin in UNTRUSTED)
    return same_side and not old.pinned and len(new.content) >= len(old.content)


def _is_trust_compatible(old: Record, new: Record) -> bool:
    if new.origin == "owner" and old.origin in UNTRUSTED:
        return False
    if not _is_less_trusted(new, old):
        return True
    return not new.pinned and set(new.metadata) <= set(old.metadata)


def _is_expiry_compatible(old: Record, new: Record) -> bool:
    """Whether the new text stays found as long as it was asked for, without keeping more than that alive."""
    if old.expires_at is None:
        return True
    if new.expires_at is None:
        return False
    return new.expires_at <= old.expires_at or not _is_less_trusted(new, old)


def _compute_preference(new: Record, old: Record) -> tuple[bool, bool, bool, int, datetime, str]:
    """Sorts the record that should take the new one first: as trusted, in its category, pinned, often
    seen.
    """
    return (
        (old.origin in UNTRUSTED) != (new.origin in UNTRUSTED),
        old.category != new.category,
        not old.pinned,
        -old.seen_count,
        old.created_at,
        old.id,
    )


def _is_less_trusted(new: Record, old: Record) -> bool:
    return new.origin in UNTRUSTED and old.origin not in UNTRUSTED


def _select_less_trusted_origin(a: Origin, b: Origin) -> Origin:
    return max(a, b, key=ORIGINS.index)


def _is_expired(record: Record, now: datetime) -> bool:
    return record.expires_at is not None and record.expires_at <= now


def _merge_labels(old: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    """The labels of both, the old ones first; never more than a record may have."""
    return tuple(dict.fromkeys((*old, *new)))[:MOST_LABELS]


def _merge_metadata(old: Mapping[str, str], new: Mapping[str, str]) -> Mapping[str, str]:
    """The metadata of both, the old where they differ; of relative dates what each meant when it was said."""
    both = {**new, **old}
    if ROUGH not in old:
        both.pop(ROUGH, None)  # what is known already is not rough any more
    if DATES in old and DATES in new:
        both[DATES] = "; ".join(dict.fromkeys((*old[DATES].split("; "), *new[DATES].split("; "))))
    return old if both == old else MappingProxyType(both)


def _select_latest(a: datetime | None, b: datetime | None) -> datetime | None:
    return None if a is None or b is None else max(a, b)


def _select_earliest(a: datetime | None, b: datetime | None) -> datetime | None:
    return None if a is None or b is None else min(a, b)
