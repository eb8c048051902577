"""The same operations on this store and on LangGraph's own give the same results.

Meant to differ, and left out of what is compared: scores; `created_at`, which LangGraph's own stores set anew
at every put; the order of InMemoryStore, which is not by time, and of namespaces with signs that come before
the period, which SqliteStore sorts as text with periods; namespaces that InMemoryStore still lists when they
are empty; `$ne` where SQLite finds no value to compare, and ordering of texts, where InMemoryStore raises.
Older SqliteStores take parts of labels for labels (`ab` for what begins with `a`), so there labels are chosen
that do not show it.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from reverie import Memory
from reverie.integrations.langgraph import ReverieStore
from tests.profiles import examples

EVERYTHING = 10_000


def _matches_whole_labels() -> bool:
    with SqliteStore.from_conn_string(":memory:") as store:
        store.setup()
        store.put(("ab",), "k", {})
        return store.search(("a",)) == []


labels = st.sampled_from(["a", "b", "ab", "A", "a~b", "aéb"] if _matches_whole_labels() else ["a", "b"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
prefixes = st.lists(labels, max_size=2).map(tuple)
keys = st.sampled_from(["k", "K", "k ", "other", "ключ"])
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["", "x", "y\n"])
values = st.fixed_dictionaries(
    {"n": st.integers(-3, 3) | st.floats(-3, 3), "s": st.sampled_from(["", "red", "green", "Rot"])},
    optional={
        "b": st.booleans(),
        "x": st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=2), plain),
    },
)
numbers = st.integers(-3, 3) | st.floats(-3, 3)
orders = st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq"])
filters = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "n": numbers | st.dictionaries(orders, numbers, min_size=1, max_size=2),
        "s": st.sampled_from(["", "red", "Rot", "no"]),
        "b": st.booleans() | st.none(),
    },
)
conditions = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(labels | st.just("*"), min_size=1, max_size=3).map(tuple),
)
puts = st.tuples(namespaces, keys, st.none() | values).map(lambda given: PutOp(*given))
gets = st.tuples(namespaces, keys).map(lambda given: GetOp(*given))
searches = st.tuples(prefixes, filters).map(lambda given: SearchOp(*given, limit=EVERYTHING))
lists = st.builds(
    ListNamespacesOp,
    st.lists(conditions, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    st.integers(1, 5) | st.just(EVERYTHING),
    st.integers(0, 3),
)


def _plainly(result: Any) -> Any:
    """A result without what is meant to differ."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list):
        alike = [_plainly(each) for each in result]
        return sorted(alike, key=repr) if result and isinstance(result[0], Item) else alike
    return result


class Stores(RuleBasedStateMachine):
    """Three stores that are told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory.open(":memory:")
        self.ours = ReverieStore(self.memory)
        self.theirs = InMemoryStore()
        self.connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.sqlite = SqliteStore(self.connection)
        self.sqlite.setup()

    def teardown(self) -> None:
        self.connection.close()
        self.memory.close()

    @rule(ops=st.lists(puts | gets | searches, min_size=1, max_size=8))
    def batch(self, ops: list[Op]) -> None:
        ours = _plainly(self.ours.batch(ops))
        assert ours == _plainly(self.theirs.batch(ops))
        assert ours == _plainly(self.sqlite.batch(ops))

    @rule(namespace=namespaces, key=keys, value=values)
    def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        for store in (self.ours, self.theirs, self.sqlite):
            store.put(namespace, key, value)

    @rule(namespace=namespaces, key=keys)
    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        for store in (self.ours, self.theirs, self.sqlite):
            store.delete(namespace, key)

    @rule(op=lists)
    def list_namespaces(self, op: ListNamespacesOp) -> None:
        assert self.ours.batch([op]) == self.sqlite.batch([op])

    @rule(prefix=prefixes, wanted=st.sampled_from(["", "green", "red", "Rot"]), order=orders)
    def compare_texts(self, prefix: tuple[str, ...], wanted: str, order: str) -> None:
        op = SearchOp(prefix, {"s": {order: wanted}}, EVERYTHING)
        assert _plainly(self.ours.batch([op])) == _plainly(self.sqlite.batch([op]))

    @rule(prefix=prefixes, field=st.sampled_from("nsb"), wanted=plain)
    def differ(self, prefix: tuple[str, ...], field: str, wanted: Any) -> None:
        op = SearchOp(prefix, {field: {"$ne": wanted}}, EVERYTHING)
        assert _plainly(self.ours.batch([op])) == _plainly(self.theirs.batch([op]))

    @rule(namespace=namespaces, key=keys, value=values)
    def put_for_no_time_and_sweep(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        for store in (self.ours, self.sqlite):
            store.put(namespace, key, value, ttl=-1)
            assert store.sweep_ttl() == 1
            assert store.get(namespace, key) is None
        self.theirs.delete(namespace, key)

    @rule(prefix=prefixes, limit=st.integers(0, 4))
    def page_through(self, prefix: tuple[str, ...], limit: int) -> None:
        everything = self.ours.search(prefix, limit=EVERYTHING)
        pages = [
            self.ours.search(prefix, limit=limit, offset=start)
            for start in range(0, len(everything) + 1, limit or len(everything) + 1)
        ]
        assert [item for page in pages for item in page] == (everything if limit else [])

    @invariant()
    def all_hold_the_same(self) -> None:
        op = SearchOp((), None, EVERYTHING)
        ours = _plainly(self.ours.batch([op]))
        assert ours == _plainly(self.theirs.batch([op])) == _plainly(self.sqlite.batch([op]))


Stores.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=15, deadline=None)
TestStores = Stores.TestCase


@pytest.mark.slow
def test_items_get_the_default_lifetime_and_are_renewed_by_reading_as_in_langgraphs_store() -> None:
    lifetime = {"default_ttl": 4 / 60}  # minutes; their clock has whole seconds

    def observe(store: Any) -> list[Any]:
        """What is there after the default lifetime, an own one, none, and a read that renews or does not."""
        place = ("test",)
        store.put(place, "default", {"value": "a"})
        store.put(place, "for ever", {"value": "b"}, ttl=None)
        store.put(place, "an hour", {"value": "c"}, ttl=60)
        store.put(place, "read", {"value": "d"})
        store.put(place, "looked at", {"value": "e"})
        time.sleep(2.6)
        seen = [
            store.get(place, "read") is not None,
            store.get(place, "looked at", refresh_ttl=False) is not None,
        ]
        time.sleep(2.6)
        seen.append(store.sweep_ttl())
        names = ("default", "for ever", "an hour", "read", "looked at")
        return [*seen, *(store.get(place, name) is not None for name in names)]

    with SqliteStore.from_conn_string(":memory:", ttl=lifetime) as theirs, Memory.open(":memory:") as memory:  # type: ignore[arg-type]
        theirs.setup()
        expected = observe(theirs)
        assert expected == [True, True, 3, False, True, True, False, False]
        assert observe(ReverieStore(memory, ttl=lifetime)) == expected  # type: ignore[arg-type]
