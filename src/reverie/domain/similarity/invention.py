"""Check that a summary adds no value, name or doubt to its sources.

The check is coarse and looks at forms only. A model checks whether the summary attributes everything correctly, and
the sources are shown if it does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.tokenizer import find_language
from reverie.domain.word_lists import parse_word_set

_DOUBTS = parse_word_set(
    "might maybe perhaps possibly probably vielleicht wahrscheinlich peut-être probablement quizá quizás "
    "probablemente"
)
_WORD = defer_regex(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_NAME = defer_regex(r"(?<=[\w,] )[A-Z][^\W\d_]{2,}")
_BEGINNING = 4  # letters of a name that are compared: "Ghanaian" and "Ghana" are the same


def find_inventions(sources: Sequence[str], text: str) -> list[str]:
    """Return the numbers, dates, paths, code, names and words of doubt that a text has and no source has.

    >>> find_inventions(["Ada's port is 80", "Ada is from Oslo"], "Ada from Oslo might use port 81")
    ['81', 'might']
    >>> find_inventions(["Ada's port is 80"], "Port of Ada: 80")
    []
    """
    joined = "\n".join(sources)
    lower = joined.casefold()
    known, said = extract_specifics(joined), extract_specifics(text)
    times = {time for time in said.times - known.times if any(map(str.isdigit, time))}
    new = said.subtract(known, "numbers", "addresses", "code", "units") | times
    found = {value for value in new if f" {value.casefold()} " not in known.wording}
    doubts = _DOUBTS.intersection(_WORD.findall(text.casefold()))
    if _DOUBTS.isdisjoint(_WORD.findall(lower)):
        found |= doubts
    if find_language(text) != "de":  # German capitalizes every noun
        names = {name.casefold() for name in _NAME.findall(text)}
        found |= {name for name in names if name[:_BEGINNING] not in lower}
    return sorted(found)
