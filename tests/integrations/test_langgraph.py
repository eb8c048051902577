"""LangGraph's store over a memory: what its users rely on, beside LangGraph's own stores."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from reverie import Memory
from reverie.domain.errors import InvalidInput
from reverie.integrations.langgraph import ReverieStore
from tests.factories import MovableClock

USERS = ("users", "alice")


@pytest.fixture
def store(memory: Memory) -> Iterator[ReverieStore]:
    opened = ReverieStore(memory)
    yield opened
    assert opened.stop_ttl_sweeper(5)


# -- items -----------------------------------------------------------------------------------------------


def test_what_is_put_is_got_and_survives_a_restart(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        ReverieStore(memory).put(USERS, "prefs", {"theme": "dark", "size": 3, "deep": {"a": [1, None, True]}})
    with Memory.open(tmp_path) as memory:
        item = ReverieStore(memory).get(USERS, "prefs")
        assert item is not None
        assert item.value == {"theme": "dark", "size": 3, "deep": {"a": [1, None, True]}}
        assert (item.namespace, item.key) == (USERS, "prefs")
        assert item.created_at == item.updated_at
        assert item.created_at.tzinfo is not None


def test_another_put_of_a_key_replaces_and_keeps_when_it_was_created(
    memory: Memory, store: ReverieStore, clock: MovableClock
) -> None:
    store.put(USERS, "prefs", {"theme": "dark"})
    clock.move(hours=1)
    store.put(USERS, "prefs", {"theme": "light"})
    item = store.get(USERS, "prefs")
    assert item is not None
    assert item.value == {"theme": "light"}
    assert (item.updated_at - item.created_at).total_seconds() == 3600
    assert len(memory.list()) == 1


def test_two_keys_of_equal_value_are_two_records_and_no_save_adds_to_them(
    memory: Memory, store: ReverieStore
) -> None:
    for key in ("a", "A", "a ", "b"):
        store.put(USERS, key, {"text": "Alice prefers short answers"})
    saved = memory.save("Alice prefers short answers")
    assert saved.outcome == "created"
    again = memory.save("Alice prefers  short answers")
    assert (again.outcome, again.record.id) == ("reinforced", saved.record.id)
    assert [len(store.search(USERS)), len(memory.list())] == [4, 5]
    assert len(store.search(USERS, query="short answers")) == 4
    store.delete(USERS, "a")
    assert store.get(USERS, "A") is not None
    assert memory.search("short answers")


def test_a_deleted_item_is_gone_and_can_be_brought_back(memory: Memory, store: ReverieStore) -> None:
    store.put(USERS, "prefs", {"theme": "dark"})
    [record] = memory.list()
    store.delete(USERS, "prefs")
    store.delete(USERS, "never there")
    assert store.get(USERS, "prefs") is None
    assert store.search(()) == []
    assert store.list_namespaces() == []
    memory.restore(record.id)
    item = store.get(USERS, "prefs")
    assert item is not None
    assert item.value == {"theme": "dark"}


def test_large_values_are_kept_whole(memory: Memory, store: ReverieStore) -> None:
    value = {"text": "word " * 30_000, "more": ["ä\n\x00\x7f" * 20_000]}
    store.put(USERS, "large", value)
    item = store.get(USERS, "large")
    assert item is not None
    assert item.value == value
    [record] = memory.list()
    memory.update(record.id, content="Shortened by hand")
    item = store.get(USERS, "large")
    assert item is not None
    assert item.value == value  # what was cut off is not lost to an edit of the beginning


def test_what_json_has_no_word_for_is_written_as_usual_or_refused(store: ReverieStore) -> None:
    moment = datetime(2025, 1, 2, tzinfo=UTC)
    store.put(USERS, "k", {"at": moment, "id": UUID(int=5), "pair": (1, 2)})
    item = store.get(USERS, "k")
    assert item is not None
    assert item.value == {"at": moment.isoformat(), "id": str(UUID(int=5)), "pair": [1, 2]}
    store.put(USERS, "k", {"in": {2: "x"}})
    item = store.get(USERS, "k")
    assert item is not None
    assert item.value == {"in": {"2": "x"}}
    for wrong in ({"f": object()}, {"s": {1}}, ["no", "mapping"]):
        with pytest.raises(InvalidInput, match="value"):
            store.batch([PutOp(USERS, "other", {}), PutOp(USERS, "wrong", wrong)])  # type: ignore[arg-type]
    assert store.get(USERS, "other") is None


def test_namespaces_are_refused_as_langgraph_refuses_them(store: ReverieStore) -> None:
    for namespace in [("a.b",), ("",), ("a", 1), ("a\0",)]:
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {})
        for op in (
            PutOp(namespace, "k", {}),
            GetOp(namespace, "k"),
            SearchOp(namespace),
            ListNamespacesOp((MatchCondition("prefix", namespace),)),
        ):
            with pytest.raises(InvalidNamespaceError):
                store.batch([op])
        with pytest.raises(InvalidNamespaceError):
            store.put(("langgraph", "x"), "k", {})
        with pytest.raises(InvalidNamespaceError):
            store.put((), "k", {})


# -- batches ---------------------------------------------------------------------------------------------


def test_the_puts_of_a_batch_are_one_change(memory: Memory, store: ReverieStore) -> None:
    store.batch([PutOp(USERS, "k", {"n": 1}), PutOp(USERS, "k", {"n": 2}), PutOp(USERS, "new", {"n": 9})])
    assert [len(memory.history.log()), len({row.batch for row in memory.history.log()})] == [2, 1]


# -- search ----------------------------------------------------------------------------------------------


def test_a_question_finds_what_is_relevant_best_first(store: ReverieStore) -> None:
    store.put(("docs",), "deploy", {"text": "The staging deploy runs every night at two"})
    store.put(("docs",), "party", {"text": "The summer party is in July"})
    store.put(("docs", "old"), "deploy", {"text": "Deploys of staging were by hand"})
    store.put(("docsearch",), "deploy", {"text": "The staging deploy of the search"})
    found = store.search(("docs",), query="when does the staging deploy run?")
    assert found[0].key == "deploy"
    assert found[0].namespace == ("docs",)
    assert {item.namespace for item in found} == {("docs",), ("docs", "old")}
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert all(0 < score <= 1 for score in scores)  # type: ignore[operator]
    assert store.search(("docs",), query="quantum chromodynamics") == []
    assert (
        store.search((), query="staging deploy", limit=2, offset=1)
        == store.search((), query="staging deploy", limit=3)[1:]
    )


def test_a_question_looks_at_the_fields_that_put_names(memory: Memory) -> None:
    store = ReverieStore(memory, fields=["metadata.title"])
    value = {
        "metadata": {"title": "Lighthouses"},
        "chapters": [{"content": "Bremerhaven"}, {"content": "Cuxhaven"}],
        "other": "passphrase",
    }
    store.put(("b",), "default", value)
    store.put(("b",), "chapters", value, index=["chapters[*].content"])
    store.put(("b",), "hidden", value, index=False)
    store.put(("b",), "whole", value, index=["$"])

    def keys(query: str) -> set[str]:
        return {item.key for item in store.search(("b",), query=query)}

    assert keys("lighthouses") == {"default", "whole"}
    assert keys("Cuxhaven") == {"chapters", "whole"}
    assert keys("passphrase") == {"whole"}
    assert keys("hidden") == set()
    assert len(store.search(("b",))) == 4
    hidden = store.get(("b",), "hidden")
    assert hidden is not None
    assert hidden.value == value
    assert not [hit for hit in memory.search("passphrase") if "hidden" in hit.content]
    with pytest.raises(InvalidInput, match="index"):
        store.batch([PutOp(("b",), "x", {}, index="title")])  # type: ignore[arg-type]


def test_filters_are_part_of_a_question(store: ReverieStore) -> None:
    store.batch(
        [
            PutOp(("n",), str(n), {"text": f"Note {n} about the harbour", "n": n, "even": n % 2 == 0})
            for n in range(300)
        ]
    )
    found = store.search(("n",), query="note about the harbour", filter={"n": {"$gte": 290}, "even": True})
    assert {item.value["n"] for item in found} == {290, 292, 294, 296, 298}


def test_a_prompt_and_the_product_s_search_find_items(memory: Memory, store: ReverieStore) -> None:
    store.put(("memories", "alice"), "1", {"content": "Alice is allergic to walnuts"})
    [hit] = memory.search("what is Alice allergic to?")
    assert hit.record is not None
    assert hit.record.category == "langgraph/memories/alice"
    assert "walnuts" in memory.session("s").context("what is Alice allergic to?").text


def test_scopes_and_names_keep_items_apart(memory: Memory) -> None:
    alice, bob = (ReverieStore(memory.scoped(f"user:{name}")) for name in ("alice", "bob"))
    other = ReverieStore(memory.scoped("user:alice"), name="other")
    alice.put(USERS, "k", {"text": "the secret of Alice"})
    for store in (bob, other):
        assert store.get(USERS, "k") is None
        assert store.search((), query="secret") == store.search(()) == store.list_namespaces() == []
        store.delete(USERS, "k")
    bob.put(USERS, "k", {"text": "Bob's"})
    assert [item.value for item in alice.search(())] == [{"text": "the secret of Alice"}]


# -- namespaces ------------------------------------------------------------------------------------------


def test_filters_reach_into_values_by_dotted_names(store: ReverieStore) -> None:
    store.put(("f",), "a", {"in": "Ada", "with.period": 1})
    store.put(("f",), "b", {"in": {"deep": 1, "too": 2}})
    for wanted, keys in (
        ({"in": {"deep": 1}}, ["b"]),
        ({"in.deep": 1}, ["b"]),
        ({"in.too": {"$gte": 2}}, ["b"]),
        ({"in.none": None}, ["a", "b"]),
        ({"with.period": 1}, ["a"]),
        ({"in.deep.er": 1}, []),
    ):
        assert sorted(item.key for item in store.search(("f",), filter=wanted)) == keys, wanted
    with pytest.raises(ValueError, match=r"\$in"):
        store.search((), filter={"n": {"$in": [1]}})


# -- time to live ----------------------------------------------------------------------------------------


def test_a_put_after_the_end_makes_a_new_item(
    memory: Memory, store: ReverieStore, clock: MovableClock
) -> None:
    store.put(USERS, "k", {"n": 1}, ttl=5)
    clock.move(minutes=6)
    store.put(USERS, "k", {"n": 2})
    item = store.get(USERS, "k")
    assert item is not None
    assert item.created_at == clock.now
    clock.move(days=400)
    assert store.get(USERS, "k") is not None
    for minutes in (math.nan, math.inf, 10**400, True):
        with pytest.raises(InvalidInput, match="ttl"):
            store.put(USERS, "k", {}, ttl=minutes)


def test_the_sweeper_runs_until_it_is_stopped_or_cancelled(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        plain = ReverieStore(memory)
        assert plain.start_ttl_sweeper().done()
        store = ReverieStore(memory, ttl={"default_ttl": 0.0005})
        store.put(USERS, "k", {"text": "gone"})
        future = store.start_ttl_sweeper(0.001)  # type: ignore[arg-type]
        again = store.start_ttl_sweeper(0.001)  # type: ignore[arg-type]
        deadline = time.monotonic() + 10
        while not memory.list(archived=True) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [record.content for record in memory.list(archived=True)] == ["gone"]
        again.cancel()
        future.result(10)
        assert store.stop_ttl_sweeper(5)


# -- nothing changes items by itself ---------------------------------------------------------------------


def test_a_dream_leaves_items_alone(memory: Memory, store: ReverieStore) -> None:
    for n in range(3):
        store.put(USERS, str(n), {"text": "The deploy runs at two every night."})
        memory.save(f"The deploy of service {n} runs at two every night.")
    memory.dreams.apply(memory.dreams.plan("dream"))
    assert len(store.search(USERS)) == 3


def test_forgetting_takes_an_item_away_for_good(memory: Memory, store: ReverieStore) -> None:
    store.put(USERS, "k", {"text": "Alice was born in Wremen by the sea"})
    store.put(USERS, "hidden", {"text": "Alice was born in Wremen by the sea"}, index=False)
    store.put(USERS, "other", {"text": "Bob likes tea"})
    memory.admin.forget(match="born in Wremen by the sea")
    assert store.get(USERS, "k") is None
    assert store.get(USERS, "hidden") is None
    assert [item.key for item in store.search(())] == ["other"]
    store.put(USERS, "k", {"text": "Alice likes coffee"})
    assert store.get(USERS, "k") is not None


# -- many at once ----------------------------------------------------------------------------------------


def test_many_tasks_use_one_store_and_a_wrong_operation_fails_its_own(memory: Memory) -> None:
    async def run(store: ReverieStore) -> None:
        results = await asyncio.gather(
            store.aput(USERS, "a", {"n": 1}),
            store.aput(("with.period",), "b", {"n": 2}),
            store.abatch([PutOp(USERS, "c", {"n": 3}), GetOp(USERS, "a")]),
            store.aput(USERS, "d", {"n": {1, 2}}),
            return_exceptions=True,
        )
        assert results[0] is None
        assert isinstance(results[1], InvalidNamespaceError)
        assert isinstance(results[3], InvalidInput)
        assert {item.key for item in await store.asearch(USERS)} == {"a", "c"}

    asyncio.run(run(ReverieStore(memory)))
