"""Fusion of the ranking by words with the nearness of vectors.

Pure functions over values: what the ranker gave each candidate, and the cosine of each with the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from reverie.domain.passage import Passage
from reverie.search.ranking import RankedPassage

__all__ = ["FusedPassage", "QueryCosines", "fuse"]


class QueryCosines(Protocol):
    """The cosines of a question with all vectors of a kind in its scopes, and how they are spread."""

    count: int
    mean: float
    deviation: float

    def get_cosines(self, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of those of the keys that have a vector."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionSettings:
    """Constants of fusion.

    Attributes:
        weight: What the vector side counts for.
    """

    weight: float = 0.15


DEFAULTS = FusionSettings()


class FusedPassage(NamedTuple):
    """One candidate with what both sides gave it.

    Attributes:
        key: The passage's.
        relevance: 0 to 1, comparable between questions.
        words: What the ranker gave it; None if it has no word of the question.
        vector: What the nearness of its vector adds to the relevance.
        cosine: The cosine of its vector with the question's; None if it has none yet.
    """

    key: int
    relevance: float
    words: RankedPassage | None
    vector: float
    cosine: float | None

    @property
    def matched(self) -> tuple[str, ...]:
        """Tokens of the question found in it."""
        return () if self.words is None else self.words.matched

    @property
    def stands_for(self) -> Mapping[str, str]:
        """Matched tokens that stand for a token of the question, and that token."""
        return {} if self.words is None else self.words.stands_for

    @property
    def own_weights(self) -> dict[int, float]:
        """Weights of the terms found in its own text, by their number."""
        return {} if self.words is None else self.words.own_weights

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the share by name, with `vector` for what the nearness adds and its `cosine`."""
        parts = {} if self.words is None else dict(self.words.parts)
        if self.cosine is not None:
            parts |= {"vector": self.vector, "cosine": self.cosine}
        return parts


def fuse(
    ranked: Sequence[RankedPassage],
    passages: Sequence[Passage],
    near: QueryCosines,
    *,
    floor: float,
    settings: FusionSettings = DEFAULTS,
) -> list[FusedPassage]:
    """Order the candidates of both sides by one relevance, best first.

    Args:
        ranked: What the ranker gave those that have a word of the question.
        passages: All candidates with their neighbours.
        near: The cosines of the question.
        floor: The least relevance of the best one, 0 to 1; below it nothing is relevant.
        settings: The constants.
    """
    words = {entry.key: entry for entry in ranked}
    cosines = near.get_cosines([passage.key for passage in passages])
    deviation = max(near.deviation, 1e-6)
    fused = []
    for key in {**words, **cosines}:
        own = words.get(key)
        cosine = cosines.get(key)
        z = 0.0 if cosine is None else max(0.0, (cosine - near.mean) / deviation)
        relevance = 0.0 if own is None else own.relevance
        vector = settings.weight * z * (1 - relevance)
        fused.append(FusedPassage(key, min(1.0, relevance + vector), own, vector, cosine))
    fused.sort(key=lambda entry: (-entry.relevance, -entry.key))
    return fused if fused and fused[0].relevance >= floor else []
