"""Resources of the server: pages, logs, records and sessions, by URI.

Everything here reads, within one scope. What changes, and who is told of it, is in `changes`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import HISTORY, LONGEST_PAGE, MEMORY, parse_daily_note_day, validate_page_name
from reverie.domain.record import Record
from reverie.domain.text import escaping, timestamps
from reverie.interfaces.mcp.offer import ServedMemory

PAGE = "reverie://memory/"
RECORD = "reverie://records/"
SESSION = "reverie://sessions/"
GRAPH = "memory://knowledge-graph"
"""The address that the reference memory server gives its graph."""

A_PAGE = 100
"""Resources in one answer of `resources/list`; more come with its cursor."""

MOST_LISTED = 1_000
"""Records, and sessions, that are listed, the latest changed first; all others are read by their ids."""

LONGEST_TRANSCRIPT = 500
"""Turns of a session that are read, the last ones."""

_MARKDOWN = "text/markdown"
_JSON = "application/json"
_LONGEST_TITLE = 80
_NOT_FOUND_THEN = -32002  # what the protocol had for it until 2025-11-25
_SECTIONS = ("pages", "sessions", "records")

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
        description="One thing remembered, with all its fields, also when it has been archived.",
        mime_type=_JSON,
    ),
    types.ResourceTemplate(
        name="session",
        title="A conversation",
        uri_template=SESSION + "{id}",
        description=f"What was said in a conversation: its last {LONGEST_TRANSCRIPT} turns.",
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
        offer: What there is.
        cursor: Where to begin, as the last answer had it; None for the beginning.

    Raises:
        MCPError: it is no cursor of this server.
    """
    section, offset = _decode_cursor(cursor)
    found: list[types.Resource] = []
    for name in _SECTIONS[_SECTIONS.index(section) :]:
        start = offset if name == section else 0
        for number, resource in enumerate(_iterate_section(offer, name, start), start):
            if len(found) == A_PAGE:
                return types.ListResourcesResult(resources=found, next_cursor=_encode_cursor(name, number))
            found.append(resource)
    return types.ListResourcesResult(resources=found)


def _iterate_section(offer: ServedMemory, name: str, start: int) -> Iterator[types.Resource]:
    if name == "pages":
        yield from islice(_iterate_pages(offer), start, None)
    elif name == "sessions":
        sessions = offer.view.sessions(limit=MOST_LISTED)
        yield from (_build_session_resource(each) for each in sessions[start:])
    else:
        left = max(0, min(A_PAGE + 1, MOST_LISTED - start))
        yield from (_build_record_resource(each) for each in offer.view.list(limit=left, offset=start))


def _iterate_pages(offer: ServedMemory) -> Iterator[types.Resource]:
    if offer.graph is not None:
        yield types.Resource(
            uri=GRAPH,
            name="knowledge-graph",
            title="Knowledge Graph",
            description="All entities, observations and relations.",
            mime_type=_JSON,
        )
    overview = {each.name: each.updated_at for each in offer.view.pages.overview()}
    for name in dict.fromkeys((MEMORY, HISTORY, *overview)):
        text = offer.view.pages.read(name)
        at = overview.get(name)
        yield types.Resource(
            uri=build_page_uri(name),
            name=name,
            title=name,
            description=_describe_page(name),
            mime_type=_MARKDOWN,
            size=len(text.encode()),
            annotations=_build_annotations(at, 1.0 if name == MEMORY else 0.5),
        )


def _describe_page(name: str) -> str:
    if name == MEMORY:
        return "What stands in every prompt."
    if name == HISTORY:
        return "What conversations came to, a paragraph each."
    return "The notes of a day." if parse_daily_note_day(name) is not None else "A page."


def _build_session_resource(found: SessionOverview) -> types.Resource:
    return types.Resource(
        uri=build_session_uri(found.state.id),
        name=found.state.id,
        title=f"Conversation {_shorten_title(found.state.id)}",
        description=f"{found.turns:,} turn{'' if found.turns == 1 else 's'}, {found.state.status}.",
        mime_type=_MARKDOWN,
        annotations=_build_annotations(found.last_at, 0.3),
    )


def _build_record_resource(found: Record) -> types.Resource:
    return types.Resource(
        uri=build_record_uri(found.id),
        name=found.id,
        title=_shorten_title(found.content),
        description=f"A {found.kind.replace('_', ' ')}"
        + (f" in {found.category}." if found.category else "."),
        mime_type=_JSON,
        size=len(_serialize_record(found).encode()),
        annotations=_build_annotations(found.updated_at, found.importance),
    )


def _shorten_title(text: str) -> str:
    line = escaping.escape_line(text[: _LONGEST_TITLE * 4])
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 1]}…"


def _build_annotations(at: datetime | None, priority: float) -> types.Annotations:
    return types.Annotations(
        audience=["user", "assistant"],
        priority=priority,
        last_modified=None if at is None else timestamps.format_time(at),
    )


def _encode_cursor(section: str, offset: int) -> str:
    return base64.urlsafe_b64encode(f"{section}:{offset}".encode()).decode()


def _decode_cursor(cursor: str | None) -> tuple[str, int]:
    if cursor is None:
        return _SECTIONS[0], 0
    try:
        section, _, offset = base64.urlsafe_b64decode(cursor).decode("ascii").partition(":")
        if section in _SECTIONS and offset.isdecimal() and len(offset) < 10:
            return section, int(offset)
    except (binascii.Error, ValueError):
        pass
    raise MCPError(types.INVALID_PARAMS, "There is no such cursor: begin the list anew, without one.")


# -- one of them -----------------------------------------------------------------------------------------


def read(offer: ServedMemory, uri: str, *, stateless: bool) -> types.ReadResourceResult:
    """Read the resource at a URI.

    Args:
        offer: What there is.
        uri: The address.
        stateless: Whether the client speaks the protocol without a handshake, which has another code for
            what is not there.

    Raises:
        MCPError: nothing does.
    """
    found = _read_contents(offer, uri)
    if found is None:
        raise MCPError(
            types.INVALID_PARAMS if stateless else _NOT_FOUND_THEN,
            f"There is no resource {uri[:300]!r}: resources/list and resources/templates/list say what is.",
            {"uri": uri},
        )
    mime, text = found
    contents = types.TextResourceContents(uri=uri, mime_type=mime, text=text)
    return types.ReadResourceResult(contents=[contents])


def is_there(offer: ServedMemory, uri: str) -> bool:
    """Whether a URI has a resource."""
    return _read_contents(offer, uri) is not None


def _read_contents(offer: ServedMemory, uri: str) -> tuple[str, str] | None:
    if uri == GRAPH and offer.graph is not None:
        return _JSON, json.dumps(offer.graph.read_graph(), ensure_ascii=False, indent=2)
    for prefix, read_one in ((PAGE, _read_page), (RECORD, _read_record), (SESSION, _read_session)):
        if uri.startswith(prefix):
            return read_one(offer, unquote(uri.removeprefix(prefix)))
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
    found = offer.view.get(id)
    return None if found is None else (_JSON, _serialize_record(found))


def _serialize_record(found: Record) -> str:
    return json.dumps(found.to_dict(), ensure_ascii=False, indent=2)


def _read_session(offer: ServedMemory, id: str) -> tuple[str, str] | None:
    turns = offer.view.turns(id, start=-LONGEST_TRANSCRIPT)
    if not turns:
        return None
    left_out = turns[0].position
    said = f"# Conversation {_shorten_title(turns[0].session)}\n\n"
    if left_out:
        said += f"({left_out:,} earlier turns are left out.)\n\n"
    text = said + "\n\n".join(_render_turn(turn) for turn in turns) + "\n"
    return _MARKDOWN, text if len(text) <= LONGEST_PAGE else f"{text[:LONGEST_PAGE]}\n\n… [cut]\n"


def _render_turn(turn: Turn) -> str:
    who = f"{turn.role} {_shorten_title(turn.speaker)}" if turn.speaker else turn.role
    calls = ", ".join(call.name for call in turn.tool_calls)
    text = escaping.strip_invisible(turn.content).strip() + (f"\n[calls {calls}]" if calls else "")
    quote_of = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return f"**{who}** ({turn.at:%Y-%m-%d %H:%M} UTC, {turn.id}):\n{quote_of}"


# -- what may stand in a template ------------------------------------------------------------------------


def complete_uri(offer: ServedMemory, template: str, begun: str) -> Iterable[str]:
    """Return values that complete a URI template, the likeliest first.

    Args:
        offer: What there is.
        template: The template.
        begun: What stands in it until now.
    """
    if template == PAGE + "{name}":
        return (name for name in offer.view.pages.names() if name.lower().startswith(begun.lower()))
    if template == RECORD + "{id}":
        records = offer.view.list(limit=MOST_LISTED)
        return (record.id for record in records if record.id.startswith(begun.lower()))
    if template == SESSION + "{id}":
        return complete_session_ids(offer, begun)
    return ()


def complete_session_ids(offer: ServedMemory, begun: str) -> Iterable[str]:
    """Return the ids of sessions with that prefix, the latest active first."""
    found = offer.view.sessions(limit=MOST_LISTED)
    return (each.state.id for each in found if each.state.id.lower().startswith(begun.lower()))
