"""Tools over working memory and over the scratchpad.

Entries of a session's working memory expire; the scratchpad outlives sessions and keeps its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reverie.context import render
from reverie.domain import entry
from reverie.domain.entry import Entry
from reverie.domain.errors import NotFound, WorkingMemoryFull
from reverie.domain.text import escaping
from reverie.domain.text.timestamps import utc_now
from reverie.llm.messages import ToolSpec
from reverie.repositories.working_memory import DEFAULT, WorkingMemory
from reverie.tools import rendering, schemas
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10
_LONGEST_TTL_MINUTES = 525_600
_KEYS_NAMED = 10


def build_working_tools(working: WorkingMemory, *, now: Callable[[], datetime] = utc_now) -> Toolset:
    """Return RockBot's tools of working memory, and one that deletes an entry."""
    return _build_tools(working, _WORKING, text="data", ttl=DEFAULT, now=now)


def build_scratchpad_tools(scratchpad: WorkingMemory, *, now: Callable[[], datetime]) -> Toolset:
    """Return agentkit's tools of a key-value store: read, write, list by prefix, search, delete."""
    write, read, search, listing, delete = _SCRATCHPAD
    tools = _build_tools(scratchpad, _SCRATCHPAD, text="text", ttl=None, now=now)
    return tools.only(read.name, write.name, listing.name, search.name, delete.name)


def _build_tools(
    working: WorkingMemory, specs: Sequence[ToolSpec], *, text: str, ttl: Any, now: Callable[[], datetime]
) -> Toolset:
    """Return the tools that write, read, search, list and delete entries.

    Args:
        specs: Their descriptions, in that order.
        text: The argument with the text of an entry.
        ttl: How long an entry is kept by default.
    """
    write, read, search, listing, delete = specs

    def store(given: Mapping[str, Any]) -> ToolResult:
        minutes = given.get("ttl_minutes")
        kept = ttl if minutes is None else timedelta(minutes=minutes)
        return _store_entry(working, given, data=text, ttl=kept, now=now)

    def build_reader(spec: ToolSpec, run: Callable[..., ToolResult]) -> Tool:
        return Tool(spec=spec, run=partial(run, working, now=now), reads_only=True, idempotent=True)

    drop = partial(_drop_entry, working, listing=listing.name)
    return Toolset(
        [
            Tool(spec=write, run=store, idempotent=True),
            build_reader(read, partial(_read, listing=listing.name)),
            build_reader(search, _search_entries),
            build_reader(listing, _list_entries),
            Tool(spec=delete, run=drop, destructive=True, idempotent=True),
        ]
    )


# -- what they do ------------------------------------------------------------------------------------------


def _store_entry(
    working: WorkingMemory, given: Mapping[str, Any], *, data: str, ttl: Any, now: Callable[[], datetime]
) -> ToolResult:
    try:
        entry = working.set(
            given["key"], given[data], ttl=ttl, category=given.get("category"), tags=given.get("tags", ())
        )
    except WorkingMemoryFull as error:
        return ToolResult(f"{str(error)[0].upper()}{str(error)[1:]}.", failed=True)
    return ToolResult(
        f"Stored under {entry.key}, {_format_lifetime(entry, now())}.",
        {"entry": rendering.build_entry_data(entry, now())},
    )


def _read(
    working: WorkingMemory, given: Mapping[str, Any], *, listing: str, now: Callable[[], datetime]
) -> ToolResult:
    entry = _get_entry(working, given, listing)
    return ToolResult(
        f"{escaping.escape_line(entry.key)} ({_format_lifetime(entry, now())}):\n{escaping.fence(entry.data)}",
        {"entry": rendering.build_entry_data(entry, now()), "text": escaping.strip_invisible(entry.data)},
        trusted=False,  # an entry has no origin, and often is what a tool said
    )


def _search_entries(
    working: WorkingMemory, given: Mapping[str, Any], *, now: Callable[[], datetime]
) -> ToolResult:
    hits = working.search(**{"limit": _HITS, **given, "query": given["query"] or None})
    at = now()
    data = {
        "hits": [{**rendering.build_entry_data(hit.entry, at), "score": round(hit.score, 4)} for hit in hits]
    }
    if not hits:
        return ToolResult(
            f"Found nothing among {rendering.format_count(len(working.list()), 'entry', 'entries')}.", data
        )
    found = rendering.format_count(len(hits), "entry", "entries")
    return ToolResult(
        "\n".join([f"Found {found}:", *(rendering.render_entry_hit(hit, at) for hit in hits)]),
        data,
        trusted=False,
    )


def _list_entries(
    working: WorkingMemory, given: Mapping[str, Any], *, now: Callable[[], datetime]
) -> ToolResult:
    prefix = given.get("prefix") or ""
    found = working.list(prefix)
    at = now()
    data = {"entries": [rendering.build_entry_data(entry, at) for entry in found]}
    if not found:
        return ToolResult(
            f"There is no key under {render.render_label(prefix)}." if prefix else "There is nothing.", data
        )
    number = rendering.format_count(len(found), "entry", "entries")
    return ToolResult(
        "\n".join([f"{number}:", *(rendering.render_entry(entry, at) for entry in found)]), data
    )


def _drop_entry(working: WorkingMemory, given: Mapping[str, Any], *, listing: str) -> ToolResult:
    entry = _get_entry(working, given, listing)
    working.delete(entry.key)
    start = render.quote_text(entry.data, id=entry.key, longest=120)
    message = f'Dropped {escaping.escape_line(entry.key)}: "{start}".'
    return ToolResult(message, {"key": entry.key}, trusted=False)


def _get_entry(working: WorkingMemory, given: Mapping[str, Any], listing: str) -> Entry:
    key = given["key"]
    entry = working.entry(key) or working.entry(key.strip())
    if entry is None:
        keys = [render.render_label(each.key) for each in working.list()]
        shown = ", ".join(keys[:_KEYS_NAMED])
        more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
        there = f"there are {shown}{more}" if keys else "there are none"
        raise NotFound(
            f"there is no entry {render.render_label(key)}, or it has expired; {there}; {listing} lists them"
        )
    return entry


def _format_lifetime(entry: Entry, now: datetime) -> str:
    remaining = entry.get_remaining_time(now)
    return (
        "kept until it is dropped"
        if remaining is None
        else f"expires in {render.format_countdown(remaining)}"
    )


# -- schemas -----------------------------------------------------------------------------------------------


_KEY = schemas.build_text_schema("A short name, such as page-1 or mail/draft.", longest=entry.LONGEST_KEY)
_TTL: schemas.Schema = {
    "type": "number",
    "minimum": 0.01,
    "maximum": _LONGEST_TTL_MINUTES,
    "description": "After how many minutes it goes by itself.",
}
_DATA = schemas.build_text_schema("The text to keep.", longest=entry.LONGEST_DATA, empty=True)
_ASKED: schemas.Schema = {
    **schemas.QUERY,
    "description": "Words of the key, the text, the tags or the category.",
}

_LIFE = {"ttl_minutes": _TTL, "category": schemas.CATEGORY, "tags": schemas.TAGS}
_BY_KEY = schemas.build_parameters(["key"], key=_KEY)
_BY_WORDS = schemas.build_parameters(
    ["query"],
    query=_ASKED,
    category=schemas.IN_CATEGORY,
    tags=schemas.WITH_TAGS,
    limit=schemas.build_limit_schema(_HITS),
)
_PREFIX = schemas.build_text_schema(
    "Only keys that are this or go on from it after /, : or a dot.", longest=entry.LONGEST_KEY, empty=True
)

_WORKING = (
    ToolSpec(
        name="save_to_working_memory",
        description="Set a text aside under a key for this conversation, such as an intermediate result. It goes "
        "by itself after ttl_minutes, or else after a few. The same key again replaces it.",
        parameters=schemas.build_parameters(["key", "data"], key=_KEY, data=_DATA, **_LIFE),
    ),
    ToolSpec(
        name="get_from_working_memory",
        description="Get the whole text that was set aside under a key.",
        parameters=_BY_KEY,
    ),
    ToolSpec(
        name="search_working_memory",
        description="Find what was set aside in this conversation by its words.",
        parameters=_BY_WORDS,
    ),
    ToolSpec(
        name="list_working_memory",
        description="List the keys that were set aside in this conversation, with sizes and expiries, not the "
        "texts.",
        parameters=schemas.build_parameters(),
    ),
    ToolSpec(
        name="delete_from_working_memory",
        description="Drop what was set aside under a key, to make room.",
        parameters=_BY_KEY,
    ),
)
_SCRATCHPAD = (
    ToolSpec(
        name="scratchpad_write",
        description="Write a text under a key of the scratchpad, in place of what was there. It outlives this "
        "conversation; without ttl_minutes it is kept.",
        parameters=schemas.build_parameters(["key", "text"], key=_KEY, text=_DATA, **_LIFE),
    ),
    ToolSpec(
        name="scratchpad_read",
        description="Read the whole text under a key of the scratchpad, which outlives conversations.",
        parameters=_BY_KEY,
    ),
    ToolSpec(
        name="scratchpad_search",
        description="Find entries of the scratchpad by words of key or text.",
        parameters=_BY_WORDS,
    ),
    ToolSpec(
        name="scratchpad_list",
        description="List the keys of the scratchpad, with sizes and expiries, not the texts.",
        parameters=schemas.build_parameters(prefix=_PREFIX),
    ),
    ToolSpec(
        name="scratchpad_delete",
        description="Drop a key of the scratchpad, with its text.",
        parameters=_BY_KEY,
    ),
)
