"""Helpers that run the command line: in this process, on a pseudo-terminal, or as a real process."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from reverie.interfaces.cli.entry import main
from reverie.interfaces.cli.main import cli

PROGRAM = [sys.executable, "-W", "error", "-c", "from reverie.interfaces.cli.main import main; main()"]
"""The command line as a process of its own, for signals, pipes and concurrent writers."""

Finished = subprocess.CompletedProcess[bytes]


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment without the variables that change an answer."""
    unrelated = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("REVERIE_", "COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_", "PYTHONUNBUFFERED")
        )
    }
    return {**unrelated, "TERM": "xterm-256color", "PYTHONUTF8": "1", **extra}


def run_cli(*args: str | bytes | Path, env: Mapping[str, str] | None = None, input: bytes = b"") -> Finished:
    """Run `reverie` in this process, with its own streams and environment.

    A traceback or a warning on standard error fails the test.
    """
    env = environment() if env is None else env
    out, err = io.BytesIO(), io.BytesIO()
    encoding = env.get("PYTHONIOENCODING", "utf-8")
    streams = (io.BytesIO(input), out, err)
    wrapped = [io.TextIOWrapper(each, encoding, write_through=True) for each in streams]
    code = _call_main(args, env, *wrapped)
    done = Finished([os.fsdecode(arg) for arg in args], code, out.getvalue(), err.getvalue())
    _check_stderr(done)
    return done


def run_process(*args: str | bytes | Path, **options: Any) -> Finished:
    """Run `reverie` as a process; a traceback or a warning on standard error fails the test."""
    options.setdefault("env", environment())
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run([*PROGRAM, *args], capture_output=True, timeout=60, **options)
    _check_stderr(done)
    return done


def run_on_terminal(
    *args: str | Path, columns: int = 80, reply: str | None = None, **extra: str
) -> tuple[int, str]:
    """Run `reverie` in this process on a pseudo-terminal; return its exit code and all its output.

    Args:
        args: The command and its arguments.
        columns: The width of the terminal.
        reply: A line that the person types.
        extra: Further environment variables; `NO_COLOR=""` for colours.
    """
    leader, follower = pty.openpty()
    if reply is not None:
        os.write(leader, f"{reply}\n".encode())
    pieces: list[bytes] = []

    def read() -> None:
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # Linux reports EIO when the other end is closed
                return
            if not piece:
                return
            pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    env = environment(COLUMNS=str(columns), LINES="40", **{"NO_COLOR": "1", **extra})
    try:
        with (
            open(os.dup(follower), encoding="utf-8") as stdin,
            open(os.dup(follower), "w", encoding="utf-8") as stdout,
            open(follower, "w", encoding="utf-8") as stderr,
        ):
            code = _call_main(args, env, stdin, stdout, stderr)
    finally:
        reader.join()
        os.close(leader)
    return code, b"".join(pieces).decode().replace("\r\n", "\n")


def _call_main(
    args: tuple[str | bytes | Path, ...],
    env: Mapping[str, str],
    stdin: TextIO,
    stdout: TextIO,
    stderr: TextIO,
) -> int:
    with (
        patch.dict(os.environ, env, clear=True),
        patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
        patch.object(sys, "argv", ["reverie", *map(os.fsdecode, args)]),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
    assert isinstance(code, int)
    return code


def _check_stderr(done: Finished) -> None:
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert b"Warning" not in done.stderr, done.stderr.decode()


def measure_width(output: str) -> int:
    """Return the columns of the longest line, without its escape sequences."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).splitlines()
    return max(sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line) for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The path of a memory that does not exist yet."""
    return tmp_path / "memory"


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call a command on the memory in `folder`, without a terminal."""
    for name in list(os.environ):
        if name.startswith("REVERIE_"):
            monkeypatch.delenv(name)

    def invoke(*args: str | Path, **options: Any) -> Result:
        result = CliRunner().invoke(cli, [str(arg) for arg in args] + ["--store", str(folder)], **options)
        assert "Traceback" not in result.stderr
        assert "\x1b" not in result.output, "escape codes in a pipe"
        return result

    return invoke


@pytest.fixture
def answer(call: Callable[..., Result], folder: Path) -> Callable[..., Any]:
    """Call a command with `--json` and parse its one document."""

    def invoke(*args: str | Path, **options: Any) -> Any:
        result = call(*args, "--json", **options)
        assert result.stderr in ("", f"New memory in {folder}\n")
        assert result.exit_code == 0, result.stdout
        return json.loads(result.stdout)

    return invoke
