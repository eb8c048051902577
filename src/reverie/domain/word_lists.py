"""Word lists written as text, for rules and regular expressions."""

from __future__ import annotations


def parse_word_set(text: str) -> frozenset[str]:
    """Return the words of a text, which are separated by white space."""
    return frozenset(text.split())


def join_words(words: str) -> str:
    """Return a list of expressions, separated by spaces, as alternatives of a pattern.

    >>> join_words("keys? token")
    'keys?|token'
    """
    return "|".join(words.split())
