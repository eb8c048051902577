"""Rules for sentences that state a decision, a constraint or a preference."""

from __future__ import annotations

import re

from reverie.consolidation.rules.patterns import PatternFile, Speaker

_PATTERNS = PatternFile("preferences", re.IGNORECASE)


def is_decision(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says that something has been decided."""
    if len(masked.split()) < 3 or _PATTERNS.matches(masked, "undecided"):
        return False
    if speaker == "assistant":
        return _PATTERNS.matches(masked, "agent_decision")
    return _PATTERNS.matches(masked, "decision", "user_decision")


def is_constraint(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what must be, or must not."""
    if _PATTERNS.matches(masked, "unconstrained") or len(masked.split()) < 3:
        return False
    if speaker == "assistant":
        return _PATTERNS.matches(masked, "of_ours") and _PATTERNS.matches(masked, "constraint")
    return _PATTERNS.matches(masked, "constraint", "user_constraint")


def is_preference(masked: str, speaker: Speaker) -> bool:
    """Whether a sentence says what its speaker, or the user, likes."""
    if speaker == "assistant":
        return _PATTERNS.matches(masked, "agent_preference") and not masked.endswith("!")
    return _PATTERNS.matches(masked, "preference", "standing")
