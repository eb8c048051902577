"""Does a new text say of each thing what its sources said of it, and nothing that none of them said?

`extract_specifics` tells whether a name or a number is still there; this tells whether it is still said of the same
thing: two ports may both survive a merge and have changed their owners. Goes by the order of words, knows no
grammar, and refuses when in doubt. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from reverie.domain import provenance
from reverie.domain.similarity.specifics import Specifics, extract_specifics, normalize_characters, stem_word
from reverie.domain.text.escaping import escape_line

_LEAST_KNOWN = 0.5  # of a sentence's words that its sources have: it may be worded anew, not invented
_FEWEST_WORDS = 4  # words from which a sentence can be judged by their share; below, one must be known
_LONGEST_SHOWN = 80
_CLAUSE_END = re.compile(r"(?<=[.!?;:,])\s+|\n+|\s+\b(?:and|but|while|whereas)\b\s+", re.IGNORECASE)


def find_unsupported(sources: Sequence[str], text: str) -> str:
    """What `text` says that no source says: a name, number, time, address, code, unit, negation or sentence.

    Args:
        sources: What it was made of.
        text: What is proposed.

    Returns:
        What it is, in words for a person; empty when nothing is.

    >>> find_unsupported(["Ada prefers tea"], "Bob prefers tea"), find_unsupported(["Ada prefers tea"], "Prefers tea: Ada")
    ('no source says: bob', '')
    """
    known, said = extract_specifics("\n".join(sources)), extract_specifics(text)
    new = (
        (said.numbers - known.numbers)
        | (said.times - known.times)
        | (said.addresses - known.addresses)
        | (said.code - known.code)
        | (said.units - known.units)
        | (said.negations - known.negations)
        | {name for name in said.names - known.names if f" {name} " not in known.wording}
    )
    if new:
        return f"no source says: {', '.join(sorted(new))}"
    there = provenance.extract_content_words("\n".join(sources))
    for sentence in provenance.split_sentences(text):
        words = provenance.extract_content_words(sentence)
        least = _LEAST_KNOWN * len(words) if len(words) >= _FEWEST_WORDS else min(1, len(words))
        if len(words & there) < least:
            return f"no source says: {escape_line(sentence)[:_LONGEST_SHOWN]}"
    return ""


def find_misattribution(sources: Sequence[str], text: str) -> str:
    """Whether `text` may say of one thing what a source says of another.

    Two ways are looked at. Where a word is both said and denied by the sources ("eats meat", "does not eat
    fish"), every clause with it has to stand in a source as it is. Where two sources have a name, number,
    time, address or code each that the other has not, what is only in one of them has to stand together.

    Args:
        sources: What it was made of.
        text: What is proposed.

    Returns:
        What is in doubt, in words for a person; empty when nothing is.

    >>> find_misattribution(["Ann's port is 1", "Bo's port is 2"], "Ann's port is 2 and Bo's is 1")
    'it mixes what different sources say: ann, 2, bo, 1'
    >>> find_misattribution(["Ann's port is 1", "Bo's port is 2"], "Bo's port is 2, Ann's is 1")
    ''
    """
    found = [extract_specifics(source) for source in sources]
    return _find_misplaced_negation(sources, text) or _find_mixed_sources(found, extract_specifics(text))


def find_subject_mismatch(note: str, part: str) -> str:
    """Whether a part of a note may say of one thing what the note says of another.

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
    found, said = [extract_specifics(clause) for clause in clauses], extract_specifics(part)
    words = frozenset(said.wording.split())
    stems = words | {stem_word(word) for word in words}
    values = [_extract_values(each) for each in found]
    names = [_normalize_single_words(each.names) for each in found]
    others = [each.affirmed for each in found]
    rivals = sum(bool(_select_unique(values, at)) for at in range(len(found))) > 1
    for at in range(len(found)):
        taken = _select_unique(values, at) & words
        subject = _select_unique(names, at) or (_select_unique(others, at) if rivals else frozenset())
        if taken and subject - values[at] and not subject & stems:
            return f"it says {', '.join(sorted(taken))} of something else than the note"
    return _find_misplaced_negation(clauses, part)


def _find_misplaced_negation(sources: Sequence[str], text: str) -> str:
    known = extract_specifics("\n".join(sources))
    denied = {value.removeprefix("not ") for value in known.negations}
    both = denied & known.affirmed
    if not both:
        return ""
    wordings = [extract_specifics(source).wording for source in sources]
    for clause in filter(None, _CLAUSE_END.split(text)):
        said = extract_specifics(clause)
        stems = said.affirmed | {value.removeprefix("not ") for value in said.negations}
        if both & stems and not any(said.wording in wording for wording in wordings):
            return f"what is denied may be another thing than in the sources: {', '.join(sorted(both))}"
    return ""


def _find_mixed_sources(sources: Sequence[Specifics], merged: Specifics) -> str:
    marks = [_extract_marker_words(source) for source in sources]
    own = [_select_unique(marks, at) for at in range(len(sources))]
    if sum(bool(each) for each in own) < 2:
        return ""
    said = [each | source.affirmed for each, source in zip(marks, sources, strict=True)]
    owners: dict[str, int] = {}
    for at in range(len(sources)):
        if own[at]:
            owners |= dict.fromkeys(_select_unique(said, at), at)
    words = [word if word in owners else stem_word(word) for word in merged.wording.split()]
    runs = [(at, list(group)) for at, group in groupby((w for w in words if w in owners), key=owners.get)]
    if len(runs) == len({at for at, _ in runs}):
        return ""
    shown = ", ".join(group[0] for _, group in runs)
    return f"it mixes what different sources say: {shown}"[:200]


def _extract_marker_words(source: Specifics) -> frozenset[str]:
    """The single words among a text's names, numbers, times, addresses and code."""
    return _normalize_single_words(source.names) | _extract_values(source)


def _extract_values(source: Specifics) -> frozenset[str]:
    return _normalize_single_words(source.numbers | source.times | source.addresses | source.code)


def _normalize_single_words(found: frozenset[str]) -> frozenset[str]:
    return frozenset(normalize_characters(value).casefold() for value in found if " " not in value)


def _select_unique(of_each: Sequence[frozenset[str]], at: int) -> frozenset[str]:
    others = frozenset().union(*(each for place, each in enumerate(of_each) if place != at))
    return of_each[at] - others
