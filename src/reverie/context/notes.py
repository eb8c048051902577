"""Daily notes, and the rendering of pages and notes in a prompt.

A daily note has one line for each exchange, `[14:15] User: … | Assistant: …` (golemcore). The text for a prompt has
three sections: `## Long-term Memory` (the page `MEMORY.md`), `## Today's Notes`, and `## Recent Context` with the days
before, newest first. A long page is cut at its end, and notes keep their newest lines. Days are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from reverie.context import render
from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Paragraph, parse_daily_note_day
from reverie.domain.text import escaping, validation

MEMORY_HEADER = "# Memory"
LONG_TERM_HEADER = "## Long-term Memory"
TODAY_HEADER = "## Today's Notes"
RECENT_HEADER = "## Recent Context"

LONGEST_QUESTION = 200
"""Characters of the user's words in a note (golemcore)."""

LONGEST_ANSWER = 300
"""Characters of the assistant's words in a note (golemcore)."""

FRESH = timedelta(days=1)
"""Largest age of a noted exchange. An import of a year of old chats should not make hundreds of notes; its turns are
searchable."""

_LINE_END = defer_regex(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_DOUBTED = f" ({escaping.NOT_CONFIRMED})"
_BETWEEN = defer_regex(rf" \| Assistant(?:{re.escape(_DOUBTED)})?: ")
_CUT_MARK = "..."
_LEFT_OUT = "… [earlier notes are left out]"


# -- writing -----------------------------------------------------------------------------------------------


def iterate_exchanges(turns: Sequence[Turn], *, since: int, now: datetime) -> Iterator[tuple[Turn, Turn]]:
    """Yield each final answer of an assistant after the user's turn that it answers.

    Left out are answers that call tools, empty ones, and a second answer to the same turn. So are exchanges of a scope,
    since notes belong to everybody, and exchanges that the owner did not begin.

    Args:
        turns: Consecutive turns of a session, the earliest first.
        since: The position of the first new turn; only answers from there on are yielded.
        now: The current time; answers more than a day away from it are left out.
    """
    question: Turn | None = None
    for turn in turns:
        if turn.role == "user":
            question = turn if turn.origin == "owner" else None
        elif turn.role == "assistant" and not turn.tool_calls and turn.content.strip():
            is_new = turn.position >= since and abs(now - turn.at) <= FRESH
            if question is not None and is_new and not turn.scope:
                yield question, turn
            question = None


def render_exchange(question: str, answer: str, at: datetime, *, is_confirmed: bool = True) -> str:
    r"""Return `[HH:mm] User: … | Assistant: …` on one line, with golemcore's limits.

    An answer that is based on results of tools is marked as not confirmed.

    >>> from datetime import UTC
    >>> render_exchange("How do I\nstart?", "Run it.", datetime(2026, 2, 7, 14, 15, tzinfo=UTC))
    '[14:15] User: How do I start? | Assistant: Run it.'
    """
    user, assistant = shorten_text(question, LONGEST_QUESTION), shorten_text(answer, LONGEST_ANSWER)
    doubt = "" if is_confirmed else _DOUBTED
    return f"[{at:%H:%M}] User: {user} | Assistant{doubt}: {assistant}".rstrip()


def shorten_text(text: str, longest: int) -> str:
    """Return `text` on one line of at most `longest` characters; `...` marks a cut.

    >>> shorten_text("a long word", 8)
    'a lon...'
    """
    line = validation.clean_text(_LINE_END.sub(" ", text.strip())).strip()
    return line if len(line) <= longest else line[: longest - len(_CUT_MARK)] + _CUT_MARK


def is_unconfirmed(line: str) -> bool:
    """Return whether a line of a note marks its answer as not confirmed."""
    between = _BETWEEN.search(line)
    return between is not None and _DOUBTED in between.group()


def remove_answer(line: str) -> str:
    """Return a line of a note without the answer."""
    return _BETWEEN.split(line, maxsplit=1)[0]


# -- showing -----------------------------------------------------------------------------------------------


class Excerpt(NamedTuple):
    """A text for a prompt.

    Attributes:
        text: The text; empty if there is none, or no room.
        is_cut: Whether something was left out.
    """

    text: str
    is_cut: bool


def render_memory_section(page: str) -> str:
    """Return the page `MEMORY.md` with its headers, as a pack shows it; empty if the page is empty."""
    plain = escaping.escape_block(page).strip()
    return f"{MEMORY_HEADER}\n\n{LONG_TERM_HEADER}\n{plain}" if plain else ""


def excerpt_long_term(page: str, room: int) -> Excerpt:
    """Return the section of `MEMORY.md`, cut to `room` tokens."""
    plain = escaping.escape_block(page).strip()
    if not plain:
        return Excerpt("", False)
    text = render.cut_section(f"{LONG_TERM_HEADER}\n{plain}", room)
    return Excerpt(text, text != f"{LONG_TERM_HEADER}\n{plain}")


def excerpt_notes(notes: Sequence[Paragraph], today: date, room: int) -> Excerpt:
    """Return sections with the newest lines of daily notes that fit into `room` tokens, today's first.

    Args:
        notes: Lines of daily notes, in order within a day; days in any order.
        today: The current day; later ones count as today.
        room: Most tokens.
    """
    newest_first = _sort_newest_first(notes, today)
    fitting = _take_fitting(newest_first, 4 * room)
    for count in range(len(fitting), 0, -1):
        is_cut = count < len(newest_first)
        text = _render_notes(fitting[:count], today, is_cut=is_cut)
        if render.estimate_section_cost(text) <= room:
            return Excerpt(text, is_cut)
    return Excerpt("", bool(newest_first))


def render_context(
    page: str, notes: Sequence[Paragraph], today: date, *, page_room: int, notes_room: int
) -> str:
    """Return the three sections as one text; empty if all are."""
    parts = (excerpt_long_term(page, page_room).text, excerpt_notes(notes, today, notes_room).text)
    return "\n\n".join(part for part in parts if part)


def drop_replayed(notes: Sequence[Paragraph], replayed: Collection[str]) -> tuple[Paragraph, ...]:
    """Return the notes without those whose answer is among the replayed ids."""
    return tuple(note for note in notes if not note.source or note.source not in replayed)


def _sort_newest_first(notes: Sequence[Paragraph], today: date) -> list[tuple[date, str]]:
    """Return the lines with their days, the last line of the latest day first."""
    days: dict[date, list[str]] = {}
    for note in notes:
        day = parse_daily_note_day(note.page)
        if day is not None:
            days.setdefault(min(day, today), []).append(note.content)
    return [(day, line) for day in sorted(days, reverse=True) for line in reversed(days[day])]


def _take_fitting(newest_first: Sequence[tuple[date, str]], most: int) -> list[tuple[date, str]]:
    """Return the first lines, escaped, that have at most `most` characters together."""
    chosen: list[tuple[date, str]] = []
    for day, line in newest_first:
        escaped = escaping.escape_line_start(line)
        most -= len(escaped) + 1
        if most < -1:
            break
        chosen.append((day, escaped))
    return chosen


def _render_notes(newest_first: Sequence[tuple[date, str]], today: date, *, is_cut: bool) -> str:
    days: dict[date, list[str]] = {}
    for day, line in newest_first:
        days.setdefault(day, []).insert(0, line)
    if is_cut:
        days[min(days)].insert(0, _LEFT_OUT)
    parts = []
    if today in days:
        parts.append("\n".join([TODAY_HEADER, *days.pop(today)]))
    earlier = ["\n".join([f"### {day:%Y-%m-%d}", *days[day]]) for day in sorted(days, reverse=True)]
    if earlier:
        parts.append("\n".join([RECENT_HEADER, "\n\n".join(earlier)]))
    return "\n\n".join(parts)
