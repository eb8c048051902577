"""`reverie forget`: it shows what goes, asks, does it, and says what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from reverie import Memory
from tests.interfaces.conftest import run_on_terminal

SECRET = "Anna lives in a small flat near the harbour of Lisbon"

Call = Callable[..., Result]


@pytest.fixture
def secret(folder: Path) -> str:
    """The id of a record; a turn says the same."""
    with Memory.open(folder) as memory:
        memory.session("chat:1").add("user", SECRET)
        memory.save("Prefers short answers")
        return memory.save(SECRET).record.id


def contents(folder: Path) -> list[str]:
    with Memory.open(folder) as memory:
        return [record.content for record in memory.list(limit=None)]


def test_a_dry_run_shows_what_goes_and_what_stays_and_does_nothing(
    call: Call, secret: str, folder: Path
) -> None:
    result = call("forget", secret, "--dry-run")
    assert result.exit_code == 0
    (record, turn) = [line.split("\t") for line in result.stdout.splitlines()]
    assert record == ["removed", "record", secret, "asked for", SECRET]
    assert turn[:2] == ["kept", "turn"]
    assert SECRET in contents(folder)


def test_where_nobody_can_be_asked_it_refuses_and_says_how(call: Call, secret: str, folder: Path) -> None:
    result = call("forget", secret)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert "--dry-run" in result.stderr
    assert SECRET in contents(folder)


def test_a_person_learns_before_confirming_which_broken_file_has_it_too(secret: str, folder: Path) -> None:
    broken = folder / "memory" / "mine.json"
    broken.write_text(f'{{"content": "{SECRET}", "colour": 1}}', encoding="utf-8")
    code, seen = run_on_terminal("forget", secret, "--store", folder, columns=200, reply="y")
    assert code == 0
    assert "Erased permanently: 1 record." in seen
    assert "file memory/mine.json remains (it is yours, and what it says was not taken in" in seen
    assert seen.index("mine.json") < seen.index("Erase this permanently?")
    assert seen.count("mine.json") == seen.count("turns stay unless") == 1
    assert SECRET in broken.read_text(encoding="utf-8")


def test_with_yes_it_does_it_and_names_what_stays(call: Call, secret: str, folder: Path) -> None:
    result = call("forget", secret, "--yes")
    assert (result.exit_code, result.stdout) == (0, "Erased permanently: 1 record.\n")
    assert "remains (turns stay unless" in result.stderr
    assert SECRET not in contents(folder)
    assert call("forget", secret, "--yes").exit_code == 3
    assert [call("forget", "--session", "chat:1", "--yes").exit_code for _ in range(2)] == [0, 3]


def test_the_answer_as_json(answer: Callable[..., Any], secret: str, folder: Path) -> None:
    plan = answer("forget", "--match", "harbour of lisbon", "--dry-run")
    assert (plan["done"], plan["counts"]) == (False, {"record": 1, "turn": 1})
    assert {thing["text"] for thing in plan["going"]} == {SECRET}
    done = answer("forget", "--match", "harbour of lisbon", "--yes")
    assert (done["done"], done["counts"], done["left"], done["pending"]) == (True, plan["counts"], [], [])
    assert SECRET not in json.dumps(done), "what was forgotten is not written to a log"
    assert contents(folder) == ["Prefers short answers"]


@pytest.mark.parametrize(
    "args", [(), ("0" * 12, "--match", "x"), ("--match", " "), ("--session", "a", "--match", "b")]
)
def test_wrong_usage_is_refused(call: Call, secret: str, args: tuple[str, ...], folder: Path) -> None:
    assert call("forget", *args, "--yes").exit_code == 2
    assert len(contents(folder)) == 2


@pytest.mark.parametrize(("said", "left"), [("y", 1), ("n", 2), ("", 2)])
def test_on_a_terminal_it_asks(folder: Path, secret: str, said: str, left: int) -> None:
    code, text = run_on_terminal("forget", secret, "--turns", "--store", folder, reply=said)
    assert code == 0
    assert "To be erased permanently: 1 record, 1 turn" in text
    assert "Erase this permanently?" in text
    assert SECRET[:30] in text
    assert ("Erased permanently" in text) == (said == "y")
    assert len(contents(folder)) == left


def test_much_is_counted_and_only_the_first_are_listed(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.save_many({"content": f"Crate {n} from Lindqvist holds {n} pears"} for n in range(30))
    code, shown = run_on_terminal(
        "forget", "--match", "lindqvist", "--dry-run", "--store", folder, columns=100
    )
    assert code == 0
    assert "To be erased permanently: 30 records" in shown
    assert "and 10 more" in shown
