"""`reverie dream` and `reverie chat`, with a scripted model behind a socket and without one."""

from __future__ import annotations

import gc
import json
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.llm.protocol import ModelRequest
from reverie.stores.sqlite.store import SQLiteStore
from tests.factories import believe
from tests.interfaces.conftest import PROGRAM, environment, run_cli
from tests.llm.server import Script, Step, says, serving, status, streaming_slowly
from tests.system.nights.models import seen

Answer = Callable[..., Any]

# A process drops its connections to the model when it ends; in this process they are collected as garbage.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def by_script(script: Script) -> dict[str, str]:
    return environment(OPENAI_BASE_URL=f"{script.url}/v1", OPENAI_API_KEY="k")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "memory") as memory:
        memory.save("We decided on Postgres", kind="decision", layer="episodic", confidence=0.9)
        memory.save("Rockbot runs on Kubernetes")
        memory.save("Rockbot needs 3 replicas")
        memory.save_many({"content": f"Shelf {number} holds box {number * 7}"} for number in range(100))
    return tmp_path / "memory"


def merging(folder: Path) -> list[Step]:
    """The headline over two records, once for each job, and the answer that only it is true."""
    with Memory.open(folder) as memory:
        sources = [hit.id for hit in memory.search("rockbot")]
    content = "Rockbot runs on Kubernetes with the 3 replicas it needs"
    headline = {"records": sources, "content": content}
    noise = {"record": "ffffffffffff", "category": "noise", "tags": []}
    answer = says(json.dumps({"headlines": [headline], "file": [noise]}))
    verdict = {"claim": 1, "missing": "", "verdict": "supported"}
    return [answer, answer, says(json.dumps({"claims": [verdict]}))]


def propose(folder: Path, *, said: str = "Always pay with the company card, please.") -> None:
    """Let a model propose a preference about money."""
    content = "Always pay with the company card"

    def answer(request: ModelRequest) -> str:
        names = [name for name, text in seen(request).turns if "company card" in text]
        return json.dumps({"preferences": [{"content": content, "evidence": names}]})

    with Memory.open(folder, model=believe(answer)) as memory:
        memory.session("cli:1").add("user", said)
        memory.dreams.run(["preferences"])


def run(
    folder: Path, *args: str, env: dict[str, str] | None = None, input: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command on the folder, and drop the connections to the model that it left open."""
    done = run_cli(args[0], "--store", str(folder), *args[1:], env=env, input=input)
    gc.collect()
    return done


# -- dreams --------------------------------------------------------------------------------------------


def test_a_dream_with_a_model_says_what_it_did_and_can_be_taken_back(folder: Path) -> None:
    with serving(*merging(folder)) as script:
        done = run(folder, "dream", "--pass", "tidy", "--model", "openai:m", env=by_script(script))
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert "Rockbot runs on Kubernetes with the 3 replicas" in text
    assert "refused: file a record: it was not shown" in text
    undo = re.search(r"undo with `reverie (undo --batch \d+)`", text)
    assert undo is not None
    with Memory.open(folder) as memory:
        (headline,) = [record for record in memory.list(limit=None) if record.is_headline]
        assert len(memory.search("rockbot")) == 2
    shown = run(folder, "show", headline.id).stdout.decode()
    assert f"- {headline.parts[0]}: Rockbot" in shown
    (first, *_) = json.loads(run(folder, "show", headline.id, "--json").stdout)["parts"]
    assert first["id"] == headline.parts[0]
    listed = {
        name: run(folder, "list", "--limit", "200", *name).stdout.decode() for name in ((), ("--parts",))
    }
    assert headline.id in listed[()]
    assert headline.parts[0] not in listed[()]
    assert headline.id not in listed[("--parts",)]
    assert headline.parts[0] in listed[("--parts",)]
    assert "Undone: " in run(folder, *undo[1].split(), "--yes").stdout.decode()
    assert b"Nothing to undo" in run(folder, *undo[1].split(), "--yes").stderr
    with Memory.open(folder) as memory:
        assert {hit.content for hit in memory.search("rockbot")} == {
            "Rockbot runs on Kubernetes", "Rockbot needs 3 replicas",
        }  # fmt: skip


def test_a_dream_without_a_model_does_what_rules_can(folder: Path) -> None:
    passes = json.loads(run(folder, "dream", "--json").stdout)["passes"]
    assert [(each["pass"], each["state"]) for each in passes] == [
        ("enrich", "skipped"), ("verify", "skipped"), ("tidy", "skipped"), ("preferences", "skipped"),
        ("promote", "applied"),
    ]  # fmt: skip
    assert passes[0]["why"]
    assert passes[-1]["changes"][0]["after"]["layer"] == "semantic"
    assert "nothing is new" in run(folder, "dream").stdout.decode()


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    assert "promote: would make 1 change" in run(folder, "dream", "--dry-run").stdout.decode()
    with Memory.open(folder) as memory:
        assert [record.layer for record in memory.list(kind=["decision"])] == ["episodic"]


def test_a_model_that_fails_is_said_and_nothing_is_lost(folder: Path) -> None:
    with serving(status(401, "who are you")) as script:
        done = run(folder, "dream", "--model", "openai:m", env=by_script(script))
    assert "tidy: failed, will be retried" in done.stdout.decode()
    with Memory.open(folder) as memory:
        assert memory.admin.stats().records == 103


# -- chat ----------------------------------------------------------------------------------------------


def test_one_message_is_answered_and_remembered(folder: Path) -> None:
    with serving(
        says("", calls=(("c1", "search_memory", '{"query": "rockbot"}'),)), says("It runs on Kubernetes.")
    ) as script:
        done = run(
            folder, "chat", "-m", "Where does Rockbot run?", "--model", "openai:m", env=by_script(script)
        )
        assert done.stdout.decode().strip() == "It runs on Kubernetes."
        told = script.asked[1]["messages"][-1]
        assert (told["role"], "Rockbot runs on Kubernetes" in told["content"]) == ("tool", True)
    with Memory.open(folder) as memory:
        assert [turn.role for turn in memory.turns("cli:chat")] == ["user", "assistant", "tool", "assistant"]


def test_a_session_of_a_scope_is_talked_with_in_that_scope(folder: Path) -> None:
    save = says("", calls=(("c1", "save_memory", '{"content": "Alice sails on Sundays"}'),))
    lines = b"We decided that the boat is sold in May.\n/status\n/new\n"
    answer = "Until then the boat lies in the harbour, where it is painted in April, and nobody sails it but Alice."
    with serving(save, says(answer)) as script:
        done = run(
            folder, "chat", "user:alice//cli:1", "--model", "openai:m", input=lines, env=by_script(script)
        )
    text = done.stdout.decode()
    assert "Session user:alice//cli:1: 4 turns, 4 in the window, active" in text
    assert "New conversation; memories are kept." in text
    with Memory.open(folder) as memory:
        assert [hit.record.scope for hit in memory.scoped("*").search("sails", limit=1) if hit.record] == [
            "user:alice"
        ]
        assert memory.search("sails") == []


def test_without_standard_input_a_chat_ends_and_a_server_refuses_to_start(folder: Path) -> None:
    def run_closed(*args: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, *args, "--store", str(folder)]
        return subprocess.run(command, capture_output=True, text=True, env=environment())

    assert (run_closed("chat").returncode, run_closed("chat").stderr) == (0, "")
    refused = run_closed("mcp")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "standard input is closed" in refused.stderr


def test_every_line_of_a_pipe_is_a_message_and_commands_work(folder: Path) -> None:
    said = ["Hello", "/status", "/compact 1", "/new", "/help", "/nope", "/compact x", "", "Again"]
    lines = "\n".join([*said, "/quit", "never said"]).encode()
    with serving(says("Good day.")) as script:
        done = run(folder, "chat", "--model", "openai:m", input=lines, env=by_script(script))
    text, complaints = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, complaints
    assert text.count("Good day.") == 2
    assert "Session cli:chat: 2 turns, 2 in the window, active" in text
    assert "103 records" in text
    assert "New conversation;" in text
    assert "/quit" in text
    assert "Unknown command '/nope'" in complaints
    assert "not 'x'" in complaints
    with Memory.open(folder) as memory:
        assert [turn.content for turn in memory.turns("cli:chat") if turn.role == "user"] == [
            "Hello",
            "Again",
        ]


def test_without_a_model_it_shows_what_it_would_have_sent(folder: Path) -> None:
    text = run(folder, "chat", "-m", "Where does Rockbot run?").stdout.decode()
    assert "No model is set" in text
    assert "Rockbot runs on Kubernetes" in text
    assert "[user]\nWhere does Rockbot run?" in text


def test_a_model_that_fails_ends_the_answer_not_the_conversation(folder: Path) -> None:
    with serving(status(401, "who are you"), says("Here.")) as script:
        done = run(folder, "chat", "--model", "openai:m", input=b"Hello\nAgain\n", env=by_script(script))
    assert "no answer: openai:m answered 401: who are you" in done.stderr.decode()
    assert "Here." in done.stdout.decode()
    with serving(status(401, "who are you")) as script:
        done = run(folder, "chat", "-m", "Hello", "--model", "openai:m", env=by_script(script))
        piped = run(folder, "chat", "--model", "openai:m", input=b"Hello\n", env=by_script(script))
    assert (done.returncode, piped.returncode) == (4, 4)


def test_a_proposal_is_reviewed(folder: Path) -> None:
    propose(folder)

    def review(*args: str) -> str:
        done = run(folder, "review", *args)
        return (done.stdout + done.stderr).decode()

    with Memory.open(folder) as memory:
        [record] = memory.dreams.proposals()
    assert f"{record.id} (user-preferences/inferred): {record.content}" in review()
    assert "--reject" in review(record.id, "--accept", "--reason", "it is true")
    assert "Left for later" in review(record.id, "--later")
    assert "Rejected" in review(record.id, "--reject", "--reason", "the card is gone")
    assert "No proposals." in review()
    assert "Accepted" in review(record.id, "--accept")
    assert record.content in run(folder, "recall", "company card").stdout.decode()


@pytest.mark.slow
def test_a_chat_that_is_killed_in_the_middle_of_an_answer_loses_no_stored_turn(folder: Path) -> None:
    with serving(says("Good day."), streaming_slowly) as script:
        command = [*PROGRAM, "chat", "--model", "openai:m", "--store", str(folder)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=by_script(script)
        ) as chat:
            assert chat.stdin is not None
            chat.stdin.write(b"Hello\nWhere does Rockbot run?\n")
            chat.stdin.flush()
            until = time.monotonic() + 30
            while len(script.asked) < 2:
                assert time.monotonic() < until
                time.sleep(0.02)
            chat.kill()
    with Memory.open(folder) as memory:
        said = [turn.content.strip() for turn in memory.turns("cli:chat")]
        assert said == ["Hello", "Good day.", "Where does Rockbot run?"]
        assert memory.admin.check() == []


def test_a_chat_goes_on_without_a_database_that_is_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SQLiteStore.__init__.__kwdefaults__, "busy_timeout", timedelta(milliseconds=50))
    with closing(sqlite3.connect(folder / "reverie.db", isolation_level=None)) as connection:
        connection.execute("begin immediate")
        with serving(says("Good day.")) as script:
            done = run(folder, "chat", "-m", "Hello", "--model", "openai:m", env=by_script(script))
    assert "Good day." in done.stdout.decode()
    assert b"could not be stored" in done.stderr
