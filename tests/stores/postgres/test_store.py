"""What the store in PostgreSQL does beyond the contract: rights, versions, lost connections, erasure on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from reverie.domain.errors import InvalidInput, NotFound, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.stores.postgres import PostgresStore, is_postgres_url
from reverie.stores.postgres.connections import parse_postgres_url
from tests.stores.postgres.proxy import CuttingProxy
from tests.stores.postgres.server import OWNER, RUNNER, PostgresServer
from tests.support.contract.factories import NOW, add, analyse, make_additions, make_record


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def database(empty_database: str) -> str:
    return empty_database


def open_store(url: str, **options: object) -> PostgresStore:
    return PostgresStore(url, analyse=analyse, **options)


def connect(server: PostgresServer, database: str = "agents", role: str = OWNER):
    import psycopg

    url = parse_postgres_url(server.url("any", role=role, database=database)).connection
    return psycopg.connect(url, autocommit=True)


# -- addresses -----------------------------------------------------------------------------------------


def test_an_address_names_a_database_and_a_memory() -> None:
    address = parse_postgres_url(
        "postgresql://bo:s%40fe@db.example:6432/agents?memory=acme%2F1&sslmode=require"
    )
    assert address.memory == "acme/1"
    assert address.connection == "postgresql://bo:s%40fe@db.example:6432/agents?sslmode=require"
    assert "s%40fe" not in address.shown
    assert "db.example:6432/agents" in address.shown
    assert parse_postgres_url("postgres:///agents?host=/run/pg").memory == "default"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/db",
        "postgresql://host:port/db",
        "postgresql://h/d?memory=a&memory=b",
        "postgresql://h/d?x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        parse_postgres_url(url)


def test_only_urls_of_postgres_are_taken_for_one() -> None:
    assert is_postgres_url("postgres://h/d")
    assert not is_postgres_url("/tmp/postgresql://")
    assert not is_postgres_url(None)


def test_psycopg_is_imported_only_for_a_memory_in_postgres() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "import reverie; reverie.Memory.open(':memory:').close()\n"
        "assert not [name for name in sys.modules if name.startswith('reverie.stores.postgres')]\n"
        "from reverie.stores.postgres import PostgresStore\n"
        "try:\n    PostgresStore('postgresql:///d', analyse=None)\n"
        "except reverie.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "'reverie[postgres]" in done.stdout


# -- opening -------------------------------------------------------------------------------------------


def test_a_memory_is_made_only_when_asked_for(postgres: PostgresServer, database: str) -> None:
    for _ in range(2):
        with pytest.raises(NotFound, match="create=True"):
            open_store(postgres.url("acme", database=database), create=False)
        open_store(postgres.url("other", database=database)).close()
    with connect(postgres, database) as connection:
        assert connection.execute("SELECT name FROM reverie.space").fetchall() == [("other",)]


def test_many_that_open_an_empty_database_make_its_tables_once(
    postgres: PostgresServer, database: str
) -> None:
    def open_one(number: int) -> None:
        with closing(open_store(postgres.url("acme", database=database))) as store:
            add(store, make_record(number))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(open_one, range(4)))
    with closing(open_store(postgres.url("acme", database=database))) as store:
        assert store.sequence() == 4
        assert store.check() == []


# -- rights --------------------------------------------------------------------------------------------


def test_a_role_without_rights_is_told_so_and_one_with_rights_works(
    postgres: PostgresServer, database: str
) -> None:
    with pytest.raises(StoreUnavailable, match="lacks a right"):
        open_store(postgres.url("acme", database=database, role=RUNNER))
    open_store(postgres.url("acme", database=database)).close()
    with pytest.raises(StoreUnavailable, match="lacks a right"):
        open_store(postgres.url("acme", database=database, role=RUNNER))
    with connect(postgres, database) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA reverie TO {RUNNER}")
        connection.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reverie TO {RUNNER}"
        )
    with closing(open_store(postgres.url("acme", database=database, role=RUNNER))) as store:
        add(store, make_record(1))
        assert store.check() == []
        assert not store.scrub(), "only the owner may rewrite the tables"


def test_no_query_reaches_another_memory(postgres: PostgresServer, database: str) -> None:
    import psycopg

    for memory, number in (("one", 1), ("two", 2)):
        with closing(open_store(postgres.url(memory, database=database))) as store:
            add(store, make_record(number))
            assert [record.id for record in store.find(Filter())] == [make_record(number).id]
            assert store.sequence() == 1
    with connect(postgres, database) as connection:
        tables = [
            row[0]
            for row in connection.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'reverie'::regnamespace "
                "AND relkind IN ('r', 'p') AND relname NOT IN ('space', 'migration', 'work', 'worker')"
            )
        ]
        assert {"reverie.thing_3", "reverie.journal_3", "reverie.vector_3"} <= set(tables)
        for table in tables:
            with pytest.raises(psycopg.Error):
                connection.execute(f"SELECT * FROM {table}")
        (one, two) = (row[0] for row in connection.execute("SELECT id FROM reverie.space ORDER BY name"))
        for table in tables:
            with connection.transaction():
                connection.execute("SELECT set_config('reverie.space', %s, true)", [str(one)])
                spaces = connection.execute(f"SELECT DISTINCT space FROM {table}").fetchall()
                assert spaces in ([], [(one,)]), table
                assert connection.execute(f"DELETE FROM {table} WHERE space = {two}").rowcount == 0
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT set_config('reverie.space', %s, true)", [str(one)])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO reverie.cursor VALUES (%s, 'a', 'b')", [two])


def test_check_reports_policies_that_let_others_through(postgres: PostgresServer, database: str) -> None:
    url = postgres.url("acme", database=database)
    open_store(url).close()
    with connect(postgres, database) as connection:
        connection.execute("CREATE POLICY more ON reverie.entry USING (true)")
        connection.execute("DROP POLICY one_memory ON reverie.journal_3")
    with closing(open_store(url)) as store:
        problems = store.check()
        assert [problem.what.split(":")[0] for problem in problems] == [
            "table reverie.entry",
            "table reverie.journal_3",
        ]
        with connect(postgres, database) as connection:
            connection.execute("DROP POLICY more ON reverie.entry")
            connection.execute(problems[1].fix.partition("run ")[2].rpartition("; and drop")[0])
        assert store.check() == []


def test_check_names_the_rights_that_a_role_lacks(postgres: PostgresServer, database: str) -> None:
    open_store(postgres.url("acme", database=database)).close()
    url = postgres.url("acme", database=database, role=RUNNER)
    with connect(postgres, database) as connection:
        connection.execute(
            f"GRANT USAGE ON SCHEMA reverie TO {RUNNER}; "
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reverie TO {RUNNER}; "
            f"REVOKE SELECT, DELETE ON reverie.cursor FROM {RUNNER}; REVOKE INSERT ON reverie.work FROM {RUNNER}"
        )
        with closing(open_store(url)) as store:
            with pytest.raises(StoreUnavailable, match="permission denied for table cursor"):
                store.cursor("a")
            problems = store.check()
            assert [problem.what for problem in problems] == [
                f"table reverie.cursor: the role {RUNNER!r} lacks DELETE, SELECT",
                f"table reverie.work: the role {RUNNER!r} lacks INSERT",
            ]
            for problem in problems:
                connection.execute(problem.fix.removeprefix("run ").partition(" as the owner")[0])
            assert store.check() == []
            assert store.cursor("a") is None


def test_check_reports_what_does_not_fit_the_journal(postgres: PostgresServer, name: str) -> None:
    with closing(open_store(postgres.url(name))) as store:
        add(store, make_record(1), make_record(2))
        with connect(postgres) as connection, connection.transaction():
            (space,) = connection.execute("SELECT id FROM reverie.space WHERE name = %s", [name]).fetchone()
            connection.execute("SELECT set_config('reverie.space', %s, true)", [str(space)])
            connection.execute("UPDATE reverie.thing SET body = '{}' WHERE key = 1")
            connection.execute("DELETE FROM reverie.journal WHERE sequence = 2")
        assert sorted({problem.what.split(":")[0] for problem in store.check()}) == [
            "journal",
            "record 1",
            "record 2",
        ]


# -- changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["request", "reply"])
def test_a_connection_lost_in_the_middle_of_a_commit_neither_loses_nor_repeats_it(
    postgres: PostgresServer, name: str, cut: str
) -> None:
    proxy = CuttingProxy(postgres.folder)
    url = postgres.url(name).replace(str(postgres.folder), str(proxy.folder))
    with closing(open_store(url)) as store, closing(proxy):
        store.commit(make_additions(make_record(1)), actor="test", at=NOW, counts={"made": 1})
        proxy.cuts += [cut, cut]
        rows = store.commit(
            make_additions(make_record(2), make_record(3)), actor="test", at=NOW, counts={"made": 1}
        )
        assert proxy.has_cut == [cut, cut]
        assert [(row.sequence, row.batch, row.key) for row in rows] == [(2, 2, 2), (3, 2, 3)]
        assert store.journal(after=1) == rows
        proxy.cuts.append(cut)
        assert store.commit([], actor="test", at=NOW, counts={"made": 1}) == []
        assert store.count("made") == 3
        assert store.check() == []


def test_one_that_holds_the_memory_too_long_is_reported(postgres: PostgresServer, name: str) -> None:
    with closing(open_store(postgres.url(name), busy_timeout=timedelta(seconds=0.2))) as store:
        with connect(postgres) as connection, connection.transaction():
            connection.execute("SELECT FROM reverie.space WHERE name = %s FOR UPDATE", [name])
            with pytest.raises(StoreUnavailable, match="locked for too long"):
                add(store, make_record(1))
            assert store.sequence() == 0
        add(store, make_record(1))


def test_a_commit_waits_for_the_disk_whatever_the_database_is_set_to(
    postgres: PostgresServer, database: str
) -> None:
    url = postgres.url("acme", database=database)
    open_store(url).close()
    with connect(postgres, database) as connection:
        connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
        connection.execute(
            "CREATE FUNCTION reverie.note() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.value := current_setting('synchronous_commit'); RETURN NEW; END $$; "
            "CREATE TRIGGER note BEFORE INSERT ON reverie.cursor FOR EACH ROW EXECUTE FUNCTION reverie.note()"
        )
    with closing(open_store(url)) as store:
        store.commit([], actor="test", at=NOW, cursors={"seen": "?"})
        assert store.cursor("seen") == "on"


def test_a_text_that_cannot_be_stored_is_refused(postgres: PostgresServer, name: str) -> None:
    with closing(open_store(postgres.url(name))) as store:
        for text in ("nul \x00", "lone \ud800"):
            with pytest.raises(InvalidInput, match="NUL"):
                store.cursor(text)
            with pytest.raises(InvalidInput, match="NUL"):
                store.tombstones([text])
        assert store.sequence() == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_store_goes_on_in_a_forked_child(postgres: PostgresServer, name: str) -> None:
    with closing(open_store(postgres.url(name))) as store:
        add(store, make_record(1))
        child = os.fork()
        if child == 0:
            try:
                store.commit(make_additions(make_record(2)), actor="child", at=NOW)
                os._exit(0 if store.sequence() == 2 else 1)
            except BaseException:  # noqa: BLE001 - the child must end here
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        add(store, make_record(3))
        assert [row.actor for row in store.journal()] == ["test", "child", "test"]


# -- erasure -------------------------------------------------------------------------------------------
