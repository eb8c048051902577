"""Rules over single English sentences: decisions, constraints, preferences, failures, fixes, corrections.

In doubt a rule does not match: a missed sentence is still a stored turn that search finds, a wrong match
becomes a memory that nobody stated. Questions, conditions, guesses, quotations, code and hearsay state
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from reverie.consolidation.rules.corrections import is_correction
from reverie.consolidation.rules.entities import extract_references, extract_tags, is_likely_secret
from reverie.consolidation.rules.facts import (
    concerns_health,
    is_doubtful,
    is_fiction,
    match_statement,
    rate_importance,
    strip_greeting,
    strip_question,
)
from reverie.consolidation.rules.failures import is_failure, is_fix
from reverie.consolidation.rules.patterns import RULES, PatternFile, Rule, Speaker
from reverie.consolidation.rules.preferences import is_constraint, is_decision, is_preference
from reverie.consolidation.rules.sentences import is_self_contained, split_sentences, strip_quotations
from reverie.domain.lazy_regex import defer_regex

__all__ = [
    "RULES",
    "Rule",
    "Speaker",
    "concerns_health",
    "extract_references",
    "extract_tags",
    "has_correction",
    "is_doubtful",
    "is_fiction",
    "is_likely_secret",
    "is_self_contained",
    "match_rules",
    "match_statement",
    "rate_importance",
    "split_sentences",
    "strip_greeting",
    "strip_question",
]

LONGEST_SENTENCE = 400
"""Characters of a sentence that can state anything; a longer one is a log line or a list."""

_HOLDS: Mapping[Rule, Callable[[str, Speaker], bool]] = {
    "decision": is_decision,
    "constraint": is_constraint,
    "preference": is_preference,
    "failure": is_failure,
    "fix": is_fix,
}
_CUES = PatternFile("cues", re.IGNORECASE)
_CODE_LINE = defer_regex(
    r"^(?:def|class|import|from \w+ import|raise|assert|return|if|for|while|git|npm|pip|sudo|select|"
    r"insert|const|let|var|function|public|private|echo|export)\b.*(?:[(){};=]|--?\w|FROM\b)",
)


def match_rules(sentence: str, *, speaker: Speaker, answering: bool = False) -> tuple[Rule, ...]:
    """Return what one sentence states, in the order of `RULES`; empty in most cases.

    Args:
        sentence: The sentence, as `sentences` gives it.
        speaker: Who says it. Only a user corrects; an assistant's own wishes and plans state nothing.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> match_rules("We decided to use PostgreSQL.", speaker="user")
    ('decision',)
    >>> match_rules("No problem.", speaker="user")
    ()
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST_SENTENCE or _CODE_LINE.search(masked):
        return ()
    found: set[Rule] = {"correction"} if speaker == "user" and _has_correction(masked, answering) else set()
    cued = {rule for rule in _HOLDS if _CUES.matches(masked, rule)}
    if cued and not _CUES.matches(masked, "no_statement"):
        body = _CUES["opening"].sub("", masked)
        found |= {rule for rule, holds in _HOLDS.items() if rule in cued and holds(body, speaker)}
    return tuple(rule for rule in RULES if rule in found)


def has_correction(sentence: str, *, answering: bool = False) -> bool:
    """Whether one sentence of a user's says that the assistant was wrong.

    Args:
        sentence: The sentence, as `sentences` gives it.
        answering: Whether it answers a question of the assistant's.

    >>> has_correction("That's wrong, it is 8."), has_correction("No problem.")
    (True, False)
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST_SENTENCE or _CODE_LINE.search(masked):
        return False
    return _has_correction(masked, answering)


def _has_correction(masked: str, answering: bool) -> bool:
    return _CUES.matches(masked, "correction") and is_correction(masked, answering=answering)
