"""Factories for tests: values with defaults, and a clock.

Those that the store contract needs are in `tests.support.contract.factories` and are passed on here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation.measures.scripted_verifier import answer_check, collect_strings

from reverie.consolidation.values import Plan, PlanStep
from reverie.domain.change import Change
from reverie.domain.conversation import ToolCall, Turn
from reverie.domain.record import Record
from reverie.llm.protocol import ModelReply, ModelRequest
from reverie.memory import Memory
from reverie.search.hits import Explanation, Hit
from reverie.search.index.search_index import SearchIndex
from tests.support.contract.factories import (
    NOW,
    make_entry,
    make_page,
    make_paragraph,
    make_record,
    make_turn,
)

__all__ = [
    "NOW",
    "MovableClock",
    "believe",
    "end_record",
    "get_search_index",
    "make_entry",
    "make_hit",
    "make_page",
    "make_paragraph",
    "make_record",
    "make_tool_call",
    "make_tool_result",
    "make_turn",
    "wait_for",
]


class MovableClock:
    """Clock that stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2025, 6, 2, 9, 0, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """Move the clock forward by a `timedelta`, such as `days=3`."""
        self.now += timedelta(**by)


def end_record(memory: Memory, old: Record, new: Record) -> Record:
    """End the validity of a record for another one that replaces it, and return it."""
    now = memory._clock()
    ended = replace(old, valid_to=new.created_at, replaced_by=new.id, updated_at=max(now, old.updated_at))
    started = replace(new, valid_from=new.created_at, replaces=(*new.replaces, old.id))
    memory._parts.writer.commit(
        [Change(before=old, after=ended), Change(before=new, after=started)], operation="settle"
    )
    return ended


def get_search_index(memory: Memory) -> SearchIndex:
    """Return the index of a memory that keeps it in memory or in a folder."""
    assert isinstance(memory._index, SearchIndex)
    return memory._index


def make_hit(value: Record | Turn, score: float = 0.5, *matched: str) -> Hit:
    """Make a hit for a record or a turn."""
    why = Explanation(
        matched=matched,
        parts={"relevance": score},
        evidence={"words": score},
        coverage=score,
        is_literal=True,
    )
    if isinstance(value, Record):
        return Hit(score=score, explanation=why, record=value)
    return Hit(score=score, explanation=why, turn=value)


def make_tool_call(position: int, *ids: str, **fields: Any) -> Turn:
    """Make a turn of the assistant that calls one tool for each id."""
    calls = tuple(ToolCall(id=each, name="look_up") for each in ids)
    return make_turn(position, **({"role": "assistant", "content": "", "tool_calls": calls} | fields))


def make_tool_result(position: int, id: str, **fields: Any) -> Turn:
    """Make a turn with the result of a tool call."""
    return make_turn(position, **({"role": "tool", "content": "42", "tool_call_id": id} | fields))


def believe(answer: Callable[[ModelRequest], Any]) -> Callable[[ModelRequest], Any]:
    """Return a model that answers as given, and that supports whatever it has said itself when it verifies claims."""
    said: set[str] = set()

    def answer_or_believe(ask: ModelRequest) -> Any:
        if ask.purpose == "verify":
            return ModelReply(text=answer_check(ask.messages[-1].content, said.__contains__))
        given = answer(ask)
        given = ModelReply(text=given) if isinstance(given, str) else given
        said.update(collect_strings(given.text) if isinstance(given, ModelReply) else ())
        return given

    return answer_or_believe


def propose_record(memory: Memory, record: Record) -> None:
    """Put a record into the inbox as a proposal."""
    step = PlanStep(edit=Change(before=None, after=record), why="said by the owner")
    memory.dreams.keep_plan(Plan(id="f" * 12, name="preferences", made_at=memory._clock(), proposals=(step,)))


def build_parameters(required: Sequence[str] = (), /, **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds, twenty seconds at most."""
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)
