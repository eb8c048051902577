"""One tool with the memory operations of golemcore's agents: `memory(operation, …)`.

`forget` keeps its name there, and archives: a model erases nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reverie.domain import provenance
from reverie.domain.dataclass import replace
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, UNTRUSTED, Layer, Record
from reverie.llm.messages import ToolSpec
from reverie.stores.writer import retry_conflicts
from reverie.tools import rendering, schemas
from reverie.tools.groups import records
from reverie.tools.memory_protocol import MemoryLike
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10
_TAKES: Mapping[str, tuple[str, ...]] = {
    "add": ("content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "search": ("query", "category", "kind", "layer", "tags", "limit"),
    "update": ("id", "content", "category", "kind", "layer", "tags", "confidence", "importance"),
    "promote": ("id", "layer"),
    "forget": ("id", "reason"),
}


def build_memory_tool(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tool `memory`.

    Args:
        source: Source of the records that are added.
    """
    operations: Mapping[str, Callable[[Mapping[str, Any]], ToolResult]] = {
        "add": lambda given: _add(memory, given, source),
        "search": lambda given: _search(memory, given, now()),
        "update": lambda given: _update(memory, given, now()),
        "promote": lambda given: _promote(memory, given, now()),
        "forget": lambda given: records.delete_record(memory, given),
    }

    def run(given: Mapping[str, Any]) -> ToolResult:
        passed = dict(given)
        operation = passed.pop("operation")
        takes = _TAKES[operation]
        if unused := [name for name in passed if name not in takes]:
            raise InvalidInput(f"{operation} takes no {', '.join(unused)}; it takes {', '.join(takes)}")
        needed = {"add": "content", "search": None}.get(operation, "id")
        if needed is not None and needed not in passed:
            raise InvalidInput(f"{operation} needs {needed}")
        result = operations[operation](passed)
        return replace(result, data=_build_result_data(operation, result.data))

    return Toolset([Tool(spec=_MEMORY, run=run, destructive=True)])


def _add(memory: MemoryLike, given: Mapping[str, Any], source: str) -> ToolResult:
    saved = memory.save(**given, source=source, origin="agent")
    return ToolResult(
        records.format_saved_result(saved, given["content"]),
        {"record": rendering.build_record_data(saved.record)},
    )


def _search(memory: MemoryLike, given: Mapping[str, Any], now: datetime) -> ToolResult:
    hits = memory.search(**{"limit": _HITS, **given})
    return records.format_hits_result(hits, now, nothing=". Try other words, or fewer restrictions.")


def _update(memory: MemoryLike, given: Mapping[str, Any], now: datetime) -> ToolResult:
    changes = {name: value for name, value in given.items() if name != "id"}
    if not changes:
        raise InvalidInput(f"update needs something to change: {', '.join(_TAKES['update'][1:])}")
    after = update_record(memory, given, lambda _: changes)
    message = f"Updated {after.id}:\n{rendering.render_record(after, now)}"
    return ToolResult(
        message, {"record": rendering.build_record_data(after)}, trusted=after.origin not in UNTRUSTED
    )


def _promote(memory: MemoryLike, given: Mapping[str, Any], now: datetime) -> ToolResult:
    record = records.get_live_record(memory, given)
    if record.origin in UNTRUSTED:
        raise InvalidInput(
            f"{record.id} is what {record.origin} said and nobody confirmed, so it stays as it is; "
            "if its owner confirms it, add it in your own words"
        )
    home = HOME_LAYERS[record.kind]
    layer: Layer = given.get("layer") or (home if home != "episodic" else "semantic")
    if layer == "episodic":
        raise InvalidInput("promote moves a memory to semantic or procedural; leave layer out or pass one")
    if record.layer == layer:
        return ToolResult(f"{record.id} is {layer} already.", {"record": rendering.build_record_data(record)})
    if record.layer != "episodic":
        raise InvalidInput(f"{record.id} is {record.layer} already; update changes its layer")
    after = update_record(memory, given, lambda _: {"layer": layer})
    message = f"Promoted {after.id} from episodic to {layer}:\n{rendering.render_record(after, now)}"
    return ToolResult(message, {"record": rendering.build_record_data(after)})


def update_record(
    memory: MemoryLike, given: Mapping[str, Any], change: Callable[[Record], Mapping[str, Any]]
) -> Record:
    """Change a record by a model's word. New text has the lower trust of the record and the agent.

    Where somebody else changes the record meanwhile, the change is made again from its newest form.

    Args:
        given: The arguments of the tool, with the `id`.
        change: Returns the new values for a record; it raises `InvalidInput` where the change no longer fits.
    """

    def attempt(_: int) -> Record:
        record = records.get_live_record(memory, given)
        changes = dict(change(record))
        if changes.get("content") not in (None, record.content):
            changes["origin"] = provenance.least_trusted(record.origin, "agent")
        return memory.update(record.id, expected=record, **changes)

    return retry_conflicts(attempt, read_state=lambda: records.get_live_record(memory, given))


def _build_result_data(operation: str, data: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if data is None:
        return None
    return {
        "operation": operation,
        "record": data.get("record") or data.get("archived"),
        "hits": data.get("hits"),
    }


_MEMORY = ToolSpec(
    name="memory",
    description="Work with long-term memory. add: content (category, kind, layer, tags, confidence, "
    "importance). search: query and filters. update: id and what changes. promote: id of something that "
    "happened (episodic) and should be kept as knowledge (semantic, procedural). forget: id; archives it, "
    "so that searches no longer find it. Nothing is erased.",
    parameters=schemas.build_parameters(
        ["operation"],
        operation=schemas.build_enum_schema(list(_TAKES), "What to do."),
        content=schemas.build_text_schema("What to remember (add), or what it should say (update)."),
        query={**schemas.QUERY, "description": "What to look for; without it, what changed last (search)."},
        id=schemas.build_text_schema(
            "Which memory (update, promote, forget): the id that a search shows.", longest=200
        ),
        category=schemas.CATEGORY,
        kind=schemas.KIND,
        layer=schemas.LAYER,
        tags=schemas.TAGS,
        confidence={**schemas.SCORE, "description": "How sure it is; 0.8 if left out."},
        importance={**schemas.SCORE, "description": "How much it matters; 0.5 if left out."},
        limit=schemas.build_limit_schema(_HITS),
        reason=schemas.build_text_schema("Why it is archived (forget).", longest=500),
    ),
)
