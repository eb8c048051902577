"""agentkit's two adapters."""

from __future__ import annotations

from reverie import Memory
from reverie.integrations.agentkit import FILTools, Observation, ObservationStore


def test_tools_remember_and_recall_the_three_kinds_and_no_other(memory: Memory) -> None:
    tools = FILTools(memory)
    memory.save("The API is called Harbour")
    ids = tools.remember_fil(
        ["The API uses OAuth2"], ["The API suits REST"], ["Check the API limit"], "GOAL:api"
    )
    assert [memory.get(each).kind for each in ids] == ["finding", "insight", "lesson"]  # type: ignore[union-attr]
    assert {memory.get(each).source for each in ids} == {"GOAL:api"}  # type: ignore[union-attr]
    assert {hit.id for hit in tools.recall("API", 10)} == set(ids)
    assert len(tools.recall("API", 1)) == 1
    assert tools.recall("chess") == []


def test_observations_are_stored_with_their_step_and_found_by_question(memory: Memory) -> None:
    store = ObservationStore(memory)
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


def test_fil_goes_in_and_comes_out_as_three_lists(memory: Memory) -> None:
    tools = FILTools(memory)
    tools.remember_fil(
        findings=["The API rate limit is 100 a minute"],
        insights=["REST suits this API better"],
        lessons=["Always check the API rate limit first"],
        source="GOAL:api",
    )
    found = tools.recall_fil("API rate limit")
    assert [hit.content for hit in found.findings] == ["The API rate limit is 100 a minute"]
    assert [hit.content for hit in found.lessons] == ["Always check the API rate limit first"]
    assert [hit.kind for hit in found.insights] == ["insight"]
    assert [hit.kind for hit in tools.recall_by_category("API", "finding")] == ["finding"]
    assert memory.search("finding") == []
