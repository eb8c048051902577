"""Decision whether a new record is created or reinforces an existing one.

The caller finds the candidates and stores the result. `comparison` decides whether two texts say the same. This
module decides which records may be merged, and which fields the result has. A repetition does not raise trust:

* The origin of an existing record never changes, whoever repeats it.
* A repetition from an untrusted source raises the count of a trusted record and adds its tags and references, which
  no prompt shows. It does not change confidence, importance, expiry, validity, pin, category or metadata.
* The owner's text is never merged into an untrusted record, which no prompt would show. In other words it becomes a
  separate record. In the same words it replaces the untrusted record's content, category, source and metadata,
  because a store has one live record of the same words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from reverie.domain.change import Change
from reverie.domain.record import DATES, MOST_LABELS, ROUGH, UNTRUSTED, Record, merge_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Result of saving a record: a new record, or a reinforced one.

    Attributes:
        old: The existing record that says the same, as it was read; None if there is none.
        after: That record after the reinforcement; the new record if there is none.
    """

    old: Record | None
    after: Record

    @property
    def change(self) -> Change:
        """The change that carries it out."""
        return Change(before=self.old, after=self.after)


def decide(new: Record, candidates: Sequence[Record], *, now: datetime) -> Decision:
    """Return whether `new` reinforces one of the candidates or is created.

    A record of the same words is preferred to one that says the same in other words.

    Args:
        new: The validated record to be saved.
        candidates: Records that may say the same, in any order.
        now: The current time.
    """
    ranked = sorted(
        (old for old in candidates if old.id != new.id and not old.archived),
        key=lambda old: _compute_preference(new, old),
    )
    for old in ranked:
        if old.scope == new.scope and old.fingerprint == new.fingerprint:
            return Decision(old=old, after=_reinforce_exact_repeat(old, new, now=now))
    for old in ranked:
        if not _is_expired(old, now) and can_deduplicate(old, new) and _says_the_same(new, old):
            return Decision(old=old, after=reinforce_record(old, new, now=now))
    return Decision(old=None, after=new)


def can_deduplicate(old: Record, new: Record) -> bool:
    """Return whether `new` may be merged into `old` if their texts say the same.

    They need the same scope, kind, layer and time of validity, and the same category unless the new one has none.
    Neither may be archived, a headline or a key-value item. Their metadata must not contradict, and their labels must
    fit into one record. A record without expiry is not merged into one that expires, and a record of the owner not
    into an untrusted one. An untrusted record may not bring anything that `reinforce_record` would drop.
    """
    if old.archived or new.archived or old.is_kept or new.is_kept or old.id == new.id:
        return False
    if old.is_headline or new.is_headline:
        return False
    same = (old.scope, old.kind, old.layer) == (new.scope, new.kind, new.layer)
    return _has_same_validity(old, new) and (
        same
        and new.category in (None, old.category)
        and _is_trust_compatible(old, new)
        and _is_expiry_compatible(old, new)
        and all(old.metadata.get(key, text) == text for key, text in new.metadata.items())
        and len(merge_tags(old.tags, new.tags)) <= MOST_LABELS
        and len({*old.references, *new.references}) <= MOST_LABELS
    )


def reinforce_record(old: Record, new: Record, *, now: datetime) -> Record:
    """Return `old` after it was seen once more, as `new`.

    The count is raised, and the tags and references of both are kept. Unless only `new` is untrusted, the result also
    has the larger confidence and importance, the later expiry, the pin, and the metadata of both (the old values
    where they differ). Content, category, kind, source, origin and the other times stay.
    """
    after = replace(
        old,
        seen_count=old.seen_count + 1,
        last_seen_at=max(old.last_seen_at, now),
        tags=merge_tags(old.tags, new.tags)[:MOST_LABELS],
        references=tuple(dict.fromkeys((*old.references, *new.references)))[:MOST_LABELS],
    )
    if _is_less_trusted(new, old):
        return after
    return replace(
        after,
        confidence=max(old.confidence, new.confidence),
        importance=max(old.importance, new.importance),
        pinned=old.pinned or new.pinned,
        expires_at=_select(max, old.expires_at, new.expires_at),
        metadata=_merge_metadata(old.metadata, new.metadata),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateGroup:
    """Records that repeat another one.

    Attributes:
        duplicates: The records to remove.
        into: The record to keep, as it is.
        after: The record to keep, reinforced by the others.
    """

    duplicates: tuple[Record, ...]
    into: Record
    after: Record


def find_duplicate_groups(records: Iterable[Record], changed: Collection[str]) -> Iterator[DuplicateGroup]:
    """Find records that repeat another record by form, for the nightly merge.

    Saving merges most repetitions at once. The others are records whose text a later record contains, records that
    were edited, restored or imported, and records that were saved at the same moment. Of a group the pinned record is
    kept, else the one with the most words, else the oldest.

    Args:
        records: Live records.
        changed: Ids of the records to compare with all others that have a common key.
    """
    live = {record.id: record for record in records if not record.archived}
    order = sorted(live.values(), key=_compute_seniority)
    by_key: dict[str, list[Record]] = defaultdict(list)
    for record in order:
        for key in _read_keys(record.content)[1]:
            by_key[key].append(record)
    gone: set[str] = set()

    def list_neighbors(record: Record) -> list[Record]:
        near = {other.id: other for key in _read_keys(record.content)[1] for other in by_key[key]}
        return sorted((other for name, other in near.items() if name not in gone), key=_compute_seniority)

    for record in order:
        if record.id not in changed or record.id in gone:
            continue
        stays = next(
            other
            for other in list_neighbors(record)
            if other is record or (can_deduplicate(other, record) and _says_the_same(record, other))
        )
        after, duplicates = stays, []
        for other in list_neighbors(stays):
            if other.pinned and not stays.pinned:
                continue
            if can_deduplicate(after, other) and _says_the_same(other, stays):
                merged = reinforce_record(after, other, now=max(after.last_seen_at, other.last_seen_at))
                after = replace(merged, seen_count=after.seen_count + other.seen_count)
                duplicates.append(other)
        if duplicates:
            gone |= {stays.id, *(other.id for other in duplicates)}
            yield DuplicateGroup(duplicates=tuple(duplicates), into=stays, after=after)


def _says_the_same(new: Record, old: Record) -> bool:
    from reverie.domain.similarity.comparison import is_repetition, normalize_cached  # not for a search

    return is_repetition(normalize_cached(new.content), normalize_cached(old.content))


@lru_cache(maxsize=16_384)  # every live record is looked at each night, and few have changed
def _read_keys(text: str) -> tuple[int, tuple[str, ...]]:
    """Return the number of words of a text, and its keys."""
    from reverie.domain.similarity.comparison import compute_keys, normalize  # not for a search

    reading = normalize(text)
    return len(reading.words), compute_keys(reading)


def _compute_seniority(record: Record) -> tuple[bool, int, datetime, str]:
    return not record.pinned, -_read_keys(record.content)[0], record.created_at, record.id


def _has_same_validity(old: Record, new: Record) -> bool:
    """Return whether both hold at the same time; a new one without dates may repeat one that holds now."""
    if (old.valid_from, old.valid_to) == (new.valid_from, new.valid_to):
        return True
    is_undated = new.valid_from is None and new.valid_to is None
    return (
        is_undated
        and old.valid_to is None
        and old.valid_from is not None
        and old.valid_from <= new.created_at
    )


def _reinforce_exact_repeat(old: Record, new: Record, *, now: datetime) -> Record:
    """Return `old` after its exact words were saved again. A store has one live record of them.

    The result keeps what the new one adds. Its category is used if the old one has none, and becomes a tag otherwise.
    Validity and expiry are the longer ones.
    """
    after = reinforce_record(old, new, now=now)
    if _is_less_trusted(new, old):
        return after
    if new.origin == "owner" and old.origin in UNTRUSTED:
        return replace(
            new,
            id=old.id,
            tags=after.tags,
            references=after.references,
            created_at=old.created_at,
            updated_at=max(old.updated_at, now),
            last_seen_at=after.last_seen_at,
            seen_count=after.seen_count,
        )
    other = new.category if old.category is not None and new.category != old.category else None
    changed = replace(
        after,
        category=old.category if old.category is not None else new.category,
        tags=merge_tags(after.tags, (other,) if other else ())[:MOST_LABELS],
        valid_from=_select(min, old.valid_from, new.valid_from),
        valid_to=_select(max, old.valid_to, new.valid_to),
    )
    return changed if changed == after else replace(changed, updated_at=max(old.updated_at, now))


def _is_trust_compatible(old: Record, new: Record) -> bool:
    if new.origin == "owner" and old.origin in UNTRUSTED:
        return False
    if not _is_less_trusted(new, old):
        return True
    return not new.pinned and set(new.metadata) <= set(old.metadata)


def _is_expiry_compatible(old: Record, new: Record) -> bool:
    """Return whether the old record lasts as long as the new one asks for, or may be prolonged by it."""
    if old.expires_at is None:
        return True
    if new.expires_at is None:
        return False
    return new.expires_at <= old.expires_at or not _is_less_trusted(new, old)


def _compute_preference(new: Record, old: Record) -> tuple[bool, bool, bool, int, datetime, str]:
    """Return a key that sorts the best target first: equal trust, equal category, pinned, often seen."""
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


def _is_expired(record: Record, now: datetime) -> bool:
    return record.expires_at is not None and record.expires_at <= now


def _merge_metadata(old: Mapping[str, str], new: Mapping[str, str]) -> Mapping[str, str]:
    """Return the metadata of both, with the old value of a common name and the relative dates of both."""
    both = {**new, **old}
    if ROUGH not in old:
        both.pop(ROUGH, None)  # a draft that repeats a finished record changes nothing
    if DATES in old and DATES in new:
        both[DATES] = "; ".join(dict.fromkeys((*old[DATES].split("; "), *new[DATES].split("; "))))
    return old if both == old else MappingProxyType(both)


def _select(
    pick: Callable[[datetime, datetime], datetime], a: datetime | None, b: datetime | None
) -> datetime | None:
    """Return one of two times; None, which means unlimited, if one of them is None."""
    return None if a is None or b is None else pick(a, b)
