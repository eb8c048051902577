"""What a search left out, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory, Settings
from reverie.search.searcher import LeftOut, find_left_out


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", settings=Settings(files="none")) as memory:
        yield memory


def ask(memory: Any, query: str, *, most: int = 5, **options: Any) -> dict[str, tuple[str, ...]]:
    """Return what a search left out, as texts with the reason and its fields."""
    request, sources, _ = memory._parse_search(query, options)
    hits = memory.search(query, **options)
    found: list[LeftOut] = find_left_out(memory._searcher, request, sources, hits, most=most)
    assert not {each.hit.id for each in found} & {hit.id for hit in hits}
    return {each.hit.content: (each.why, *each.fields) for each in found}


def test_what_is_archived_is_named(memory: Memory) -> None:
    memory.save("Alice drinks black tea")
    old = memory.save("Alice drinks green tea in the garden").record
    memory.archive(old.id)
    assert ask(memory, "what tea does Alice drink") == {old.content: ("archived",)}


def test_what_a_filter_keeps_out_is_named_with_the_filter(memory: Memory) -> None:
    memory.save("Alice drinks black tea", kind="preference")
    memory.save("Alice drinks tea at work", kind="fact", tags=["work"])
    assert ask(memory, "what tea does Alice drink", kind="preference") == {
        "Alice drinks tea at work": ("filtered", "kinds")
    }
    assert ask(memory, "what tea does Alice drink", tags="work") == {
        "Alice drinks black tea": ("filtered", "tags")
    }


def test_what_ranks_behind_the_last_hit_is_named(memory: Memory) -> None:
    for room in ("kitchen", "garden", "office"):
        memory.save(f"Alice drinks tea in the {room}")
    found = ask(memory, "where does Alice drink tea", limit=1)
    assert len(found) == 2
    assert set(found.values()) == {("rank",)}


def test_what_is_too_far_from_the_question_is_named(memory: Memory) -> None:
    for number in range(120):
        memory.save(f"Alice drinks tea number {number} with honey and lemon in the winter garden")
    question = (
        "which honey does the beekeeper of the neighbouring village sell at the market on Saturday mornings"
    )
    assert memory.search(question) == []
    found = ask(memory, question, most=3)
    assert len(found) == 3
    assert set(found.values()) == {("floor",)}


def test_another_scope_is_never_named(memory: Memory) -> None:
    memory.scoped("user:bob").save("Bob drinks green tea")
    alice = memory.scoped("user:alice")
    alice.save("Alice drinks black tea")
    assert ask(alice, "who drinks tea") == {}


def test_what_says_the_same_is_named(memory: Memory) -> None:
    memory.save("Alice drinks black tea")
    alice = memory.scoped("user:alice")
    alice.save("Alice drinks black tea")
    assert ask(alice, "what does Alice drink") == {"Alice drinks black tea": ("repeated",)}
