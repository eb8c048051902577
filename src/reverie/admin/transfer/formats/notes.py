"""Reader of Markdown notes and vaults, and of plain texts.

`MEMORY.md`, `HISTORY.md` and daily notes are those of golemcore and Autobot; other files are notes. From a trusted
origin they become pages and logs. From any other origin, each bullet or paragraph becomes a record, because prompts
include pages unasked and nobody has reviewed these yet. So does each bullet of instructions to a coding agent
(`CLAUDE.md`), and of a note of basic-memory, whose observations and relations are read. Front matter gives the title,
tags and date of the records. Embedded data, drawings, comments and queries are left out. A plain text is cut into
passages, of which each becomes a record.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from reverie.admin.transfer.batch import FoundValue, ImportTerms, Item, Skipped, build_stable_id, hash_texts
from reverie.admin.transfer.formats.foreign import ForeignFields, build_record, parse_moment, skip
from reverie.admin.transfer.safe_reading import SourceFile
from reverie.domain.errors import InvalidInput
from reverie.domain.intake import classify
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.living_page import split_page
from reverie.domain.page import (
    HISTORY,
    MEMORY,
    Page,
    Paragraph,
    is_log,
    parse_daily_note_day,
    validate_page,
    validate_page_name,
    validate_paragraph,
)
from reverie.domain.record import Kind
from reverie.domain.text.validation import clean_text
from reverie.tools.large_results import split_text

FORM = "notes"

DOCUMENT_CATEGORY = "documents"
"""Category of all passages; each document has one below it."""

DOCUMENT_ENDINGS = {".txt", ".text", ".rst", ".log"}
"""Endings of files that are taken for documents if nothing else is known of them."""

MAX_PASSAGE_CHARS = 800
"""Length of a passage: as much as a prompt quotes of a record."""

_LONGEST_TAG = 100
_LINE_END = defer_regex(r"\r\n?|[\u0085\u2028\u2029]")
_STAMP = defer_regex(r"\[?(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d)")
_HEADING = defer_regex(r" {0,3}(#{1,6})\s+(.*?)\s*#*\s*")
_BULLET = defer_regex(r"(?:[-*+]|\d{1,3}[.)])\s+")
_CODE = defer_regex(r"\s*(```|~~~)")
_FRONT_MATTER = defer_regex(r"---[^\S\n]*\n(.*?)^(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = defer_regex(r"^([A-Za-z][\w -]*):[^\S\n]*(.*(?:\n(?:[^\S\n]+\S|-[^\S\n]).*)*)", re.MULTILINE)
"""A field, with the indented lines and the items of a list below it."""
_BETWEEN_TAGS = defer_regex(r"""[\s,"'#\[\]]+""")
_FOLDED = defer_regex(r"[>|][+-]?")
_QUERY = defer_regex(
    r"^(?:[^\S\n]*```(?:compressed-json|dataview(?:js)?|tasks|query)|#+ Drawing\s*\n```json)\b"
    r".*?^[^\S\n]*```[^\S\n]*$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = defer_regex(r"^%%[^\S\n]*$.*?^%%[^\S\n]*$", re.DOTALL | re.MULTILINE)
_MARK = defer_regex(r"^%%[^\S\n]*$", re.MULTILINE)
_DATA_URI = defer_regex(r"data:[\w.+/-]+(?:;[\w=-]+)*;base64,[A-Za-z0-9+/=\s]*[A-Za-z0-9+/=]")
_BASE64_RUN = defer_regex(r"(?:[A-Za-z0-9+/]{64,}={0,2}\s*){2,}|[A-Za-z0-9+/]{200,}={0,2}")
_HTML_COMMENT = defer_regex(r"<!--.*?-->", re.DOTALL)
_ANY_HEADING = defer_regex(r"^#{1,6} ", re.MULTILINE)
_OBSERVATION = defer_regex(r"\[(?P<category>[^]\[\s(][^]\[]{0,60})\]\s+(?P<text>.+)", re.DOTALL)
_RELATION = defer_regex(r"(?P<verb>[\w -]{1,60}?)\s+\[\[(?P<target>[^]\[]{1,120})\]\].*")
_HASHTAG = defer_regex(r"(?<!\S)#([\w/-]{1,60})")
INSTRUCTIONS = frozenset({"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md"})
"""Names of files with instructions to coding agents."""

_UNNAMED = defer_regex(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class _FrontMatter:
    """Fields above a note."""

    title: str = ""
    tags: tuple[str, ...] = ()
    at: datetime | None = None
    is_graph: bool = False


def read(name: str, text: str, terms: ImportTerms, *, place: str, at: datetime) -> Iterator[Item]:
    """Yield the content of a Markdown file of another program.

    Args:
        name: Its path in the folder of notes, such as `HISTORY.md` or `2026-02-07.md`.
        text: Its content.
        at: When it was last changed.
    """
    about, body, lines_above = _split_front_matter(text.replace("\r\n", "\n"))
    body = _drop_embedded_data(body)
    if not body.strip():
        yield Skipped(what="page", place=place, why="empty")
    elif is_log(name) and (terms.trusted or not _ANY_HEADING.search(body)):
        yield from _parse_log(name, body, terms, place=place, at=at)
    elif terms.trusted and not about.is_graph and PurePosixPath(name).name not in INSTRUCTIONS:
        own = split_page(text).outside if name == MEMORY else text  # the rest is composed of records
        yield _parse_page(name, _drop_embedded_data(own), place=place, at=at)
    else:
        yield from _parse_facts(name, body, terms, about, place=place, at=at, lines_above=lines_above)


def read_document(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the passages of a plain text.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        text = file.read_text().replace("\r\n", "\n")
    except InvalidInput as error:
        raise InvalidInput(f"{file.name}: {error}") from None
    stem = PurePosixPath(file.name).stem
    category = ForeignFields({"category": f"{DOCUMENT_CATEGORY}/{stem}"}).category("category")
    line = 1
    for passage in split_text(text, MAX_PASSAGE_CHARS):
        if content := clean_text(passage).strip():
            place = f"{file.place}, line {line}"
            named = category or DOCUMENT_CATEGORY
            yield _build_note(file.name, place, content, terms, at=file.modified_at, category=named)
        line += passage.count("\n")


def _build_note(name: str, place: str, content: str, terms: ImportTerms, **fields: Any) -> Item:
    """Return the record of a piece of a text; one that stands there twice is one record."""
    fields |= {"source_id": hash_texts(name, content), "source": f"import:{name}"[:200]}
    return build_record(FORM, terms, place, content, **fields)


# -- front matter and embedded data ------------------------------------------------------------------------


def _split_front_matter(text: str) -> tuple[_FrontMatter, str, int]:
    """Return the fields above a note, the text below, and the number of lines above it.

    Tolerant: a line that is not a field, a template or a broken list counts as missing.
    """
    found = _FRONT_MATTER.match(text)
    if found is None:
        return _FrontMatter(), text, 0
    fields = {field[1].lower(): field[2].strip() for field in _FIELD.finditer(found[1])}
    tags = _BETWEEN_TAGS.split(f"{fields.get('tags', '')} {fields.get('tag', '')}")
    moments = (
        parse_moment(fields.get(name, "").strip("'\"")) for name in ("created", "date", "updated", "modified")
    )
    title = " ".join(_FOLDED.sub("", fields.get("title", ""), count=1).split()).strip("'\"")
    about = _FrontMatter(
        title=clean_text(title)[:_LONGEST_TAG].strip(),
        tags=tuple(dict.fromkeys(tag[:_LONGEST_TAG] for tag in map(clean_text, tags) if tag.strip("-"))),
        at=next(filter(None, moments), None),
        is_graph="permalink" in fields,
    )
    return about, text[found.end() :], found[0].count("\n")


def _drop_embedded_data(text: str) -> str:
    """Return a note without drawings, queries, hidden comments and encoded data."""
    for pattern in (_QUERY, _COMMENT, _MARK, _HTML_COMMENT):
        text = pattern.sub(lambda found: "\n" * found[0].count("\n"), text)
    return _BASE64_RUN.sub(_drop_if_encoded, _DATA_URI.sub("", text))


def _drop_if_encoded(found: re.Match[str]) -> str:
    """Return nothing for encoded data, which mixes letters and digits; a long word stays."""
    run = found[0]
    is_mixed = run != run.lower() and run != run.upper() and any(each.isdigit() for each in run)
    return "" if is_mixed else run


# -- logs --------------------------------------------------------------------------------------------------


def _split_paragraphs(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a log's text with the numbers of their first lines; of a daily note, its lines."""
    lines = enumerate(clean_text(_LINE_END.sub("\n", text)).split("\n"), start=1)
    for has_text, group in groupby(lines, key=lambda line: bool(line[1].strip())):
        block = list(group)
        if has_text and name == HISTORY:
            yield block[0][0], "\n".join(line.rstrip() for _, line in block).strip()
        elif has_text:
            yield from ((number, line.strip()) for number, line in block)


def _parse_time(name: str, content: str) -> datetime | None:
    """Return the moment at the beginning of a paragraph; in a daily note, that of the day."""
    found, day = _STAMP.match(content), parse_daily_note_day(name)
    try:
        named = None if found is None else found[1] or day
        return datetime.fromisoformat(f"{named}T{found[2]}").replace(tzinfo=UTC) if found and named else None
    except ValueError:
        return None


def _parse_log(name: str, text: str, terms: ImportTerms, *, place: str, at: datetime) -> Iterator[Item]:
    day = parse_daily_note_day(name)
    last = at if day is None else datetime.combine(day, time(), UTC)
    for number, content in _split_paragraphs(name, text):
        where = f"{place}, line {number}"
        paragraph = Paragraph(
            id=build_stable_id(FORM, name, content),
            page=name,
            position=1.0,
            at=_parse_time(name, content) or last,
            content=content,
            source=f"import:{FORM}",
        )
        try:
            validate_paragraph(paragraph)
        except InvalidInput as error:
            yield skip("paragraph", where, error)
            continue
        last = paragraph.at
        if terms.trusted:
            yield FoundValue(place=where, value=paragraph, form=FORM)
        else:
            yield _build_note(name, where, content, terms, at=last, kind="event")


# -- pages and facts ---------------------------------------------------------------------------------------


def _parse_page(name: str, text: str, *, place: str, at: datetime) -> Item:
    content = clean_text(_LINE_END.sub("\n", text))
    try:
        page = validate_page(Page(name=build_page_name(name), content=content, updated_at=at))
    except InvalidInput as error:
        return skip("page", place, error)
    return FoundValue(place=place, value=page)


def build_page_name(name: str) -> str:
    """Return the name of the page of a note: letters a to z, digits, `_`, `-` and `.`.

    Accents and spaces are replaced. A name that loses more gets a mark of the original, so that no two notes
    share a page.

    >>> build_page_name("Projects/Weir plan.md"), build_page_name("名前.md")
    ('Projects/Weir-plan.md', 'note-0ea8a8.md')
    """
    folded = unicodedata.normalize("NFKD", name)
    plain = "".join(letter for letter in folded if not unicodedata.combining(letter))
    mark = "" if plain.isascii() else f"-{hash_texts(name)[:6]}"
    parts = [_UNNAMED.sub("-", part).strip("-.") for part in plain.removesuffix(".md").split("/")]
    parts = [part or ("note" if part is parts[-1] else "folder") for part in parts]
    return validate_page_name(f"{'/'.join(parts)}{mark}.md")


def _parse_facts(
    name: str,
    text: str,
    terms: ImportTerms,
    about: _FrontMatter,
    *,
    place: str,
    at: datetime,
    lines_above: int,
) -> Iterator[Item]:
    day = parse_daily_note_day(PurePosixPath(name).name)
    at = about.at or (at if day is None else datetime.combine(day, time(), UTC))
    for number, tags, raw in split_blocks(_LINE_END.sub("\n", text)):
        content = clean_text(raw).strip()
        if not any(map(str.isalnum, content)):  # a ruler, or a fence without code
            continue
        where = f"{place}, line {number + lines_above}"
        kind: Kind = "fact"
        if PurePosixPath(name).name in INSTRUCTIONS:
            judged = classify(content, origin=terms.foreign_origin, at=at, zone=UTC)
            kind = judged.kind or "fact"
        elif about.is_graph:
            content, tags = _parse_observation(content, about.title, tags)
        yield _build_note(
            name, where, content, terms, at=at, kind=kind, layer="semantic",
            tags=tuple(dict.fromkeys((*tags, *about.tags))), metadata={"title": about.title} if about.title else {},
        )  # fmt: skip


def _parse_observation(text: str, title: str, tags: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return an observation or relation of basic-memory as a sentence, with its category and tags.

    >>> _parse_observation("[tool] Uses a gauge #weir", "Weir plan", ())
    ('Uses a gauge', ('tool', 'weir'))
    >>> _parse_observation("part_of [[Harbour]]", "Weir plan", ())
    ('Weir plan part of Harbour', ('relation',))
    """
    if (relation := _RELATION.fullmatch(text)) is not None:
        return f"{title} {relation['verb'].replace('_', ' ')} {relation['target']}".strip(), (
            *tags,
            "relation",
        )
    found = _OBSERVATION.fullmatch(text)
    said = text if found is None else found["text"]
    names = [] if found is None else [found["category"].strip()]
    plain = " ".join(_HASHTAG.sub("", said).split())
    return plain or said, (*tags, *names, *_HASHTAG.findall(said))


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
