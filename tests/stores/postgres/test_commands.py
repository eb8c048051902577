"""Commands on a memory in PostgreSQL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reverie.interfaces.cli.main import cli
from tests.stores.postgres.server import OWNER, PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """The address of a memory in an empty database."""
    name = f"d{uuid.uuid4().hex}"
    postgres.execute("postgres", f"CREATE DATABASE {name} OWNER {OWNER}")
    yield postgres.url("acme", database=name)
    postgres.execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")


def run(tmp_path: Path, *args: str, input: str | None = None) -> Result:
    return CliRunner().invoke(
        cli,
        list(args),
        prog_name="reverie",
        input=input,
        env={"HOME": str(tmp_path), "REVERIE_INDEX_CACHE": str(tmp_path / "c")},
    )


def test_tables_are_created_upgraded_and_checked(url: str, tmp_path: Path) -> None:
    missing = run(tmp_path, "store", "upgrade", url)
    assert missing.exit_code == 3
    assert "reverie store create" in missing.output
    assert run(tmp_path, "store", "check", url).exit_code == 3
    made = json.loads(run(tmp_path, "store", "create", url, "--json").output)
    assert made["steps"] == ["tables", "work"]
    assert run(tmp_path, "store", "upgrade", url, "-q").output == ""
    assert json.loads(run(tmp_path, "store", "create", url, "--json").output)["steps"] == []
    assert run(tmp_path, "store", "check", url).output.startswith("Sound: memory 'acme' in postgresql://")
    powerful = run(tmp_path, "store", "check", url.replace(OWNER, "postgres"))
    assert powerful.exit_code == 1
    assert "superuser" in powerful.output


def test_commands_take_a_url(url: str, tmp_path: Path) -> None:
    assert run(tmp_path, "init", "--store", url).output.startswith("Ready: memory 'acme'")
    assert run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", url).exit_code == 0
    assert "Tuesdays" in run(tmp_path, "recall", "deploys", "--store", url).output
    assert json.loads(run(tmp_path, "stats", "--json", "--store", url).output)["records"] == 1
    assert run(tmp_path, "check", "--store", url).output.startswith("Sound: memory 'acme'")
    assert run(tmp_path, "doctor", "--store", url).exit_code == 0
    assert url in run(tmp_path, "mcp", "config", "--client", "cursor", "--store", url).output
    assert run(tmp_path, "demo", "--store", url).exit_code == 2
    for command in ("rebuild", "watch", "backup"):
        args = [str(tmp_path / "backup.zip")] if command == "backup" else []
        refused = run(tmp_path, command, *args, "--store", url)
        assert refused.exit_code == 2, (command, refused.output)


def test_hooks_store_and_recall_in_a_database(url: str, tmp_path: Path) -> None:
    assert run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", url).exit_code == 0
    events = {
        "user-prompt": {"session_id": "a", "prompt": "When do deploys happen?"},
        "stop": {"session_id": "a", "last_assistant_message": "On Tuesdays."},
    }
    said = {
        name: run(tmp_path, "hook", name, "--store", url, input=json.dumps(event))
        for name, event in events.items()
    }
    assert all(done.exit_code == 0 and "no memory" not in done.output for done in said.values()), said
    assert "Deploys happen on Tuesdays" in said["user-prompt"].output
    listed = json.loads(run(tmp_path, "sessions", "--json", "--store", url).output)["sessions"]
    assert [session["turns"] for session in listed] == [2]


def test_a_memory_is_copied_into_a_database(url: str, tmp_path: Path) -> None:
    assert (
        run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", str(tmp_path / "here")).exit_code
        == 0
    )
    copied = run(tmp_path, "copy", str(tmp_path / "here"), url)
    assert "Copied and compared: 1 record, 0 sessions" in copied.output
    assert "Tuesdays" in run(tmp_path, "recall", "deploys", "--store", url).output
    assert run(tmp_path, "copy", str(tmp_path / "here"), url).exit_code == 2
