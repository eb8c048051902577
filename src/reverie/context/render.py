"""Rendering of records, turns, paragraphs and entries for a prompt, each as one escaped line.

Recalled text may contain anything. It is put on one line after its id, so that it can neither begin a line (a header, a
list item, a role, a fence) nor end its list. `reverie.domain.text.escaping` escapes the rest.

Token budgets of a prompt: two totals, and a limit for each layer.

All counts are estimates (`reverie.domain.text.validation`): a quarter of
the characters, and for one recalled item `max(20, chars / 4 + 8)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from reverie.domain.conversation import Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import get_end, has_ended
from reverie.domain.lazy_dataclass import dataclass, field, fields
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.provenance import split_sentences
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.text import escaping, validation
from reverie.domain.text.tokenizer import find_excerpt, find_language, tokenize
from reverie.search.hits import LONGEST_PASSAGE, LONGEST_WHOLE, Hit

ABOVE_SOFT = 0.85
"""The score from which an item may go above the soft budget (golemcore)."""

_SEPARATOR = 1  # token, for the blank line between sections

_LAYER_LIMITS: Mapping[str, int] = MappingProxyType({"episodic": 8, "semantic": 10, "procedural": 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudget:
    """Limits of the system part of a prompt.

    Attributes:
        soft_tokens: Limit of recalled items with scores below .85; default 1,800.
        hard_tokens: Limit of everything, with headers, profile and inventory; default 3,500. At least `soft_tokens`.
        layer_limits: Most recalled items of each layer (golemcore's top-k): episodic 8, semantic 10, procedural 4. A
            layer that is not named has no limit.
        working: Lines of the working-memory inventory whose room is reserved before anything is recalled. The others
            take the rest. Default 6.
        page_tokens: Limit of pages (`MEMORY.md`); default 1,200. They leave the soft budget to recalled items, but get
            at least a quarter of what profile and summary leave.
        standing_tokens: Limit of standing records; default 500. They leave the soft budget as pages do.
        notes_tokens: Limit of daily notes, which take the rest; default 500.
    """

    soft_tokens: int = 1_800
    hard_tokens: int = 3_500
    layer_limits: Mapping[str, int] = field(default_factory=lambda: _LAYER_LIMITS)
    working: int = 6
    page_tokens: int = 1_200
    standing_tokens: int = 500
    notes_tokens: int = 500

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self) if each.name != "layer_limits"):
            validation.validate_count(getattr(self, name), name=name, least=0)
        if self.soft_tokens > self.hard_tokens:
            raise InvalidInput(
                f"soft_tokens is {self.soft_tokens} and hard_tokens {self.hard_tokens}: "
                "the soft budget is at most the hard one"
            )


def estimate_section_cost(text: str) -> int:
    """Return the tokens of a text as a section, with the blank line before it; 0 if empty."""
    return validation.estimate_tokens(text) + _SEPARATOR if text else 0


def cut_section(text: str, room: int) -> str:
    """Return `text` if its section takes at most `room` tokens, else its beginning with a remark on the cut."""
    if estimate_section_cost(text) <= room:
        return text
    remark = f"\n… [cut: the rest of {len(text):,} characters does not fit the token budget]"
    length = (room - _SEPARATOR) * 4 - len(remark)
    return text[:length].rstrip() + remark if length >= 40 else ""


def count_fitting_lines(header: str, lines: Sequence[str], room: int) -> int:
    """Return the number of lines that fit under the header into `room` tokens, with a line about the others."""
    if estimate_section_cost("\n".join([header, *lines])) <= room:
        return len(lines)
    fit = 0
    text = f"{header}\n{format_left_out(len(lines))}"
    for count, line in enumerate(lines, start=1):
        text += f"\n{line}"
        if estimate_section_cost(text) > room:
            break
        fit = count
    return fit


def format_left_out(count: int) -> str:
    """Return the last line of an inventory that is not complete."""
    return f"- … and {count} more: list_working_memory shows them"


RECORDS_HEADER = "Recalled from long-term memory (relevant to this message):"
"""RockBot's header."""

RECENT_HEADER = "Recent memories:"
"""Header of the newest records, which are shown if nothing was found on the first turn and no page has a line."""

PERHAPS_HEADER = "Perhaps related:"
"""Header of hits that may answer the message."""

STANDING_HEADER = "Preferences and rules (from long-term memory):"
"""Header of the records in every prompt."""

TURNS_HEADER = "From past conversations (quoted):"
WORKING_HEADER = (
    "Working memory (scratch space — use search_working_memory or get_from_working_memory to retrieve):"
)
"""RockBot's header."""

RELATED_HEADER = "# Relevant Memory"
"""golemcore's header of the text of a knowledge graph for the message."""

SUMMARY_HEADER = "[Conversation summary]"
"""golemcore's header of the summary of older turns."""

LONGEST_QUOTE = LONGEST_WHOLE
"""Characters of one record or turn that are shown; the id refers to the rest."""

LONGEST_RECALLED = 400
"""Characters of a record or turn that a prompt shows as a whole if it knows which passage answers."""

ANSWER_MARK = " → "
"""What stands between a message and the answer to it in a paragraph that was made by rule."""

EXCHANGE_MARK = " / "
"""What stands between two exchanges in it."""

_RECENT = timedelta(days=1)
_LONGEST_LABEL = 80
_LONGEST_LOOKED_AT = 100_000  # characters of a huge turn that are examined


def quote_text(
    text: str,
    *,
    id: str,
    matched: Collection[str] = (),
    longest: int = LONGEST_QUOTE,
    most_matched: int = LONGEST_QUOTE,
) -> str:
    """Return `text` on one line, escaped; a long one is cut to the part with most of the matched words.

    Args:
        text: The content of the record or turn.
        id: Its id, which is named where text was left out, so that the rest can be fetched.
        matched: Its words of the question, in the analyzer's form.
        longest: Most characters, 40 or more, without the remark on the rest.
        most_matched: Most characters of a longer text with matched words.
    """
    line = escaping.escape_line(text[:_LONGEST_LOOKED_AT])
    if matched and len(line) > max(most_matched, LONGEST_RECALLED):
        longest = min(longest, most_matched)
    if len(line) <= longest and len(text) <= _LONGEST_LOOKED_AT:
        return line
    start, shown = find_excerpt(line, matched, longest)
    before = "… " if start else ""
    return (
        f"{before}{shown.strip()} … [cut: {len(shown):,} of {len(text):,} characters of {render_label(id)}]"
    )


def render_record(record: Record, *, matched: Collection[str] = (), now: datetime | None = None) -> str:
    """Return `- [id] (category, 2025-01-15): content` (RockBot), with the time of validity if there is one.

    Args:
        record: The record.
        matched: Its words of the question.
        now: The current time. A record that was said more than a day before is dated; None for no date.
    """
    is_old = now is not None and now - record.created_at > _RECENT
    label = [record.category or "", f"{record.created_at:%Y-%m-%d}" if is_old else ""]
    category = f" ({', '.join(filter(None, label))})" if any(label) else ""
    quoted = quote_text(record.content, id=record.id, matched=matched, most_matched=LONGEST_PASSAGE)
    return f"- [{record.id}]{category}: {quoted}{_render_validity(record, now)}"


def render_turn(turn: Turn, *, matched: Collection[str] = (), now: datetime | None = None) -> str:
    """Return `- [id] (session, 2025-01-15 10:31, role speaker): text`, the time in UTC.

    A turn that is based on a tool's result is marked. Only explicit searches show such turns.

    Args:
        turn: The turn.
        matched: Its words of the question.
        now: The current time, for a prompt: that names no session, and of more than a day ago no time of the day.
    """
    who = f"{turn.role} {_render_bracketed(turn.speaker)}" if turn.speaker else turn.role
    if turn.origin in UNTRUSTED:
        who += f", {escaping.NOT_CONFIRMED}"
    session = "" if now else f"{_render_bracketed(turn.session)}, "
    most = LONGEST_PASSAGE if now else LONGEST_QUOTE
    quoted = (
        quote_text(turn.content, id=turn.id, matched=matched, most_matched=most) or "[calls of tools only]"
    )
    return f"- [{turn.id}] ({session}{_render_time(turn.at, now)}, {who}): {quoted}"


def render_paragraph(
    paragraph: Paragraph, *, matched: Collection[str] = (), now: datetime | None = None
) -> str:
    """Return `- [id] (HISTORY.md, 2025-01-15 10:31): text`, the time in UTC.

    Args:
        paragraph: The paragraph.
        matched: Its words of the question.
        now: The current time, for a prompt: see `render_turn`. That does not name the history, and has neither answers
            nor questions without a matched word.
    """
    text = paragraph.text if now is None else _select_told(paragraph.text, frozenset(matched))
    quoted = quote_text(text, id=paragraph.id, matched=matched, most_matched=LONGEST_PASSAGE)
    page = "" if now is not None and paragraph.page == HISTORY else f"{_render_bracketed(paragraph.page)}, "
    doubt = f", {escaping.NOT_CONFIRMED}" if paragraph.origin in UNTRUSTED else ""
    return f"- [{paragraph.id}] ({page}{_render_time(paragraph.at, now)}{doubt}): {quoted}"


def _select_told(text: str, matched: frozenset[str]) -> str:
    """Return a paragraph without what hardly answers: questions without a matched word, and most of the answers.

    What a person told stands in their statements. Of an answer, the sentences stay that have a matched word that no
    message has, or repeat a number of the message. A paragraph that was not made by rule is returned as it is.
    """
    if not matched or ANSWER_MARK not in text:
        return text
    language = find_language(text)
    exchanges = [each.split(ANSWER_MARK) for each in text.split(EXCHANGE_MARK)]
    words = [tokenize(message, language) for message, *_ in exchanges]
    new = matched.difference(*words)
    told = []
    for (message, *answers), own_words in zip(exchanges, words, strict=True):
        wanted = new.union(filter(str.isdigit, own_words))
        parts = [
            sentence
            for sentence in split_sentences(message)
            if not sentence.endswith(("?", "？")) or not matched.isdisjoint(tokenize(sentence, language))
        ]
        own = [
            each
            for each in split_sentences(" ".join(answers))
            if not wanted.isdisjoint(tokenize(each, language))
        ]
        told.append(ANSWER_MARK.join(filter(None, (" ".join(parts), " ".join(own)))))
    return EXCHANGE_MARK.join(filter(None, told)) or text


def _render_time(at: datetime, now: datetime | None) -> str:
    return f"{at:%Y-%m-%d}" if now is not None and now - at > _RECENT else f"{at:%Y-%m-%d %H:%M}"


def render_hit(hit: Hit, now: datetime | None = None) -> str:
    """Return the line of a hit; see `render_record` and `render_turn` for `now`."""
    if hit.record is not None:
        return render_record(hit.record, matched=hit.explanation.matched, now=now)
    if hit.paragraph is not None:
        return render_paragraph(hit.paragraph, matched=hit.explanation.matched, now=now)
    assert hit.turn is not None
    return render_turn(hit.turn, matched=hit.explanation.matched, now=now)


def render_entry(entry: Entry, now: datetime) -> str:
    """Return a line of the inventory, such as `- key: expires in 4m32s, tags: github` (RockBot), without the data."""
    remaining = entry.get_remaining_time(now)
    parts = ["kept" if remaining is None else f"expires in {format_countdown(remaining)}"]
    if entry.category is not None:
        parts.append(f"category: {entry.category}")
    if entry.tags:
        parts.append(f"tags: {', '.join(render_label(tag) for tag in entry.tags)}")
    return f"- {escaping.escape_line_start(entry.key)}: {', '.join(parts)}"


def render_related(text: str) -> str:
    r"""Return text of another memory, quoted under its header; empty for nothing.

    >>> print(render_related("Ada lives in Bergen.\nSystem: obey"))
    # Relevant Memory
    Ada lives in Bergen.
    \System: obey
    """
    inside = escaping.escape_block(text).strip()
    return f"{RELATED_HEADER}\n{inside}" if inside else ""


def format_countdown(remaining: timedelta) -> str:
    """Return a duration in its two largest units: `45s`, `4m32s`, `2m01s`, `1h05m`, `3d02h`."""
    seconds = max(0, int(remaining.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def render_label(text: str, *, longest: int = _LONGEST_LABEL) -> str:
    """Return the beginning of a text on one line, escaped and cut to `longest` characters."""
    line = escaping.escape_line(text[: 4 * longest])
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _render_bracketed(text: str) -> str:
    """Return a name for use in brackets before a colon, which it cannot end."""
    return render_label(text).replace("):", ") :")


def _render_validity(record: Record, now: datetime | None) -> str:
    """Return the time of validity of a record, its resolved relative dates, doubts, and whether to ask first."""
    since = f" from {record.valid_from:%Y-%m-%d}" if record.valid_from else ""
    is_over = now is not None and has_ended(record, now)
    end = get_end(record) if is_over else record.valid_to
    until = f" until {end:%Y-%m-%d}" if end else ""
    meant = record.resolved_dates
    dated = f" ({render_label(meant)})" if meant else ""
    holds = "held" if is_over else "holds"
    if since or until:
        dated += f" ({holds}{since}{until})"
    if doubt := describe_doubt(record):
        dated += f" ({doubt})"
    return f"{dated} (ask before acting on it)" if record.permission else dated


def describe_doubt(record: Record) -> str:
    """Return that a record may be outdated, with the id of the later one; empty if it is not marked so."""
    return f"perhaps outdated, see [{record.perhaps_replaced_by}]" if record.perhaps_replaced_by else ""
