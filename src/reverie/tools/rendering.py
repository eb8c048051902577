"""Rendering of records, hits and entries in results of tools.

A result has a line for the model and an object for a program.

Stored text is quoted as data, on one line after its id, without invisible and control characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from reverie.context import render
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import get_end, is_valid_at
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.text import escaping
from reverie.repositories.working_memory import EntryHit
from reverie.search.hits import Hit

LONGEST_PART = 20_000
"""Maximum characters of a text in one result. Clients of MCP take some 25,000 tokens."""

_LONGEST_PREVIEW = 120  # characters of an entry that a search shows (RockBot's)


def format_age(then: datetime, now: datetime) -> str:
    """Return how old something is: `today`, `1 day ago`, `7 days ago`.

    >>> from datetime import UTC
    >>> format_age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC))
    '7 days ago'
    """
    days = max(0, (now - then).days)
    return "today" if not days else "1 day ago" if days == 1 else f"{days} days ago"


def format_count(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 memory`, `2 memories`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def cut_part(text: str, part: int | None, *, how: str) -> tuple[str, str]:
    """Return a part of a text for a model, and a sentence on the next part, which is empty for a short text.

    Args:
        text: The whole text.
        part: Number of the part, from 1; None for the first.
        how: What to do for the next part, such as `Call read_page with part {}`.

    Raises:
        InvalidInput: the text has no such part.
    """
    shown = escaping.escape_output(text)
    starts = [0]
    while len(shown) - starts[-1] > LONGEST_PART:
        start, stop = starts[-1], starts[-1] + LONGEST_PART
        middle = start + LONGEST_PART // 2
        end = max(shown.rfind("\n", middle, stop), shown.rfind(" ", middle, stop))
        starts.append(end + 1 if end >= 0 else stop)
    part, count = part or 1, len(starts)
    if not 1 <= part <= count:
        raise InvalidInput(f"no part {part}: the text has {format_count(count, 'part')}")
    piece = shown[starts[part - 1] : starts[part] if part < count else None]
    if count == 1:
        return piece, ""
    more = f" {how.format(part + 1)} for the next." if part < count else ""
    return piece, f"Part {part} of {count}.{more}"


# -- records, turns, paragraphs ----------------------------------------------------------------------------


def render_record(record: Record, now: datetime, *, matched: Sequence[str] = ()) -> str:
    """Return `- [id] (category): content (7 days ago)`, with doubts at the end."""
    category = f" ({record.category})" if record.category else ""
    content = render.quote_text(record.content, id=record.id, matched=matched)
    return f"- [{record.id}]{category}: {content} ({', '.join(describe_record(record, now))})"


def render_hit(hit: Hit, now: datetime) -> str:
    """Return the line of a hit, with its age."""
    if hit.record is not None:
        return render_record(hit.record, now, matched=hit.explanation.matched)
    return f"{render.render_hit(hit)} ({format_age(hit.at, now)})"


def describe_record(record: Record, now: datetime) -> list[str]:
    """Return the age of a record, when it holds if that is not now, and its origin where it is not trusted."""
    parts = [format_age(record.updated_at, now)]
    if (end := get_end(record)) is not None and end <= now:
        parts.append(f"held until {end:%Y-%m-%d}, not any more")
    elif record.valid_from is not None and not is_valid_at(record, now):
        parts.append(f"holds from {record.valid_from:%Y-%m-%d}, not yet")
    if doubt := render.describe_doubt(record):
        parts.append(doubt)
    if record.permission:
        parts.append("ask before acting on it")
    if record.origin in UNTRUSTED:
        parts.append(f"from {_SOURCES[record.origin]}, {escaping.NOT_CONFIRMED}")
    return parts


_SOURCES = {"tool": "a tool", "web": "the web", "import": "an import"}


# -- entries of working memory -----------------------------------------------------------------------------


def render_entry(entry: Entry, now: datetime) -> str:
    """Return `- key: expires in 4m32s, category: mail, tags: alice, 1,204 characters`, without the data."""
    return f"{render.render_entry(entry, now)}, {format_count(len(entry.data), 'character')}"


def render_entry_hit(hit: EntryHit, now: datetime) -> str:
    """Return the line of an entry, with the part of its text that matched."""
    content = render.quote_text(
        hit.entry.data, id=hit.entry.key, matched=hit.matched, longest=_LONGEST_PREVIEW
    )
    return f"{render_entry(hit.entry, now)}: {content}"
