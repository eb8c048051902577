"""Tools over working memory and over the scratchpad.

Entries of a session's working memory expire; the scratchpad outlives sessions and keeps its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reverie.context import render
from reverie.domain import entry
from reverie.domain.entry import Entry
from reverie.domain.errors import NotFound, WorkingMemoryFull
from reverie.domain.text import escaping
from reverie.domain.text.timestamps import utc_now
from reverie.llm.messages import ToolSpec
from reverie.repositories.working_memory import DEFAULT, WorkingMemory
from reverie.tools import rendering
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10
_LONGEST_TTL_MINUTES = 525_600
_KEYS_NAMED = 10


def build_working_tools(working: WorkingMemory, *, now: Callable[[], datetime] = utc_now) -> Toolset:
    """Return RockBot's tools of working memory, and one that deletes an entry."""
    return _EntryTools(working, now, text="data", ttl=DEFAULT, listing="list_working_memory").build(_WORKING)


def build_scratchpad_tools(scratchpad: WorkingMemory, *, now: Callable[[], datetime]) -> Toolset:
    """Return agentkit's tools of a key-value store: read, write, list by prefix, search, delete."""
    tools = _EntryTools(scratchpad, now, text="text", ttl=None, listing="scratchpad_list").build(_SCRATCHPAD)
    return tools.only(*(f"scratchpad_{name}" for name in ("read", "write", "list", "search", "delete")))


@dataclass(frozen=True, slots=True)
class _EntryTools:
    """Tools over entries.

    Attributes:
        working: Where the entries are.
        now: Returns the current time.
        text: The argument with the text of an entry.
        ttl: How long an entry is kept by default.
        listing: Name of the tool that lists the keys.
    """

    working: WorkingMemory
    now: Callable[[], datetime]
    text: str
    ttl: Any
    listing: str

    def build(self, specs: Sequence[ToolSpec]) -> Toolset:
        """Return the tools that write, read, search, list and delete entries, described in that order."""
        write, read, search, listing, delete = specs
        return Toolset(
            [
                Tool(spec=write, run=self._write, idempotent=True),
                Tool(spec=read, run=self._read, reads_only=True, idempotent=True),
                Tool(spec=search, run=self._search, reads_only=True, idempotent=True),
                Tool(spec=listing, run=self._list, reads_only=True, idempotent=True),
                Tool(spec=delete, run=self._delete, destructive=True, idempotent=True),
            ]
        )

    def _write(self, given: Mapping[str, Any]) -> ToolResult:
        minutes = given.get("ttl_minutes")
        try:
            entry = self.working.set(
                given["key"],
                given[self.text],
                ttl=self.ttl if minutes is None else timedelta(minutes=minutes),
                category=given.get("category"),
                tags=given.get("tags", ()),
            )
        except WorkingMemoryFull as error:
            return ToolResult(f"{str(error)[0].upper()}{str(error)[1:]}.", failed=True)
        return ToolResult(
            f"Stored under {entry.key}, {_format_lifetime(entry, self.now())}.",
            {"entry": rendering.build_entry_data(entry, self.now())},
        )

    def _read(self, given: Mapping[str, Any]) -> ToolResult:
        entry, now = self._get_entry(given), self.now()
        key = escaping.escape_line(entry.key)
        return ToolResult(
            f"{key} ({_format_lifetime(entry, now)}):\n{escaping.fence(entry.data)}",
            {"entry": rendering.build_entry_data(entry, now), "text": escaping.strip_invisible(entry.data)},
            trusted=False,  # an entry has no origin, and often is what a tool said
        )

    def _search(self, given: Mapping[str, Any]) -> ToolResult:
        hits = self.working.search(**{"limit": _HITS, **given, "query": given["query"] or None})
        now = self.now()
        data = {
            "hits": [
                {**rendering.build_entry_data(hit.entry, now), "score": round(hit.score, 4)} for hit in hits
            ]
        }
        if not hits:
            number = rendering.format_count(len(self.working.list()), "entry", "entries")
            return ToolResult(f"Found nothing among {number}.", data)
        found = rendering.format_count(len(hits), "entry", "entries")
        lines = [f"Found {found}:", *(rendering.render_entry_hit(hit, now) for hit in hits)]
        return ToolResult("\n".join(lines), data, trusted=False)

    def _list(self, given: Mapping[str, Any]) -> ToolResult:
        prefix, now = given.get("prefix") or "", self.now()
        found = self.working.list(prefix)
        data = {"entries": [rendering.build_entry_data(entry, now) for entry in found]}
        if not found:
            nothing = f"no key under {render.render_label(prefix)}" if prefix else "nothing"
            return ToolResult(f"There is {nothing}.", data)
        number = rendering.format_count(len(found), "entry", "entries")
        lines = [f"{number}:", *(rendering.render_entry(entry, now) for entry in found)]
        return ToolResult("\n".join(lines), data)

    def _delete(self, given: Mapping[str, Any]) -> ToolResult:
        entry = self._get_entry(given)
        self.working.delete(entry.key)
        start = render.quote_text(entry.data, id=entry.key, longest=120)
        message = f'Dropped {escaping.escape_line(entry.key)}: "{start}".'
        return ToolResult(message, {"key": entry.key}, trusted=False)

    def _get_entry(self, given: Mapping[str, Any]) -> Entry:
        key = given["key"]
        entry = self.working.entry(key) or self.working.entry(key.strip())
        if entry is not None:
            return entry
        keys = [render.render_label(each.key) for each in self.working.list()]
        shown = ", ".join(keys[:_KEYS_NAMED])
        more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
        there = f"there are {shown}{more}" if keys else "there are none"
        raise NotFound(
            f"there is no entry {render.render_label(key)}, or it has expired; {there}; {self.listing} lists them"
        )


def _format_lifetime(entry: Entry, now: datetime) -> str:
    remaining = entry.get_remaining_time(now)
    return (
        "kept until it is dropped"
        if remaining is None
        else f"expires in {render.format_countdown(remaining)}"
    )


# -- schemas -----------------------------------------------------------------------------------------------


_KEY = rendering.build_text_schema("A short name, such as page-1 or mail/draft.", longest=entry.LONGEST_KEY)
_TTL: rendering.Schema = {
    "type": "number",
    "minimum": 0.01,
    "maximum": _LONGEST_TTL_MINUTES,
    "description": "After how many minutes it goes by itself.",
}
_DATA = rendering.build_text_schema("The text to keep.", longest=entry.LONGEST_DATA, empty=True)
_ASKED: rendering.Schema = {
    **rendering.QUERY,
    "description": "Words of the key, the text, the tags or the category.",
}

_LIFE = {"ttl_minutes": _TTL, "category": rendering.CATEGORY, "tags": rendering.TAGS}
_BY_KEY = rendering.build_parameters(["key"], key=_KEY)
_BY_WORDS = rendering.build_parameters(
    ["query"],
    query=_ASKED,
    category=rendering.IN_CATEGORY,
    tags=rendering.WITH_TAGS,
    limit=rendering.build_limit_schema(_HITS),
)
_PREFIX = rendering.build_text_schema(
    "Only keys that are this or go on from it after /, : or a dot.", longest=entry.LONGEST_KEY, empty=True
)

_WORKING = (
    ToolSpec(
        name="save_to_working_memory",
        description="Set a text aside under a key for this conversation, such as an intermediate result. It goes "
        "by itself after ttl_minutes, or else after a few. The same key again replaces it.",
        parameters=rendering.build_parameters(["key", "data"], key=_KEY, data=_DATA, **_LIFE),
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
        parameters=rendering.build_parameters(),
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
        parameters=rendering.build_parameters(["key", "text"], key=_KEY, text=_DATA, **_LIFE),
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
        parameters=rendering.build_parameters(prefix=_PREFIX),
    ),
    ToolSpec(
        name="scratchpad_delete",
        description="Drop a key of the scratchpad, with its text.",
        parameters=_BY_KEY,
    ),
)
