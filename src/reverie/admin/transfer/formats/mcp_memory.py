"""Reader of the JSON lines of the MCP reference memory server.

An entity has a name, a type and observations; each observation becomes a record that names the entity. A
relation becomes a record too. The server writes one object a
line, without times.
"""

from __future__ import annotations

from collections.abc import Iterator

from reverie.admin.transfer.formats.foreign import ForeignFields, build_foreign_record, skip
from reverie.admin.transfer.items import Form, ImportTerms, Item, Skipped, hash_texts
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.errors import InvalidInput
from reverie.domain.text.validation import clean_text

FORM: Form = "mcp"
CATEGORY = "knowledge-graph"
"""Category of every record of a graph."""


class McpMemory:
    """The format of the MCP reference memory server."""

    form: Form = FORM

    def recognises(self, value: object) -> bool:
        """Return whether a value is an entity or a relation."""
        return isinstance(value, dict) and value.get("type") in ("entity", "relation")

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the records of a graph; raise `InvalidInput` if it cannot be read."""
        for place, value in file.values():
            if isinstance(value, InvalidInput):
                yield skip("line", place, value)
            elif not isinstance(value, dict):
                yield Skipped(what="line", place=place, why="broken", detail="not an object")
            elif not self.recognises(value):
                detail = "neither an entity nor a relation"
                yield Skipped(what="line", place=place, why="unsupported", detail=detail)
            elif value["type"] == "entity":
                yield from _parse_entity(ForeignFields(value), terms, place)
            else:
                yield _parse_relation(ForeignFields(value), terms, place)


def _parse_entity(fields: ForeignFields, terms: ImportTerms, place: str) -> Iterator[Item]:
    name, kind = fields.label("name"), fields.label("entityType")
    if not name:
        yield Skipped(what="record", place=place, why="broken", detail="an entity has no name")
        return
    tags = (kind,) if kind else ()
    metadata = {"entity": name} | ({"entity_type": kind} if kind else {})
    observations = fields.value("observations")
    if observations is None or observations == []:
        yield _build_item(f"{name}: {kind or 'entity'}", ("entity", name, ""), tags, metadata, terms, place)
        return
    if not isinstance(observations, list):
        yield Skipped(what="record", place=place, why="broken", detail="its observations are not a list")
        return
    for number, observation in enumerate(observations, start=1):
        where = f"{place}, observation {number}"
        if not isinstance(observation, str):
            yield Skipped(what="record", place=where, why="broken", detail="not text")
        elif not (text := clean_text(observation).strip()):
            yield Skipped(what="record", place=where, why="empty")
        else:
            content = _format_observation(name, text)
            own = metadata | {"observation": text}
            yield _build_item(content, ("entity", name, text), tags, own, terms, where)


def _parse_relation(fields: ForeignFields, terms: ImportTerms, place: str) -> Item:
    source, verb, target = fields.label("from"), fields.label("relationType"), fields.label("to")
    if not (source and verb and target):
        detail = "a relation needs 'from', 'relationType' and 'to'"
        return Skipped(what="record", place=place, why="broken", detail=detail)
    content = f"{source} {verb.replace('_', ' ')} {target}"
    metadata = {"from": source, "relation": verb, "to": target}
    return _build_item(content, ("relation", source, verb, target), ("relation",), metadata, terms, place)


def _build_item(
    content: str,
    identity: tuple[str, ...],
    tags: tuple[str, ...],
    metadata: dict[str, str],
    terms: ImportTerms,
    place: str,
) -> Item:
    return build_foreign_record(
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


def _format_observation(name: str, text: str) -> str:
    """Return an observation with the name of its entity, unless it has it."""
    plain = " ".join(name.replace("_", " ").split()).lower()
    names_it = bool(plain) and plain in " ".join(text.replace("_", " ").split()).lower()
    return text if names_it else f"{name}: {text}"
