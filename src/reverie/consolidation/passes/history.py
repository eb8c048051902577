"""Paragraphs of `HISTORY.md`: the sentences of a model that the turns bear out, or a headline by rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from reverie.consolidation.planning.material import split_sentences
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.grounding import Evidence, collect_evidence, find_unknown_words, find_unsaid
from reverie.domain.text import validation

_LONGEST_PARAGRAPH = 4_000
_LONGEST_HEADLINE = 160
_MOST_SENTENCES = 3

TRIGGER = defer_regex(
    r"\b(?:decided|conclusion|important|remember|note that|key insight|learned that|will use|should use|agreed)\b",
    re.IGNORECASE,
)
"""Words of sentences that are worth keeping (agentkit's session consolidation)."""

_STAMP = defer_regex(r"\[?\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(?::\d{2})?\]?:?\s*")


def build_headline(turns: Sequence[Turn]) -> str:
    """Return what turns are about, by rule: the first request, the last answer, and stated decisions.

    Only trusted turns are quoted.

    Args:
        turns: The turns, the earliest first.
    """
    said = [
        turn
        for turn in turns
        if turn.role in {"user", "assistant"} and turn.content.strip() and turn.origin not in UNTRUSTED
    ]
    first = next((turn for turn in said if turn.role == "user"), None)
    if first is None:
        return f"{len(turns)} messages."
    answers = [turn for turn in said if turn.role == "assistant" and turn.position > first.position]
    quoted = [_cut(" ".join(turn.content.split())) for turn in (first, *answers[-1:])]
    stated = (
        sentence for turn in said for sentence in split_sentences(turn.content) if TRIGGER.search(sentence)
    )
    decided = [each for each in map(_cut, dict.fromkeys(stated)) if not any(each in text for text in quoted)]
    parts = [" → ".join(quoted), *decided[:_MOST_SENTENCES]]
    return " ".join(part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in parts)


def stamp_paragraph(text: str, at: datetime) -> str:
    """Return a paragraph of history as one line that begins with its time, and with no other time.

    >>> stamp_paragraph("2025-01-15 10:30: User asked.", datetime(2025, 1, 15, 10, 31))
    '[2025-01-15 10:31] User asked.'
    """
    folded = " ".join(validation.clean_text(text).split())
    return f"[{at:%Y-%m-%d %H:%M}] {_STAMP.sub('', folded, count=1)[:_LONGEST_PARAGRAPH]}".strip()


def select_said(entry: str, turns: Sequence[Turn], *, zone: tzinfo) -> str:
    """Return the sentences of a paragraph whose specifics and most words are in the turns."""
    said = collect_evidence(turns)
    days = [Evidence(text=f"{turn.at:%Y-%m-%d %H:%M}", at=turn.at) for turn in turns[:1]]
    kept = [
        sentence
        for sentence in split_sentences(_STAMP.sub("", entry))
        if said
        and not find_unsaid(sentence, [*said, *days], zone=zone)
        and not find_unknown_words(sentence, said, zone=zone)
    ]
    return " ".join(kept)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_HEADLINE else f"{text[: _LONGEST_HEADLINE - 1].rstrip()}…"
