"""Rules for what users say once of themselves, their people, their work and how they want to be answered.

How somebody wants to be answered, diets and medicines, and what states nothing are recognized by patterns, matched with
text as `fold_text` writes it; other facts by a classifier. English, German, Spanish and French.

The classifier is a logistic regression over words, their order, related words and the form of a sentence.
`scripts/fit_statements.py` fits it to the labelled sentences of `evaluation/training/statements`. Each feature is
hashed to one of the weights in `statements.bin` (Weinberger et al. 2009, "Feature hashing for large scale multitask
learning").
"""

from __future__ import annotations

import pkgutil
import re
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from math import exp
from typing import Literal

from reverie.consolidation.rules.sentences import PatternFile, is_self_contained, strip_quotations
from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.record import STANDING, Kind
from reverie.domain.text.dates import fold_text
from reverie.domain.text.languages import is_function_word
from reverie.search.related_words import RelatedWords

Statement = Literal["preference", "constraint", "decision", "fact"]


_PATTERNS = PatternFile("facts")

_IRREALIS = defer_regex(r"\b(?:hätten?|wären?|würden?|könnten?)\b", re.IGNORECASE)
"""Subjunctives of German, which are other words without their dots."""


LEAST_RATING = 0.85
"""How likely a sentence must be a lasting statement, by the classifier, to be learned."""


_COMMON = parse_word_set(
    """
    not so the a an on in at going done trying looking using sure sorry fine good ok okay back here just also
    very really too now still working getting having thinking wondering writing building being stuck lost
    tired happy glad afraid curious new ready
    """
)


def match_statement(sentence: str) -> Statement | None:
    """Return what a sentence of the user's states of them, or how they want to be answered; None for most.

    >>> match_statement("just call me Bea"), match_statement("my wife's name is Imogen")
    ('preference', 'fact')
    >>> match_statement("my neighbour wants everyone to call her Countess")
    """
    masked = strip_quotations(sentence)
    plain = _fold_statement(masked)
    masked = masked[len(masked) - len(plain) :]
    if is_doubtful(sentence) or "“”" in plain or len(plain) < _SHORTEST:
        return None
    if (
        (found := _PATTERNS["instruction"].search(plain))
        and (found["spelled"] is None or masked[found.start("spelled")].isupper())
        and (found["called"] or "") not in _COMMON
    ):
        return "preference" if not found.start() or not _PATTERNS.matches(plain, "reported") else None
    marked = _PATTERNS["marked"].search(plain)
    if marked is not None and len(marked["rest"].split()) >= 3:
        return "fact"
    if _PATTERNS.matches(plain, "task", "reported"):
        return None
    if _PATTERNS.matches(plain, "preference"):
        return "preference"
    if _PATTERNS.matches(plain, "decision"):
        return "decision" if is_self_contained(sentence) else None
    if _PATTERNS.matches(plain, "health"):
        return "constraint"
    for found in _PATTERNS["name_of_speaker"].finditer(plain):
        name = found["self"]
        if name is None or (name not in _COMMON and masked[found.start("self")].isupper()):
            return "preference"
    return "fact" if rate_statement(masked) >= LEAST_RATING else None


def _fold_statement(sentence: str) -> str:
    """Return a sentence as patterns read it, without words before it that say nothing."""
    return _PATTERNS["opening"].sub("", fold_text(sentence), count=1)


_IMPORTANT, _ORDINARY = 0.7, 0.5


def rate_importance(statement: str, kind: Kind) -> float:
    """Return the importance of a statement: instructions, names and health come first in prompts.

    Only preferences and constraints are rated, since only they stand in every prompt.

    >>> [rate_importance(each, "preference") for each in ("Call the user Bea.", "Bea likes tea.")]
    [0.7, 0.5]
    """
    if kind not in STANDING:
        return _ORDINARY
    plain = _fold_statement(statement)
    names = ("instruction", "imperative", "about_answers", "health", "health_of_anybody", "name_of_speaker")
    return _IMPORTANT if _PATTERNS.matches(plain, *names) else _ORDINARY


def concerns_health(statement: str) -> bool:
    """Return whether a statement of anybody tells of a diet, an allergy or a medicine.

    >>> [concerns_health(each) for each in ("Ruth is allergic to nuts.", "Bo takes aspirin 100 mg", "Bo runs")]
    [True, True, False]
    """
    return _PATTERNS.matches(fold_text(statement), "health_of_anybody")


def is_doubtful(sentence: str) -> bool:
    """Return whether a sentence of the user's states nothing that holds: a question, a guess, a joke, fiction.

    >>> is_doubtful("could be that I'm lactose intolerant"), is_doubtful("I'm lactose intolerant")
    (True, False)
    """
    masked = strip_quotations(sentence)
    plain = fold_text(masked)
    return (
        plain.endswith("?")
        or len(plain) > _LONGEST
        or _PATTERNS.matches(plain, "no_fact")
        or _IRREALIS.search(masked) is not None
        or _has_foreign_head(plain)
    )


def is_fiction(sentence: str) -> bool:
    """Return whether a sentence of the user's makes the rest of a message something that is only played or supposed.

    >>> is_fiction("Act as a recruiter."), is_fiction("I suppose so.")
    (True, False)
    """
    return _PATTERNS.matches(fold_text(strip_quotations(sentence)), "fiction")


_SHORTEST = 6
_LONGEST = 300


def strip_question(sentence: str) -> str:
    """Return a sentence without the question that follows a statement in it.

    >>> strip_question("I'm vegan, what can I cook?"), strip_question("ask first, ok?")
    ("I'm vegan", 'ask first')
    """
    if not sentence.rstrip().endswith("?"):
        return sentence
    if (tag := _PATTERNS["tag"].search(sentence.lower())) is not None:
        return sentence[: tag.start()]
    head, comma, _ = sentence.rpartition(", ")
    return head if comma else sentence


def strip_greeting(sentence: str) -> str:
    """Return a sentence without the greeting before it.

    >>> strip_greeting("Hi, call me Bea."), strip_greeting("Hey Claude! We moved"), strip_greeting("Hi-fi is on")
    ('call me Bea.', 'We moved', 'Hi-fi is on')
    """
    return _GREETING.sub("", sentence, count=1)


_GREETING = defer_regex(
    r"^(?:hi|hiya|hello|hey|good (?:morning|afternoon|evening)|hallo|moin|servus|guten (?:tag|morgen|abend)|hola"
    r"|buen[oa]s(?: \w+)?|bonjour|bonsoir|salut)(?: \w+)?(?:[,!.]| [–—-])\s+(?=\S)",
    re.IGNORECASE,
)


def _has_foreign_head(plain: str) -> bool:
    head = _PATTERNS["head"].search(plain)
    return (
        head is not None
        and not _PATTERNS.matches(head["head"], "allowed_head")
        and not _PATTERNS.matches(plain, "value_of_mine")
    )


# -- the classifier ---------------------------------------------------------------------------------------

FILE = "statements.bin"
WEIGHTS = 1 << 16
"""Number of weights."""

HEAD = struct.Struct("<ff")
"""The constant of the regression, and what each weight is multiplied with."""

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]")
_LONGEST_RUN = 2
_LONGEST_FORM = 4
_LETTERS = 4

_RELATED = RelatedWords.open()
_MOST_RELATED = 10
_LEAST_SIMILARITY = 0.4


def rate_statement(sentence: str) -> float:
    """Return how likely a sentence states something lasting or dated of the person who wrote it; 0 to 1.

    >>> rate_statement("we keep bees, three hives behind the allotment") > rate_statement("we keep getting this error")
    True
    """
    constant, scale, weights = _load_weights()
    total = sum(weights[place] for place in {hash_feature(each) for each in list_features(sentence)})
    return 1.0 / (1.0 + exp(-max(-30.0, min(30.0, constant + scale * total))))


def list_features(sentence: str) -> Iterator[str]:
    """Yield what the classifier sees of a sentence: runs of words, of the forms of words, parts and meanings of words.

    The form of a function word or mark is the word itself, that of another word its capital, that of a number `#`.
    The meaning of a word is the words related to it: what holds of nurses holds of midwives, and of "infirmière" too.
    """
    tokens = _TOKEN.findall(sentence)
    words = ["#" if token[0].isdigit() else fold_text(token) for token in tokens]
    content = {word for word in words if word[0].isalpha() and not is_function_word(word)}
    forms = [
        ("X" if place and token[0].isupper() else "x") if word in content else word
        for place, (token, word) in enumerate(zip(tokens, words, strict=True))
    ]
    for kind, items, longest in (("w", words, _LONGEST_RUN), ("f", forms, _LONGEST_FORM)):
        bounded = ["^", *items, "$"]
        for size in range(1, longest + 1):
            for start in range(len(bounded) - size + 1):
                yield f"{kind} {' '.join(bounded[start : start + size])}"
    for word in words:
        bounded_word = f"<{word}>"
        for start in range(len(bounded_word) - _LETTERS + 1):
            yield f"l {bounded_word[start : start + _LETTERS]}"
        if word in content:
            yield f"m {word}"
            for related, similarity in _RELATED.get(word)[:_MOST_RELATED]:
                if similarity >= _LEAST_SIMILARITY:
                    yield f"m {related}"
    yield f"length {min(8, len(words) // 3)}"


def hash_feature(feature: str) -> int:
    """Return the place of the weight of a feature."""
    return zlib.crc32(feature.encode()) % WEIGHTS


@cache
def _load_weights() -> tuple[float, float, memoryview]:
    content = pkgutil.get_data(__package__, FILE) or b""
    constant, scale = HEAD.unpack_from(content)
    return constant, scale, memoryview(content)[HEAD.size :].cast("b")
