"""Replace a result that is too long for a prompt by an index of pieces in working memory.

`split_text` splits a text at headings, else at blank lines, else by size; the pieces together are the text, to the
character. `LargeResultStore` puts them into working memory. `with_chunking` wraps a toolset, a tool or any function
that returns text. Reading a piece never splits it again.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar, cast

from reverie.context import render
from reverie.domain.entry import LONGEST_DATA
from reverie.domain.errors import InvalidInput, StoreError, WorkingMemoryFull
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text import escaping, validation
from reverie.repositories.working_memory import WorkingMemory
from reverie.tools import rendering
from reverie.tools.registry import build_entry_tools
from reverie.tools.toolset import Tool, ToolResult, Toolset, escape_results

_HEADING = defer_regex(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = defer_regex(r" {0,3}(`{3,}|~{3,})")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}
_LEAST_FULL = 2  # a piece is at least half full, unless that would split a block of code
_LOOKBACK = 64  # characters that are searched backwards for a boundary between letters


_Place = tuple[int, int]
"""A position at which a text may be split, and its rank: 0 to 5 before a heading of that level, or a larger one."""

_BLANK = 6  # after a blank line
_LINE = 7  # at the end of a line outside of code blocks
_INSIDE = 8  # at the end of a line in a code block


def split_text(text: str, longest: int) -> list[str]:
    """Return the text in pieces of at most `longest` characters, in order."""
    places = _find_cut_places(text)
    cut = []
    start = 0
    while len(text) - start > longest:
        end = _find_cut(text, places, start, start + longest)
        cut.append(text[start:end])
        start = end
    if text[start:] or not cut:
        cut.append(text[start:])
    return cut


def _find_cut(text: str, places: Sequence[_Place], start: int, furthest: int) -> int:
    """Return the end of the piece that begins at `start`, at most `furthest`."""
    least = start + max(1, (furthest - start) // _LEAST_FULL)
    window = places[bisect_left(places, (start + 1, 0)) : bisect_left(places, (furthest + 1, 0))]
    best = min((place for place in window if place[0] >= least), key=lambda it: (it[1], -it[0]), default=None)
    if best is not None:
        outside = [at for at, rank in window if rank < _INSIDE] if best[1] == _INSIDE else []
        return outside[-1] if outside else best[0]  # a code block is not torn if it can begin a piece
    space = max(text.rfind(" ", least, furthest), text.rfind("\n", least, furthest))
    return space + 1 if space >= 0 else _find_letter_boundary(text, start, furthest)


def _find_letter_boundary(text: str, start: int, furthest: int) -> int:
    """Return the last place that splits neither a letter from its accents nor a line end."""
    for at in range(furthest, max(start, furthest - _LOOKBACK), -1):
        following, before = text[at], text[at - 1]
        if unicodedata.combining(following) or following in _JOINERS or before == "\u200d":
            continue
        if (before, following) != ("\r", "\n"):
            return at
    return furthest


def _find_cut_places(text: str) -> list[_Place]:
    """Return each position at which the text may be split, ascending."""
    places = []
    rows = [found.span() for found in re.finditer(r"[^\n]*\n|[^\n]+", text)]
    fences = _find_fences(text, rows)
    inside_until = 0
    is_after_blank = False
    for start, end in rows:
        inside_until = fences.get(start, inside_until)
        is_inside = start < inside_until and start not in fences
        row = text[start : min(end, start + 80)]
        heading = _HEADING.match(row)
        if is_inside:
            rank = _INSIDE
        elif heading:
            rank = len(heading[1]) - 1
        else:
            rank = _BLANK if is_after_blank and row.strip() else _LINE
        if start:
            places.append((start, rank))
        is_after_blank = not is_inside and not text[start:end].strip()
    return places


def _find_fences(text: str, rows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the beginning and the end of each code block. A block that is never closed is none."""
    found: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for start, end in rows:
        fence = _FENCE.match(text, start, min(end, start + 200))
        if fence is None:
            continue
        if opened is None:
            opened = (start, fence[1])
        elif fence[1].startswith(opened[1]) and not text[fence.end() : end].strip():
            found[opened[0]] = end
            opened = None
    return found


_log = logging.getLogger("reverie")

MOST_TOKENS = 5_000
"""Estimated tokens up to which a result is left as it is."""

TTL = "30m"
"""Time for which pieces are kept."""

NEEDED = ("get_from_working_memory", "search_working_memory", "delete_from_working_memory")
"""Tools with which a model reads, finds and deletes pieces."""

PIECE = "chunk"
"""Tag of a piece. Reading an entry with it returns all of its text."""

_CATEGORY = "tool-results"
_REST = "rest"
_LEAST_TOKENS = 50
_LONGEST_NAME = 60
_HASH = 8
_UNNAMEABLE = defer_regex(r"[^\w.-]+", re.ASCII)

_Wrapped = TypeVar("_Wrapped", bound=Toolset | Tool | Callable[..., Any])


class _Piece(NamedTuple):
    """Piece of a text, with its key in working memory."""

    key: str
    text: str


class LargeResultStore:
    """Store of long texts in working memory. Safe to use from several threads."""

    def __init__(
        self,
        working: WorkingMemory,
        *,
        most_tokens: int = MOST_TOKENS,
        ttl: str | float | timedelta | None = TTL,
        prefix: str = "",
    ) -> None:
        """Create a store.

        Args:
            most_tokens: Estimated tokens up to which a text is left as it is, and of a piece; 50 or more.
            ttl: How long pieces are kept; None until they are deleted.
            prefix: Prefix of the names of the tools of working memory.

        Raises:
            InvalidInput: `most_tokens` is not a whole number from 50.
        """
        self._working = working
        self._most_tokens = validation.validate_count(most_tokens, name="most_tokens", least=_LEAST_TOKENS)
        self._ttl = ttl
        self._get, self._search, self._drop = (prefix + name for name in NEEDED)

    def shorten_result(self, result: ToolResult, *, name: str) -> ToolResult:
        """Return the result of a tool, or the index of its pieces.

        Args:
            name: Name of the tool.
        """
        if validation.estimate_tokens(result.text) <= self._most_tokens:
            return result
        entry = (result.data or {}).get("entry")
        if isinstance(entry, Mapping) and entry.get("category") == _CATEGORY:
            if PIECE in entry.get("tags", ()):
                return result
            if (rest := self._working.entry(str(entry.get("key")))) is not None:
                return self._store(rest.data, rest.key.partition("/")[0], rest=rest.key)
        text = self._working.sanitize(result.text)
        stored = self._store(text, _UNNAMEABLE.sub("-", name)[:_LONGEST_NAME] or "tool")
        return replace(stored, failed=result.failed, trusted=result.trusted)

    # -- inside ------------------------------------------------------------------------------------------

    def _store(self, text: str, name: str, *, rest: str = "") -> ToolResult:
        """Put a text into working memory, and return the index.

        Args:
            name: Prefix of the keys.
            rest: Key under which the text stands already, as the rest of a longer one.
        """
        prefix = f"{name}/{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}"
        cut = split_text(text, self._most_tokens * 4)
        wanted = [_Piece(key=f"{prefix}/{n}-of-{len(cut)}", text=each) for n, each in enumerate(cut, start=1)]
        size = rendering.format_count(len(text), "character")
        what = f"{rest or f'The answer of {name}'} has {size}, too many to show"
        try:
            stored = self._store_pieces(wanted, tagged=True)
            left = self._store_rest(wanted, stored, rest or f"{prefix}/{_REST}")
            if rest and not left and len(stored) == len(wanted):
                self._working.delete(rest)
        except StoreError as error:
            _log.warning("an answer could not be set aside in working memory, and is cut: %s", error)
            return self._format_beginning(text, f"{what}, and working memory cannot be written now")
        if not stored:
            full = f"{what}, and working memory is full: drop what you do not need with {self._drop}, then "
            return self._format_beginning(
                text, full + (f"call {self._get} with {rest} again" if rest else "call it again")
            )
        return self._format_result(what, stored, left)

    def _store_pieces(self, wanted: Sequence[_Piece], *, tagged: bool) -> list[_Piece]:
        """Store as many pieces as there is room for, from the first on."""
        stored = []
        for piece in wanted:
            try:
                self._working.set(
                    piece.key,
                    piece.text,
                    ttl=self._ttl,
                    category=_CATEGORY,
                    tags=(PIECE,) if tagged else (),
                )
            except WorkingMemoryFull:
                break
            stored.append(piece)
        return stored

    def _store_rest(self, wanted: Sequence[_Piece], stored: list[_Piece], key: str) -> list[_Piece]:
        """Store what is left in as few entries as possible; the last pieces make room for it."""
        while stored and len(stored) < len(wanted):
            rest = "".join(piece.text for piece in wanted[len(stored) :])
            parts = [rest[at : at + LONGEST_DATA] for at in range(0, len(rest), LONGEST_DATA)]
            more = [f"{key}-{n}-of-{len(parts)}" for n in range(2, len(parts) + 1)]
            left = [_Piece(key=name, text=part) for name, part in zip([key, *more], parts, strict=True)]
            there = self._store_pieces(left, tagged=False)
            if len(there) == len(left):
                return left
            for piece in [*there, stored.pop()]:
                self._working.delete(piece.key)
        return []

    def _format_result(self, what: str, stored: Sequence[_Piece], left: Sequence[_Piece]) -> ToolResult:
        pieces = rendering.format_count(len(stored), "piece")
        lines = [
            f"{what}. It was set aside in working memory in {pieces}: read one "
            f"with {self._get} by its key, or find the right one with {self._search}.",
            *(
                f"- {piece.key}, {rendering.format_count(len(piece.text), 'character')}: "
                f"{extract_beginning(piece.text)}"
                for piece in stored
            ),
        ]
        if left:
            size = rendering.format_count(sum(len(piece.text) for piece in left), "character")
            lines.append(
                f"Working memory is full, and {size} are left over. To go on, drop what you have read with "
                f"{self._drop}, then call {self._get} with {', '.join(piece.key for piece in left)}."
            )
        data = {
            "pieces": [{"key": piece.key, "characters": len(piece.text)} for piece in stored],
            "rest": [{"key": piece.key, "characters": len(piece.text)} for piece in left],
        }
        return ToolResult("\n".join(lines), data)

    def _format_beginning(self, text: str, what: str) -> ToolResult:
        shown = escaping.fence(text[: self._most_tokens * 4])
        return ToolResult(f"{what}. It begins:\n{shown}", {"pieces": [], "rest": []})


def add_working_tools(tools: Toolset, working: WorkingMemory) -> tuple[Toolset, str]:
    """Return the tools with those that read, find and delete pieces, and the prefix of their names."""
    reader = NEEDED[0]
    there = next((name for name in tools.names if name.endswith(reader)), None)
    if there is not None or not tools:
        return tools, (there or reader).removesuffix(reader)
    needed = build_entry_tools("working", working).only(*(name for name in NEEDED if name not in tools.names))
    return tools + escape_results(needed), ""


def with_chunking(
    wrapped: _Wrapped,
    working: WorkingMemory,
    *,
    most_tokens: int = MOST_TOKENS,
    ttl: str | float | timedelta | None = TTL,
) -> _Wrapped:
    """Return the same tools, tool or function, with results that are too long set aside in working memory.

    A long result is split at headings, else at blank lines, else by size. Its pieces get keys such as
    `fetch/1f3a9c02/1-of-7`, which are the same for the same text. The model gets an index of the keys with
    sizes and first words. Where there is no room for all, it gets what fits and is told how to go on. Secrets
    are redacted.

    Args:
        wrapped: Tools, a tool, or a function that returns text, also an asynchronous one. A toolset
            without tools to read, find and drop pieces gets them.
        working: Where pieces are stored, such as `session.working`.
        most_tokens: Estimated tokens up to which a result is left as it is, and of a piece; 50 or more.
        ttl: How long pieces are kept; None until they are dropped.

    Raises:
        InvalidInput: an argument is not of its form.
    """
    if isinstance(wrapped, Toolset):
        tools, prefix = add_working_tools(wrapped, working)
        results = LargeResultStore(working, most_tokens=most_tokens, ttl=ttl, prefix=prefix)
        return cast(_Wrapped, Toolset(_wrap_tool(tool, results) for tool in tools))
    results = LargeResultStore(working, most_tokens=most_tokens, ttl=ttl)
    if isinstance(wrapped, Tool):
        return cast(_Wrapped, _wrap_tool(wrapped, results))
    return cast(_Wrapped, _wrap_function(wrapped, results))


def _wrap_tool(tool: Tool, results: LargeResultStore) -> Tool:
    return replace(tool, run=lambda given: results.shorten_result(tool.run(given), name=tool.name))


def _wrap_function(wrapped: Callable[..., Any], results: LargeResultStore) -> Callable[..., Any]:
    if not callable(wrapped):
        raise InvalidInput(f"{wrapped!r} cannot be called: pass tools, a tool or a function")
    name = getattr(wrapped, "__name__", "tool")

    def shorten(answer: Any) -> Any:
        if not isinstance(answer, str):
            return answer
        return results.shorten_result(ToolResult(answer), name=name).text

    async def shorten_awaited(answer: Any) -> Any:
        import asyncio  # here: few are awaited

        return await asyncio.to_thread(shorten, await answer)

    if inspect.iscoroutinefunction(wrapped):

        @functools.wraps(wrapped)
        async def run_async(*args: Any, **given: Any) -> Any:
            return await shorten_awaited(wrapped(*args, **given))

        return run_async

    @functools.wraps(wrapped)
    def run(*args: Any, **given: Any) -> Any:
        answer = wrapped(*args, **given)
        return shorten_awaited(answer) if inspect.isawaitable(answer) else shorten(answer)

    return run


def extract_beginning(text: str) -> str:
    """Return the first heading of a piece, or its first line with words."""
    rows = text[:10_000].split("\n")
    heading = next((row for row in rows if re.match(r"#{1,6} +\S", row)), "")
    first = heading or next((row for row in rows if row.strip()), "")
    return render.render_label(first)
