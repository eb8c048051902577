"""The nine tools of the reference MCP memory server, over a `KnowledgeGraph`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from reverie.domain.errors import NotFound
from reverie.llm.messages import ToolSpec
from reverie.repositories.knowledge_graph import KnowledgeGraph
from reverie.tools import schemas
from reverie.tools.toolset import Tool, ToolResult, Toolset


def build_knowledge_graph_tools(graph: KnowledgeGraph) -> Toolset:
    """Return the nine tools of the reference memory server, with its names, arguments and answers.

    Each calls the method of its name.
    """
    return Toolset(
        Tool(
            spec=spec,
            run=partial(_run, getattr(graph, spec.name), spec.name, result),
            reads_only=result is _GRAPH,
            destructive=result is _DONE,
            idempotent=result is _DONE or result is _GRAPH,
            result=result,
        )
        for spec, result in _TOOLS
    )


def _run(
    method: Callable[..., Any], name: str, result: Mapping[str, Any], given: Mapping[str, Any]
) -> ToolResult:
    """Call a method with the only argument of its tool, if it has one, and return the answer in that form."""
    try:
        answer = method(*given.values())
    except NotFound as error:
        return ToolResult(str(error), failed=True)  # the reference server's words, without any of ours
    if result is _DONE:
        message = f"{name.removeprefix('delete_').capitalize()} deleted successfully"
        return ToolResult(message, {"success": True, "message": message})
    data = answer if result is _GRAPH else {key: answer for key in result["properties"]}
    return ToolResult(json.dumps(answer, ensure_ascii=False, indent=2), data)


def _open(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object that has these properties, and may have others."""
    return {"type": "object", "properties": properties, "required": [*properties]}


def _close(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object that has these properties and no others."""
    return schemas.build_parameters([*properties], **properties)


def _build_text_schema(description: str = "") -> Mapping[str, Any]:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _list(items: Mapping[str, Any], description: str = "") -> Mapping[str, Any]:
    schema = {"type": "array", "items": items}
    return {**schema, "description": description} if description else schema


_ENTITIES = _list(
    _open(
        name=_build_text_schema("What the entity is called; no two have one name."),
        entityType=_build_text_schema("What sort of thing it is, such as person or project."),
        observations=_list(_build_text_schema(), "What is known of it, one fact each."),
    )
)
_RELATIONS = _list(
    _open(
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
_GRAPH = _close(entities=_ENTITIES, relations=_RELATIONS)
_DONE = _close(success={"type": "boolean"}, message=_build_text_schema())
_RESULTS = _list(
    _open(
        entityName=_build_text_schema(),
        addedObservations=_list(_build_text_schema()),
    )
)


def _define(
    name: str, description: str, result: Mapping[str, Any], **arguments: Mapping[str, Any]
) -> tuple[ToolSpec, Mapping[str, Any]]:
    """Return a tool that needs all of its arguments, and the schema of its result."""
    return ToolSpec(name=name, description=description, parameters=_open(**arguments)), result


_TOOLS: Sequence[tuple[ToolSpec, Mapping[str, Any]]] = (
    _define(
        "create_entities",
        "Create new entities in the knowledge graph. Those whose name is there already are "
        "left as they are; the answer has the new ones.",
        _close(entities=_ENTITIES),
        entities=_ENTITIES,
    ),
    _define(
        "create_relations",
        "Create new relations between entities of the knowledge graph, in active voice. "
        "Those that are there already are left out; the answer has the new ones.",
        _close(relations=_RELATIONS),
        relations=_RELATIONS,
    ),
    _define(
        "add_observations",
        "Add observations to entities that are in the knowledge graph already. The answer "
        "has those that were new.",
        _close(results=_RESULTS),
        observations=_list(
            _open(
                entityName=_NAME,
                contents=_list(_build_text_schema(), "What to add, one fact each."),
            )
        ),
    ),
    _define(
        "delete_entities",
        "Delete entities from the knowledge graph, with their observations and relations.",
        _DONE,
        entityNames=_list(_ANY_NAME, "The names of the entities."),
    ),
    _define(
        "delete_observations",
        "Delete single observations of entities of the knowledge graph.",
        _DONE,
        deletions=_list(
            _open(
                entityName=_NAME,
                observations=_list(_build_text_schema(), "What to delete, in the very words."),
            )
        ),
    ),
    _define("delete_relations", "Delete relations from the knowledge graph.", _DONE, relations=_RELATIONS),
    _define("read_graph", "Read the whole knowledge graph.", _GRAPH),
    _define(
        "search_nodes",
        "Find the entities of the knowledge graph that have a text in their name, type or "
        "observations, with the relations at them.",
        _GRAPH,
        query=_build_text_schema("The text to look for, in any case."),
    ),
    _define(
        "open_nodes",
        "Show entities of the knowledge graph by name, with the relations at them.",
        _GRAPH,
        names=_list(_ANY_NAME, "The names of the entities."),
    ),
)
