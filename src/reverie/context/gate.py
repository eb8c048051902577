"""Gate of a prompt: the chance that a hit answers the message, from quantities of the hit and of those beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import exp, log
from operator import mul
from pkgutil import get_data
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import STANDING
from reverie.search.hits import Hit
from reverie.search.query import ParsedQuery, QueryTerm, parse_query
from reverie.search.related_words import RelatedWords, get_shares

_NAME = defer_regex(r"(?<=[a-zß-ÿ,;:] )[A-ZÀ-ÖØ-Þ][\w'-]+|\b\w*\d[\w.-]*")
_EVERY = defer_regex(
    r"\b(?:all|both|each|every(?:body|one|thing)?|list|alle[mnrs]?|sämtliche[nrs]?|beide[ns]?|todos|todas|ambos|cada|lista"
    r"|liste|tous|toutes|chaque|tutti|tutte|ogni)\b|全|都|すべて|ぜんぶ|みんな",
    re.IGNORECASE,
)
_LAST_TALK = defer_regex(
    r"\b(?:last|previous) (?:time|conversation|chat|session|talk|discussion)\b|\b(?:left|leave) off\b|\bwere we\b"
    r"|\bletzte[nrs]? (?:mal|gespräch|unterhaltung|sitzung)\b|\bstehen ?geblieben\b"
    r"|\b(?:la )?(?:dernière|última|ultima) (?:fois|vez|volta|conversation|conversación|conversazione|conversa)\b"
    r"|前回|この前|上次|上一次",
    re.IGNORECASE,
)

_COVERED = 0.9  # share of the message's weight from which a hit always answers: it has practically all words
_FIVE = 5  # most matched words and likely hits that count


class HitQuantities(NamedTuple):
    """Quantities of one hit, each from a search and from the hits beside it.

    Attributes:
        relevance: Relevance, 0 to 1; 0 for a hit that stands beside others of its category.
        log_relevance: Its natural logarithm, at least log .001.
        coverage: Share of the question's weight that the matched words have, 0 to 1.
        neighbours: The part of it from the turns around a turn.
        matched: Number of matched words, at most 5, as a share of 5.
        first: 1 for the best hit, 0 otherwise.
        log_rank: Natural logarithm of its place, from 1.
        best_coverage: The largest coverage among the hits.
        turn: 1 for a turn, 0 otherwise.
        beside_records: For a turn, the share of records among the hits.
        rule: Evidence that it is a rule for what is asked to be done.
        standing: 1 for a preference or constraint, 0 otherwise.
        length: Natural logarithm of 1 plus a fiftieth of its characters.
        vector: Evidence by its vector; 0 without vectors.
        best_vector: The largest one among the hits.
        gap: The evidence by its vector above the mean of the five best.
        missing: Share of the names and numbers of the message that it has not.
        size: Natural logarithm of 1 plus the number of memories that were searched.
        told: 1 for a paragraph, 0 otherwise.
        told_coverage: Its `coverage`; 0 for anything else.
        told_relevance: Its `log_relevance`; 0 for anything else.
    """

    relevance: float
    log_relevance: float
    coverage: float
    neighbours: float
    matched: float
    first: float
    log_rank: float
    best_coverage: float
    turn: float
    beside_records: float
    rule: float
    standing: float
    length: float
    vector: float
    best_vector: float
    gap: float
    missing: float
    size: float
    told: float
    told_coverage: float
    told_relevance: float


def measure_hits(message: str, hits: Sequence[Hit], memories: int) -> list[HitQuantities]:
    """Return the quantities of each hit of a message, in the order of the hits.

    Args:
        message: The message.
        hits: The hits, best first.
        memories: Number of records and turns that were searched, 0 or more.
    """
    names = _list_names(message)
    vectors = sorted((hit.explanation.evidence.get("vector", 0.0) for hit in hits), reverse=True)
    beside = sum(vectors[:_FIVE]) / max(1, len(vectors[:_FIVE]))
    best_coverage = max((hit.explanation.coverage for hit in hits), default=0.0)
    records = sum(hit.record is not None for hit in hits) / max(1, len(hits))
    measured = []
    for rank, hit in enumerate(hits, 1):
        why = hit.explanation
        relevance = why.parts.get("relevance", 0.0) if why.evidence else 0.0
        vector = why.evidence.get("vector", 0.0)
        content = hit.content.casefold()
        told = float(hit.paragraph is not None)
        measured.append(HitQuantities(
            relevance=relevance, log_relevance=log(relevance + 1e-3), coverage=why.coverage,
            neighbours=why.evidence.get("neighbours", 0.0), matched=min(len(why.matched), _FIVE) / _FIVE,
            first=float(rank == 1), log_rank=log(rank), best_coverage=best_coverage,
            turn=float(hit.turn is not None), beside_records=records if hit.turn is not None else 0.0,
            rule=why.evidence.get("rule", 0.0), standing=float(hit.kind in STANDING), length=log(1 + len(content) / 50),
            vector=vector, best_vector=vectors[0], gap=vector - beside,
            missing=_measure_missing(names, content), size=log(1 + memories),
            told=told, told_coverage=told * why.coverage, told_relevance=told * log(relevance + 1e-3),
        ))  # fmt: skip
    return measured


def _list_names(message: str) -> set[str]:
    return {name.casefold() for name in _NAME.findall(message)}


def _measure_missing(names: Collection[str], content: str) -> float:
    return sum(name not in content for name in names) / max(1, len(names))


# A value, or the place of a quantity, its limit, and the trees up to it and above it.
Tree = float | tuple[int, float, "Tree", "Tree"]


class GateSettings(NamedTuple):
    """Coefficients of the logistic regression for the chance that a hit answers a message, its limits, and trees.

    `scripts/fit_gate.py` fits them to `evaluation/training` and prints what the limits mean.

    Attributes:
        constant: The fitted constant.
        weights: The coefficients, in the order of `HitQuantities`.
        answers: Chance from which a hit is shown.
        related: Chance from which it is shown under "Perhaps related".
        known: Least chance of a hit that has practically all words of a message, or is of the time that it asks for.
        worth: Least chance that a line of a usual length answers, and nothing above it does.
        answered: Least sum of the trees of a message that anything answers; hits of others are at most perhaps related.
        trees: What each tree says of a message (`measure_question`).
    """

    constant: float
    weights: HitQuantities
    answers: float
    related: float
    known: float
    worth: float
    answered: float
    trees: Sequence[Tree]


@cache
def load_settings() -> Mapping[str, GateSettings]:
    """Return the settings for hits of a search by `words`, and for one by words and `vectors`."""
    given = json.loads(get_data(__package__, "gate.json") or b"")
    weights = {name: HitQuantities(**each["weights"]) for name, each in given.items()}
    return {name: GateSettings(**each | {"weights": weights[name]}) for name, each in given.items()}


def wants_list(message: str) -> bool:
    """Return whether a message asks for everything of a kind, by the words for "all" of some languages.

    Example:
        >>> wants_list("Which doctors do we all have?"), wants_list("Who is my doctor?")
        (True, False)
    """
    return _EVERY.search(message) is not None


def wants_last_conversation(message: str) -> bool:
    """Return whether a message asks for the last conversation, with at most one word beside that.

    Example:
        >>> wants_last_conversation("Where did we leave off?"), wants_last_conversation("Who won the last time?")
        (True, True)
        >>> wants_last_conversation("When did I change the oil for the last time?")
        False
    """
    rest, found = _LAST_TALK.subn(" ", message)
    return found > 0 and len(list_topics(parse_query(rest))) <= 1


def list_topics(query: ParsedQuery) -> list[str]:
    """Return the words of a question that say what it is about; function words do not."""
    return [term.token for term in _find_topics(query)]


def _find_topics(query: ParsedQuery) -> list[QueryTerm]:
    return [term for term in query.terms if term.kind == "word" and term.weight >= 1.0]


def choose_settings(hits: Sequence[Hit]) -> GateSettings:
    """Return the settings for the hits of one search."""
    is_vector = any("vector" in hit.explanation.evidence for hit in hits)
    return load_settings()["vectors" if is_vector else "words"]


_MOST = 1e-4  # least distance of a chance from 0 and 1
_RARE = 0.004  # share of texts that a rare word has
_DICTIONARY = RelatedWords()


def measure_question(message: str, hits: Sequence[Hit], chances: Sequence[float]) -> tuple[float, ...]:
    """Return the quantities by which `is_answered` tells whether anything answers a message.

    They are the log odds of the two likeliest hits; the sum of the five largest chances; the share of the largest in
    the sum of ten; the largest relevance; the largest evidence by words among the ten likeliest hits; what the
    likeliest hit lacks of the names of the message (`HitQuantities.missing`), and the logarithm of its length; the
    logarithm of the length of the message, and whether it has a digit; how rare its words are in other texts, on the
    mean; how much of them, weighted by that, the likeliest hit has, and at most any hit has literally; and how many of
    them no dictionary knows, as names.

    Args:
        message: The message.
        hits: Its hits, one or more, best first.
        chances: The chance that each answers, 0 to 1.
    """
    query = parse_query(message)
    terms = _find_topics(query)
    shares = get_shares([term.token for term in terms], query.language)
    rarity = {term.token: -log(max(shares.get(term.token, 0.0), _RARE)) for term in terms}
    total = sum(rarity.values()) or 1.0
    ranked = sorted(zip(chances, hits, strict=True), key=lambda each: -each[0])
    best, why = ranked[0][1], ranked[0][1].explanation
    odds = [min(max(chance, _MOST), 1.0 - _MOST) for chance, _ in ranked] + [_MOST]
    covered = dict.fromkeys(why.stands_for.values(), 0.7) | dict.fromkeys(why.matched, 1.0)
    return (
        log(odds[0] / (1.0 - odds[0])), log(odds[1] / (1.0 - odds[1])), sum(odds[:_FIVE]), odds[0] / sum(odds[:10]),
        max(hit.explanation.parts.get("relevance", 0.0) for hit in hits),
        max(hit.explanation.evidence.get("words", 0.0) for _, hit in ranked[:10]),
        _measure_missing(_list_names(message), best.content.casefold()),
        log(1 + len(best.content)), log(1 + len(message.strip())), float(any(map(str.isdigit, message))),
        total / max(1, len(terms)),
        sum(rarity.get(word, 0.0) * share for word, share in covered.items()) / total,
        max(sum(rarity.get(word, 0.0) for word in hit.explanation.matched) for hit in hits) / total,
        float(sum(not _DICTIONARY.get(term.surface or term.token) for term in terms)),
    )  # fmt: skip


def is_answered(message: str, hits: Sequence[Hit], chances: Sequence[float]) -> bool:
    """Return whether anything among the hits answers a message; see `measure_question` for the arguments.

    A hit with practically all words of the message does. Otherwise fitted trees (Friedman 2001) decide.
    """
    if not hits or any(_is_covered(hit) for hit in hits):
        return bool(hits)
    settings, measured = choose_settings(hits), measure_question(message, hits, chances)
    return sum(walk_tree(tree, measured) for tree in settings.trees) >= settings.answered


def walk_tree(tree: Tree, quantities: Sequence[float]) -> float:
    """Return the value to which the quantities of a message lead in a tree."""
    if isinstance(tree, float):
        return tree
    place, limit, low, high = tree
    return walk_tree(low if quantities[place] <= limit else high, quantities)


def _is_covered(hit: Hit) -> bool:
    why = hit.explanation
    return why.coverage >= _COVERED and why.is_literal and why.evidence.get("words", 0.0) > 0.0


def compute_chances(message: str, hits: Sequence[Hit], memories: int) -> list[float]:
    """Return the chance that each hit answers the message, 0 to 1; see `measure_hits` for the arguments."""
    settings = choose_settings(hits)
    measured = measure_hits(message, hits, memories)
    sums = [settings.constant + sum(map(mul, settings.weights, each)) for each in measured]
    least = [settings.known * _is_covered(hit) for hit in hits]
    return [max(1.0 / (1.0 + exp(-each)), chance) for each, chance in zip(sums, least, strict=True)]
