"""Transcript of a conversation for a model: one line a turn, without the results of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from reverie.domain.conversation import Turn
from reverie.domain.text.escaping import escape_line

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


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
        words = escape_line(turn.content)
        if turn.role == "tool" or not (words or turn.tool_calls):
            continue
        names = ", ".join(escape_line(call.name) for call in turn.tool_calls)
        called = f" [tools: {names}]" if turn.tool_calls else ""
        shown = words if len(words) <= longest else f"{words[: longest - 3]}..."
        label = f"[{labels[turn.id]}] " if turn.id in labels else ""
        lines.append(f"{label}[{turn.at:%Y-%m-%d %H:%M}] {turn.role.upper()}{called}: {shown}")
    return "\n".join(lines)
