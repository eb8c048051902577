"""Final score of a hit by relevance, recency, importance, confidence and kind.

The weights are golemcore's (.40 relevance, .20 recency, .20 importance, .20 confidence, a bonus by kind). The sum is
multiplied by relevance, because otherwise the newest records would always rank high. A record without relevance
scores 0, and no part lowers the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

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
        return {
            "relevance": self.relevance,
            "recency": self.recency,
            "importance": self.importance,
            "confidence": self.confidence,
            "kind": self.kind,
        }


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
    fading = 1.0 if pinned else 0.5 ** (max(0.0, age_days) / settings.half_life)
    recency = 0.5 if kind in TIMELESS else fading
    bonus = settings.kinds.get(kind, 0.0)
    mean = (
        settings.relevance * relevance
        + settings.recency * recency
        + settings.importance * importance
        + settings.confidence * confidence
        + bonus
    ) / settings.all_together
    return Score(min(1.0, relevance * mean), relevance, recency, importance, confidence, bonus)
