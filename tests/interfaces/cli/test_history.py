"""The commands about what was changed: history, blame, diff, undo, and answers as of another time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.interfaces.conftest import run_on_terminal

Call = Callable[..., Result]
Answer = Callable[..., Any]

PORT = "The staging database listens on port 5433"


@pytest.fixture
def port(answer: Answer) -> str:
    """A record that was saved (1), said again (2) and pinned (3)."""
    saved = answer("remember", PORT, "--tag", "db")
    answer("remember", PORT, "--tag", "port")
    answer("pin", saved["record"]["id"])
    return str(saved["record"]["id"])


def one_line(result: Result) -> str:
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


# -- history ---------------------------------------------------------------------------------------------


def test_history_is_cut_and_turned_round(answer: Answer, port: str) -> None:
    def numbers(*options: str) -> list[int]:
        return [change["sequence"] for change in answer("history", *options)["history"]]

    assert numbers() == [3, 2, 1]
    assert numbers("--limit", "2") == [3, 2]
    assert numbers("--since", "2") == [3, 2]
    assert numbers("--until", "2") == [2, 1]
    assert numbers("--since", "1h") == [3, 2, 1]
    assert numbers("--until", "2020-01-01") == numbers("--until", "20200101") == []
    assert numbers("--actor", "owner") == [3, 2, 1]
    assert numbers("--actor", "dream") == []
    assert numbers(port, "--since", "3") == [3]


def test_a_person_sees_the_first_words_of_what_was_changed(folder: Path, call: Call, port: str) -> None:
    call("remember", "word " * 40)
    call("forget", port, "--yes")
    call("say", "cli:1", "How do I reach it?")
    code, seen = run_on_terminal("history", "--store", folder, columns=200, NO_COLOR="1")
    assert code == 0
    shown = [line.partition(": ")[2] for line in seen.splitlines() if line[:1].isdigit()]
    assert list(filter(None, shown)) == ["How do I reach it?", f"{'word ' * 15}word…"]
    assert len(shown) > 4, "what was forgotten has no words"


# -- blame and diff --------------------------------------------------------------------------------------


def test_blame_says_where_a_record_comes_from(call: Call, answer: Answer, port: str) -> None:
    found = answer("blame", port)
    assert found["created"]["sequence"] == 1
    assert (found["recalled"], found["recalled_at"]) == (0, None)
    text = call("blame", port).stdout
    assert text.startswith(f"record {port}\nmade by owner (save) at ")
    assert call("blame", "ffffffffffff").exit_code == 3


def test_diff_shows_what_the_last_change_did_or_what_is_different(
    call: Call, answer: Answer, port: str
) -> None:
    def names(*args: str) -> list[list[str]]:
        found = answer("diff", *args)["differences"]
        return [
            sorted(field["name"] for field in one["fields"] if "_at" not in field["name"]) for one in found
        ]

    assert names(port) == [["pinned"]]
    assert names(port, "1", "2") == [["seen_count", "tags"]]
    assert names(port, "1") == names(port, "1", "3") == [["pinned", "seen_count", "tags"]]
    assert names("--since", "2") == [["pinned", "seen_count", "tags"]]
    assert names("--since", "2", "--until", "2") == [["seen_count", "tags"]]
    assert call("diff", port).stdout == f"record {port} changed\n  pinned: no -> yes\n"
    same = call("diff", port, "2", "2")
    assert (same.exit_code, same.stderr) == (1, "No differences.\n")
    assert call("diff", "ffffffffffff").exit_code == 3
    for wrong in ([], [port, "--since", "1"], [port, "--until", "1"], [port, "soon"]):
        assert call("diff", *wrong).exit_code == 2


# -- undo ------------------------------------------------------------------------------------------------


def test_one_change_is_undone_without_asking(call: Call, answer: Answer, port: str) -> None:
    tried = answer("undo", "2", "--dry-run")
    assert (tried["changes"], tried["made"], tried["dry_run"]) == ([2], [], True)
    assert answer("show", port)["record"]["seen_count"] == 2
    done = call("undo", "2")
    assert done.stdout.startswith(f"Undone: 1 change.\n\nrecord {port} changed\n")
    record = answer("show", port)["record"]
    assert (record["seen_count"], record["tags"], record["pinned"]) == (1, ["db"], True)
    assert answer("history", "--limit", "1")["history"][0]["reference"] == "2"
    again = call("undo", "2")
    assert (again.exit_code, again.stdout, again.stderr) == (
        0, "", "Nothing to undo: everything is as it was before.\n",
    )  # fmt: skip


def test_several_changes_are_undone_after_a_yes(call: Call, answer: Answer, folder: Path, port: str) -> None:
    refused = call("undo", "--since", "2")
    assert refused.exit_code == 2
    assert "--yes" in one_line(refused)
    assert answer("show", port)["record"]["pinned"] is True
    done = answer("undo", "--since", "2", "--yes")
    assert (done["changes"], done["made"], done["left"]) == ([3, 2], [4, 5], [])
    assert answer("show", port)["record"]["seen_count"] == 1
    assert answer("undo", "--batch", "4", "--yes")["made"] == [6, 7]
    assert answer("show", port)["record"]["pinned"] is True
    assert asked(folder, "n") == (0, False)
    assert answer("show", port)["record"]["pinned"] is True
    assert asked(folder, "y") == (0, True)
    assert answer("show", port)["record"]["pinned"] is False


def asked(folder: Path, reply: str) -> tuple[int, bool]:
    """Undo everything since change 2 at a terminal; the exit code, and whether it was done."""
    code, output = run_on_terminal("undo", "--since", "2", "--store", folder, reply=reply)
    assert "Undo " in output
    assert "[y/N]" in output
    return code, "Undone" in output


def test_what_to_undo_has_to_be_said_in_one_way(call: Call, port: str) -> None:
    for wrong in ([], ["1", "--since", "1"], ["1", "--batch", "1"], ["x"], ["0"]):
        assert call("undo", *wrong).exit_code == 2
    assert call("undo", "99").exit_code == 3


# -- as of another time ----------------------------------------------------------------------------------


def test_every_reading_command_answers_as_of_another_time(call: Call, answer: Answer) -> None:
    first = answer("remember", PORT, "--category", "db", "--tag", "db")["record"]["id"]
    call("say", "chat:1", "Which port does the staging database use?")
    call("edit", "notes.md", "--from", "-", input="# Notes\n")

    def answers(*options: str) -> list[Any]:
        stats = answer("stats", *options)
        pack = answer("context", "chat:1", *options)
        return [
            answer("show", first, *options),
            answer("list", *options),
            answer("categories", *options),
            answer("tags", *options),
            answer("sessions", *options),
            [hit["id"] for hit in answer("recall", "staging database port", *options)["hits"]],
            ("port 5433" in pack["text"], "5434" in pack["text"]),  # the living page is that of now
            {name: stats[name] for name in ("records", "turns", "sessions", "pages", "journal")},
            answer("pages", *options),
            answer("page", "notes.md", *options)["text"].partition("\n<!-- reverie:page")[
                0
            ],  # the block is of today
        ]

    answers()  # the first prompt composes the living page
    then = answers()
    latest = answer("history", "--limit", "1")["history"][0]
    moment = latest["at"]
    call("archive", first)
    call("remember", "The staging database moved to port 5434", "--tag", "new")
    call("say", "chat:1", "And which port does it use now?")
    call("say", "chat:2", "Hello")
    call("edit", "notes.md", "--from", "-", input="# Other notes\n")
    assert answers("--as-of", moment) == then
    assert answers("--as-of", str(latest["sequence"])) == then
    assert answers() != then
    assert call("list", "--as-of", "2020-01-01").stderr == "No records.\n"
    assert call("recall", "port", "--as-of", "9999").exit_code == 3
    assert call("recall", "port", "--as-of", "soon").exit_code == 2
