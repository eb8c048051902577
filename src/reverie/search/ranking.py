"""Exact ranking of the candidates of every engine.

The base is BM25 (Robertson and Zaragoza 2009, idf as in Lucene). These signals are added, each of which was measured
(see `RankingSettings`):

* the best part of a long record, so that its length does not hide it;
* adjacent words: a pair counts extra, and two words written as one count as both;
* for turns, the turns just before and after. A turn of a chat is often a fragment, and the words of the question are in
  the turn that it replies to. A long turn takes in nothing;
* the rest of the session, a little;
* the date in the question, compared with that of the record, turn or paragraph;
* the speaker: a person named in the question, or the user for "my";
* a time or a number if the question wants one; less for turns that only ask, and for very short ones.

The index finds candidates. `scoring` decides whether anything is relevant, and adds recency and importance.

Rejected after measuring, because they changed nothing or only one collection: coverage of the question, words
near each other, prefixes of words, log instead of saturation, weights by place in the question, names for
"who", a malus for the neighbours of a hit, and one for the first turn of a session (at .7, first hits of the
conversations of `evaluation/training` gain .05, but LoCoMo loses .018 and BEAM .012).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import mul
from types import MappingProxyType
from typing import NamedTuple

from reverie.domain.passage import Passage
from reverie.domain.record import STANDING
from reverie.domain.text.tokenizer import pack
from reverie.search.dates import Closeness
from reverie.search.query import ParsedQuery, QueryTerm

USER = "user"
ASSISTANT = "assistant"
"""The speaker of turns whose user has no name."""

_OTHER_WORDS = ("clip", "related")
"""Reasons of alternatives that may be another word, so that their rarity is no evidence."""


class RankingSettings(NamedTuple):
    """Constants of the ranker, the same for all texts.

    The defaults are round numbers near the common optimum of recall@10 of turns on LoCoMo's development half (.846) and
    on ten BEAM chats (.561), and of nDCG@10 on Cranfield (.400). A change of one constant by a tenth to a third moves
    LoCoMo by less than .01 and BEAM, which has 179 questions, by less than .02. The constants were chosen by these
    figures in some thousand trials, so expect less on other conversations. The figures of a constant are the losses
    without it.

    Attributes:
        k1: Saturation of repeated words; 0 and up. At 1.5: BEAM .007, Cranfield .005; at 2.5: BEAM
            .002, LoCoMo .001, and recall@5 on `evaluation/training` .002.
        b: Normalization by length; 0 to 1. At .5: LoCoMo .006, BEAM .022.
        long: Tokens from which a record that is also longer than twice the mean may rank as its best part of half as
            many tokens; over 1. A part counts as a text of twice the mean length; as one of the mean,
            recall@5 of the shipped questions falls by .005.
        background: Number of virtual passages that are added to the collection; 0 and up. They have the common words
            of the language as often as all texts, and no others. Otherwise the one known word in a memory of five
            records would have no weight beside an unknown one. Large memories are hardly affected.
        pair: Weight of two adjacent words of the question, as a share of the rarer one's; 0 and up.
            BEAM .011, LoCoMo -.002.
        before: Weights of the words of the turns before, nearest first; each 0 to 1. Without any context:
            LoCoMo .123, BEAM .037. With six turns before: .017 and .039.
        after: Weights of the words of the turns after, nearest first; each 0 to 1.
        enough: Tokens from which a turn takes in nothing; over 0. Without this limit long neighbours
            dominate short messages: BEAM .052.
        taken_most: Most mentions of a word that all neighbours together count for; 0 and up. LoCoMo .006,
            BEAM .013.
        taken_length: Share of the neighbours' length that counts as the turn's own; 0 to 1. LoCoMo
            .018.
        session: Share of the best score in a session that each of its turns gets; 0 to 1. LoCoMo .007, BEAM
            .008.
        date: Weight of the date named in the question, as a share of an unknown word's; 0 and up. LoCoMo
            .020.
        date_written: Share of it for a record that was saved on that day and does not name it; 0 to 1.
        date_next: Bonus for a text with a future day, larger for a sooner one, if the question asks for the next
            event; as a share of all its words' weight; 0 and up.
        date_before: Days in which the bonus falls to 1/e for turns before the date; over 0.
        date_after: The same for turns after it, which report what happened; over 0.
        elsewhere: Further factor for turns of conversations in which that person does not speak; 0 to 1.
            Nothing within one conversation; with five LoCoMo conversations in one memory .036.
        other_speaker: Factor for turns of others than the person named in the question; 0 to 1. LoCoMo .014.
        not_the_user: Factor for turns of others than the user for a question in the first person ("my"); 0
            to 1. BEAM .093.
        asking: Factor for a turn with a question, if it is shorter than `enough`; 0 to 1. LoCoMo .004.
        reply: Factor for an assistant's turn without a word of the question, after a user's turn that asks nothing; 0
            to 1. It seldom answers, such as "Understood.".
        no_time: Factor for turns without a time if the question wants one ("when"); 0 to 1. With the next:
            LoCoMo .006.
        no_number: Factor for turns without a number if it wants one ("how many"); 0 to 1.
        short: Malus for a turn without content words; it falls with e to the -words/`short_words`; 0 to 1. LoCoMo
            .020, BEAM -.012.
        short_words: Number of content words; over 0.
        rule: Bonus for preferences and constraints if the message is a request, since a rule seldom mentions its
            occasions; as a share of all words' weight; 0 and up.
    """

    k1: float = 2.0
    b: float = 0.8
    long: int = 120
    background: int = 100
    pair: float = 0.3
    before: tuple[float, ...] = (0.75, 0.5, 0.25)
    after: tuple[float, ...] = (0.3, 0.225, 0.15, 0.075)
    enough: int = 80
    taken_most: float = 1.0
    taken_length: float = 0.4
    session: float = 0.15
    date: float = 1.2
    date_written: float = 0.8
    date_next: float = 0.4
    date_before: float = 1.0
    date_after: float = 15.0
    other_speaker: float = 0.83
    elsewhere: float = 0.5
    not_the_user: float = 0.6
    asking: float = 0.85
    reply: float = 0.4
    no_time: float = 0.85
    no_number: float = 0.9
    short: float = 0.6
    short_words: float = 8.0
    rule: float = 0.3


DEFAULTS = RankingSettings()


class TermStatistics(NamedTuple):
    """Counts over everything that the caller's scope can see.

    Attributes:
        passages: Number of passages.
        mean_length: Their mean length in tokens.
        frequencies: Number of passages with each token of the question; 0 for tokens that are not listed.
        common: Share of all texts of the language with each token of the question, 0 to 1; 0 for tokens that are not
            listed.
    """

    passages: int
    mean_length: float
    frequencies: Mapping[str, int] = MappingProxyType({})
    common: Mapping[str, float] = MappingProxyType({})


class RankedPassage(NamedTuple):
    """One candidate with the reason for its rank, which is computed on demand: most hits are never shown.

    Attributes:
        key: Key of the passage.
        relevance: 0 to 1, comparable between questions; see `compute_relevance`.
        share: The score as a share of the attainable one; 1 is a text of mean length with each word of the question
            once.
        reason: The scored candidate.
    """

    key: int
    relevance: float
    share: float
    reason: _Candidate

    def list_matches(self) -> dict[str, str]:
        """Return the tokens of the question, or alternatives, in it or, for a turn, in its neighbours.

        Each has its token of the question.
        """
        text, scale = self.reason.passage.terms, self.reason.scale
        matches = {}
        for i in self.reason.list_matched_terms():
            _, token, needle = scale.needles[i]
            matches[token if needle in text else _find_alternative(scale.terms[i], text)] = token
        return matches

    @property
    def coverage(self) -> float:
        """Share of the question's weight that the matched words and the date have; 0 to 1."""
        scale, reason = self.reason.scale, self.reason
        matched = sum(scale.weights[i] for i in reason.list_matched_terms()) + reason.date
        return min(1.0, matched / scale.attainable)

    @property
    def dated(self) -> float:
        """Share of the question's weight for its date; 0 to 1."""
        return self.reason.date / self.reason.scale.attainable

    @property
    def is_literal(self) -> bool:
        """Whether it has a word of the question, or another form, spelling or part of one, or a date of it."""
        terms, text = self.reason.scale.terms, self.reason.passage.terms
        return self.reason.date > 0.0 or any(
            _find_reason(terms[i], text) not in _OTHER_WORDS for i in self.reason.list_matched_terms()
        )

    @property
    def rarest(self) -> int:
        """Number of passages with the rarest of its matched words."""
        held = self.reason.scale.held
        return min((held[i] for i in self.reason.list_matched_terms() if held[i]), default=sys.maxsize)

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the share by name; they add up to it.

        They are `words`, `pairs`, `neighbours`, `session`, `date`, `rule`, and the negative parts `speaker`, `form`
        (asking, no time, no number) and `length`. Parts of 0 are left out.
        """
        return self.reason.parts()


def idf(frequency: float, passages: int) -> float:
    """Return the weight of a word in `frequency` of `passages`; Lucene's formula, never negative."""
    frequency = min(frequency, passages)
    return math.log(1.0 + (passages - frequency + 0.5) / (frequency + 0.5))


def compute_relevance(evidence: float) -> float:
    """Return the approximate probability that the memory has an answer; it grows with the evidence.

    evidence**3 / (evidence**3 + .8**3), a logistic curve of the logarithm of the evidence. Evidence is the share of the
    attainable score, times the question's weight in unknown words to the power of .3, since half of a long question is
    more evidence than half of a short one. Fitted to LoCoMo's and BEAM's questions, the same number of which were asked
    of the conversation with the answer and of another one (see `scoring`).
    """
    cube = evidence * evidence * evidence
    return cube / (cube + 0.512)


def rank(
    query: ParsedQuery,
    matches: Iterable[Passage],
    *,
    statistics: TermStatistics,
    settings: RankingSettings = DEFAULTS,
    limit: int | None = None,
) -> list[RankedPassage]:
    """Return candidates, best first. Candidates without a term in them or around them are left out.

    Equal ones are sorted by time, newest first, then by key, largest first. The order and repetitions of the given
    passages make no difference.

    Args:
        query: The question.
        matches: Records or turns that an index found, and the turns around those, `len(settings.after)` on each side.
        statistics: Counts over the caller's scope.
        settings: The constants.
        limit: Most candidates; None for all.
    """
    passages = {passage.key: passage for passage in matches}
    if not query:
        return []
    records = [passage for passage in passages.values() if passage.thread is None]
    scored: list[_Candidate] = []
    if records:
        scored += _score_records(_Scale(query, statistics, settings, turns=False), records)
    if len(records) < len(passages):
        turns = [passage for passage in passages.values() if passage.thread is not None]
        scored += _score_turns(_Scale(query, statistics, settings, turns=True), turns)
    scored.sort(key=lambda each: (each.score, each.passage.at, each.passage.key), reverse=True)
    return [_to_ranked(candidate) for candidate in scored[:limit]]


def _to_ranked(candidate: _Candidate) -> RankedPassage:
    share = candidate.score / candidate.scale.attainable
    return RankedPassage(
        candidate.passage.key, compute_relevance(share * candidate.scale.evidence), share, candidate
    )


class _Scale:
    """Counts and weights that are the same for all candidates of one kind."""

    __slots__ = (
        "attainable", "dated", "evidence", "flat", "held", "joined", "long", "needles", "others", "pairs",
        "query", "saturated", "settings", "slope", "terms", "wanted", "weights",
    )  # fmt: skip

    def __init__(
        self, query: ParsedQuery, statistics: TermStatistics, settings: RankingSettings, *, turns: bool
    ) -> None:
        terms = query.wanted(turns=turns)
        passages = max(1, statistics.passages) + settings.background
        frequency = statistics.frequencies.get
        self.query = query
        self.settings = settings
        self.terms: list[QueryTerm] = [term for term in terms if term.kind != "joined"]
        self.needles = [(i, term.token, f" {term.token} ") for i, term in enumerate(self.terms)]
        self.held = [_count_holders(term, frequency) for term in self.terms]
        common = statistics.common.get
        rarity = {
            token: idf(frequency(token, 0) + settings.background * common(token, 0.0), passages)
            for token in query.tokens
        }
        self.weights = [term.weight * rarity[term.token] for term in self.terms]
        self.dated = settings.date * idf(0, passages) if query.dates else 0.0
        if query.dates.wants_next:
            self.dated = settings.date_next * sum(self.weights)
        self.attainable = max(sum(self.weights), self.dated) or 1.0
        self.evidence = (self.attainable / idf(0, passages)) ** 0.3
        self.others: dict[str, list[tuple[int, float]]] = {}
        for i, term in enumerate(self.terms):
            for other in term.alternatives:
                if frequency(other.token, 0):
                    share = min(1.0, rarity[other.token] / (self.weights[i] or 1.0))
                    self.others.setdefault(other.token, []).append((i, other.similarity * share))
        places = {term.token: i for i, term in enumerate(self.terms)}
        self.pairs = [
            (
                places[left],
                places[right],
                pack((left, right)),
                min(self.weights[places[left]], self.weights[places[right]]),
            )
            for left, right in query.pairs
            if left in places and right in places
        ]
        self.joined = [
            (term.token, [places[token] for token in term.of if token in places])
            for term in terms
            if term.kind == "joined" and frequency(term.token, 0)
        ]
        self.wanted = frozenset((*places, *self.others, *(token for token, _ in self.joined)))
        mean = max(1.0, statistics.mean_length)
        self.long = max(float(settings.long), 2 * mean)
        if turns:  # the length of a mean turn among mean turns, with what it takes in
            room = min(mean, max(0.0, settings.enough - mean))
            mean += settings.taken_length * room * (sum(settings.before) + sum(settings.after))
        self.saturated = settings.k1 + 1.0
        self.flat = settings.k1 * (1.0 - settings.b)
        self.slope = settings.k1 * settings.b / mean

    def hits(self, terms: str) -> list[tuple[int, float]]:
        """Return the numbers of the words in a packed text, in order, each with its frequency."""
        present = self.wanted.intersection(terms.split())
        if not present:
            return []
        count_of = terms.count
        hits: list[tuple[int, float]] = [
            (i, count_of(needle)) for i, token, needle in self.needles if token in present
        ]
        for token, places in self.joined:
            if token in present:
                counts = dict(hits)
                for i in places:
                    counts[i] = counts.get(i, 0) + count_of(f" {token} ")
                hits = sorted(counts.items())
        if self.others and (held := present.intersection(self.others)):
            counts = dict(hits)
            for token in held:
                count = count_of(f" {token} ")
                for i, factor in self.others[token]:
                    counts[i] = max(counts.get(i, 0.0), factor * count)
            hits = sorted(counts.items())
        return hits

    def words(self, counts: Iterable[tuple[int, float]], norm: float) -> float:
        """Return the BM25 score of some counts."""
        weights = self.weights
        total = 0.0
        for i, count in counts:
            total += weights[i] * count / (count + norm)
        return total * self.saturated

    def together(self, hits: Sequence[tuple[int, float]], terms: str, norm: float) -> float:
        """Return the bonus for adjacent words."""
        matched = {i for i, _ in hits}
        total = 0.0
        for left, right, needle, weight in self.pairs:
            if left in matched and right in matched and needle in terms:
                count = list(pairwise(terms.split())).count((self.terms[left].token, self.terms[right].token))
                total += weight * count / (count + norm)
        return total * self.saturated * self.settings.pair


def _find_alternative(term: QueryTerm, text: str) -> str:
    """Return the alternative for a term in a packed text; the term's own token if there is none."""
    return next((other.token for other in term.alternatives if f" {other.token} " in text), term.token)


def _find_reason(term: QueryTerm, text: str) -> str:
    """Return the reason of the alternative for a term in a packed text; "" for the term itself."""
    if f" {term.token} " in text:
        return ""
    return next((other.reason for other in term.alternatives if f" {other.token} " in text), "")


def _count_holders(term: QueryTerm, frequency: Callable[[str, int], int]) -> int:
    """Return the number of passages with a term, or else with its rarest alternative; 0 for function words."""
    if term.weight < 1.0:
        return 0
    others = (frequency(other.token, 0) for other in term.alternatives if other.reason not in _OTHER_WORDS)
    return frequency(term.token, 0) or min(filter(None, others), default=0)


class _Candidate:
    """A passage with its score and the parts of it, for the explanation."""

    __slots__ = (
        "base", "date", "form", "hits", "matched", "norm", "pairs", "passage",
        "rule", "scale", "score", "session", "short", "speaker", "taken",
    )  # fmt: skip

    def __init__(self, passage: Passage, scale: _Scale, hits: list[tuple[int, float]]) -> None:
        self.passage = passage
        self.scale = scale
        # (number of the word, frequency) in its own text, and the same together with its neighbours
        self.hits = hits
        self.taken: dict[int, float] = {}
        self.matched: list[int] | None = None
        self.norm = self.base = self.pairs = self.session = self.date = self.rule = self.score = 0.0
        self.speaker = self.form = self.short = 1.0

    def list_matched_terms(self) -> list[int]:
        """Return the numbers of the words in it or its neighbours."""
        if self.matched is None:
            self.matched = sorted(self.taken) if self.taken else [i for i, _ in self.hits]
        return self.matched

    def parts(self) -> dict[str, float]:
        """Return the parts of the score by name, as shares of the attainable score."""
        own = self.scale.words(self.hits, self.norm) if self.hits else 0.0
        values = {
            "words": own,
            "pairs": self.pairs,
            "neighbours": self.base - own,
            "session": self.session,
            "date": self.date,
            "rule": self.rule,
        }
        total = sum(values.values())
        for name, factor in (("speaker", self.speaker), ("form", self.form), ("length", self.short)):
            values[name] = total * (factor - 1.0)
            total *= factor
        return {name: value / self.scale.attainable for name, value in values.items() if value}


def _score_records(scale: _Scale, records: Iterable[Passage]) -> list[_Candidate]:
    closeness = _build_closeness(scale, written=scale.settings.date_written)
    is_dated = bool(closeness)
    scored = []
    for passage in records:
        candidate = _Candidate(passage, scale, scale.hits(passage.terms))
        near, is_on = closeness.compute(passage) if is_dated else (0.0, False)
        if candidate.hits:
            candidate.norm = norm = scale.flat + scale.slope * passage.length
            candidate.base = scale.words(candidate.hits, norm)
            if scale.pairs and len(candidate.hits) > 1:
                candidate.pairs = scale.together(candidate.hits, passage.terms, norm)
            if passage.length > scale.long:
                _rank_as_best_part(candidate)
        elif not is_on:
            continue
        candidate.date = scale.dated * near
        if scale.query.is_request and passage.kind in STANDING:
            candidate.rule = scale.settings.rule * sum(scale.weights)
        candidate.score = candidate.base + candidate.pairs + candidate.date + candidate.rule
        scored.append(candidate)
    return scored


def _rank_as_best_part(candidate: _Candidate) -> None:
    """Score a long record as its best part if that is better. A part counts as a text of twice the mean length."""
    scale = candidate.scale
    size = scale.settings.long // 2
    norm = scale.settings.k1 * (1.0 + scale.settings.b)
    tokens = candidate.passage.terms.split()
    for start in range(0, max(1, len(tokens) - size // 2), size // 2):
        terms = pack(tokens[start : start + size])
        hits = scale.hits(terms)
        base = scale.words(hits, norm)
        pairs = scale.together(hits, terms, norm) if scale.pairs and len(hits) > 1 else 0.0
        if base + pairs > candidate.base + candidate.pairs:
            candidate.hits, candidate.norm, candidate.base, candidate.pairs = hits, norm, base, pairs


def _build_closeness(scale: _Scale, *, written: float = 1.0) -> Closeness:
    settings = scale.settings
    return Closeness(
        scale.query.dates,
        days_before=settings.date_before,
        days_after=settings.date_after,
        written=written,
    )


_Hits = list[tuple[int, float]]


def _score_turns(scale: _Scale, turns: Sequence[Passage]) -> list[_Candidate]:
    """Return the turns with a match in or near them, or with a date of the question; with their scores."""
    settings = scale.settings
    closeness = _build_closeness(scale)
    is_dated = bool(closeness)
    form = _Form(scale.query, turns, settings)
    candidates, best = _add_neighbours(scale, turns, keeps_all=is_dated)
    scored = []
    for candidate in candidates:
        passage = candidate.passage
        near, is_on = closeness.compute(passage) if is_dated else (0.0, False)
        if not passage.length or (not candidate.base and not is_on):
            continue  # a turn without tokens, or without any match, answers nothing
        candidate.session = settings.session * best.get(passage.thread, 0.0)
        candidate.date = scale.dated * near
        form.judge(candidate)
        total = candidate.base + candidate.pairs + candidate.session + candidate.date
        candidate.score = total * candidate.speaker * candidate.form * candidate.short
        scored.append(candidate)
    return scored


def _add_neighbours(
    scale: _Scale, turns: Sequence[Passage], *, keeps_all: bool
) -> tuple[list[_Candidate], dict[int | None, float]]:
    """Return the turns with a match in or near them (or all), with base scores, and the best score of each session."""
    settings = scale.settings
    placed = sorted((turn.thread or 0, turn.position, turn) for turn in turns)
    candidates = []
    best: dict[int | None, float] = {}
    for _, run in groupby(enumerate(placed), lambda each: (each[1][0], each[1][1] - each[0])):
        neighbours = [turn for _, (_, _, turn) in run]
        hits = [scale.hits(turn.terms) for turn in neighbours]
        gains = _take_in(settings, hits, [turn.length for turn in neighbours])
        for passage, own, (taken, extra) in zip(neighbours, hits, gains, strict=True):
            if not (own or taken or keeps_all):
                continue
            candidate = _Candidate(passage, scale, own)
            candidates.append(candidate)
            if taken:
                for i, count in own:
                    taken[i] = taken.get(i, 0.0) + count
                candidate.taken = taken
            candidate.norm = norm = scale.flat + scale.slope * (
                passage.length + settings.taken_length * extra
            )
            candidate.base = scale.words(taken.items() if taken else own, norm)
            if scale.pairs and len(own) > 1:
                candidate.pairs = scale.together(own, passage.terms, norm)
            score = candidate.base + candidate.pairs
            if score > best.get(passage.thread, 0.0):
                best[passage.thread] = score
    return candidates, best


def _take_in(
    settings: RankingSettings, hits: Sequence[_Hits], sizes: Sequence[int]
) -> Iterator[tuple[dict[int, float], float]]:
    """Yield the words that each turn of a run takes in of its neighbours, and their length with the same weights.

    Only the fitting fraction of a long neighbour is taken. So long neighbours do not dominate a short message, and a
    long message takes in nothing.
    """
    weights = (*settings.before[::-1], 0.0, *settings.after)  # of a turn's neighbours, and of the turn
    rooms = [max(0, settings.enough - size) for size in sizes]
    taken: list[dict[int, float]] = [{} for _ in sizes]
    for place, (counts, size) in enumerate(zip(hits, sizes, strict=True)):
        for at, weight in enumerate(reversed(weights), place - len(settings.after)) if counts else ():
            if 0 <= at < len(rooms) and (room := rooms[at]):
                share, words = weight if size <= room else weight * (room / size), taken[at]
                for i, count in counts:
                    words[i] = words.get(i, 0.0) + share * count
    padded, longest = [0] * len(settings.before) + [*sizes] + [0] * len(settings.after), max(sizes)
    for at, (words, room) in enumerate(zip(taken, rooms, strict=True)):
        for i, count in words.items():
            words[i] = min(settings.taken_most, count)
        near: Sequence[float] = padded[at : at + len(weights)]
        if longest > room:
            near = [size * min(1.0, room / (size or 1)) for size in near]
        yield words, sum(map(mul, weights, near))


class _Form:
    """Factors for the speaker and the form of turns."""

    __slots__ = ("asker", "query", "settings", "short", "statements", "theirs")

    def __init__(self, query: ParsedQuery, turns: Iterable[Passage], settings: RankingSettings) -> None:
        self.query = query
        self.settings = settings
        # If no speaker is called "user", it is unknown who "I" is.
        self.asker = query.first_person and any(passage.speaker == USER for passage in turns)
        self.theirs = {passage.thread for passage in turns if passage.speaker in query.speakers}
        self.statements = {
            (passage.thread, passage.position)
            for passage in turns
            if passage.speaker == USER and "q" not in passage.cues
        }
        self.short = [1.0 - settings.short * math.exp(-count / settings.short_words) for count in range(100)]

    def judge(self, candidate: _Candidate) -> None:
        passage, query, settings = candidate.passage, self.query, self.settings
        if query.speakers and passage.speaker not in query.speakers:
            candidate.speaker = settings.other_speaker
            if passage.thread not in self.theirs:
                candidate.speaker *= settings.elsewhere
        if self.asker and passage.speaker != USER:
            candidate.speaker *= settings.not_the_user
        if (
            passage.speaker == ASSISTANT
            and not candidate.hits
            and (passage.thread, passage.position - 1) in self.statements
        ):
            candidate.speaker *= settings.reply
        cues = passage.cues
        if not cues[:2].isdecimal():  # none, or damaged
            return
        candidate.short = self.short[int(cues[:2])]
        if passage.length >= settings.enough:  # a long text has a question or no number by chance
            return
        form = 1.0
        if "q" in cues:
            form = settings.asking
        if query.wants_time and "t" not in cues:
            form *= settings.no_time
        if query.wants_number and "n" not in cues:
            form *= settings.no_number
        candidate.form = form
