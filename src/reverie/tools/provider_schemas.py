"""Schemas of tools in the form of each provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reverie.domain.text.json_values import to_json_value
from reverie.llm.messages import ToolSpec

if TYPE_CHECKING:
    from reverie.tools.toolset import Tool

_NOT_STRICT = {"minLength", "maxLength", "default"}
"""Keywords that strict mode refuses. The arguments are checked against the whole schema in any case."""


TEXT_RESULT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "trusted": {"type": "boolean", "description": "False if it shows what a tool or the web said."},
    },
    "required": ["text", "trusted"],
}
"""Schema of the structured content over MCP. Some clients show a model nothing else, so it is the text."""


def to_openai(spec: ToolSpec, *, strict: bool) -> dict[str, Any]:
    """Return an element of `tools` of a chat completion.

    Args:
        strict: Whether to ask for strict arguments, where the schema allows it.
    """
    return {"type": "function", "function": _to_function(spec, strict=strict)}


def to_openai_responses(spec: ToolSpec, *, strict: bool) -> dict[str, Any]:
    """Return an element of `tools` of a response; `strict` as in `to_openai`."""
    return {"type": "function", **_to_function(spec, strict=strict)}


def to_anthropic(specs: Iterable[ToolSpec], *, cached: bool) -> list[dict[str, Any]]:
    """Return `tools` of a message.

    Args:
        cached: Whether to mark the last tool as the end of a prefix that the server caches.
    """
    tools: list[dict[str, Any]] = [
        {
            "name": spec.name,
            "description": spec.description,
            "input_schema": to_json_value(spec.parameters),
        }
        for spec in specs
    ]
    if cached and tools:
        tools[-1]["cache_control"] = {"type": "ephemeral"}
    return tools


def to_mcp(tool: Tool) -> dict[str, Any]:
    """Return an element of the answer to `tools/list`."""
    title = tool.name.replace("_", " ").capitalize()
    return {
        "name": tool.name,
        "title": title,
        "description": tool.spec.description,
        "inputSchema": to_json_value(tool.spec.parameters),
        "outputSchema": to_json_value(TEXT_RESULT),
        "annotations": {
            "title": title,
            "readOnlyHint": tool.reads_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent or tool.reads_only,
            "openWorldHint": False,
        },
    }


def _to_function(spec: ToolSpec, *, strict: bool) -> dict[str, Any]:
    parameters = to_json_value(spec.parameters)
    strict_parameters = _to_strict_schema(parameters) if strict else None
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": parameters if strict_parameters is None else strict_parameters,
        "strict": strict_parameters is not None,
    }


def _to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the form of strict mode, or None where it cannot be expressed."""
    supported = {key: value for key, value in schema.items() if key not in _NOT_STRICT}
    types = schema.get("type")
    if types is None:
        return None
    if types == "array":
        items = _to_strict_schema(schema.get("items", {}))
        return None if items is None else {**supported, "items": items}
    if types != "object":
        return supported
    if schema.get("additionalProperties") is not False:
        return None
    properties = {}
    for name, value in schema["properties"].items():
        strict = _to_strict_schema(value)
        if strict is None:
            return None
        properties[name] = strict if name in schema["required"] else {"anyOf": [strict, {"type": "null"}]}
    return {**supported, "properties": properties, "required": list(properties)}
