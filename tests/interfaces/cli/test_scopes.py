"""Scopes on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from reverie import EVERY_SCOPE, Memory

Call = Callable[..., Result]


@pytest.fixture
def shared(folder: Path) -> Path:
    with Memory.open(folder) as memory:
        memory.save("Tea is in the kitchen", tags=["tea"])
        for name in ("alice", "bob"):
            scope = memory.scoped(f"user:{name}")
            scope.save(f"{name} likes tea", category=f"of/{name}", tags=[name])
            scope.session("chat:1").add("user", f"{name} wants tea")
    return folder


READS = [("recall", "tea"), ("list",), ("categories",), ("tags",), ("sessions",)]


@pytest.mark.parametrize("command", READS, ids=lambda command: command[0])
def test_without_a_scope_it_shows_what_is_everybodys(
    call: Call, shared: Path, command: tuple[str, ...]
) -> None:
    result = call(*command)
    assert result.exit_code in (0, 1)
    assert result.stdout == call(*command, "--scope", "").stdout
    assert "alice" not in result.stdout
    assert "bob" not in result.stdout
    one = call(*command, "--scope", "user:alice")
    assert one.exit_code == 0
    assert "alice" in one.stdout
    assert "bob" not in one.stdout
    every = call(*command, "--scope", "*")
    assert every.exit_code == 0
    assert "alice" in every.stdout
    assert "bob" in every.stdout


def test_numbers_of_one_scope(call: Call, answer: Callable[..., Any], shared: Path) -> None:
    assert answer("stats")["records"] == answer("stats", "--scope", "*")["records"] == 3
    assert answer("stats", "--scope", "user:alice") == {
        "records": 2,
        "archived": 0,
        "turns": 1,
        "sessions": 1,
        "by_kind": {"fact": 2},
        "by_category": {"": 1, "of/alice": 1},
    }


def test_a_scope_is_forgotten(call: Call, shared: Path) -> None:
    shown = call("forget", "--scope", "user:alice", "--dry-run")
    assert shown.exit_code == 0
    assert "alice likes tea" in shown.stdout
    done = call("forget", "--scope", "user:alice", "--yes")
    assert done.exit_code == 0
    assert "Erased permanently: 1 record, 1 turn, 1 session" in done.stdout
    with Memory.open(shared) as memory:
        found = memory.scoped(EVERY_SCOPE).list()
        assert {record.content for record in found} == {"Tea is in the kitchen", "bob likes tea"}
    assert call("forget", "--scope", "user:alice", "--yes").exit_code == 3
    assert call("forget", "--scope", "user:bob", "--session", "chat:1", "--yes").exit_code == 2
