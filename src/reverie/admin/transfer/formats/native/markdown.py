"""Export as Markdown: one file for each record and session, and pages as they are.

    reverie-export.json                 the manifest
    records/{category}/{id}.md          a record: its fields as YAML front matter, then its content
    archive/{category}/{id}.md          an archived one
    sessions/{name}.md                  a session: its fields, then its turns
    pages/MEMORY.md, pages/HISTORY.md   pages and logs, as they are

A turn begins with a heading that ends in a comment with its fields:

    ## user, 2026-03-01T12:00:00Z <!-- turn {"id": "3f9a0c41d7be", "position": 0} -->

A line of a turn that looks like such a heading is preceded by a backslash. Empty fields are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.atomic_writes import write_private_file
from reverie.admin.transfer.formats import notes
from reverie.admin.transfer.formats.native import codec, frontmatter, manifest
from reverie.admin.transfer.formats.native.jsonl import PIECE
from reverie.admin.transfer.formats.native.manifest import ExportManifest
from reverie.admin.transfer.items import FoundTurns, FoundValue, ImportTerms, Item, Skipped, build_stable_id
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import Page, Paragraph, get_separator, is_log, validate_page_name
from reverie.domain.record import HOME_LAYERS, Record
from reverie.domain.text import timestamps
from reverie.files.names import build_file_name

RECORDS, ARCHIVE, SESSIONS, PAGES = "records", "archive", "sessions", "pages"

_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)
_TURN = defer_regex(r"## .*<!-- turn (?P<fields>\{.*\}) -->")
_LOOKS_LIKE_TURN = defer_regex(r"\\*## .*<!-- turn \{.*\} -->")
_IN_HEADING = ("role", "at", "session", "content", "scope")


class MarkdownWriter:
    """Writer of an export into a folder."""

    def __init__(self, folder: Path, *, at: datetime) -> None:
        self._folder = folder
        self._manifest = ExportManifest(form="markdown", made_at=at)

    def put_record(self, record: Record) -> None:
        """Write one record."""
        fields = {name: value for name, value in record.to_dict().items() if not _is_empty(value)}
        text = frontmatter.render_document(fields, fields.pop("content"))
        folder = ARCHIVE if record.archived else RECORDS
        category = f"{record.category}/" if record.category else ""
        write_private_file(self._folder / f"{folder}/{category}{record.id}.md", [text])

    def put_session(self, state: SessionState, turns: Iterable[Turn]) -> None:
        """Write one session with its turns."""
        file = self._folder / SESSIONS / f"{build_file_name(state.id)}.md"
        write_private_file(file, _render_session(state, turns))

    def put_page(self, page: Page) -> None:
        """Write one page."""
        self._manifest.record_page(page)
        write_private_file(self._folder / PAGES / page.name, [page.content])

    def put_log(self, name: str, paragraphs: list[Paragraph]) -> None:
        """Write one log."""
        self._manifest.record_log(name, paragraphs)
        text = get_separator(name).join(paragraph.content for paragraph in paragraphs)
        write_private_file(self._folder / PAGES / name, [text, "\n"])

    def finish(self, counts: Mapping[str, int]) -> None:
        """Write the manifest."""
        self._manifest.counts = counts
        write_private_file(self._folder / manifest.NAME, [self._manifest.to_text()])


def _is_empty(value: Any) -> bool:
    return any(value is empty or (value == empty and type(value) is type(empty)) for empty in _EMPTY)


def _render_session(state: SessionState, turns: Iterable[Turn]) -> Iterator[str]:
    fields = {name: value for name, value in state.to_dict().items() if not _is_empty(value)}
    yield frontmatter.render_document(fields, "").removesuffix("\n")
    for turn in turns:
        text = "\n".join(_escape_line(line) for line in turn.content.split("\n"))
        yield f"{_render_heading(turn)}\n\n{text}\n\n"


def _render_heading(turn: Turn) -> str:
    fields = {
        name: value
        for name, value in turn.to_dict().items()
        if name not in _IN_HEADING and (name == "position" or not _is_empty(value))
    }
    fields |= {"role": turn.role, "at": timestamps.format_time(turn.at)}
    return f"## {turn.role}, {timestamps.format_time(turn.at)} <!-- turn {_to_comment_json(fields)} -->"


def _to_comment_json(fields: Mapping[str, Any]) -> str:
    """Return JSON that contains no end of a comment or line."""
    return json.dumps(fields, ensure_ascii=True).replace("<", "\\u003c").replace(">", "\\u003e")


def _escape_line(line: str) -> str:
    return f"\\{line}" if _LOOKS_LIKE_TURN.fullmatch(line) else line


def _unescape_line(line: str) -> str:
    return line[1:] if line.startswith("\\") and _LOOKS_LIKE_TURN.fullmatch(line) else line


# -- reading -----------------------------------------------------------------------------------------------


def read(folder: Path, terms: ImportTerms) -> Iterator[Item]:
    """Yield the content of an export.

    Raises:
        InvalidInput: it cannot be read, or was made by a newer Reverie.
    """
    known = manifest.read_manifest(folder)
    for name, file in safe_reading.iter_files(folder):
        if name == manifest.NAME:
            continue
        part, _, rest = name.partition("/")
        if file is None or not name.endswith(".md") or part not in (RECORDS, ARCHIVE, SESSIONS, PAGES):
            yield Skipped(what="file", place=name, why="unsupported", detail="no part of an export")
            continue
        try:
            text = safe_reading.read_text(file, exactly=part == PAGES)
            if part == SESSIONS:
                yield from _read_session(text, terms, place=name)
            elif part == PAGES:
                build = (
                    manifest.build_found_paragraphs
                    if is_log(validate_page_name(rest))
                    else manifest.build_found_page
                )
                yield from build(rest, text, known, place=name, at=get_modified_time(file))
            else:
                yield FoundValue(place=name, value=_read_record(text, terms))
        except InvalidInput as error:
            yield notes.skip("file", name, error)


def get_modified_time(file: Path) -> datetime:
    """Return when a file last changed."""
    return datetime.fromtimestamp(int(file.stat().st_mtime), UTC)


def _read_record(text: str, terms: ImportTerms) -> Record:
    """Return the record of a file, with defaults for missing fields."""
    fields, content = frontmatter.split_document(text)
    given = {name: value for name, value in fields.items() if value is not None}
    now = timestamps.format_time(terms.now)
    first = given.get("created_at", now)
    given = {
        "id": build_stable_id(codec.FORMAT, str(given.get("kind", "fact")), content),
        "created_at": first,
        "updated_at": first,
        "last_seen_at": given.get("updated_at", first),
        "layer": HOME_LAYERS.get(given.get("kind", "fact"), "semantic"),
        **given,
        "content": content,
    }
    return terms.apply(codec.read(Record, given))


def _read_session(text: str, terms: ImportTerms, *, place: str) -> Iterator[Item]:
    fields, body = frontmatter.split_document(text)
    given = {name: value for name, value in fields.items() if value is not None}
    state = terms.apply(codec.read(SessionState, given))
    turns: list[Turn] = []
    sent = False
    for number, heading, content in _parse_turns(body):
        try:
            turns.append(_read_turn(heading, content, state))
        except InvalidInput as error:
            where = f"{place}, turn {number}"
            yield notes.skip("turn", where, error)
        if len(turns) >= PIECE:
            yield FoundTurns(place=place, state=state, turns=tuple(turns))
            turns, sent = [], True
    if turns or not sent:
        yield FoundTurns(place=place, state=state, turns=tuple(turns))


def _parse_turns(body: str) -> Iterator[tuple[int, str, str]]:
    """Yield the turns of a session's text: number from 1, fields, content."""
    heading: str | None = None
    number = 0
    block: list[str] = []
    for line in (*body.split("\n"), None):
        next_heading = None if line is None else _TURN.fullmatch(line)
        if line is not None and next_heading is None:
            block.append(line)
            continue
        if heading is not None:
            yield number, heading, _extract_content(block)
        elif any(text.strip() for text in block):
            raise InvalidInput("there is text above the first turn: give it the heading of a turn")
        heading, block, number = (next_heading["fields"] if next_heading else None), [], number + 1


def _extract_content(block: list[str]) -> str:
    """Return the text between two headings, without the blank lines that the writer adds."""
    lines = block[1:] if block and not block[0] else block
    if len(lines) > 1 and not lines[-1]:
        lines = lines[:-1]
    return "\n".join(map(_unescape_line, lines))


def _read_turn(heading: str, content: str, state: SessionState) -> Turn:
    fields = safe_reading.parse_json_object(heading)
    return replace(codec.read(Turn, {**fields, "content": content, "session": state.id}), scope=state.scope)
