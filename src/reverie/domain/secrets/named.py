"""Secrets after a word that names them: `password = …`, "my token is …", code, and columns of tables.

A password has no form of its own. So a match is judged by the name, by the joint between name and value, and by the
value. Code that only mentions a password is not matched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reverie.domain.lazy_regex import compile_pattern, defer_regex, lower_in_place
from reverie.domain.secrets.rules import Span, get_words, join_words
from reverie.domain.secrets.values import (
    is_date,
    is_hex,
    is_mixed,
    is_number,
    is_path,
    is_placeholder,
    is_random,
    is_snake,
    is_strong,
)

_PASSWORDS = (*get_words("password_names"), "mot de passe")
_KEYS = (*get_words("key_names"), "cle ")
TRIGGERS = (*_PASSWORDS, *_KEYS)
"""Words that name a secret, in small letters."""

UNCHECKED = "unchecked text"
"""Kind of the rest of a line after a name of a secret, in a text with too many of them."""

_MAX_NAMES = 5_000
"""Names that are judged in one text. After each further name, the rest of the line is treated as a secret."""

_KINDS = dict.fromkeys(_PASSWORDS, "password") | {
    **dict.fromkeys(("token", "令牌", "トークン"), "token"),
    **dict.fromkeys(("secret", "credential"), "secret"),
}
_REST = {
    "pass": r"pass(?:w[oö]rt|[ _-]?(?:word|wd|phrase|code))?",
    "contrase": r"contrase(?:ñ|n)a",
    "credential": r"credentials?",
    "clé": r"clé(?: d'| )?api|clé",
    "cle ": r"cle (?:d')?api",
    "clave": r"clave(?: (?:de )?(?:la )?api)?",
    "chave": r"chave (?:de )?(?:da )?api",
}
"""Patterns of names that are longer than their triggers."""

_WHICH = {
    "key": defer_regex(rf"(?:{join_words('key_qualifiers')})(?:[ _.-]?access)?[ _.-]?\Z"),
    "schlüssel": defer_regex(r"(?:api|zugangs|geheim)[ -]?\Z"),
}
"""Words before "key" that make it a secret one."""

_MARK = r"[ \t]{0,8}(?:=>|:=|={1,3}|:|：|＝)\*{0,2}[ \t]{0,8}"
_OPENED = r"(?:\"{3}|'{3}|`{3}[a-z]{0,12}|![\w!/:.-]{1,40}|[|>][-+\d]{0,2})[ \t]{0,8}"
"""Beginning of a value of several lines in Python, Markdown and YAML, and YAML's tags."""

_NEXT_LINE = r"(?:\r?\n|\\n)[ \t]{0,40}"
_SET = rf"{_MARK}(?:{_OPENED}){{0,2}}(?:{_NEXT_LINE}){{0,2}}(?:{_OPENED}{_NEXT_LINE})?(?:[-*][ \t]{{1,4}})?"
_ASIDE = r"[ \t]{0,2}\([^()\n]{1,40}\)"
_DASHED = r"[ \t]{1,9}(?:--?>?|[–—→➜|])[ \t]{1,9}`?"
_CALLED = r"\([ \t]{0,4}(?=\\{0,3}[\"'])"
_SAID = (
    r"(?:[ \t]{0,9}(?:是|为|為|は、?|이|은)[ \t]{0,9}"
    rf"|(?:['’]s|[ \t]{{1,9}}(?:{join_words('verbs')}|used[ \t]to[ \t]be)"
    r"|(?:[ \t]\w{1,9}){0,2}\?[ \t]{1,4}(?:i[ \t](?:think|believe|guess)[ \t])?"
    r"(?:it|this|that|das|es|c)(?:['’](?:s|est)|[ \t](?:is|ist))|\?)"
    rf"(?:[ \t]{{1,9}}(?:{join_words('adverbs')}|set[ \t]to))?"
    r"[ \t]{0,4}[:：]?[ \t]{1,9})"
)
_OF = (
    r"[ \t]{1,9}(?:for|of|to|at|on|in|für|zu[rm]?|pour|de|du|del|para|da|do|voor|från|till|dla|для|от)"
    r"[ \t]{1,9}[^\n:=\"'`]{1,60}?"
)
_JOINED = rf"(?:(?:{_ASIDE})?{_SET}|{_OF}(?:{_SET}|{_SAID})|{_SAID}|{_DASHED}|{_CALLED}|[ \t]{{1,9}})"
_VALUE = (
    r"(?:(?P<q>\\{0,3}[\"'`“«„「])(?P<quoted>(?>(?:(?!(?P=q)|[”»“」])(?:\\.|[^\n\\])){1,600}))(?:(?P=q)|[”»“」])"
    r"|(?P<bare>(?>(?:[^\s\"'`“«”»「」，。；、！？）（]|(?<=\w)[\"'`](?=\w)){1,600})))"
)
_AFTER = (
    rf"(?P<tail>[A-Za-z0-9_-]{{0,24}}+)(?P<close>\\{{0,3}}[\"'`*\])]{{0,3}})(?P<joined>{_JOINED}){_VALUE}"
)

_OTHER_BEFORE = defer_regex(rf"(?:\A|[^a-z])(?:{join_words('other_qualifiers')}|ssh[ _-]?host)[ _-]?\Z")
_HUMP = defer_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER_AFTER = defer_regex(rf"(?:\A|[_-])(?:{join_words('other_suffixes')})\Z", re.IGNORECASE)
_TAIL = defer_regex(
    r"[_-]?(?:\d{1,3}|key|token|value|prod\w*|dev\w*|staging|live|test|base|string|v\d|[A-Z0-9_]+"
    r"|\w*(?:Key|Token|Value|Secret|Password))"
)
"""Ends of names that still name the secret itself."""

_PREFIX = defer_regex(r"[A-Za-z0-9_.-]{0,40}\Z")
_NEAR = 100
_TELLING = defer_regex(r"[0-9=:'\"`：＝]")
"""Characters near every key with a value. They are rare in prose about keys and tokens."""

_WORDS = frozenset(get_words("plain_values"))
_ENDINGS = ("ed", "ing", "ly", "able", "ible", "less", "ful", "ive", "ous", "ise", "ize", "ation", "ity")
_WHOSE = defer_regex(
    r"\b(?:my|our|his|her|their|your|wifi|wi-fi|router|mein|unser|mi|nuestra|mon|notre|ma|minha|il mio)\b"
    r"[^.\n]{0,40}\Z",
    re.I,
)
_ABOUT_USERS = defer_regex(r"\b(?:user(?:name)?|login|log in|account|benutzer|usuario|utilisateur)\b", re.I)
_CODE = defer_regex(
    r"""[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+[\[(]?.*    # os.environ, self.password, config.get("x")
      | [A-Za-z_]\w*[(\[].*                                   # getenv("X"), args[1]
      | [$@%&*!]\{?[A-Za-z_]\w*[}%]?.{0,3} | [$]\(.* | \{\{?.* | %[sd({].* | <.* | \#\{.* | [|>][-+]?
      | (?:f|r|b|rb)?["'].* | [$]ANSIBLE_VAULT.* | => .* | [=!<>]=?.* | [-+*/|&?:.,;)\]}\\]+""",
    re.VERBOSE | re.DOTALL,
)
_INNER_NAME = defer_regex(r"[A-Za-z_][\w.-]{0,40}=(?=[^=])")
_SETS = defer_regex(r"(?:[;&](?=[A-Za-z][\w .-]{0,40}=)).*\Z", re.DOTALL)
_MARKUP = defer_regex(r"</?[A-Za-z][^>]*>?.*\Z|\\[nrt]\S*\Z", re.DOTALL)
_END = defer_regex(r"[\"'”»`]?(?:\s|\\[nrt])*(?:[.!?,;)\]}。\"|]|$|and\b|und\b|y\b|et\b|-\s)")
_LEAD = defer_regex(r"[ \t*>#\"'`|{(-]*(?:export|set|ENV)?\s*\Z")


class _Place(NamedTuple):
    """How a value is joined to its name, and the line around both.

    Attributes:
        how: The joint: `set` by a mark, `said` by a verb, `beside`, or `loose` after a dash or a line end.
        quoted: Whether the value is in quotation marks.
        before: Text before the name.
        after: Text after the value.
        name: The whole name.
        joined: Text between name and value.
    """

    how: str
    quoted: bool
    before: str
    after: str
    name: str
    joined: str

    @property
    def is_whole(self) -> bool:
        """Whether the line has only the name and the value, as in a file of settings."""
        return _LEAD.match(self.before) is not None and not self.after.strip(" \t\"'`,;.!\\})*|")

    @property
    def is_shouted(self) -> bool:
        """Whether the name is that of a variable of the environment."""
        return self.name.isupper() and "=" in self.joined

    @property
    def ends_here(self) -> bool:
        """Whether the sentence ends after the value."""
        return _END.match(self.after) is not None


def find_trigger_words(lower: str) -> list[tuple[int, str]]:
    """Return the words that name a secret in their order, each after its place."""
    found = []
    for word in TRIGGERS:
        place = lower.find(word)
        while place >= 0:
            found.append((place, word))
            place = lower.find(word, place + len(word))
    return sorted(found)


def find_named(text: str, lower: str, triggers: Iterable[tuple[int, str]]) -> Iterator[Span]:
    """Yield every secret in `text` that a word before it names.

    Args:
        text: The text.
        lower: Its lower-case form.
        triggers: Result of `find_trigger_words` for that form.
    """
    end = judged = 0
    for start, word in triggers:
        if start < end:
            continue
        if judged >= _MAX_NAMES:
            begin, end = start + len(word), text.find("\n", start)
            end = len(text) if end < 0 else end
            if begin < end and not text.startswith("[redacted: ", begin):
                yield Span(begin, end, UNCHECKED)
            continue
        core = compile_pattern(_REST.get(word, word), True).match(lower, start)
        if core is None or (word in _KEYS and _TELLING.search(lower, start, start + _NEAR) is None):
            continue
        begin = start
        if word in _WHICH:
            which = _WHICH[word].search(lower, max(0, start - 24), start)
            if which is None:
                continue
            begin = which.start()
        match = compile_pattern(_AFTER, True).match(lower, core.end())
        judged += match is not None and not match["joined"].isspace()
        span = _build_span(text, begin, word, match) if match is not None else None
        if span is not None:
            yield span
            end = span.end


def classify_value(name: str, value: str) -> str | None:
    """Return the kind of secret of a whole value, by its name; None if it is no secret."""
    before = f'"{name}": "'
    text = before + json.dumps(value, ensure_ascii=False)[1:]
    lower = lower_in_place(text)
    spans = find_named(text, lower, find_trigger_words(lower))
    return next((span.kind for span in spans if span.start == len(before)), None)


def _build_span(text: str, begin: int, word: str, match: re.Match[str]) -> Span | None:
    """Return the secret of a match in the lower-case text; None if it has none."""
    before = _PREFIX.search(text, max(0, begin - 40), begin)
    prefix = before.group() if before is not None else ""
    core, tail = text[begin : match.start()], text[slice(*match.span("tail"))]
    if not _names_secret(prefix, core.lower(), tail):
        return None
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    if not quoted:
        end = start + len(_trim_value(text[start:end], text[max(0, begin - len(prefix) - 60) : begin]))
    value, how = text[start:end], _classify_joint(match["joined"])
    if not value or is_placeholder(value) or value.lower() in _WORDS or _CODE.fullmatch(value):
        return None
    inner = not quoted and _INNER_NAME.match(value)
    if inner and any(trigger in inner.group().lower() for trigger in TRIGGERS):
        return None  # judged by its own name
    if core.lower() == "pass" and how != "set" and not (how == "beside" and is_strong(value) and not inner):
        return None  # the verb, as in "pass limit=10"
    place = _Place(
        how=how,
        quoted=quoted,
        before=text[max(0, begin - len(prefix) - 60) : begin - len(prefix)].rpartition("\n")[2],
        after=text[end : end + 40].partition("\n")[0],
        name=prefix + core + tail,
        joined=text[begin - len(prefix) : start],
    )
    if how == "loose":
        if not (is_strong(value) and (quoted or place.ends_here)):
            return None
        place = place._replace(how="set")
    kind = _KINDS.get(word, "key")
    judge = _is_password if kind == "password" else _is_key_value
    return Span(start, end, kind) if judge(value, place) else None


def _classify_joint(joined: str) -> str:
    """Return the kind of joint between a name and its value: set, said, loose or beside."""
    if any(mark in joined for mark in "=:：＝"):
        is_below = ("\n" in joined or "\\n" in joined) and re.search(_OPENED, joined) is None
        return "loose" if is_below else "set"
    if not joined.strip():
        return "beside"
    return "loose" if joined.startswith("(") or re.fullmatch(_DASHED, joined) is not None else "said"


def _names_secret(prefix: str, core: str, tail: str) -> bool:
    """Return whether a name is that of a secret, and not of a property of one such as `password_hash`."""
    if core == "pass" and (
        tail or (prefix and prefix[-1].isalpha() and not prefix.isupper() and prefix != "db")
    ):
        return False
    if _OTHER_BEFORE.search(_HUMP.sub("_", prefix.rpartition(".")[2]).lower()):
        return False
    return not tail or not (_OTHER_AFTER.search(_HUMP.sub("_", tail)) or _TAIL.fullmatch(tail) is None)


def _trim_value(value: str, before: str) -> str:
    """Return a bare value without following characters, such as punctuation or a closing tag."""
    value = _MARKUP.sub("", _SETS.sub("", value))
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
    if is_number(value):
        is_year = len(value) == 4 and value[:2] in ("19", "20")
        is_stated = how == "set" or place.quoted or place.ends_here
        return value.isdigit() and len(value) >= 4 and is_stated and not is_year
    if len(value) < 4 or is_date(value) or is_path(value):
        return False
    if how == "beside":
        is_login = mixed and len(value) >= 6 and _ABOUT_USERS.search(place.before) is not None
        return is_login or is_strong(value)
    if place.quoted:
        return True
    if mixed and (":" in place.joined or not is_snake(value)):
        return True
    if value.count("-") >= 2 and len(value) >= 16 and (how == "said" or place.is_whole):
        return True
    if how == "set":
        return place.is_shouted or (place.is_whole and (mixed or (value.isalnum() and len(value) >= 5)))
    if re.search(r"[a-z][A-Z]|\d", value):
        return True
    is_answer = re.search(r"\?\s+\w", place.joined) is not None  # "the password? it's …"
    is_own = (is_answer or _WHOSE.search(place.before) is not None) and place.ends_here
    return is_own and len(value) >= 5 and not value.lower().endswith(_ENDINGS)


def _is_passphrase(value: str, place: _Place) -> bool:
    """Return whether quoted words are a passphrase, and not a sentence or the label of a field."""
    words = value.lower().split()
    is_sentence = value[:1].isupper() and not value.istitle() and place.how == "set"
    is_named = "phrase" in place.name.lower()
    is_prose = 2 * sum(word in _WORDS for word in words) >= len(words)
    return is_named or not (is_sentence or is_prose or any(word in value.lower() for word in TRIGGERS))


def _is_key_value(value: str, place: _Place) -> bool:
    if (
        " " in value
        or is_date(value)
        or is_path(value)
        or is_number(value)
        or (is_snake(value) and not is_random(value))
    ):
        return False
    if is_random(value, least={"said": 10, "beside": 20}.get(place.how, 16)):
        return place.how != "beside" or not is_hex(value)
    if place.how != "set" or not (place.quoted or place.is_shouted or place.is_whole):
        return False
    is_long = len(value) >= 16 and is_mixed(value) and "/" not in value
    return is_long or is_random(value, least=10) or ("secret" in place.name.lower() and is_strong(value))


# -- columns of tables, in CSV and in Markdown ---------------------------------------------------------------

_DELIMITERS = "|\t;,"
_AROUND = " \t\r\n\"'`*_"
_LINE = defer_regex(r"[^\n]{1,5000}(?:\n|\Z)")
_RULE = defer_regex(r"[ \t\r\n|:+-]*")
_COLUMN = defer_regex(r"[^\W_][\w ]{0,39}")


def find_columns(text: str, triggers: Iterable[tuple[int, str]]) -> Iterator[Span]:
    """Yield the secrets of each column whose heading names one.

    Args:
        text: The text.
        triggers: Result of `find_trigger_words` for its lower-case form.
    """
    end = 0
    for start, _ in triggers:
        if start < end:
            continue
        head = _LINE.match(text, text.rfind("\n", 0, start) + 1)
        end = head.end() if head is not None else text.find("\n", start) + 1 or len(text)
        for delimiter in _DELIMITERS if head is not None else "":
            names = [cell.strip(_AROUND) for cell, _ in _split_cells(head, delimiter)] if head else []
            inner = names[1:-1] if delimiter == "|" else names
            if len(names) < 2 or not all(map(_COLUMN.fullmatch, inner)):
                continue
            while (line := _LINE.match(text, end)) is not None:
                cells = _split_cells(line, delimiter)
                if len(cells) != len(names) and not _RULE.fullmatch(line.group()):
                    break
                for name, (cell, at) in zip(names, cells, strict=False):
                    yield from _find_secret(name, cell, at)
                end = line.end()
            break


def _split_cells(line: re.Match[str], delimiter: str) -> Sequence[tuple[str, int]]:
    """Return the cells of a line with their places; a quoted delimiter is no separator."""
    pattern = compile_pattern(
        rf'(?:\A|(?<={re.escape(delimiter)}))(?>(?:\s{{0,9}}"(?>(?:[^"]|""){{0,400}})"|[^"{delimiter}\n])*)(?=[{delimiter}\n]|\Z)',
        True,
    )
    return [(match.group(), line.start() + match.start()) for match in pattern.finditer(line.group())]


def _find_secret(name: str, cell: str, at: int) -> Iterator[Span]:
    """Yield the secret of a cell, if it is one by its name."""
    value = cell.strip(_AROUND)
    if any(map(str.isdigit, value)) and " " not in value:
        kind = classify_value(name, value)
        if kind is not None:
            begin = at + len(cell) - len(cell.lstrip(_AROUND))
            yield Span(begin, begin + len(value), kind)
