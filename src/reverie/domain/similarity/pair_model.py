"""Whether a newer record replaces an older one, as a fitted probability.

`scripts/fit_pairs.py` fits the model to labelled pairs and to the records of invented people. Its parts are words that
tell a change (`cues`) and boosted decision trees over a few measures of the two texts. It reads no meaning: a
probability is only as good as the pairs that it was fitted to, so callers act at thresholds that were set on whole
memories (`list_thresholds`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import date
from functools import cache, lru_cache
from itertools import takewhile
from math import exp, log, sqrt
from pkgutil import get_data
from typing import Any, NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import find_dates
from reverie.domain.text.languages import list_function_words
from reverie.domain.text.specifics import tells_of_change
from reverie.domain.text.tokenizer import find_language, tokenize

_TYPICAL_RARITY = 0.85
_LEAST_RECORDS = 40  # in a smaller memory each word would count as common
_LEAST_DAYS = 1 / 24  # what is saved within an hour may be of any age

LONGEST = 45
"""Most words of a text that is compared; longer texts have several subjects."""

_WORD = defer_regex(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+(?:[.,:/-]\d+)*")
_NUMBER = defer_regex(r"\d+(?:[.,:/-]\d+)*")
_UNSPACED = defer_regex("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_NEGATION = defer_regex(
    r"\b(?:not|no|never|without|\w+n't|nicht|kein\w*|nie|ohne|no|nunca|sin|pas|jamais|sans|non|mai|não|nunca|sem)\b"
    r"|ない|ません|不|没"
)
_FORMER = defer_regex(
    r"\b(?:was|were|used to|formerly|before|until|if|might|maybe|would|could|should|want\w*|plan\w*|think\w*|also|too"
    r"|war|waren|früher|bis|wenn|vielleicht|würde|will|möchte|auch|era|eran|antes|hasta|si|quizás?|quiere|también"
    r"|était|avant|jusqu\w*|peut-être|voudrait|aussi|fino|anche|forse|também|talvez)\b|また|かも|も。|也|可能|如果"
)


class PairContext(NamedTuple):
    """How an older record compares with the other records that are similar to the newer one.

    The defaults are for two texts of which no more is known.

    Attributes:
        place: Number of more similar records.
        share: Nearness in relation to the most similar record, 0 to 1.
        nearness: Sum of the weights of shared words, by the root of the number of the older one's words.
        rarity: Weight of the rarest shared word, 0 to 1: 1 for a word that only the newer record has.
        has_same_category: Whether both have the same category.
        lag: How much less its cosine is than that of the record nearest to the newer one; 0 for the nearest.
        days: Days from the older one to the newer one; less than an hour counts as 0, as if it is not known.
    """

    place: int = 0
    share: float = 1.0
    nearness: float = -1.0
    rarity: float = _TYPICAL_RARITY
    has_same_category: bool = True
    lag: float = 0.0
    days: float = 0.0


class _Text(NamedTuple):
    words: tuple[str, ...]
    """Content words, stemmed."""
    raw: tuple[str, ...]
    """All words in lower case; pairs of characters in scripts without spaces."""
    numbers: frozenset[str]
    names: frozenset[str]
    is_negated: bool
    is_former: bool
    is_change: bool
    content: frozenset[str]
    """The words besides function words, stemmed."""
    topics: tuple[str, ...]
    """Those of them outside of dates, in their order."""


@lru_cache(maxsize=4_096)
def _read(text: str) -> _Text:
    spelled = _WORD.findall(text)
    raw: list[str] = []
    for word in spelled:
        ends = range(max(1, len(word) - 1))
        raw += [word[at : at + 2] for at in ends] if _UNSPACED.search(word) else [word.casefold()]
    folded, language, function_words = text.casefold(), find_language(text), list_function_words()
    content = frozenset(
        tokenize(" ".join(word for word in spelled if word.casefold() not in function_words), language)
    )
    dates = (tokenize(text[day.at : day.stop], language) for day in find_dates(text, date.min))
    words = tuple(dict.fromkeys(tokenize(text)))
    topics = content.difference(*dates)
    return _Text(
        words=words,
        raw=tuple(raw),
        numbers=frozenset(_NUMBER.findall(text)),
        names=frozenset(word.casefold() for word in spelled[1:] if word[0].isupper()),
        is_negated=_NEGATION.search(folded) is not None,
        is_former=_FORMER.search(folded) is not None,
        is_change=tells_of_change(text),
        content=content,
        topics=(*(word for word in words if word in topics), *sorted(topics.difference(words))),
    )


def is_comparable(text: str) -> bool:
    """Return whether a text is short enough to be compared."""
    most = LONGEST * (2 if _UNSPACED.search(text) else 1)
    return len(text) <= 12 * LONGEST and len(_read(text).raw) <= most


def list_cues(old: str, new: str) -> tuple[str, ...]:
    """Return the words that only the newer text has, and its pairs of neighbouring words: what may tell a change."""
    one, other = _read(old), _read(new)
    known = {*one.raw}
    pairs = (f"{a} {b}" for a, b in zip(other.raw, other.raw[1:], strict=False) if {a, b} - known)
    return tuple(dict.fromkeys((*(word for word in other.raw if word not in known), *pairs)))


def rank_similar(
    words: Collection[str], others: Sequence[Collection[str]], held: Mapping[str, int], total: int
) -> list[tuple[int, PairContext]]:
    """Return the places of the texts that share a word with another, the most similar first.

    Args:
        words: The words of the other text.
        others: The words of each text.
        held: Number of texts with each word.
        total: Number of texts.
    """
    total = max(total, _LEAST_RECORDS)
    weights = {word: log(1 + total / max(1, held.get(word, 0))) / log(1 + total) for word in words}
    found = []
    for number, other in enumerate(others):
        shared = [weights[word] for word in other if word in weights]
        if sum(shared) > 0:
            found.append((sum(shared) / sqrt(1 + len(other)), max(shared), number))
    found.sort(key=lambda each: (-each[0], each[2]))
    return [
        (number, PairContext(place, nearness / found[0][0], nearness, rarity))
        for place, (nearness, rarity, number) in enumerate(found)
    ]


def measure_pair(
    old: str,
    new: str,
    cue_score: float,
    likeness: float | None = None,
    context: PairContext = PairContext(),  # noqa: B008 - immutable
) -> list[float]:
    """Return the measures of two texts that the trees compare with their thresholds.

    Args:
        old: The older text.
        new: The newer text.
        cue_score: Sum of the weights of `list_cues`.
        likeness: Cosine of their vectors; None without vectors.
        context: How the older one compares with others.
    """
    one, other = _read(old), _read(new)
    mine, theirs = set(one.words), set(other.words)
    shared = mine & theirs
    weight, whole = (sum(min(len(word), 8) for word in words) for words in (shared, mine))
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.raw, other.raw, strict=False)))
    return [
        len(shared) / (min(len(mine), len(theirs)) or 1),
        len(shared) / (len(mine) or 1),
        len(shared) / (len(theirs) or 1),
        len(shared),
        len(mine - theirs),
        len(theirs - mine),
        weight / (whole or 1),
        max(map(len, shared), default=0),
        *(len(each) for each in _compare(one.numbers, other.numbers)),
        *(len(each) for each in _compare(one.names, other.names)),
        other.is_negated - one.is_negated,
        other.is_change,
        one.is_change,
        other.is_former,
        common,
        len(one.words[:1] and {*one.words[:2]} & {*other.words[:2]}),
        *(len(each.raw) for each in (one, other)),
        cue_score,
        context.place,
        context.share,
        _TYPICAL_RARITY * len(shared) / sqrt(1 + len(mine)) if context.nearness < 0 else context.nearness,
        context.rarity if shared else 0.0,
        context.has_same_category,
        _find_place(one.topics, {*one.topics}.difference(other.topics)),
        _find_place(other.topics, one.topics),
        context.days if context.days >= _LEAST_DAYS else 0.0,
        *(() if likeness is None else (likeness, context.lag)),
    ]


def _compare(one: Set[str], other: Set[str]) -> tuple[Set[str], ...]:
    return one - other, other - one, one & other


def _find_place(topics: Sequence[str], wanted: Collection[str]) -> float:
    """Return where the first of the wanted words stands, 0 to 1, and 2 where none does."""
    return next((at / len(topics) for at, word in enumerate(topics) if word in wanted), 2.0)


def judge_pair(
    old: str,
    new: str,
    likeness: float | None = None,
    context: PairContext = PairContext(),  # noqa: B008 - immutable
) -> float:
    """Return the probability that the older of two texts no longer holds; 0 for texts on two subjects.

    Texts on one subject share a word besides function words and dates. They also share another one, or half of those of
    one text, or the newer one tells of a change.

    Args:
        old: The older text, at most `LONGEST` words.
        new: The newer text, at most `LONGEST` words.
        likeness: Cosine of their vectors; None without vectors.
        context: How the older one compares with others.
    """
    if not is_one_subject(old, new):
        return 0.0
    model = _load()["words" if likeness is None else "vectors"]
    cues = score_cues(old, new, _load()["cues"])
    return compute_chance(model["trees"], measure_pair(old, new, cues, likeness, context))


def is_one_subject(old: str, new: str) -> bool:
    """Return whether two texts share a word that tells a subject, and are not on two subjects; see `judge_pair`."""
    one, other = _read(old), _read(new)
    topics = {word for word in one.topics if word in other.topics and not tells_of_change(word)}
    is_half = 2 * len(topics) >= min(len(one.topics), len(other.topics))
    return bool(topics) and (is_half or other.is_change or len(one.content & other.content) > 1)


def score_cues(old: str, new: str, weights: Mapping[str, float]) -> float:
    """Return the sum of the weights of the words that may tell a change."""
    return sum(weights.get(cue, 0.0) for cue in list_cues(old, new))


def compute_chance(trees: Sequence[Any], measures: Sequence[float]) -> float:
    """Return the probability of boosted trees: lists of nodes, [measure, threshold, left, right] or a value."""
    total = 0.0
    for tree in trees:
        node = tree[0]
        while isinstance(node, list):
            node = tree[node[2] if measures[node[0]] <= node[1] else node[3]]
        total += node
    return 1 / (1 + exp(-total))


@cache
def _load() -> Any:
    return json.loads(get_data(__package__, "pair_model.json") or b"")


def list_thresholds(*, with_vectors: bool) -> Mapping[str, float]:
    """Return the least probability from which a replacement ends (`ends`) or marks (`marks`) the older record."""
    thresholds: Mapping[str, float] = _load()["vectors" if with_vectors else "words"]["thresholds"]
    return thresholds
