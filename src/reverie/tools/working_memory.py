"""Tools on working memory, pages and logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reverie.context import render
from reverie.context.retrieval import is_unconfirmed
from reverie.domain import entry
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, NotFound, WorkingMemoryFull
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, validate_page_name
from reverie.domain.record import UNTRUSTED
from reverie.domain.secrets.redactor import redact_secrets
from reverie.domain.text import escaping
from reverie.domain.text.timestamps import utc_now
from reverie.llm.protocol import ToolSpec
from reverie.repositories.pages import Pages
from reverie.repositories.working_memory import DEFAULT, WorkingMemory
from reverie.tools import records, rendering
from reverie.tools.toolset import Tool, ToolResult, Toolset
from reverie.tools.trust_guard import MemoryLike

_HITS = 10
_LONGEST_TTL_MINUTES = 525_600
_KEYS_NAMED = 10


def build_working_tools(working: WorkingMemory, *, now: Callable[[], datetime] = utc_now) -> Toolset:
    """Return RockBot's tools of working memory, and one that deletes an entry."""
    return _EntryTools(
        working,
        now,
        text="data",
        ttl=DEFAULT,
        reading="get_from_working_memory",
        listing="list_working_memory",
    ).build(_WORKING)


def build_scratchpad_tools(scratchpad: WorkingMemory, *, now: Callable[[], datetime]) -> Toolset:
    """Return agentkit's tools of a key-value store: read, write, list by prefix, search, delete."""
    tools = _EntryTools(
        scratchpad, now, text="text", ttl=None, reading="scratchpad_read", listing="scratchpad_list"
    ).build(_SCRATCHPAD)
    return tools.only(*(f"scratchpad_{name}" for name in ("read", "write", "list", "search", "delete")))


@dataclass(frozen=True, slots=True)
class _EntryTools:
    """Tools over entries.

    Attributes:
        working: Where the entries are.
        now: Returns the current time.
        text: The argument with the text of an entry.
        ttl: How long an entry is kept by default.
        reading: Name of the tool that reads an entry.
        listing: Name of the tool that lists the keys.
    """

    working: WorkingMemory
    now: Callable[[], datetime]
    text: str
    ttl: Any
    reading: str
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
        text, more = rendering.cut_part(
            entry.data, given.get("part"), how=f"Call {self.reading} with part {{}}"
        )
        lines = [f"{key} ({_format_lifetime(entry, now)}):", escaping.fence(text), *filter(None, [more])]
        return ToolResult(
            "\n".join(lines),
            {"entry": rendering.build_entry_data(entry, now), "text": text},
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

_PREFIX = rendering.build_text_schema(
    "Only keys that are this or go on from it after /, : or a dot.", longest=entry.LONGEST_KEY, empty=True
)


def _build_specs(vocabulary: Mapping[str, str], *, text: str, **listing: rendering.Schema) -> list[ToolSpec]:
    """Return the tools that write, read, search, list and delete entries, by their names and descriptions.

    Args:
        vocabulary: Descriptions by name, in this order.
        text: The argument with the text of an entry.
        listing: Arguments of the tool that lists the keys.
    """
    life = {"ttl_minutes": _TTL, "category": rendering.CATEGORY, "tags": rendering.TAGS}
    parameters = (
        rendering.build_parameters(["key", text], **{"key": _KEY, text: _DATA, **life}),
        rendering.build_parameters(["key"], key=_KEY, part=rendering.PART),
        rendering.build_parameters(
            ["query"],
            query=_ASKED,
            category=rendering.IN_CATEGORY,
            tags=rendering.WITH_TAGS,
            limit=rendering.build_limit_schema(_HITS),
        ),
        rendering.build_parameters(**listing),
        rendering.build_parameters(["key"], key=_KEY),
    )
    return [
        ToolSpec(name=name, description=description, parameters=schema)
        for (name, description), schema in zip(vocabulary.items(), parameters, strict=True)
    ]


_WORKING = _build_specs(
    {
        "save_to_working_memory": "Set a text aside under a key for this conversation, such as an intermediate "
        "result. It goes by itself after ttl_minutes, or else after a few. The same key again replaces it.",
        "get_from_working_memory": "Get the whole text that was set aside under a key.",
        "search_working_memory": "Find what was set aside in this conversation by its words.",
        "list_working_memory": "List the keys that were set aside in this conversation, with sizes and expiries, "
        "not the texts.",
        "delete_from_working_memory": "Drop what was set aside under a key, to make room.",
    },
    text="data",
)
_SCRATCHPAD = _build_specs(
    {
        "scratchpad_write": "Write a text under a key of the scratchpad, in place of what was there. It outlives "
        "this conversation; without ttl_minutes it is kept.",
        "scratchpad_read": "Read the whole text under a key of the scratchpad, which outlives conversations.",
        "scratchpad_search": "Find entries of the scratchpad by words of key or text.",
        "scratchpad_list": "List the keys of the scratchpad, with sizes and expiries, not the texts.",
        "scratchpad_delete": "Drop a key of the scratchpad, with its text.",
    },
    text="text",
    prefix=_PREFIX,
)


# -- pages ----------------------------------------------------------------------------------------


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
    before, after = records.update_record(
        memory,
        given,
        lambda record: {"content": replace_once(record.content, old, new, where=record.id)},
    )
    return ToolResult(
        records.describe_change("Edited", before, after, now),
        {"edited": after.id, "text": rendering.cut_part(after.content, None, how="")[0]},
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
    old, new = escaping.to_stored_edit(text, old, new)
    replace_once(text, old, new, where=name)
    written = pages.replace(old, new, name=name, origin="agent")
    new = _to_stored_text(pages, name, new)
    if written.proposed:
        return ToolResult(
            f"{written.proposed} memories would change, which the owner has to confirm: nothing is changed yet.",
            {"edited": name, "text": ""},
        )
    if pages.read(name) == text:
        return ToolResult(f"Nothing changed: {name} says so already.", {"edited": name, "text": new})
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
    old, new = escaping.to_stored_edit(text, old, new)
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
    part, more = rendering.cut_part(text, given.get("part"), how="Call read_page with part {}")
    size = rendering.format_count(len(text), "character")
    message = "\n".join([f"{name} ({size}):", escaping.fence(part), *filter(None, [more])])
    return ToolResult(message, {"page": name, "text": part}, trusted=is_page_trusted(pages, name))


def is_page_trusted(pages: Pages, name: str) -> bool:
    """Return whether no paragraph of a page is of a tool, the web or an import; pages of people are trusted."""
    return not is_log(name) or not any(
        each.origin in UNTRUSTED or is_unconfirmed(each.content) for each in pages.paragraphs(name)
    )


_NAME = rendering.build_text_schema("Which page; MEMORY.md if left out.", longest=200)
_OLD = rendering.build_text_schema(
    "The piece as it stands there, with enough around it to be the only one.", longest=LONGEST_PAGE
)
_NEW = rendering.build_text_schema(
    "What to put in its place; empty takes it out.", longest=LONGEST_PAGE, empty=True
)
_EDIT = rendering.build_spec(
    "edit_memory",
    "Replace a piece of text that stands exactly once in MEMORY.md, in another page, or in the "
    "memory of an id. Without old, new is added as a line at the end of the page.",
    ["new"],
    old=_OLD,
    new=_NEW,
    id=rendering.build_text_schema("Edit this memory, by the id that search_memory shows.", longest=200),
    page=_NAME,
)
_READ = rendering.build_spec(
    "read_page",
    "Read MEMORY.md, HISTORY.md, a daily note such as 2025-01-31.md, or another page.",
    page=_NAME,
    part=rendering.PART,
)
