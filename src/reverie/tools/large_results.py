"""Replace a result that is too long for a prompt by an index of pieces in working memory.

`split_text` splits a text at headings, else at blank lines, else at lines, words or by size; the pieces together are
the text, to the character. `LargeResultStore` puts them into working memory. `with_chunking` wraps a toolset, a tool
or any function that returns text. Reading a piece never splits it again.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Sequence
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

_log = logging.getLogger("reverie")

_BOUNDARIES = [
    *(defer_regex(rf"\n(?=#{{{level}}}[ \t])") for level in range(1, 7)),
    *map(defer_regex, (r"\n[^\S\n]*\n+", r"\n", r" ")),
]
"""What a text is split after, the best boundary first."""

_HEADING_CHARS = 7  # that tell the level of a heading


def split_text(text: str, longest: int) -> list[str]:
    """Return the text in pieces of at most `longest` characters, in order, each but the last at least half full."""
    pieces, start = [], 0
    while len(text) - start > longest:
        end = _find_boundary(text, start, start + longest)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _find_boundary(text: str, start: int, furthest: int) -> int:
    """Return the last position of the best boundary in the second half of a stretch; without one, its end."""
    least = start + max(1, (furthest - start) // 2)
    for boundary in _BOUNDARIES:
        found = boundary.finditer(text, start, furthest + _HEADING_CHARS)
        if ends := [each.end() for each in found if least <= each.end() <= furthest]:
            return ends[-1]
    return furthest


MOST_TOKENS = 5_000
"""Estimated tokens up to which a result is left as it is."""

TTL = "30m"
"""Time for which pieces are kept."""

NEEDED = ("get_from_working_memory", "search_working_memory", "delete_from_working_memory")
"""Tools with which a model reads, finds and deletes pieces."""

_CATEGORY = "tool-results"
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
        if name == self._get or validation.estimate_tokens(result.text) <= self._most_tokens:
            return result
        stored = self._store(self._working.sanitize(result.text)[:LONGEST_DATA], name)
        return replace(stored, failed=result.failed, trusted=result.trusted)

    # -- inside ------------------------------------------------------------------------------------------

    def _store(self, text: str, name: str) -> ToolResult:
        """Put the result of a tool into working memory, and return the index."""
        name = _UNNAMEABLE.sub("-", name)[:_LONGEST_NAME] or "tool"
        prefix = f"{name}/{hashlib.sha256(text.encode()).hexdigest()[:_HASH]}"
        cut = split_text(text, self._most_tokens * 4)
        pieces = [_Piece(f"{prefix}/{n}-of-{len(cut)}", each) for n, each in enumerate(cut, start=1)]
        size = rendering.format_count(len(text), "character")
        what = f"The answer of {name} has {size}, too many to show"
        try:
            stored = self._store_pieces(pieces)
        except StoreError as error:
            _log.warning("an answer could not be set aside in working memory, and is cut: %s", error)
            what += ", and working memory cannot be written now"
            stored = []
        else:
            if not stored:
                what += f", and working memory is full: drop what you do not need with {self._drop}, then call it again"
        if not stored:
            shown = escaping.fence(text[: self._most_tokens * 4])
            return ToolResult(f"{what}. It begins:\n{shown}")
        return self._format_index(what, stored)

    def _store_pieces(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Store pieces, and return them; the last one for which there is room gets all the rest."""
        stored: list[_Piece] = []
        for number, piece in enumerate(pieces):
            try:
                self._set(piece)
            except WorkingMemoryFull:
                if stored:
                    rest = "".join(each.text for each in pieces[number - 1 :])
                    stored[-1] = _Piece(stored[-1].key, rest)
                    self._set(stored[-1])
                break
            stored.append(piece)
        return stored

    def _set(self, piece: _Piece) -> None:
        self._working.set(piece.key, piece.text, ttl=self._ttl, category=_CATEGORY)

    def _format_index(self, what: str, stored: Sequence[_Piece]) -> ToolResult:
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
        return ToolResult("\n".join(lines))


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
    sizes and first words. Where there is no room for all, the last piece has all the rest. Secrets are redacted.

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
        return (
            results.shorten_result(ToolResult(answer), name=name).text if isinstance(answer, str) else answer
        )

    @functools.wraps(wrapped)
    def run(*args: Any, **given: Any) -> Any:
        return shorten(wrapped(*args, **given))

    @functools.wraps(wrapped)
    async def run_async(*args: Any, **given: Any) -> Any:
        import asyncio  # here: few are awaited

        return await asyncio.to_thread(shorten, await wrapped(*args, **given))

    return run_async if inspect.iscoroutinefunction(wrapped) else run


def extract_beginning(text: str) -> str:
    """Return the first heading of a piece, or its first line with words."""
    rows = text[:10_000].split("\n")
    heading = next((row for row in rows if re.match(r"#{1,6} +\S", row)), "")
    first = heading or next((row for row in rows if row.strip()), "")
    return render.render_label(first)
