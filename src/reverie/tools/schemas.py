"""Building blocks for the JSON schemas of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reverie.domain import category
from reverie.domain.record import KINDS, LAYERS, LONGEST_CONTENT, LONGEST_LABEL, MOST_LABELS

Schema = Mapping[str, Any]

SCORE: Schema = {"type": "number", "minimum": 0, "maximum": 1}

CATEGORY: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": category.LONGEST,
    "description": "A slash path of letters, digits, _ and -, such as user-preferences/style.",
}
IN_CATEGORY: Schema = {**CATEGORY, "description": "Only this category and those below it."}
TAGS: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL},
    "maxItems": MOST_LABELS,
    "description": "Labels, such as docker or billing.",
}
WITH_TAGS: Schema = {**TAGS, "description": "Only what has all of these labels."}
KIND: Schema = {"type": "string", "enum": list(KINDS), "description": "What sort of thing it is."}
LAYER: Schema = {
    "type": "string",
    "enum": list(LAYERS),
    "description": "episodic: what happened; semantic: what is so; procedural: how to do things.",
}
QUERY: Schema = {"type": "string", "maxLength": 10_000}


def build_parameters(required: Sequence[str] = (), **properties: Schema) -> Schema:
    """Return the schema of an object with these properties and no others.

    Args:
        required: Names of the properties that must be given.
    """
    return MappingProxyType(
        {
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        }
    )


def build_text_schema(description: str, *, longest: int = LONGEST_CONTENT, empty: bool = False) -> Schema:
    """Return the schema of a string of at most `longest` characters, which may be empty if `empty`."""
    return {
        "type": "string",
        "minLength": 0 if empty else 1,
        "maxLength": longest,
        "description": description,
    }


def build_enum_schema(values: Sequence[str], description: str) -> Schema:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": list(values), "description": description}


def build_limit_schema(usual: int) -> Schema:
    """Return the schema of the number of results that are wanted at most."""
    description = f"At most so many; {usual} if left out."
    return {"type": "integer", "minimum": 1, "maximum": 50, "description": description}
