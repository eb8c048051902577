"""Thirty days of saving and of nightly consolidation, on a real folder: nothing grows, and nothing is lost.

Two failures of systems of this kind. One made a near-duplicate at every save: facts that were said again in
other words became records again, and the memory grew from day to day. In the other a model consolidated at
night, what it wrote left things out, and the records it had read were deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from reverie import Memory
from reverie.domain.text.same_text import fold_text
from reverie.llm import model_from_function
from reverie.llm.protocol import ModelRequest
from tests.factories import MovableClock

DAYS = 30
FACTS = 40
NEAR_MISSES = 15
PARAPHRASED = 20
_ID = re.compile(r"\b[0-9a-f]{12}\b")


class MergePair(NamedTuple):
    """Two texts of the labelled pairs, with what a reader says of them."""

    label: str
    old: str
    new: str


def read_pairs(name: str) -> list[MergePair]:
    lines = (Path(__file__).parents[2] / "evaluation" / name).read_text("utf-8").splitlines()
    return [MergePair(each["label"], each["old"], each["new"]) for each in map(json.loads, lines)]


def unrelated(pairs: Sequence[MergePair]) -> list[MergePair]:
    """The pairs that share no text with one before them."""
    seen: set[str] = set()
    found = []
    for pair in pairs:
        texts = {" ".join(text.lower().split()) for text in (pair.old, pair.new)}
        if seen.isdisjoint(texts):
            found.append(pair)
        seen |= texts
    return found


def spread(pairs: Sequence[MergePair], count: int) -> list[MergePair]:
    """So many of them, from all over the set."""
    assert len(pairs) >= count
    return [pairs[n * len(pairs) // count] for n in range(count)]


PAIRS = unrelated(
    [
        pair
        for name in ("merge-pairs.jsonl", "merge-pairs-heldout.jsonl")
        for pair in read_pairs(name)
        if len(pair.old) < 300
    ]
)
REPEATED = [
    pair._replace(new=f"{pair.old.rstrip('.')}  ")
    for pair in PAIRS
    if pair.label == "repeats" and "\n" not in pair.old
]
REWORDED = [pair for pair in PAIRS if pair.label == "repeats" and fold_text(pair.old) != fold_text(pair.new)]
OTHERS = [pair for pair in PAIRS if pair.label == "differs"]


def say(memory: Memory, pairs: Sequence[MergePair], day: int) -> list[str]:
    """Save each fact in the wording of the day."""
    return [memory.save(pair.old if (day + n) % 2 else pair.new).outcome for n, pair in enumerate(pairs)]


def live(memory: Memory) -> list[str]:
    return sorted(record.content for record in memory.list(limit=None))


@pytest.mark.slow
def test_facts_that_are_said_again_every_day_do_not_become_more(tmp_path: Path, clock: MovableClock) -> None:
    facts, near_misses = spread(REPEATED, FACTS), spread(OTHERS, NEAR_MISSES)
    with Memory.open(tmp_path / "memory", clock=clock) as memory:
        sizes = []
        for day in range(DAYS):
            outcomes = say(memory, facts, day)
            assert set(outcomes) <= ({"created"} if day == 0 else {"reinforced"})
            for pair in near_misses:
                memory.save(pair.old)
                memory.save(pair.new)
            sizes.append(len(live(memory)))
            clock.move(days=1)
        assert sizes == [FACTS + 2 * NEAR_MISSES] * DAYS
        seen = {record.content: record.seen_count for record in memory.list(limit=None)}
        assert set(seen.values()) == {DAYS}
        assert {text for pair in near_misses for text in (pair.old, pair.new)} <= set(seen)
        assert memory.admin.check() == []


@pytest.mark.slow
def test_even_wordings_that_only_a_reader_would_fold_are_each_kept_once(
    tmp_path: Path, clock: MovableClock
) -> None:
    facts = spread(REWORDED, PARAPHRASED)
    with Memory.open(tmp_path / "memory", clock=clock) as memory:
        sizes = []
        for day in range(DAYS):
            say(memory, facts, day)
            sizes.append(len(live(memory)))
            clock.move(days=1)
    assert sizes == [PARAPHRASED] + [2 * PARAPHRASED] * (DAYS - 1)


def careless(ask: ModelRequest) -> str:
    """A model that sums up whatever it is shown, and asks for what it has read to be thrown away."""
    ids = list(dict.fromkeys(_ID.findall(ask.messages[-1].content)))
    groups = [ids[n : n + 3] for n in range(0, len(ids), 3)]
    return json.dumps(
        {
            "merge": [
                {
                    "sources": group,
                    "content": "The user has several preferences and projects.",
                    "why": "alike",
                }
                for group in groups
                if len(group) > 1
            ],
            "archive": [{"id": name, "why": "merged"} for group in groups if group[1:] for name in group],
            "refile": [],
            "anti_patterns": [],
        }
    )


@pytest.mark.slow
def test_a_careless_model_every_night_takes_nothing_away(tmp_path: Path, clock: MovableClock) -> None:
    facts, near_misses = spread(REPEATED, FACTS), spread(OTHERS, NEAR_MISSES)
    asked: list[ModelRequest] = []

    def model(ask: ModelRequest) -> str:
        asked.append(ask)
        return careless(ask)

    with Memory.open(tmp_path / "memory", clock=clock, model=model_from_function(model)) as memory:
        said: list[str] = []
        for day in range(DAYS):
            say(memory, facts[: FACTS * (day + 1) // DAYS], day)
            pair = near_misses[day % NEAR_MISSES]
            memory.save(pair.old)
            memory.save(pair.new)
            said = sorted({*said, *live(memory)})
            clock.move(hours=12)
            memory.dreams.run()
            assert live(memory) == said
            clock.move(hours=12)
        assert len(said) == FACTS + 2 * NEAR_MISSES
        assert memory.list(archived=True, limit=None) == []
        assert len(asked) >= DAYS
