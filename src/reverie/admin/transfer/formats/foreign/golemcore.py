"""Reader of golemcore's memory items, the lines of `items/**/*.jsonl`.

A line has `id`, `layer`, `type`, `title`, `content`, `tags`, `source`, `confidence`, `salience`, `ttlDays`,
`createdAt`, `updatedAt`, `lastAccessedAt`, `references`. A promoted item is in two files with one id, so the
semantic and procedural files are read first, and the promoted version is imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import ForeignFields
from reverie.admin.transfer.items import ImportTerms, Item, Skipped, hash_texts
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, KINDS, LAYERS
from reverie.domain.text import timestamps

FORM = "golemcore"

_LONGEST_TTL_DAYS = 36_500


def read(path: Path, terms: ImportTerms, *, name: str) -> Iterator[Item]:
    """Yield the records of one file of items."""
    with safe_reading.open_file(path) as file:
        for number, data in safe_reading.iter_documents(file):
            place = f"{name}, line {number}"
            if isinstance(data, InvalidInput):
                yield notes.skip("line", place, data)
            elif not is_item(data):
                detail = "no memory item: it has no 'content' and 'layer'"
                yield Skipped(what="line", place=place, why="unsupported", detail=detail)
            else:
                yield parse_item(data, terms, place=place)


def is_item(data: Mapping[str, Any]) -> bool:
    """Whether an object looks like a memory item."""
    fields = ForeignFields(data)
    return fields.has("content") and fields.has("layer") and not fields.has("role")


def is_promoted(name: str) -> bool:
    """Whether a file holds promoted items, which are read first."""
    return PurePosixPath(name).stem.lower() in ("semantic", "procedural")


def parse_item(data: Mapping[str, Any], terms: ImportTerms, *, place: str) -> Item:
    """Return the record of one item."""
    fields = ForeignFields(data)
    content = fields.text("content").strip()
    if not content:
        return Skipped(what="record", place=place, why="empty")
    kind = fields.choice(KINDS, "type", "kind") or "fact"
    layer = fields.choice(LAYERS, "layer") or ("episodic" if fields.text("layer") else HOME_LAYERS[kind])
    created = fields.moment("createdAt", "timestamp") or fields.moment("updatedAt") or terms.now
    updated = max(created, fields.moment("updatedAt") or created)
    days = fields.count("ttlDays", "ttl", default=0)
    expires = created + timedelta(days=days) if 0 < days <= _LONGEST_TTL_DAYS else None
    source_id = fields.label("id") or hash_texts(kind, content)
    return notes.build_foreign_record(
        FORM,
        terms,
        source_id,
        content,
        place=place,
        at=updated,
        created_at=created,
        kind=kind,
        layer=layer,
        tags=fields.labels("tags"),
        confidence=fields.share("confidence", default=0.75),
        importance=fields.share("salience", "importance", default=0.7),
        source=fields.label("source") or f"import:{FORM}",
        references=fields.labels("references", longest=2_000),
        expires_at=expires,
        metadata=_collect_extra_metadata(fields),
    )


def _collect_extra_metadata(fields: ForeignFields) -> dict[str, str]:
    """Return the values that no field of a record holds."""
    accessed = fields.moment("lastAccessedAt")
    rest = {
        "title": fields.text("title").strip(),
        "type": "" if fields.choice(KINDS, "type", "kind") else fields.label("type", "kind"),
        "last_accessed_at": "" if accessed is None else timestamps.format_time(accessed),
    }
    return {name: text for name, text in rest.items() if text}
