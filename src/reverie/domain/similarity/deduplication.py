"""Which fields a record has after the same text was saved again.

A repetition does not raise trust:

* The origin of an existing record never changes, whoever repeats it.
* A repetition from an untrusted source raises the count of a trusted record and adds its tags and references, which
  no prompt shows. It does not change kind, confidence, importance, expiry, validity, pin, category or metadata.
* If the owner repeats an untrusted record, the result has the owner's content, kind, category, source and metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from reverie.domain.change import Change
from reverie.domain.lazy_dataclass import replace
from reverie.domain.record import MOST_LABELS, ORIGINS, UNTRUSTED, Record, merge_tags


def reinforce_record(old: Record, new: Record, *, now: datetime) -> Record:
    """Return `old` after its text was saved once more, as `new`.

    The count is raised, and the tags and references of both are stored. Unless only `new` is untrusted, the result
    also has the more specific kind, the larger confidence and importance, the longer validity and expiry, the pin,
    and the metadata of both (the old values if they differ). The category of `new` is used if the old one has none,
    and becomes a tag otherwise.
    """
    kept: dict[str, Any] = {
        "seen_count": old.seen_count + 1,
        "last_seen_at": max(old.last_seen_at, now),
        "tags": merge_tags(old.tags, new.tags)[:MOST_LABELS],
        "references": tuple(dict.fromkeys((*old.references, *new.references)))[:MOST_LABELS],
    }
    updated_at = max(old.updated_at, now)
    if new.origin in UNTRUSTED and old.origin not in UNTRUSTED:
        return replace(old, **kept)
    if new.origin == "owner" and old.origin in UNTRUSTED:
        return replace(new, id=old.id, created_at=old.created_at, updated_at=updated_at, **kept)
    dates = (*old.resolved_dates.split("; "), *new.resolved_dates.split("; "))
    after = replace(
        old,
        **kept,
        confidence=max(old.confidence, new.confidence),
        importance=max(old.importance, new.importance),
        pinned=old.pinned or new.pinned,
        keep_secret=old.keep_secret or new.keep_secret,
        expires_at=_select(max, old.expires_at, new.expires_at),
        metadata=MappingProxyType({**new.metadata, **old.metadata}),
        resolved_dates="; ".join(dict.fromkeys(filter(None, dates))),
        promoted_from=old.promoted_from or new.promoted_from,
        about=old.about or new.about,
        until=_select(max, old.until, new.until),
        permission=old.permission or new.permission,
    )
    is_specific = _compute_specificity(new) > _compute_specificity(old)
    valid_to = _select(max, old.valid_to, new.valid_to)
    other = new.category if old.category is not None and new.category != old.category else None
    changed = replace(
        after,
        kind=new.kind if is_specific else old.kind,
        layer=new.layer if is_specific else old.layer,
        category=old.category if old.category is not None else new.category,
        tags=merge_tags(after.tags, (other,) if other else ())[:MOST_LABELS],
        valid_from=_select(min, old.valid_from, new.valid_from),
        valid_to=valid_to,
        replaced_by="" if valid_to is None else old.replaced_by,
        perhaps_replaced_by="",
    )
    return changed if changed == after else replace(changed, updated_at=updated_at)


def merge_same_texts(records: Sequence[Record], *, now: datetime) -> list[Change]:
    """Return the changes that leave one live record of several with the same text.

    The most trusted stays, and of these the oldest. Counts, tags and references are joined. The others are archived.

    Args:
        records: At least two live records with the same scope and fingerprint.
        now: The current time.
    """
    first, *others = sorted(records, key=lambda each: (ORIGINS.index(each.origin), each.created_at, each.id))
    after = first
    changes = []
    for other in others:
        count = after.seen_count + other.seen_count
        after = replace(reinforce_record(after, other, now=after.last_seen_at), seen_count=count)
        archived = replace(
            other, archived_at=max(now, other.created_at), archive_reason=f"the same text as {first.id}"
        )
        changes.append(Change(before=other, after=archived))
    return [*changes, Change(before=first, after=after)]


def _compute_specificity(record: Record) -> int:
    """Return how much the kind says: a fact may be anything, and a constraint holds for every task."""
    return 0 if record.kind == "fact" else 2 if record.kind == "constraint" else 1


def _select(
    pick: Callable[[datetime, datetime], datetime], a: datetime | None, b: datetime | None
) -> datetime | None:
    """Return one of two times; None, which means unlimited, if one of them is None."""
    return None if a is None or b is None else pick(a, b)
