"""Words that the analyzer makes otherwise than when they were stored."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from click.testing import CliRunner

from reverie import Memory, Settings
from reverie.domain.conversation import Turn
from reverie.domain.filter import Filter
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.interfaces.cli.main import cli
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore, schema
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.schema import prepare_database
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import (
    NOW,
    make_additions,
    make_paragraph,
    make_record,
    make_session,
    make_turn,
)

QUIET = Settings(embedder=None, dream_interval=None)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return f"{postgres.url(uuid.uuid4().hex)}&index=tables"


def analyze_as_before(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Return an analysis as that of another version: without the last word, and with another speaker."""
    analysis = analyze(value)
    words = analysis.terms.split()[:-1]
    speaker = analysis.speaker and f"{analysis.speaker} senior"
    terms = "".join(f" {word} " for word in words)
    return analysis._replace(terms=terms, length=len(words), speaker=speaker)


def fill_as_before(url: str) -> None:
    """Store things by the other version of the analyzer, one of them archived."""
    records = [make_record(n, content=f"Record {n} is about tea and owls") for n in range(30)]
    archived = make_record(900, content="An archived note about pianos", archived_at=NOW)
    things = [*records, archived, make_session(), make_turn(0), make_turn(1), make_paragraph(1)]
    with closing(PostgresStore(url, analyse=analyze_as_before)) as store:
        store.commit(make_additions(*things), actor="owner", at=NOW)
        assert store.find_stale_analyses() == []


def test_words_of_another_analyzer_are_reported_and_made_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_WORDS_BATCH", 8)  # several batches
    fill_as_before(url)
    with Memory.open(url, settings=QUIET) as memory:
        assert memory.search("owls") == []
        assert memory.admin.check() == [], "what is stored is sound"
        (finding,) = [each for each in memory.admin.doctor().findings if each.code == "words-outdated"]
        assert (len(finding.about), finding.remedy) == (33, "words")
        memory.admin.doctor(fix=True)
        assert not memory.admin.doctor().findings
    with Memory.open(url, settings=QUIET) as memory:
        assert len(memory.search("owls", limit=10)) == 10
        assert memory.admin.check() == []
    with closing(PostgresStore(url, analyse=analyze)) as store:
        assert store.find_stale_analyses() == []
        fresh = url.replace("memory=", "memory=fresh")
        with closing(PostgresStore(fresh, analyse=analyze)) as other:
            other.commit([row.edit for row in store.journal(limit=1000) if row.edit], actor="owner", at=NOW)
            for subject in ("record", "turn", "paragraph"):
                assert store.measure(subject, None) == other.measure(subject, None)
                assert store.live(subject) == other.live(subject)


def expect_new_words(url: str) -> None:
    """Do what a migration does that comes with another analyzer."""
    with psycopg.connect(parse_postgres_url(url).connection, autocommit=True) as connection:
        connection.execute("SELECT reverie.expect_new_words()")


def test_an_upgrade_renews_the_words_of_all_memories(
    postgres: PostgresServer, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_WORDS_BATCH", 8)
    urls = [postgres.url(memory, database=empty_database) for memory in ("one", "two")]
    for each in urls:
        fill_as_before(each)
    expect_new_words(urls[0])
    done = CliRunner().invoke(cli, ["store", "upgrade", urls[0]])
    assert done.exit_code == 0, done.output
    for each in urls:
        with closing(PostgresStore(each, analyse=analyze)) as store:
            assert store.find_stale_analyses() == []


def test_a_thing_that_has_changed_since_keeps_its_words(url: str) -> None:
    with closing(PostgresStore(url, analyse=analyze)) as store:
        store.commit(make_additions(make_record(1)), actor="owner", at=NOW)
        values = "'1s', '{record}', '{1}', ARRAY['{}'], '{3}', '{}', '{}', '{}', '{ old }'"
        assert store._connections.call(f"SELECT reverie.renew_words(%s, {values})", (store._space,)) == (0,)
        assert store.find_stale_analyses() == []
        assert store.check() == []


def test_facts_in_the_metadata_become_fields_and_records_with_the_same_text_become_one(url: str) -> None:
    linked = make_record(900)
    moved = make_record(1, content="One", metadata={"superseded_by": linked.id, "own": "x"})
    web = make_record(2, content="Likes tea.", origin="web", seen_count=3)
    mine = make_record(3, content="likes tea", moment=NOW + timedelta(days=1))
    with closing(PostgresStore(url, analyse=analyze)) as store:
        store.commit(make_additions(linked, moved, web), actor="owner", at=NOW)
        space = store._space
    with psycopg.connect(parse_postgres_url(url).connection) as connection:
        connection.execute("SELECT set_config('reverie.space', %s, false)", [str(space)])
        connection.execute("UPDATE reverie.thing SET fingerprint = id WHERE fingerprint IS NOT NULL")
        connection.commit()
        with closing(PostgresStore(url, analyse=analyze)) as store:
            store.commit(make_additions(mine), actor="owner", at=NOW)
        connection.execute("DELETE FROM reverie.migration WHERE version >= 11")
        connection.commit()
        assert prepare_database(url, analyse=analyze, create=False) == ["record fields", "more words"]
    with closing(PostgresStore(url, analyse=analyze)) as store:
        assert list(store.check()) == []
        found = {record.id: record for record in store.find(Filter(archived=None))}
        assert (found[moved.id].replaced_by, found[moved.id].metadata) == (linked.id, {"own": "x"})
        kept = store.record_like("", mine.fingerprint)
        assert kept is not None
        assert (kept.id, kept.seen_count) == (mine.id, 4)
        assert found[web.id].archived
