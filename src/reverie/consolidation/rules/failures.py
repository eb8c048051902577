"""Rules for sentences that tell of a failure or a fix."""

from __future__ import annotations

import re

from reverie.consolidation.rules.patterns import PatternFile, Speaker
from reverie.domain.lazy_regex import defer_regex

_PATTERNS = PatternFile("failures", re.IGNORECASE)
_CLAUSE = defer_regex(r"[,;:]\s|\s(?:but|and|until)\s")


def is_failure(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells of something that did not work."""
    if _PATTERNS.matches(masked, "no_failure"):
        return False
    if is_fix(masked, speaker):
        return any(_has_failure(part) for part in _CLAUSE.split(masked) if not _PATTERNS.matches(part, "fix"))
    return _has_failure(masked)


def _has_failure(masked: str) -> bool:
    if _PATTERNS.matches(masked, "failure"):
        return True
    return _PATTERNS.matches(masked, "failing") and _PATTERNS.matches(masked, "ours")


def is_fix(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence tells what fixed something, or that it works again."""
    return _PATTERNS.matches(masked, "fix") and not _PATTERNS.matches(masked, "no_fix")
