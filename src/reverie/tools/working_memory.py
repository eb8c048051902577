"""Operations of tools over working memory, pages and logs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reverie.context import render
from reverie.context.retrieval import is_unconfirmed
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, NotFound, WorkingMemoryFull
from reverie.domain.page import MEMORY, is_log, validate_page_name
from reverie.domain.record import UNTRUSTED
from reverie.domain.secrets.redactor import redact_secrets
from reverie.domain.text import escaping
from reverie.repositories.pages import Pages
from reverie.repositories.working_memory import WorkingMemory
from reverie.tools import rendering
from reverie.tools.records import MemoryOperations, describe_change
from reverie.tools.toolset import ToolResult

_HITS = 10
_KEYS_NAMED = 10


@dataclass(frozen=True, slots=True)
class EntryOperations:
    """Operations over entries of working memory, each from the arguments of a tool to its result.

    Attributes:
        working: Where the entries are.
        now: Returns the current time.
        ttl: How long an entry is kept by default; None keeps it.
        reading: Name of the tool that reads an entry.
        listing: Name of the tool that lists the keys.
    """

    working: WorkingMemory
    now: Callable[[], datetime]
    ttl: str | None
    reading: str
    listing: str

    def write(self, given: Mapping[str, Any]) -> ToolResult:
        """Store a text under a key."""
        minutes = given.get("ttl_minutes")
        try:
            entry = self.working.set(
                given["key"],
                given["text"],
                ttl=self.ttl if minutes is None else timedelta(minutes=minutes),
                category=given.get("category"),
                tags=given.get("tags", ()),
            )
        except WorkingMemoryFull as error:
            return ToolResult(f"{str(error)[0].upper()}{str(error)[1:]}.", failed=True)
        return ToolResult(f"Stored under {entry.key}, {_format_lifetime(entry, self.now())}.")

    def read(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the text under a key."""
        entry, now = self._get_entry(given), self.now()
        key = escaping.escape_line(entry.key)
        text, more = rendering.cut_part(
            entry.data, given.get("part"), how=f"Call {self.reading} with part {{}}"
        )
        lines = [f"{key} ({_format_lifetime(entry, now)}):", escaping.fence(text), *filter(None, [more])]
        return ToolResult("\n".join(lines), trusted=False)  # it has no origin, and often is what a tool said

    def find(self, given: Mapping[str, Any]) -> ToolResult:
        """Search entries by their words."""
        hits = self.working.search(**{"limit": _HITS, **given, "query": given["query"] or None})
        now = self.now()
        lines = [
            f"Found {_count_entries(hits)}:"
            if hits
            else f"Found nothing among {_count_entries(self.working.list())}.",
            *(rendering.render_entry_hit(hit, now) for hit in hits),
        ]
        return ToolResult("\n".join(lines), trusted=not hits)

    def list(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the keys, with sizes and expiries."""
        prefix, now = given.get("prefix") or "", self.now()
        found = self.working.list(prefix)
        if not found:
            nothing = f"no key under {render.render_label(prefix)}" if prefix else "nothing"
            return ToolResult(f"There is {nothing}.")
        lines = [f"{_count_entries(found)}:", *(rendering.render_entry(entry, now) for entry in found)]
        return ToolResult("\n".join(lines))

    def drop(self, given: Mapping[str, Any]) -> ToolResult:
        """Remove the entry under a key."""
        entry = self._get_entry(given)
        self.working.delete(entry.key)
        start = render.quote_text(entry.data, id=entry.key, longest=120)
        message = f'Dropped {escaping.escape_line(entry.key)}: "{start}".'
        return ToolResult(message, trusted=False)

    def _get_entry(self, given: Mapping[str, Any]) -> Entry:
        key = given["key"]
        entry = self.working.entry(key) or self.working.entry(key.strip())
        if entry is not None:
            return entry
        keys = [render.render_label(each.key) for each in self.working.list()]
        more = f" and {len(keys) - _KEYS_NAMED} more" if len(keys) > _KEYS_NAMED else ""
        there = f"there are {', '.join(keys[:_KEYS_NAMED])}{more}" if keys else "there are none"
        raise NotFound(
            f"no entry {render.render_label(key)}, or it has expired; {there}; {self.listing} lists them"
        )


def _format_lifetime(entry: Entry, now: datetime) -> str:
    remaining = entry.get_remaining_time(now)
    if remaining is None:
        return "kept until it is dropped"
    return f"expires in {render.format_countdown(remaining)}"


def _count_entries(entries: Sized) -> str:
    return rendering.format_count(len(entries), "entry", "entries")


# -- pages ----------------------------------------------------------------------------------------


_MAX_COMPARED_CHARS = 500
_MAX_COMPARED_LINES = 1_000
_MAX_ROWS = 20
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class PageOperations:
    """Operations over pages and logs, each from the arguments of a tool to its result."""

    records: MemoryOperations

    def edit(self, given: Mapping[str, Any]) -> ToolResult:
        """Replace a piece of a page or of a record, or add a line to a page."""
        if not given.get("id"):
            name = given.get("page") or MEMORY
            return self._edit_page(name, given.get("old") or "", given["new"])
        if given.get("page"):
            raise InvalidInput("pass id for a record or page for a page, not both")
        if not given.get("old"):
            raise InvalidInput("old is missing: pass the piece of the memory that new takes the place of")
        old, new = given["old"], given["new"]
        before, after = self.records.update_record(
            given, lambda record: {"content": replace_once(record.content, old, new, where=record.id)}
        )
        told = describe_change("Edited", before, after, self.records.now())
        return ToolResult(told, trusted=after.origin not in UNTRUSTED)

    def read_page(self, given: Mapping[str, Any]) -> ToolResult:
        """Return the text of a page."""
        pages, name = self.records.memory.pages, validate_page_name(given.get("page") or MEMORY)
        names = pages.names()
        if name not in names:
            if name == MEMORY:
                return ToolResult(f"{MEMORY} is empty.")
            raise NotFound(f"no page {name}; there are: {', '.join(names) or 'none'}")
        text = pages.read(name)
        part, more = rendering.cut_part(text, given.get("part"), how="Call read_page with part {}")
        size = rendering.format_count(len(text), "character")
        message = "\n".join([f"{name} ({size}):", escaping.fence(part), *filter(None, [more])])
        return ToolResult(message, trusted=is_page_trusted(pages, name))

    def _edit_page(self, name: str, old: str, new: str) -> ToolResult:
        pages = self.records.memory.pages
        if is_log(validate_page_name(name)):
            raise InvalidInput(f"{name} only grows and cannot be edited; edit {MEMORY} or a memory by its id")
        text = pages.read(name)
        if not old:
            if not new.strip():
                raise InvalidInput("new is empty: pass the line to be added")
            self.records.guard.check_page(name, new)
            pages.append(name, new)
            new = _to_stored_text(pages, name, new)
            return ToolResult(f"Added to {name}: {render.quote_text(new, id=name)}")
        if name not in pages.names():
            raise NotFound(f"no page {name}; leave old out to begin it")
        old, new = escaping.to_stored_edit(text, old, new)
        edited = replace_once(text, old, new, where=name)
        self.records.guard.check_page(name, new)
        written = pages.write(name, edited, expected=text, origin="agent")
        new = _to_stored_text(pages, name, new)
        if written.proposed:
            return ToolResult(
                f"{written.proposed} memories would change, which the owner has to confirm: nothing is changed yet."
            )
        if pages.read(name) == text:
            return ToolResult(f"Nothing changed: {name} says so already.")
        return ToolResult(
            f"Edited {name}: {render.quote_text(old, id=name, longest=_LONGEST_SHOWN)} is now "
            f"{render.quote_text(new, id=name, longest=_LONGEST_SHOWN) or 'gone'}"
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
    like = escaping.escape_line(find_similar_lines(text, old))
    shown = f'similar there is: "{like}"' if like else f"read {where} and pass a piece of it"
    raise InvalidInput(f"the text to be replaced is not in {where}; {shown}")


def find_similar_lines(text: str, piece: str) -> str:
    """Return the lines of a text that are most similar to a piece that is not in it; empty when none are."""
    rows, height = text.split("\n"), min(piece.count("\n") + 1, _MAX_ROWS)
    starts = range(max(1, min(len(rows), _MAX_COMPARED_LINES) - height + 1))
    candidates = ["\n".join(rows[start : start + height])[:_MAX_COMPARED_CHARS] for start in starts]
    return next(iter(difflib.get_close_matches(piece[:_MAX_COMPARED_CHARS], candidates, n=1)), "")


def is_page_trusted(pages: Pages, name: str) -> bool:
    """Return whether no paragraph of a page is of a tool, the web or an import; pages of people are trusted."""
    return not is_log(name) or not any(
        each.origin in UNTRUSTED or is_unconfirmed(each.content) for each in pages.paragraphs(name)
    )
