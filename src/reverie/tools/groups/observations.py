"""Tools for findings, insights and lessons (agentkit)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.record import FIL
from reverie.llm.messages import ToolSpec
from reverie.repositories.records import NewRecord
from reverie.tools import rendering, schemas
from reverie.tools.groups import records
from reverie.tools.memory_protocol import MemoryLike
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10
_MOST = 50
_LISTS = ("findings", "insights", "lessons")


def build_observation_tools(memory: MemoryLike, *, now: Callable[[], datetime], source: str) -> Toolset:
    """Return the tools `remember` and `recall`.

    Args:
        source: Source of the records that are saved.
    """

    def remember(given: Mapping[str, Any]) -> ToolResult:
        notes = [
            NewRecord(content=each, kind=kind, source=source, origin="agent")
            for name, kind in zip(_LISTS, FIL, strict=True)
            for each in given.get(name, ())
        ]
        if not notes:
            raise InvalidInput("there is nothing to remember; pass findings, insights or lessons, as lists")
        saved = memory.save_many(notes)
        lines = [f"- [{each.record.id}] ({each.record.kind}): {each.outcome}" for each in saved]
        number = rendering.format_count(len(saved), "observation")
        return ToolResult(
            "\n".join([f"Remembered {number}:", *lines]),
            {"saved": [records.build_saved_data(each) for each in saved]},
        )

    def recall(given: Mapping[str, Any]) -> ToolResult:
        hits = memory.search(given["query"], limit=given.get("limit", _HITS), kind=FIL)
        return records.format_hits_result(hits, now(), noun=["observation"], nothing=". Try other words.")

    return Toolset(
        [
            Tool(spec=_REMEMBER, run=remember),
            Tool(spec=_RECALL, run=recall, reads_only=True, idempotent=True),
        ]
    )


def _list(description: str) -> schemas.Schema:
    return {
        "type": "array",
        "items": schemas.build_text_schema("One sentence that can be understood by itself."),
        "maxItems": _MOST,
        "description": description,
    }


_REMEMBER = ToolSpec(
    name="remember",
    description="Remember what was learned in a step, for later ones.",
    parameters=schemas.build_parameters(
        findings=_list('Facts discovered, such as "API rate limit is 100/min".'),
        insights=_list('Conclusions, such as "REST suits this better than GraphQL".'),
        lessons=_list('Guidance for the future, such as "Avoid library X: it has no types".'),
    ),
)
_RECALL = ToolSpec(
    name="recall",
    description="Find findings, insights and lessons from earlier steps about a question, best first.",
    parameters=schemas.build_parameters(
        ["query"],
        query={**schemas.QUERY, "minLength": 1, "description": "What to look for."},
        limit=schemas.build_limit_schema(_HITS),
    ),
)
