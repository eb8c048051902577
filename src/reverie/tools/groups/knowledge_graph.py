"""The nine tools of the reference MCP memory server, over a `KnowledgeGraph`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reverie.domain.errors import NotFound
from reverie.llm.messages import ToolSpec
from reverie.repositories.knowledge_graph import KnowledgeGraph, Plain
from reverie.tools import schemas
from reverie.tools.toolset import Tool, ToolResult, Toolset


def build_knowledge_graph_tools(graph: KnowledgeGraph) -> Toolset:
    """Return the nine tools of the reference memory server, with its names, arguments and answers."""

    def listed(key: str, change: Callable[[Any], list[Plain]], argument: str) -> Callable[..., ToolResult]:
        def run(given: Mapping[str, Any]) -> ToolResult:
            try:
                made = change(given[argument])
            except NotFound as error:
                return ToolResult(
                    str(error), failed=True
                )  # the reference server's words, without any of ours
            return ToolResult(_to_json(made), {key: made})

        return run

    def deleting(what: str, change: Callable[[Any], None], argument: str) -> Callable[..., ToolResult]:
        def run(given: Mapping[str, Any]) -> ToolResult:
            change(given[argument])
            message = f"{what} deleted successfully"
            return ToolResult(message, {"success": True, "message": message})

        return run

    def reading(read: Callable[[Mapping[str, Any]], Plain]) -> Callable[..., ToolResult]:
        def run(given: Mapping[str, Any]) -> ToolResult:
            found = read(given)
            return ToolResult(_to_json(found), found)

        return run

    runs: dict[str, Callable[..., ToolResult]] = {
        "create_entities": listed("entities", graph.create_entities, "entities"),
        "create_relations": listed("relations", graph.create_relations, "relations"),
        "add_observations": listed("results", graph.add_observations, "observations"),
        "delete_entities": deleting("Entities", graph.delete_entities, "entityNames"),
        "delete_observations": deleting("Observations", graph.delete_observations, "deletions"),
        "delete_relations": deleting("Relations", graph.delete_relations, "relations"),
        "read_graph": reading(lambda given: graph.read_graph()),
        "search_nodes": reading(lambda given: graph.search_nodes(given["query"])),
        "open_nodes": reading(lambda given: graph.open_nodes(given["names"])),
    }
    return Toolset(
        Tool(
            spec=spec,
            run=runs[spec.name],
            reads_only=result is _GRAPH,
            destructive=result is _DONE,
            idempotent=result is _DONE or result is _GRAPH,
            result=result,
        )
        for spec, result in _TOOLS
    )


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _open(required: Sequence[str], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object that may have further properties."""
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _build_text_schema(description: str = "") -> Mapping[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _list(items: Mapping[str, Any], description: str = "") -> Mapping[str, Any]:
    schema = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


_ENTITIES = _list(
    _open(
        ["name", "entityType", "observations"],
        name=_build_text_schema("What the entity is called; no two have one name."),
        entityType=_build_text_schema("What sort of thing it is, such as person or project."),
        observations=_list(_build_text_schema(), "What is known of it, one fact each."),
    )
)
_RELATIONS = _list(
    _open(
        ["from", "to", "relationType"],
        **{
            "from": _build_text_schema("The name of the entity that it starts at."),
            "to": _build_text_schema("The name of the entity that it ends at."),
            "relationType": _build_text_schema(
                "What the first is to the second, in active voice, such as works_at."
            ),
        },
    )
)
_NAME = _build_text_schema("The name of the entity.")
_ANY_NAME = {"type": "string", "minLength": 0}  # an empty name in a list is a name
_GRAPH = schemas.build_parameters(["entities", "relations"], entities=_ENTITIES, relations=_RELATIONS)
_DONE = schemas.build_parameters(
    ["success", "message"], success={"type": "boolean"}, message=_build_text_schema()
)
_RESULTS = _list(
    _open(
        ["entityName", "addedObservations"],
        entityName=_build_text_schema(),
        addedObservations=_list(_build_text_schema()),
    )
)
_TOOLS: Sequence[tuple[ToolSpec, Mapping[str, Any]]] = (
    (
        ToolSpec(
            name="create_entities",
            description="Create new entities in the knowledge graph. Those whose name is there already are "
            "left as they are; the answer has the new ones.",
            parameters=_open(["entities"], entities=_ENTITIES),
        ),
        schemas.build_parameters(["entities"], entities=_ENTITIES),
    ),
    (
        ToolSpec(
            name="create_relations",
            description="Create new relations between entities of the knowledge graph, in active voice. "
            "Those that are there already are left out; the answer has the new ones.",
            parameters=_open(["relations"], relations=_RELATIONS),
        ),
        schemas.build_parameters(["relations"], relations=_RELATIONS),
    ),
    (
        ToolSpec(
            name="add_observations",
            description="Add observations to entities that are in the knowledge graph already. The answer "
            "has those that were new.",
            parameters=_open(
                ["observations"],
                observations=_list(
                    _open(
                        ["entityName", "contents"],
                        entityName=_NAME,
                        contents=_list(_build_text_schema(), "What to add, one fact each."),
                    )
                ),
            ),
        ),
        schemas.build_parameters(["results"], results=_RESULTS),
    ),
    (
        ToolSpec(
            name="delete_entities",
            description="Delete entities from the knowledge graph, with their observations and relations.",
            parameters=_open(["entityNames"], entityNames=_list(_ANY_NAME, "The names of the entities.")),
        ),
        _DONE,
    ),
    (
        ToolSpec(
            name="delete_observations",
            description="Delete single observations of entities of the knowledge graph.",
            parameters=_open(
                ["deletions"],
                deletions=_list(
                    _open(
                        ["entityName", "observations"],
                        entityName=_NAME,
                        observations=_list(_build_text_schema(), "What to delete, in the very words."),
                    )
                ),
            ),
        ),
        _DONE,
    ),
    (
        ToolSpec(
            name="delete_relations",
            description="Delete relations from the knowledge graph.",
            parameters=_open(["relations"], relations=_RELATIONS),
        ),
        _DONE,
    ),
    (
        ToolSpec(
            name="read_graph",
            description="Read the whole knowledge graph.",
            parameters=_open([]),
        ),
        _GRAPH,
    ),
    (
        ToolSpec(
            name="search_nodes",
            description="Find the entities of the knowledge graph that have a text in their name, type or "
            "observations, with the relations at them.",
            parameters=_open(["query"], query=_build_text_schema("The text to look for, in any case.")),
        ),
        _GRAPH,
    ),
    (
        ToolSpec(
            name="open_nodes",
            description="Show entities of the knowledge graph by name, with the relations at them.",
            parameters=_open(["names"], names=_list(_ANY_NAME, "The names of the entities.")),
        ),
        _GRAPH,
    ),
)
