"""Reader of Markdown notes: `MEMORY.md`, `HISTORY.md` and daily notes of golemcore and Autobot.

From a trusted origin they become pages and logs. From any other, each bullet or paragraph becomes a record of
that origin, because prompts include pages unasked and nobody has reviewed these yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time
from types import MappingProxyType
from typing import Any

from reverie.admin.transfer.items import (
    FoundValue,
    ImportTerms,
    Item,
    Reason,
    Skipped,
    What,
    add_source_id,
    build_stable_id,
    hash_texts,
)
from reverie.admin.transfer.safe_reading import TooLarge
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import (
    HISTORY,
    Page,
    Paragraph,
    is_log,
    parse_daily_note_day,
    validate_page,
    validate_page_name,
    validate_paragraph,
)
from reverie.domain.record import Kind, Record, validate_record
from reverie.domain.text.validation import clean_text

FORM = "notes"

_LONGEST_TAG = 100
_BLANK_LINE = defer_regex(r"\n[^\S\n]*\n")
_LINE_END = defer_regex(r"\r\n?|[\u0085\u2028\u2029]")
_STAMP = defer_regex(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)")
_HOUR = defer_regex(r"\[(\d\d):(\d\d)\]")
_HEADING = defer_regex(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*")
_BULLET = defer_regex(r"(?:[-*+]|\d{1,3}[.)])\s+")
_CODE = defer_regex(r"\s*(```|~~~)")


def get_skip_reason(error: Exception) -> Reason:
    """Return the reason to leave out what was refused with this error."""
    if isinstance(error, TooLarge) or " characters: at most" in str(error):
        return "too large"
    return "empty" if " is empty" in str(error) else "broken"


def skip(what: What, place: str, error: Exception) -> Skipped:
    """Return what was refused with this error as left out."""
    return Skipped(what=what, place=place, why=get_skip_reason(error), detail=str(error))


def build_foreign_record(
    form: str,
    terms: ImportTerms,
    source_id: str,
    content: str,
    *,
    place: str,
    at: datetime,
    metadata: Mapping[str, str] = MappingProxyType({}),
    **fields: Any,
) -> Item:
    """Return a record of another program, or the reason why it is left out.

    Args:
        form: The format that it is from.
        source_id: Its id there; the id of the record is made of it.
        at: When it was made, changed and seen, as far as `fields` do not say so.
        fields: Further fields of the record.
    """
    known: dict[str, Any] = {
        "id": build_stable_id(form, terms.foreign_scope, source_id),
        "created_at": at,
        "updated_at": at,
        "last_seen_at": at,
        "source": f"import:{form}",
        "origin": terms.foreign_origin,
        "scope": terms.foreign_scope,
        "metadata": add_source_id(metadata, source_id),
    }
    try:
        record = validate_record(Record(content=content, **known | fields))
        return FoundValue(place=place, value=record, form=form)
    except (InvalidInput, OverflowError) as error:
        return skip("record", place, error)


# -- paragraphs of logs ------------------------------------------------------------------------------------


def split_paragraphs(name: str, text: str, place: str) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of a log's text with their places, without blank ones.

    Args:
        text: The content of its file.
    """
    splits = _BLANK_LINE.finditer(text) if name == HISTORY else re.finditer("\n", text)
    begin, line = 0, 1
    for end, following in [*((found.start(), found.end()) for found in splits), (len(text), len(text))]:
        content = text[begin:end]
        if stripped := content.strip():
            above = content[: len(content) - len(content.lstrip())].count("\n")
            yield f"{place}, line {line + above}", stripped
        line += text.count("\n", begin, following)
        begin = following


def fold_paragraph(content: str, name: str) -> str:
    """Return a paragraph without control characters and blank lines; in a daily note, on one line."""
    text = clean_text(_LINE_END.sub("\n", content))
    if name == HISTORY:
        return "\n".join(line.rstrip() for line in text.split("\n") if line.strip()).strip()
    return " ".join(text.split("\n")).strip()


def build_paragraph(name: str, content: str, *, form: str, at: datetime, nth: int) -> Paragraph:
    """Return a paragraph of which only the text is known.

    Args:
        content: The text, as `fold_paragraph` returns it.
        at: Its time, if the text does not begin with one.
        nth: The number of equal paragraphs before it.

    Raises:
        InvalidInput: it is not a valid paragraph.
    """
    return validate_paragraph(
        Paragraph(
            id=build_stable_id(form, name, content, str(nth)),
            page=name,
            position=1.0,
            at=parse_moment(name, content) or at,
            content=content,
            source=f"import:{form}",
        )
    )


def parse_moment(name: str, content: str) -> datetime | None:
    """Return the moment at the beginning of a paragraph; in a daily note, that of the day."""
    day = parse_daily_note_day(name)
    try:
        if day is None:
            stamp = _STAMP.match(content)
            return datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}").replace(tzinfo=UTC) if stamp else None
        hour = _HOUR.match(content)
        return datetime.combine(day, time(int(hour[1]), int(hour[2])), UTC) if hour else None
    except ValueError:
        return None


# -- a file of notes ---------------------------------------------------------------------------------------


def read(name: str, text: str, terms: ImportTerms, *, place: str, at: datetime) -> Iterator[Item]:
    """Yield the content of a Markdown file of another program.

    Args:
        name: Its path in the folder of notes, such as `HISTORY.md` or `2026-02-07.md`.
        text: Its content.
        at: When it last changed.
    """
    if not text.strip():
        yield Skipped(what="page", place=place, why="empty")
    elif is_log(name):
        yield from _parse_log(name, text, terms, place=place, at=at)
    elif terms.trusted:
        yield _parse_page(name, text, place=place, at=at)
    else:
        yield from _parse_facts(name, text, terms, place=place, at=at)


def _parse_page(name: str, text: str, *, place: str, at: datetime) -> Item:
    content = clean_text(_LINE_END.sub("\n", text))
    try:
        page = validate_page(Page(name=validate_page_name(name), content=content, updated_at=at))
    except InvalidInput as error:
        return skip("page", place, error)
    return FoundValue(place=place, value=page)


def _parse_log(name: str, text: str, terms: ImportTerms, *, place: str, at: datetime) -> Iterator[Item]:
    seen = Counter[str]()
    day = parse_daily_note_day(name)
    last = at if day is None else datetime.combine(day, time(), UTC)
    for where, raw in split_paragraphs(name, text, place):
        content = fold_paragraph(raw, name)
        try:
            paragraph = build_paragraph(name, content, form=FORM, at=last, nth=seen[content])
        except InvalidInput as error:
            yield skip("paragraph", where, error)
            continue
        seen[content] += 1
        last = paragraph.at
        if terms.trusted:
            yield FoundValue(place=where, value=paragraph, form=FORM)
        else:
            nth = seen[content] - 1
            yield build_record_item(name, content, terms, place=where, at=paragraph.at, nth=nth, kind="event")


def _parse_facts(name: str, text: str, terms: ImportTerms, *, place: str, at: datetime) -> Iterator[Item]:
    seen = Counter[str]()
    for number, tags, raw in split_blocks(_LINE_END.sub("\n", text)):
        content = clean_text(raw).strip()
        where = f"{place}, line {number}"
        yield build_record_item(
            name, content, terms, place=where, at=at, nth=seen[content], kind="fact", tags=tags
        )
        seen[content] += 1


def build_record_item(
    name: str,
    content: str,
    terms: ImportTerms,
    *,
    place: str,
    at: datetime,
    nth: int,
    kind: Kind,
    tags: tuple[str, ...] = (),
    category: str | None = None,
) -> Item:
    """Return a record of a piece of a text, or the reason why it is left out.

    Args:
        name: The name of the text.
        nth: The number of equal pieces before it.
    """
    return build_foreign_record(
        FORM,
        terms,
        hash_texts(name, content, str(nth)),
        content,
        place=place,
        at=at,
        kind=kind,
        layer="episodic" if kind == "event" else "semantic",
        category=category,
        tags=tags,
        source=f"import:{name}"[:200],
    )


def split_blocks(text: str) -> Iterator[tuple[int, tuple[str, ...], str]]:
    r"""Yield the bullets and paragraphs of a Markdown text with line numbers and headings.

    A bullet keeps the indented lines below it, and fenced code stays together. Headings become tags, except
    the title of the document.

    >>> [(tags, text) for _, tags, text in split_blocks("# Memory\n## Style\n- short\n- no lists\n")]
    [(('Style',), 'short'), (('Style',), 'no lists')]
    """
    headings: dict[int, str] = {}
    block: list[str] = []
    begin, fence = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        code = _CODE.match(line)
        heading = None if fence or code else _HEADING.fullmatch(line)
        if block and not fence and (heading or not line.strip() or _BULLET.match(line)):
            yield begin, _build_tags(headings), _join_block(block)
            block = []
        if code:
            fence = "" if fence == code[1] else fence or code[1]
        if heading:
            level = len(heading[1])
            headings = {depth: name for depth, name in headings.items() if depth < level}
            headings[level] = heading[2]
        elif block or line.strip():
            begin = begin if block else number
            block.append(line)
    if block:
        yield begin, _build_tags(headings), _join_block(block)


def _join_block(block: list[str]) -> str:
    first = _BULLET.sub("", block[0], count=1)
    return "\n".join([first, *block[1:]]).strip()


def _build_tags(headings: dict[int, str]) -> tuple[str, ...]:
    names = (clean_text(name)[:_LONGEST_TAG].strip() for depth, name in sorted(headings.items()) if depth > 1)
    return tuple(dict.fromkeys(name for name in names if name))
