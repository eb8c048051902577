"""Request of a search: the question and its restrictions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, get_args

from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import (
    Filter,
    is_paragraph_allowed,
    is_record_allowed,
    is_turn_allowed,
    validate_filter,
)
from reverie.domain.record import Record, validate_choice, validate_fraction
from reverie.domain.text.validation import validate_count, validate_text
from reverie.domain.user_patterns import UserPattern
from reverie.search.hits import FoundValue, SearchMode

LONGEST_QUERY = 10_000
"""Characters of a question; a prompt's message is cut to it, a search refuses more."""

MOST_HITS = 1_000

PATTERN_TIMEOUT_S = 5.0
"""Seconds of processor time that a pattern may take in one search."""


class SearchRequest(NamedTuple):
    """Parsed query with its restrictions.

    Attributes:
        text: The question; None for the latest changes.
        allowed: Filter of the result.
        limit: Most hits, 1 to 1,000.
        min_score: Least score of a hit, 0 to 1.
        exclude: Ids of records, turns and paragraphs that must not be found.
        mode: How the text is interpreted.
        repeats: Whether all records that say the same are found, and those under a headline.
        isolated_category: A category that is searched as if there were no other one. `allowed` has it and the scopes;
            words are counted in it alone, and vectors are not used.
    """

    text: str | None
    allowed: Filter
    limit: int = 10
    min_score: float = 0.0
    exclude: frozenset[str] = frozenset()
    mode: SearchMode = "words"
    repeats: bool = False
    isolated_category: str | None = None


def validate_request(question: SearchRequest) -> SearchRequest:
    """Return the question; raise `InvalidInput` where a field is not valid."""
    if question.text is not None:
        validate_text(question.text, name="query", longest=LONGEST_QUERY, empty=True)
    validate_count(question.limit, name="limit", most=MOST_HITS)
    validate_choice(question.mode, get_args(SearchMode), name="mode")
    validate_fraction(question.min_score, name="min_score")
    validate_filter(question.allowed)
    return question


def restrict_to_alive(allowed: Filter, now: datetime) -> Filter:
    """Return the filter with `now` as the time of expiry, unless it has one."""
    return allowed if allowed.alive_at is not None else replace(allowed, alive_at=now)


def is_allowed(question: SearchRequest, value: FoundValue) -> bool:
    """Return whether the value passes the filter. Neighbors were not filtered before, and time has passed.

    A headline is found through its parts only.
    """
    allowed = question.allowed
    if value.id in question.exclude:
        return False
    if isinstance(value, Record):
        return is_record_allowed(allowed, value) and not value.is_headline
    return (
        is_turn_allowed(allowed, value) if isinstance(value, Turn) else is_paragraph_allowed(allowed, value)
    )


def build_matcher(text: str, mode: SearchMode) -> Callable[[str], object]:
    """Return a function that searches a text; raise `InvalidInput` if the pattern is not valid.

    The function raises `InvalidInput` if a pattern takes more than `PATTERN_TIMEOUT_S` for all texts together.
    """
    validate_text(text, name="query", longest=LONGEST_QUERY)
    if mode == "literal":
        return re.compile(re.escape(text), re.IGNORECASE).search
    try:
        pattern = UserPattern(text, ignore_case=True)
    except ValueError as error:
        raise InvalidInput(f"Invalid query {text!r}: {error}.") from None
    spent = 0.0

    def has_match(content: str) -> bool:
        nonlocal spent
        began = time.process_time()
        found = pattern.has_match(content, timeout_s=max(PATTERN_TIMEOUT_S - spent, 0.001))
        spent += time.process_time() - began
        return found

    return has_match
