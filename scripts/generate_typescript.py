"""Write clients/typescript/api.js and api.d.ts from the description of the HTTP API.

Usage: python scripts/generate_typescript.py [--check]

With `--check` nothing is written, and the script ends with 1 if a file is outdated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.interfaces.http.application import build_api, describe_api
from reverie.interfaces.http.server import HttpServer

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "clients" / "typescript"
NOTE = "// Written by scripts/generate_typescript.py from the description of the HTTP API. Do not edit.\n"
NAMES = {"Record": "MemoryRecord"}
"""Names of schemas that TypeScript has itself."""
STREAM = "text/event-stream"
HEADERS = {"If-Match": "ifMatch", "Idempotency-Key": "idempotencyKey"}
"""Headers that a caller passes, and the names of their options."""
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def main(arguments: list[str]) -> int:
    """Write the files, or compare them; return an exit code."""
    with Memory.open(":memory:") as memory:
        description = describe_api(build_api(HttpServer(memory)))
    files = {"api.js": render_table(description), "api.d.ts": render_types(description)}
    for name, text in files.items():
        path = FOLDER / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.stdout.write(f"{name} is outdated: run `make reference`\n")
            return 1
    return 0


def iterate_operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Iterate over the method, path and description of each operation but streams."""
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if (
                STREAM
                not in operation["responses"]["200" if "200" in operation["responses"] else "201"]["content"]
            ):
                yield method.upper(), path, operation


def render_table(description: dict[str, Any]) -> str:
    """Return the module of what the client has to know to send each operation."""
    lines = [NOTE, "export const OPERATIONS = {"]
    for method, path, operation in iterate_operations(description):
        entry: dict[str, Any] = {"method": method, "path": path}
        query = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
        headers = {HEADERS[name]: name for name in find_headers(operation)}
        body = next(iter(operation.get("requestBody", {}).get("content", {})), "")
        entry |= {
            name: value for name, value in {"query": query, "headers": headers, "body": body}.items() if value
        }
        lines.append(f"  {to_camel_case(operation['operationId'])}: {json.dumps(entry)},")
    return "\n".join([*lines, "};", ""])


def render_types(description: dict[str, Any]) -> str:
    """Return the types of bodies and answers, and the methods of the client."""
    lines = [NOTE, 'import type { Options, Result } from "./index.js";', ""]
    for name, schema in description["components"]["schemas"].items():
        lines += [
            *render_comment(schema.get("description", ""), ""),
            f"export interface {NAMES.get(name, name)} {{",
        ]
        required = schema.get("required", ())
        for field, value in schema["properties"].items():
            mark = "" if field in required else "?"
            lines.append(f"  {field}{mark}: {render_type(value)};")
        lines += ["}", ""]
    lines += ["/** One method for each operation of the HTTP API. */", "export interface Api {"]
    for _, path, operation in iterate_operations(description):
        lines += render_comment(operation["summary"], "  ")
        lines.append(f"  {render_method(path, operation)};")
    return "\n".join([*lines, "}", ""])


def render_comment(text: str, indent: str) -> list[str]:
    """Return the first paragraph of a description as a comment."""
    first = " ".join(text.partition("\n\n")[0].split()).replace("`", "")
    return [f"{indent}/** {first} */"] if first else []


def render_method(path: str, operation: dict[str, Any]) -> str:
    """Return the signature of the method for an operation."""
    arguments = [f"{name}: string" for name in re.findall(r"\{(\w+)\}", path)]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        arguments.append(f"body: {render_type(content['schema'])}")
    options = {}
    for each in operation.get("parameters", ()):
        if each["in"] == "query" or each["name"] in HEADERS:
            name = HEADERS.get(each["name"], each["name"]) if each["in"] == "header" else each["name"]
            options[name] = f"{'' if each['required'] else '?'}: {render_type(each['schema'])}"
    answers = " | ".join(
        dict.fromkeys(
            render_type(content["schema"])
            for status, answer in operation["responses"].items()
            if status.startswith("2")
            for content in answer["content"].values()
        )
    )
    name = to_camel_case(operation["operationId"])
    own = (
        f"{{ {'; '.join(each + kind for each, kind in options.items())} }} & Options"
        if options
        else "Options"
    )
    mark = "?" if all(kind.startswith("?") for kind in options.values()) else ""
    return f"{name}({', '.join([*arguments, f'options{mark}: {own}'])}): Promise<Result<{answers}>>"


def render_type(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return NAMES.get(name, name)
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(render_type(each) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        item = render_type(schema.get("items", {}))
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object" and "properties" in schema:
        required = schema.get("required", ())
        fields = (
            f"{name}{'' if name in required else '?'}: {render_type(value)}"
            for name, value in schema["properties"].items()
        )
        return f"{{ {'; '.join(fields)} }}"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        return f"{{ [name: string]: {render_type(values) if isinstance(values, dict) else 'unknown'} }}"
    return SIMPLE[str(kind)] if kind else "unknown"


def find_headers(operation: dict[str, Any]) -> list[str]:
    """Return the headers of an operation that a caller passes."""
    return [each["name"] for each in operation.get("parameters", ()) if each["name"] in HEADERS]


def to_camel_case(name: str) -> str:
    """Return a name in the spelling of JavaScript.

    >>> to_camel_case("save_record")
    'saveRecord'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
