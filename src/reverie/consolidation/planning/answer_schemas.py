"""JSON schemas of answers, in which every field is required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"type": "integer"}


def build_object(**fields: Schema) -> Schema:
    """Return the schema of an object with these fields."""
    return {"type": "object", "properties": fields, "required": [*fields]}


def build_list(**fields: Schema) -> Schema:
    """Return the schema of a list of objects with these fields."""
    return {"type": "array", "items": build_object(**fields)}


def build_choice(*words: str) -> Schema:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": [*words]}
