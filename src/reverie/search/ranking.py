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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from operator import attrgetter, mul
from types import MappingProxyType
from typing import Any, NamedTuple

from reverie.domain.passage import Passage
from reverie.domain.record import STANDING
from reverie.domain.text.tokenizer import pack
from reverie.search.dates import Closeness
from reverie.search.query import Alternative, ParsedQuery, QueryTerm

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

_Hits = list[tuple[int, float]]
"""The number of each matched word of the question with its frequency."""

_Scored = tuple[_Hits, float, float, float]
"""Matched words, what their frequencies are saturated with, their score, and the bonus for adjacent ones."""

_get_place = attrgetter("thread", "position")


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
    """One candidate with the parts of its score. What explains its rank is computed on demand: most hits are not shown.

    Candidates are in the order of their first three fields, of which each has another key.

    Attributes:
        score: The score.
        at: Time of the passage.
        key: Key of the passage.
        passage: The passage.
        scale: Counts and weights of the question.
        hits: The numbers of the words in it, each with its frequency.
        norm: What frequencies are saturated with, by its length.
        base: Score of the words, of a turn with those that it takes in of its neighbours.
        pairs: Bonus for adjacent words.
        date: Bonus for the date.
        rule: Bonus for a rule.
        taken: The frequencies of its words together with those of its neighbours; empty without any.
        session: Bonus for the rest of the session.
        speaker: Factor for the speaker.
        form: Factor for the form.
        short: Factor for a short turn.
    """

    score: float
    at: float
    key: int
    passage: Passage
    scale: _Scale
    hits: _Hits
    norm: float
    base: float
    pairs: float
    date: float
    rule: float = 0.0
    taken: Mapping[int, float] = MappingProxyType({})
    session: float = 0.0
    speaker: float = 1.0
    form: float = 1.0
    short: float = 1.0

    @property
    def share(self) -> float:
        """The score as a share of that of a text of mean length with each word of the question once."""
        return self.score / self.scale.attainable

    @property
    def relevance(self) -> float:
        """0 to 1, comparable between questions; see `compute_relevance`."""
        return compute_relevance(self.share * self.scale.evidence)

    def _list_matched_terms(self) -> list[int]:
        """Return the numbers of the words in it or its neighbours."""
        return sorted(self.taken) if self.taken else [i for i, _ in self.hits]

    def list_matches(self) -> dict[str, str]:
        """Return the tokens of the question, or alternatives, in it or, for a turn, in its neighbours.

        Each has its token of the question.
        """
        matches = {}
        for i in self._list_matched_terms():
            term = self.scale.terms[i]
            other = _find_alternative(term, self.passage.terms)
            matches[other.token if other else term.token] = term.token
        return matches

    @property
    def coverage(self) -> float:
        """Share of the question's weight that the matched words and the date have; 0 to 1."""
        matched = sum(self.scale.weights[i] for i in self._list_matched_terms()) + self.date
        return min(1.0, matched / self.scale.attainable)

    @property
    def dated(self) -> float:
        """Share of the question's weight for its date; 0 to 1."""
        return self.date / self.scale.attainable

    @property
    def is_literal(self) -> bool:
        """Whether it has a word of the question, or another form, spelling or part of one, or a date of it."""
        terms = [self.scale.terms[i] for i in self._list_matched_terms()]
        others = (_find_alternative(term, self.passage.terms) for term in terms)
        return self.date > 0.0 or any(not other or other.reason not in _OTHER_WORDS for other in others)

    @property
    def rarest(self) -> int:
        """Number of passages with the rarest of its matched words."""
        held = self.scale.held
        return min((held[i] for i in self._list_matched_terms() if held[i]), default=sys.maxsize)

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the share by name; they add up to it.

        They are `words`, `pairs`, `neighbours`, `session`, `date`, `rule`, and the negative parts `speaker`, `form`
        (asking, no time, no number) and `length`. Parts of 0 are left out.
        """
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
    scored: list[Any] = []  # tuples, of which the best become candidates
    for is_turn, score in ((False, _score_records), (True, _score_turns)):
        if some := [passage for passage in passages.values() if (passage.thread is not None) is is_turn]:
            scored += score(_Scale(query, statistics, settings, turns=is_turn), some)
    scored.sort(reverse=True)
    return [RankedPassage(*each) for each in scored[:limit]]


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

    def hits(self, terms: str) -> _Hits:
        """Return the numbers of the words in a packed text, in order, each with its frequency."""
        present = self.wanted.intersection(terms.split())
        return self.count(present, terms) if present else []

    def count(self, present: frozenset[str], terms: str) -> _Hits:
        """Return the same of a text that has some of the wanted tokens."""
        count_of = terms.count
        hits: _Hits = [(i, count_of(needle)) for i, token, needle in self.needles if token in present]
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

    def score(self, hits: _Hits, terms: str, norm: float) -> _Scored:
        """Return some counts, what they are saturated with, their score, and the bonus for adjacent words."""
        return hits, norm, self.words(hits, norm), self.together(hits, terms, norm)

    def together(self, hits: _Hits, terms: str, norm: float) -> float:
        """Return the bonus for adjacent words."""
        if not self.pairs or len(hits) < 2:
            return 0.0
        matched = {i for i, _ in hits}
        total = 0.0
        for left, right, needle, weight in self.pairs:
            if left in matched and right in matched and needle in terms:
                count = list(pairwise(terms.split())).count((self.terms[left].token, self.terms[right].token))
                total += weight * count / (count + norm)
        return total * self.saturated * self.settings.pair


def _find_alternative(term: QueryTerm, text: str) -> Alternative | None:
    """Return the alternative that a packed text has for a term; None if it has the term itself, or neither."""
    if f" {term.token} " in text:
        return None
    return next((other for other in term.alternatives if f" {other.token} " in text), None)


def _count_holders(term: QueryTerm, frequency: Callable[[str, int], int]) -> int:
    """Return the number of passages with a term, or else with its rarest alternative; 0 for function words."""
    if term.weight < 1.0:
        return 0
    others = (frequency(other.token, 0) for other in term.alternatives if other.reason not in _OTHER_WORDS)
    return frequency(term.token, 0) or min(filter(None, others), default=0)


def _score_records(scale: _Scale, records: Iterable[Passage]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of the candidates among records: those with a match, or with a date of the question."""
    closeness = _build_closeness(scale, written=scale.settings.date_written)
    is_dated = bool(closeness)
    rule = scale.settings.rule * sum(scale.weights) if scale.query.is_request else 0.0
    for passage in records:
        hits = scale.hits(passage.terms)
        near, is_on = closeness.compute(passage) if is_dated else (0.0, False)
        if not (hits or is_on):
            continue
        norm = scale.flat + scale.slope * passage.length
        found = scale.score(hits, passage.terms, norm)
        if hits and passage.length > scale.long:
            found = _find_best_part(scale, passage, found)
        _, norm, base, pairs = found
        date = scale.dated * near
        bonus = rule if passage.kind in STANDING else 0.0
        yield base + pairs + date + bonus, passage.at, passage.key, passage, scale, *found, date, bonus


def _find_best_part(scale: _Scale, passage: Passage, whole: _Scored) -> _Scored:
    """Return the score of the best part of a long record if that is better.

    A part counts as a text of twice the mean length.
    """
    size = scale.settings.long // 2
    norm = scale.settings.k1 * (1.0 + scale.settings.b)
    tokens = passage.terms.split()
    best = whole
    for start in range(0, max(1, len(tokens) - size // 2), size // 2):
        terms = pack(tokens[start : start + size])
        part = scale.score(scale.hits(terms), terms, norm)
        if part[2] + part[3] > best[2] + best[3]:
            best = part
    return best


def _build_closeness(scale: _Scale, *, written: float = 1.0) -> Closeness:
    settings = scale.settings
    return Closeness(
        scale.query.dates,
        days_before=settings.date_before,
        days_after=settings.date_after,
        written=written,
    )


def _score_turns(scale: _Scale, turns: Iterable[Passage]) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of the candidates among turns: those with a match in or near them, or a date of the question."""
    settings = scale.settings
    closeness = _build_closeness(scale)
    is_dated = bool(closeness)
    line = _line_up(turns, gap=max(len(settings.before), len(settings.after), 1))
    judge_speaker = _Speakers(scale.query, line, settings).judge
    judge_cues = cache(lambda cues: _judge_cues(scale.query, settings, cues))
    matched, best = _match_turns(scale, line, keeps_all=is_dated)
    for place, own, taken, norm, base, pairs in matched:
        turn = line[place]
        key, _, length, thread, _, speaker, at, cues = turn[:8]
        near, is_on = closeness.compute(turn) if is_dated else (0.0, False)
        if not length or not (base or is_on):
            continue  # a turn without tokens, or without any match, answers nothing
        session, date = settings.session * best.get(thread, 0.0), scale.dated * near
        said = judge_speaker(place, speaker, thread, is_matched=bool(own))
        shape, short = judge_cues(cues)
        if length >= settings.enough:  # a long text has a question or no number by chance
            shape = 1.0
        score = (base + pairs + session + date) * said * shape * short
        yield (
            score,
            at,
            key,
            turn,
            scale,
            own,
            norm,
            base,
            pairs,
            date,
            0.0,
            taken,
            session,
            said,
            shape,
            short,
        )


def _line_up(turns: Iterable[Passage], *, gap: int) -> dict[int, Passage]:
    """Return turns by their places in a line, in which a gap separates turns that do not follow each other."""
    line = {}
    place, following = -1, None
    for turn in sorted(turns, key=_get_place):
        at, position = turn[3:5]
        place += 1 if (at, position) == following else 1 + gap
        line[place], following = turn, (at, position + 1)
    return line


def _match_turns(
    scale: _Scale, line: Mapping[int, Passage], *, keeps_all: bool
) -> tuple[list[tuple[int, _Hits, dict[int, float], float, float, float]], dict[int | None, float]]:
    """Return the turns with a match in or near them, or all, and the best score of each session.

    Each turn by its place, with its own matches; those together with its neighbours' (empty without any); what they
    are saturated with; the score of the words, and that of adjacent words.
    """
    settings, behind, ahead = scale.settings, len(scale.settings.before), len(scale.settings.after)
    _, texts, lengths, threads, *_ = zip(*line.values(), strict=True)
    end = max(line) + max(behind, ahead) + 1
    sizes, rooms = [0] * end, [0] * end
    for place, size in zip(line, lengths, strict=True):
        sizes[place], rooms[place] = size, max(0, settings.enough - size)
    present = map(scale.wanted.intersection, map(str.split, texts))
    hits = {
        place: scale.count(tokens, text)
        for place, text, tokens in zip(line, texts, present, strict=True)
        if tokens
    }
    taken = _take_in(settings, hits, sizes, rooms)
    weights = (*settings.before[::-1], 0.0, *settings.after)  # of a turn's neighbours, and of the turn
    flat, slope, share, longest = scale.flat, scale.slope, settings.taken_length, max(lengths)
    matched = []
    best: dict[int | None, float] = {}
    for place, size, thread in zip(line, lengths, threads, strict=True):
        own, words = hits.get(place, []), taken.get(place)
        if not (own or words or keeps_all):
            continue
        near: Sequence[float] = sizes[place - behind : place + ahead + 1]
        if longest > (room := rooms[place]) and max(near) > room:
            near = [each * min(1.0, room / (each or 1)) for each in near]
        norm = flat + slope * (size + share * sum(map(mul, weights, near)))
        pairs = 0.0
        if own and words:
            for i, count in own:
                words[i] = words.get(i, 0.0) + count
        base = scale.words(words.items() if words else own, norm)
        if len(own) > 1:
            pairs = scale.together(own, line[place].terms, norm)
        if base + pairs > best.get(thread, 0.0):
            best[thread] = base + pairs
        matched.append((place, own, words or {}, norm, base, pairs))
    return matched, best


def _take_in(
    settings: RankingSettings, hits: Mapping[int, _Hits], sizes: Sequence[int], rooms: Sequence[int]
) -> dict[int, dict[int, float]]:
    """Return the words that turns take in of their neighbours, by the places in a line.

    Only the fitting fraction of a long neighbour is taken. So long neighbours do not dominate a short message, and a
    long message takes in nothing.
    """
    weights = (*settings.after[::-1], 0.0, *settings.before)  # of a turn for those around it, and for itself
    taken: dict[int, dict[int, float]] = defaultdict(dict)
    for place, counts in hits.items():
        size = sizes[place]
        for at, weight in enumerate(weights, place - len(settings.after)):
            if room := rooms[at]:
                share, words = weight if size <= room else weight * (room / size), taken[at]
                for i, count in counts:
                    words[i] = words.get(i, 0.0) + share * count
    most = settings.taken_most
    for words in taken.values():
        for i, count in words.items():
            if count > most:
                words[i] = most
    return taken


class _Speakers:
    """Factors for the speakers of turns."""

    __slots__ = ("_asker", "_line", "_named", "_settings", "_theirs")

    def __init__(self, query: ParsedQuery, line: Mapping[int, Passage], settings: RankingSettings) -> None:
        self._named = query.speakers
        self._line = line
        self._settings = settings
        # If no speaker is called "user", it is unknown who "I" is.
        self._asker = query.first_person and any(turn.speaker == USER for turn in line.values())
        self._theirs = {turn.thread for turn in line.values() if turn.speaker in query.speakers}

    def judge(self, place: int, speaker: str, thread: int | None, *, is_matched: bool) -> float:
        """Return the factor for the speaker of a turn that has a word of the question, or has none."""
        settings, factor = self._settings, 1.0
        if self._named and speaker not in self._named:
            factor = (
                settings.other_speaker
                if thread in self._theirs
                else settings.other_speaker * settings.elsewhere
            )
        if self._asker and speaker != USER:
            factor *= settings.not_the_user
        if speaker == ASSISTANT and not is_matched:
            before = self._line.get(place - 1)
            if before is not None and before.speaker == USER and "q" not in before.cues:
                factor *= settings.reply
        return factor


def _judge_cues(query: ParsedQuery, settings: RankingSettings, cues: str) -> tuple[float, float]:
    """Return the factors for the form of a turn that is not long, and for its content words."""
    if not cues[:2].isdecimal():  # none, or damaged
        return 1.0, 1.0
    form = 1.0
    if "q" in cues:
        form = settings.asking
    if query.wants_time and "t" not in cues:
        form *= settings.no_time
    if query.wants_number and "n" not in cues:
        form *= settings.no_number
    return form, 1.0 - settings.short * math.exp(-int(cues[:2]) / settings.short_words)
