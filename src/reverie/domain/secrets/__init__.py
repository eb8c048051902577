"""Detection and redaction of secrets: keys, tokens, passwords, private keys, card numbers.

The functions examine one text. `reverie.stores.redacting` applies them to everything that is stored.
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
