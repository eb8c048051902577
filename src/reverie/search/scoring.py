"""Final score of a hit: relevance first; recency, importance and confidence decide among the relevant.

The weights are golemcore's (.40 relevance, .20 recency, .20 importance, .20 confidence, a bonus by kind). The sum is
multiplied by relevance, because a sum alone ranks whatever was just written above what was asked for. A record
without relevance scores 0, and no part lowers the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from reverie.domain.dataclass import dataclass, field

TIMELESS = frozenset({"turn", "paragraph"})
"""Kinds that do not lose relevance with age: turns, and paragraphs of the history."""

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
"""Addition by kind: rules and decisions come before events. Other kinds add
nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """The weights of the parts; together with the largest kind bonus they are brought to 1.

    Attributes:
        relevance: Weight of relevance; 0 and up.
        recency: Weight of recency; 0 and up.
        importance: Weight of importance; 0 and up.
        confidence: Weight of confidence; 0 and up.
        half_life: After how many days recency is one half, over 0; infinite for no decay. golemcore: 30.
        kinds: What a kind adds, 0 and up; a kind not listed adds nothing.
        all_together: The sum of the weights and the largest bonus; worked out.
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
    """A hit's score and what it was made of. A named tuple, because a search makes dozens.

    Attributes:
        total: 0 to 1, comparable between searches.
        relevance: 0 to 1, as the ranker gave it.
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
        """All but the total, by name."""
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

    Relevance times the weighted mean of the parts (see the module). A pinned record does not decay: its
    recency is 1. Turns have none: when something was said does not tell whether it answers (known from
    earlier measurements on conversations, not repeated here), so their recency stands at one half and
    their order is the order of relevance. So it is with paragraphs, which tell of conversations.

    Args:
        relevance: 0 to 1, as the ranker gives it.
        age_days: Days since it was created or last changed; negative counts as 0.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: The record's kind, `turn` or `paragraph`.
        pinned: Whether it is kept from decay.
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
