"""Nights over a memory: days that bring something, a model for each night, the account held against both."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from reverie import EVERY_SCOPE, Memory
from reverie.consolidation.gatherer import DREAM
from reverie.consolidation.inbox import PassOutcome
from reverie.domain.filter import Filter
from reverie.llm.protocol import ModelRequest
from reverie.settings import Settings
from tests.system.nights import models
from tests.system.nights.account import Account
from tests.system.nights.models import Actor
from tests.system.nights.texts import Fact, Texts

MOST_TOKENS = 30_000
"""Tokens of one question at most, as the passes promise it with room for the prompt itself."""

MOST_ASKS = 60
"""Questions of one night at most."""

_LIFE = timedelta(hours=12)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is simulated.

    Attributes:
        nights: How many.
        records: How many records there are before the first.
        arrivals: How many new facts a day brings, about.
        seed: Of what is random.
        files: Whether the readable files are written too.
        dear_every: After how many nights everything is compared.
        undo_every: After how many nights one is taken back and made again.
        learn: Whether rules learn from conversations too, so that little is left for the model.
    """

    nights: int
    records: int = 500
    arrivals: int = 3
    seed: int = 1
    files: bool = False
    dear_every: int = 50
    undo_every: int = 7
    learn: bool = True


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = datetime(2025, 1, 1, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Simulation:
    """A memory in a folder, and what happens to it day and night.

    Attributes:
        plan: What is simulated.
        folder: Where the memory is: a folder, or the URL of one in a database.
    """

    plan: Plan
    folder: Path | str
    index_cache: Path | None = None
    account: Account = field(default_factory=Account)
    refused: Counter[str] = field(default_factory=Counter)
    moods: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.plan.seed)
        self._texts = Texts(self._chance)
        self._actor = Actor(chance=random.Random(self.plan.seed + 1))
        self._clock = Clock()
        numbers = count(1)
        self._memory = Memory.open(
            self.folder,
            clock=self._clock,
            new_id=lambda: f"{next(numbers):012x}",
            settings=Settings(
                files=self.plan.files,
                learn=self.plan.learn,
                compaction_tokens=12_000,
                memory_window=16,
                index_cache=None if self.index_cache is None else str(self.index_cache),
            ),
            model=self._actor,
        )
        self._facts: list[Fact] = []
        self._again: list[Fact] = []
        self._waiting: list[Fact] = []

    @property
    def memory(self) -> Memory:
        """The memory."""
        return self._memory

    def run(self) -> None:
        """All of it."""
        with self._memory:
            self._save([self._texts.fact(self._clock()) for _ in range(self.plan.records)])
            self.account.follow(self._store)
            for night in range(1, self.plan.nights + 1):
                self.account.night, self.account.mood = night, "(day)"
                self._day(night)
                self.account.follow(self._store)
                self._clock.now += _LIFE
                self._night(night)
                self._clock.now += _LIFE
                self.sizes.append(self.account.live)
                if night % self.plan.dear_every == 0 or night == self.plan.nights:
                    self._examine()

    @property
    def _store(self) -> Any:
        return self._memory._store

    # -- by day ------------------------------------------------------------------------------------------

    def _save(self, facts: Sequence[Fact], *, wording: int = 0) -> None:
        groups: dict[str, list[Fact]] = {}
        for fact in facts:
            groups.setdefault(fact.given.get("scope", ""), []).append(fact)
        for scope, group in groups.items():
            saved = self._memory.scoped(scope).save_many([fact.said(wording) for fact in group])
            for fact, each in zip(group, saved, strict=True):
                self.account.was_told(fact, each.record)
                self.counts[each.outcome] += 1
        if wording == 0:
            self._facts += facts

    def _day(self, day: int) -> None:
        chance, now = self._chance, self._clock()
        news = [
            self._texts.fact(now)
            for _ in range(chance.randint(self.plan.arrivals - 1, self.plan.arrivals + 1))
        ]
        one, two = self._texts.about_the_same(now)
        news.append(one)
        self._save([*self._waiting, *news])
        self._waiting = [two]
        if day % 5 == 0:
            self._save([self._texts.rough(now)])
        known = chance.sample(self._facts, min(4, len(self._facts)))
        self._save(known, wording=1)
        self._save(chance.sample(self._facts, 2), wording=2)
        session = self._memory.session(f"chat:{day // 4 if day % 3 else 'long'}")
        for turn in self._texts.talk(day):
            session.add_many([turn])
            self._clock.now += timedelta(seconds=20)

    # -- by night ----------------------------------------------------------------------------------------

    def _night(self, night: int) -> None:
        mood = self._mood(night)
        self._actor.mood = self.account.mood = mood
        self.moods[mood] += 1
        is_undone = night % self.plan.undo_every == 0
        before = self._state() if is_undone else {}
        start = self._store.sequence()
        cursors = self._cursors()
        outcomes = [*self._memory.dreams.run_due().outcomes]
        if all(each.name not in DREAM for each in outcomes):
            outcomes += self._memory.dreams.run().outcomes
        self._count(outcomes)
        self._check_asks()
        self._check_cursors(outcomes, cursors)
        self.account.follow(self._store)
        if is_undone:
            self._take_back(start, before)

    def _mood(self, night: int) -> str:
        """Every second night one that nobody would wish for in turn; else by chance, a good one as often."""
        names = list(models.MOODS)
        if night % 2:
            return names[(night // 2) % len(names)]
        return self._chance.choice(models.GOOD if self._chance.random() < 0.4 else names)

    def _count(self, outcomes: Sequence[PassOutcome]) -> None:
        for outcome in outcomes:
            for refusal in outcome.plan.refused:
                self.refused[re.sub(r"\b\w*\d\w*\b|'.*?'|:.*", "…", refusal.why)[:60]] += 1

    def _check_asks(self) -> None:
        asked, self._actor.asked = self._actor.asked, []
        self.account.expect(len(asked) <= MOST_ASKS, "cost is bounded", f"{len(asked)} questions")
        for ask in asked:
            size = sum(len(message.content) for message in ask.messages) // 4
            self.account.expect(size <= MOST_TOKENS, "cost is bounded", f"{ask.purpose}: {size} tokens")
            self._check_scope(ask)

    def _check_scope(self, ask: ModelRequest) -> None:
        if ask.purpose == "tidy":
            shown = (self.account.records.get(name) for name in models.ids_in(ask))
            scopes = {record.scope for record in shown if record is not None}
            self.account.expect(len(scopes) <= 1, "scopes never mix", f"a question about {sorted(scopes)}")

    def _cursors(self) -> Mapping[str, str | None]:
        cursors = {name: self._store.cursor(f"dream.{name}.sequence") for name in DREAM}
        return cursors | {"tidy, what was left": self._store.cursor("tidy.left")}

    def _check_cursors(self, outcomes: Sequence[PassOutcome], before: Mapping[str, str | None]) -> None:
        after = self._cursors()
        for outcome in outcomes:
            if outcome.name in DREAM and outcome.state == "failed":
                mine = [name for name in before if name.startswith(outcome.name)]
                same = all(before[name] == after[name] for name in mine)
                self.account.expect(same, "the cursor waits for success", outcome.name)

    # -- taking back -------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Everything that undo is about."""
        return {
            "records": {record.id: record for record in self._store.find(Filter(archived=None))},
            "pages": list(self._store.pages()),
            "history": list(self._store.paragraphs(page="HISTORY.md")),
            "sessions": {each.state.id: (each.state, each.turns) for each in self._store.sessions()},
        }

    def _take_back(self, start: int, before: Mapping[str, Any]) -> None:
        """Undo all changes since `start` and compare, then make them again by undoing that, and compare again."""
        after = self._state()
        batches = dict.fromkeys(row.batch for row in self._store.journal(after=start, limit=10_000))
        undone = [self._memory.history.undo(batch=batch) for batch in reversed(batches)]
        self._differ(before, self._state(), "every cycle can be undone")
        for each in reversed(undone):
            if each.rows:
                self._memory.history.undo(batch=each.rows[0].batch)
        self._differ(after, self._state(), "an undo can be undone")
        self.counts["cycles undone and made again"] += 1
        self.counts["changes taken back"] += sum(len(each.changes) for each in undone)
        self.account.sequence = self._store.sequence()

    def _differ(self, wanted: Mapping[str, Any], found: Mapping[str, Any], rule: str) -> None:
        for name, value in wanted.items():
            self.account.expect(value == found[name], rule, f"{name} are not what they were")

    # -- now and then ------------------------------------------------------------------------------------

    def _examine(self) -> None:
        self.account.compare(self._store)
        everybody = self._memory.scoped(EVERY_SCOPE)
        self.account.recall(lambda text: everybody.search(text, limit=30), at_most=100)
        found = self._memory.admin.doctor().findings
        self.counts["looks of the doctor"] += 1
        for finding in found:
            self.account.fault("the doctor finds nothing", str(finding))
