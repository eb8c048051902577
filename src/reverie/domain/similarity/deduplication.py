"""Decision whether a new record is created or reinforces an existing one.

Finding the candidates and storing the outcome is the caller's work. `comparison` decides whether two texts say the
same. This module decides which records may become one, and what that one has of both. A repetition is no evidence of
trust:

* The origin of an existing record never changes, whoever repeats it.
* A repetition from an untrusted source raises the count of a trusted record and adds its tags and references, which
  no prompt shows. It does not change confidence, importance, expiry, validity, pin, category or metadata.
* The owner's word never disappears into an untrusted record, which no prompt would show. In another form it becomes a
  record of its own. In the same words it replaces the untrusted record's content, category, source and metadata,
  because a store has one live record of the same words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from reverie.domain.change import Change
from reverie.domain.dataclass import dataclass, replace
from reverie.domain.record import DATES, MOST_LABELS, ROUGH, UNTRUSTED, Record, merge_tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The record that a new one adds to the memory, or that it is folded into.

    Attributes:
        old: The record that says it already, as it was read; None if nothing does.
        after: That record, seen once more; the new record if it is added.
    """

    old: Record | None
    after: Record

    @property
    def change(self) -> Change:
        """The change that carries it out."""
        return Change(before=self.old, after=self.after)


def decide(new: Record, candidates: Sequence[Record], *, now: datetime) -> Decision:
    """Return whether `new` reinforces one of the candidates or is created.

    A record with the same words comes before one that says the same in other form.

    Args:
        new: The validated record to be saved.
        candidates: Records that may say the same. Their order makes no difference.
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
    """Return whether `new` may disappear into `old` when their texts say the same.

    Same scope, kind and layer; the same category or none for the new one; the same time of validity; neither
    archived, a headline, nor a value under a key; no metadata that contradicts; labels that fit together into
    one record.
    What is kept for ever does not disappear into what expires, nor the owner's word into an untrusted record.
    Where the new one's source is not trusted and the old one's is, nothing may be asked of the old one that
    this could not grant.
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
    """Return `old` with one more sighting, and with what `new` knows better.

    Seen once more, at `now`; the tags and references of both; unless `new` is untrusted and `old` is not, the
    larger confidence and importance, the later expiry, the pin and the metadata of both too (the old values
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
    """Find records that repeat another record by form, for the nightly merge.

    Saving folds a repetition at once. Left are records whose text a later record contains, records that were
    edited, restored or imported into repetitions, and records that were saved at the same moment. The pinned
    record of a group stays, else the one with the most words, else the oldest.

    Args:
        records: Live records.
        changed: Ids of the records to look at. Each is compared with all others that share a key with it.
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
    """Return how many words a text says, and its keys."""
    from reverie.domain.similarity.comparison import compute_keys, normalize  # not for a search

    reading = normalize(text)
    return len(reading.words), compute_keys(reading)


def _compute_seniority(record: Record) -> tuple[bool, int, datetime, str]:
    return not record.pinned, -_read_keys(record.content)[0], record.created_at, record.id


def _has_same_validity(old: Record, new: Record) -> bool:
    """Return whether both hold at the same times; one without dates repeats one that holds when it is saved."""
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

    Nothing that the new one brings is dropped where there is room for it: a category that the old one lacks
    becomes its own, another one becomes a tag; validity and expiry reach as far as either.
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
    """Return whether the kept record is valid as long as the new text asks for, without prolonging anything else."""
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
    """Return the metadata of both; the old value wins, and relative dates keep their meanings."""
    both = {**new, **old}
    if ROUGH not in old:
        both.pop(ROUGH, None)  # what is known already is not rough any more
    if DATES in old and DATES in new:
        both[DATES] = "; ".join(dict.fromkeys((*old[DATES].split("; "), *new[DATES].split("; "))))
    return old if both == old else MappingProxyType(both)


def _select(
    pick: Callable[[datetime, datetime], datetime], a: datetime | None, b: datetime | None
) -> datetime | None:
    """Return one of two times; None, which stands for no bound, if one of them is None."""
    return None if a is None or b is None else pick(a, b)
