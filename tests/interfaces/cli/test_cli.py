"""The commands: what they answer, in which form, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from reverie.domain.text import timestamps
from reverie.interfaces.cli.main import COMMANDS, cli
from reverie.interfaces.cli.options import ExitCode
from reverie.memory import Memory
from reverie.settings import Settings
from tests.interfaces.conftest import environment, measure_width, run_cli, run_on_terminal, run_process

Call = Callable[..., Result]
Answer = Callable[..., Any]

RECORD_KEYS = {
    "id", "content", "created_at", "updated_at", "last_seen_at", "category", "kind", "layer", "tags",
    "confidence", "importance", "source", "references", "origin", "scope", "pinned", "seen_count",
    "valid_from", "valid_to",
    "expires_at", "metadata", "archived_at", "archive_reason",
}  # fmt: skip
HIT_KEYS = {"id", "type", "score", "content", "passage", "at", "kind", "layer", "explanation"}
NAMES = [name for section in COMMANDS.values() for name in section]


@pytest.fixture
def port(answer: Answer) -> str:
    """The id of one record."""
    saved = answer(
        "remember", "The staging port is 5433", "--category", "project-context/db", "--tag", "postgres"
    )
    return str(saved["record"]["id"])


# -- help ----------------------------------------------------------------------------------------------


def test_every_command_has_a_help_that_begins_like_its_line_in_the_list() -> None:
    shown = CliRunner().invoke(cli, ["--help"], prog_name="reverie", env={"COLUMNS": "80"}).output
    for section in COMMANDS.values():
        for name in section:
            result = CliRunner().invoke(cli, [name, "--help"], prog_name="reverie", env={"COLUMNS": "80"})
            assert (result.exit_code, f"Usage: reverie {name} " in result.output) == (0, True), name
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            summary = command.get_short_help_str(100)
            assert f"\n  {name} " in shown, name
            assert summary.split()[0] == (command.help or "").split()[0] in shown, name
            assert "..." not in result.output.partition("\nCommands:\n")[2], name


# -- remember --------------------------------------------------------------------------------------------


def test_a_secret_that_is_not_stored_is_said(call: Call) -> None:
    saved = call("remember", "The wifi password at the cabin is hunter22")
    assert "Redacted 1 secret (password). To keep it, save it again with `--keep-secret`." in saved.stderr
    assert "hunter22" not in saved.output
    assert call("remember", "[redacted: password] is a mark").stderr == ""


def test_what_is_remembered_is_saved_with_every_field(answer: Answer, folder: Path) -> None:
    saved = answer(
        "remember", "Deploys go out on Tuesday", "--category", "project-context/deploy", "--kind", "decision",
        "--layer", "semantic", "--tag", "deploy", "--tag", "calendar", "--importance", "0.9",
        "--confidence", "0.7", "--source", "GOAL:ship", "--reference", "docs/deploy.md", "--origin", "agent",
        "--scope", "user:alice", "--pin", "--ttl", "2d", "--valid-from", "2025-01-31",
        "--valid-to", "2026-01-31T10:00:00+02:00",
    )  # fmt: skip
    assert set(saved) == {"outcome", "record", "kind", "about", "permission", "reason", "until"}
    assert saved["outcome"] == "created"
    record = saved["record"]
    assert set(record) == RECORD_KEYS
    expected = {
        "category": "project-context/deploy", "kind": "decision", "layer": "semantic", "pinned": True,
        "tags": ["deploy", "calendar"], "importance": 0.9, "confidence": 0.7, "source": "GOAL:ship",
        "references": ["docs/deploy.md"], "origin": "agent", "scope": "user:alice",
        "valid_from": "2025-01-31T00:00:00Z", "valid_to": "2026-01-31T08:00:00Z",
    }  # fmt: skip
    assert {name: record[name] for name in expected} == expected
    lives = timestamps.parse_time(record["expires_at"]) - timestamps.parse_time(record["created_at"])
    assert abs(lives - timedelta(days=2)) < timedelta(seconds=5)
    with Memory.open(folder) as memory:
        stored = memory.scoped("user:alice").get(record["id"])
    assert stored is not None
    assert stored.to_dict() == record


def test_words_need_no_quotes_and_standard_input_is_read_for_a_dash(answer: Answer) -> None:
    assert answer("remember", "buy", "oyster", "knives")["record"]["content"] == "buy oyster knives"
    text = "First line\nsecond line: Tomé\n"
    assert answer("remember", "-", input=text)["record"]["content"] == text.rstrip("\n")
    assert answer("recall", "-", input="oyster\n")["query"] == "oyster"


def test_saying_it_again_reinforces_and_says_so(call: Call) -> None:
    first = call("remember", "The dog is called Bosun")
    again = call("remember", "the dog is  called bosun")
    assert first.stdout.startswith("Remembered: ")
    assert again.stdout.startswith("Already known, seen 2 times: ")
    assert first.stdout.split()[1] == again.stdout.split(": ")[1].split()[0]


# -- recall ----------------------------------------------------------------------------------------------


def test_recall_finds_records_and_turns_and_says_why(call: Call, answer: Answer, port: str) -> None:
    call("say", "chat:1", "which staging port do we use again?", "--speaker", "Ines")
    found = answer("recall", "staging port")
    assert set(found) == {"query", "hits"}
    assert found["query"] == "staging port"
    assert {hit["type"] for hit in found["hits"]} == {"record", "turn"}
    for hit in found["hits"]:
        assert set(hit) == HIT_KEYS | {hit["type"]}
        assert set(hit["explanation"]) == {"matched", "parts", "evidence", "note"}
        assert 0 < hit["score"] <= 1
        assert hit["explanation"]["matched"]
    first = found["hits"][0]
    assert (first["id"], first["record"]["category"]) == (port, "project-context/db")


def test_recall_in_a_pipe_is_a_line_of_tabs_for_each_hit(call: Call, port: str) -> None:
    (line,) = call("recall", "staging port").stdout.splitlines()
    score, found, kind, category, at, content = line.split("\t")
    assert 0 < float(score) <= 1
    assert (found, kind, category, content) == (
        port,
        "fact",
        "project-context/db",
        "The staging port is 5433",
    )
    assert datetime.fromisoformat(at).tzinfo == UTC
    (explained,) = call("recall", "staging port", "--explain").stdout.splitlines()
    assert explained.startswith(line + "\tmatched ")


def test_without_a_command_the_help_is_shown_with_every_exit_code() -> None:
    shown, text = (
        CliRunner().invoke(cli, args, prog_name="reverie", env={"COLUMNS": "80"}).output
        for args in ([], ["--help"])
    )
    assert shown == text
    assert all(f"  {int(code)} " in text and code.meaning in text for code in ExitCode)


def test_nothing_relevant_is_an_answer_with_its_own_exit_code(call: Call, port: str) -> None:
    assert call("recall", "").stderr == "Nothing relevant.\n"
    assert call("recall", "--in", "turns").stderr == "Nothing found.\n"
    empty = call("list", "--kind", "event")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "No records.\n")
    result = call("recall", "zeppelin")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "Nothing relevant.\n")
    silent = call("recall", "zeppelin", "--quiet")
    assert (silent.exit_code, silent.output) == (1, "")
    document = call("recall", "zeppelin", "--json")
    assert document.exit_code == 1
    assert json.loads(document.stdout) == {"query": "zeppelin", "hits": []}


RESTRICTED = json.loads(Path(__file__).with_name("recall_options.json").read_text(encoding="utf-8"))


def test_recall_restricts_as_its_options_say(call: Call) -> None:
    ids = {}
    for name, extra in {
        "a": ["--category", "project-context/tide"],
        "b": ["--tag", "red", "--tag", "blue", "--scope", "user:alice"],
        "c": ["--kind", "decision", "--valid-to", "2030-01-01"],
        "d": ["--kind", "lesson", "--origin", "tool"],
    }.items():
        ids[name] = call("remember", f"causeway note number {name}{name}{name}", *extra, "-q").stdout.strip()
    ids["said"] = call("say", "chat:1", "the causeway is dry at seven", "-q").stdout.strip()
    for options, found in RESTRICTED:
        whose = [] if "--scope" in options else ["--scope", "*"]
        lines = call("recall", "causeway", *options, *whose).stdout.splitlines()
        hits = {line.split("\t")[1] for line in lines}
        if isinstance(found, int):
            assert len(hits) == found, options
        else:
            assert hits == {ids[name] for name in found}, options


def test_literal_and_regular_expressions_find_what_words_do_not(call: Call, answer: Answer) -> None:
    call("remember", "error E-4711: tide > 3.50 m")
    call("say", "chat:1", "we saw E-4712 too")
    assert [hit["type"] for hit in answer("recall", "E-4711: tide >", "--literal")["hits"]] == ["record"]
    assert {hit["type"] for hit in answer("recall", r"E-47\d\d", "--regex")["hits"]} == {"record", "turn"}
    assert call("recall", "(", "--regex").exit_code == 2


def test_a_turn_that_only_calls_tools_is_not_shown_as_nothing(call: Call, folder: Path) -> None:
    call("init")
    with Memory.open(folder) as memory:
        calls = [{"id": "1", "name": "Bash", "arguments": '{"command": "make lint"}'}]
        memory.session("a:1").add("assistant", "", tool_calls=calls)
    assert (
        call("recall", "--in", "turns")
        .stdout.splitlines()[0]
        .endswith('[calls Bash({"command": "make lint"})]')
    )


# -- show, list, categories, tags ------------------------------------------------------------------------


def test_show_gives_a_record_or_a_turn_whole(call: Call, answer: Answer, port: str) -> None:
    turn = answer("say", "chat:1", "hello there")["turn"]
    assert answer("show", turn["id"]) == {"type": "turn", "turn": turn}
    shown = answer("show", port)
    assert (shown["type"], set(shown["record"])) == ("record", RECORD_KEYS)
    lines = call("show", port).stdout.splitlines()
    assert f"id\t{port}" in lines
    assert "tags\tpostgres" in lines
    assert lines[-1] == "The staging port is 5433"


def test_list_is_newest_first_and_pages(call: Call, answer: Answer) -> None:
    ids = [call("remember", f"thing number {word}", "-q").stdout.strip() for word in ("one", "two", "three")]
    listed = answer("list")
    assert set(listed) == {"records"}
    assert [record["id"] for record in listed["records"]] == ids[::-1]
    assert [r["id"] for r in answer("list", "--limit", "1", "--offset", "1")["records"]] == [ids[1]]
    first, kind, category, _, content = call("list").stdout.splitlines()[0].split("\t")
    assert (first, kind, category, content) == (ids[2], "fact", "-", "thing number three")


def test_in_a_pipe_what_does_not_hold_is_marked_and_history_has_texts(call: Call) -> None:
    call("remember", "Ada lives in Bern", "--valid-to", "2025-03-01")
    call("remember", "Ada moves to Basel", "--valid-from", "2150-01-01")
    call("remember", "Ada drinks tea")
    gone = call("remember", "Ada has a cat", "-q").stdout.strip()
    call("archive", gone, "--reason", "it ran away")
    lines = [line.split("\t")[4:] for line in call("list").stdout.splitlines()]
    assert sorted(lines) == [
        ["Ada drinks tea"],
        ["Ada lives in Bern", "held until 2025-03-01"],
        ["Ada moves to Basel", "holds from 2150-01-01"],
    ]
    assert call("list", "--archived").stdout.endswith("\tAda has a cat\tarchived (it ran away)\n")
    assert "\theld until 2025-03-01\n" in call("recall", "where does Ada live?").stdout
    assert [line.split("\t")[9] for line in call("history", gone).stdout.splitlines()] == [
        "Ada has a cat"
    ] * 2


def test_categories_and_tags_are_counted(call: Call, answer: Answer, port: str) -> None:
    call("remember", "no category here", "--tag", "postgres")
    assert answer("categories") == {"categories": {"": 1, "project-context/db": 1}}
    assert answer("tags") == {"tags": {"postgres": 2}}
    assert call("tags").stdout == "2\tpostgres\n"
    assert sorted(call("categories").stdout.splitlines()) == ["1\t-", "1\tproject-context/db"]


# -- tending ---------------------------------------------------------------------------------------------


def test_a_list_that_the_default_limit_cuts_says_so(call: Call, folder: Path) -> None:
    with Memory.open(folder, settings=Settings(files="none")) as memory:
        memory.save_many([f"Gauge {number} is at {number * 7} metres" for number in range(50)])
        for number in range(51):
            memory.session(f"cli:{number}").add("user", "Hello")
    assert call("list").stderr == ""
    call("remember", "The port is 5433")
    for command, limit in (("list", 50), ("sessions", 50), ("history", 100)):
        cut = call(command)
        assert len(cut.stdout.splitlines()) == limit
        assert cut.stderr == f"There are more than {limit}: --limit N lists them.\n"
        assert call(command, "--limit", "7").stderr == call(command, "--quiet").stderr == ""
        assert len(call(command, "--limit", "7").stdout.splitlines()) == 7


def test_a_record_that_is_so_already_is_said_to_be_unchanged(call: Call, port: str) -> None:
    def nothing(command: str, state: str) -> None:
        assert call(command, port).stdout == f"Nothing changed: {port} {state}.\n"

    nothing("restore", "is not archived")
    nothing("unpin", "is not pinned")
    assert call("end", port).stdout == f"Ended {port}.\n"
    nothing("end", "had ended already")
    assert call("pin", port).stdout == f"Pinned {port}.\n"
    nothing("pin", "is pinned already")
    assert call("list", "--pinned").stdout.startswith(port)
    assert call("archive", port).stdout == f"Archived {port}.\n"
    nothing("archive", "is archived already")
    assert call("restore", port).stdout == f"Restored {port}.\n"
    assert call("unpin", port).stdout == f"Unpinned {port}.\n"


def test_purge_asks_and_removes_for_good(call: Call, answer: Answer, port: str) -> None:
    call("archive", port)
    refused = call("purge", "--older-than", "1ms")
    assert refused.exit_code == 2
    assert "Delete 1 record that was archived more than 1ms ago" in refused.stderr
    assert "--yes" in refused.stderr
    assert call("purge", "--older-than", "1d").stdout == "Deleted 0 records permanently.\n", (
        "nothing is asked"
    )
    assert answer("purge", "--yes") == {"purged": 0}, "archived a moment ago, and kept for 90 days"
    assert call("purge", "--older-than", "1ms", "--yes").stdout == "Deleted 1 record permanently.\n"
    assert call("show", port).exit_code == 3


# -- conversations ---------------------------------------------------------------------------------------


def test_turns_are_said_and_sessions_listed(call: Call, answer: Answer) -> None:
    turn = answer("say", "chat:1", "Is it dry?", "--speaker", "Tomé", "--at", "2025-03-25T06:00:00Z")["turn"]
    assert (turn["role"], turn["speaker"], turn["position"]) == ("user", "Tomé", 0)
    assert turn["at"] == "2025-03-25T06:00:00Z"
    reply = call("say", "chat:1", "-", "--role", "assistant", input="From 06:40.\n")
    assert reply.stdout.startswith("Turn 1 of chat:1: ")
    (session,) = answer("sessions")["sessions"]
    assert set(session) == {
        "id", "created_at", "status", "scope", "window_start", "summary", "metadata", "turns", "last_at",
        "title",
    }  # fmt: skip
    assert (session["id"], session["turns"], session["status"]) == ("chat:1", 2, "active")
    assert call("sessions").stdout.split("\t")[:3] == ["chat:1", "active", "2"]


def test_context_previews_the_pack_and_changes_nothing(call: Call, answer: Answer, port: str) -> None:
    call("say", "chat:1", "Which staging port is it?")
    before = answer("history")["history"]
    result = call("context", "chat:1")
    assert "5433" in result.stdout
    assert port in result.stdout
    pack = answer("context", "chat:1", "staging port?")
    assert pack["text"] == answer("context", "chat:1", "staging port?")["text"]
    assert 0 < pack["tokens"] <= pack["hard_tokens"]
    assert {"query", "text", "messages", "tokens", "candidates", "diagnostics"} <= set(pack)
    explained = call("context", "chat:1", "staging port?", "--explain").stdout
    assert explained.startswith(pack["text"])
    assert "Selected: 1" in explained
    assert answer("history")["history"] == before


# -- the store -------------------------------------------------------------------------------------------


def test_check_and_stats_look_at_the_store(call: Call, answer: Answer, folder: Path, port: str) -> None:
    assert answer("check") == {"sound": True, "problems": []}
    assert call("check").stdout == f"Sound: {folder}\n"
    call("say", "chat:1", "hello")
    numbers = answer("stats")
    assert (numbers["records"], numbers["turns"], numbers["sessions"], numbers["archived"]) == (1, 1, 1, 0)
    assert numbers["folder"] == str(folder)
    assert numbers["bytes_on_disk"] > 0
    assert numbers["by_kind"] == {"fact": 1}
    lines = dict(line.split("\t") for line in call("stats").stdout.splitlines())
    assert lines["records"] == "1"
    assert lines["by_category"] == "project-context/db: 1"
    assert lines["failed"] == "-"
    call("remember", "Prefers short answers")
    assert "by_category\t-: 1, project-context/db: 1\n" in call("stats").stdout


def test_a_memory_in_memory_is_in_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("recover", "backup.zip"), ("rebuild", "--yes"), ("files", "pull", "copy"), ("demo",)):
        refused = run_cli(*command, "--store", ":memory:")
        assert (refused.returncode, b"in no folder" in refused.stderr) == (2, True), command
    assert list(tmp_path.iterdir()) == []
    assert run_cli("check", "--store", ":memory:").stdout == b"Sound: :memory:\n"
    refused = run_cli("connect", "cursor", "--print", "--store", ":memory:")
    assert (refused.returncode, b"in no folder" in refused.stderr) == (2, True)


# -- where the memory is ---------------------------------------------------------------------------------


def test_the_folder_comes_from_the_option_before_or_after_and_else_from_the_environment(
    tmp_path: Path,
) -> None:
    env = environment(REVERIE_STORE=str(tmp_path / "env"))
    assert run_cli("remember", "kept by the environment", env=env).returncode == 0
    assert run_cli("--store", tmp_path / "before", "remember", "said before", env=env).returncode == 0
    assert run_process("remember", "said after", "--store", tmp_path / "after", env=env).returncode == 0
    for name, content in {
        "env": "kept by the environment",
        "before": "said before",
        "after": "said after",
    }.items():
        with Memory.open(tmp_path / name, create=False) as memory:
            assert [record.content for record in memory.list()] == [content]


def test_without_a_folder_the_platform_says_where(tmp_path: Path) -> None:
    env = environment(HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"))
    assert run_cli("remember", "at home", env=env).returncode == 0
    assert list(tmp_path.rglob("reverie.db"))


def test_settings_come_from_the_file_and_the_environment(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"hard_tokens": 777, "soft_tokens": 100}', encoding="utf-8")
    run_cli("say", "chat:1", "hello", "--store", folder)
    asked = ("context", "chat:1", "--json", "--store", folder, "--settings", file)
    assert json.loads(run_cli(*asked).stdout)["hard_tokens"] == 777
    env = environment(REVERIE_HARD_TOKENS="888")
    assert json.loads(run_cli(*asked, env=env).stdout)["hard_tokens"] == 888


# -- on a terminal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_a_drawing_that_fits(folder: Path, columns: int) -> None:
    run_cli("remember", "The causeway is dry from seven to nine. " * 8, "--store", folder)
    run_cli("say", "chat:1", "when is the causeway dry?", "--store", folder)
    code, seen = run_on_terminal(
        "recall", "causeway", "--explain", "--store", folder, columns=columns, NO_COLOR="1"
    )
    assert code == 0
    assert "relevance" in seen
    assert measure_width(seen) <= columns
    for args in (["list"], ["sessions"], ["history"], ["stats"], ["categories"], ["check"]):
        code, seen = run_on_terminal(*args, "--store", folder, columns=columns, NO_COLOR="1")
        assert code == 0
        assert measure_width(seen.replace(str(folder), "~/memory")) <= columns, (
            "but for the name of the folder"
        )


HOSTILE = "\x1b]0;owned\x07\x1b[2Jhello \u202e[bold]world[/bold] \x9b31m\U000e0041"


@pytest.mark.parametrize(
    "args",
    [["recall", "hello"], ["recall", "hello", "--explain"], ["show", "ID"], ["context", "chat:1", "hello"]],
)
def test_what_is_remembered_cannot_command_the_terminal(folder: Path, args: list[str]) -> None:
    turn = run_cli("say", "chat:1", HOSTILE, "-q", "--store", folder).stdout.decode().strip()
    assert len(turn) == 12
    args = [turn if arg == "ID" else arg for arg in args]
    for columns in (80, 120):
        _, seen = run_on_terminal(*args, "--store", folder, columns=columns, NO_COLOR="1", TERM="dumb")
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\U000e0041"} & set(seen)
    piped = run_cli(*args, "--store", folder).stdout.decode()
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\U000e0041"} & set(piped)


def test_json_keeps_every_character_and_commands_no_terminal(folder: Path) -> None:
    turn = run_cli("say", "chat:1", HOSTILE, "-q", "--store", folder).stdout.decode().strip()
    written = run_cli("show", turn, "--json", "--store", folder).stdout.decode()
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\U000e0041"} & set(written)
    assert json.loads(written)["turn"]["content"] == HOSTILE


def test_json_stays_json_where_the_encoding_is_not_utf_8(folder: Path) -> None:
    run_cli("remember", "Tomé drinks at the Café Âncora — 牡蠣", "--store", folder)
    env = environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    done = run_cli("recall", "Tomé", "--json", "--store", folder, env=env)
    assert (
        json.loads(done.stdout.decode("ascii"))["hits"][0]["content"]
        == "Tomé drinks at the Café Âncora — 牡蠣"
    )
    assert run_cli("recall", "Tomé", "--store", folder, env=env).returncode == 0


def test_say_tells_what_became_of_a_wish(call: Call, answer: Answer) -> None:
    said = answer("say", "chat:1", "remember that the causeway is dry at seven")
    assert said["is_stored"]
    assert said["wishes"][0]["record"] in call("list").stdout
    secret = answer("say", "chat:1", "don't remember this, but I look for another job")
    assert not secret["is_stored"]
    assert "not stored" in secret["wishes"][0]["text"]
    assert "another job" not in call("recall", "another job").stdout
    request = answer("say", "chat:1", "forget what I said about the causeway")["wishes"][0]["request"]
    assert request["id"] in call("forget").stdout
