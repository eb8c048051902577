"""Tests of the statistics of a memory."""

from __future__ import annotations

from typing import get_args

from reverie import Memory
from reverie.admin.stats import FAILURES
from reverie.consolidation.dreams import ALL
from reverie.consolidation.gatherer import DREAM, WindowKind
from reverie.domain.errors import ModelUnavailable
from reverie.llm.protocol import ModelRequest


def test_a_conversation_that_could_not_be_read_for_facts_is_counted() -> None:
    def refuse(request: ModelRequest) -> str:
        raise ModelUnavailable("too slow")

    with Memory.open(":memory:", model=refuse) as memory:
        memory.session("cli:1").add("user", "Ruth is vegan.")
        memory.dreams.run_window("cli:1", "read")
        assert memory.admin.stats().failed == {"read": 1, "model.read": 1}


def test_failures_of_all_passes_are_shown() -> None:
    assert {f"dream.{name}" for name in (*DREAM, ALL)} | set(get_args(WindowKind)) <= set(FAILURES)
