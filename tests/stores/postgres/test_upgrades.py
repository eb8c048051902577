"""Tables of earlier versions are copied into those of today. `former` has the steps that once made them."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reverie.domain.change import Value
from reverie.domain.errors import StoreIncompatible
from reverie.domain.page import Page
from reverie.search.analyzer import analyze
from reverie.stores.codec import TABLES, TableCodec
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.copying import prepare_database
from reverie.stores.postgres.schema import VERSION
from reverie.stores.postgres.work import WorkQueue
from tests.stores.postgres.server import OWNER, RUNNER, PostgresServer
from tests.support.contract.factories import (
    NOW,
    add,
    make_additions,
    make_paragraph,
    make_record,
    make_session,
    make_turn,
)

STEPS = sorted((Path(__file__).parent / "former").glob("*.sql"))

LINKED = make_record(900, content="Linked")
MOVED = make_record(1, content="One", metadata={"superseded_by": LINKED.id, "own": "x"})
WEB = make_record(2, content="Likes tea.", origin="web", seen_count=3)
COFFEE = make_record(2, content="Likes coffee")
MINE = make_record(3, content="likes tea", moment=NOW + timedelta(days=1))
THINGS = [
    *(LINKED, MOVED, WEB, MINE, make_session(), make_turn(0), make_turn(1), make_paragraph(1)),
    Page(name="notes.md", content="Notes", updated_at=NOW),
]


def make_former(connection: psycopg.Connection, version: int) -> None:
    """Make the tables of a version, with one memory, and a role that may use it."""
    connection.execute("CREATE SCHEMA reverie")
    connection.execute(
        "CREATE TABLE reverie.migration (version integer PRIMARY KEY, name text NOT NULL, "
        "made_at timestamptz NOT NULL DEFAULT now())"
    )
    for step in (each for each in STEPS if int(each.name[:4]) <= version):
        sql = step.read_text().replace("0..31", "0..3").replace("MODULUS 32", "MODULUS 4")
        connection.execute(sql)
        connection.execute("INSERT INTO reverie.migration VALUES (%s, '')", [int(step.name[:4])])
    connection.execute(
        f"GRANT USAGE ON SCHEMA reverie TO {RUNNER}; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reverie TO {RUNNER}"
    )
    connection.execute("INSERT INTO reverie.space (name) VALUES ('empty'), ('acme')")
    connection.execute(
        "SELECT set_config('reverie.space', id::text, false) FROM reverie.space WHERE name = 'acme'"
    )


def insert(connection: psycopg.Connection, table: str, **columns: Any) -> None:
    """Insert a row of the memory."""
    columns = {
        "space": connection.execute("SELECT current_setting('reverie.space')::integer").fetchone()[0]
    } | columns
    connection.execute(
        f"INSERT INTO reverie.{table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})",
        list(columns.values()),
    )


def write_document(table: TableCodec[Any], value: Value | None) -> str:
    """Return a document as earlier versions wrote it, with all that is not NULL."""
    columns = dict(zip(table.names, table.encode(value), strict=True))
    for each in table.columns:
        if each.form.is_json:
            columns[each.name] = json.loads(columns[each.name])
    return json.dumps({name: value for name, value in columns.items() if value is not None})


def fill_former(connection: psycopg.Connection, version: int) -> None:
    """Write a journal as a version had it, and what is not in the journal."""
    for sequence, change in enumerate(make_additions(*THINGS, make_record(4)), 1):
        if version >= 11 and change.after == WEB:  # its text is that of another by today's fingerprints only
            change = make_additions(COFFEE)[0]
        table = TABLES[change.subject]
        document = None if sequence > len(THINGS) else write_document(table, change.after)
        words = {"operation": "save", "note": "", "reference": ""} if version >= 10 else {"reason": "save"}
        insert(
            connection, "journal", sequence=sequence, batch=1, key=sequence, subject=change.subject, id=change.id,
            at=1_700_000_000_000_000, actor="owner", after=document, **words,
        )  # fmt: skip
    insert(
        connection,
        "entry",
        namespace="chat",
        key="draft",
        stored_at=1_700_000_000_000_000,
        tags="[]",
        data="{}",
    )
    insert(connection, "cursor", name="read", value="3")
    insert(connection, "counter", name="asked", value=7)
    insert(connection, "tombstone", mark="aa")
    if version >= 8:
        insert(connection, "vector", digest=1, embedder=2, key=1, scale=0.5, numbers=b"\1\2")


@pytest.mark.parametrize(
    "version", [1, *(pytest.param(int(step.name[:4]), marks=pytest.mark.slow) for step in STEPS[1:-1]), 12]
)
def test_tables_of_every_earlier_version_are_upgraded_with_their_rights(
    postgres: PostgresServer, empty_database: str, version: int
) -> None:
    url = postgres.url("acme", database=empty_database)
    with psycopg.connect(parse_postgres_url(url).connection, autocommit=True) as connection:
        make_former(connection, version)
        fill_former(connection, version)
    with pytest.raises(StoreIncompatible, match="reverie store upgrade"):
        PostgresStore(url, analyse=analyze)
    assert prepare_database(url, create=False)
    assert not prepare_database(url, create=False), "it is done once"

    as_runner = url.replace(OWNER, RUNNER)
    with closing(PostgresStore(as_runner, analyse=analyze)) as store:
        assert store.check() == []
        rows = store.journal()
        assert [row.operation for row in rows[: len(THINGS)]] == ["save"] * len(THINGS)
        assert rows[len(THINGS)].edit is None, "it was erased before"
        kept, merged = (store.records([each.id])[0] for each in (MINE, WEB))
        if version < 11:
            (moved,) = store.records([MOVED.id])
            assert (moved.replaced_by, moved.metadata) == (LINKED.id, {"own": "x"})
            assert (kept.seen_count, merged.archived) == (4, True)
        else:
            assert (kept, merged) == (MINE, COFFEE)
        assert store.turns(session="chat:1") == THINGS[5:7]
        assert store.pages() == THINGS[-1:]
        assert [entry.key for entry in store.entries(None, now=NOW)] == ["draft"]
        assert (store.cursor("read"), store.count("asked"), store.tombstones(["aa"])) == ("3", 7, {"aa"})
        assert bool(store.read_vectors(2, [1])) == (version >= 8)
        add(store, make_record(77))
        assert store.take_lease("one", timedelta(minutes=1)) is not None
        with closing(WorkQueue(parse_postgres_url(as_runner))) as looking:
            assert looking.claim() is not None, "what was there before is looked at once"


def test_tables_of_a_newer_version_are_refused(postgres: PostgresServer, empty_database: str) -> None:
    url = postgres.url("acme", database=empty_database)
    with closing(PostgresStore(url, analyse=analyze)):
        pass
    with psycopg.connect(parse_postgres_url(url).connection, autocommit=True) as connection:
        connection.execute("INSERT INTO reverie.migration VALUES (%s, 'of tomorrow')", [VERSION + 1])
    for act in (lambda: PostgresStore(url, analyse=analyze), lambda: prepare_database(url, create=True)):
        with pytest.raises(StoreIncompatible, match="upgrade Reverie"):
            act()
