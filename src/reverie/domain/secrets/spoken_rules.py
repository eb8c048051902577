"""Secrets in sentences: PINs, alarm codes, social security numbers, seed phrases, recovery codes.

English, German, Spanish and French. Such a value is digits or plain words, so the words around it decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets import checksums
from reverie.domain.secrets.rule import SecretMatch, Span, load_rules

_CARDS = defer_regex(
    r"card|karte|tarjeta|carte|debit|credit|bank|atm|phone|handy|m[óo]vil|tel[ée]f|t[ée]l[ée]phone"
    r"|voicemail|sim\b|"
    r"\b(?:my|our|meine?r?|mi|ma|mon|unsere?r?)\b",
    re.IGNORECASE,
)
_OTHER_CODES = defer_regex(
    r"(?:error|exit|status|zip|area|country|promo|discount|product|postal|source|dress|bar|qr|fehler|post"
    r"|gpio|pixel|"
    r"response|colou?r|order|room|flight|tracking)[ -]?\Z",
    re.IGNORECASE,
)


def _is_of_a_card(secret: SecretMatch) -> bool:
    start, end = secret.match.span(secret.group)
    line = secret.match.string[max(0, start - 90) : end + 30].strip()
    return len(set(secret.text)) > 1 and secret.text != "1234" and _CARDS.search(line) is not None


def _is_code(secret: SecretMatch) -> bool:
    start, end = secret.match.span(secret.group)
    text = secret.match.string
    announced_at = (
        secret.match.start("said") if "said" in secret.match.re.groupindex else secret.match.start()
    )
    is_time = re.match(r"\s?(?:am|pm|uhr|h\b|:\d|%|°|times|seconds|minutes|days)", text[end:], re.IGNORECASE)
    return (
        is_time is None
        and len(set(secret.text)) > 1
        and _OTHER_CODES.search(text[max(0, announced_at - 14) : announced_at]) is None
        and not (len(secret.text) == 4 and secret.text[:2] in ("19", "20") and start - announced_at > 30)
    )


def _is_password(secret: SecretMatch) -> bool:
    value = secret.text
    is_version = re.fullmatch(r"v?\d+(?:\.\d+)+\w*|\d+[a-z]{1,3}|[a-z]{2,5}-?\d{1,3}", value, re.IGNORECASE)
    return (
        is_version is None
        and not checksums.is_placeholder(value)
        and "=" not in value[:-2]
        and "${" not in value
    )


def _is_card_number(secret: SecretMatch) -> bool:
    return checksums.is_card(secret.text)


RULES = load_rules("spoken_rules", _is_of_a_card, _is_code, _is_password, _is_card_number)
"""Rules for secrets in sentences."""

_RECOVERY = defer_regex(
    r"(?:recovery|backup|rescue|restore)[ _-](?:code|key)s?|bitlocker[ _-]key|wiederherstellungs(?:code"
    r"|schl[üu]ssel)s?"
    r"|c[óo]digos?[ ]de[ ](?:recuperaci[óo]n|respaldo)|codes?[ ]de[ ](?:r[ée]cup[ée]ration|secours)",
    re.IGNORECASE,
)
_RECOVERY_CODE = defer_regex(
    r"(?<![\w./-])(?:\d{6}(?:-\d{6}){7}|[A-Z0-9]{4}(?:-[A-Z0-9]{4}){3,7}|(?=[0-9a-z-]*\d)(?=[0-9-]*[a-z]"
    r"|\d{5})[0-9a-z]{4,6}-[0-9a-z]{4,6}"
    r"|\d{8})(?![\w/-]|\.\d)"
)
_WITHIN = 300


def find_recovery_codes(text: str, lower: str) -> Iterator[Span]:
    """Yield the codes that follow the words "recovery codes" and the like."""
    if not any(
        word in lower
        for word in ("recover", "backup", "rescue", "bitlocker", "wiederher", "recupera", "récup", "secours")
    ):
        return
    for announcement in _RECOVERY.finditer(text):
        for code in _RECOVERY_CODE.finditer(text, announcement.end(), announcement.end() + _WITHIN):
            yield Span(*code.span(), "recovery code")
