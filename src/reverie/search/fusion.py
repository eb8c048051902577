"""Fusion of the ranking by words with the similarity of vectors. Pure functions over values."""

from __future__ import annotations

import sys
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
    """The cosines of a question with all vectors of a kind in its scopes, with their mean and deviation."""

    count: int
    mean: float
    deviation: float

    def get_cosines(self, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of those of the keys that have a vector."""


class FusionSettings(NamedTuple):
    """Coefficients of the logistic regression for the probability that a candidate answers a question.

    Nearness is the distance of a cosine from the mean over everything in the scopes, in standard deviations, which
    suits any embedder. `scripts/fit_fusion.py` fits the coefficients of records and of messages (turns of a user and an
    assistant) to the candidates of `evaluation/training`. The values are close to the fitted ones; `message` is lower,
    for the open questions. Those of talk among people (turns with the name of a speaker) were chosen on LoCoMo's
    development half, where words answer questions far more often.

    Attributes:
        words: For the relevance by words, 0 to 1.
        covered: For the share of the question's weight that the matched words of a record or message have, 0 to 1.
        near: For the nearness of a record or message.
        both: For the product of the relevance of a record or message by words and its nearness above the mean, since
            both are signs of the same.
        rule: For a rule of how things are done if the message is a request, times how likely both are, because a rule
            seldom mentions its occasions.
        lead: For the nearest of the three turns before a message, as far as both are short, because an answer seldom
            repeats its topic.
        room: Tokens of a message and a turn before it together; of a longer turn only the part that fits counts.
        message: For a message among records.
        reply: In addition for a message of the assistant, since facts are in the user's own words.
        short: Malus for a record or message without tokens, since fragments such as "Friday 13th." are near to
            everything and answer little; 0 and up.
        short_tokens: Tokens within which the malus falls to 1/e; over 0.
        near_talk: For the nearness of a turn among people. Talk resembles a question by its form, so its nearness
            is less significant.
        before: The same of the turns before it, nearest first.
        after: The same of the turns after it, nearest first.
        unsure: Least nearness of a turn among people; 0 and up.
        talk: For a turn among people, among records.
        middle: The total at which relevance is one half.
        scale: Divisor of the distance from it, over 0. At 1, good hits have relevance near 1, and recency decides
            among them.
        alone: Least contribution of nearness for a candidate without a word of the question.
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
    short: float = 3.0
    short_tokens: float = 4.0
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
    """One candidate with the results of words and vectors.

    Attributes:
        passage: The passage.
        relevance: 0 to 1, comparable between questions.
        words: Result of the ranker; None if it has no word of the question.
        vector: Contribution of its vector, as a share of the full relevance by words.
        cosine: The cosine of its vector with the question's; None without a vector.
        rule: Contribution of how likely it is a rule for what is asked to be done, as such a share.
    """

    passage: Passage
    relevance: float
    words: RankedPassage | None
    vector: float
    cosine: float | None
    rule: float = 0.0

    def list_matches(self) -> dict[str, str]:
        """Return the matched tokens, each with its token of the question."""
        return {} if self.words is None else self.words.list_matches()

    @property
    def coverage(self) -> float:
        """Share of the question's weight that the matched words and the date have; 0 to 1."""
        return 0.0 if self.words is None else self.words.coverage

    @property
    def is_literal(self) -> bool:
        """Whether it has a word of the question itself; see `RankedPassage`."""
        return self.words is not None and self.words.is_literal

    @property
    def rarest(self) -> int:
        """Number of passages with the rarest of its matched words."""
        return sys.maxsize if self.words is None else self.words.rarest

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the share by words by name, with `vector`, `cosine` and `rule`."""
        parts = {} if self.words is None else dict(self.words.parts)
        if self.cosine is not None:
            parts |= {"vector": self.vector, "cosine": self.cosine}
        if self.rule:
            parts["rule"] = self.rule
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
    """Return the candidates of words and vectors by their common relevance, best first.

    Args:
        ranked: Results of the ranker for candidates with a word of the question.
        passages: All candidates with their neighbours.
        near: The cosines of the question.
        has_words: Whether words alone have found something relevant.
        rules: How likely passages are rules for what is asked to be done, 0 to 1, by key.
        floor: Least relevance of the best one, 0 to 1. Below it nothing is relevant, unless words alone have found
            something.
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
        rule = settings.rule * rules.get(passage.key, 0.0)
        if entry is None and vector + rule < settings.alone:
            continue
        total = vector + rule + (settings.talk if is_talk else 0.0)
        if entry is not None:
            total += settings.words * entry.relevance
            if not is_talk:
                total += settings.covered * entry.coverage + settings.both * entry.relevance * max(0.0, own)
        if not is_talk:
            no_rule = 1.0 - rules.get(passage.key, 0.0)  # rules are short
            total -= settings.short * no_rule * exp(-passage.length / settings.short_tokens)
        relevance = 1.0 / (1.0 + exp((settings.middle - total) / settings.scale))
        cosine = cosines.get(passage.key)
        full = settings.words
        fused.append(FusedPassage(passage, relevance, entry, vector / full, cosine, rule / full))
    fused.sort(key=lambda entry: (-entry.relevance, -entry.passage.at, -entry.passage.key))
    return fused if fused and (has_words or fused[0].relevance >= floor) else []


Turns = Mapping[tuple[int | None, int], Passage]
"""Turns by the number of their session and their position."""


def map_turns(passages: Sequence[Passage]) -> Turns:
    """Return the turns among the passages by session and position."""
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
    """Return the largest nearness of the turns before a message, reduced if they do not fit into the room."""
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
