"""What a nightly consolidation without checks loses, with the same models.

It shows the model up to 1,000 entries, each with its id, category, tags and content. The model names
duplicates to merge and entries to delete; what it writes is saved, and the union of all that it names to
delete and all sources of its merges is deleted. Nothing is checked. Models and facts are those of the nights.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from reverie.consolidation.planning.requests import UnusableReply, parse_json, to_text, to_texts
from reverie.domain.errors import ModelError
from reverie.llm.messages import ChatMessage, ModelRequest
from tests.system.nights.models import MOODS, Actor
from tests.system.nights.simulation import Clock
from tests.system.nights.texts import Fact, Texts

MOST_ENTRIES = 1_000
CARELESS = ("good", "good", "good", "good", "drops dates", "good", "good", "good", "good", "drops half")


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What became of the facts.

    Attributes:
        nights: How many.
        facts: How many were told.
        lost: How many of them have a mark that no entry has any more, by what the models were like.
    """

    nights: int
    facts: int
    lost: dict[str, int]

    def __str__(self) -> str:
        told = ", ".join(f"{number} with {name}" for name, number in self.lost.items())
        return (
            f"Without checks (entries in, entries out, sources deleted), {self.nights} nights, "
            f"{self.facts} facts; lost for good: {told}."
        )


def nightly(*, nights: int, records: int, seed: int) -> Lost:
    """Let it run, once with a good model that is careless in one night of five, and once with all of them.

    Args:
        nights: How many.
        records: How many facts there are in the beginning.
        seed: Of what is random.
    """
    lost, told = {}, 0
    for name, moods in (
        ("a good model, careless in one night of five", CARELESS),
        ("all models in turn", tuple(MOODS)),
    ):
        lost[name], told = _lost(moods, nights=nights, records=records, seed=seed)
    return Lost(nights=nights, facts=told, lost=lost)


def _lost(moods: Sequence[str], *, nights: int, records: int, seed: int) -> tuple[int, int]:
    chance, clock = random.Random(seed), Clock()
    texts, actor = Texts(chance), Actor(chance=random.Random(seed + 1))
    facts = [fact for _ in range(records) if (fact := texts.fact(clock())).marks]
    entries = {f"{n:012x}": fact.wordings[0] for n, fact in enumerate(facts)}
    for night in range(nights):
        clock.now += timedelta(days=1)
        for fact in (*(texts.fact(clock()) for _ in range(3)), *texts.about_the_same(clock())):
            if fact.marks:
                facts.append(fact)
                entries[f"{len(facts) + 10_000:012x}"] = fact.wordings[0]
        actor.mood = moods[night % len(moods)]
        _consolidate(entries, actor, night)
    kept = "\n".join(entries.values()).lower()
    return sum(not _is_kept(fact, kept) for fact in facts), len(facts)


def _is_kept(fact: Fact, kept: str) -> bool:
    return all(mark.lower() in kept for mark in fact.marks)


def _consolidate(entries: dict[str, str], actor: Actor, night: int) -> None:
    shown = list(entries.items())[:MOST_ENTRIES]
    lines = "\n".join(
        f"{n}. NEW [{name}] (fact, general): {' '.join(text.split())}"
        for n, (name, text) in enumerate(shown, 1)
    )
    try:
        reply = actor.answer(
            ModelRequest(messages=(ChatMessage(role="user", content=lines),), purpose="merge")
        )
        answer: Any = parse_json(reply.text, keys=("merge", "archive", "toDelete"))
    except (UnusableReply, ModelError):
        return
    if not isinstance(answer, dict):
        return
    gone: Counter[str] = Counter()
    merges = answer.get("merge")
    for place, merge in enumerate(merges if isinstance(merges, list) else []):
        if isinstance(merge, dict) and (content := to_text(merge.get("content"))):
            entries[f"{(night + 1) * 100_000 + place:012x}"] = content
            gone.update(to_texts(merge.get("sources")))
    dropped = answer.get("archive") or answer.get("toDelete")
    for entry in dropped if isinstance(dropped, list) else []:
        gone.update(to_texts(entry.get("id") if isinstance(entry, dict) else entry))
    for name in gone:
        entries.pop(name, None)
