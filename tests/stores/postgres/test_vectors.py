"""Vectors that machines share through a database: each text is embedded once, and forgotten everywhere."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import psycopg
import pytest

pytest.importorskip("numpy")

from reverie import Memory, Settings
from reverie.search.vectors import vector_index
from reverie.search.vectors.vector_file import hash_text
from reverie.stores.postgres.connections import parse_postgres_url
from tests.search.vectors.concepts import ConceptEmbedder
from tests.stores.postgres.server import OWNER, RUNNER, PostgresServer

FACTS = (
    "Drives a Volvo to work",
    "Her puppy sleeps on the sofa",
    "The praxis of Lindquist is in Bergstrasse",
)


class WatchedEmbedder(ConceptEmbedder):
    """Embedder that has something happen after each batch of texts."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = super().embed_passages(texts)
        self.meanwhile()
        return vectors


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "_DEBOUNCE_S", 600.0)  # they are embedded when the test asks for it


def _to_signed(number: int) -> int:
    return int.from_bytes(number.to_bytes(8, "little"), "little", signed=True)


def open_on(machine: Path, url: str, embedder: WatchedEmbedder | Literal["none"]) -> Memory:
    return Memory.open(
        url, embedder=embedder, settings=Settings(index_cache=str(machine), dream_interval=None)
    )


def read_rows(url: str) -> list[tuple[int, int]]:
    """Return key and embedder of every vector of a memory in the database."""
    address = parse_postgres_url(url)
    with psycopg.connect(address.connection, autocommit=True) as connection:
        found = connection.execute(
            "SELECT id FROM reverie.space WHERE name = %s", [address.memory]
        ).fetchone()
        assert found is not None
        connection.execute("SELECT set_config('reverie.space', %s, false)", [str(found[0])])
        sql = "SELECT key, embedder FROM reverie.vector WHERE space = %s ORDER BY 1, 2"
        return connection.execute(sql, found).fetchall()


def test_a_text_is_embedded_on_one_machine_only(url: str, tmp_path: Path) -> None:
    first, second = WatchedEmbedder(), WatchedEmbedder()
    with open_on(tmp_path / "a", url, first) as memory:
        memory.save_many(FACTS)
        assert memory.admin.embed().state == "current"
        expected = memory.search("which car")
        assert expected[0].explanation.evidence["cosine"] > 0.5
    with open_on(tmp_path / "b", url, second) as memory:
        assert memory.admin.embed().ready == len(FACTS)
        assert [hit.content for hit in memory.search("which car")] == [hit.content for hit in expected]
        assert memory.search("which car")[0].explanation.evidence == expected[0].explanation.evidence
        memory.save("The cat is called Miso")
        assert memory.admin.embed().ready == len(FACTS) + 1
    assert sorted(first.passages) == sorted(FACTS)
    assert second.passages == ["The cat is called Miso"]


def test_what_is_changed_is_embedded_once_more_and_what_is_gone_leaves_no_vector(
    url: str, tmp_path: Path
) -> None:
    first, second = WatchedEmbedder(), WatchedEmbedder()
    with open_on(tmp_path / "a", url, first) as one, open_on(tmp_path / "b", url, second) as two:
        saved = one.save_many(FACTS)
        one.admin.embed()
        two.admin.embed()
        one.update(saved[0].record.id, content="Drives a Saab to work")
        assert two.admin.embed().ready == len(FACTS)
        assert one.admin.embed().ready == len(FACTS)
        assert second.passages == ["Drives a Saab to work"]
        assert len(first.passages) == len(FACTS)
        assert len(read_rows(url)) == len(FACTS)
        one.archive(saved[1].record.id)
        assert one.admin.purge(older_than=0) == 1
        assert len(read_rows(url)) == len(FACTS) - 1
        one.admin.forget(saved[2].record.id)
        assert len(read_rows(url)) == len(FACTS) - 2


def test_a_redacted_text_leaves_no_vector_before_it_is_embedded_again(url: str, tmp_path: Path) -> None:
    plain = Settings(index_cache=str(tmp_path), redact_secrets=False, dream_interval=None)
    with Memory.open(url, embedder=WatchedEmbedder(), settings=plain) as memory:
        memory.save("The password of the router is hunter2-Xy9!")
        memory.save(FACTS[0])
        memory.admin.embed()
        assert len(read_rows(url)) == 2
    with open_on(tmp_path / "b", url, WatchedEmbedder()) as memory:
        assert memory.admin.redact().found
        assert len(read_rows(url)) == 1


def test_a_text_that_is_erased_while_it_is_embedded_leaves_no_vector(url: str, tmp_path: Path) -> None:
    embedder = WatchedEmbedder()
    with (
        open_on(tmp_path / "a", url, embedder) as memory,
        open_on(tmp_path / "b", url, WatchedEmbedder()) as other,
    ):
        gone, changed = memory.save_many(FACTS[:2])

        def change_what_is_embedded() -> None:
            if embedder.passages[-1] == FACTS[0]:
                other.admin.forget(gone.record.id)
            elif embedder.passages[-1] == FACTS[1]:
                other.update(changed.record.id, content="Her puppy sleeps outside")
            seen.append(len(read_rows(url)))

        seen: list[int] = []
        embedder.meanwhile = change_what_is_embedded
        memory.admin.embed()
        assert seen == [0, 0]
        assert read_rows(url) == []
        memory.admin.embed()
        assert sorted(embedder.passages) == sorted([*FACTS[:2], "Her puppy sleeps outside"])
        assert len(read_rows(url)) == 1


def test_embedders_do_not_see_the_vectors_of_others(url: str, tmp_path: Path) -> None:
    first, second = WatchedEmbedder(), WatchedEmbedder("another")
    with open_on(tmp_path / "a", url, first) as one, open_on(tmp_path / "b", url, second) as two:
        saved = one.save_many(FACTS)
        one.admin.embed()
        two.admin.embed()
        assert len(second.passages) == len(FACTS)
        assert len({embedder for _, embedder in read_rows(url)}) == 2
        two.admin.forget(saved[0].record.id)
        assert {embedder for _, embedder in read_rows(url)} == {_to_signed(hash_text("another"))}


def test_a_role_that_may_not_write_vectors_embeds_for_itself(
    postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, embedder = f"d{uuid.uuid4().hex}", WatchedEmbedder()
    postgres.execute("postgres", f"CREATE DATABASE {database} OWNER {OWNER}")
    url = postgres.url("acme", database=database)
    with open_on(tmp_path / "a", url, WatchedEmbedder()) as memory:
        memory.save_many(FACTS)
    postgres.execute(
        database,
        f"GRANT USAGE ON SCHEMA reverie TO {RUNNER}; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reverie TO {RUNNER}; "
        f"REVOKE INSERT, UPDATE ON reverie.vector FROM {RUNNER}",
    )
    with open_on(tmp_path / "b", postgres.url("acme", role=RUNNER, database=database), embedder) as memory:
        assert memory.admin.embed().state == "current"
        memory.save("The cat is called Miso")
        assert memory.admin.embed().state == "current"
        assert memory.search("which car")[0].content == FACTS[0]
    assert len(embedder.passages) == len(FACTS) + 1
    assert read_rows(url) == []
    assert len([each for each in caplog.messages if "vectors are not shared" in each]) == 1
