"""Reader of RockBot's memory entries, the files `{category}/{id}.json`.

An entry has `id`, `content`, `category`, `tags`, `createdAt`, `updatedAt` and `metadata`; later versions add
`importanceScore`, `lastSeenAt`, `reinforcementCount`, `supersededBy`, `archivedAt`, `archiveReason`. An id of
twelve lower-case hexadecimal characters is kept as the id; any other goes into the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import ForeignFields
from reverie.admin.transfer.items import ImportTerms, Item, Skipped, build_stable_id, hash_texts
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, infer_kind
from reverie.domain.text.ids import validate_id

FORM = "rockbot"


def is_entry(data: Mapping[str, Any]) -> bool:
    """Whether an object looks like a memory entry."""
    fields = ForeignFields(data)
    return fields.has("id") and fields.has("content") and fields.has("createdAt") and not fields.has("role")


def read(path: Path, terms: ImportTerms, *, name: str) -> Iterator[Item]:
    """Yield the record of one entry's file.

    Args:
        name: Its path below the memory folder; its folders are the category if the entry names none.
    """
    try:
        data = safe_reading.parse_json_object(safe_reading.read_text(path))
    except InvalidInput as error:
        yield notes.skip("file", name, error)
        return
    if not is_entry(data):
        detail = "no memory entry: it has no 'id', 'content' and 'createdAt'"
        yield Skipped(what="file", place=name, why="unsupported", detail=detail)
        return
    yield parse_entry(data, terms, place=name, folder=str(PurePosixPath(name).parent))


def parse_entry(data: Mapping[str, Any], terms: ImportTerms, *, place: str, folder: str = "") -> Item:
    """Return the record of one entry.

    Args:
        folder: The folders of its file.
    """
    fields = ForeignFields(data)
    content = fields.text("content").strip()
    if not content:
        return Skipped(what="record", place=place, why="empty")
    category = fields.category("category") or ForeignFields({"category": folder}).category("category")
    kind = infer_kind(category)
    created = fields.moment("createdAt") or fields.moment("updatedAt") or terms.now
    updated = max(created, fields.moment("updatedAt") or created)
    source_id = fields.label("id") or hash_texts(content)
    return notes.build_foreign_record(
        FORM,
        terms,
        source_id,
        content,
        place=place,
        at=updated,
        id=_build_id(source_id, terms.foreign_scope),
        created_at=created,
        last_seen_at=max(created, fields.moment("lastSeenAt") or updated),
        category=category,
        kind=kind,
        layer=HOME_LAYERS[kind],
        tags=fields.labels("tags"),
        importance=fields.share("importanceScore", "importance", default=0.5),
        seen_count=fields.count("reinforcementCount", default=1),
        metadata=_collect_extra_metadata(fields, category),
        **_parse_archiving(fields, updated),
    )


def _build_id(source_id: str, scope: str) -> str:
    try:
        return validate_id(source_id)
    except InvalidInput:
        return build_stable_id(FORM, scope, source_id)


def _parse_archiving(fields: ForeignFields, updated: datetime) -> dict[str, Any]:
    by = fields.label("supersededBy")
    archived = fields.moment("archivedAt")
    if archived is None and not by:
        return {}
    reason = fields.label("archiveReason") or (f"superseded by {by}" if by else "archived")
    return {"archived_at": archived or updated, "archive_reason": reason}


def _collect_extra_metadata(fields: ForeignFields, category: str | None) -> dict[str, str]:
    """Return the entry's metadata and the values that no field of a record holds."""
    rest = fields.texts("metadata")
    named = fields.label("category")
    if category is None and named:
        rest["category"] = named
    if by := fields.label("supersededBy"):
        rest["superseded_by"] = by
    return rest
