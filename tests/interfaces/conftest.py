"""How the command line is called in these tests: in this process for its answers, or as one of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from reverie.interfaces.cli.main import cli

PROGRAM = [sys.executable, "-W", "error", "-c", "from reverie.interfaces.cli.main import main; main()"]


def environment(**extra: str) -> dict[str, str]:
    """This process's environment without what would change an answer."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("REVERIE_", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_"))
    }
    return {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **extra}


def process(*args: str | bytes | Path, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `reverie` as a process; a traceback or a warning on standard error fails the test."""
    how.setdefault("env", environment())
    how.setdefault("stdin", subprocess.DEVNULL) if "input" not in how else None
    done = subprocess.run([*PROGRAM, *args], capture_output=True, timeout=60, **how)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert b"Warning" not in done.stderr, done.stderr.decode()
    return done


def on_terminal(*args: str | Path, columns: int = 80, **extra: str) -> tuple[int, str]:
    """Run `reverie` with a terminal of so many columns before it; its exit code and everything it wrote."""
    leader, follower = pty.openpty()
    env = environment(COLUMNS=str(columns), LINES="40", **extra)
    running = subprocess.Popen([*PROGRAM, *args], stdin=follower, stdout=follower, stderr=follower, env=env)
    os.close(follower)
    written = b""
    while True:
        try:
            some = os.read(leader, 65536)
        except OSError:  # Linux says EIO when the other end is closed
            break
        if not some:
            break
        written += some
    os.close(leader)
    return running.wait(timeout=60), written.decode().replace("\r\n", "\n")


def widest(drawn: str) -> int:
    """Columns of the longest line of a drawing, without its escape sequences."""
    return max(cell_len(line) for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).splitlines())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place for a memory; nothing is there yet."""
    return tmp_path / "memory"


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call a command on the memory in `folder`, without a terminal."""
    for name in list(os.environ):
        if name.startswith("REVERIE_"):
            monkeypatch.delenv(name)

    def called(*args: str | Path, **how: Any) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args] + ["--folder", str(folder)], **how)
        assert "Traceback" not in result.stderr
        assert "\x1b" not in result.output, "escape codes in a pipe"
        return result

    return called


@pytest.fixture
def answer(call: Callable[..., Result]) -> Callable[..., Any]:
    """Call a command with `--json` and read its one document."""

    def answered(*args: str | Path, **how: Any) -> Any:
        result = call(*args, "--json", **how)
        assert result.stderr == ""
        assert result.exit_code == 0, result.stdout
        return json.loads(result.stdout)

    return answered
