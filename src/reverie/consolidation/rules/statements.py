"""Rules for single sentences that state a decision, constraint, preference, failure, fix or correction.

In doubt a rule does not match: a missed sentence is still a stored turn that search finds, a wrong match
becomes a memory that nobody stated. Questions, conditions, guesses, quotations, code and hearsay state
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from reverie.consolidation.rules.sentences import RULES, PatternFile, Rule, Speaker, strip_quotations
from reverie.domain.lazy_regex import defer_regex

LONGEST_SENTENCE = 400
"""Characters of a sentence that can state anything; a longer one is a log line or a list."""

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
    return _CUES.matches(masked, "correction") and _is_correction(masked, answering=answering)


# -- the rules -------------------------------------------------------------------------------------------

_CORRECTIONS = PatternFile("corrections", re.IGNORECASE)
_ASKS_BACK = defer_regex(r"\?[\"')”]*$")


def _is_correction(masked: str, *, answering: bool) -> bool:
    """Whether a sentence corrects the assistant. `answering` says whether it answers a question."""
    if _CORRECTIONS.matches(masked, "no_correction"):
        return False
    if _ASKS_BACK.search(masked) and not masked.lower().startswith("why did you"):
        return False
    return _CORRECTIONS.matches(masked, "correction") or (
        not answering and _CORRECTIONS.matches(masked, "answer_no")
    )


_FAILURES = PatternFile("failures", re.IGNORECASE)
_CLAUSE = defer_regex(r"[,;:]\s|\s(?:but|and|until)\s")


def _is_failure(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells of something that did not work."""
    if _FAILURES.matches(masked, "no_failure"):
        return False
    if _is_fix(masked, speaker):
        return any(_has_failure(part) for part in _CLAUSE.split(masked) if not _FAILURES.matches(part, "fix"))
    return _has_failure(masked)


def _has_failure(masked: str) -> bool:
    if _FAILURES.matches(masked, "failure"):
        return True
    return _FAILURES.matches(masked, "failing") and _FAILURES.matches(masked, "ours")


def _is_fix(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells what fixed something, or that it works again."""
    return _FAILURES.matches(masked, "fix") and not _FAILURES.matches(masked, "no_fix")


_PREFERENCES = PatternFile("preferences", re.IGNORECASE)


def _is_decision(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says that something has been decided."""
    if len(masked.split()) < 3 or _PREFERENCES.matches(masked, "undecided"):
        return False
    if speaker == "assistant":
        return _PREFERENCES.matches(masked, "agent_decision")
    return _PREFERENCES.matches(masked, "decision", "user_decision")


def _is_constraint(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what must be, or must not."""
    if _PREFERENCES.matches(masked, "unconstrained") or len(masked.split()) < 3:
        return False
    if speaker == "assistant":
        return _PREFERENCES.matches(masked, "of_ours") and _PREFERENCES.matches(masked, "constraint")
    return _PREFERENCES.matches(masked, "constraint", "user_constraint")


def _is_preference(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what its speaker, or the user, likes."""
    if speaker == "assistant":
        return _PREFERENCES.matches(masked, "agent_preference") and not masked.endswith("!")
    return _PREFERENCES.matches(masked, "preference", "standing")


_HOLDS: Mapping[Rule, Callable[[str, Speaker], bool]] = {
    "decision": _is_decision,
    "constraint": _is_constraint,
    "preference": _is_preference,
    "failure": _is_failure,
    "fix": _is_fix,
}
