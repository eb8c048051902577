"""Parts of a text that are compared exactly: quoted code, given names, patterns, formats and operators."""

from __future__ import annotations

import re
from collections import Counter

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.ids import GIVEN_NAME, QUOTED

_CODE = defer_regex(rf"`[^`\n]{{1,200}}`|{QUOTED}")
_MARK = defer_regex(r"[*^$\[\]{}<>=|~+&%].|.[*^$\[\]{}<>=|~+&%]")
_AMOUNT = defer_regex(r"[+-]?[$€£¥]?\d[\d.,]*(?:%|[A-Za-zµ°€£]{0,3})")
_QUOTES = "`\"'“”‘’«»(),"
_ENDS = ".,;:!?…"


def has_code_of(shorter: str, longer: str) -> bool:
    """Return whether the longer text contains the exact code and given names of the shorter one.

    It may have them without backticks or quotation marks. Names and code of a text in capitals, and names of a text
    in small letters, may differ in case.
    """
    cased = not (shorter.isupper() or longer.isupper())
    exact = [code[1:-1] for code in _CODE.findall(shorter)] if cased else []
    if cased and not (shorter.islower() or longer.islower()):
        exact += (name.strip(_QUOTES + _ENDS) for name in GIVEN_NAME.findall(shorter))
    within = " ".join(longer.split())
    if not all(re.search(rf"(?<!\w){re.escape(' '.join(code.split()))}(?!\w)", within) for code in exact):
        return False
    return not Counter(_list_marked(shorter)) - Counter(_list_marked(longer))


def has_paired_stars(text: str) -> bool:
    """Return whether as many words begin with stars as end with them, as in Markdown."""
    words = [word.rstrip(_ENDS) for word in text.split() if word.strip("*")]
    opened = sum(len(word) - len(word.lstrip("*")) for word in words)
    closed = sum(len(word) - len(word.rstrip("*")) for word in words)
    return opened == closed


def _list_marked(text: str) -> list[str]:
    """Return the tokens with a mark of code that is no part of an amount, in lower case."""
    plain = text.replace("*", "") if has_paired_stars(text) else text
    return [each.lower() for each in _split_bare(plain) if _MARK.search(each) and not _AMOUNT.fullmatch(each)]


def _split_bare(text: str) -> list[str]:
    """Return the tokens of a text without quotation marks and the punctuation of sentences around them."""
    return [bare for chunk in text.split() if (bare := chunk.lstrip(_QUOTES).rstrip(_QUOTES + _ENDS))]
