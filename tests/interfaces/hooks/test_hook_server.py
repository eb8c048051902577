"""Hooks beside a process that has the memory open: who answers, and that nothing is lost where nobody does."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.interfaces.hooks.client import get_socket_path
from reverie.interfaces.hooks.server import HookServer
from tests.factories import wait_for
from tests.interfaces.conftest import environment
from tests.interfaces.hooks.conftest import ENTRY
from tests.interfaces.mcp.peers import Wire

SEEN = """
import sys
from reverie.interfaces.hooks import client
client.run_hook(sys.argv[2:])
"""


@pytest.fixture
def path(folder: Path) -> Iterator[Path]:
    """Path of the memory's socket."""
    path = Path(get_socket_path(str(folder)))
    yield path
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


def hook(folder: Path, name: str, *options: str, **event: Any) -> tuple[str, str]:
    """Run a hook as an agent does; return its output and its report."""
    told = json.dumps({"session_id": "s", **event}).encode()
    done = subprocess.run(
        [*ENTRY, "hook", name, "--store", str(folder), *options],
        input=told, capture_output=True, timeout=60, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Embed a text about the sea, in any words, as one direction, and others as another."""
    return [
        [1.0, 0.0] if any(word in text.lower() for word in ("harbour", "ships")) else [0.0, 1.0]
        for text in texts
    ]


def list_modules(folder: Path) -> list[str]:
    """Return which heavy modules a hook imports."""
    program = SEEN.replace("client.run_hook", "import os\nos._exit = lambda code: None\nclient.run_hook")
    program += (
        "\nnames = {'reverie.memory', 'reverie.interfaces.hooks.runner', 'click', 'logging', 'sqlite3'}"
    )
    program += "\nprint(sorted(names & set(sys.modules)), file=sys.stderr)"
    told = json.dumps({"session_id": "m", "prompt": "Hello there"}).encode()
    command = [sys.executable, "-S", "-c", program, "hook", "user-prompt", "--store", str(folder)]
    env = environment(PYTHONPATH=os.pathsep.join(each for each in sys.path if each))
    done = subprocess.run(command, input=told, capture_output=True, timeout=60, env=env)
    return list(json.loads(done.stderr.decode().splitlines()[-1].replace("'", '"')))


def test_a_served_memory_answers_with_vectors_and_the_hook_imports_almost_nothing(
    folder: Path, path: Path
) -> None:
    with Memory.open(folder, embedder=embed) as memory:
        record = memory.save("The harbour closes at nine in winter").record
        memory.admin.embed()
        with HookServer(memory, str(folder), settings=None):
            wait_for(path.exists)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            output, report = hook(folder, "user-prompt", prompt="Until when may ships come in?")
            assert record.id in json.loads(output)["hookSpecificOutput"]["additionalContext"]
            assert report == ""
            assert list_modules(folder) == []
            assert hook(folder, "stop", last_assistant_message="Until nine.") == ("", "")
        assert not path.exists()
        assert [turn.content for turn in memory.turns("claude-code:s")] == [
            "Until when may ships come in?", "Until nine."
        ]  # fmt: skip
        assert list((folder / "hooks").iterdir()) == []
    output, _ = hook(folder, "user-prompt", session_id="t", prompt="Until when may ships come in?")
    assert record.id not in output, "without a server, by words"


def test_the_scope_and_the_errors_of_a_hook_are_its_own(folder: Path, path: Path, tmp_path: Path) -> None:
    with Memory.open(folder) as memory, HookServer(memory, str(folder), settings=None):
        wait_for(path.exists)
        hook(folder, "user-prompt", "--scope", "user:alice/repository", cwd=str(tmp_path), prompt="Hello")
        (session,) = memory.scoped("*").sessions()
        assert session.state.scope.startswith("user:alice/project:")
        assert hook(folder, "stop", session_id=5) == (
            "", "reverie: no memory for this turn: session_id of the event is not text: nothing was stored\n"
        )  # fmt: skip
        assert hook(folder, "stop", "--quiet", session_id=5) == ("", "")


@pytest.mark.parametrize("kind", ["stale", "silent", "closing", "another user's folder"])
def test_where_nobody_answers_the_hook_does_the_work_itself(
    folder: Path, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(folder) as memory:
        memory.save("Redis listens on port 6380")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        if kind != "stale":
            listener.listen()
        if kind == "closing":
            listener.shutdown(socket.SHUT_RDWR)
        if kind == "another user's folder":
            path.parent.chmod(0o755)
        try:
            output, report = hook(folder, "user-prompt", prompt="On which port does Redis listen?")
        finally:
            path.parent.chmod(0o700)
    assert "6380" in output
    assert report == ""
    with Memory.open(folder) as memory:
        assert len(memory.turns("claude-code:s")) == 1
        with HookServer(memory, str(folder), settings=None):  # the stale socket is replaced
            wait_for(
                lambda: "6380" in hook(folder, "user-prompt", session_id="t", prompt="Port of Redis?")[0]
            )


def test_a_hook_with_other_settings_does_the_work_itself(folder: Path, path: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("recording = false\n")
    with Memory.open(folder) as memory, HookServer(memory, str(folder), settings=None):
        wait_for(path.exists)
        hook(folder, "user-prompt", "--settings", str(settings), prompt="Hello there")
        assert memory.turns("claude-code:s") == []
        hook(folder, "user-prompt", prompt="Hello there")
        assert len(memory.turns("claude-code:s")) == 1


@pytest.mark.slow
def test_the_next_server_takes_over_and_what_a_killed_one_kept_is_stored(folder: Path, path: Path) -> None:
    with Wire(folder) as first, Wire(folder) as second:
        for wire in (first, second):
            wire.shake_hands()
            wire.call("list_memory_categories", {}, id=1)
            wire.answer(1)
        wait_for(path.exists)
        locking = sqlite3.connect(folder / "reverie.db", isolation_level=None)
        locking.execute("BEGIN EXCLUSIVE")
        told = json.dumps({"session_id": "s", "prompt": "The port is 5433"}).encode()
        command = [*ENTRY, "hook", "user-prompt", "--store", str(folder), "--timeout", "3"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as waiting:
            assert waiting.stdin is not None
            waiting.stdin.write(told)
            waiting.stdin.close()
            wait_for(lambda: bool(list((folder / "hooks").glob("[0-9]*.json"))))
            for wire in (first, second):
                wire.process.send_signal(signal.SIGKILL)
            assert waiting.wait(30) == 0
        locking.close()
    with Wire(folder) as third:
        third.shake_hands()
        third.call("list_memory_categories", {}, id=1)
        third.answer(1)
        hook(folder, "stop", last_assistant_message="Noted.")
        assert third.end()[0] == 0
    with Memory.open(folder) as memory:
        assert [turn.content for turn in memory.turns("claude-code:s")] == ["The port is 5433", "Noted."]
        assert list((folder / "hooks").iterdir()) == []


def test_of_two_servers_the_second_answers_when_the_first_has_ended(folder: Path, path: Path) -> None:
    with Memory.open(folder) as one, Memory.open(folder) as two:
        with HookServer(two, str(folder), settings=None):
            wait_for(path.exists)
            with HookServer(one, str(folder), settings=None):
                hook(folder, "user-prompt", prompt="Hello there")
                assert path.exists()
        assert not path.exists()
        with HookServer(one, str(folder), settings=None):
            wait_for(path.exists)
            hook(folder, "stop", last_assistant_message="Hello.")
        assert [turn.content for turn in one.turns("claude-code:s")] == ["Hello there", "Hello."]
