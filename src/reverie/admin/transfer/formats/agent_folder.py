"""Readers of other agents' folders: memory items of golemcore, entries of RockBot, notes and sessions, by path.

    MEMORY.md, HISTORY.md, 2026-02-07.md, other .md      notes (`notes`)
    items/**/*.jsonl                                     golemcore's memory items
    {category}/{id}.json                                 RockBot's memory entries
    sessions/*.json, sessions/*.jsonl                    conversations of golemcore and Autobot (`messages`)

They are in the folder itself, or the first three in its subfolder `memory`. The profile beside that subfolder
(`soul.md` and similar) is not memory, and is reported as left out.

An item has `id`, `layer`, `type`, `title`, `content`, `tags`, `source`, `confidence`, `salience`, `ttlDays`,
`createdAt`, `updatedAt`, `lastAccessedAt`, `references`. A promoted item is in two files with one id, so the
semantic and procedural files are read first, and the promoted version is imported. An entry has `id`, `content`,
`category`, `tags`, `createdAt`, `updatedAt` and `metadata`; later versions add `importanceScore`, `lastSeenAt`,
`reinforcementCount`, `supersededBy`, `archivedAt`, `archiveReason`. An id of twelve lower-case hexadecimal
characters stays the id; any other goes into the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

from reverie.admin.transfer.batch import Form, ImportTerms, Item, Skipped, build_stable_id, hash_texts
from reverie.admin.transfer.formats import messages, notes
from reverie.admin.transfer.formats.foreign import ForeignFields, build_foreign_record, read_values, skip
from reverie.admin.transfer.safe_reading import Source, SourceFile
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, KINDS, LAYERS, infer_kind
from reverie.domain.text import timestamps
from reverie.domain.text.ids import validate_id

MEMORY = "memory"
SESSIONS = "sessions"

_ELSEWHERE = "no notes, memory items, entries or sessions"
_LONGEST_TTL_DAYS = 36_500


class Golemcore:
    """The format of golemcore's memory items."""

    form: Form = "golemcore"

    def recognises(self, value: object) -> bool:
        """Return whether a value is a memory item."""
        if not isinstance(value, dict):
            return False
        fields = ForeignFields(value)
        return fields.has("content") and fields.has("layer") and not fields.has("role")

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the records of one file of items."""
        other = "no memory item: it has no 'content' and 'layer'"
        return read_values(
            file, self.recognises, lambda value, place: [_parse_item(value, terms, place=place)],
            what="line", otherwise=other,
        )  # fmt: skip


class RockBot:
    """The format of RockBot's memory entries, one in each file."""

    form: Form = "rockbot"

    def recognises(self, value: object) -> bool:
        """Return whether a value is a memory entry."""
        if not isinstance(value, dict):
            return False
        fields = ForeignFields(value)
        has_all = all(fields.has(name) for name in ("id", "content", "createdAt"))
        return has_all and not fields.has("role") and not fields.has("layer")

    def read(self, file: SourceFile, terms: ImportTerms, *, name: str = "") -> Iterator[Item]:
        """Yield the records of a file.

        Args:
            name: Its path below the memory folder; its folders are the category if the entry names none.
        """
        folder = str(PurePosixPath(name or file.name).parent)
        other = "no memory entry: it has no 'id', 'content' and 'createdAt'"
        items = read_values(
            file, self.recognises, lambda value, place: [_parse_entry(value, terms, place=place, folder=folder)],
            what="file", otherwise=other,
        )  # fmt: skip
        first = next(items, Skipped(what="file", place=file.place, why="empty"))
        yield from (first, *items)


_GOLEMCORE, _ROCKBOT = Golemcore(), RockBot()


def detect_file_format(file: SourceFile) -> Form | None:
    """Return the format that one file of a folder shows; None if it shows none."""
    name = PurePosixPath(file.name)
    if name.suffix not in (".jsonl", ".json") or SESSIONS in name.parts[:-1]:
        return None
    known: Golemcore | RockBot = _GOLEMCORE if name.suffix == ".jsonl" else _ROCKBOT
    try:
        return known.form if any(known.recognises(value) for _, value in file.values()) else None
    except InvalidInput:
        return None


def read_folder(source: Source, terms: ImportTerms) -> Iterator[Item]:
    """Yield everything known in a folder, and the rest as left out.

    Raises:
        InvalidInput: it cannot be read.
    """
    has_memory = source.path.name != MEMORY and any(
        file.name.startswith(f"{MEMORY}/") for file in source.files
    )
    for file in sorted(source.files, key=lambda each: (not _is_promoted(each.name), each.name)):
        name = file.name.removeprefix(f"{MEMORY}/") if has_memory else file.name
        if has_memory and name == file.name and not name.startswith(f"{SESSIONS}/"):
            detail = "beside the memory, such as a profile: copy it yourself"
            yield Skipped(what="file", place=file.place, why="unsupported", detail=detail)
        else:
            yield from _read(file, name, terms)
    for unread in source.unread:
        yield Skipped(what="file", place=unread, why="unsupported", detail=_ELSEWHERE)


def read_file(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield one file of such a folder: a note, or a file of items."""
    yield from _read(file, file.name, terms)


def _is_promoted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix == ".jsonl" and path.stem.lower() in ("semantic", "procedural")


def _read(file: SourceFile, name: str, terms: ImportTerms) -> Iterator[Item]:
    ending = PurePosixPath(name).suffix.lower()
    try:
        if name.startswith(f"{SESSIONS}/") and ending in (".json", ".jsonl"):
            yield from messages.read_session(file, terms)
        elif ending == ".jsonl":
            yield from _GOLEMCORE.read(file, terms)
        elif ending == ".json":
            yield from _ROCKBOT.read(file, terms, name=name)
        elif ending == ".md":
            yield from notes.read(name, file.read_text(), terms, place=file.place, at=file.modified_at)
        else:
            yield Skipped(what="file", place=file.place, why="unsupported", detail=_ELSEWHERE)
    except InvalidInput as error:
        yield skip("page" if ending == ".md" else "file", file.place, error)


# -- golemcore -----------------------------------------------------------------------------------------------


def _parse_item(data: Mapping[str, Any], terms: ImportTerms, *, place: str) -> Item:
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
    return build_foreign_record(
        "golemcore",
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
        source=fields.label("source") or "import:golemcore",
        references=fields.labels("references", longest=2_000),
        expires_at=expires,
        metadata=_collect_item_metadata(fields),
    )


def _collect_item_metadata(fields: ForeignFields) -> dict[str, str]:
    """Return the values that no field of a record holds."""
    accessed = fields.moment("lastAccessedAt")
    rest = {
        "title": fields.text("title").strip(),
        "type": "" if fields.choice(KINDS, "type", "kind") else fields.label("type", "kind"),
        "last_accessed_at": "" if accessed is None else timestamps.format_time(accessed),
    }
    return {name: text for name, text in rest.items() if text}


# -- RockBot -------------------------------------------------------------------------------------------------


def _parse_entry(data: Mapping[str, Any], terms: ImportTerms, *, place: str, folder: str = "") -> Item:
    """Return the record of one entry.

    Args:
        folder: The folders of its file.
    """
    fields = ForeignFields(data)
    content = fields.text("content").strip()
    if not content:
        return Skipped(what="record", place=place, why="empty")
    category = fields.category("category") or ForeignFields({"category": folder}).category("category")
    kind = infer_kind(category) or "fact"
    created = fields.moment("createdAt") or fields.moment("updatedAt") or terms.now
    updated = max(created, fields.moment("updatedAt") or created)
    source_id = fields.label("id") or hash_texts(content)
    return build_foreign_record(
        "rockbot",
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
        metadata=_collect_entry_metadata(fields),
        **_parse_archiving(fields, updated),
    )


def _build_id(source_id: str, scope: str) -> str:
    try:
        return validate_id(source_id)
    except InvalidInput:
        return build_stable_id("rockbot", scope, source_id)


def _parse_archiving(fields: ForeignFields, updated: datetime) -> dict[str, Any]:
    by = fields.label("supersededBy")
    archived = fields.moment("archivedAt")
    if archived is None and not by:
        return {}
    reason = fields.label("archiveReason") or (f"superseded by {by}" if by else "archived")
    return {"archived_at": archived or updated, "archive_reason": reason}


def _collect_entry_metadata(fields: ForeignFields) -> dict[str, str]:
    """Return the entry's metadata and the values that no field of a record holds."""
    rest = fields.texts("metadata")
    named = fields.label("category")
    if named and fields.category("category") is None:
        rest["category"] = named
    if by := fields.label("supersededBy"):
        rest["superseded_by"] = by
    return rest
