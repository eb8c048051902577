"""What goes wrong, and what is said of it: one line, the right exit code, no traceback, nothing changed."""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from reverie.interfaces.cli import main
from reverie.interfaces.cli.commands.mcp import log_to_stderr
from reverie.interfaces.cli.main import cli
from reverie.memory import Memory
from reverie.stores.sqlite.store import SQLiteStore
from tests.interfaces.conftest import PROGRAM, environment, run_cli, run_process
from tests.profiles import sample_cases

Call = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]
SECRET = "hunter2-is-the-password"


@pytest.fixture
def store(folder: Path) -> Path:
    """A memory with a record and a turn in it, closed."""
    with Memory.open(folder) as memory:
        memory.save("The staging port is 5433", category="project-context/db")
        memory.session("chat:1").add("user", "which port?")
    return folder


def prints(folder: Path) -> dict[str, str]:
    """What the store says: every record, turn and change. Not its bytes: opening may move SQLite's log."""
    with Memory.open(folder, create=False) as memory:
        rows = [repr(row) for row in memory.history.log(limit=1000)]
        return {
            "sound": repr(memory.admin.check()),
            "journal": hashlib.sha256("".join(rows).encode()).hexdigest(),
        }


def one_line(result: Result | subprocess.CompletedProcess[bytes]) -> str:
    """The one line on standard error, and no answer."""
    err = result.stderr if isinstance(result.stderr, str) else result.stderr.decode()
    out = result.stdout if isinstance(result.stdout, str) else result.stdout.decode()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("reverie: ")
    assert "Traceback" not in err
    return err


# -- wrong input -----------------------------------------------------------------------------------------

WRONG: dict[str, tuple[list[str], str]] = {
    **json.loads(Path(__file__).with_name("wrong_input.json").read_text(encoding="utf-8")),
    "a very long text": (["remember", "x" * 100_001], "100,001 characters"),
    "a number of thousands of digits": (["history", "--since", "9" * 5_000], "--since is '999"),
}


def test_wrong_input_is_refused_in_one_line_and_changes_nothing(call: Call, store: Path) -> None:
    before = prints(store)
    for wrong, (args, said) in WRONG.items():
        result = call(*args)
        line = one_line(result)
        assert (said in line, result.exit_code, SECRET in line) == (True, 2, False), (wrong, line)
    assert prints(store) == before


def test_a_text_that_begins_with_a_dash_is_named(call: Call, folder: Path) -> None:
    assert "put `--` before" in call("remember", "-5 degrees in Oslo").stderr
    result = CliRunner().invoke(cli, ["remember", "--store", str(folder), "--", "-5 degrees in Oslo"])
    assert result.exit_code == 0, result.stderr
    with Memory.open(folder, create=False) as memory:
        assert [record.content for record in memory.list()] == ["-5 degrees in Oslo"]
    assert "- like this" in call("remember", "- like this", "--json").stdout


def test_what_was_typed_is_not_repeated(call: Call, store: Path) -> None:
    for args in (["show", *SECRET.split("-")], ["archive", "x", SECRET], ["categories", SECRET]):
        line = one_line(call(*args))
        assert SECRET not in line
        assert "password" not in line


def test_standard_input_without_end_is_refused(store: Path) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = run_process("remember", "-", "--store", store, stdin=endless.stdout)
        endless.kill()
    assert "longer than 33,554,432 bytes" in one_line(done)
    assert done.returncode == 2


def test_bytes_that_are_no_utf_8_are_refused(store: Path) -> None:
    before = prints(store)
    for args, said in (
        (["remember", b"caf\xe9"], "surrogate"),
        (["recall", b"caf\xe9"], "surrogate"),
        (["remember", "-"], "not UTF-8 text (byte 3)"),
    ):
        done = run_cli(*args, "--store", store, input=b"caf\xe9")
        assert said in one_line(done)
        assert done.returncode == 2
    assert prints(store) == before


def test_settings_that_are_wrong_are_named(call: Call, store: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"hard_tokenz": 5}', encoding="utf-8")
    result = call("list", "--settings", file)
    assert "hard_tokenz" in one_line(result)
    assert result.exit_code == 2
    missing = call("list", "--settings", tmp_path / "none.json")
    assert "none.json" in one_line(missing)
    assert missing.exit_code == 3


# -- not there -------------------------------------------------------------------------------------------


def test_an_unknown_id_is_not_found(call: Call, store: Path) -> None:
    before = prints(store)
    for command in ("show", "archive", "restore", "pin", "unpin", "history"):
        for name in ("ffffffffffff", "no-such-id", "", "../../etc/passwd"):
            result = call(command, name)
            assert (repr(name) in one_line(result), result.exit_code) == (True, 3), (command, name)
    assert prints(store) == before


def test_reading_and_editing_make_no_folder(call: Call, folder: Path) -> None:
    for args in (
        ["recall", "port"], ["show", "ffffffffffff"], ["list"], ["categories"], ["tags"], ["sessions"],
        ["history"], ["check"], ["stats"], ["context", "chat:1", "port?"], ["archive", "ffffffffffff"],
        ["purge", "--yes"], ["append", "MEMORY.md", "x"], ["edit", "--from", "-"], ["files", "push"],
    ):  # fmt: skip
        result = call(*args)
        line = one_line(result)
        assert (result.exit_code, "reverie init" in line, str(folder) in line) == (3, True, True), args
        assert not folder.exists()


# -- stores that cannot be used --------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = run_cli("remember", SECRET, "--store", tmp_path / "file" / "memory")
    assert SECRET not in one_line(done)
    assert done.returncode == 4
    assert (tmp_path / "file").read_text(encoding="utf-8") == "in the way"


def test_a_database_that_is_not_ours_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    database = folder / "reverie.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table diary (text)")
        connection.execute("insert into diary values ('dear diary')")
    connection.close()
    for content in (database.read_bytes(), b"Dear diary\n" * 1000):
        database.write_bytes(content)
        for args in (["recall", "diary"], ["remember", SECRET], ["check"], ["say", "chat:1", SECRET]):
            done = run_cli(*args, "--store", folder)
            assert SECRET not in one_line(done)
            assert (done.returncode, database.read_bytes()) == (5, content)


def test_a_locked_store_is_unavailable_and_the_note_can_be_saved_later(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SQLiteStore.__init__.__kwdefaults__, "busy_timeout", timedelta(milliseconds=50))
    connection = sqlite3.connect(store / "reverie.db", isolation_level=None)
    connection.execute("begin immediate")
    done = run_cli("remember", SECRET, "--store", store)
    connection.execute("rollback")
    connection.close()
    assert SECRET not in one_line(done)
    assert done.returncode == 4
    assert run_cli("remember", SECRET, "--store", store).returncode == 0


# -- the program's own ends ------------------------------------------------------------------------------


def test_an_empty_folder_is_not_the_usual_one(tmp_path: Path) -> None:
    env = environment(HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    done = run_cli("remember", SECRET, "--store", "", env=env)
    assert "path is ''" in one_line(done)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_closed_streams_are_no_bug(store: Path) -> None:
    program = shlex.join([*PROGRAM, "recall", "staging port", "--store", str(store)])
    done = subprocess.run(["sh", "-c", f"{program} >&- <&-"], capture_output=True, env=environment())
    assert (done.returncode, done.stderr) == (0, b"")
    program = shlex.join([*PROGRAM, "remember", "-", "--store", str(store)])
    done = subprocess.run(["sh", "-c", f"{program} <&-"], capture_output=True, env=environment())
    assert done.returncode == 2
    assert b"standard input is closed" in done.stderr


def test_a_bug_is_called_one_without_repeating_what_was_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(main.ReverieGroup, "get_command", lambda self, ctx, name: broken)
    result = CliRunner().invoke(cli, ["stats"])
    line = one_line(result)
    assert result.exit_code == 70
    assert "RuntimeError: this is a bug in Reverie" in line
    assert "--debug" in line
    assert SECRET not in line
    debugged = CliRunner().invoke(cli, ["--debug", "stats"])
    assert debugged.exit_code == 70
    assert "Traceback (most recent call last)" in debugged.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(store: Path) -> None:
    with Memory.open(store) as memory:
        memory.save_many({"content": f"note {n} about the causeway " + "tide " * 500} for n in range(200))
    running = subprocess.Popen(
        [*PROGRAM, "list", "--limit", "1000", "--store", str(store)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.read(10)
    running.stdout.close()
    said = running.stderr.read()
    running.stderr.close()
    assert (running.wait(timeout=60), said) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command", sample_cases(["list", "remember Bo", "eval --help", "--version"], every=2)
)
def test_an_answer_that_cannot_be_written_is_an_error(store: Path, command: str) -> None:
    words = [*PROGRAM, *command.split()]
    if not command.startswith(("eval", "--")):
        words += ["--store", str(store)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=environment())
        silent = subprocess.run(words, stdout=full, stderr=full, env=environment())
    assert (done.returncode, silent.returncode) == (4, 4)
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_no_warning_controls_the_terminal(store: Path) -> None:
    (store / "memory" / "notes\x1b[2J.json").write_text("{")
    line = [*PROGRAM, "list", "--store", store]
    done = subprocess.run(line, env=environment(), stdin=subprocess.DEVNULL, capture_output=True)
    assert rb"not taken in: memory/notes\x1b[2J.json" in done.stderr
    assert b"\x1b" not in done.stderr
    with log_to_stderr(debug=False):
        handler = logging.getLogger().handlers[-1]
        record = logging.LogRecord("reverie", logging.WARNING, "", 1, "answered \x1b[31mred", None, None)
        assert handler.format(record).endswith(r"answered \x1b[31mred")
