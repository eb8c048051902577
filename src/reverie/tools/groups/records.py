"""Tools over long-term memory: save, search, read, delete, list the categories (RockBot).

`delete_memory` keeps its name there, and archives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from reverie.context import render
from reverie.domain.errors import NotFound
from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.secrets.redactor import has_redaction
from reverie.domain.text import escaping
from reverie.llm.messages import ToolSpec
from reverie.repositories.records import SaveResult
from reverie.search.hits import Hit
from reverie.tools import rendering, schemas
from reverie.tools.memory_protocol import MemoryLike
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10


def build_long_term_tools(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tools over records.

    Args:
        source: Source of the records that are saved.
    """

    def save(given: Mapping[str, Any]) -> ToolResult:
        saved = memory.save(**given, source=source, origin="agent", draft=True)
        return ToolResult(format_saved_result(saved, given["content"]), build_saved_data(saved))

    def search(given: Mapping[str, Any]) -> ToolResult:
        return format_hits_result(memory.search(**{"limit": _HITS, **given}), now())

    def read(given: Mapping[str, Any]) -> ToolResult:
        record = get_live_record(memory, given, archived=True)
        where = f" ({record.category})" if record.category else ""
        lines = [
            f"[{record.id}]{where}, {record.kind}, {', '.join(rendering.describe_record(record, now()))}:"
        ]
        if record.archived:
            reason = render.render_label(record.archive_reason) or "no reason given"
            lines[0] = f"{lines[0][:-1]}, archived ({reason}):"
        parts = [part for name in record.parts if (part := memory.get(name)) is not None]
        under = ["It sums up:", *(render.render_record(part) for part in parts)] if parts else []
        return ToolResult(
            "\n".join([*lines, escaping.fence(record.content), *under]),
            {"record": rendering.build_record_data(record), "text": escaping.strip_invisible(record.content)},
            trusted=record.origin not in UNTRUSTED,
        )

    def categories(given: Mapping[str, Any]) -> ToolResult:
        found = sorted(memory.categories().items())
        data = {"categories": [{"category": name or None, "count": count} for name, count in found]}
        if not found:
            return ToolResult("There are no memories yet.", data)
        return ToolResult("\n".join(f"- {name or '(no category)'}: {count}" for name, count in found), data)

    return Toolset(
        [
            Tool(spec=_SAVE, run=save),
            Tool(spec=_SEARCH, run=search, reads_only=True, idempotent=True),
            Tool(spec=_READ, run=read, reads_only=True, idempotent=True),
            Tool(spec=_DELETE, run=partial(delete_record, memory), destructive=True, idempotent=True),
            Tool(spec=_CATEGORIES, run=categories, reads_only=True, idempotent=True),
        ]
    )


def format_saved_result(saved: SaveResult, given: str) -> str:
    """Return the sentence about a record as which the given text was saved."""
    secret = " A secret in it is not stored." if has_redaction(given, saved.record.content) else ""
    where = f" in {saved.record.category}" if saved.record.category else ""
    if saved.outcome == "created":
        return f"Saved as {saved.record.id}{where}.{secret}"
    return f"Known already: {saved.record.id}{where}, seen {saved.record.seen_count} times.{secret}"


def build_saved_data(saved: SaveResult) -> Mapping[str, Any]:
    """Return the data about a saved record."""
    return {
        "id": saved.record.id,
        "outcome": saved.outcome,
        "record": rendering.build_record_data(saved.record),
    }


def format_hits_result(
    hits: Sequence[Hit],
    now: datetime,
    *,
    noun: Sequence[str] = ("memory", "memories"),
    nothing: str = ". Try other words, or list_memory_categories to see what there is.",
) -> ToolResult:
    """Return the result of a search.

    Args:
        noun: What a hit is called, and what several are.
        nothing: What follows "Found nothing".
    """
    data = {"hits": [rendering.build_hit_data(hit, now) for hit in hits]}
    if not hits:
        return ToolResult(f"Found nothing{nothing}", data)
    found = rendering.format_count(len(hits), *noun)
    return ToolResult(
        "\n".join([f"Found {found}:", *(rendering.render_hit(hit, now) for hit in hits)]),
        data,
        trusted=all(hit.is_trusted for hit in hits),
    )


def get_live_record(memory: MemoryLike, given: Mapping[str, Any], *, archived: bool = False) -> Record:
    """Return the record that the argument `id` names. Raise `NotFound` where there is none."""
    wanted = given["id"].strip().strip("[]")
    record = memory.get(wanted)
    if record is None or (record.archived and not archived):
        raise NotFound(f"there is no memory {render.render_label(wanted)}; search_memory finds the right id")
    return record


def delete_record(memory: MemoryLike, given: Mapping[str, Any]) -> ToolResult:
    """Archive a record because a model says so, unless its owner pinned it."""
    record = get_live_record(memory, given)
    if record.pinned:
        return ToolResult(
            f"Nothing was done: {record.id} is pinned, so that it is kept. Its owner has to unpin it first.",
            failed=True,
        )
    archived = memory.archive(record.id, reason=given.get("reason") or "")
    return ToolResult(
        f'Archived {archived.id}: "{escaping.escape_line(archived.content)}". It can be restored.',
        {"id": archived.id, "archived": rendering.build_record_data(archived)},
        trusted=archived.origin not in UNTRUSTED,
    )


_ID = schemas.build_text_schema("The id in square brackets that a search shows.", longest=200)

_SAVE = ToolSpec(
    name="save_memory",
    description="Remember something for the long term: a fact, preference, decision or lesson, in one "
    "sentence that can be understood by itself. Saying it again does no harm.",
    parameters=schemas.build_parameters(
        ["content"],
        content=schemas.build_text_schema(
            "What to remember, in words that make sense without this conversation."
        ),
        category=schemas.CATEGORY,
        tags=schemas.TAGS,
    ),
)
_SEARCH = ToolSpec(
    name="search_memory",
    description="Search long-term memory. Without a query it lists what changed last.",
    parameters=schemas.build_parameters(
        query={**schemas.QUERY, "description": "What to look for, in a few words or as a question."},
        category=schemas.IN_CATEGORY,
        tags=schemas.WITH_TAGS,
        limit=schemas.build_limit_schema(_HITS),
    ),
)
_READ = ToolSpec(
    name="get_memory",
    description="Read one memory in full by the id that search_memory shows, when what it shows was cut.",
    parameters=schemas.build_parameters(["id"], id=_ID),
)
_DELETE = ToolSpec(
    name="delete_memory",
    description="Archive a memory by the id that search_memory shows: searches no longer find it. "
    "It can be restored; nothing is erased.",
    parameters=schemas.build_parameters(["id"], id=_ID),
)
_CATEGORIES = ToolSpec(
    name="list_memory_categories",
    description="List the categories of long-term memory with how many memories each has.",
    parameters=schemas.build_parameters(),
)
