"""A search in one namespace depends on nothing outside of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory
from reverie.repositories.key_value import KeyValueStore, Namespace
from tests.factories import MovableClock, get_search_index
from tests.profiles import examples

WORDS = ["tea", "teas", "green", "garden", "gardens", "harbour", "ferry", "nine", "2024-05-01", "the"]
ALICE: Namespace = ("users", "a@b")
OTHERS: list[Namespace] = [("users", "a-b"), ("users", "a@b-c"), ("users",), ("users", "A@B"), ("a@b",)]

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
own = st.lists(st.tuples(st.sampled_from([(), ("notes",)]), st.sampled_from("xyz"), texts), max_size=6)
questions = st.lists(st.sampled_from([*WORDS, "gardne", "teaa"]), min_size=1, max_size=4).map(" ".join)
steps = st.lists(
    st.tuples(st.sampled_from(OTHERS), st.sampled_from("xyz"), st.none() | texts, st.booleans()),
    min_size=1,
    max_size=12,
)


def _ask(shelf: KeyValueStore, asked: Sequence[str]) -> list[str]:
    """Return everything that a reader of Alice's namespace can see, scores included."""
    return [
        *(repr(shelf.search(query, namespace=ALICE, limit=limit)) for query in asked for limit in (1, 10)),
        repr(list(shelf.items(ALICE))),
        repr(shelf.search("tea", namespace=(*ALICE, "notes"))),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "in memory"])
@given(items=own, asked=st.lists(questions, min_size=1, max_size=3), changes=steps, is_plain=st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_no_change_elsewhere_changes_a_byte_of_an_answer(
    kind: str,
    items: list[tuple[Namespace, str, str]],
    asked: list[str],
    changes: list[tuple[Namespace, str, str | None, bool]],
    is_plain: bool,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        where = ":memory:" if kind == "in memory" else Path(folder)
        with Memory.open(where, clock=MovableClock()) as memory:
            shelf = memory.key_value("app")
            for below, key, text in items:
                shelf.put((*ALICE, *below), key, {"text": text})
            expected = _ask(shelf, asked)
            if is_plain:
                memory.save("tea in the garden, green as the harbour", category="app-other")
                assert _ask(shelf, asked) == expected
            for namespace, key, text, is_committed in changes:
                if text is None:
                    shelf.delete(namespace, key)
                else:
                    shelf.put(namespace, key, {"text": text})
                if is_committed:
                    get_search_index(memory).fold()
                assert _ask(shelf, asked) == expected
