"""Transcript of a conversation for a model: one line a turn, without the results of tools; sentences and their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity.comparison import compute_keys, normalize_cached
from reverie.domain.text.escaping import escape_line
from reverie.domain.text.validation import clean_text

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_SENTENCE_END = defer_regex(r"(?<=[.!?])\s+|\n+")


def format_transcript(turns: Iterable[Turn], *, longest: int, labels: Mapping[str, str] = _NO_LABELS) -> str:
    """Return turns as lines such as `[2025-01-15 10:31] ASSISTANT [tools: exec, read_file]: text` (Autobot).

    Results of tools and turns that say nothing are left out; times are in UTC.

    Args:
        turns: The turns, the earliest first.
        longest: Characters of one message; a longer one ends in `...`.
        labels: Labels of turns by their ids, which are shown before the times.
    """
    lines = []
    for turn in turns:
        if not _is_shown(turn):
            continue
        words = escape_line(turn.content)
        names = ", ".join(escape_line(call.name) for call in turn.tool_calls)
        called = f" [tools: {names}]" if turn.tool_calls else ""
        shown = words if len(words) <= longest else f"{words[: longest - 3]}..."
        label = f"[{labels[turn.id]}] " if turn.id in labels else ""
        lines.append(f"{label}[{turn.at:%Y-%m-%d %H:%M}] {turn.role.upper()}{called}: {shown}")
    return "\n".join(lines)


def label_turns(turns: Iterable[Turn]) -> dict[str, Turn]:
    """Return the turns that a transcript shows by short labels, `t1` for the first."""
    return {f"t{at}": turn for at, turn in enumerate(filter(_is_shown, turns), 1)}


def format_labelled(labels: Mapping[str, Turn], names: Iterable[str], *, longest: int) -> str:
    """Return the turns of some labels as lines that begin with these; see `format_transcript`."""
    by_id = {labels[name].id: name for name in names}
    return format_transcript((labels[name] for name in by_id.values()), longest=longest, labels=by_id)


def _is_shown(turn: Turn) -> bool:
    return turn.role != "tool" and bool(turn.tool_calls or escape_line(turn.content))


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, each with single spaces."""
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(clean_text(text)))
    return [part for part in parts if part]


def compute_key(text: str) -> str:
    """Return the key that only texts in the same words share."""
    return compute_keys(normalize_cached(text))[0]
