"""The demo: what it shows, where it puts it, and that what it says to try works."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from reverie.admin.transfer.conversations import read_conversations
from reverie.interfaces.cli import demo
from reverie.memory import Memory
from tests.interfaces.conftest import environment, measure_width, run_cli, run_on_terminal, run_process

Call = Callable[..., Result]
Answer = Callable[..., Any]
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


def test_the_demo_answers_its_questions_from_what_was_said(answer: Answer, folder: Path) -> None:
    shown = answer("demo")
    assert set(shown) == {
        "folder", "replayed", "sessions", "records", "repeated", "problems", "answers", "nothing", "try",
    }  # fmt: skip
    assert shown["folder"] == str(folder)
    assert (sum(shown["sessions"].values()), shown["records"], shown["problems"]) == (64, 10, [])
    assert shown["replayed"] == 64 + 11
    assert shown["repeated"]["seen_count"] == 2
    assert set(shown["repeated"]["tags"]) == {"tone", "runbook"}
    port, failure, style = shown["answers"]
    assert "port 5433" in port["hits"][0]["content"]
    assert "feet instead of metres" in " ".join(hit["content"] for hit in failure["hits"])
    assert "the command first" in style["hits"][0]["content"]
    for one in shown["answers"]:
        assert one["hits"][0]["explanation"]["matched"]
        assert one["hits"][0]["content"] in one["pack"]["text"]
        assert 0 < one["pack"]["tokens"] <= one["pack"]["hard_tokens"]
    assert shown["nothing"]["hits"] == []


def test_the_demo_shows_the_same_scores_whenever_it_is_run(answer: Answer, call: Call) -> None:
    first = answer("demo")
    again = answer("demo")
    assert again["replayed"] == 0
    assert again["answers"] == first["answers"]
    assert again["repeated"] == first["repeated"]
    assert "already replayed earlier" in call("demo").stdout


def test_an_interrupted_demo_is_finished_by_the_next(answer: Answer, folder: Path) -> None:
    at = demo._Clock()
    with Memory.open(folder, clock=at) as memory:
        steps = sorted([*demo._iterate_turns(memory), *demo._iterate_saves(memory)], key=lambda step: step[0])
        for moment, step in steps[:30]:
            at.now = moment
            step()
    shown = answer("demo")
    assert shown["replayed"] == 64 + 11 - 30
    assert (sum(shown["sessions"].values()), shown["records"]) == (64, 10)
    assert shown["repeated"]["seen_count"] == 2


@pytest.mark.slow
def test_without_a_folder_the_demo_goes_to_a_new_one_and_never_to_the_environment_s(tmp_path: Path) -> None:
    env = environment(REVERIE_STORE=str(tmp_path / "mine"), TMPDIR=str(tmp_path))
    shown = json.loads(run_process("demo", "--json", env=env).stdout)
    assert Path(shown["folder"]).parent == tmp_path
    assert not (tmp_path / "mine").exists()


def test_the_demo_does_not_touch_somebody_s_memory_unasked(call: Call, answer: Answer, folder: Path) -> None:
    call("remember", "my own note")
    with Memory.open(folder) as memory:
        before = memory.history.log(limit=1000)
    refused = call("demo")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert refused.stderr.count("\n") == 1
    with Memory.open(folder) as memory:
        assert memory.history.log(limit=1000) == before
    shown = answer("demo", "--yes")
    assert shown["replayed"] == 64 + 11
    assert answer("recall", "my own note")["hits"][0]["content"] == "my own note"


def test_the_demo_is_plain_in_a_pipe_and_says_nothing_relevant(call: Call) -> None:
    text = call("demo").stdout
    assert "Nothing relevant." in text
    assert "seen twice" in text
    assert not set("━╭│\x1b") & set(text)
    for question in (*demo.QUESTIONS, demo.UNANSWERABLE):
        assert f"? {question}" in text


@pytest.mark.parametrize("columns", [80, 120])
def test_the_demo_fits_a_terminal(folder: Path, columns: int) -> None:
    code, seen = run_on_terminal("demo", "--store", folder, columns=columns, NO_COLOR="1")
    assert code == 0
    drawn = [line for line in seen.splitlines() if not line.startswith("  reverie ")]
    assert measure_width("\n".join(drawn)) <= columns
    assert "Nothing relevant." in seen


def test_what_the_demo_says_to_try_works(answer: Answer) -> None:
    commands = answer("demo")["try"]
    assert len(commands) >= 3
    for command in commands:
        name, *args = shlex.split(command)
        done = run_cli(*args)
        assert name == "reverie"
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout
