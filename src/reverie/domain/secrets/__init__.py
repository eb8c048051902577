"""Is this a secret, and what takes its place? Keys, tokens, passwords, private keys, card numbers. Pure.

It looks at one text and knows nothing of records or stores; `reverie.stores.redacting` uses it on all that is kept.
"""

from __future__ import annotations

from reverie.domain.secrets.redactor import (
    KINDS,
    LONGEST_PATTERN,
    MOST_PATTERNS,
    OWN,
    Redactor,
    build_redactor,
    explain_unsafe_pattern,
    redact_secrets,
)
from reverie.domain.secrets.rule import Span

__all__ = [
    "KINDS",
    "LONGEST_PATTERN",
    "MOST_PATTERNS",
    "OWN",
    "Redactor",
    "Span",
    "build_redactor",
    "explain_unsafe_pattern",
    "redact_secrets",
]
