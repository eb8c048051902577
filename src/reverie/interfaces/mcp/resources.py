"""Resources of the server: pages, logs, records and sessions, by URI.

All functions read within one scope. Notifications of changes are in `subscriptions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reverie.context.render import render_label
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import HISTORY, LONGEST_PAGE, MEMORY, parse_daily_note_day, validate_page_name
from reverie.domain.record import Record
from reverie.domain.text import escaping, timestamps
from reverie.interfaces.formatting import count
from reverie.interfaces.mcp.offer import ServedMemory

PAGE = "reverie://memory/"
RECORD = "reverie://records/"
SESSION = "reverie://sessions/"
GRAPH = "memory://knowledge-graph"
"""URI of the graph in the reference memory server."""

A_PAGE = 100
"""Resources in one page of `resources/list`."""

MOST_LISTED = 1_000
"""Maximum records and maximum sessions listed, latest changed first; others can be read by id."""

LONGEST_TRANSCRIPT = 500
"""Maximum turns read of a session, the last ones."""

_MARKDOWN = "text/markdown"
_JSON = "application/json"
_NOT_FOUND_LEGACY = -32002  # error code of the protocol until 2025-11-25

_GRAPH = types.Resource(
    uri=GRAPH,
    name="knowledge-graph",
    title="Knowledge Graph",
    description="All entities, observations and relations.",
    mime_type=_JSON,
)

TEMPLATES = (
    types.ResourceTemplate(
        name="page",
        title="A page or log",
        uri_template=PAGE + "{name}",
        description="MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or another page.",
        mime_type=_MARKDOWN,
    ),
    types.ResourceTemplate(
        name="record",
        title="A record",
        uri_template=RECORD + "{id}",
        description="A record with all its fields, live or archived.",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        name="session",
        title="A conversation",
        uri_template=SESSION + "{id}",
        description=f"The last {LONGEST_TRANSCRIPT} turns of a conversation.",
        mime_type=_MARKDOWN,
    ),
)


def build_page_uri(name: str) -> str:
    """Return the URI of a page or log."""
    return PAGE + quote(name)


def build_record_uri(id: str) -> str:
    """Return the URI of a record."""
    return RECORD + quote(id, safe="")


def build_session_uri(id: str) -> str:
    """Return the URI of a session."""
    return SESSION + quote(id, safe="")


# -- the list --------------------------------------------------------------------------------------------


def list_resources(offer: ServedMemory, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of resources, and the cursor for the next one.

    Args:
        offer: The served memory.
        cursor: Cursor from the previous page; None for the first page.

    Raises:
        MCPError: the cursor is invalid.
    """
    start = _parse_cursor(cursor)
    stop = start + A_PAGE + 1  # one more than are returned, which shows whether there are more
    builders = [*_iterate_page_builders(offer)]
    sessions = offer.view.sessions(limit=min(stop, MOST_LISTED))
    builders += [partial(_build_session_resource, each) for each in sessions]
    offset = max(0, start - len(builders))
    builders = builders[start:stop]
    limit = min(A_PAGE + 1 - len(builders), MOST_LISTED - offset)
    if limit > 0:
        records = offer.view.list(limit=limit, offset=offset)
        builders += [partial(_build_record_resource, each) for each in records]
    return types.ListResourcesResult(
        resources=[build() for build in builders[:A_PAGE]],
        next_cursor=str(start + A_PAGE) if len(builders) > A_PAGE else None,
    )


def _iterate_page_builders(offer: ServedMemory) -> Iterator[Callable[[], types.Resource]]:
    """Yield a function for the graph and each page, which builds the resource; so only those shown are built."""
    if offer.graph is not None:
        yield lambda: _GRAPH
    pages = {each.name: each.updated_at for each in offer.view.pages.overview()}
    for name in dict.fromkeys((MEMORY, HISTORY, *pages)):
        yield partial(_build_page_resource, offer, name, pages.get(name))


def _build_page_resource(offer: ServedMemory, name: str, at: datetime | None) -> types.Resource:
    return types.Resource(
        uri=build_page_uri(name),
        name=name,
        title=name,
        description=_describe_page(name),
        mime_type=_MARKDOWN,
        size=len(offer.view.pages.read(name).encode()),
        annotations=_build_annotations(at, 1.0 if name == MEMORY else 0.5),
    )


def _describe_page(name: str) -> str:
    if name == MEMORY:
        return "The page that is part of every prompt."
    if name == HISTORY:
        return "Summaries of conversations, one paragraph each."
    return "Notes of one day." if parse_daily_note_day(name) is not None else "A page."


def _build_session_resource(overview: SessionOverview) -> types.Resource:
    return types.Resource(
        uri=build_session_uri(overview.state.id),
        name=overview.state.id,
        title=f"Conversation {render_label(overview.state.id)}",
        description=f"{count(overview.turns, 'turn')}, {overview.state.status}.",
        mime_type=_MARKDOWN,
        annotations=_build_annotations(overview.last_at, 0.3),
    )


def _build_record_resource(record: Record) -> types.Resource:
    return types.Resource(
        uri=build_record_uri(record.id),
        name=record.id,
        title=render_label(record.content),
        description=f"A {record.kind.replace('_', ' ')}"
        + (f" in {record.category}." if record.category else "."),
        mime_type=_JSON,
        size=len(_serialize_record(record).encode()),
        annotations=_build_annotations(record.updated_at, record.importance),
    )


def _build_annotations(at: datetime | None, priority: float) -> types.Annotations:
    return types.Annotations(
        audience=["user", "assistant"],
        priority=priority,
        last_modified=None if at is None else timestamps.format_time(at),
    )


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if cursor.isascii() and cursor.isdecimal() and len(cursor) < 10:
        return int(cursor)
    raise MCPError(types.INVALID_PARAMS, "Invalid cursor: start the list again without a cursor.")


# -- reading -------------------------------------------------------------------------------------------


def read(offer: ServedMemory, uri: str, *, stateless: bool) -> types.ReadResourceResult:
    """Read the resource at a URI.

    Args:
        offer: The served memory.
        uri: The URI.
        stateless: Whether the connection has no handshake; then another error code means "not found".

    Raises:
        MCPError: the resource does not exist.
    """
    contents = _read_contents(offer, uri)
    if contents is None:
        raise MCPError(
            types.INVALID_PARAMS if stateless else _NOT_FOUND_LEGACY,
            f"Unknown resource {uri[:300]!r}: see resources/list and resources/templates/list.",
            {"uri": uri},
        )
    mime, text = contents
    item = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
    return types.ReadResourceResult(contents=[item])


def is_there(offer: ServedMemory, uri: str) -> bool:
    """Whether a URI has a resource."""
    return _read_contents(offer, uri) is not None


def _read_contents(offer: ServedMemory, uri: str) -> tuple[str, str] | None:
    if uri == GRAPH and offer.graph is not None:
        return _JSON, json.dumps(offer.graph.read_graph(), ensure_ascii=False, indent=2)
    for base, read_one in ((PAGE, _read_page), (RECORD, _read_record), (SESSION, _read_session)):
        if uri.startswith(base):
            return read_one(offer, unquote(uri.removeprefix(base)))
    return None


def _read_page(offer: ServedMemory, name: str) -> tuple[str, str] | None:
    try:
        validate_page_name(name)
    except InvalidInput:
        return None
    if name not in (MEMORY, HISTORY) and name not in offer.view.pages.names():
        return None
    return _MARKDOWN, offer.view.pages.read(name)


def _read_record(offer: ServedMemory, id: str) -> tuple[str, str] | None:
    record = offer.view.get(id)
    return None if record is None else (_JSON, _serialize_record(record))


def _serialize_record(record: Record) -> str:
    return json.dumps(record.to_dict(), ensure_ascii=False, indent=2)


def _read_session(offer: ServedMemory, id: str) -> tuple[str, str] | None:
    turns = offer.view.turns(id, start=-LONGEST_TRANSCRIPT)
    if not turns:
        return None
    left_out = turns[0].position
    heading = f"# Conversation {render_label(turns[0].session)}\n\n"
    if left_out:
        heading += f"({left_out:,} earlier turns are left out.)\n\n"
    text = heading + "\n\n".join(_render_turn(turn) for turn in turns) + "\n"
    return _MARKDOWN, text if len(text) <= LONGEST_PAGE else f"{text[:LONGEST_PAGE]}\n\n… [cut]\n"


def _render_turn(turn: Turn) -> str:
    who = f"{turn.role} {render_label(turn.speaker)}" if turn.speaker else turn.role
    calls = ", ".join(call.name for call in turn.tool_calls)
    text = escaping.strip_invisible(turn.content).strip() + (f"\n[calls {calls}]" if calls else "")
    quote_of = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return f"**{who}** ({turn.at:%Y-%m-%d %H:%M} UTC, {turn.id}):\n{quote_of}"
