"""Words that the analyzer makes otherwise than when they were stored."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace

import pytest

from reverie import Memory, Settings
from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.stores.contract.factories import (
    NOW,
    make_additions,
    make_paragraph,
    make_record,
    make_session,
    make_turn,
)
from reverie.stores.postgres import PostgresStore, words
from tests.stores.postgres.conftest import start_or_skip

QUIET = Settings(embedder=None, dream_interval=None)


@pytest.fixture(params=[18, pytest.param(15, marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest) -> str:
    """A memory on PostgreSQL 18, and on the oldest version that is supported."""
    return f"{start_or_skip(request, request.param).url(uuid.uuid4().hex)}&index=tables"


def analyze_as_before(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Return an analysis as that of another version: without the last word, and with another speaker."""
    analysis = analyze(value)
    words = analysis.terms.split()[:-1]
    speaker = analysis.speaker and f"{analysis.speaker} senior"
    terms = "".join(f" {word} " for word in words)
    return replace(analysis, terms=terms, length=len(words), speaker=speaker)


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
    monkeypatch.setattr(words, "_BATCH", 8)  # several batches
    fill_as_before(url)
    with Memory.open(url, settings=QUIET) as memory:
        assert memory.search("owls") == []
        assert memory.admin.check() == [], "what is stored is sound"
        (finding,) = [each for each in memory.admin.doctor().findings if each.code == "words-outdated"]
        assert (len(finding.about), finding.repairable) == (34, True)
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


def test_a_thing_that_has_changed_since_keeps_its_words(url: str) -> None:
    with closing(PostgresStore(url, analyse=analyze)) as store:
        store.commit(make_additions(make_record(1)), actor="owner", at=NOW)
        values = "'1s', '{record}', '{1}', ARRAY['{}'], '{3}', '{}', '{}', '{}', '{ old }'"
        assert store._connections.call(f"SELECT reverie.renew_words(%s, {values})", (store._space,)) == (0,)
        assert store.find_stale_analyses() == []
        assert store.check() == []
