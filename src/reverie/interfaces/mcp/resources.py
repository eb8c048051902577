"""Resources and the prompt of the server: pages and logs by URI, and what is remembered about a topic.

All functions read within one scope. Recalled content is quoted as data, as in every prompt of Reverie.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reverie.context import render as rendering
from reverie.domain.errors import InvalidInput
from reverie.domain.page import HISTORY, MEMORY, parse_daily_note_day, validate_page_name
from reverie.domain.text import escaping, timestamps
from reverie.scoped import ScopedMemory
from reverie.search.hits import SOURCES

PAGE_URI = "reverie://memory/"

MAX_LISTED = 100
"""Resources in one page of `resources/list`."""

_MARKDOWN = "text/markdown"
_NOT_FOUND_LEGACY = -32002  # error code of the protocol until 2025-11-25
_MAX_RECALLED = 20
_MAX_TOPIC_CHARACTERS = 10_000

TEMPLATES = (
    types.ResourceTemplate(
        name="page",
        title="A page or log",
        uri_template=PAGE_URI + "{name}",
        description="MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or another page.",
        mime_type=_MARKDOWN,
    ),
)

PROMPT = types.Prompt(
    name="what-do-you-remember",
    title="What do you remember?",
    description="What is remembered about a topic, or lately, told from memory alone.",
    arguments=[types.PromptArgument(name="about", description="The topic; left out, what is newest.")],
)


def build_page_uri(name: str) -> str:
    """Return the URI of a page or log."""
    return PAGE_URI + quote(name)


# -- resources -------------------------------------------------------------------------------------------


def list_resources(view: ScopedMemory, cursor: str | None) -> types.ListResourcesResult:
    """Return up to `MAX_LISTED` pages and logs, and the cursor for the next ones.

    Args:
        view: The served memory.
        cursor: Cursor from the previous result; None for the first pages.

    Raises:
        MCPError: the cursor is invalid.
    """
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        raise MCPError(types.INVALID_PARAMS, "Invalid cursor: start the list again without a cursor.")
    start = int(cursor or 0)
    pages = {each.name: each.updated_at for each in view.pages.overview()}
    names = list(dict.fromkeys((MEMORY, HISTORY, *pages)))
    stop = start + MAX_LISTED
    return types.ListResourcesResult(
        resources=[_build_page_resource(view, name, pages.get(name)) for name in names[start:stop]],
        next_cursor=str(stop) if len(names) > stop else None,
    )


def _build_page_resource(view: ScopedMemory, name: str, at: datetime | None) -> types.Resource:
    return types.Resource(
        uri=build_page_uri(name),
        name=name,
        title=name,
        description=_describe_page(name),
        mime_type=_MARKDOWN,
        size=len(view.pages.read(name).encode()),
        annotations=types.Annotations(
            audience=["user", "assistant"],
            priority=1.0 if name == MEMORY else 0.5,
            last_modified=None if at is None else timestamps.format_time(at),
        ),
    )


def _describe_page(name: str) -> str:
    if name == MEMORY:
        return "The page that is part of every prompt."
    if name == HISTORY:
        return "Summaries of conversations, one paragraph each."
    return "Notes of one day." if parse_daily_note_day(name) is not None else "A page."


def read_resource(view: ScopedMemory, uri: str, *, stateless: bool) -> types.ReadResourceResult:
    """Return the page or log at a URI.

    Args:
        view: The served memory.
        uri: The URI.
        stateless: Whether the connection has no handshake; then another error code means "not found".

    Raises:
        MCPError: the resource does not exist.
    """
    name = unquote(uri.removeprefix(PAGE_URI)) if uri.startswith(PAGE_URI) else ""
    try:
        validate_page_name(name)
    except InvalidInput:
        name = ""
    if not name or (name not in (MEMORY, HISTORY) and name not in view.pages.names()):
        raise MCPError(
            types.INVALID_PARAMS if stateless else _NOT_FOUND_LEGACY,
            f"Unknown resource {uri[:300]!r}: see resources/list and resources/templates/list.",
            {"uri": uri},
        )
    item = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=view.pages.read(name))
    return types.ReadResourceResult(contents=[item])


# -- the prompt ------------------------------------------------------------------------------------------


def get_prompt(view: ScopedMemory, name: str, arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Return the prompt with its argument filled in.

    Raises:
        MCPError: the prompt does not exist, or the argument is unknown or too long.
    """
    if name != PROMPT.name:
        raise MCPError(
            types.INVALID_PARAMS, f"Unknown prompt {name[:80]!r}. The only prompt is {PROMPT.name}."
        )
    given = dict(arguments or {})
    about = given.pop("about", "").strip()
    if given:
        raise MCPError(types.INVALID_PARAMS, f"{name} takes only the argument about.")
    if len(about) > _MAX_TOPIC_CHARACTERS:
        raise MCPError(
            types.INVALID_PARAMS, f"The argument about has more than {_MAX_TOPIC_CHARACTERS:,} characters."
        )
    text = types.TextContent(type="text", text=_render(view, about))
    return types.GetPromptResult(
        description=PROMPT.description, messages=[types.PromptMessage(role="user", content=text)]
    )


def _render(view: ScopedMemory, about: str) -> str:
    hits = view.search(about or None, sources=SOURCES, limit=_MAX_RECALLED)
    topic = f" about {escaping.escape_line(about)}" if about else ""
    if not hits:
        return (
            f"What do you remember{topic}? I looked in my memory, and there is nothing{topic}. "
            "Tell me so; do not make anything up."
        )
    lines = "\n".join(rendering.render_hit(hit) for hit in hits)
    return (
        f"What do you remember{topic}? This is what my memory has. {escaping.NOTICE}\n\n{lines}\n\n"
        "Tell me in your own words, with the ids of what you rely on. Say what contradicts itself or is old, "
        "and do not add anything that is not there."
    )
