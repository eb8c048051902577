"""Memories that the measurement of scale loads by COPY are as if their records had been saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from benchmarks.loading import Loader
from benchmarks.texts import Texts

from reverie import Memory
from reverie.domain.filter import Filter
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import NOW, make_additions
from tests.support.contract.replay import is_journal_consistent


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server of this test's own."""
    server = PostgresServer(postgres.version)
    yield server
    server.remove()


@pytest.mark.slow
def test_a_load_goes_on_where_it_ended_and_leaves_sound_memories(server: PostgresServer) -> None:
    loader, told = Loader(server, Texts(), 20), []

    def interrupt(what: str, done: int) -> None:
        told.append((what, done))
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loader.fill(4, interrupt)
    assert loader.fill(4, lambda what, done: None) == 2
    assert loader.fill(4, lambda what, done: None) == 0
    with closing(PostgresStore(server.url("saved-0"), analyse=analyze)):
        made: list[tuple[str, int]] = []
        loader.make_postings(lambda what, done: made.append((what, done)))
        assert made[-1] == ("postings of", 4), "only what was loaded"
    for memory in range(4):
        with closing(PostgresStore(loader.url(memory), analyse=analyze)) as store:
            assert store.check() == []
            assert is_journal_consistent(store)
            saved = list(store.find(Filter()))
            assert len(saved) == store.sequence() == 20
            with closing(PostgresStore(server.url(f"saved-{memory}"), analyse=analyze)) as other:
                other.commit(make_additions(*reversed(saved)), actor="load", at=NOW)
                for scopes in (None, ("",)):
                    assert store.measure("record", scopes) == other.measure("record", scopes)
        with Memory.open(loader.url(memory) + "&index=tables") as opened:
            text = loader.texts.text(20 * memory + 7)
            assert opened.search(text.content)[0].content == text.content
