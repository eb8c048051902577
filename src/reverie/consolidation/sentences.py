"""Sentences of messages: where they end, what they quote, say and name, and what people ask of their memory in them.

Corrections, failures and statements are told by patterns and fitted models. A wish is an imperative with a verb of
memory and the object that this verb needs: a clause for "remember", a subject for "forget", the message or the
conversation for "don't record". Questions ("Do you remember that …?"), statements ("I forget what I said about …"),
idioms ("Forget it") and quotations are not wishes. In doubt a sentence is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pkgutil import get_data
from typing import Literal

from reverie.domain.conversation import Wish, WishName
from reverie.domain.intake import LONGEST, rate_classes
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets.redactor import BUILT_IN
from reverie.domain.text import validation
from reverie.domain.text.dates import MONTHS, fold_text, load_words
from reverie.domain.text.escaping import unquoted_text

LONGEST_TEXT = 8_000
"""Characters of one turn that are looked at, from its beginning; longer ones are pastes, and cost time."""


TRIGGER = defer_regex(
    r"\b(?:decided|conclusion|important|remember|note that|key insight|learned that|will use|should use|agreed)\b",
    re.IGNORECASE,
)
"""Words of sentences that are worth keeping (agentkit's session consolidation)."""


def is_likely_secret(text: str) -> bool:
    """Return whether a text holds a key, a token or a password, or held one that was replaced. It is never learned.

    >>> is_likely_secret("The password is hunter2!"), is_likely_secret("Passwords must be hashed.")
    (True, False)
    """
    return "[redacted: " in text or bool(BUILT_IN.find(text))


def split_sentences(text: str) -> list[str]:
    r"""Return the sentences of a message, without code, logs, quoted passages and lines, tables and list marks.

    >>> split_sentences("It fails. See Dr. Weiss:\n- `x = 1`\n> quoted")
    ['It fails.', 'See Dr. Weiss:', '`x = 1`']
    """
    plain = _FENCE.sub("\n", validation.clean_text(text[:LONGEST_TEXT]))
    plain = _PASSAGE.sub("“”", plain)
    lines = [line.strip() for line in plain.split("\n")]
    kept = "\n".join("" if _NO_PROSE.match(line) else line for line in lines)
    kept = _WRAPPED.sub(" ", kept)
    return [found for line in kept.split("\n") for found in _split_line(_MARK.sub("", line))]


def is_self_contained(sentence: str) -> bool:
    """Return whether a sentence can be understood without the one before it.

    >>> is_self_contained("That fixed it, thanks!"), is_self_contained("Restarting the daemon solved it.")
    (False, True)
    """
    return _WORDS.search(sentence) is not None and not _POINTS_BACK.search(strip_quotations(sentence))


_FENCE = defer_regex(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_PASSAGE = defer_regex(r"[\"“„«»](?=[^\"“”«»\n]*[.!?]\s+\w)[^\"“”«»\n]*[\"”“»«]")
"""A quotation of several sentences."""

_NO_PROSE = defer_regex(
    r"""[>|]|\$\ |\#!|//|/\*|\#\ ?(?:todo|fixme|note|hack|siempre|nunca|always|never)\b
      | [\[(]?\d{4}-\d\d-\d\d[T\ ](?:\d|(?-i:[A-Z]{4})) | \d\d:\d\d:\d\d\b | \[[\w.-]+\]\ (?!\()
      | (?:npm|error|warn(?:ing)?|info|debug|fatal|hint|traceback)(?:\ err!|\b\s*(?::|\[|\d|\(most))
      | [\w.]*(?:error|exception):\ | file\ ".*",\ line\ | .*(?:=>|===?|!==?|<-|\{\s*$|\};?$|\w\(\)|;$|\):$)
      | (?:const|let|var|def|class|import|export|function|return|print|it|expect|describe|assert)\b[\s(].*[({=;"]
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A line of code, of a log or of a program's output, a quoted line or a row of a table."""

_WRAPPED = defer_regex(r"(?<=[^\n]{60}[a-z,;])\n(?=[a-z])")
"""The end of a line that a program broke; people end short ones themselves."""

_MARK = defer_regex(r"^(?:[-*+•]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])\s+")
_END = defer_regex(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*\s+|[。！？]++[」』”]*\s*")
_ABBREVIATION = defer_regex(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|no|nr|vs|etc|e\.g|i\.e|approx|ca|incl|fig|sec|vol|inc|ltd|jr|sr|a\.m|"
    r"p\.m)|(?:^|\s)\w)\.$",
    re.IGNORECASE,
)


_ORDINAL = defer_regex(
    rf".?\d\. (?:{'|'.join(month[:3] for month in MONTHS if month.isascii())}|und\b|bis\b|oder\b)",
    re.IGNORECASE,
)
"""The number of a day, as German writes it."""


def _split_line(line: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(line):
        sentence = line[start : end.end()].rstrip()
        if _is_abbreviated(sentence) or _ORDINAL.match(line, end.start() - 2):
            continue
        yield sentence.strip()
        start = end.end()
    if rest := line[start:].strip():
        yield rest


def _is_abbreviated(sentence: str) -> bool:
    """Return whether the full stop at the end is that of an abbreviation or of a number."""
    longest = len("approx.") + 1
    return bool(_ABBREVIATION.search(sentence, max(0, len(sentence) - longest))) or (
        sentence.endswith(".") and sentence[:-1].isdecimal()
    )


_CODE = defer_regex(r"`[^`\n]*`")
_QUOTED = defer_regex(r"[\"“„«»][^\"“”«»\n]*[\"”“»«]|(?<!\w)'[^'\n]{3,}'(?!\w)")
_APOSTROPHE = str.maketrans("’‘ʼ", "'''")


def strip_quotations(sentence: str) -> str:
    """Return the sentence with quotations and code replaced by placeholders."""
    masked = _QUOTED.sub("“”", _CODE.sub("CODE", sentence.translate(_APOSTROPHE)))
    return " ".join(masked.replace("*", " ").replace("__", " ").split())


_WORDS = defer_regex(r" .* |[\u3040-\u30ff\u3400-\u9fff]{6}")
"""What three words have, or a clause in a script without spaces."""

_POINTS_BACK = defer_regex(
    r"^(?:ok,? |yes,? |but |and |so |well,? )*(?:that|this|it)(?:'s| is| was)? (?:fixed|solved|resolved|"
    r"worked|works|helped|failed|fails|doesn't work|does not work|didn't work|did the trick)\b.{0,20}$"
    r"|\b(?:use|using|take|choose|chose|pick|picked|keep|with|for|on) the (?:first|second|third|fourth|last|latter"
    r"|former|other) \w+[.!]?$|\b(?:option|variant|version) (?:\d|[a-z]\b)",
    re.IGNORECASE,
)


# -- what the form of a sentence says ----------------------------------------------------------------------

ASKS = defer_regex(r"[?？][\"'”)\]]*$")
_TAG = defer_regex(r", (?:ok|okay|right|yes|alright|ja|gell|oder|verstanden|vale|d'accord)\?$", re.IGNORECASE)


def strip_question(sentence: str) -> str:
    """Return a sentence without the question that follows a statement in it.

    >>> strip_question("I'm vegan, what can I cook?"), strip_question("ask first, ok?")
    ("I'm vegan", 'ask first')
    """
    if ASKS.search(sentence) is None:
        return sentence
    if (tag := _TAG.search(sentence)) is not None:
        return sentence[: tag.start()]
    head, comma, _ = sentence.rpartition(", ")
    return head if comma else sentence


# -- what a sentence says ------------------------------------------------------------------------------------

MIN_CHANCE = 0.45
"""Least probability of a correction, failure or fix by the models of `reverie.domain.intake`."""


def has_correction(sentence: str, *, answering: bool = False) -> bool:
    """Return whether a sentence of the owner's says that the assistant was wrong.

    Args:
        sentence: The sentence.
        answering: Whether it answers a question of the assistant's, so that a mere "no" is no correction.

    >>> has_correction("That's wrong, it is 8."), has_correction("No problem.")
    (True, False)
    """
    masked = strip_quotations(sentence)
    if len(masked) > LONGEST or _matches("corrections", masked, "no_correction"):
        return False
    if _ASKS_BACK.search(masked) and not masked.lower().startswith("why did you"):
        return False
    if answering:
        return _matches("corrections", masked, "correction")
    is_named = _matches("corrections", masked, "correction", "answer_no")
    return is_named or rate_classes(masked).classes["correction"] >= MIN_CHANCE


def find_failure(sentence: str) -> Literal["failure", "fix"] | None:
    """Return whether a sentence tells of something that did not work, or of what repaired it.

    >>> find_failure("npm install crashes on Node 22"), find_failure("Clearing the cache solved it")
    ('failure', 'fix')
    """
    masked = strip_quotations(sentence)
    chances = rate_classes(masked).classes
    failure, fix = chances["failure"], chances["fix"]
    if max(failure, fix) < MIN_CHANCE:
        return None
    return "failure" if failure >= fix else "fix"


def is_fiction(sentence: str) -> bool:
    """Return whether a sentence makes the rest of a message something that is only played or supposed.

    >>> is_fiction("Act as a recruiter."), is_fiction("I suppose so.")
    (True, False)
    """
    return _matches("doubts", fold_text(strip_quotations(sentence)), "fiction")


def is_statement(sentence: str) -> bool:
    """Return whether a sentence may state something: no question, guess, code or mere quotation.

    >>> [is_statement(text) for text in ("I live in Oslo.", "Is it far?", "Maybe I live in Oslo.", "«Never give up.»")]
    [True, False, False, False]
    """
    masked = strip_quotations(sentence)
    return (
        len(masked.replace("“”", "").strip(" .,:;-–—!")) >= _SHORTEST
        and ASKS.search(masked) is None
        and not _matches("doubts", fold_text(masked), "no_fact")
    )


def holds_for_good(text: str) -> bool:
    """Return whether a text has words of a preference that holds for good.

    >>> holds_for_good("Always answer in German"), holds_for_good("Answer in German")
    (True, False)
    """
    return _matches("doubts", text.lower(), "for_good")


_SHORTEST = 3
_ASKS_BACK = defer_regex(r"\?[\"')”]*$")

# -- wishes ------------------------------------------------------------------------------------------------

_VERBS = defer_regex(
    r"rem[ei]m|recu|ten |tien|tête|recor|forg|mind|not[aei]|memor|sav|stor|eras|delet|remov|wip|scrub|log|keep|writ"
    r"|merk|denk|verg|behalt|speich|lösch|entf|zeich|unter uns|souv|rapp|ret|oubli|gard|effac|suppr|enreg|entre n|acu"
    r"|olvid|cuenta|apunt|guard|borr|elim|regist|grab|entre t|ricord|ment|dimen|segn|salv|cancel|tra (?:di )?noi|lembr"
    r"|esque|apag|grav|[记記忘删清保储覚憶メ削消オ]|off the record",
    re.IGNORECASE,
)
"""Beginnings of the words without which no sentence is a wish, so that others are not read."""

_COLON = defer_regex(r"[:：]\s*$")
_LONGEST_WISH = 600


def find_wishes(message: str) -> list[Wish]:
    """Return the wishes of a message, without code, quotations and what it reports.

    >>> find_wishes("Please remember that I park on the roof. Is that far?")
    [Wish(name='remember', text='I park on the roof.')]
    >>> find_wishes("Forget what I said about the divorce."), find_wishes("Do you remember that we met?")
    ([Wish(name='forget', text='the divorce')], [])
    """
    if _VERBS.search(message) is None:
        return []
    sentences = [" ".join(each.replace("’", "'").split()) for each in split_sentences(unquoted_text(message))]
    found = [_read_wish(each) for each in sentences]
    wishes = []
    for place, wish in enumerate(found):
        if wish is None:
            continue
        others = [
            each
            for each, other in zip(sentences, found, strict=True)
            if other is None and not ASKS.search(each)
        ]
        if wish.name == "remember" and wish.text and _COLON.search(sentences[place].removesuffix(wish.text)):
            # A list of statements after a colon.
            others = [each for each in sentences[place + 1 :] if each in others]
            wish = Wish("remember", " ".join([wish.text, *others]))
        elif wish.name in ("remember", "skip") and not wish.text:
            wish = Wish(wish.name, " ".join(others))
        if wish.name == "remember":
            wish = Wish("remember", wish.text[:1].upper() + wish.text[1:])
        wishes.append(wish)
    return wishes


def _read_wish(sentence: str) -> Wish | None:
    """Return the wish of a sentence; None if it is none."""
    if len(sentence) > _LONGEST_WISH or _VERBS.search(sentence) is None:
        return None
    plain = sentence.rstrip("?？ ")
    if plain != sentence and _find_pattern("wishes", "modal_opening").match(plain) is None:
        return None
    masked = strip_quotations(plain)
    for name, patterns in _PATTERNS.items():
        for pattern in patterns:
            compiled = _find_pattern("wishes", pattern)
            if compiled.search(masked) and (found := compiled.search(plain)):
                text = next((each for each in found.groupdict().values() if each), "").strip(" ,")
                return Wish(name, text if name != "forget" else text.rstrip(".!。"))
    return None


_PATTERNS: dict[WishName, tuple[str, ...]] = {
    "resume": ("resume",),
    "pause": ("pause",),
    "skip": ("skip_before", "skip_after"),
    "forget": ("forget",),
    "remember": ("remember_this", "remember_clause", "remember_after"),
}


# -- what a sentence names --------------------------------------------------------------------------------


def extract_references(text: str) -> tuple[str, ...]:
    """Return files, addresses, tests, issues and commits that a text names, in order; at most 20.

    >>> extract_references("Fixed tests/test_api.py::test_login in 4f2a9c1, see #42 and https://x.org/a.")
    ('tests/test_api.py::test_login', '4f2a9c1', '#42', 'https://x.org/a')
    """
    found: dict[str, None] = {}
    for each in _REFERENCE.finditer(text[:LONGEST_TEXT]):
        name = each.group().rstrip(".,;:!?)]}'\"")
        is_word = each.lastgroup == "commit" and (name.isdigit() or name.isalpha())
        if name and not is_word and not is_likely_secret(name):
            found[name[:500]] = None
    return tuple(found)[:_MAX_REFERENCES]


def extract_tags(text: str) -> tuple[str, ...]:
    """Return programming languages and tools that a text names, in lower case; at most 8.

    >>> extract_tags("The Docker build of the Go service fails in app.py")
    ('docker', 'go', 'python')
    """
    words = (each.group().lower() for each in _NAMED.finditer(text[:LONGEST_TEXT]))
    tags = (_TOOLS.get(word) or _ENDINGS.get(word.rpartition(".")[2]) or word for word in words)
    return tuple(dict.fromkeys(tags))[:_MAX_TAGS]


_MAX_REFERENCES = 20
_MAX_TAGS = 8
_SUFFIXES = (
    "py|pyi|js|ts|tsx|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|sh|bash|ps1|sql|html|css|"
    "scss|vue|json|yaml|yml|toml|xml|ini|cfg|conf|env|md|rst|txt|csv|tsv|log|lock|ipynb|proto|tf|gradle|dart|"
    "lua|ex|exs|hs|ml|r|kts|groovy"
)
# In capitals too, as in `README.MD`; not mixed, which is a new sentence after a missing space (`Done.Go on`), and
# not single letters, which are initials.
_SUFFIXES = "|".join((_SUFFIXES, *(each.upper() for each in _SUFFIXES.split("|") if len(each) > 1)))
# Every run is bounded: from each place in a long rule of hyphens, an unbounded one is read to its end again.
_REFERENCE = defer_regex(
    rf"""(?P<url>https?://[^\s<>"'`|]+)
      | (?P<test>[\w./-]{{1,300}}\.py(?:::[\w\[\]-]+)+)
      | (?P<path>(?<![\w@/.])(?:~|\.{{1,2}})?/?(?:[\w@.+-]{{1,255}}/){{1,40}}
          [\w@.+-]{{0,255}}\.(?:{_SUFFIXES})\b(?!\.\w))
      | (?P<rooted>(?<![\w/.:<])(?:~|\.{{1,2}})?/(?:[\w@.+-]{{1,255}}/){{1,40}}[\w@.+-]{{0,255}}\w)
      | (?P<file>(?<![\w@/.])[\w-]{{1,255}}(?:\.[\w-]{{1,255}}){{0,20}}\.(?:{_SUFFIXES})\b(?!\.\w))
      | (?P<named>\btest_\w+\b | \btest[A-Z]\w+ | \bTest[A-Z]\w+(?:(?:::|[./\#])\w[\w-]*)*
          | \b[A-Z]\w*[a-z0-9]Tests?\b(?:(?:::|[.\#])\w+)*)
      | (?P<issue>(?<![\w&/])(?:[\w-]{{1,100}}/[\w.-]{{1,100}})?\#\d{{1,6}}\b | \b[A-Z][A-Z0-9]{{1,9}}-\d{{1,6}}\b)
      | (?P<commit>\b[0-9a-f]{{7,12}}\b | \b[0-9a-f]{{40}}\b)
    """,
    re.VERBOSE,
)
_TOOLS, _ENDINGS = load_words("reverie.consolidation", "code_words.txt").values()
"""Tags by the names of languages and tools, and by the endings of file names."""

_TOOL_NAMES = "|".join(re.escape(name) for name in sorted(_TOOLS, key=len, reverse=True))
_NAMED = defer_regex(
    rf"(?<![\w.-])(?i:{_TOOL_NAMES})(?![\w+#]|\.\w|-\w)"
    r"|(?<![\w.])Go(?= (?:service|code|module|program|version|\d|binary|test|package|project|backend|"
    r"server))(?!\w)"
    rf"|(?<![\w])[\w/-]{{1,300}}\.(?:{'|'.join((*_ENDINGS, *(ending.upper() for ending in _ENDINGS)))})\b"
)


# -- patterns ----------------------------------------------------------------------------------------------


@cache
def _find_pattern(file: str, name: str) -> re.Pattern[str]:
    """Return a pattern of a file, compiled when it is first used: all of them take 35 ms.

    A heading `[name]` begins a pattern. Each line below it is an alternative; an indented line goes on where the one
    before it ends. `{name}` stands for another pattern of the file. A line that begins with `#` is a comment.
    """
    sources = _read_patterns(file)

    def expand(name: str) -> str:
        return re.sub(r"\{([a-z_]+)\}", lambda found: expand(found[1]), sources[name])

    return re.compile(expand(name), 0 if file == "doubts" else re.IGNORECASE)


@cache
def _read_patterns(file: str) -> dict[str, str]:
    text = (get_data("reverie.consolidation", f"patterns/{file}.txt") or b"").decode().replace("\n    ", "")
    names = re.split(r"^\[([a-z_]+)\]$", text, flags=re.MULTILINE)
    bodies = ([line for line in body.split("\n") if line and line[0] != "#"] for body in names[2::2])
    return {
        name: "|".join(f"(?:{line})" for line in body) for name, body in zip(names[1::2], bodies, strict=True)
    }


def _matches(file: str, text: str, *names: str) -> bool:
    """Return whether one of these patterns of a file is found in a text."""
    return any(_find_pattern(file, name).search(text) for name in names)
