"""The reference of the tools says what the tools say of themselves.

`REVERIE_DOCS_UPDATE=1` writes what is said of each tool anew, and leaves how it answers as it is.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.tools import GROUPS, Tool, Toolset

FILE = Path(__file__).parents[2] / "docs/reference/tools.md"


def everything() -> dict[str, Toolset]:
    with Memory.open(":memory:") as memory:
        return {group: memory.tools(session="s", groups=[group]) for group in GROUPS}


TOOLS = [tool for group, tools in everything().items() for tool in tools]


def described(tool: Tool) -> str:
    """What the reference says of a tool, up to how it answers."""
    lines = [f"### `{tool.name}`", "", tool.spec.description, ""]
    rows = arguments(tool)
    if own := [row for row in rows.values() if row not in SHARED]:
        lines += [*own, ""]
    if others := [f"`{name}`" for name, row in rows.items() if row in SHARED]:
        lines += [f"Also {', '.join(others)}.", ""]
    return "\n".join([*lines, effect(tool)])


def arguments(tool: Tool) -> dict[str, str]:
    """The line of each argument by its name."""
    parameters = tool.spec.parameters
    return {
        name: f"* `{name}` ({form(rule)}{', required' if name in parameters['required'] else ''}): "
        f"{rule['description']}"
        for name, rule in parameters["properties"].items()
    }


def form(rule: Mapping[str, Any]) -> str:
    if "enum" in rule:
        return ", ".join(f"`{each}`" for each in rule["enum"])
    if rule["type"] == "array":
        return f"list, ≤ {rule['maxItems']}"
    if rule["type"] == "string":
        return f"text, ≤ {rule['maxLength']:,}"
    return f"{rule['minimum']:g} to {rule['maximum']:,}"


def effect(tool: Tool) -> str:
    if tool.reads_only:
        return "Changes nothing."
    said = "Destructive" if tool.destructive else "Writes"
    return f"{said}{', idempotent' if tool.idempotent else ''}."


COUNTS = Counter(row for tool in TOOLS for row in arguments(tool).values())
SHARED = sorted(row for row, number in COUNTS.items() if number >= 3)
"""Arguments of several tools, which are described once."""


def section(text: str, name: str) -> str:
    found = re.search(rf"^### `{name}`\n.*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{name} is missing in {FILE}"
    return found.group()


def test_every_tool_is_in_the_reference_with_its_arguments_and_answers() -> None:
    for tool in TOOLS:
        text = FILE.read_text(encoding="utf-8")
        shown = section(text, tool.name)
        begins, _, answers = shown.partition("\n\nAnswers: ")
        if os.environ.get("REVERIE_DOCS_UPDATE"):
            FILE.write_text(text.replace(shown, f"{described(tool)}\n\nAnswers: {answers}"), encoding="utf-8")
            begins = described(tool)
        assert begins == described(tool)
        assert len(answers) > 20, f"how {tool.name} answers is not said"


def test_arguments_of_several_tools_are_described_once() -> None:
    text = FILE.read_text(encoding="utf-8")
    shown = text.partition("## Arguments of several tools\n\n")[2].partition("\n\n")[0]
    assert shown.split("\n") == SHARED


def test_no_other_tool_is_and_every_group_has_its_own() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert re.findall(r"^### `(\w+)`$", text, re.MULTILINE) == [tool.name for tool in TOOLS]
    assert re.findall(r"^## `(\w+)`$", text, re.MULTILINE) == list(GROUPS)
