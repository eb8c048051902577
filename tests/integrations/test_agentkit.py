"""agentkit's store and its adapters."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverie import InvalidInput, Memory, NotFound
from reverie.integrations.agentkit import Observation, Store


def test_observations_are_stored_with_their_step_and_found_by_question(memory: Memory) -> None:
    store = Store(memory)
    observation = Observation(
        findings=("PostgreSQL version is 15.2",),
        lessons=("Back up first",),
        step_name="check",
        step_type="GOAL",
    )
    ids = store.store_observation(observation)
    assert len(ids) == 2
    assert memory.get(ids[0]).source == "GOAL:check"  # type: ignore[union-attr]
    assert store.query_relevant_observations("PostgreSQL version", 5) == ["PostgreSQL version is 15.2"]
    assert store.store_observation(Observation()) == []
    assert store.store_observation(observation) == ids


# -- the store, by the usage snippets of agentkit's design -------------------------------------------------


def test_observations_are_stored_and_recalled(memory: Memory) -> None:
    store = Store(memory)
    name = store.remember_observation("PostgreSQL version is 15.2", "finding", "GOAL:check-database")
    ids = store.remember_fil(
        ["API uses OAuth2", "Rate limit is 100/min"], ["REST is better for this use case"],
        ["Always check rate limits first"], "GOAL:api-analysis",
    )  # fmt: skip
    item = store.retrieve_by_id(name)
    assert item is not None
    assert (item.content, item.category, item.source) == (
        "PostgreSQL version is 15.2", "finding", "GOAL:check-database"
    )  # fmt: skip
    assert len(ids) == 4
    memory.save("The database is called harbour")
    found = store.recall("PostgreSQL version", limit=10, min_score=0.1)
    assert [(each.category, each.content) for each in found] == [("finding", "PostgreSQL version is 15.2")]
    assert 0.1 <= found[0].score <= 1
    assert store.recall_by_category("PostgreSQL", "finding", 5) == ["PostgreSQL version is 15.2"]
    assert store.recall_by_category("PostgreSQL", "lesson", 5) == []
    fil = store.recall_fil("API rate limits", 5)
    assert set(fil.findings) == {"API uses OAuth2", "Rate limit is 100/min"}
    assert fil.lessons == ["Always check rate limits first"]
    assert store.retrieve_by_id("0123456789ab") is None
    with pytest.raises(InvalidInput, match="Invalid category 'guess'"):
        store.remember_observation("x", "guess", "")


def test_the_scratchpad_has_keys_and_values(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        store = Store(memory)
        store.set("current_task", "implement-api")
        store.set("api.endpoint", "https://api.example.com")
        store.set("current_task", "test-api")
        store.close()
    with Memory.open(tmp_path) as memory:
        store = Store(memory)
        assert store.get("api.endpoint") == "https://api.example.com"
        assert store.get("current_task") == "test-api"
        assert store.list("api.") == ["api.endpoint"]
        assert store.list() == ["api.endpoint", "current_task"]
        assert store.search("EXAMPLE.com") == [("api.endpoint", "https://api.example.com")]
        with pytest.raises(NotFound, match="No key 'missing'"):
            store.get("missing")


def test_a_session_becomes_insights_whatever_else_has_learned_its_sentences(memory: Memory) -> None:
    store = Store(memory)
    decided = "We decided to use OAuth2 because the partners require it."
    memory.save(decided, kind="fact", origin="owner")
    transcript = [
        {"role": "user", "content": "How should we handle auth?"},
        {"role": "assistant", "content": decided},
        {"role": "user", "content": "We will use port 5433 for staging."},
        {
            "role": "assistant",
            "content": "Understood. " + "The staging database then listens on that port. " * 3,
        },
    ]
    store.consolidate_session("session-123", transcript)
    insights = {record.content for record in memory.list(limit=None) if record.kind == "insight"}
    assert {decided, "We will use port 5433 for staging."} <= insights
    assert any(text.startswith("Understood.") for text in insights)
    before = len(memory.list(limit=None))
    store.consolidate_session("session-123")
    assert len(memory.list(limit=None)) == before


def test_a_scratchpad_of_agentkit_that_is_imported_is_the_stores(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text('{"current_task": "implement-api"}')
    memory.admin.import_from(tmp_path / "kv.json", origin="agent")
    assert Store(memory).get("current_task") == "implement-api"
