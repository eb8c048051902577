"""Check that turns of the owner's may show a preference.

How strongly is computed from the turns and not claimed by a model: it takes two turns, or one that states the
preference for good or puts the assistant right. They may show it if clauses of them have something that it is about,
do not mostly deny it, and are neither about somebody else nor about one occasion, and if they have its values and
names. Whether they do show it is a question for a model (`verification`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

from reverie.consolidation.rules.patterns import PatternFile
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.grounding import (
    CLAUSE,
    DENIALS,
    PASSING,
    Evidence,
    collect_evidence,
    extract_content,
    find_injection,
    find_unsaid_universal,
    find_unsaid_values,
    is_among,
    split_statements,
)
from reverie.domain.word_lists import parse_word_set

NEEDED_TURNS = 2
"""Turns that have to show a preference where none states it outright."""

KNOWN_SHARE = 0.25
"""The share of a preference's words that the turns that show it must have."""

_FRAME = parse_word_set(
    """
    want wants prefer prefers like likes love enjoy enjoys avoid avoids use uses always never rather would take takes
    give wish wishes dislike dislikes hate hates gern gerne mag möchte will bevorzugt wünscht nie immer gustan
    gusta quiere prefiere nunca siempre veut préfère aime jamais toujours get gets have has
    does not without instead place no
    """
)
PATTERNS = PatternFile("evidence", re.IGNORECASE)
"""Patterns of what shows a preference."""

_WORD = defer_regex(r"[^\W_]+(?:['’][^\W\d_]+)?")


def explain_unshown(preference: str, turns: Sequence[Turn], *, zone: tzinfo = UTC) -> str:
    """Return why turns cannot show a preference; empty where they may.

    Args:
        preference: The preference, as a model words it.
        turns: The owner's turns that it cites.
        zone: Where the owner's days begin and end.
    """
    if reason := find_injection(preference):
        return reason
    distinct = {" ".join(turn.content.lower().split()): turn for turn in turns}
    evidence = collect_evidence(distinct.values(), only_owner=True)
    head = PATTERNS["contrast"].split(preference, maxsplit=1)[0].strip()
    first, _, rest = head.partition(" ")
    words = (extract_content(rest) or extract_content(first)) - _FRAME
    if not evidence or not words:
        return "no turn of the owner's is cited that may be evidence"
    if len(evidence) < NEEDED_TURNS and not _is_strong(distinct.values()):
        return f"{NEEDED_TURNS} turns are needed, or one that states it for good"
    if reason := find_unsaid_universal(preference, evidence):
        return reason
    named = any(word.istitle() and word.lower() in words for word in _WORD.findall(preference)[1:])
    if not named and any(PATTERNS.matches(each.text, "others") for each in evidence):
        return "the turns are about what somebody else wants"
    shown, opposed = _find_shown_words(head, words, evidence)
    if opposed > len(shown):
        return "the turns say the opposite"
    known = frozenset(word for each in shown for word in each)
    if not known or len(known) < KNOWN_SHARE * len(words):
        return f"no turn says: {', '.join(sorted(words - known))}"
    return find_unsaid_values(f"{first.lower()} {rest}", evidence, zone=zone)


def _find_shown_words(
    preference: str, words: frozenset[str], evidence: Sequence[Evidence]
) -> tuple[list[frozenset[str]], int]:
    """Return the words of a preference in each clause that may support it, and the number of clauses that oppose it."""
    shown: list[frozenset[str]] = []
    opposed = 0
    denies = _count_denials(preference) % 2
    for sentence in (sentence for each in evidence for sentence in split_statements(each.text)):
        if PASSING.search(sentence) or PATTERNS.matches(sentence, "once"):
            continue
        for clause in CLAUSE.split(sentence):
            clause_words = extract_content(clause)
            shared = frozenset(word for word in words if is_among(word, clause_words))
            if shared and _count_denials(clause) % 2 != denies:
                opposed += 1
            elif shared:
                shown.append(shared)
    return shown, opposed


def _count_denials(text: str) -> int:
    text = PATTERNS["contrast"].split(text, maxsplit=1)[0]
    words = [word.lower() for word in _WORD.findall(text)]
    denials = [word for word in words if word != "without" and (word in DENIALS or word.endswith("n't"))]
    return len(denials) + len(PATTERNS["aversion"].findall(text))


def _is_strong(turns: Iterable[Turn]) -> bool:
    """Whether one of the turns states it for good, or puts the assistant right."""
    return any(
        PATTERNS.matches(turn.content, "for_good") or turn.metadata.get(SIGNAL) == "correction"
        for turn in turns
    )
