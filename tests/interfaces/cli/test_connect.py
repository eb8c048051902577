"""`reverie connect`: what it writes for each client, that nothing else in a file changes, and what it refuses."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.interfaces.cli import config_text
from reverie.interfaces.cli.commands.connect import BACKUP
from tests.interfaces.conftest import environment, run_cli, run_on_terminal

CLIENTS = (
    *("claude-code", "claude-desktop", "codex", "gemini", "cursor", "vscode"),
    *("copilot-cli", "zed", "windsurf", "cline", "opencode"),
)


Connect = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, to which the variables of clients do not lead away."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def connect(home: Path) -> Connect:
    """Run `reverie connect` with a memory in that home."""

    def run(*arguments: str) -> Any:
        return run_cli("connect", *arguments, "--store", home / "memory", env=environment())

    return run


def list_files(home: Path) -> list[Path]:
    return sorted(path for path in home.rglob("*") if path.is_file())


def test_every_client_gets_its_settings_once_and_loses_them_again(home: Path, connect: Connect) -> None:
    for client in CLIENTS:
        assert connect(client, "--check").returncode == 1
        done = connect(client, "--yes")
        assert done.returncode == 0, done.stderr
        assert b"Connected" in done.stderr
        files = list_files(home)
        texts = [path.read_text() for path in files]
        assert any(str(home / "memory") in text for text in texts), client
        assert all(f"+++ {path}" in done.stdout.decode() for path in files)
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert connect(client, "--check").returncode == 0
        again = connect(client, "--yes")
        assert (again.returncode, again.stdout) == (0, b"")
        assert [path.read_text() for path in list_files(home)] == texts
        assert connect(client, "--check", "--scope", "user:alice").returncode == 1
        assert connect(client, "--remove", "--yes").returncode == 0
        assert list_files(home) == [], client
    assert not (home / "memory").exists()


def test_the_settings_start_the_server_and_run_the_hooks(home: Path, connect: Connect) -> None:
    connect("claude-code", "--yes", "--scope", "user:al ice")
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["reverie"]
    assert server["alwaysLoad"] is True
    hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
    assert list(hooks) == [
        *("SessionStart", "UserPromptSubmit", "Stop", "PostToolUseFailure", "SessionEnd")
    ]  # fmt: skip
    (handler,) = hooks["UserPromptSubmit"][0]["hooks"]
    assert Path(shlex.split(handler["command"])[0]).is_absolute()
    told = json.dumps({"session_id": "s", "prompt": "Hello there"}).encode()
    ran = subprocess.run(handler["command"], shell=True, input=told, capture_output=True, env=environment())
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    call = {"name": "save_memory", "arguments": {"content": "Alice likes tea"}}
    asked = [("initialize", hello), ("tools/call", call)]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked)
    ]
    ran = subprocess.run(
        [server["command"], *server["args"]], input="\n".join(lines).encode(), capture_output=True
    )
    assert json.loads(ran.stdout.splitlines()[-1])["result"]["isError"] is False, ran.stderr
    with Memory.open(home / "memory") as memory:
        (record,) = memory.scoped("*").list()
        assert record.scope == "user:al ice"
        assert len(memory.scoped("user:al ice").turns("claude-code:s")) == 1


def test_codex_trusts_the_hooks_that_its_user_has_seen(home: Path, connect: Connect) -> None:
    (home / ".codex").mkdir()
    before = (
        '# mine\nmodel = "gpt"  # the model\n\n[[hooks.Stop]]\nhooks = [{ type = "command", command = "u" }]'
    )
    path = home / ".codex" / "config.toml"
    path.write_text(before)
    connect("codex", "--yes")
    assert path.read_text().startswith(before)
    read = tomllib.loads(path.read_text())
    assert read["mcp_servers"]["reverie"]["required"] is True
    assert read["mcp_servers"]["reverie"]["args"][-1] == "--text-only"
    assert read["hooks"]["Stop"][0]["hooks"][0]["command"] == "u"
    assert set(read["hooks"]["state"]) == {
        f"{path}:{place}" for place in ("session_start:0:0", "user_prompt_submit:0:0", "stop:1:0")
    }
    first = dict(read["hooks"]["state"])
    connect("codex", "--yes", "--scope", "repository")
    second = tomllib.loads(path.read_text())["hooks"]["state"]
    assert set(second) == set(first)
    assert all(second[place] != first[place] for place in first)
    connect("codex", "--remove", "--yes")
    assert path.read_text() == before
    assert list_files(home) == [path]


def test_what_else_is_in_a_file_stays_as_it_was_written(home: Path, connect: Connect) -> None:
    cases = json.loads(Path(__file__).with_name("client_files.json").read_text(encoding="utf-8"))
    for client, (name, text) in cases.items():
        path = home / name
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode())
        path.chmod(0o644)
        done = connect(client, "--yes")
        assert done.returncode == 0, done.stderr
        written = path.read_bytes().decode()
        old = [line.strip().rstrip(" }],") for line in text.splitlines() if line.strip()]
        assert all(line in written for line in old), (client, written)
        assert ("\r\n" in text) == ("\r\n" in written)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        backup = path.with_name(path.name + BACKUP)
        assert backup.read_bytes().decode() == text
        connect(client, "--yes", "--scope", "user:alice")
        assert backup.read_bytes().decode() == text, "the copy is from before the first change"
        assert connect(client, "--remove", "--yes").returncode == 0
        assert path.read_bytes().decode() == text, client
        assert not backup.exists()


def test_what_a_person_changed_meanwhile_stays_when_the_settings_are_removed(
    home: Path, connect: Connect
) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n    "a": {"command": "a"}\n  }\n}\n')
    connect("cursor", "--yes")
    read = json.loads(path.read_text())
    read["mcpServers"]["reverie"]["env"] = {"A": "1"}
    read["mcpServers"]["b"] = {"command": "b"}
    path.write_text(json.dumps(read))
    connect("cursor", "--yes", "--scope", "user:alice")
    assert json.loads(path.read_text())["mcpServers"]["reverie"]["env"] == {"A": "1"}
    connect("cursor", "--remove", "--yes")
    assert set(json.loads(path.read_text())["mcpServers"]) == {"a", "b"}


def test_hooks_of_others_are_kept_and_earlier_ones_of_ours_replaced(home: Path, connect: Connect) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    ours = {"type": "command", "command": "/old/bin/reverie hook stop --store /old", "timeout": 15}
    theirs = {"type": "command", "command": "notify-send reverie hook-up"}
    path.write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [theirs, ours]}], "Other": [{"hooks": [ours]}]}})
    )
    connect("claude-code", "--yes")
    hooks = json.loads(path.read_text())["hooks"]
    assert "Other" not in hooks
    assert hooks["Stop"][0] == {"hooks": [theirs]}
    assert "/old" not in path.read_text()
    connect("claude-code", "--remove", "--yes")
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}


def test_a_file_that_cannot_be_changed_is_named_and_nothing_is_written(
    home: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks, servers = home / ".cursor" / "hooks.json", home / ".cursor" / "mcp.json"
    hooks.parent.mkdir()
    good = '{"mcpServers": {}}'
    for text, says in (
        (b'{"hooks": {', "not valid JSON"),
        (b'{"hooks": {}} more', "not valid JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"hooks": []}', "unexpected form"),
        (b'{"hooks": {"sessionStart": {}}}', "unexpected form"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * 100_000, "not valid JSON"),
    ):
        hooks.write_bytes(text)
        servers.write_text(good)
        for options in (["--yes"], ["--remove", "--yes"], ["--check"]):
            done = connect("cursor", *options)
            if options == ["--yes"] or "unexpected" not in says:
                assert done.returncode == 2, (text[:50], options)
                assert says in done.stderr.decode()
                assert str(hooks) in done.stderr.decode()
        assert (hooks.read_bytes(), servers.read_text()) == (text, good)
        assert len(list_files(home)) == 2
    hooks.write_text("{}")
    hooks.chmod(0o400)
    assert "is read-only" in connect("cursor", "--yes").stderr.decode()
    hooks.unlink()
    hooks.mkdir()
    assert "Is a directory" in connect("cursor", "--yes").stderr.decode()
    hooks.rmdir()
    hooks.write_text("{}")
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert "belongs to another user" in connect("cursor", "--yes").stderr.decode()
    assert (hooks.read_text(), servers.read_text()) == ("{}", good)
    toml = home / ".codex" / "config.toml"
    toml.parent.mkdir()
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(home))
    for text in ("mcp_servers = {}\n", "a = ", "[hooks]\nStop = [{ hooks = [] }]\n"):
        toml.write_text(text)
        assert connect("codex", "--yes").returncode == 2
        assert toml.read_text() == text


def test_a_file_that_is_linked_is_changed_where_it_is(home: Path, connect: Connect) -> None:
    (home / "dotfiles").mkdir()
    (home / ".gemini").mkdir()
    target = home / "dotfiles" / "gemini.json"
    target.write_text("{}")
    (home / ".gemini" / "settings.json").symlink_to(target)
    connect("gemini", "--yes")
    assert "reverie" in json.loads(target.read_text())["mcpServers"]
    connect("gemini", "--remove", "--yes")
    assert ((home / ".gemini" / "settings.json").is_symlink(), target.read_text()) == (True, "{}")


def test_if_one_file_cannot_be_written_the_others_are_as_before(home: Path, connect: Connect) -> None:
    (home / ".claude").write_text("a file in the way")
    done = connect("claude-code", "--yes")
    assert (done.returncode, done.stdout.count(b"+++")) == (4, 2)
    assert list_files(home) == [home / ".claude"]


def test_a_person_is_asked_and_can_refuse(home: Path, connect: Connect) -> None:
    code, shown = run_on_terminal(
        "connect", "zed", "--store", home / "memory", reply="n", columns=200, HOME=str(home)
    )
    assert code == 0
    assert "context_servers" in shown
    assert "Write 1 file?" in shown
    assert "Nothing was written." in shown
    assert list_files(home) == []
    code, shown = run_on_terminal(
        "connect", "zed", "--store", home / "memory", reply="y", columns=200, HOME=str(home)
    )
    assert "Connected Zed" in shown
    done = connect("zed", "--remove")
    assert (done.returncode, b"--yes" in done.stderr) == (2, True)


def test_without_a_name_the_clients_are_listed_with_their_state(home: Path, connect: Connect) -> None:
    (home / ".codex").mkdir()
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    connect("gemini", "--yes")
    rows = json.loads(connect("--json").stdout)["clients"]
    states = {row["name"]: row["state"] for row in rows}
    assert list(states) == list(CLIENTS)
    assert (states["codex"], states["gemini"], states["zed"]) == ("not connected", "connected", "not found")
    assert "not valid JSON" in states["cursor"]
    assert {row["name"]: row["files"] for row in rows}["gemini"] == [str(home / ".gemini" / "settings.json")]
    assert "gemini\tGemini CLI\tconnected" in connect().stdout.decode()


def test_the_settings_can_be_printed_to_be_written_by_hand(home: Path, connect: Connect) -> None:
    printed = connect("codex", "--print").stdout.decode()
    assert tomllib.loads(printed)["mcp_servers"]["reverie"]["required"] is True
    _, _, text = connect("vscode", "--print").stdout.decode().partition("\n")
    assert json.loads(text)["servers"]["reverie"]["type"] == "stdio"
    assert list_files(home) == []


def test_a_folder_of_the_environment_is_taken(
    home: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "claude"))
    connect("codex", "--yes")
    connect("claude-code", "--yes")
    assert [str(path.relative_to(home)) for path in list_files(home)] == [
        *("claude/.claude.json", "claude/settings.json", "elsewhere/config.toml")
    ]  # fmt: skip


def test_tables_of_toml_are_found_by_their_headers_and_texts_that_look_like_one_are_not() -> None:
    text = 'a = """\n[mcp_servers.reverie]\n"""\n[mcp_servers."reverie"] # ours\nb = 1\n\n# about z\n[z]\nc = 1\n'
    dropped = config_text.drop(text, ("mcp_servers", "reverie"), is_toml=True)
    assert dropped == 'a = """\n[mcp_servers.reverie]\n"""\n# about z\n[z]\nc = 1\n'
