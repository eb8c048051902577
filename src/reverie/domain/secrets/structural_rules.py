"""Secrets recognized by their surroundings: URLs, headers, cookies, commands, card numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reverie.domain.lazy_regex import compile_pattern, defer_regex
from reverie.domain.secrets import checksums
from reverie.domain.secrets.rule import SecretMatch, Span, load_rules
from reverie.domain.word_lists import join_words, parse_word_set

_MADE_UP_PASSWORDS = parse_word_set(
    """
    password passwd pass pwd passwort secret user username xxx xxxx *** **** token pw mypassword
    yourpassword
    """
)


def _is_url_password(secret: SecretMatch) -> bool:
    value = secret.text
    return not (
        value.lower() in _MADE_UP_PASSWORDS or checksums.is_placeholder(value) or value[0] in "$%{<[:"
    )


def _is_bearer_token(secret: SecretMatch) -> bool:
    value = secret.text
    if checksums.is_placeholder(value) or value.lower() in {"token", "authentication", "authorization"}:
        return False
    has_digit = any(char.isdigit() for char in value)
    return (
        checksums.is_jwt(value)
        or checksums.is_random(value, least=12)
        or (has_digit and len(value) >= 16 and "/" not in value)
    )


def _is_basic_credential(secret: SecretMatch) -> bool:
    return checksums.is_basic(secret.text)


def _is_aws_pair(secret: SecretMatch) -> bool:
    value = secret.text
    return (
        checksums.is_random(value, least=20)
        and not checksums.is_hex(value)
        and not checksums.is_placeholder(value)
    )


def _is_aws_secret(secret: SecretMatch) -> bool:
    return not checksums.is_placeholder(secret.text) and len(set(secret.text)) > 15


def _is_flag_password(secret: SecretMatch) -> bool:
    value = secret.text
    if value.isalpha() and value.islower() and not secret.match["q"]:
        return False
    return _is_url_password(secret) and not value.startswith(("-", "/dev/", "env:", "file:", "stdin"))


def _is_login_password(secret: SecretMatch) -> bool:
    value = secret.text
    sorts = (str.isalpha, str.isdigit, lambda char: char in "!#$%^&*+=?~")
    return all(any(map(is_sort, value)) for is_sort in sorts) and not checksums.is_placeholder(value)


def _is_numeric_secret(secret: SecretMatch) -> bool:
    return len(set(secret.text)) > 1 and secret.text not in {"1234", "123", "000"}


def _is_named_secret(secret: SecretMatch) -> bool:
    value = secret.text
    return (
        len(value) >= 4
        and _is_url_password(secret)
        and value.lower() not in {"true", "false", "null", "none"}
    )


RULES = load_rules(
    "structural_rules",
    _is_url_password,
    _is_bearer_token,
    _is_basic_credential,
    _is_aws_pair,
    _is_aws_secret,
    _is_flag_password,
    _is_login_password,
    _is_numeric_secret,
    _is_named_secret,
)
"""Rules for secrets in an address, a header, a command or a tag."""

_COOKIE = r"\b(?:set-)?cookie\\{0,2}[\"']?\s{0,3}[:=]\s{0,3}\\{0,2}[\"']?(?P<value>[^\r\n\"']{4,6000}+)"
_PAIR = defer_regex(r"([\w.!#$%&'*+^`|~-]{1,80})=([^\s;,\"\\]{6,4000}+)")
_SESSION = defer_regex(
    r"sess|sid\b|auth|token|jwt|csrf|xsrf|login|remember|connect\.sid|phpsessid|id$", re.IGNORECASE
)
_ATTRIBUTES = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "comment"])


def find_cookies(text: str, lower: str) -> Iterator[Span]:
    """Yield the values of cookies that let somebody in."""
    if "cookie" not in lower:
        return
    for match in compile_pattern(_COOKIE, False).finditer(text):
        for pair in _PAIR.finditer(match["value"]):
            name, value = pair.groups()
            if name.lower() in _ATTRIBUTES or checksums.is_placeholder(value):
                continue
            if checksums.is_random(value, least=12) or (
                _SESSION.search(name) and len(value) >= 8 and any(map(str.isdigit, value))
            ):
                begin = match.start("value") + pair.start(2)
                yield Span(begin, begin + len(value), "cookie")


_CARD = defer_regex(
    r"(?<![\w.#/+=-])(?<!\d[ ])"
    r"(?:\d{13,19}|\d{4}([ -]|[ ]{2})\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5})"
    r"(?![\w/+=-]|[ ]\d|\.\d)"
)
_DIGITS = defer_regex(r"[0-9]{4}(?:[0-9]{9}|[ -]{1,2}[0-9]{4})")
_ABOUT_CARDS = defer_regex(
    r"card|visa|mastercard|amex|karte|carte|tarjeta|cart[aã]o|carta|карт|卡|pay|cvv|cvc|exp", re.IGNORECASE
)
_OTHER_NUMBERS = join_words(
    r"""
    order invoice track ticket shipment parcel isbn imei serial snowflake timestamp \bts\b epoch account iban
    barcode ean gtin upc sku \bids?\b _id msg message chat channel user phone tel fax ref case customer
    bestell rechnung sendung pedido commande trace span seed hash nonce build run job
    """
)
_ABOUT_OTHERS = defer_regex(
    rf"(?:{_OTHER_NUMBERS})\w*[\"']?[^\w\n]{{0,4}}(?:no|nr|number|nummer|is|ist)?[^\w\n]{{0,4}}\Z",
    re.IGNORECASE,
)


def find_cards(text: str) -> Iterator[Span]:
    """Yield payment card numbers: issuer prefix, length, grouping and check digit have to fit."""
    if _DIGITS.search(text) is None:
        return
    for match in _CARD.finditer(text):
        digits = "".join(char for char in match.group() if char.isdigit())
        if not checksums.is_card(digits):
            continue
        before, after = text[max(0, match.start() - 40) : match.start()], text[match.end() : match.end() + 30]
        is_about_cards = _ABOUT_CARDS.search(before) or _ABOUT_CARDS.search(after)
        if not is_about_cards and (_ABOUT_OTHERS.search(before) or len(digits) not in (14, 15, 16)):
            continue
        yield Span(*match.span(), "card number")
