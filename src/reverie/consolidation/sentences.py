"""Sentences of messages: where they end, what in them is quoted, and what their form says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.secrets.redactor import get_built_in_redactor
from reverie.domain.text import validation
from reverie.domain.text.dates import MONTHS

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
    return "[redacted: " in text or bool(get_built_in_redactor().find(text))


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
    """Whether a sentence can be understood without the one before it.

    >>> is_self_contained("That fixed it, thanks!"), is_self_contained("Restarting the daemon solved it.")
    (False, True)
    """
    words = {word.lower() for word in _WORD.findall(sentence)} - _EMPTY_WORDS
    return len(words) >= 2 and not _POINTS_BACK.search(strip_quotations(sentence))


_FENCE = defer_regex(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_PASSAGE = defer_regex(r"[\"“„«](?=[^\"“”«»\n]*[.!?]\s+\w)[^\"“”«»\n]*[\"”“»]")
"""A quotation of several sentences."""

_NO_PROSE = defer_regex(
    r"""[>|]|\$\ |\#!|//|/\*|\#\ ?(?:todo|fixme|note|hack|siempre|nunca|always|never)\b
      | [\[(]?\d{4}-\d\d-\d\d[T\ ]\d | \d\d:\d\d:\d\d\b | \[[\w.-]+\]\ (?!\()
      | (?:npm|error|warn(?:ing)?|info|debug|fatal|hint|traceback)(?:\ err!|\b\s*(?::|\[|\d|\(most))
      | [\w.]*(?:error|exception):\ | file\ ".*",\ line\ | .*(?:=>|===?|!==?|<-|\{\s*$|\};?$|\w\(\)|;$|\):$)
      | (?:const|let|var|def|class|import|export|function|return|print|it|expect|describe|assert)\b[\s(].*[({=;"]
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A line of code, of a log or of a program's output, a quoted line or a row of a table."""

_WRAPPED = defer_regex(r"(?<=[a-z,;])\n(?=[a-z])")
_MARK = defer_regex(r"^(?:[-*+•]|\d{1,3}[.)]|#{1,6}|\[[ xX]\])\s+")
_END = defer_regex(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*\s+")
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
_QUOTED = defer_regex(r"[\"“„«][^\"“”«»\n]*[\"”“»]|(?<!\w)'[^'\n]{3,}'(?!\w)")
_APOSTROPHE = str.maketrans("’‘ʼ", "'''")


def strip_quotations(sentence: str) -> str:
    """Return the sentence with quotations and code replaced by placeholders."""
    masked = _QUOTED.sub("“”", _CODE.sub("CODE", sentence.translate(_APOSTROPHE)))
    return " ".join(masked.replace("*", " ").replace("__", " ").split())


_WORD = defer_regex(r"[\w'’]+")


_EMPTY_WORDS = parse_word_set(
    """
    a an the this that these those it its it's that's is are was were be been am i'm i you you're we
    we're they he she me my your our us them and or but so not no nope yes ok okay of to in on at
    for with from by as do does did don't didn't doesn't have has had will would can could should
    just still again now then there here all one what which who how very much thanks thank please
    fixed fix fixes solved resolved works work failed fails fail wrong prefer like decided agreed
    sorry helped again did trick stop doing
    """
)
_POINTS_BACK = defer_regex(
    r"^(?:ok,? |yes,? |but |and |so |well,? )*(?:that|this|it)(?:'s| is| was)? (?:fixed|solved|resolved|"
    r"worked|works|helped|failed|fails|doesn't work|does not work|didn't work|did the trick)\b.{0,20}$"
    r"|\b(?:use|using|take|choose|chose|pick|picked|keep|with|for|on) the (?:first|second|third|fourth|last|latter"
    r"|former|other) \w+[.!]?$|\b(?:option|variant|version) (?:\d|[a-z]\b)",
    re.IGNORECASE,
)


# -- what the form of a sentence says ----------------------------------------------------------------------

_GREETING = defer_regex(
    r"^(?:hi|hiya|hello|hey|good (?:morning|afternoon|evening)|hallo|moin|servus|guten (?:tag|morgen|abend)|hola"
    r"|buen[oa]s(?: \w+)?|bonjour|bonsoir|salut)(?: \w+)?(?:[,!.]| [–—-])\s+(?=\S)",
    re.IGNORECASE,
)
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


_ASIDE = defer_regex(
    r"^(?:(?:oh|ah|well|btw|by the way|übrigens|ach ja|por cierto|au fait),? (?:and |und |y |et )?)+(?=\S)"
    r"|,? (?:by the way|btw|übrigens|por cierto|au fait)(?=[.!]*$)",
    re.IGNORECASE,
)


def strip_greeting(sentence: str) -> str:
    """Return a sentence without the greeting before it, and without words such as "by the way".

    >>> strip_greeting("Hi, call me Bea."), strip_greeting("Hey Claude! We moved"), strip_greeting("Hi-fi is on")
    ('call me Bea.', 'We moved', 'Hi-fi is on')
    >>> strip_greeting("Ruth is vegan, by the way."), strip_greeting("oh, and I'm celiac")
    ('Ruth is vegan.', "I'm celiac")
    """
    return _ASIDE.sub("", _GREETING.sub("", sentence, count=1))
