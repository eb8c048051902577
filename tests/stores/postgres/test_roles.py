"""Roles that `compose.yaml` makes in its database."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie import Memory, Settings, StoreUnavailable
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.copying import prepare_database
from tests.stores.postgres.server import OWNER, PostgresServer

SCRIPT = Path(__file__).parents[3] / "scripts" / "create_roles.sh"


@pytest.fixture
def server(newest_postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of its own after the script, since roles are those of the whole server."""
    server = PostgresServer(newest_postgres.version)
    try:
        server.execute("postgres", "DROP DATABASE agents")
        server.execute("postgres", f"DROP ROLE {OWNER}")
        server.execute("postgres", "CREATE DATABASE agents")
        secret = tmp_path / "secret"
        secret.write_text("it's a 'secret'\n")
        environment = {
            "PATH": f"{server.binaries}:{os.defpath}",
            "PGHOST": str(server.folder),
            "POSTGRES_USER": "postgres",
            "POSTGRES_DB": "agents",
            "POSTGRES_PASSWORD_FILE": str(secret),
        }
        subprocess.run(["sh", SCRIPT], env=environment, check=True)
        yield server
    finally:
        server.remove()


def test_the_user_of_the_composition_can_use_memories_and_nothing_else(server: PostgresServer) -> None:
    import psycopg

    owner, user = (server.url("acme", role=role) for role in ("reverie_owner", "reverie"))
    with pytest.raises(StoreUnavailable):
        PostgresStore(user, analyse=analyze)
    prepare_database(owner, create=True)
    with Memory.open(user, settings=Settings(embedder=None)) as memory:
        memory.save("A bird by the name of Zilpzalp lives here")
        memory.save("Likes tea")
        assert memory.admin.check() == []
        assert memory.history._store.scrub(), "it may rewrite tables, so that nothing erased is left in them"
    with psycopg.connect(parse_postgres_url(user).connection, autocommit=True) as connection:
        for statement in (
            "ALTER TABLE reverie.thing DISABLE ROW LEVEL SECURITY",
            "CREATE TABLE reverie.mine (n integer)",
            "CREATE TABLE public.mine (n integer)",
            "CREATE SCHEMA mine",
            "SET ROLE reverie_owner",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        roles = connection.execute(
            "SELECT rolname, rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication "
            "FROM pg_roles WHERE rolname LIKE 'reverie%' AND rolname <> 'reverie_runner' ORDER BY 1"
        ).fetchall()
        assert roles == [("reverie", False), ("reverie_owner", False)]
    with psycopg.connect(parse_postgres_url(server.url("acme", role="postgres")).connection) as connection:
        with_password = connection.execute(
            "SELECT rolname FROM pg_authid WHERE rolpassword IS NOT NULL"
        ).fetchall()
        assert with_password == [("reverie",)]
