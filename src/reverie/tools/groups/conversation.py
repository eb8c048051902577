"""Tool that searches past conversations and `HISTORY.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from reverie.domain.conversation import ROLES
from reverie.domain.text.timestamps import parse_time
from reverie.llm.messages import ToolSpec
from reverie.search.hits import Hit
from reverie.tools import schemas
from reverie.tools.groups import records
from reverie.tools.memory_protocol import MemoryLike
from reverie.tools.toolset import Tool, ToolResult, Toolset

_HITS = 10
_THIS = "this"


def build_conversation_tools(
    memory: MemoryLike, *, now: Callable[[], datetime], session: str | None = None
) -> Toolset:
    """Return the tool `search_conversation_history`.

    Args:
        session: Id of the conversation that `this` means; None for none.
    """

    def search(given: Mapping[str, Any]) -> ToolResult:
        hits = _search_turns(memory, given, session)
        nothing = " that was said about it. Try other words, or mode literal."
        return records.format_hits_result(hits, now(), noun=["place"], nothing=nothing)

    spec = _SPEC if session is not None else _WITHOUT_THIS
    return Toolset([Tool(spec=spec, run=search, reads_only=True, idempotent=True)])


def _search_turns(memory: MemoryLike, given: Mapping[str, Any], this: str | None) -> list[Hit]:
    wanted = {"limit": _HITS, **given}
    for argument, name in (("since", "created_after"), ("until", "created_before")):
        if argument in wanted:
            wanted[name] = parse_time(wanted.pop(argument), name=argument)
    if this is not None and wanted.get("session") == _THIS:
        wanted["session"] = this
    only_turns = "session" in wanted or "role" in wanted
    return memory.search(sources="turns" if only_turns else ("turns", "pages"), **wanted)


def _build_spec(session: str) -> ToolSpec:
    return ToolSpec(
        name="search_conversation_history",
        description="Search what was said in past conversations, also long before what you see, and the "
        "summaries in HISTORY.md. Each place has its date and who said it.",
        parameters=schemas.build_parameters(
            ["query"],
            query={**schemas.QUERY, "minLength": 1, "description": "What to look for."},
            session=schemas.build_text_schema(session, longest=200),
            role=schemas.build_enum_schema(list(ROLES), "Only what this side said."),
            since=schemas.build_text_schema(
                "Only from this day or time on: 2025-01-31, 2025-01-31T10:30Z.", longest=40
            ),
            until=schemas.build_text_schema("Only before this day or time.", longest=40),
            mode=schemas.build_enum_schema(
                ["words", "literal"],  # a pattern of a model's could run for hours, and nothing stops it
                "words ranks by them; literal finds the text as it stands.",
            ),
            limit=schemas.build_limit_schema(_HITS),
        ),
    )


_SPEC = _build_spec("Only in this conversation, by its id, or `this` for the one you are in.")
_WITHOUT_THIS = _build_spec("Only in the conversation of this id.")
