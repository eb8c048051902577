"""Check that a text says of each thing only what its sources say of it.

`extract_specifics` checks that a name or number is present; this module checks that it belongs to the same thing. The
check uses word order, not grammar, and refuses in doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from reverie.domain import provenance
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.specifics import Specifics, extract_specifics, normalize_characters, stem_word
from reverie.domain.text.escaping import escape_line

_LEAST_KNOWN = 0.5  # of a sentence's words that its sources have: it may be worded anew, not invented
_FEWEST_WORDS = 4  # words from which a sentence can be judged by their share; below, one must be known
_LONGEST_SHOWN = 80
_CLAUSE_END = defer_regex(r"(?<=[.!?;:,])\s+|(?<!\s)\s+(?:and|but|while|whereas)\b\s+|\n+", re.IGNORECASE)


def find_unsupported(sources: Sequence[str], text: str) -> str:
    """Return a name, number, time, address, code, unit, negation or sentence of `text` that no source has.

    Args:
        sources: What it was made of.
        text: What is proposed.

    Returns:
        What it is, in words for a person; empty when nothing is.

    >>> source = ["Ada prefers tea"]
    >>> find_unsupported(source, "Bob prefers tea"), find_unsupported(source, "Prefers tea: Ada")
    ('no source says: bob', '')
    """
    known, specifics = extract_specifics("\n".join(sources)), extract_specifics(text)
    new = specifics.subtract(known, "numbers", "times", "addresses", "code", "units", "negations")
    new |= {name for name in specifics.names - known.names if f" {name} " not in known.wording}
    if new:
        return f"no source says: {', '.join(sorted(new))}"
    source_words = provenance.extract_content_words("\n".join(sources))
    for sentence in provenance.split_sentences(text):
        words = provenance.extract_content_words(sentence)
        least = _LEAST_KNOWN * len(words) if len(words) >= _FEWEST_WORDS else min(1, len(words))
        if len(words & source_words) < least:
            return f"no source says: {escape_line(sentence)[:_LONGEST_SHOWN]}"
    return ""


def find_subject_mismatch(note: str, part: str) -> str:
    """Return whether a part of a note may say of one thing what the note says of another.

    A value that only one clause of the note has has to bring along a name of that clause, or, where another
    clause has a value too, a word of it. A word that is both said and denied has to stand in a clause of the
    note's.

    Args:
        note: The whole note.
        part: A text that was made of a part of it.

    Returns:
        What is in doubt, in words for a person; empty when nothing is.

    >>> find_subject_mismatch("Ann's port is 1. Bo's port is 2.", "Ann's port is 2")
    'it says 2 of something else than the note'
    >>> find_subject_mismatch("Ann came from Oslo. She left in 2020.", "Ann left in 2020")
    ''
    """
    clauses = [clause for clause in _CLAUSE_END.split(note) if clause.strip()]
    clause_specifics, specifics = [extract_specifics(clause) for clause in clauses], extract_specifics(part)
    words = frozenset(specifics.wording.split())
    stems = words | {stem_word(word) for word in words}
    values = [_extract_values(each) for each in clause_specifics]
    unique_values = _select_unique(values)
    unique_names = _select_unique([_normalize_single_words(each.names) for each in clause_specifics])
    unique_others = _select_unique([each.affirmed for each in clause_specifics])
    rivals = sum(map(bool, unique_values)) > 1
    for at in range(len(clause_specifics)):
        taken = unique_values[at] & words
        subject = unique_names[at] or (unique_others[at] if rivals else frozenset())
        if taken and subject - values[at] and not subject & stems:
            return f"it says {', '.join(sorted(taken))} of something else than the note"
    return _find_misplaced_negation(clauses, part)


def _find_misplaced_negation(sources: Sequence[str], text: str) -> str:
    known = extract_specifics("\n".join(sources))
    both = known.denied & known.affirmed
    if not both:
        return ""
    wordings = [extract_specifics(source).wording for source in sources]
    for clause in filter(None, _CLAUSE_END.split(text)):
        specifics = extract_specifics(clause)
        if both & (specifics.affirmed | specifics.denied) and not any(
            specifics.wording in wording for wording in wordings
        ):
            return f"what is denied may be another thing than in the sources: {', '.join(sorted(both))}"
    return ""


def _extract_values(source: Specifics) -> frozenset[str]:
    return _normalize_single_words(source.numbers | source.times | source.addresses | source.code)


def _normalize_single_words(values: frozenset[str]) -> frozenset[str]:
    return frozenset(normalize_characters(value).casefold() for value in values if " " not in value)


def _select_unique(of_each: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Return of each set what no other set has."""
    counts = Counter(chain.from_iterable(of_each))
    return [frozenset(value for value in each if counts[value] == 1) for each in of_each]
