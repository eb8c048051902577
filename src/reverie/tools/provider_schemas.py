"""How does each provider want to be shown a tool? The same schema in four shapes; nothing is called here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reverie.tools.toolset import Tool

_NOT_STRICT = {"minLength", "maxLength", "default"}
"""What strict mode refuses in a schema; the arguments are checked against all of it in any case."""


def to_openai(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """As in `tools` of a chat completion.

    Args:
        tool: The tool.
        strict: Whether to ask for strict arguments, where its schema allows it.
    """
    return {"type": "function", "function": _to_function(tool, strict=strict)}


def to_openai_responses(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """As in `tools` of a response: the same without the level between.

    Args:
        tool: The tool.
        strict: Whether to ask for strict arguments, where its schema allows it.
    """
    return {"type": "function", **_to_function(tool, strict=strict)}


def to_anthropic(tools: Iterable[Tool], *, cached: bool) -> list[dict[str, Any]]:
    """As in `tools` of a message.

    Args:
        tools: The tools.
        cached: Whether to mark the last one as the end of what the server may keep.
    """
    made = [
        {
            "name": tool.name,
            "description": tool.spec.description,
            "input_schema": to_plain_json(tool.spec.parameters),
        }
        for tool in tools
    ]
    if cached and made:
        made[-1]["cache_control"] = {"type": "ephemeral"}
    return made


def to_mcp(tool: Tool) -> dict[str, Any]:
    """As in the answer to `tools/list`."""
    made: dict[str, Any] = {
        "name": tool.name,
        "title": tool.name.replace("_", " ").capitalize(),
        "description": tool.spec.description,
        "inputSchema": to_plain_json(tool.spec.parameters),
    }
    if tool.result is not None:
        made["outputSchema"] = to_plain_json(tool.result)
    made["annotations"] = {
        "readOnlyHint": tool.reads_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
        "openWorldHint": False,
    }
    return made


def _to_function(tool: Tool, *, strict: bool) -> dict[str, Any]:
    parameters = to_plain_json(tool.spec.parameters)
    strictly = _to_strict_schema(parameters) if strict else None
    return {
        "name": tool.name,
        "description": tool.spec.description,
        "parameters": parameters if strictly is None else strictly,
        "strict": strictly is not None,
    }


def _to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema as strict mode takes it, or None where it cannot say so."""
    made = {key: value for key, value in schema.items() if key not in _NOT_STRICT}
    kinds = schema.get("type")
    if kinds is None:
        return None
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        items = _to_strict_schema(schema.get("items", {}))
        return None if items is None else {**made, "items": items}
    if kinds != "object":
        return made
    if schema.get("additionalProperties") is not False:
        return None
    properties = {}
    for name, each in schema["properties"].items():
        strictly = _to_strict_schema(each)
        if strictly is None:
            return None
        properties[name] = strictly if name in schema["required"] else _allow_null(strictly)
    return {**made, "properties": properties, "required": list(properties)}


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null for what is left out."""
    kinds = schema["type"]
    made = {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    if "enum" in schema:
        made["enum"] = [*schema["enum"], None]
    return made


def to_plain_json(value: Any) -> Any:
    """A schema as dictionaries and lists that are nobody else's, which JSON can write."""
    if isinstance(value, Mapping):
        return {key: to_plain_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_json(each) for each in value]
    return value
