"""The description of the API: valid and complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reverie import Memory
from reverie.interfaces.http.application import OPERATIONS, build_api
from reverie.interfaces.http.documentation import describe_api
from reverie.interfaces.http.server import HttpServer

with Memory.open(":memory:") as _memory:
    DESCRIPTION = describe_api(build_api(HttpServer(_memory)))
ROUTES = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def list_operations() -> list[dict[str, Any]]:
    return [operation for item in DESCRIPTION["paths"].values() for operation in item.values()]


def test_the_description_is_valid_by_the_specification() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(DESCRIPTION)


def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    schemas = DESCRIPTION["components"]["schemas"]

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].removeprefix("#/components/schemas/") in schemas
            if "schema" in value:
                Draft202012Validator.check_schema(value["schema"])
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(DESCRIPTION)
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_every_operation_has_a_name_a_summary_and_its_parameters() -> None:
    operations = list_operations()
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names)) == len(OPERATIONS)
    assert all(each["summary"].endswith(".") for each in operations)
    for path, item in DESCRIPTION["paths"].items():
        for operation in item.values():
            declared = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_operation_is_in_the_reference_and_no_other() -> None:
    text = ROUTES.read_text(encoding="utf-8")
    named = {
        line.split("`")[1] for line in text.splitlines() if line.startswith(("* `GET", "* `P", "* `DEL"))
    }
    declared = {f"{method.upper()} {path}" for path, item in DESCRIPTION["paths"].items() for method in item}
    assert named == declared
