"""Final score of a hit, and the rule that decides whether a search has anything relevant at all.

The weights of the score are golemcore's (.40 relevance, .20 recency, .20 importance, .20 confidence, a bonus by kind).
The sum is multiplied by relevance, because otherwise the newest records would always rank high. A record without
relevance scores 0, and no part lowers the score.

The best hit decides whether anything is relevant. If it answers, the others may have the rest of the answer, and a
caller can cut them by `min_score`. Relevance is fitted to LoCoMo and BEAM together (see `ranking.compute_relevance`).
The floors were chosen on the same number of questions asked of memories with the answer and without it. The floor .07
refuses .33 of LoCoMo's questions asked of another conversation and .01 of those asked of their own, at a loss of .002
in recall@10; on BEAM .08 and .006. At .10 it is .44 and .024, and .12 and .006.
`docs/explanation/recall.md` has more figures.

In a small memory a weak match is seldom a coincidence, because few records compete. So the floor grows with the cube
of the number of records up to `LARGE`, as relevance grows with the cube of the evidence. Related words alone must
reach `RELATED`. Questions that need a reader, such as BEAM's abstention questions, are not recognized: all their words
are in the chat, and only the answer is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from reverie.domain.lazy_dataclass import dataclass, field
from reverie.search.query import ParsedQuery
from reverie.search.ranking import RankedPassage

TIMELESS = frozenset({"turn", "paragraph"})
"""Kinds whose score does not fall with age: turns, and paragraphs of the history."""

KIND_BONUS: Mapping[str, float] = MappingProxyType(
    {
        "constraint": 0.05,
        "anti_pattern": 0.05,
        "preference": 0.04,
        "decision": 0.04,
        "lesson": 0.03,
        "fix": 0.03,
        "project_fact": 0.02,
        "insight": 0.02,
    }
)
"""Bonus by kind: rules and decisions precede events. Other kinds have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """Weights of the parts. Together with the largest bonus they are scaled to 1.

    Attributes:
        relevance: Weight of relevance; 0 and up.
        recency: Weight of recency; 0 and up.
        importance: Weight of importance; 0 and up.
        confidence: Weight of confidence; 0 and up.
        half_life: Days after which recency is one half, over 0; infinite for no decay. golemcore: 30.
        kinds: Bonus of each kind, 0 and up; 0 for kinds that are not listed.
        all_together: The sum of the weights and the largest bonus; computed.
    """

    relevance: float = 0.40
    recency: float = 0.20
    importance: float = 0.20
    confidence: float = 0.20
    half_life: float = 30.0
    kinds: Mapping[str, float] = field(default_factory=lambda: KIND_BONUS)
    all_together: float = field(init=False)

    def __post_init__(self) -> None:
        weights = self.relevance + self.recency + self.importance + self.confidence
        object.__setattr__(self, "all_together", weights + max(self.kinds.values(), default=0.0))


DEFAULTS = ScoringSettings()


class Score(NamedTuple):
    """Score of a hit with its parts. A named tuple, because a search makes dozens.

    Attributes:
        total: 0 to 1, comparable between searches.
        relevance: 0 to 1, from the ranker.
        recency: 0 to 1.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: The bonus for the kind.
    """

    total: float
    relevance: float
    recency: float
    importance: float
    confidence: float
    kind: float

    @property
    def parts(self) -> dict[str, float]:
        """The parts by name, without the total."""
        return dict(zip(self._fields[1:], self[1:], strict=True))


def score(
    relevance: float,
    *,
    age_days: float,
    importance: float,
    confidence: float,
    kind: str,
    pinned: bool = False,
    settings: ScoringSettings = DEFAULTS,
) -> Score:
    """Return the final score of a hit.

    It is relevance times the weighted mean of the parts (see the module). A pinned record does not decay: its recency
    is 1. The recency of turns and paragraphs is always one half, so their order is that of relevance. Earlier
    measurements on conversations showed that the time of a turn does not tell whether it answers.

    Args:
        relevance: 0 to 1, from the ranker.
        age_days: Days since it was created or last changed; negative counts as 0.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: The record's kind, `turn` or `paragraph`.
        pinned: Whether it is protected from decay.
        settings: The weights.

    Example:
        >>> fresh = score(0.0, age_days=0, importance=1, confidence=1, kind="fact")
        >>> apt = score(0.8, age_days=400, importance=0.5, confidence=0.8, kind="fact")
        >>> fresh.total, round(apt.total, 2)
        (0.0, 0.44)
    """
    recency = 0.5 if kind in TIMELESS else 1.0 if pinned else 0.5 ** (max(0.0, age_days) / settings.half_life)
    bonus = settings.kinds.get(kind, 0.0)
    mean = (
        settings.relevance * relevance
        + settings.recency * recency
        + settings.importance * importance
        + settings.confidence * confidence
        + bonus
    ) / settings.all_together
    return Score(min(1.0, relevance * mean), relevance, recency, importance, confidence, bonus)


FLOOR = 0.07
"""Least relevance of the best hit in a memory that is not small. It is low, because a search that somebody asked for
should show too much rather than too little."""

LARGE = 100
"""Records from which the full floor applies. On the shipped questions with 30 facts in each memory, at 60, 100 and 150,
the answer "nothing" has a precision of .80, .94 and .96, and a recall of .23, .12 and .09."""

COVERED = 0.5
"""Share of the question's weight from which a hit is never refused, since in a very long text even a rare word has a
small score."""

RARE = 0.02
"""Largest share of passages with a rare word; a word of just a few passages is rare too."""

RARE_COVERED = 0.15
"""Share of the question's weight from which a hit with a rare word of it is never refused."""

DATED = 0.15
"""Share of the question's weight from which a hit is never refused for its date."""

RELATED = 0.003
"""Least floor if no hit has a word of the question, but only words of related meaning. On the shipped questions with 5
and 10 facts in each memory, "nothing" has a precision of .926 and .902 (at .007: .898 and .907), and a recall of .379
and .234; without this floor the recall is .288 and .196."""

_FEW = 3
_LOOKED_AT = 10


def compute_floor(records: int) -> float:
    """Return the floor for a memory with this number of records; it is lower in a small one.

    Example:
        >>> compute_floor(1_000), round(compute_floor(10), 6)
        (0.07, 7e-05)
    """
    return FLOOR * min(1.0, records / LARGE) ** 3


def apply_relevance_floor(
    ranked: Sequence[RankedPassage], query: ParsedQuery, *, passages: int = 0, floor: float = FLOOR
) -> list[RankedPassage]:
    """Return the candidates as they are, or none if nothing is relevant.

    Args:
        ranked: The candidates from `ranking.rank`, best first.
        query: The question; without usable words it has no relevant hits.
        passages: Number of passages in the scopes.
        floor: Least relevance of the best hit, 0 to 1; 0 lets everything pass.

    Example:
        >>> apply_relevance_floor([], ParsedQuery(text="anything?"))
        []
    """
    if not ranked or not query:
        return []
    first = ranked[:_LOOKED_AT]
    if not any(entry.is_literal for entry in first):
        return list(ranked) if not floor or ranked[0].relevance >= max(floor, RELATED) else []
    if ranked[0].relevance >= floor or any(entry.coverage >= COVERED for entry in first):
        return list(ranked)
    rare = max(_FEW, RARE * passages)
    is_relevant = floor < COVERED and any(
        entry.dated >= DATED or (entry.rarest <= rare and entry.coverage >= RARE_COVERED) for entry in first
    )
    return list(ranked) if is_relevant else []
