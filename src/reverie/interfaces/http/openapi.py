"""Description of the API as OpenAPI 3.1, from its operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

from reverie import __version__
from reverie.domain.lazy_regex import defer_regex
from reverie.interfaces.http.operations import Operation

_REFERENCE = "#/components/schemas/{model}"
_PARAMETER = defer_regex(r"\{(\w+)(?::\w+)?\}")
_PROBLEM = {
    "type": "object",
    "description": "An error (RFC 9457); `detail` says what is wrong and what to do.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}
_TEXT = {"type": "string"}
_WITH_ETAG = ("get_record", "get_session", "get_page", "get_entry", "get_entry_of_session")
"""Names of the operations that answer with an ETag and take `If-None-Match`."""


def build_description(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the description of some operations."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for each in operations:
        path = _PARAMETER.sub(r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _describe(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Reverie",
            "version": __version__,
            "description": "Memory for AI agents: records, conversations, search, and every change undoable.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _describe(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    media_type = operation.media_type.partition(";")[0]
    answer = _build_schema(operation.answer, schemas, "serialization")
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": (operation.run.__doc__ or "").strip().partition("\n")[0],
        "parameters": [
            *_describe_path(operation),
            *_describe_query(operation, schemas),
            *_describe_headers(operation),
        ],
        "responses": {
            str(status): {"description": "Done.", "content": {media_type: {"schema": answer}}}
            for status in operation.statuses
        },
    }
    if operation.right is None:
        description["security"] = []
    else:
        description["x-right"] = operation.right
    if operation.body is not None:
        content = {"schema": _build_schema(operation.body, schemas, "validation")}
        kind = "application/merge-patch+json" if operation.method == "PATCH" else "application/json"
        description["requestBody"] = {"required": True, "content": {kind: content}}
    if operation.name in _WITH_ETAG:
        description["responses"]["304"] = {"description": "The caller has this version."}
    description["responses"]["default"] = {
        "description": "An error.",
        "content": {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
    }
    return description


def _describe_parameter(
    name: str, place: str, schema: dict[str, Any], *, required: bool = True, **more: Any
) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema, **more}


def _describe_path(operation: Operation) -> list[dict[str, Any]]:
    names = _PARAMETER.findall(operation.path)
    return [_describe_parameter(name, "path", {**_TEXT, "minLength": 1}) for name in names]


def _describe_query(operation: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    schema = _build_schema(operation.query, schemas, "validation")
    model = schemas.pop(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else schema
    required = model.get("required", ())
    return [
        _describe_parameter(name, "query", _drop_null(value), required=name in required)
        for name, value in model.get("properties", {}).items()
    ]


def _drop_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, which a query cannot have."""
    schema = {name: value for name, value in schema.items() if name != "title" and value is not None}
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each != {"type": "null"}]
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
    return schema


def _describe_headers(operation: Operation) -> Iterator[dict[str, Any]]:
    if operation.needs_match or operation.name == "write_page":
        what = "ETag of the version that was read."
        yield _describe_parameter(
            "If-Match", "header", _TEXT, required=operation.needs_match, description=what
        )
    if operation.name in _WITH_ETAG:
        what = "ETag of the version that the caller has."
        yield _describe_parameter("If-None-Match", "header", _TEXT, required=False, description=what)
    if operation.replay is not None:
        what = "Name of the request, so that it is not done twice."
        yield _describe_parameter("Idempotency-Key", "header", _TEXT, required=False, description=what)


def _build_schema(kind: Any, schemas: dict[str, Any], mode: Any) -> dict[str, Any]:
    """Return the schema of a type; those that it refers to are added to the components."""
    schema = TypeAdapter(kind).json_schema(mode=mode, ref_template=_REFERENCE)
    schemas.update(schema.pop("$defs", {}))
    if "properties" in schema and "title" in schema:
        name = schema["title"]
        schemas[name] = schema
        return {"$ref": _REFERENCE.format(model=name)}
    return {name: value for name, value in schema.items() if name != "title"}
