"""Classifier of sentences: whether somebody states something of their own that will still matter weeks later.

A logistic regression over words, their order, related words and the form of a sentence. `scripts/fit_statements.py`
fits it to the labelled sentences of `evaluation/training/statements`. Each feature is hashed to one of the weights in
`statements.bin` (Weinberger et al. 2009, "Feature hashing for large scale multitask learning").
"""

from __future__ import annotations

import pkgutil
import re
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from math import exp

from reverie.domain.text.dates import fold_text
from reverie.domain.text.languages import is_function_word
from reverie.search.related_words import RelatedWords

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
