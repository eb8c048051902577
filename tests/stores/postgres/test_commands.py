"""Commands on a memory in PostgreSQL."""

from __future__ import annotations

import json
import os
import time
import uuid
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from reverie import Memory, Settings, StoreUnavailable
from reverie.interfaces.cli.main import cli
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.work import WorkQueue
from tests.stores.postgres.server import OWNER, PostgresServer


@pytest.fixture
def url(postgres: PostgresServer, empty_database: str) -> str:
    """The address of a memory in an empty database."""
    return postgres.url("acme", database=empty_database)


def run(tmp_path: Path, *args: str, input: str | None = None) -> Result:
    return CliRunner().invoke(
        cli,
        list(args),
        prog_name="reverie",
        input=input,
        env={
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "c"),
            "REVERIE_INDEX_CACHE": str(tmp_path / "c"),
        },
    )


def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    name = f"ascii_{uuid.uuid4().hex[:8]}"
    postgres.execute(
        "postgres", f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 OWNER {OWNER}"
    )
    refused = run(tmp_path, "store", "create", postgres.url("acme", database=name))
    assert refused.exit_code == 5
    assert "encoding SQL_ASCII, and Reverie needs UTF8: create another with `createdb" in refused.output


def test_tables_are_created_upgraded_and_checked(url: str, tmp_path: Path) -> None:
    missing = run(tmp_path, "store", "upgrade", url)
    assert missing.exit_code == 3
    assert "reverie store create" in missing.output
    empty = run(tmp_path, "check", "--store", url)
    assert empty.exit_code == 3
    assert "there are no tables" in empty.output
    made = json.loads(run(tmp_path, "store", "create", url, "--json").output)
    assert made["made"]
    assert run(tmp_path, "store", "upgrade", url, "-q").output == ""
    assert json.loads(run(tmp_path, "store", "create", url, "--json").output)["made"] is False
    assert run(tmp_path, "check", "--store", url).output.startswith("Sound: memory 'acme' in postgresql://")
    unknown = run(tmp_path, "check", "--store", url.replace("acme", "other"))
    assert unknown.exit_code == 3
    assert "`reverie store create`" in unknown.output
    assert "acme" not in run(tmp_path, "store", "upgrade", url).output, "it upgrades all memories"
    powerful = run(tmp_path, "check", "--store", url.replace(OWNER, "postgres"))
    assert powerful.exit_code == 1
    assert "superuser" in powerful.output


@pytest.mark.parametrize(
    ("part", "other", "said"),
    [
        ("acme", "acme&nonsense=1", "only parameters that it knows"),
        (OWNER, "nobody_here", 'role "nobody_here" does not exist'),
        ("/d", "/missing", 'database "missing'),
        ("port=5432", "port=5999", "5999"),
        ("/dev/shm/", "/dev/shm/missing", "No such file or directory"),
        ("postgresql:", "mysql:", "postgresql://"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(
    url: str, tmp_path: Path, part: str, other: str, said: str
) -> None:
    assert run(tmp_path, "store", "create", url).exit_code == 0
    wrong = url.replace(part, other, 1).replace("@", ":hunter2pass@")
    place = tmp_path / "here"
    run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", str(place))
    for command in (
        ["store", "create", wrong],
        ["check", "--store", wrong],
        ["store", "upgrade", wrong],
        ["copy", str(place), wrong],
        ["copy", wrong, str(tmp_path / "copy")],
        ["files", "pull", str(tmp_path / "files"), "--store", wrong],
        ["recall", "deploys", "--store", wrong],
        ["worker", "--once", "--store", wrong.replace("&memory=acme", "")],
    ):
        done = run(tmp_path, *command)
        assert done.exit_code in (2, 4), (command, done.output)
        assert said in done.output, (command, done.output)
        assert "hunter2pass" not in done.output
        assert "Traceback" not in done.output
        assert [each.name for each in tmp_path.iterdir() if each.name != "c"] == ["here"]


def test_a_worker_ends_before_tables_of_another_version(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    every = url.replace("&memory=acme", "")
    assert run(tmp_path, "worker", "--once", "--store", every).exit_code == 3, "no tables"
    assert run(tmp_path, "init", "--store", url).exit_code == 0
    database = parse_postgres_url(url).database.rpartition("/")[2]
    postgres.execute(database, "INSERT INTO reverie.migration VALUES (99, 'more')")
    refused = run(tmp_path, "worker", "--once", "--store", every)
    assert refused.exit_code == 5
    assert refused.output.count("\n") == 1
    assert "newer Reverie" in refused.output


def test_stats_tell_the_health_of_the_server(url: str, tmp_path: Path) -> None:
    assert run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", url).exit_code == 0
    server = json.loads(run(tmp_path, "stats", "--json", "--store", url).output)["server"]
    assert server["round_trip_ms"] > 0
    assert 1 <= server["connections"] <= server["most_connections"]
    assert server["idle_connections"] <= server["connections"]
    assert (server["waiting_calls"], server["lost_connections"]) == (0, 0)
    assert (server["memories"], server["due"], server["failing"]) == (1, 1, 0)
    assert server["due_for_s"] >= 0
    assert (server["workers"], server["standbys"], server["standby_lag_s"]) == (0, 0, None)
    with closing(WorkQueue(parse_postgres_url(url))) as queue:
        queue.beat()
        claim = queue.claim()
        assert claim is not None
        queue.finish(claim, None, has_failed=True)
        shown = run(tmp_path, "stats", "--store", url).output
        assert all(figure in shown for figure in (" due: 0,", " workers: 1,", " failing: 1,"))


def test_commands_take_a_url(url: str, tmp_path: Path) -> None:
    assert run(tmp_path, "init", "--store", url).output.startswith("Ready: memory 'acme'")
    assert run(tmp_path, "remember", "Deploys happen on Tuesdays", "--store", url).exit_code == 0
    assert "Tuesdays" in run(tmp_path, "recall", "deploys", "--store", url).output
    assert json.loads(run(tmp_path, "stats", "--json", "--store", url).output)["records"] == 1
    assert run(tmp_path, "check", "--store", url).output.startswith("Sound: memory 'acme'")
    assert run(tmp_path, "doctor", "--store", url).exit_code == 0
    assert url in run(tmp_path, "connect", "cursor", "--print", "--store", url).output
    asked = json.dumps({"session_id": "a", "prompt": "When do deploys happen?"})
    assert "on Tuesdays" in run(tmp_path, "hook", "user-prompt", "--store", url, input=asked).output
    listed = json.loads(run(tmp_path, "sessions", "--json", "--store", url).output)["sessions"]
    assert [session["turns"] for session in listed] == [1]
    assert run(tmp_path, "demo", "--store", url).exit_code == 2
    for command in ("rebuild", "watch", "backup"):
        args = [str(tmp_path / "backup.zip")] if command == "backup" else []
        refused = run(tmp_path, command, *args, "--store", url)
        assert refused.exit_code == 2, (command, refused.output)


def test_an_erasure_is_done_when_the_command_says_so(url: str, tmp_path: Path) -> None:
    run(tmp_path, "remember", "Bo Lindqvist lives in Malmo", "--store", url)
    run(tmp_path, "remember", "Ana lives in Porto", "--store", url)
    done = run(tmp_path, "forget", "--match", "Lindqvist", "--yes", "--store", url)
    assert done.exit_code == 0, done.output
    assert "Note: for a while it is also in the write-ahead log of the server" in done.output
    assert "doctor" not in done.output
    watched = run(tmp_path, "watch", "--once", "--store", url)
    assert watched.exit_code == 2


def test_files_are_pulled_edited_and_pushed(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    saved = run(tmp_path, "remember", "Deploys happen on Tuesdays", "--tag", "ops", "--json", "--store", url)
    record = json.loads(saved.output)["record"]["id"]
    run(tmp_path, "remember", "Ines likes tea", "--category", "food", "--store", url)
    assert run(tmp_path, "files", "push", str(folder), "--store", url).exit_code == 3
    assert run(tmp_path, "files", "pull", str(folder), "--store", url).exit_code == 0
    (tea,) = (path for path in folder.rglob("*.md") if "Ines likes tea" in path.read_text())
    (deploys,) = (path for path in folder.rglob("*.md") if record in path.read_text())
    assert tea != deploys
    assert run(tmp_path, "files", "push", str(folder), "--store", url).stdout == ""
    # an edit of a file, and one of the same record in the memory, are merged
    deploys.write_text(deploys.read_text().replace("Tuesdays", "Thursdays"))
    os.utime(deploys, (time.time() - 5,) * 2)
    with Memory.open(url, settings=Settings(index_cache=str(tmp_path / "c"))) as memory:
        memory.update(record, tags=["ops", "release"])
    left = run(tmp_path, "files", "pull", str(folder), "--store", url)
    assert "edited, left as it is" in left.output
    assert "Thursdays" in deploys.read_text()
    tea.unlink()
    pushed = run(tmp_path, "files", "push", str(folder), "--store", url)
    assert pushed.exit_code == 0, pushed.output
    assert record in pushed.stdout
    with Memory.open(url, settings=Settings(index_cache=str(tmp_path / "c"))) as memory:
        merged = memory.get(record)
        assert (merged.content, merged.tags) == ("Deploys happen on Thursdays", ("ops", "release"))
        assert [each.content for each in memory.list()] == ["Deploys happen on Thursdays"]
        assert memory.admin.check() == []
    assert "release" in deploys.read_text()
    other = run(tmp_path, "init", "--store", url.replace("acme", "other"))
    assert other.exit_code == 0
    for action in ("pull", "push"):
        refused = run(tmp_path, "files", action, str(folder), "--store", url.replace("acme", "other"))
        assert refused.exit_code == 2
        assert "another memory" in refused.output
    assert "is not empty" in run(tmp_path, "files", "pull", str(tmp_path), "--store", url).output
    assert run(tmp_path, "files", "pull", str(folder), "--store", str(tmp_path / "here")).exit_code in (2, 3)


def test_a_memory_is_removed_with_everything_in_it(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    word = uuid.uuid4().hex
    other = url.replace("acme", "other")
    for place in (url, other):
        run(tmp_path, "remember", f"Deploys happen on {word}", "--store", place)
        run(tmp_path, "say", f"Of {word}", "--store", place)
    assert run(tmp_path, "store", "remove", url.replace("&memory=acme", ""), "--yes").exit_code == 2
    assert run(tmp_path, "store", "remove", url.replace("acme", "nobody"), "--yes").exit_code == 3
    refused = run(tmp_path, "store", "remove", url)
    assert (refused.exit_code, "Add --yes" in refused.output) == (2, True), refused.output
    with Memory.open(url, settings=Settings(embedder=None, index_cache=str(tmp_path / "c"))) as memory:
        removed = run(tmp_path, "store", "remove", url, "--yes", "--json")
        assert removed.exit_code == 0, removed.output
        assert any("write-ahead log" in place for place in json.loads(removed.output)["pending"])
        with pytest.raises(StoreUnavailable, match="has been removed"):
            memory.save("Too late")
        with pytest.raises(StoreUnavailable, match="has been removed"):
            memory.search("deploys")
    database = parse_postgres_url(url).database.rpartition("/")[2]
    with psycopg.connect(parse_postgres_url(url.replace(OWNER, "postgres")).connection) as connection:
        tables = connection.execute(
            "SELECT attrelid::regclass FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
            "WHERE attname = 'space' AND relkind = 'r' AND relnamespace = 'reverie'::regnamespace"
        ).fetchall()
        left = {space for (table,) in tables for (space,) in connection.execute(f"SELECT space FROM {table}")}
        assert left == {space for (space,) in connection.execute("SELECT id FROM reverie.space")}
        assert len(left) == 1
    assert word in run(tmp_path, "recall", "deploys", "--store", other).output
    assert run(tmp_path, "check", "--store", other).exit_code == 0
    assert run(tmp_path, "store", "remove", other, "--yes").exit_code == 0
    postgres.execute(database, "CHECKPOINT")
    files = (path for path in (postgres.data / "base").rglob("*") if path.is_file())
    assert [path for path in files if word.encode() in path.read_bytes()] == []
