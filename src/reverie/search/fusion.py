"""Fusion of the ranking by words with the nearness of vectors.

Pure functions over values: what the ranker gave each candidate, and the cosine of each with the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from types import MappingProxyType
from typing import NamedTuple, Protocol

from reverie.domain.conversation import ROLES
from reverie.domain.passage import Passage
from reverie.search.ranking import RankedPassage

_LEAST_DEVIATION = 1e-3
_LEAD = range(1, 4)
_NO_RULES: Mapping[int, float] = MappingProxyType({})


class QueryCosines(Protocol):
    """The cosines of a question with all vectors of a kind in its scopes, and how they are spread."""

    count: int
    mean: float
    deviation: float

    def get_cosines(self, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of those of the keys that have a vector."""


class FusionSettings(NamedTuple):
    """Coefficients of the logistic regression that tells how likely a candidate answers a question.

    A cosine is taken as its distance from the mean over everything in the scopes, in standard deviations, which holds
    for any embedder. `scripts/fit_fusion.py` fits the coefficients of records and of messages (turns of a user and an
    assistant) to the candidates of `evaluation/training`. They are near those; `message` is lower, for the open
    questions. Those of talk among people (turns with the name of a speaker) were chosen on LoCoMo's development half,
    whose questions words answer far more often.

    Attributes:
        words: For the relevance by words, 0 to 1.
        covered: For the share of the question's weight that the matched words of a record or message have, 0 to 1.
        near: For the nearness of a record or message.
        both: For the product of the relevance of a record or message by words and its nearness above the mean: two
            signs that say the same.
        rule: For a rule of how something is done where that is asked to be done, times how likely it is one: it seldom
            says what it will be needed for.
        lead: For the nearest of the three turns before a message, as far as both are short: an answer says little of
            what it was about.
        room: Tokens that a message and what leads to it may have together; of what is longer the part counts that fits.
        message: For a message among records.
        reply: For a message of the assistant, besides: what a user told stands in the user's own words.
        near_talk: For the nearness of a turn among people. Talk resembles a question by its form, so its nearness
            says less.
        before: The same of the turns before it, nearest first.
        after: The same of the turns after it, nearest first.
        unsure: What the nearness of a turn among people has to exceed to count; 0 and up.
        talk: For a turn among people, among records.
        middle: The sum of all at which relevance is one half.
        scale: What the distance from it is divided by, over 0. At 1, good hits have relevance near 1, and recency
            decides among them.
        alone: What the nearness of a candidate without a word of the question has to count for, at least.
    """

    words: float = 8.0
    covered: float = 3.0
    near: float = 2.2
    both: float = -1.75
    rule: float = 6.0
    lead: float = 1.4
    room: int = 30
    message: float = -2.9
    reply: float = -1.8
    near_talk: float = 0.45
    before: tuple[float, ...] = (0.18, 0.09, 0.05)
    after: tuple[float, ...] = (0.11, 0.05)
    unsure: float = 0.25
    talk: float = 2.0
    middle: float = 6.5
    scale: float = 2.0
    alone: float = 1.1


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
    rules: Mapping[int, float] = _NO_RULES,
    floor: float,
    settings: FusionSettings = DEFAULTS,
) -> list[FusedPassage]:
    """Order the candidates of both sides by one relevance, best first.

    Args:
        ranked: What the ranker gave those that have a word of the question.
        passages: All candidates with their neighbours.
        near: The cosines of the question.
        has_words: Whether words alone have found something relevant.
        rules: How likely passages are rules for what is asked to be done, 0 to 1, by key.
        floor: The least relevance of the best one, 0 to 1; below it nothing is relevant, unless words alone
            have found something.
        settings: The constants.
    """
    words = {entry.key: entry for entry in ranked}
    cosines = near.get_cosines([passage.key for passage in passages])
    nearness = standardize(cosines, near)
    turns = map_turns(passages)
    around = [(-i, weight) for i, weight in enumerate(settings.before, 1)]
    around += [(i, weight) for i, weight in enumerate(settings.after, 1)]
    fused = []
    for passage in passages:
        entry = words.get(passage.key)
        own = nearness.get(passage.key, 0.0)
        thread = passage.thread
        is_talk = thread is not None and passage.speaker not in ROLES
        if is_talk:
            beside = 0.0
            for offset, weight in around:
                if (turn := turns.get((thread, passage.position + offset))) is not None:
                    beside += weight * nearness.get(turn.key, 0.0)
            vector = max(0.0, settings.near_talk * own + beside - settings.unsure)
        else:
            vector = settings.near * own
            if thread is not None:
                vector += settings.lead * compute_lead(passage, turns, nearness, settings.room)
                vector += settings.message + (settings.reply if passage.speaker == "assistant" else 0.0)
        vector += settings.rule * rules.get(passage.key, 0.0)
        if entry is None and vector < settings.alone:
            continue
        total = vector + (settings.talk if is_talk else 0.0)
        if entry is not None:
            total += settings.words * entry.relevance
            if not is_talk:
                total += settings.covered * entry.coverage + settings.both * entry.relevance * max(0.0, own)
        relevance = 1.0 / (1.0 + exp((settings.middle - total) / settings.scale))
        cosine = cosines.get(passage.key)
        fused.append(
            (passage.at, FusedPassage(passage.key, relevance, entry, vector / settings.words, cosine))
        )
    fused.sort(key=lambda entry: (-entry[1].relevance, -entry[0], -entry[1].key))
    if not fused or not (has_words or fused[0][1].relevance >= floor):
        return []
    return [entry for _, entry in fused]


Turns = Mapping[tuple[int | None, int], Passage]
"""Turns by the number of their session and their place in it."""


def map_turns(passages: Sequence[Passage]) -> Turns:
    """Return those of the passages that are turns, by their place."""
    return {(each.thread, each.position): each for each in passages if each.thread is not None}


def standardize(cosines: Mapping[int, float], near: QueryCosines) -> dict[int, float]:
    """Return the distance of each cosine from the mean, in standard deviations."""
    deviation = max(near.deviation, _LEAST_DEVIATION)
    return {key: (cosine - near.mean) / deviation for key, cosine in cosines.items()}


def compute_lead(
    message: Passage,
    turns: Turns,
    nearness: Mapping[int, float],
    room: int,
) -> float:
    """Return the nearness of what a message follows, as far as it fits into the room beside the message."""
    left = max(0, room - message.length)
    before = (turns.get((message.thread, message.position - offset)) for offset in _LEAD)
    return max(
        (
            nearness.get(turn.key, 0.0) * min(1.0, left / max(1, turn.length))
            for turn in before
            if turn is not None
        ),
        default=0.0,
    )
