"""Rules for secrets with a form or surroundings of their own: patterns, and checks of their matches.

The rules and the lists of words are in `rules.txt`. Every quantifier of a pattern is bounded or possessive, so
matching takes time linear in the text.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from reverie.domain.lazy_regex import compile_pattern
from reverie.domain.secrets import values

_REACH = 300
"""Characters after an announcement in which its rule looks for secrets."""

_LONG = 60
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


class Span(NamedTuple):
    """Part of a text that is a secret, from `start` up to but not including `end`, and its kind."""

    start: int
    end: int
    kind: str


class SecretMatch(NamedTuple):
    """Match of a rule, to be checked.

    Attributes:
        text: The text to replace.
        match: The match.
        group: Name or number of the group with the text.
    """

    text: str
    match: re.Match[str]
    group: str | int

    def before(self, length: int) -> str:
        """Return the characters before the text, at most `length`."""
        start = self.match.start(self.group)
        return self.match.string[max(0, start - length) : start]

    def after(self, length: int) -> str:
        """Return the characters after the text, at most `length`."""
        end = self.match.end(self.group)
        return self.match.string[end : end + length]


class SecretRule(NamedTuple):
    """Rule for one kind of secret.

    Attributes:
        kind: Name of the kind, which replaces the secret.
        triggers: Lower-case texts, one of which a text must have for the pattern to be applied.
        pattern: Source of the pattern. Its group `value` is replaced, or the whole match if it has no such group.
        check: Function that returns whether a match is a secret; None if every match is.
        case: Whether the patterns are case-sensitive.
        needs: A cheaper pattern that a text must match too, for triggers that are common.
        announcement: A pattern before the secrets; `pattern` is then applied to its group `within`, or to the 300
            characters after it.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    check: Callable[[SecretMatch], bool] | None = None
    case: bool = True
    needs: str = ""
    announcement: str = ""

    def find_spans(self, text: str, lower: str) -> Iterator[Span]:
        """Yield every secret of this rule in `text`, whose lower-case form is `lower`."""
        if not any(trigger in lower for trigger in self.triggers):
            return
        if self.needs and compile_pattern(self.needs, True).search(text) is None:
            return
        pattern = compile_pattern(self.pattern, self.case)
        group: str | int = "value" if "value" in pattern.groupindex else 0
        for start, end in self._find_regions(text):
            for match in pattern.finditer(text, start, end):
                secret = SecretMatch(match[group], match, group)
                if not secret.text or (self.check is not None and not self.check(secret)):
                    continue
                before = text[max(0, match.start() - _LONG) : match.start()]
                if len(before) < _LONG or not _BASE64.issuperset(
                    before
                ):  # else within data, such as a picture
                    yield Span(*match.span(group), self.kind)

    def _find_regions(self, text: str) -> Iterator[tuple[int, int]]:
        if not self.announcement:
            yield 0, len(text)
            return
        announcement = compile_pattern(self.announcement, self.case)
        for match in announcement.finditer(text):
            is_bounded = "within" in announcement.groupindex
            yield match.span("within") if is_bounded else (match.end(), match.end() + _REACH)


class RuleTable(NamedTuple):
    """Content of `rules.txt`.

    Attributes:
        named: Rules that also apply to the names of sessions, scopes and keys, and are more than one word.
        forms: Rules for single words with a form of their own, which also apply to names; the more specific first.
        frames: Rules that depend on the text around a secret.
        words: Lists of words and of parts of patterns.
    """

    named: tuple[SecretRule, ...]
    forms: tuple[SecretRule, ...]
    frames: tuple[SecretRule, ...]
    words: Mapping[str, str]


@cache
def load_table() -> RuleTable:
    """Return the rules and the words, in the order of the file.

    A rule begins with its kind in brackets and has a line for each property; an indented line continues the one before
    it. Triggers are separated by spaces, and in backticks if they contain spaces. A `token` is a pattern without
    letters or digits before and after it whose match is not a placeholder. Patterns use the entries of `[words]` by
    their names in braces, and those of `[lists]` as alternatives.
    """
    text = (pkgutil.get_data(__package__, "rules.txt") or b"").decode()
    words = {"begin": "(?<![A-Za-z0-9])", "end": "(?![A-Za-z0-9])"}
    groups: dict[str, list[SecretRule]] = {"name": [], "form": [], "frame": []}
    rules = groups["name"]
    for block in text.strip().split("\n\n"):
        is_list = block.startswith("[lists]")
        kind, *lines = block.replace("\n    ", " " if is_list else "").split("\n")
        given = dict(line.split(": ", 1) for line in lines)
        if kind.startswith("[["):
            rules = groups[kind.strip("[]")]
        elif is_list or kind == "[words]":
            words |= given
        else:
            rules.append(_build_rule(kind.strip("[]"), given, words))
    return RuleTable(tuple(groups["name"]), tuple(groups["form"]), tuple(groups["frame"]), words)


def _build_rule(kind: str, given: Mapping[str, str], words: Mapping[str, str]) -> SecretRule:
    triggers: list[str] = []
    for number, part in enumerate(given["triggers"].split("`")):
        triggers += [part] if number % 2 else part.split()
    check = _CHECKS[given["check"]] if "check" in given else is_not_placeholder if "token" in given else None
    pattern = f"{{begin}}(?:{given['token']}){{end}}" if "token" in given else given["pattern"]
    pattern, needs, announcement = (
        re.sub(r"\{([a-z]+)\}", lambda name: words[name[1]], source)
        for source in (pattern, given.get("needs", ""), given.get("after", ""))
    )
    return SecretRule(kind, tuple(triggers), pattern, check, "case" not in given, needs, announcement)


def get_words(name: str) -> tuple[str, ...]:
    """Return the words of a list."""
    return tuple(load_table().words[name].split())


def join_words(name: str) -> str:
    """Return the words of a list as alternatives of a pattern."""
    return "|".join(get_words(name))


# -- checks of matches -------------------------------------------------------------------------------------


def is_not_placeholder(secret: SecretMatch) -> bool:
    return not values.is_placeholder(secret.text)


def is_github_token(secret: SecretMatch) -> bool:
    payload = secret.text.rpartition("_")[2]
    return values.has_crc(payload) or not values.is_placeholder(payload)


def is_sk_key(secret: SecretMatch) -> bool:
    """Return whether a match is a key, since `sk-` also begins names of CSS classes."""
    rest = secret.text[3:]
    return values.is_random(rest) and not values.is_placeholder(rest)


def is_random_token(secret: SecretMatch) -> bool:
    return values.is_random(secret.text) and is_not_placeholder(secret)


def is_jwt_token(secret: SecretMatch) -> bool:
    return values.is_jwt(secret.text)


def is_key_block(secret: SecretMatch) -> bool:
    """Return whether a block between BEGIN and END lines has a body, unlike a placeholder."""
    body = "".join(char for char in secret.text.split("-----", 2)[-1] if char.isalnum())
    return len(body) >= 60 and len(set(body)) >= 12


def is_discord_token(secret: SecretMatch) -> bool:
    head = secret.text.partition(".")[0]
    return values.is_random(secret.text.replace(".", "")) and len(set(head)) > 5


def is_url_password(secret: SecretMatch) -> bool:
    value = secret.text
    is_made_up = value.lower() in get_words("made_up_passwords") or values.is_placeholder(value)
    return not (is_made_up or value[0] in "$%{<[:")


def is_bearer_token(secret: SecretMatch) -> bool:
    value = secret.text
    if values.is_placeholder(value) or value.lower() in {"token", "authentication", "authorization"}:
        return False
    has_digit = any(char.isdigit() for char in value)
    return (
        values.is_jwt(value)
        or values.is_random(value, least=12)
        or (has_digit and len(value) >= 16 and "/" not in value)
    )


def is_basic_credential(secret: SecretMatch) -> bool:
    return values.is_basic(secret.text)


def is_aws_pair(secret: SecretMatch) -> bool:
    is_random = values.is_random(secret.text, least=20) and not values.is_hex(secret.text)
    return is_random and is_not_placeholder(secret)


def is_aws_secret(secret: SecretMatch) -> bool:
    return len(set(secret.text)) > 15 and is_not_placeholder(secret)


def is_flag_password(secret: SecretMatch) -> bool:
    value = secret.text
    if value.isalpha() and value.islower() and not secret.match["q"]:
        return False
    return is_url_password(secret) and not value.startswith(("-", "/dev/", "env:", "file:", "stdin"))


def is_login_password(secret: SecretMatch) -> bool:
    classes = (str.isalpha, str.isdigit, "!#$%^&*+=?~".__contains__)
    return all(any(map(is_class, secret.text)) for is_class in classes) and is_not_placeholder(secret)


def is_numeric_secret(secret: SecretMatch) -> bool:
    return len(set(secret.text)) > 1 and secret.text not in {"1234", "123", "000"}


def is_named_secret(secret: SecretMatch) -> bool:
    is_constant = secret.text.lower() in {"true", "false", "null", "none"}
    return len(secret.text) >= 4 and is_url_password(secret) and not is_constant


_CARDS = (
    r"card|karte|tarjeta|carte|debit|credit|bank|atm|phone|handy|m[óo]vil|tel[ée]f|t[ée]l[ée]phone|voicemail|sim\b"
    r"|\b(?:my|our|meine?r?|mi|ma|mon|unsere?r?)\b"
)
_OTHER_CODES = (
    r"(?:error|exit|status|zip|area|country|promo|discount|product|postal|source|dress|bar|qr|fehler|post|gpio|pixel"
    r"|response|colou?r|order|room|flight|tracking)[ -]?\Z"
)
_UNITS = r"\s?(?:am|pm|uhr|h\b|:\d|%|°|times|seconds|minutes|days)"
_VERSION = r"v?\d+(?:\.\d+)+\w*|\d+[a-z]{1,3}|[a-z]{2,5}-?\d{1,3}"
_SESSIONS = r"sess|sid\b|auth|token|jwt|csrf|xsrf|login|remember|connect\.sid|phpsessid|id$"
_PAYMENT = r"card|visa|mastercard|amex|karte|carte|tarjeta|cart[aã]o|carta|карт|卡|pay|cvv|cvc|exp"


def is_of_a_card(secret: SecretMatch) -> bool:
    line = (secret.before(90) + secret.text + secret.after(30)).strip()
    is_about_cards = compile_pattern(_CARDS, False).search(line) is not None
    return is_about_cards and is_numeric_secret(secret)


def is_code(secret: SecretMatch) -> bool:
    match = secret.match
    announced = match.start("said") if "said" in match.re.groupindex else match.start()
    before = match.string[max(0, announced - 14) : announced]
    is_year = len(secret.text) == 4 and secret.text[:2] in ("19", "20")
    return (
        compile_pattern(_UNITS, False).match(secret.after(10)) is None
        and len(set(secret.text)) > 1
        and compile_pattern(_OTHER_CODES, False).search(before) is None
        and not (is_year and match.start(secret.group) - announced > 30)
    )


def is_password(secret: SecretMatch) -> bool:
    is_version = compile_pattern(_VERSION, False).fullmatch(secret.text) is not None
    is_code_text = "=" in secret.text[:-2] or "${" in secret.text
    return not is_version and not is_code_text and is_not_placeholder(secret)


def is_new_password(secret: SecretMatch) -> bool:
    value = secret.text
    is_other = values.is_path(value) or values.is_date(value) or values.is_number(value)
    is_code_text = compile_pattern(r"[\w.]+\(.*", True).fullmatch(value) is not None
    is_plain = value.lower() in get_words("plain_values") or value[0] in "$%{<[:(" or is_code_text
    return values.is_mixed(value) and is_not_placeholder(secret) and not (is_other or is_plain)


def is_listed_password(secret: SecretMatch) -> bool:
    """Return whether an item of a list of passwords is one, by its label too."""
    label = "_".join((secret.match["label"] or "").split())
    about = compile_pattern(rf"(?:\A|_)(?:{join_words('other_suffixes')})\Z", False)
    return about.search(label) is None and is_new_password(secret)


def is_card_number(secret: SecretMatch) -> bool:
    return values.is_card(secret.text)


def is_session_cookie(secret: SecretMatch) -> bool:
    name, value = secret.match["name"], secret.text
    if name.lower() in get_words("cookie_attributes") or values.is_placeholder(value):
        return False
    is_session = compile_pattern(_SESSIONS, False).search(name) is not None
    has_digit = any(map(str.isdigit, value))
    return values.is_random(value, least=12) or (is_session and len(value) >= 8 and has_digit)


def is_payment_card(secret: SecretMatch) -> bool:
    """Return whether a number is that of a card, unless it is near a word for other numbers."""
    digits = "".join(filter(str.isdigit, secret.text))
    if not values.is_card(digits):
        return False
    about_cards, before = compile_pattern(_PAYMENT, False), secret.before(40)
    if about_cards.search(before) or about_cards.search(secret.after(30)):
        return True
    others = rf"(?:{join_words('other_numbers')})\w*[\"']?[^\w\n]{{0,4}}(?:no|nr|number|nummer|is|ist)?[^\w\n]{{0,4}}\Z"
    return compile_pattern(others, False).search(before) is None and len(digits) in (14, 15, 16)


_CHECKS = {name: check for name, check in vars().items() if name.startswith("is_")}
