"""`reverie tools` prints what a model is shown, for people and for each provider."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from reverie import Memory
from reverie.interfaces.cli.main import cli
from reverie.tools import DEFAULT_GROUPS
from tests.interfaces.conftest import run_on_terminal


def printed(*args: str) -> str:
    result = CliRunner().invoke(cli, ["tools", *args], prog_name="reverie")
    assert result.exit_code == 0, result.output
    return result.output


def test_in_a_pipe_there_is_a_line_for_each_tool() -> None:
    rows = [line.split("\t") for line in printed().splitlines()]
    with Memory.open(":memory:") as memory:
        assert [row[1] for row in rows] == list(memory.tools(session="s").names)
    assert list(dict.fromkeys(row[0] for row in rows)) == list(DEFAULT_GROUPS)
    assert rows[0][2] == "content, category?, tags?"


def test_on_a_terminal_they_stand_by_group() -> None:
    code, text = run_on_terminal("tools", "--group", "memory", "--group", "fil", columns=60)
    assert code == 0
    assert text.startswith("memory\n  memory(operation, content?, query?")
    assert "\n\nfil\n  remember(findings?, insights?, lessons?)\n      Remember what" in text


@pytest.mark.parametrize(
    ("shape", "method"),
    [
        ("openai", "openai"),
        ("openai-responses", "openai_responses"),
        ("anthropic", "anthropic"),
        ("mcp", "mcp"),
    ],
)
def test_a_providers_shape_is_one_json_document(shape: str, method: str) -> None:
    with Memory.open(":memory:") as memory:
        wanted: Any = getattr(memory.tools(session="s", groups=["long_term"]), method)()
    assert json.loads(printed("--format", shape, "--group", "long_term")) == wanted


def test_a_group_that_there_is_not_names_those_there_are() -> None:
    result = CliRunner().invoke(cli, ["tools", "--group", "nope"], prog_name="reverie")
    assert result.exit_code == 2
    assert "there are long_term, working" in result.stderr
