"""Comparison of a line of notes with its replacement, and with turns that may end it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.grounding import (
    HEDGE,
    PASSING,
    Evidence,
    extract_content,
    extract_marks,
    has_negation,
    is_among,
    split_statements,
)
from reverie.domain.similarity.specifics import extract_specifics
from reverie.domain.text.dates import find_dates

ENDED_SHARE = 0.4
"""Share of a statement's words that a sentence must have to end it."""

_LEFT = defer_regex(r"\b(?:left|gone|moved)\b", re.IGNORECASE)
_ENDED = defer_regex(
    r"\b(?:no longer|any ?more|used to|stopped|quit|ended|over|finished|done with|cancel\w*|sold|left|gone"
    r"|scrap\w*|remove\w*|delete\w*|drop(?:ped)?|obsolete|outdated|wrong|broke up|closed|resigned|resolved|fixed|died"
    r"|shut down|repaired|fine again|lost|perdue?s?"
    r"|nicht mehr|kein\w* mehr|aufgehört|beendet|verkauft|gekündigt|abgesagt|vorbei|erledigt|gestrichen|lösch\w*"
    r"|streich\w*|ya no|dej[óoé] de|vendi[óo]|termin[óo]|borra\w*|elimina\w*|ne .{1,30} plus|non .{1,30} più)\b",
    re.IGNORECASE,
)
_KEPT = defer_regex(
    r"\b(?:from|instead|was|were|not|no longer|n['o]t|rather than|before|statt|anstatt|von|nicht|war|bisher|de|en vez"
    r"|antes|no|au lieu|avant|plus|pas|kein\w*)\b",
    re.IGNORECASE,
)


def find_added_words(text: str, other: str) -> str:
    """Return the words of a text that another lacks, in their order and with whole dates.

    >>> find_added_words("The port is 5433 since 3 May", "The port is 5432 since 2 May")
    '5433 3 May'
    """
    today = datetime(2000, 1, 1, tzinfo=UTC).date()
    kept: list[str] = []
    at = 0
    for mention in find_dates(text, today, relative=False):
        words = text[mention.at : mention.stop].strip()
        kept += _select_unknown(text[at : mention.at], other)
        kept += [] if words.lower() in other.lower() else [words]
        at = mention.stop
    return " ".join((*kept, *_select_unknown(text[at:], other)))


def find_value_that_stays(old: str, new: str, evidence: Sequence[Evidence]) -> str:
    """Return why the evidence keeps a value of a line that its replacement drops; empty if it does not.

    >>> said = [Evidence(text="250 for gold customers, 100 for the others", at=datetime(2026, 3, 2, tzinfo=UTC))]
    >>> find_value_that_stays("The limit is 100", "The limit is 250", said)
    'the turns say that it stays: 100'
    """
    dropped = extract_marks(extract_specifics(old)) - extract_marks(extract_specifics(new))
    for each in evidence:
        for sentence in split_statements(each.text):
            said = dropped & extract_marks(extract_specifics(sentence))
            if said and not _KEPT.search(sentence):
                return f"the turns say that it stays: {', '.join(sorted(said))}"
    return ""


def is_about_same(old: str, new: str, evidence: Sequence[Evidence]) -> bool:
    """Return whether evidence has a common word of two versions of a line."""
    before, after = extract_content(old), extract_content(new)
    said = extract_content("\n".join(each.text for each in evidence))
    return any(is_among(word, after) and is_among(word, said) for word in before)


def find_replacement_loss(old: str, new: str) -> str:
    """Return what would be lost if one line replaced another; empty if each word has a replacement.

    >>> find_replacement_loss("Ana lives in Oslo", "Ana lives in Rome")
    ''
    >>> find_replacement_loss("Ana lives in Oslo with her cats, Flip and Flap", "Ana lives in Rome")
    'it would leave out: cat, flap, flip, oslo'
    """
    before, after = extract_content(old), extract_content(new)
    dropped = sorted(word for word in before if not is_among(word, after))
    added = [word for word in after if not is_among(word, before)]
    if len(dropped) == len(before) or len(dropped) > len(added) + 1:
        return f"it would leave out: {', '.join(dropped)}"
    return ""


def _select_unknown(text: str, other: str) -> list[str]:
    """Return the pieces of a text with a word that another text lacks."""
    known = extract_content(other)
    pieces = (piece.strip(".,;:!?()") for piece in text.split())
    return [piece for piece in pieces if any(not is_among(word, known) for word in extract_content(piece))]


def find_end(statement: str, evidence: Sequence[Evidence]) -> str:
    """Return a reason if no evidence says that a statement no longer holds; empty if some does.

    >>> now = datetime(2026, 3, 2, tzinfo=UTC)
    >>> find_end("- Ana works at Acme", [Evidence(text="Ana doesn't work at Acme any more", at=now)])
    ''
    >>> find_end("- Ana works at Acme", [Evidence(text="Ana works at Acme", at=now)])
    'no turn of the user says that it has ended'
    >>> find_end("- Run 4 has 93 left", [Evidence(text="Run 25 has 15 left", at=now)])
    'no turn of the user says that it has ended'
    """
    words = extract_content(statement)
    own = set(_ENDED.findall(statement.lower()))
    for each in evidence:
        for sentence in split_statements(each.text):
            said = extract_content(sentence)
            shared = sum(is_among(word, said) for word in words)
            if not shared or sentence.endswith("?") or HEDGE.search(sentence) or PASSING.search(sentence):
                continue
            most = shared >= min(2, len(words)) and shared >= ENDED_SHARE * len(words)
            is_ended = not own.issuperset(_ENDED.findall(sentence.lower()))
            if is_ended and (most or not _LEFT.search(sentence)):
                return ""
            if most and has_negation(sentence) != has_negation(statement):
                return ""
    return "no turn of the user says that it has ended"
