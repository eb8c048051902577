"""Rules that learn from single sentences without a model. English, and for facts German, Spanish and French."""

from __future__ import annotations

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
from reverie.consolidation.rules.sentences import RULES, Rule, Speaker, is_self_contained, split_sentences
from reverie.consolidation.rules.statements import has_correction, match_rules

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
