"""Check that a text that sums up others brings in no value, name or doubt of its own.

It is coarse, and looks at forms only. Whether the text says of each thing what its sources say of it is a question
for a model; and where it says something else, the sources are shown all the same.
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
_BEGINNING = 4  # letters of a name: "Ghanaian" is known from "Ghana"


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
    if find_language(text) != "de":  # where every noun is capitalised
        names = {name.casefold() for name in _NAME.findall(text)}
        found |= {name for name in names if name[:_BEGINNING] not in lower}
    return sorted(found)
