"""The commands that take a memory elsewhere and another one in: their answers and their exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.interfaces.conftest import run_cli

Call = Callable[..., Result]
Answer = Callable[..., Any]

GRAPH = [
    {
        "type": "entity",
        "name": "Ada",
        "entityType": "person",
        "observations": ["Likes trains", "Speaks French"],
    },
    {"type": "relation", "from": "Ada", "to": "Lowwater", "relationType": "works_on"},
]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    file = tmp_path / "memory.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in GRAPH))
    return file


@pytest.fixture
def filled(call: Call) -> None:
    call("remember", "Prefers short answers", "--category", "user-preferences/style")
    call("say", "telegram:1", "Which port is staging on?")


# -- backup and recover ----------------------------------------------------------------------------------


def test_a_backup_is_made_and_brought_back(call: Call, filled: None, folder: Path, tmp_path: Path) -> None:
    result = call("backup", tmp_path / "kept.zip")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Backup: {tmp_path / 'kept.zip'} (")
    assert "1 record, 1 session, 1 turn, up to change 3." in result.stdout
    result = call("backup", tmp_path / "quiet.zip", "--quiet")
    assert result.output == f"{tmp_path / 'quiet.zip'}\n"
    result = call("recover", tmp_path / "kept.zip", "--store", tmp_path / "new")
    assert result.exit_code == 2  # the last --store counts, and there is a memory in it
    new = run_cli("recover", tmp_path / "kept.zip", "--store", tmp_path / "new")
    assert new.returncode == 0, new.stderr
    assert new.stdout.decode().startswith(f"Recovered: {tmp_path / 'new'} as of ")
    assert run_cli("recall", "answers", "--store", tmp_path / "new").returncode == 0


def test_the_json_of_both(answer: Answer, filled: None, folder: Path, tmp_path: Path) -> None:
    (folder / "soul.md").write_text("I am careful.")
    made = answer("backup", tmp_path / "kept.zip")
    assert set(made) == {
        "path", "made_at", "size", "sequence", "records", "sessions", "turns", "problems", "profile",
    }  # fmt: skip
    assert (made["records"], made["profile"]) == (1, ["soul.md"])
    done = answer("recover", tmp_path / "kept.zip", "--replace")
    assert set(done) == {"folder", "backup", "moved_to", "forgotten_again", "notes"}
    assert done["backup"] == made
    assert Path(done["moved_to"]).parent == folder


@pytest.mark.parametrize(
    ("content", "code"), [(b"no archive", 5), (b"PK\x03\x04" + b"\x00" * 200, 5), (None, 2)]
)
def test_what_is_no_backup_ends_with_the_code_that_says_so(
    call: Call, filled: None, tmp_path: Path, content: bytes | None, code: int
) -> None:
    if content is not None:
        (tmp_path / "bad.zip").write_bytes(content)
    result = call("recover", tmp_path / "bad.zip", "--replace")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.count("\n") == 1
    assert json.loads(call("stats", "--json").stdout)["records"] == 1


# -- export ----------------------------------------------------------------------------------------------


def test_an_export_is_taken_in_again(answer: Answer, filled: None, tmp_path: Path) -> None:
    done = answer("export", tmp_path / "out")
    assert (done["records"], done["sessions"], done["turns"]) == (1, 1, 1)
    again = answer("import", tmp_path / "out")
    assert (again["form"], again["records"], again["skipped_by_reason"]) == ("jsonl", 0, {"known": 2})


# -- import ----------------------------------------------------------------------------------------------


def test_an_import_says_what_was_taken_and_what_was_left_out(call: Call, graph: Path, folder: Path) -> None:
    graph.write_text(graph.read_text() + "{broken\n")
    result = call("import", graph, "--dry-run")
    assert result.exit_code == 6
    assert result.stdout.startswith("Would import from memory.jsonl (mcp): 3 records.\n")
    assert not folder.exists()
    result = call("import", graph, "--origin", "import")
    assert result.stdout.splitlines() == [
        "Imported from memory.jsonl (mcp): 3 records.",
        "Skipped: 1 broken.",
        "Found by search only: 3 records.",
        "  memory.jsonl, line 3: line broken: not JSON (Expecting property name enclosed in double quotes, "
        "line 1 column 2)",
    ]
    result = call("import", graph, "--origin", "import")
    assert result.stdout.splitlines()[:2] == [
        "Imported from memory.jsonl (mcp): nothing.", "Skipped: 3 known, 1 broken.",
    ]  # fmt: skip
    assert call("import", graph, "--origin", "import", "--quiet").output == ""


def test_the_json_of_an_import(answer: Answer, graph: Path) -> None:
    done = answer("import", graph, "--scope", "user:a", "--origin", "agent")
    assert done == {
        "form": "mcp", "dry_run": False, "records": 3, "sessions": 0, "turns": 0, "pages": 0, "paragraphs": 0,
        "skipped_by_reason": {}, "skipped": [], "revised": [], "trusted": 3, "rules": 0, "learned": 0,
        "handled": 3, "sample": ["Ada: Likes trains", "Ada: Speaks French", "Ada works on Lowwater"],
    }  # fmt: skip
    assert {record["origin"] for record in answer("list", "--scope", "user:a")["records"]} == {"agent"}
    again = answer("import", graph, "--scope", "user:a", "--format", "mcp", "--dry-run")
    assert (again["dry_run"], again["records"], len(again["skipped"])) == (True, 0, 3)
    assert set(again["skipped"][0]) == {"what", "place", "why", "detail", "count"}


def test_many_things_left_out_are_counted_and_not_all_listed(call: Call, graph: Path) -> None:
    graph.write_text(graph.read_text() + "{broken\n" * 50)
    lines = call("import", graph, "--origin", "import").stdout.splitlines()
    assert lines[1] == "Skipped: 50 broken."
    assert len(lines) == 3 + 20 + 1
    assert lines[-1] == "  and 30 more: --json lists them all"


def test_a_pipe_must_name_whose_words_they_are(call: Call, answer: Answer, graph: Path, folder: Path) -> None:
    result = call("import", graph)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "`--origin owner`" in result.stderr
    assert not folder.exists()
    said = call("import", graph, "--origin", "owner").stdout
    assert "In prompts where they fit: 3 records." in said
    answer("export", folder.parent / "own.jsonl")
    assert call("import", folder.parent / "own.jsonl").exit_code == 0, (
        "an own export says whose words they are"
    )


def test_a_terminal_shows_a_sample_and_asks_whose_words_they_are(folder: Path, tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "My daughter is called Ada."},
        {"role": "assistant", "content": "Noted."},
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in said))
    main, other = pty.openpty()
    command = [sys.executable, "-m", "reverie", "import", str(file), "--store", str(folder)]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other)
    os.close(other)
    os.write(main, b"owner\n")
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone
        while part := os.read(main, 10_000):
            shown += part
    os.close(main)
    assert process.wait() == 0, shown
    for text in ("chat.jsonl (messages): 1 session, 2 turns.", "  My daughter is called Ada.", "Whose words are these?",
                 "Learned 1 record from what the owner said."):  # fmt: skip
        assert text in shown.decode(), shown


def test_a_source_that_cannot_be_told_makes_no_folder(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "what.csv").write_text("hello")
    for source in (tmp_path / "what.csv", tmp_path / "missing"):
        result = call("import", source, "--origin", "import")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
    assert not folder.exists()
