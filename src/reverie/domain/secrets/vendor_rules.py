"""Secrets recognized by their own form: keys and tokens of providers, private keys, JWTs.

Every quantifier is bounded or possessive, so matching takes linear time.
"""

from __future__ import annotations

from reverie.domain.secrets import checksums
from reverie.domain.secrets.rule import SecretMatch, load_rules


def _is_github_token(secret: SecretMatch) -> bool:
    text = secret.text
    payload = text.rpartition("_")[2]
    return checksums.has_crc(payload) or not checksums.is_placeholder(payload)


def _is_sk_key(secret: SecretMatch) -> bool:
    """Return whether a match is a key, since `sk-` also begins names of CSS classes."""
    rest = secret.text[3:]
    return checksums.is_random(rest) and not checksums.is_placeholder(rest)


def _is_random_token(secret: SecretMatch) -> bool:
    return checksums.is_random(secret.text) and not checksums.is_placeholder(secret.text)


def _is_jwt_token(secret: SecretMatch) -> bool:
    return checksums.is_jwt(secret.text)


def _is_key_block(secret: SecretMatch) -> bool:
    """Return whether a block between BEGIN and END lines has a body, unlike a placeholder."""
    body = "".join(char for char in secret.text.split("-----", 2)[-1] if char.isalnum())
    return len(body) >= 60 and len(set(body)) >= 12


def _is_discord_token(secret: SecretMatch) -> bool:
    head = secret.text.partition(".")[0]
    return checksums.is_random(secret.text.replace(".", "")) and len(set(head)) > 5


KEY_BLOCK, *_OTHERS = load_rules(
    "vendor_rules",
    _is_github_token,
    _is_sk_key,
    _is_random_token,
    _is_jwt_token,
    _is_key_block,
    _is_discord_token,
)
"""Rule for a private key between its BEGIN and END lines, which may be indented or escaped; and the other rules."""

RULES = tuple(_OTHERS)
"""Rules for secrets with a form of their own, the more specific first."""
