"""Headlines: records that summarize other records, their parts.

A headline is current only while its parts are unchanged since it was written. When a part is changed, archived, ended
or erased, the headline is no longer shown, and nothing has to be updated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from types import MappingProxyType

from reverie.domain.lazy_dataclass import replace
from reverie.domain.record import MOST_LABELS, ORIGINS, UNTRUSTED, Record, merge_tags, validate_record
from reverie.domain.text.same_text import normalize_case
from reverie.domain.text.timestamps import format_time

PARTS_VERSION = "parts_version"
"""Metadata of a headline: `compute_parts_version` of its parts as they were when it was written."""

MERGED_FROM = "merged_from"
"""Metadata of a record that replaces others: their ids."""

LEFT_OUT = "left_out"
"""Metadata of a headline: ids of the parts that it does not mention and is never shown for."""


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
        parts: The records that it summarizes.
        content: Its text.
        id: Its id.
        now: The current time.
        category: Its category; None takes that of the part with the highest confidence.
        tags: Tags in addition to those of the parts.
        left_out: Ids of the parts that it does not mention.

    Raises:
        InvalidInput: a field is not of its form.
    """
    leading = max(parts, key=lambda part: (part.confidence, part.seen_count))
    dates = dict.fromkeys(said for part in parts for said in part.resolved_dates.split("; ") if said)
    metadata = {PARTS_VERSION: compute_parts_version(parts)}
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
            resolved_dates="; ".join(dates),
            permission=any(part.permission for part in parts),
        )
    )


def explain_mismatch(records: Sequence[Record]) -> str:
    """Return why records cannot have a common headline; empty if they can. Their texts are not compared."""
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
    """Return the changed record; a headline that somebody reworded or pinned becomes an ordinary record.

    Searches find only ordinary records by their words, and what somebody wrote has to be found.
    """
    if not after.is_headline or ((before.content, before.pinned) == (after.content, after.pinned)):
        return after
    metadata = {key: text for key, text in after.metadata.items() if key not in (PARTS_VERSION, LEFT_OUT)}
    return replace(after, parts=(), metadata=MappingProxyType(metadata))


def compute_parts_version(parts: Iterable[Record]) -> str:
    """Return a hash of the parts' kinds, words and times of validity (24 hexadecimal characters).

    Their order, tags, category and the number of times they were saved make no difference.
    """
    lines = []
    for part in parts:
        content = part.id if part.is_item or part.is_headline else part.content
        words = f"{part.kind}|{' '.join(normalize_case(content).split())}"
        times = (str(moment and format_time(moment)) for moment in _get_times(part))
        lines.append("|".join((part.id, hashlib.sha256(words.encode()).hexdigest()[:24], *times)))
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:24]


def is_current(headline: Record, parts: Sequence[Record], now: datetime) -> bool:
    """Return whether a headline may be shown in place of its parts.

    Args:
        headline: The headline.
        parts: Those of its parts that still exist.
        now: The current time.
    """
    return (
        _is_live(headline, now)
        and len(parts) == len(headline.parts)
        and all(_is_live(part, now) and _belongs(part, headline) for part in parts)
        and headline.metadata.get(PARTS_VERSION) == compute_parts_version(parts)
    )


def list_left_out(headline: Record) -> frozenset[str]:
    """Return the ids of the parts that a headline does not mention."""
    return frozenset(headline.metadata.get(LEFT_OUT, "").split())


def _get_times(part: Record) -> tuple[datetime | None, datetime | None]:
    return part.valid_from, part.valid_to


def _is_live(record: Record, now: datetime) -> bool:
    return not record.archived and (record.expires_at is None or record.expires_at > now)


def _belongs(part: Record, headline: Record) -> bool:
    """Return whether a record may be a part of a headline: same scope, same trust, and no headline itself."""
    return (
        part.scope == headline.scope
        and not part.is_headline
        and (part.origin in UNTRUSTED) == (headline.origin in UNTRUSTED)
    )
