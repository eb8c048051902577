"""Rule for sentences that say that the assistant was wrong."""

from __future__ import annotations

import re

from reverie.consolidation.rules.patterns import PatternFile
from reverie.domain.lazy_regex import defer_regex

_PATTERNS = PatternFile("corrections", re.IGNORECASE)
_ASKS_BACK = defer_regex(r"\?[\"')”]*$")


def is_correction(masked: str, *, answering: bool) -> bool:
    """Whether a sentence corrects the assistant. `answering` says whether it answers a question."""
    if _PATTERNS.matches(masked, "no_correction"):
        return False
    if _ASKS_BACK.search(masked) and not masked.lower().startswith("why did you"):
        return False
    return _PATTERNS.matches(masked, "correction") or (
        not answering and _PATTERNS.matches(masked, "answer_no")
    )
