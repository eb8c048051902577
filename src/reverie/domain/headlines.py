"""Headlines: records that sum up others, their parts, which stay as they are.

A headline counts only while its parts are what they were when it was written. Nothing has to be kept up to date
when a part is changed, archived, ended or erased: the headline is then no longer current, and is not shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from types import MappingProxyType

from reverie.domain.dataclass import replace
from reverie.domain.record import (
    DATES,
    MOST_LABELS,
    ORIGINS,
    UNTRUSTED,
    Record,
    merge_tags,
    validate_record,
)
from reverie.domain.text.timestamps import format_time

PARTS_VERSION = "parts_version"
"""Metadata of a headline: `compute_parts_version` of its parts as they were when it was written."""

MERGED_FROM = "merged_from"
"""Metadata of a record that was made of others: the ids of these."""

LEFT_OUT = "left_out"
"""Metadata of a headline: ids of the parts that it does not tell of. It stands for none of these."""


def build_headline(
    parts: Sequence[Record],
    content: str,
    *,
    id: str,
    now: datetime,
    category: str | None = None,
    tags: Iterable[str] = (),
    left_out: Collection[str] = (),
) -> Record:
    """Return a headline over records. Its trust is that of the least trusted part.

    Args:
        parts: The records that it sums up.
        content: What it says.
        id: Its id.
        now: The moment.
        category: Its category; None takes that of the surest part.
        tags: Labels beside those of the parts.
        left_out: Ids of the parts that it does not tell of.

    Raises:
        InvalidInput: a field is not of its form.
    """
    leading = max(parts, key=lambda part: (part.confidence, part.seen_count))
    dates = dict.fromkeys(said for part in parts for said in part.metadata.get(DATES, "").split("; ") if said)
    metadata = {PARTS_VERSION: compute_parts_version(parts)}
    metadata |= {DATES: "; ".join(dates)} if dates else {}
    metadata |= {LEFT_OUT: " ".join(left_out)} if left_out else {}
    return validate_record(
        Record(
            id=id,
            content=content,
            category=leading.category if category is None else category,
            kind=leading.kind,
            layer=leading.layer,
            tags=merge_tags(*(part.tags for part in parts), tags)[:MOST_LABELS],
            confidence=min(part.confidence for part in parts),
            importance=max(part.importance for part in parts),
            origin=max((part.origin for part in parts), key=ORIGINS.index),
            scope=leading.scope,
            created_at=min(part.created_at for part in parts),
            updated_at=max(now, *(part.updated_at for part in parts)),
            last_seen_at=max(part.last_seen_at for part in parts),
            valid_from=leading.valid_from,
            valid_to=leading.valid_to,
            expires_at=min((part.expires_at for part in parts if part.expires_at is not None), default=None),
            metadata=MappingProxyType(metadata),
            parts=tuple(part.id for part in parts),
        )
    )


def explain_mismatch(records: Sequence[Record]) -> str:
    """Return why records cannot have one headline, whatever they say; empty when they can."""
    first = records[0]
    for record in records:
        if record.scope != first.scope:
            return f"{first.id} and {record.id} are of different scopes"
        if (record.origin in UNTRUSTED) != (first.origin in UNTRUSTED):
            return f"one of {first.id} and {record.id} is not trusted, and the other is"
        if _get_times(record) != _get_times(first):
            return f"{first.id} and {record.id} hold at different times"
        if record.is_headline:
            return f"{record.id} is a headline: name the records under it"
    return ""


def detach_changed(before: Record, after: Record) -> Record:
    """Return the changed record; a headline that somebody reworded or pinned is a record of its own from then on.

    Only records are found by their words, and what somebody wrote has to be found.
    """
    if not after.is_headline or ((before.content, before.pinned) == (after.content, after.pinned)):
        return after
    metadata = {key: text for key, text in after.metadata.items() if key not in (PARTS_VERSION, LEFT_OUT)}
    return replace(after, parts=(), metadata=MappingProxyType(metadata))


def compute_parts_version(parts: Iterable[Record]) -> str:
    """Return a hash of what the parts say and when it holds (24 hexadecimal characters).

    Their order makes no difference, nor do their tags, category or the number of times they were said.
    """
    lines = sorted(
        "|".join(
            (part.id, part.fingerprint, *(str(moment and format_time(moment)) for moment in _get_times(part)))
        )
        for part in parts
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:24]


def is_current(headline: Record, parts: Sequence[Record], now: datetime) -> bool:
    """Return whether a headline may stand for its parts.

    Args:
        headline: The headline.
        parts: The records of the ids that it names, those that there still are.
        now: The moment.
    """
    return (
        _is_live(headline, now)
        and len(parts) == len(headline.parts)
        and all(_is_live(part, now) and _belongs(part, headline) for part in parts)
        and headline.metadata.get(PARTS_VERSION) == compute_parts_version(parts)
    )


def list_left_out(headline: Record) -> frozenset[str]:
    """Return the ids of the parts that a headline does not tell of."""
    return frozenset(headline.metadata.get(LEFT_OUT, "").split())


def _get_times(part: Record) -> tuple[datetime | None, datetime | None]:
    return part.valid_from, part.valid_to


def _is_live(record: Record, now: datetime) -> bool:
    return not record.archived and (record.expires_at is None or record.expires_at > now)


def _belongs(part: Record, headline: Record) -> bool:
    """Return whether a record may be a part: of the same scope and trust, and no headline itself."""
    return (
        part.scope == headline.scope
        and not part.is_headline
        and (part.origin in UNTRUSTED) == (headline.origin in UNTRUSTED)
    )
