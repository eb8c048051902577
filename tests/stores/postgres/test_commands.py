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


def run(tmp_path: Path, *args: str) -> Result:
    return CliRunner().invoke(
        cli,
        list(args),
        prog_name="reverie",
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


def test_commands_take_the_url_for_a_folder(url: str, tmp_path: Path) -> None:
    assert run(tmp_path, "init", "--folder", url).output.startswith("Ready: memory 'acme'")
    assert run(tmp_path, "remember", "Deploys happen on Tuesdays", "--folder", url).exit_code == 0
    assert "Tuesdays" in run(tmp_path, "recall", "deploys", "--folder", url).output
    assert json.loads(run(tmp_path, "stats", "--json", "--folder", url).output)["records"] == 1
    assert run(tmp_path, "check", "--folder", url).output.startswith("Sound: memory 'acme'")
    assert run(tmp_path, "doctor", "--folder", url).exit_code == 0
    assert url in run(tmp_path, "mcp", "config", "--client", "cursor", "--folder", url).output
    for command in ("rebuild", "watch", "backup"):
        args = [str(tmp_path / "backup.zip")] if command == "backup" else []
        refused = run(tmp_path, command, *args, "--folder", url)
        assert refused.exit_code == 2, (command, refused.output)


def test_a_memory_is_copied_into_a_database(url: str, tmp_path: Path) -> None:
    assert (
        run(tmp_path, "remember", "Deploys happen on Tuesdays", "--folder", str(tmp_path / "here")).exit_code
        == 0
    )
    copied = run(tmp_path, "copy", str(tmp_path / "here"), url)
    assert "Copied and compared: 1 record, 0 sessions" in copied.output
    assert "Tuesdays" in run(tmp_path, "recall", "deploys", "--folder", url).output
    assert run(tmp_path, "copy", str(tmp_path / "here"), url).exit_code == 2
