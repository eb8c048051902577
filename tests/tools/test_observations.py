"""agentkit's two tools: findings, insights and lessons are kept in one transaction and recalled together."""

from __future__ import annotations

from reverie import Memory
from tests.tools.conftest import Call


def test_all_three_lists_are_remembered_in_one_transaction(memory: Memory, call: Call) -> None:
    told = call(
        "remember",
        findings=["API rate limit is 100/min", "Auth uses OAuth2"],
        insights=["REST suits this better than GraphQL, since caching works"],
        lessons=["Avoid library X: it has no types"],
    )
    records = {record.content: record for record in memory.list()}
    assert [line.split(": ")[0][17:] for line in told.text.split("\n")[1:]] == [
        "(finding)", "(finding)", "(insight)", "(lesson)",
    ]  # fmt: skip
    assert told.text.startswith("Remembered 4 observations:")
    assert {record.origin for record in records.values()} == {"agent"}
    assert {record.source for record in records.values()} == {"session:chat:1"}
    assert records["Avoid library X: it has no types"].kind == "lesson"
    assert len({row.batch for row in memory.history.log()}) == 1


def test_one_sentence_in_the_place_of_a_list_is_one_observation(memory: Memory, call: Call) -> None:
    call("remember", lessons="Check rate limits first, then auth, then types")
    assert [record.content for record in memory.list()] == ["Check rate limits first, then auth, then types"]


def test_remembering_again_is_said(call: Call) -> None:
    call("remember", findings=["Auth uses OAuth2"])
    told = call("remember", findings=["Auth uses OAuth2"])
    assert told.text.endswith("(finding): reinforced")


def test_nothing_to_remember_is_answered(memory: Memory, call: Call) -> None:
    told = call("remember")
    assert told.failed
    assert "pass findings, insights or lessons, as lists" in told.text
    assert memory.list() == []


def test_recall_finds_observations_and_nothing_else(memory: Memory, call: Call) -> None:
    call("remember", findings=["The API rate limit is 100/min"])
    memory.save("The API rate limit annoys Ada")
    told = call("recall", query="API rate limit")
    assert told.text.startswith("Found 1 observation:")
    assert "Ada" not in told.text
    assert told.data is not None
    assert [hit["kind"] for hit in told.data["hits"]] == ["finding"]
    assert call("recall", query="llamas").text == "Found nothing. Try other words."


def test_recall_gives_as_many_as_asked_for(call: Call) -> None:
    call("remember", findings=[f"Server {name} answers slowly" for name in ("Oslo", "Rome", "Lima", "Bern")])
    assert call("recall", query="which server answers slowly", limit=2).text.startswith(
        "Found 2 observations:"
    )
    assert "limit is 0: pass a number from 1 to 50." in call("recall", query="x", limit=0).text
