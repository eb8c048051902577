"""Secrets after a word that names them: `password = …`, "my token is …", and code.

A password has no form of its own. So a match is judged by the name, by the joint between name and value, and by the
value. Code that only mentions a password is not matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets.rules import (
    Span,
    get_pattern,
    get_words,
    has_form,
    is_mixed,
    is_placeholder,
    is_random,
    is_strong,
    load_table,
)

_PASSWORDS = (*get_words("password_names"), "mot de passe")
_KEYS = (*get_words("key_names"), "cle ")
TRIGGERS = (*_PASSWORDS, *_KEYS)
"""Words that name a secret, in small letters."""

_KINDS = dict.fromkeys(_PASSWORDS, "password") | {
    **dict.fromkeys(("token", "令牌", "トークン"), "token"),
    **dict.fromkeys(("secret", "credential"), "secret"),
}
_WHOLE = {word: defer_regex(load_table()[1].get(f"whole_{word}", word)) for word in TRIGGERS}
"""Patterns of the names; some are longer than their triggers."""

_NEAR = 100

_WORDS = frozenset(get_words("plain_values"))
_ENDINGS = ("ed", "ing", "ly", "able", "ible", "less", "ful", "ive", "ous", "ise", "ize", "ation", "ity")


class _Place(NamedTuple):
    """How a value is joined to its name, and the line around both.

    Attributes:
        how: The joint: `set` by a mark, `said` by a verb, `beside`, or `loose` after a dash or a line end.
        quoted: Whether the value is in quotation marks.
        before: Text before the name.
        name: The whole name.
        joined: Text between name and value.
        ends: Whether the sentence ends after the value.
        is_whole: Whether the line has only the name and the value, as in a file of settings.
    """

    how: str
    quoted: bool
    before: str
    name: str
    joined: str
    ends: bool
    is_whole: bool

    @property
    def is_shouted(self) -> bool:
        """Whether the name is that of a variable of the environment."""
        return self.name.isupper() and "=" in self.joined


def _has(pattern: str, text: str) -> bool:
    return get_pattern(f"name_{pattern}").search(text) is not None


def find_named(text: str, lower: str) -> Iterator[Span]:
    """Yield every secret in `text` that a word before it names.

    Args:
        text: The text.
        lower: Its lower-case form.
    """
    end = 0
    present = [word for word in TRIGGERS if word in lower]
    places = sorted((found.start(), each) for each in present for found in re.finditer(each, lower))
    for start, word in places:
        core = _WHOLE[word].match(lower, start) if start >= end else None
        if core is None or (word in _KEYS and not _has("telling", lower[start : start + _NEAR])):
            continue
        begin = start
        if word in ("key", "schlüssel"):
            which = get_pattern(f"before_{word}").search(lower, max(0, start - 24), start)
            if which is None:
                continue
            begin = which.start()
        match = get_pattern("name_after").match(lower, core.end())
        span = _build_span(text, begin, word, match) if match is not None else None
        if span is not None:
            yield span
            end = span.end


def _build_span(text: str, begin: int, word: str, match: re.Match[str]) -> Span | None:
    """Return the secret of a match in the lower-case text; None if it has none."""
    found = get_pattern("name_prefix").search(text, max(0, begin - 40), begin)
    prefix = found.group() if found is not None else ""
    core, tail = text[begin : match.start()], text[slice(*match.span("tail"))]
    if not _names_secret(prefix, core.lower(), tail):
        return None
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    if not quoted:
        end = start + len(_trim_value(text[start:end], text[max(0, begin - len(prefix) - 60) : begin]))
    value, how = text[start:end], _classify_joint(match["joined"])
    if not value or is_placeholder(value) or value.lower() in _WORDS or has_form(value, "code"):
        return None
    inner = not quoted and get_pattern("name_inner").search(value)
    if inner and any(trigger in inner.group().lower() for trigger in TRIGGERS):
        return None  # judged by its own name
    if core.lower() == "pass" and how != "set" and not (how == "beside" and is_strong(value) and not inner):
        return None  # the verb, as in "pass limit=10"
    before = text[max(0, begin - len(prefix) - 60) : begin - len(prefix)].rpartition("\n")[2]
    after = text[end : end + 40].partition("\n")[0]
    ends = _has("end", after)
    if how == "loose":
        if not (is_strong(value) and (quoted or ends)):
            return None
        how = "set"
    name, joined = prefix + core + tail, text[begin - len(prefix) : start]
    is_whole = _has("lead", before) and not after.strip(" \t\"'`,;.!\\})*|")
    place = _Place(how, quoted, before, name, joined, ends, is_whole)
    kind = _KINDS.get(word, "key")
    judge = _is_password if kind == "password" else _is_key_value
    return Span(start, end, kind) if judge(value, place) else None


def _classify_joint(joined: str) -> str:
    """Return the kind of joint between a name and its value: set, said, loose or beside."""
    if any(mark in joined for mark in "=:：＝"):
        is_below = ("\n" in joined or "\\n" in joined) and not _has("opened", joined)
        return "loose" if is_below else "set"
    if not joined.strip():
        return "beside"
    return "loose" if joined.startswith("(") or has_form(joined, "dashed") else "said"


def _names_secret(prefix: str, core: str, tail: str) -> bool:
    """Return whether a name is that of a secret, and not of a property of one such as `password_hash`."""
    if core == "pass" and (tail or (prefix[-1:].isalpha() and not prefix.isupper() and prefix != "db")):
        return False
    before, after = (get_pattern("name_hump").sub("_", part) for part in (prefix.rpartition(".")[2], tail))
    if _has("other_before", before.lower()):
        return False
    return not tail or (has_form(tail, "tail") and not _has("other_after", after))


def _trim_value(value: str, before: str) -> str:
    """Return a bare value without following characters, such as punctuation or a closing tag."""
    value = get_pattern("name_markup").sub("", get_pattern("name_sets").sub("", value))
    if "@" in value and "://" in before:
        value = value.partition("@")[0]
    # A password may end in a mark such as "!". If it has a digit, the mark is redacted too.
    marks = ".,;:)]}>\\" if any(char.isdigit() for char in value) else ".,;:)]}>\\!?*_"
    return (value.rstrip(marks) if len(value) > 2 else value) or value


def _is_password(value: str, place: _Place) -> bool:
    how, mixed = place.how, is_mixed(value)
    if " " in value.strip():
        is_phrase = value.count(" ") >= 2 and _is_passphrase(value, place)
        return place.quoted and (is_phrase or (mixed and len(value) <= 40))
    if has_form(value, "number"):
        is_year = len(value) == 4 and value[:2] in ("19", "20")
        is_stated = how == "set" or place.quoted or place.ends
        return value.isdigit() and len(value) >= 4 and is_stated and not is_year
    if len(value) < 4 or has_form(value, "date", "path"):
        return False
    if how == "beside":
        return is_strong(value) or (mixed and len(value) >= 6 and _has("about_users", place.before))
    if place.quoted:
        return True
    if mixed and (":" in place.joined or not has_form(value, "snake")):
        return True
    if value.count("-") >= 2 and len(value) >= 16 and (how == "said" or place.is_whole):
        return True
    if how == "set":
        return place.is_shouted or (place.is_whole and (mixed or (value.isalnum() and len(value) >= 5)))
    if re.search(r"[a-z][A-Z]|\d", value):
        return True
    is_answer = re.search(r"\?\s+\w", place.joined) is not None  # "the password? it's …"
    is_own = (is_answer or _has("whose", place.before)) and place.ends
    return is_own and len(value) >= 5 and not value.lower().endswith(_ENDINGS)


def _is_passphrase(value: str, place: _Place) -> bool:
    """Return whether quoted words are a passphrase, and not a sentence or the label of a field."""
    words = value.lower().split()
    is_sentence = value[:1].isupper() and not value.istitle() and place.how == "set"
    is_named = "phrase" in place.name.lower()
    is_prose = 2 * sum(word in _WORDS for word in words) >= len(words)
    return is_named or not (is_sentence or is_prose or any(word in value.lower() for word in TRIGGERS))


def _is_key_value(value: str, place: _Place) -> bool:
    if " " in value or has_form(value, "date", "path", "number"):
        return False
    if has_form(value, "snake") and not is_random(value):
        return False
    if is_random(value, least={"said": 10, "beside": 20}.get(place.how, 16)):
        return place.how != "beside" or not has_form(value, "hex")
    if place.how != "set" or not (place.quoted or place.is_shouted or place.is_whole):
        return False
    is_long = len(value) >= 16 and is_mixed(value) and "/" not in value
    return is_long or is_random(value, least=10) or ("secret" in place.name.lower() and is_strong(value))
