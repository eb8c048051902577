"""Reader of the JSON lines of the MCP reference memory server.

An entity has a name, a type and observations; each observation becomes a record that names the entity. A
relation becomes a record too. `Memory.knowledge_graph` shows all of them. The server writes one object a
line, without times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.foreign.fields import ForeignFields
from reverie.admin.transfer.items import ImportTerms, Item, Skipped, hash_texts
from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import clean_text
from reverie.repositories.knowledge_graph import (
    CATEGORY,
    ENTITY,
    ENTITY_TYPE,
    FROM,
    OBSERVATION,
    RELATION,
    TO,
    format_observation,
)

FORM = "mcp"


def read(path: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield the records of a graph.

    Raises:
        InvalidInput: it cannot be read.
    """
    with safe_reading.open_file(path) as file:
        for number, data in safe_reading.iter_documents(file):
            place = f"{path.name}, line {number}"
            if isinstance(data, InvalidInput):
                yield notes.skip("line", place, data)
            else:
                yield from parse_object(data, terms, place=place)


def parse_object(data: Mapping[str, Any], terms: ImportTerms, *, place: str) -> Iterator[Item]:
    """Yield the records of one object: an entity or a relation."""
    fields = ForeignFields(data)
    kind = data.get("type")
    if kind == "entity":
        yield from _parse_entity(fields, terms, place)
    elif kind == "relation":
        yield _parse_relation(fields, terms, place)
    else:
        yield Skipped(what="line", place=place, why="unsupported", detail="neither an entity nor a relation")


def _parse_entity(fields: ForeignFields, terms: ImportTerms, place: str) -> Iterator[Item]:
    name, kind = fields.label("name"), fields.label("entityType")
    if not name:
        yield Skipped(what="record", place=place, why="broken", detail="an entity has no name")
        return
    tags = (kind,) if kind else ()
    metadata = {ENTITY: name} | ({ENTITY_TYPE: kind} if kind else {})
    observations = fields.value("observations")
    if observations is None or observations == []:
        yield _build_item(f"{name}: {kind or 'entity'}", ("entity", name, ""), tags, metadata, terms, place)
        return
    if not isinstance(observations, list):
        yield Skipped(what="record", place=place, why="broken", detail="its observations are no list")
        return
    for number, observation in enumerate(observations, start=1):
        where = f"{place}, observation {number}"
        if not isinstance(observation, str):
            yield Skipped(what="record", place=where, why="broken", detail="it is no text")
        elif not (text := clean_text(observation).strip()):
            yield Skipped(what="record", place=where, why="empty")
        else:
            content = format_observation(name, text)
            own = metadata | {OBSERVATION: text}
            yield _build_item(content, ("entity", name, text), tags, own, terms, where)


def _parse_relation(fields: ForeignFields, terms: ImportTerms, place: str) -> Item:
    source, verb, target = fields.label("from"), fields.label("relationType"), fields.label("to")
    if not (source and verb and target):
        detail = "a relation needs 'from', 'relationType' and 'to'"
        return Skipped(what="record", place=place, why="broken", detail=detail)
    content = f"{source} {verb.replace('_', ' ')} {target}"
    metadata = {FROM: source, RELATION: verb, TO: target}
    return _build_item(content, ("relation", source, verb, target), ("relation",), metadata, terms, place)


def _build_item(
    content: str,
    identity: tuple[str, ...],
    tags: tuple[str, ...],
    metadata: dict[str, str],
    terms: ImportTerms,
    place: str,
) -> Item:
    return notes.build_foreign_record(
        FORM,
        terms,
        hash_texts(*identity),
        content,
        place=place,
        at=terms.now,
        category=CATEGORY,
        tags=tags,
        metadata=metadata,
    )
