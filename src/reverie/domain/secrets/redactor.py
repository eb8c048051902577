"""Redaction of secrets by all rules.

A secret is replaced by `[redacted: kind]`. Nothing of it is kept, not even a hash, because the hash of a short
password can be guessed.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from reverie.domain.lazy_regex import defer_regex, lower_in_place
from reverie.domain.secrets import named
from reverie.domain.secrets.rules import Span, get_words, load_table

_MARK = "[redacted: "
_KIND = defer_regex(r"\[redacted: ([^\]]{1,40})\]")
_ROUNDS = 4
_MAX_CLEAN_TEXTS = (
    4_000  # those of a chunk of records, which are redacted when they are made and when they are stored
)
_MAX_CLEAN_CHARACTERS = 4_000
_UNSAFE = defer_regex(r"[^a-z0-9]+")
_SHORTEST = 20
"""Characters of the shortest token of a provider. Most texts have few words as long."""

_OTHER_QUOTES = str.maketrans("“”„«»「」", "^" * 7)
"""Quotation marks that would end a quoted value too early."""

_LONGEST_NAMED = 6_000
"""Characters of a value that is judged by its name."""

_SHORTEST_REPEATED = 6
_MOST_REPEATED = 50

_NO_SPAN: tuple[Span, ...] = ()

_PARTS = load_table()[0]

_FRAMES = (*_PARTS["name"], *_PARTS["frame"])
_ALWAYS_TRIED = [rule for rule in _FRAMES if "" in rule.triggers]
_NAME_TRIGGERS = (*named.TRIGGERS, *get_words("other_names"))
"""Words, one of which is in every name of a secret."""


class _PlainCharacters(dict[int, str]):
    """Table from characters that look like ASCII letters and digits ("ｐ", "𝗽") to these."""

    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFKC", chr(code))
        is_plain = len(plain) == 1 and plain.isascii() and plain.isalnum()
        return self.setdefault(code, plain if is_plain else chr(code))


_plain_characters = _PlainCharacters()


def unify_characters(text: str) -> str:
    """Return a text with ASCII characters for full-width and mathematical letters and digits. Its length stays.

    >>> unify_characters("ｐａｓｓ：é")
    'pass：é'
    """
    return text if text.isascii() else text.translate(_plain_characters)


def _has_trigger(text: str) -> bool:
    lower = unify_characters(text).lower()
    return any(trigger in lower for trigger in _NAME_TRIGGERS)


def describe_redaction(given: str, stored: str) -> str:
    """Return how many secrets of a given text were redacted in the stored one; empty for none.

    >>> describe_redaction("gate code 4711", "gate code [redacted: access code]")
    'Redacted 1 secret (access code).'
    """
    new = Counter(_KIND.findall(stored)) - Counter(_KIND.findall(given)) if _MARK in stored else Counter()
    kinds = list(new.elements())
    number = f"{len(kinds)} secret{'s' if len(kinds) > 1 else ''}"
    return f"Redacted {number} ({', '.join(dict.fromkeys(kinds))})." if kinds else ""


class Redactor:
    """Replacement of the secrets in texts by their kinds. Safe to use from several threads."""

    def __init__(self, *, enabled: bool = True) -> None:
        """Create a redactor.

        Args:
            enabled: Whether anything is redacted; False leaves every text as it is.
        """
        self.enabled = enabled
        self._clean: set[str] = set()  # texts without a secret, as a cache
        self._plain_names: set[str] = set()  # names that are no secret

    def find(self, text: str) -> tuple[Span, ...]:
        """Return the secrets in a text in order; none overlap. Time is linear in its length."""
        if not self.enabled or len(text) < 3 or text in self._clean:
            return _NO_SPAN
        plain = unify_characters(text)
        spans = _merge_spans(list(_find_spans(plain)))
        if not spans:
            _remember(self._clean, text)
            return spans
        return _merge_spans([*spans, *_find_repetitions(plain, spans)])

    def text(self, text: str, *, keep: Collection[str] = ()) -> str:
        """Return the text with every secret replaced, except those in `keep`; the same object if it has none.

        >>> Redactor().text("db: postgres://app:kT9x-2vQ@db.internal/app")
        'db: postgres://app:[redacted: password in url]@db.internal/app'
        """
        for _ in range(_ROUNDS):
            spans = [span for span in self.find(text) if text[span.start : span.end] not in keep]
            if not spans:
                return text
            pieces, place = [], 0
            for span in spans:
                pieces += [text[place : span.start], f"{_MARK}{span.kind}]"]
                place = span.end
            text = "".join([*pieces, text[place:]])
        return text

    def kinds(self, text: str) -> tuple[str, ...]:
        """Return the kinds of the secrets in a text, each once."""
        return tuple(dict.fromkeys(span.kind for span in self.find(text)))

    def redact_mapping(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return a mapping of texts with secrets replaced; a value may be a secret by its name, such as `password`.

        Returns:
            `given` itself if it has none.
        """
        if not self.enabled:
            return given
        redacted: dict[str, str] = {}
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, str):
                return given  # not valid; its validation raises the error
            redacted[self.text(name)] = self.value(name, value)
        return given if redacted == dict(given) else MappingProxyType(redacted)

    def value(self, name: str, value: str) -> str:
        """Return a text with secrets replaced; it may be a secret as a whole by its name, such as `password`.

        If it is a JSON document, each text in it is examined separately.
        """
        clean = self.json_text(value) if value[:1] in ("{", "[") else self.text(value)
        if not (self.enabled and 0 < len(value) <= _LONGEST_NAMED and _has_trigger(name)):
            return clean
        before = f'"{name}": "'
        quoted = json.dumps(value, ensure_ascii=False).translate(_OTHER_QUOTES)
        for span in self.find(f"{before}{quoted[1:]}"):
            if span.start == len(before):
                return f"{_MARK}{span.kind}]"
        return clean

    def json_value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value with secrets replaced; each text is judged by its name too, as in `value`."""
        if isinstance(value, dict):
            given = next(
                (each for key in ("name", "key") if isinstance(each := value.get(key), str)), "value"
            )
            return {
                self.text(key) if isinstance(key, str) else key: self.json_value(
                    inner, given if key == "value" else str(key)
                )
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.json_value(inner, name) for inner in value]
        return self.value(name, value) if isinstance(value, str) else value

    def json_text(self, text: str) -> str:
        """Return a JSON document, or any other text, with secrets replaced."""
        if not (self.enabled and _has_trigger(text)):
            return self.text(text)
        try:
            given = json.loads(text)
            clean = self.json_value(given)
        except (ValueError, RecursionError):
            return self.text(text)
        return self.text(text if clean == given else json.dumps(clean, ensure_ascii=False))

    def redact_path(self, path: str) -> str:
        """Return a slash path with each segment that is a secret replaced by `redacted-` and its kind."""
        if not self.find(path):
            return path
        return "/".join(
            f"redacted-{_UNSAFE.sub('-', kinds[0])}" if (kinds := self.kinds(part)) else part
            for part in path.split("/")
        )

    def detect_secret_name(self, name: str) -> str | None:
        """Return the kind of a secret with a form of its own in a name; None if there is none.

        Names (of a session, a scope, a key) identify things, so a name with a secret is refused and not redacted.
        Digits such as the number of a chat do not count.
        """
        if not self.enabled or not name or name in self._plain_names:
            return None
        plain = unify_characters(name)
        lower = plain.lower()
        for rule in (*_PARTS["name"], *_PARTS["form"]):
            for span in rule.find_spans(plain, lower):
                return span.kind
        _remember(self._plain_names, name)
        return None


def _find_spans(text: str) -> Iterator[Span]:
    lower = text.lower() if text.isascii() else lower_in_place(text)
    if runs := "\n".join([word for word in lower.split() if len(word) >= _SHORTEST]):
        for rule in _PARTS["form"]:
            yield from rule.find_spans(text, runs)
    is_triggered = any(map(lower.__contains__, _list_signs(lower.isascii())))  # few texts are
    for rule in _FRAMES if is_triggered else _ALWAYS_TRIED:
        yield from rule.find_spans(text, lower)
    if is_triggered and any(map(lower.__contains__, named.TRIGGERS)):
        yield from named.find_named(text, lower)


def _remember(cache: set[str], text: str) -> None:
    """Add a text to a cache, which is emptied when it is full."""
    if len(text) <= _MAX_CLEAN_CHARACTERS:
        if len(cache) >= _MAX_CLEAN_TEXTS:
            cache.clear()
        cache.add(text)


@cache
def _list_signs(is_ascii: bool) -> Collection[str]:
    """Return texts, one of which is in each text that has a trigger of a frame or the name of a secret."""
    triggers = {*named.TRIGGERS, *(each for rule in _FRAMES for each in rule.triggers)} - {""}
    least = [each for each in triggers if not any(other != each and other in each for other in triggers)]
    return [*filter(str.isascii, least)] if is_ascii else least


def _find_repetitions(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield further occurrences of the same secrets: "password: x … and x did not work"."""
    kinds = {text[span.start : span.end]: span.kind for span in spans}
    for value, kind in list(kinds.items())[:_MOST_REPEATED]:
        if len(value) < _SHORTEST_REPEATED or value.isalpha() or value.isdigit():
            continue
        place = text.find(value)
        while place >= 0:
            yield Span(place, place + len(value), kind)
            place = text.find(value, place + len(value))


def _merge_spans(spans: list[Span]) -> tuple[Span, ...]:
    """Return the spans with overlapping ones joined; the first rule names the kind."""
    if not spans:
        return _NO_SPAN
    joined: list[tuple[int, Span]] = []
    for number, span in sorted(enumerate(spans), key=lambda each: (each[1].start, -each[1].end)):
        if joined and span.start < joined[-1][1].end:
            before, last = joined.pop()
            kind = last.kind if before < number else span.kind
            number, span = min(before, number), Span(last.start, max(last.end, span.end), kind)
        joined.append((number, span))
    return tuple(span for _, span in joined)


BUILT_IN = Redactor()
"""Redactor of all rules, whatever the settings are."""


def redact_secrets(text: str) -> str:
    """Return a message with secrets replaced by the built-in rules, whatever the settings are."""
    return BUILT_IN.text(text)
