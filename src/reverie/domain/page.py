"""Pages, and paragraphs of logs.

A *page*, such as `MEMORY.md`, is one text that people and passes rewrite. A *log* (`HISTORY.md`, or a daily note
such as `2026-02-07.md`) only grows. It is kept as paragraphs, so an addition costs the length of the paragraph, not
of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import Origin
from reverie.domain.text import ids, timestamps
from reverie.domain.text.json_values import JsonObject, from_json_object
from reverie.domain.text.validation import validate_raw_text, validate_text

MEMORY = "MEMORY.md"
"""The page that is part of every prompt, cut to the budget; its paragraphs are searched."""

HISTORY = "HISTORY.md"
"""The log of the results of conversations; recall searches it."""

LANGUAGES = ("en", "de", "es", "fr", "it", "ja", "pt", "zh")
"""Languages of the headings of the living page."""

LONGEST_PAGE = 200_000
"""Characters of a page."""

LONGEST_PARAGRAPH = 20_000
"""Characters of a paragraph."""

FROM_TOOLS = " (from tools)"
"""Ending of the source of a paragraph that reports results of tools, the web or an import."""

FOLDERS_OF_RECORDS = ("records", "episodic")
"""Folders of `memory/` with records, which are no pages of their own."""

_LONGEST_NAME = 200
_NAME = defer_regex(r"(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*/)*[A-Za-z0-9_-][A-Za-z0-9_.-]*\.md")
_BLANK_LINE = defer_regex(r"\n[^\S\n]*\n")
_LINE_END = defer_regex(r"\n")
_DAY = defer_regex(r"\d{4}-\d{2}-\d{2}\.md")
_STAMP = defer_regex(r"\[\d{4}-\d{2}-\d{2} \d{2}:\d{2}\]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(JsonObject):
    r"""One Markdown document that people and programs rewrite. An immutable value.

    Attributes:
        name: Its path under `memory/`, such as `MEMORY.md`; never the name of a log.
        content: The whole text, up to 200,000 characters; line ends are `\n`.
        updated_at: When it last changed.
    """

    name: str
    content: str
    updated_at: datetime

    @property
    def id(self) -> str:
        """Its name, which identifies it in changes."""
        return self.name

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Page:
        """Read what `to_dict` wrote, checking every field; raises `InvalidInput`."""
        return validate_page(from_json_object(cls, data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph(JsonObject):
    """One paragraph of a log: of `HISTORY.md`, or one line of a daily note.

    Attributes:
        id: 12 lower-case hexadecimal characters.
        page: The log it stands in.
        position: Its place in the log. Paragraphs are sorted by position, those with the same position by the time
            they were stored. A new one at the end gets the last position plus 1.
        at: The moment that it reports.
        content: The text, 1 to 20,000 characters, without a blank line; in a daily note without a line end.
        source: The id of the turn that it was written after, or another name of its origin; may be empty.
    """

    id: str
    page: str
    position: float
    at: datetime
    content: str
    source: str = ""

    @property
    def origin(self) -> Origin:
        """Source of the paragraph: `tool` if it reports what tools said, else `agent`."""
        return "tool" if self.source.endswith(FROM_TOOLS) else "agent"

    @property
    def text(self) -> str:
        """Content without the leading time, such as `[2025-01-15 10:31]`."""
        stamp = _STAMP.match(self.content)
        return self.content if stamp is None else self.content[stamp.end() :]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Paragraph:
        """Read what `to_dict` wrote, checking every field; raises `InvalidInput`."""
        return validate_paragraph(from_json_object(cls, data))


def is_log(name: str) -> bool:
    """Return whether a name is that of a log: `HISTORY.md`, or a daily note."""
    return name == HISTORY or parse_daily_note_day(name) is not None


def format_daily_note_name(day: date) -> str:
    """Return the name of the daily note of a day.

    >>> format_daily_note_name(date(2026, 2, 7))
    '2026-02-07.md'
    """
    return f"{day.isoformat()}.md"


def parse_daily_note_day(name: str) -> date | None:
    """Return the day of a daily note by its name; None for another page."""
    if not _DAY.fullmatch(name):
        return None
    try:
        return date.fromisoformat(name.removesuffix(".md"))
    except ValueError:
        return None


def get_separator(name: str) -> str:
    """Return the separator between two paragraphs of a log: a blank line, or a line end in a daily note."""
    return "\n\n" if name == HISTORY else "\n"


def validate_page_name(name: object) -> str:
    """Return `name` if it can name a page: a relative path such as `MEMORY.md` or `projects/atlas.md`.

    Raises:
        InvalidInput: it cannot.
    """
    if not isinstance(name, str) or not is_page_name(name):
        raise InvalidInput(
            f"page is {quote_value(name)}: name it like MEMORY.md or projects/atlas.md, with letters a to z, "
            "digits, '_' and '-', and outside the folders of records"
        )
    return name


def is_page_name(name: str) -> bool:
    """Return whether a text can name a page."""
    folder, slash, _ = name.partition("/")
    is_taken = bool(slash) and folder in FOLDERS_OF_RECORDS
    return len(name) <= _LONGEST_NAME and bool(_NAME.fullmatch(name)) and not is_taken


def validate_page(page: Page) -> Page:
    """Return the page; raise `InvalidInput` where a field is not valid."""
    validate_page_name(page.name)
    if is_log(page.name):
        raise InvalidInput(f"page is {page.name!r}, a log: add paragraphs to it")
    validate_raw_text(page.content, name="content", longest=LONGEST_PAGE, empty=True)
    if "\r" in page.content:
        raise InvalidInput("content has carriage returns: end lines with a line feed alone")
    timestamps.to_utc(page.updated_at, name="updated_at")
    return page


def build_session_source(session: str, *, from_tools: bool = False) -> str:
    """Return the source of a paragraph about a session.

    Args:
        session: The session's id.
        from_tools: Whether some of it comes from tools, the web or an import.
    """
    ending = FROM_TOOLS if from_tools else ""
    return f"session:{session}"[: _LONGEST_NAME - len(ending)] + ending


def validate_paragraph(paragraph: Paragraph) -> Paragraph:
    """Return the paragraph; raise `InvalidInput` where a field is not valid."""
    ids.validate_id(paragraph.id)
    if not is_log(validate_page_name(paragraph.page)):
        raise InvalidInput(f"page is {paragraph.page!r}, which is not a log: write the whole page")
    validate_text(paragraph.content, name="content", longest=LONGEST_PARAGRAPH)
    if paragraph.content != paragraph.content.strip():
        raise InvalidInput("a paragraph begins or ends with white space: strip it")
    splits = _BLANK_LINE if paragraph.page == HISTORY else _LINE_END
    if splits.search(paragraph.content):
        raise InvalidInput(f"a paragraph of {paragraph.page!r} has a line end that would split it: fold it")
    if not isinstance(paragraph.position, float) or not abs(paragraph.position) < 1e15:
        raise InvalidInput(f"position is {quote_value(paragraph.position)}: pass a float from -1e15 to 1e15")
    validate_text(paragraph.source, name="source", longest=_LONGEST_NAME, empty=True)
    timestamps.to_utc(paragraph.at, name="at")
    return paragraph
