"""Tools that edit a piece of a page or of a record, and read pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from reverie.context import render
from reverie.context.notes import is_unconfirmed
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, validate_page_name
from reverie.domain.record import UNTRUSTED
from reverie.domain.secrets.redactor import redact_secrets
from reverie.domain.text import escaping
from reverie.llm.messages import ToolSpec
from reverie.repositories.pages import Pages
from reverie.tools import records, rendering
from reverie.tools.toolset import Tool, ToolResult, Toolset
from reverie.tools.trust_guard import MemoryLike

_SIMILAR = 0.5  # of the three-letter pieces of what was looked for
_LONGEST_COMPARED = 500
_MOST_ROWS = 20
_LONGEST_SHOWN = 200


def build_page_tools(memory: MemoryLike, *, now: Callable[[], datetime]) -> Toolset:
    """Return the tools `edit_memory` and `read_page`."""

    def edit(given: Mapping[str, Any]) -> ToolResult:
        old, new = given.get("old") or "", given["new"]
        if given.get("id"):
            if given.get("page"):
                raise InvalidInput("pass id for a record or page for a page, not both")
            return _edit_record(memory, given, old, new, now())
        return _edit_page(memory.pages, given.get("page") or MEMORY, old, new)

    read = partial(_read_page, memory)
    return Toolset(
        [
            Tool(spec=_EDIT, run=edit, destructive=True),
            Tool(spec=_READ, run=read, reads_only=True, idempotent=True),
        ]
    )


def _edit_record(
    memory: MemoryLike, given: Mapping[str, Any], old: str, new: str, now: datetime
) -> ToolResult:
    if not old:
        raise InvalidInput("old is missing: pass the piece of the memory that new takes the place of")
    after = records.update_record(
        memory,
        given,
        lambda record: {"content": replace_once(record.content, old, new, where=record.id)},
    )
    return ToolResult(
        f"Edited {after.id}:\n{rendering.render_record(after, now)}",
        {"edited": after.id, "text": escaping.strip_invisible(after.content)},
        trusted=after.origin not in UNTRUSTED,
    )


def _edit_page(pages: Pages, name: str, old: str, new: str) -> ToolResult:
    if is_log(validate_page_name(name)):
        raise InvalidInput(f"{name} only grows and cannot be edited; edit {MEMORY} or a memory by its id")
    text = pages.read(name)
    if not old:
        if not new.strip():
            raise InvalidInput("new is empty: pass the line to be added")
        pages.append(name, new)
        new = _to_stored_text(pages, name, new)
        return ToolResult(
            f"Added to {name}: {render.quote_text(new, id=name)}", {"edited": name, "text": new}
        )
    if name not in pages.names():
        raise NotFound(f"there is no page {name}; leave old out to begin it")
    replace_once(text, old, new, where=name)
    pages.replace(old, new, name=name)
    new = _to_stored_text(pages, name, new)
    return ToolResult(
        f"Edited {name}: {render.quote_text(old, id=name, longest=_LONGEST_SHOWN)} is now "
        f"{render.quote_text(new, id=name, longest=_LONGEST_SHOWN) or 'gone'}",
        {"edited": name, "text": new},
    )


def _to_stored_text(pages: Pages, name: str, new: str) -> str:
    """Return what was written as the page has it, with secrets redacted."""
    return new if new in pages.read(name) else redact_secrets(new)


def replace_once(text: str, old: str, new: str, *, where: str) -> str:
    """Return a text with a piece replaced that occurs exactly once.

    Args:
        where: Name of the text for an error.

    Raises:
        InvalidInput: the piece does not occur, and the message quotes what is similar; or it occurs
            several times.
    """
    times = text.count(old)
    if times == 1:
        return text.replace(old, new)
    if times > 1:
        raise InvalidInput(
            f"the text to be replaced is {times} times in {where}; pass more of what is around it, "
            "so that it stands there once"
        )
    like = find_similar_lines(text, old)
    shown = (
        f'; similar there is: "{escaping.escape_line(like)}"'
        if like
        else f"; read {where} and pass a piece of it"
    )
    raise InvalidInput(f"the text to be replaced is not in {where}{shown}")


def find_similar_lines(text: str, piece: str) -> str:
    """Return the lines of a text that are most similar to a piece that is not in it; empty when none are."""
    wanted = _extract_trigrams(piece[:_LONGEST_COMPARED])
    if not wanted:
        return ""
    rows, height = text.split("\n"), min(piece.count("\n") + 1, _MOST_ROWS)
    best, most = "", _SIMILAR
    for start in range(max(1, len(rows) - height + 1)):
        candidate = "\n".join(rows[start : start + height])[:_LONGEST_COMPARED]
        share = len(wanted & _extract_trigrams(candidate)) / len(wanted)
        if share > most:
            best, most = candidate, share
    return best


def _extract_trigrams(text: str) -> set[str]:
    plain = " ".join(text.casefold().split())
    return {plain[at : at + 3] for at in range(len(plain) - 2)}


def _read_page(memory: MemoryLike, given: Mapping[str, Any]) -> ToolResult:
    pages, name = memory.pages, validate_page_name(given.get("page") or MEMORY)
    names = pages.names()
    if name not in names:
        if name == MEMORY:
            return ToolResult(f"{MEMORY} is empty.", {"page": name, "text": ""})
        shown = ", ".join(names) or "none"
        raise NotFound(f"there is no page {name}; there are: {shown}")
    text = pages.read(name)
    message = f"{name} ({rendering.format_count(len(text), 'character')}):\n{escaping.fence(text)}"
    is_doubted = is_log(name) and any(
        each.origin in UNTRUSTED or is_unconfirmed(each.content) for each in pages.paragraphs(name)
    )
    return ToolResult(message, {"page": name, "text": escaping.strip_invisible(text)}, trusted=not is_doubted)


_NAME = rendering.build_text_schema("Which page; MEMORY.md if left out.", longest=200)
_OLD = rendering.build_text_schema(
    "The piece as it stands there, with enough around it to be the only one.", longest=LONGEST_PAGE
)
_NEW = rendering.build_text_schema(
    "What to put in its place; empty takes it out.", longest=LONGEST_PAGE, empty=True
)
_EDIT = ToolSpec(
    name="edit_memory",
    description="Replace a piece of text that stands exactly once in MEMORY.md, in another page, or in the "
    "memory of an id. Without old, new is added as a line at the end of the page.",
    parameters=rendering.build_parameters(
        ["new"],
        old=_OLD,
        new=_NEW,
        id=rendering.build_text_schema("Edit this memory, by the id that search_memory shows.", longest=200),
        page=_NAME,
    ),
)
_READ = ToolSpec(
    name="read_page",
    description="Read MEMORY.md, HISTORY.md, a daily note such as 2025-01-31.md, or another page.",
    parameters=rendering.build_parameters(page=_NAME),
)
