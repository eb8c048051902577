"""Secrets after a word that names them: `password = …`, "my token is …", code, lists and tables.

A password has no form of its own. So a match is judged by the name, by the joint between name and value, and by the
value. Code that only mentions a password is not matched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from reverie.domain.lazy_regex import compile_pattern, defer_regex
from reverie.domain.secrets import checksums
from reverie.domain.secrets.rules import Span, get_words, join_words

_PASS = (*get_words("password_names"), "mot de passe")
_KEYS = (*get_words("key_names"), "cle ")
TRIGGERS = (*_PASS, *_KEYS)
"""Words that name a secret, in small letters."""

UNCHECKED = "unchecked text"
"""Kind of the rest of a line after a name of a secret, in a text with too many of them."""

_MAX_NAMES = 5_000
"""Names that are judged in one text. After each further name, the rest of the line is treated as a secret."""

_REST = {
    "pass": r"pass(?:w[oö]rt|[ _-]?(?:word|wd|phrase|code))?",
    "contrase": r"contrase(?:ñ|n)a",
    "credential": r"credentials?",
    "clé": r"clé(?: d'| )?api|clé",
    "cle ": r"cle (?:d')?api",
    "clave": r"clave(?: (?:de )?(?:la )?api)?",
    "chave": r"chave (?:de )?(?:da )?api",
}
_PASSWORD = "|".join(_REST.get(word, word) for word in _PASS).replace(
    _REST["pass"], _REST["pass"].removesuffix("?")
)
"""Pattern of names for passwords, without "pass", which is also another word."""

_WHICH_KEY = defer_regex(rf"(?:{join_words('key_qualifiers')})(?:[ _.-]?access)?[ _.-]?\Z")
_WHICH_SCHLUESSEL = defer_regex(r"(?:api|zugangs|geheim)[ -]?\Z")
_MARK = r"[ \t]{0,8}(?:=>|:=|={1,3}|:|：|＝)\*{0,2}[ \t]{0,8}"
_OPENED = r"(?:\"{3}|'{3}|`{3}[a-z]{0,12}|![\w!/:.-]{1,40}|[|>][-+\d]{0,2})[ \t]{0,8}"
"""Beginning of a value of several lines in Python, Markdown and YAML, and YAML's tags."""

_NEXT_LINE = r"(?:\r?\n|\\n)[ \t]{0,40}"
_SET = rf"{_MARK}(?:{_OPENED}){{0,2}}(?:{_NEXT_LINE}){{0,2}}(?:{_OPENED}{_NEXT_LINE})?(?:[-*][ \t]{{1,4}})?"
_ASIDE = r"[ \t]{0,2}\([^()\n]{1,40}\)"
_DASHED = r"[ \t]{1,9}(?:--?>?|[–—→➜])[ \t]{1,9}"
_CALLED = r"\([ \t]{0,4}(?=\\{0,3}[\"'])"
_SAID = (
    r"(?:[ \t]{0,9}(?:是|为|為|は、?|이|은)[ \t]{0,9}"
    rf"|(?:['’]s|[ \t]{{1,9}}(?:{join_words('verbs')}|used[ \t]to[ \t]be)"
    r"|\?[ \t]{1,4}(?:it|this|that|das|es|c)(?:['’](?:s|est)|[ \t](?:is|ist)))"
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

_CHANGED = defer_regex(
    r"(?P<verb>(?:[ \t]{1,4}[^\W\d_]{2,20}){0,3})[ \t]{1,4}(?:from|von|de|da)[ \t]{1,4}"
    r"[\"'`“„«]?(?P<old>[^\s\"'`”“»,;]{4,64})[\"'`”“»]?[ \t]{1,4}(?:to|into|auf|zu|in|à|a|por|para)[ \t]{1,4}"
    r"[\"'`“„«]?(?P<new>[^\s\"'`”“»,;]{4,64})"
)
"""Text after the name of a secret that was changed from one value to another."""

_NOW = defer_regex(
    r"[\"'`”“»]?[,;.]?[ \t]{1,4}(?:(?:and|but|so)[ \t]{1,4})?(?=(?:it(?:'s|’s|[ \t]is)[ \t])?(?:is[ \t])?now\b)"
    r"(?:(?:it(?:'s|’s)?|is|now)[ \t]{1,4}){1,4}[\"'`“]?(?P<new>[^\s\"'`”“»,;]{4,64})",
    re.IGNORECASE,
)
"""Text after a former password, with the new one: "was …, now it's …"."""

_OTHER_BEFORE = defer_regex(rf"(?:\A|[^a-z])(?:{join_words('other_qualifiers')}|ssh[ _-]?host)[ _-]?\Z")
_HUMP = defer_regex(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER_AFTER = defer_regex(rf"[_-]?(?:{join_words('other_suffixes')})\Z", re.IGNORECASE)
_PREFIX = defer_regex(r"[A-Za-z0-9_.-]{0,40}\Z")
_WORDS = frozenset(get_words("plain_values"))
_ENDINGS = ("ed", "ing", "ly", "able", "ible", "less", "ful", "ive", "ous", "ise", "ize", "ation", "ity")
_WHOSE = defer_regex(
    r"\b(?:my|our|his|her|their|your|wifi|wi-fi|router|mein|unser|mi|nuestra|mon|notre|ma|minha|il mio)\b"
    r"[^.\n]{0,40}\Z",
    re.I,
)
_ABOUT_USERS = defer_regex(r"\b(?:user(?:name)?|login|log in|account|benutzer|usuario|utilisateur)\b", re.I)
_INNER_NAME = defer_regex(r"[A-Za-z_][\w.-]{0,40}=(?=[^=])")
_ARGUMENT = defer_regex(r"[A-Za-z_]\w*=")
_CODE = defer_regex(
    r"""[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+[\[(]?.*    # os.environ, self.password, config.get("x")
      | [A-Za-z_]\w*[(\[].*                                   # getenv("X"), args[1]
      | [$@%&*!]\{?[A-Za-z_]\w*[}%]?.{0,3} | [$]\(.* | \{\{?.* | %[sd({].* | <.* | \#\{.* | [|>][-+]?
      | (?:f|r|b|rb)?["'].* | [$]ANSIBLE_VAULT.* | => .* | [=!<>]=?.* | [-+*/|&?:.,;)\]}\\]+""",
    re.VERBOSE | re.DOTALL,
)
_OTHER_VALUES = (
    "sha256", "sha384", "sha512", "SHA256:", "ssh-", "arn:", "urn:", "uuid:", "vault:", "op://", "projects/",
)  # fmt: skip
"""Beginnings of digests, names and references, which are no keys."""

_NUMBER = defer_regex(r"[\d.,:%/-]+(?:ms|s|m|h|d|k|kb|mb|x|th|st|nd|rd)?", re.IGNORECASE)
_DATE = defer_regex(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_PATH = defer_regex(
    r"(?:[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://)\S*"
    r"|[\w.-]+(?:/[\w.-]+)+\.\w{1,5}"
    rf"|[\w-]+\.(?:{join_words('file_suffixes')})"
)
_SNAKE = defer_regex(
    r"[A-Za-z]+(?:[_-][A-Za-z]+)*"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    r"|_?[a-z]*(?:[A-Z]{1,5}[a-z]{2,}){1,9}\d?"
    r"|[a-z]+(?:_[a-z]+)*_?\d{1,2}"
)
_SETS = defer_regex(r"(?:[;&](?=[A-Za-z][\w .-]{0,40}=)).*\Z", re.DOTALL)


def fold_case(text: str) -> str:
    """Return a text in small letters. Its length stays."""
    lower = text.lower()
    if len(lower) != len(text):  # the small form of a few letters is longer; no trigger has them
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower


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
        rest = _REST.get(word)
        core = compile_pattern(rest, True).match(lower, start) if rest is not None else None
        if rest is not None and core is None:
            continue
        if word in _KEYS and _TELLING.search(lower, start, start + _NEAR) is None:
            continue
        begin, stop = _find_name_bounds(
            lower, start, core.end() if core is not None else start + len(word), word
        )
        if stop == begin:
            continue
        judged += 1
        match = compile_pattern(_AFTER, True).match(lower, stop)
        span = _build_span(text, begin, word, match) if match is not None else None
        if span is None and word in _PASS:
            span = _find_near(text, begin, stop)
        spans = [span] if span is not None else _find_change(text, begin, stop) if word in _PASS else []
        if spans and word in _PASS:
            spans += _find_value_now(text, spans[-1].end)
        for span in spans:
            yield span
            end = span.end


def classify_value(name: str, value: str) -> str | None:
    """Return the kind of secret of a whole value, by its name; None if it is no secret."""
    before = f'"{name}": "'
    text = before + json.dumps(value, ensure_ascii=False)[1:]
    lower = fold_case(text)
    spans = find_named(text, lower, find_trigger_words(lower))
    return next((span.kind for span in spans if span.start == len(before)), None)


def is_listed_password(label: str, value: str) -> bool:
    """Return whether an item of a list of passwords is one: it has letters, and digits or marks, without a space.

    Args:
        label: Text before it on its line, such as the name of its owner; may be empty.
        value: The item.
    """
    about = _OTHER_AFTER.fullmatch("_".join(label.split())) is not None
    return not about and _is_mixed(value) and classify_value("password", value) is not None


_NEAR = 100
_TELLING = defer_regex(r"[0-9=:'\"`：＝]")
"""Characters near every key with a value. They are rare in prose about keys and tokens."""


def find_trigger_words(lower: str) -> list[tuple[int, str]]:
    """Return the words that name a secret in their order, each after its place."""
    found = []
    for word in TRIGGERS:
        place = lower.find(word)
        while place >= 0:
            found.append((place, word))
            place = lower.find(word, place + len(word))
    return sorted(found)


def _find_name_bounds(lower: str, start: int, stop: int, word: str) -> tuple[int, int]:
    """Return the bounds of the secret's name; an empty range for another kind of key."""
    if word not in ("key", "schlüssel"):
        return start, stop
    pattern = _WHICH_KEY if word == "key" else _WHICH_SCHLUESSEL
    before = pattern.search(lower, max(0, start - 24), start)
    return (start, start) if before is None else (before.start(), stop)


def _build_span(text: str, begin: int, word: str, match: re.Match[str]) -> Span | None:
    """Return the secret of a match in the lower-case text; None if it has none."""
    before = _PREFIX.search(text, max(0, begin - 40), begin)
    prefix = before.group() if before is not None else ""
    core, tail = text[begin : match.start()], text[slice(*match.span("tail"))]
    joined = match["joined"]
    if not _is_key(prefix, core.lower(), tail):
        return None
    group = "quoted" if match["quoted"] is not None else "bare"
    start, end = match.span(group)
    if group == "bare":
        end = start + len(_trim_value(text[start:end], text[max(0, begin - len(prefix) - 60) : begin]))
    value = text[start:end]
    inner = _INNER_NAME.match(value) if group == "bare" else None
    if inner is not None and any(trigger in inner.group().lower() for trigger in TRIGGERS):
        return None  # judged by its own name
    if not value or checksums.is_placeholder(value) or value.lower() in _WORDS or _CODE.fullmatch(value):
        return None
    how, quoted = _classify_joint(joined), group == "quoted"
    if how != "set" and core.lower() == "pass" and not (how == "beside" and _is_strong(value)):
        return None  # the verb
    if how == "beside" and core.lower() == "pass" and _ARGUMENT.match(value):
        return None  # the verb too: pass limit=10
    line = _Line(text, begin - len(prefix), start, end, prefix + core + tail)
    if how in ("below", "loose"):
        if value.startswith(_OTHER_VALUES) or not (_is_strong(value) and (quoted or line.ends_here)):
            return None
        how = "set"
    judge = _is_password if word in _PASS else _is_key_value
    if judge(value, how, quoted, line):
        return Span(start, end, _classify_kind(word, prefix + core))
    return None


_NEXT_WORDS = defer_regex(r"(?:[^\s\w](?=\s)|(?=\s)|[은는이가](?=\s))[^\n]{1,40}")
_WORD_BEFORE = defer_regex(r"(?<!\S)(\S{6,80})[ \t](?:is|as|ist|als|es|como|est|comme)[ \t][^\n.]{0,30}\Z")
_TOKEN = defer_regex(r"(?<!\S)\S{6,80}(?!\S)")
_UNMISTAKABLE = defer_regex(
    r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])(?=[^!@#$%^&*+?~]*[!@#$%^&*+?~])"
    r"(?![A-Za-z]+[#@%+]\d+\Z|\d+%|[\w.+-]+@[\w-]+(?:\.|\Z)|[$@%&*])[^\s\"'`()<>{}\[\]=,;:|\\/“”„«»]{6,64}"
)


def _find_near(text: str, begin: int, stop: int) -> Span | None:
    """Return a value near a word for a password that is clearly one: letters, digits and marks without a space."""
    before = _PREFIX.search(text, max(0, begin - 40), begin)
    prefix = before.group() if before is not None else ""
    if not _is_key(prefix, text[begin:stop].lower(), ""):
        return None
    after = _NEXT_WORDS.match(text, stop)
    places = []
    if after is not None:
        line = text[stop : after.end() + 80].partition("\n")[0]
        tokens = _TOKEN.finditer(line)
        places = [
            (stop + token.start(), stop + token.end()) for token in tokens if token.start() <= len(after[0])
        ]
    if (named := _WORD_BEFORE.search(text, max(0, begin - 120), begin)) is not None:
        places.append(named.span(1))
    for start, end in places:
        value = text[start:end].rstrip(".,;:)?")
        if _UNMISTAKABLE.fullmatch(value) and not checksums.is_placeholder(value):
            return Span(start, start + len(value), "password")
    return None


def _find_change(text: str, begin: int, stop: int) -> list[Span]:
    """Return both values of a password that was changed from one to another."""
    before = _PREFIX.search(text, max(0, begin - 40), begin)
    changed = _CHANGED.match(text, stop)
    if changed is None or not _is_key(before.group() if before else "", text[begin:stop].lower(), ""):
        return []
    verbs = [word for word in changed["verb"].split() if not word.endswith("ed")]
    if any(_OTHER_AFTER.fullmatch(word) for word in verbs):  # "password length from …"
        return []
    values = {changed.start(name): changed[name].rstrip(".!?:)") for name in ("old", "new")}
    if not all(is_listed_password("", value) for value in values.values()):
        return []
    return [Span(place, place + len(value), "password") for place, value in values.items()]


def _find_value_now(text: str, end: int) -> list[Span]:
    """Return the password that follows an earlier one, which ends at `end`."""
    now = _NOW.match(text, end)
    value = now["new"].rstrip(".!?:)") if now is not None else ""
    if now is None or not is_listed_password("", value):
        return []
    return [Span(now.start("new"), now.start("new") + len(value), "password")]


def _classify_joint(joined: str) -> str:
    """Return the kind of joint between a name and its value: set, below, said, loose or beside."""
    if any(mark in joined for mark in "=:：＝"):
        is_below = ("\n" in joined or "\\n" in joined) and re.search(_OPENED, joined) is None
        return "below" if is_below else "set"
    if not joined.strip():
        return "beside"
    return "loose" if joined.startswith("(") or re.fullmatch(_DASHED, joined) is not None else "said"


class _Line:
    """Text around a value on its line."""

    def __init__(self, text: str, begin: int, start: int, end: int, name: str) -> None:
        self.before = text[max(0, begin - 60) : begin].rpartition("\n")[2]
        self.after = text[end : end + 40].partition("\n")[0]
        self.joined = text[begin:start]
        self.name = name

    @property
    def is_whole(self) -> bool:
        """Whether the line has only the name and the value, as in a file of settings."""
        lead = (
            self.before.strip(" \t-*>#\"'`|{(").removeprefix("export").removeprefix("set").removeprefix("ENV")
        )
        return not lead.strip() and not self.after.strip(" \t\"'`,;.!\\})*|")

    @property
    def is_shouted(self) -> bool:
        """Whether the name is that of a variable of the environment."""
        return self.name.isupper() and "=" in self.joined

    @property
    def ends_here(self) -> bool:
        """Whether the sentence ends after the value."""
        return (
            re.match(r"[\"'”»]?(?:\s|\\[nrt])*(?:[.!?,;)\]}。\"]|$|and\b|und\b|y\b|et\b|-\s)", self.after)
            is not None
        )


def _is_key(prefix: str, core: str, tail: str) -> bool:
    whole_word = not tail and (not prefix or not prefix[-1].isalpha())
    if core == "pass" and not whole_word and not (prefix.isupper() or prefix.endswith("_") or prefix == "db"):
        return False
    if core == "pass" and tail:
        return False
    word = _HUMP.sub("_", prefix.rpartition(".")[2]).lower()
    if word and _OTHER_BEFORE.search(word):
        return False
    if not tail:
        return True
    if _OTHER_AFTER.fullmatch(tail) is not None or (_OTHER_AFTER.search(tail) and tail[0] in "_-"):
        return False
    return bool(
        re.fullmatch(
            r"[_-]?(?:\d{1,3}|key|token|value|prod\w*|dev\w*|staging|live|test|base|string|v\d|[A-Z0-9_]+"
            r"|\w*(?:Key|Token|Value|Secret|Password))",
            tail,
        )
    )


def _classify_kind(word: str, name: str) -> str:
    if word in _PASS:
        return "password"
    if word in ("token", "令牌", "トークン"):
        return "token"
    return (
        "secret" if (word == "secret" and not name.lower().endswith("key")) or word == "credential" else "key"
    )


def _trim_value(value: str, before: str) -> str:
    """Return a bare value without following characters, such as punctuation or a closing tag."""
    value = _SETS.sub("", value)
    value = re.sub(r"</?[A-Za-z][^>]*>?.*\Z|\\[nrt]\S*\Z", "", value, flags=re.DOTALL)
    if "@" in value and "://" in before:
        value = value.partition("@")[0]
    # A password may end in a mark such as "!". If it has a digit, the mark is redacted too.
    marks = ".,;:)]}>\\" if any(char.isdigit() for char in value) else ".,;:)]}>\\!?*_"
    return (value.rstrip(marks) if len(value) > 2 else value) or value


def _is_password(value: str, how: str, quoted: bool, line: _Line) -> bool:
    mixed = _is_mixed(value)
    if " " in value.strip():
        phrase = "phrase" in line.name.lower() or _is_passphrase(value, how)
        return quoted and ((phrase and value.count(" ") >= 2) or (mixed and len(value) <= 40))
    if _NUMBER.fullmatch(value):
        return (
            value.isdigit()
            and len(value) >= 4
            and not _is_year(value)
            and (how == "set" or quoted or line.ends_here)
            and not line.after.lstrip().startswith(("char", "seconds", "times", "attempts"))
        )
    if len(value) < 4 or _DATE.fullmatch(value) or _PATH.fullmatch(value):
        return False
    if how == "beside":
        return _is_strong(value) or (
            mixed and len(value) >= 6 and _ABOUT_USERS.search(line.before) is not None
        )
    if quoted:
        return not _is_label(value)
    if value.count("-") >= 2 and len(value) >= 16 and (how == "said" or line.is_whole):
        return True
    if mixed and (":" in line.joined or not _SNAKE.fullmatch(value)):
        return True
    if how == "set":
        if line.is_shouted or (mixed and line.is_whole):
            return True
        code_like = value[:1].isupper() and line.name[:1].islower()
        return line.is_whole and value.isalnum() and len(value) >= 5 and not code_like
    if re.search(r"[a-z][A-Z]|\d", value):
        return True
    own = _WHOSE.search(line.before) is not None
    return own and line.ends_here and len(value) >= 5 and not value.lower().endswith(_ENDINGS)


def _is_passphrase(value: str, how: str) -> bool:
    """Return whether quoted words are a passphrase, and not a sentence or the label of a field."""
    words = value.lower().split()
    is_sentence = value[:1].isupper() and not value.istitle() and how == "set"
    return (
        not is_sentence
        and all(map(str.isalpha, words))
        and 2 * sum(word in _WORDS for word in words) < len(words)
        and not any(word in value.lower() for word in TRIGGERS)
    )


def _is_key_value(value: str, how: str, quoted: bool, line: _Line) -> bool:
    if " " in value or _DATE.fullmatch(value) or _PATH.fullmatch(value) or value.startswith(_OTHER_VALUES):
        return False
    if _NUMBER.fullmatch(value) or (_SNAKE.fullmatch(value) and not checksums.is_random(value)):
        return False
    if checksums.is_uuid(value):
        return how != "beside" and "token" not in line.name.lower()[:2]
    if checksums.is_random(value, least=16 if how == "set" else 14 if how == "said" else 20):
        return how != "beside" or not checksums.is_hex(value)
    if how == "beside":
        return False
    if how == "said":
        return len(value) >= 10 and checksums.is_random(value, least=10)
    if len(value) >= 10 and checksums.is_random(value, least=10):
        return quoted or line.is_shouted or line.is_whole
    symbols = sum(not char.isalnum() for char in value)
    if (
        len(value) >= 16
        and _is_mixed(value)
        and (symbols >= 3 or checksums.compute_entropy(value) >= 3.6)
        and "/" not in value
    ):
        return quoted or line.is_shouted or line.is_whole
    return (
        len(value) >= 8
        and _is_strong(value)
        and (line.is_shouted or quoted)
        and "secret" in line.name.lower()
    )


def _is_mixed(value: str) -> bool:
    """Return whether a value has letters, and digits or marks."""
    has_letter = any(char.isalpha() for char in value)
    return has_letter and any(char.isdigit() or char in "!@#$%^&*+=?~|<>/" for char in value)


def _is_strong(value: str) -> bool:
    """Return whether a value mixes letters with two of: digits, inner capitals, marks."""
    if len(value) < 6 or _SNAKE.fullmatch(value) or _PATH.fullmatch(value):
        return False
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    inner = any(char.isupper() for char in value[1:]) and any(char.islower() for char in value)
    marks = any(char in "!@#$%^&*+=?~" for char in value)
    return letters and (digits + inner + marks >= 2) and not checksums.is_hex(value)


def _is_year(value: str) -> bool:
    return len(value) == 4 and value[:2] in ("19", "20")


def _is_label(value: str) -> bool:
    """Return whether a quoted word is the name of a field or describes one."""
    lower = value.lower()
    return (
        lower in _WORDS
        or (value.isalpha() and lower.endswith(("password", "passwort", "kennwort")))
        or bool(re.fullmatch(r"[a-z_.-]*(?:password|passwd|pwd|passwort|token|secret)[a-z_.-]*", lower))
    )


# -- lists after a heading such as "passwords" ---------------------------------------------------------------

_LONGEST_TITLE = 100
_HEAD = defer_regex(
    rf"(?:{_PASSWORD})(?P<plural>e?s|e[nr])?[\"'`*_]{{0,3}}(?:[ \t]{{0,4}}[:=：]|(?=[ \t]{{0,4}}\r?\n))",
    re.IGNORECASE,
)
_TITLE = defer_regex(r"[ \t]{0,3}#{1,6}[ \t][^\n:=]{0,60}\Z")
_LIST_OPENED = defer_regex(r"[ \t*_]{0,4}[\[({]?[ \t]{0,4}\r?\n(?:[ \t]{0,9}\r?\n)?")
_ITEM = defer_regex(
    r"""
    (?P<mark>[ \t]{1,20}|(?=["']))?(?P<bullet>(?:[-*•+]|\d{1,2}[.)])[ \t]{1,4}(?:\[[ x]\][ \t])?)?
    (?:["'`*_]{0,3}(?P<label>[^\n:=→–—"']{1,40}?)["'`*_]{0,3}[ \t]{0,4}(?:[:=→–—]|->|(?<=[ \t])-(?=[ \t]))[ \t*_]{0,4})?
    ["'`]{0,3}(?P<value>[^\s"'`,;]{4,64})["'`]{0,3}[ \t]{0,4}(?:\([^()\n]{1,40}\))?[ \t,;]{0,4}\r?(?:\n|\Z)
    """,
    re.VERBOSE,
)
_JOINT = r"(?:[ \t]{0,4}[,;][ \t]{0,4}|[ \t]{1,4}(?:and|und|y|et|e)[ \t]{1,4})"
_ENTRY = r"[\"'`]?[^\s,;\]\"'`]{1,64}[\"'`]?"
_SEVERAL = defer_regex(
    rf"[ \t]{{0,4}}(?P<open>\[[ \t]{{0,4}})?(?P<items>(?>{_ENTRY}(?:{_JOINT}{_ENTRY}){{0,50}}))"
    r"[ \t]{0,4}(?(open)\]|(?:\r?\n|[}]|\Z))"
)
_PIECE = defer_regex(r"[^\s,;\"'`.]{1}[^\s,;\"'`]{2,62}[^\s,;\"'`.]")


def find_lists(text: str, triggers: Iterable[tuple[int, str]]) -> Iterator[Span]:
    """Yield the secrets of each list that follows a name for passwords.

    Args:
        text: The text.
        triggers: Result of `find_trigger_words` for its lower-case form.
    """
    end = 0
    for start, _ in triggers:
        if start < end or (head := _HEAD.match(text, start)) is None:
            continue
        end = place = head.end()
        is_titled = text[place - 1] not in ":=："
        line = text.rfind("\n", max(0, start - _LONGEST_TITLE), start) + 1
        if is_titled and _TITLE.match(text[line:start]) is None:
            continue
        opened = _LIST_OPENED.match(text, place)
        if opened is None:
            several = _SEVERAL.match(text, place) if head["plural"] else None
            if several is not None and (
                several["open"] or several["items"][0] in "\"'`" or re.search(_JOINT, several["items"])
            ):
                for piece in _PIECE.finditer(text, *several.span("items")):
                    if is_listed_password("", piece.group()):
                        yield Span(*piece.span(), "password")
                end = several.end()
            continue
        end = opened.end()
        while (item := _ITEM.match(text, end)) is not None and (item["mark"] or item["bullet"]):
            if is_listed_password(item["label"] or "", item["value"]):
                yield Span(*item.span("value"), "password")
            end = item.end()


# -- columns of tables, in CSV and in Markdown ---------------------------------------------------------------

_DELIMITERS = "|\t;,"
_LONGEST_NAME = 40
_LONGEST_LINE = 5_000
_AROUND = " \t\r\n\"'`*_"
_RULE = frozenset(" \t\r\n|:+-")


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
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start) + 1 or len(text)
        if end - begin > _LONGEST_LINE:
            continue
        head = text[begin:end]
        filled = [(cell, begin + at) for cell, at in _split_cells(head, "|") if cell.strip()]
        if len(filled) == 2:
            yield from _find_secret(filled[0][0].strip(_AROUND), *filled[1])
        for delimiter in filter(head.__contains__, _DELIMITERS):
            names = [cell.strip(_AROUND) for cell, _ in _split_cells(head, delimiter)]
            if all(map(_is_name, names[1:-1] if delimiter == "|" else names)):
                rows = _find_rows(text, end, delimiter, len(names))
                for place, cells in rows:
                    for name, (cell, at) in zip(names, cells, strict=False):
                        yield from _find_secret(name, cell, place + at)
                end = rows[-1][0] + 1 if rows else end
                break


def _find_rows(text: str, place: int, delimiter: str, width: int) -> list[tuple[int, list[tuple[str, int]]]]:
    """Return the rows of a table from a place on, each after its place."""
    rows = []
    while place < len(text):
        stop = text.find("\n", place) + 1 or len(text)
        if stop - place > _LONGEST_LINE:
            break
        cells = _split_cells(text[place:stop], delimiter)
        if len(cells) != width and not _is_rule(text[place:stop]):
            break
        rows.append((place, cells))
        place = stop
    return rows


def _is_name(text: str) -> bool:
    return 0 < len(text) <= _LONGEST_NAME and text.replace("_", "a").replace(" ", "a").isalnum()


def _is_rule(line: str) -> bool:
    """Return whether a line separates the heading of a table from its rows."""
    return "-" in line and _RULE.issuperset(line)


def _split_cells(line: str, delimiter: str) -> list[tuple[str, int]]:
    """Return the cells of a line with their places; a quoted delimiter is no separator."""
    pattern = compile_pattern(
        rf'(?:\A|(?<={re.escape(delimiter)}))(?:\s{{0,9}}"(?:[^"]|""){{0,400}}+"|[^"{delimiter}\n])*+(?=[{delimiter}\n]|\Z)',
        True,
    )
    return [(match.group(), match.start()) for match in pattern.finditer(line)]


def _find_secret(name: str, cell: str, at: int) -> Iterator[Span]:
    """Yield the secret of a cell, if it is one by its name."""
    value = cell.strip(_AROUND)
    if (
        any(map(str.isdigit, value))
        and " " not in value
        and (kind := classify_value(name, value)) is not None
    ):
        begin = at + len(cell) - len(cell.lstrip(_AROUND))
        yield Span(begin, begin + len(value), kind)
