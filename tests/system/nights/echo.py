"""The echo: an agent that saves every day what it was shown makes no more records of it.

One system of this kind grew from 290 records to 828 in 24 days, because each save of what stood there
already, in a slightly different form, made another one. Other wordings are near-repeats, which are not looked for
here, and beside code or an address a full stop counts. What holds only from one day to another is left out
here: saved again without these days it says more than it did, and becomes a record of its own, once.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from reverie import Memory
from reverie.context import render
from reverie.search.hits import Hit
from reverie.settings import Settings
from tests.system.nights.simulation import Clock
from tests.system.nights.texts import Texts

FORMS: dict[str, Callable[[Hit], str]] = {
    "as it stands": lambda hit: hit.content,
    "with a full stop": lambda hit: hit.content if re.search("://|`", hit.content) else f"{hit.content}.",
    "in small letters first": lambda hit: hit.content[:1].lower() + hit.content[1:],
    "with other spaces": lambda hit: "  ".join(hit.content.split(" ")),
    "as the line of the prompt": render.render_hit,
}


@dataclass(frozen=True, kw_only=True)
class Echo:
    """What became of the memory.

    Attributes:
        days: How many.
        before: Live records before the first.
        sizes: Live records after each.
        saved: How often something shown was saved again.
        outcomes: What came of these saves.
    """

    days: int
    before: int
    sizes: tuple[int, ...]
    saved: int
    outcomes: Counter[str]

    @property
    def holds(self) -> bool:
        """Whether the memory is as large as it was, on every day."""
        return self.saved > 0 and set(self.sizes) == {self.before}

    def __str__(self) -> str:
        return (
            f"The echo: {self.before} records, {self.days} days, {self.saved:,} saves of what was shown: "
            f"{self.sizes[-1]} records (most {max(self.sizes)}); {self.outcomes['reinforced']:,} reinforced."
        )


def echoed(folder: Path, *, days: int, records: int, seed: int) -> Echo:
    """Let an agent save and say again, every day, what it is shown.

    Args:
        folder: Where the memory shall be.
        days: How many.
        records: How many there are in the beginning.
        seed: Of what is random.
    """
    chance, clock = random.Random(seed), Clock()
    texts = Texts(chance)
    outcomes: Counter[str] = Counter()
    sizes = []
    with Memory.open(folder, clock=clock, settings=Settings(files="none")) as memory:
        facts = []
        while len(facts) < records:
            fact = texts.fact(clock())
            if fact.given.get("kind") and not {"valid_from"} & fact.given.keys() and not fact.given["scope"]:
                facts.append(fact)
        memory.save_many([fact.said() for fact in facts])
        before = memory.admin.stats().records
        for day in range(days):
            session = memory.session(f"echo:{day}")
            for n in range(4):
                question = f"What about {chance.choice(facts).wordings[-1]}?"
                pack = session.context(question)
                session.add("user", question)
                told = [hit for hit in pack.hits if hit.record is not None]
                for place, hit in enumerate(told):
                    form = list(FORMS.values())[(day + n + place) % len(FORMS)]
                    saved = memory.save(form(hit), origin="agent", draft=day % 2 == 1)
                    outcomes[saved.outcome] += 1
                words = ". ".join(hit.content for hit in told[:3])
                session.add("assistant", f"As you decided, {words}." if words else "I do not know.")
                clock.now += timedelta(minutes=1)
            clock.now += timedelta(hours=12)
            memory.dreams.run()
            sizes.append(memory.admin.stats().records)
            clock.now += timedelta(hours=12)
    return Echo(days=days, before=before, sizes=tuple(sizes), saved=outcomes.total(), outcomes=outcomes)
