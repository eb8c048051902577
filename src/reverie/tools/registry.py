"""Tools over a memory, by groups: the vocabularies of RockBot, golemcore and agentkit, and Reverie's own.

`vocabulary.json` is the table of all tools: the name and the description of each, its operation, the schema of its
arguments and their names in the operation. An argument that several tools take is described once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_values
from reverie.llm.protocol import ToolSpec
from reverie.repositories.working_memory import WorkingMemory
from reverie.tools.records import MemoryOperations
from reverie.tools.toolset import Tool, ToolResult, Toolset, escape_results
from reverie.tools.trust_guard import OriginGuard
from reverie.tools.working_memory import EntryOperations, PageOperations

if TYPE_CHECKING:
    from reverie.scoped import ScopedMemory
    from reverie.session import Session

_VOCABULARY: Mapping[str, Any] = json.loads(files(__package__).joinpath("vocabulary.json").read_text("utf-8"))
_ARGUMENTS: Mapping[str, Mapping[str, Any]] = _VOCABULARY["arguments"]
_GROUPS: Mapping[str, Mapping[str, Mapping[str, Any]]] = _VOCABULARY["groups"]
_OR_THIS = ", or `this` for the one you are in"

GROUPS = tuple(_GROUPS)
"""All groups of tools."""

DEFAULT_GROUPS = ("long_term", "working", "conversation", "pages")
"""Groups that a model gets by default, no two of which do the same. `memory` and `fil` are other ways to what
`long_term` does, and `scratchpad` is another place for what `working` and `long_term` keep."""


def memory_tools(
    memory: ScopedMemory,
    *,
    session: str | Session | None = None,
    groups: Sequence[str] = DEFAULT_GROUPS,
    clock: Callable[[], datetime] = timestamps.utc_now,
    source: str = "",
) -> Toolset:
    """Return the tools over a memory, or over a scope of one; `Memory.tools` is the usual way.

    Args:
        session: Conversation in which they are called, or its id; None for none, and then without tools
            of working memory.
        groups: Names of `GROUPS`, in the order in which a model is shown them.
        source: Source of the records that are saved; empty takes `session:` and the session's id.

    Raises:
        InvalidInput: there is no such group, or `working` was asked for without a session.
    """
    if not all(isinstance(group, str) for group in validate_values(groups, name="groups", of="names")):
        raise InvalidInput(f"groups are {quote_value(groups)}: pass a list, such as ['long_term']")
    if unknown := [group for group in groups if group not in GROUPS]:
        raise InvalidInput(f"no group of tools {quote_value(unknown[0])}: there are {', '.join(GROUPS)}")
    if session is None and "working" in groups and tuple(groups) != DEFAULT_GROUPS:
        raise InvalidInput("the group working needs a session: say which, or leave the group out")
    conversation = memory.session(session) if isinstance(session, str) else session
    name = None if conversation is None else conversation.id
    record_source = source or ("" if name is None else f"session:{name}"[:200])
    records = MemoryOperations(memory, clock, record_source, OriginGuard(conversation))
    tools: list[Tool] = []
    for group in dict.fromkeys(groups):
        if group == "working":
            tools += [] if conversation is None else build_entry_tools(group, conversation.working, now=clock)
        elif group == "scratchpad":
            tools += build_entry_tools(group, memory.scratchpad, now=clock)
        else:
            operations = PageOperations(records) if group == "pages" else records
            tools += _build_group(group, operations, has_session=name is not None)
    return escape_results(tools)


def build_entry_tools(
    group: str, working: WorkingMemory, *, now: Callable[[], datetime] = timestamps.utc_now
) -> Toolset:
    """Return the tools over entries of working memory in the words of a group: `working` or `scratchpad`."""
    names = {tool["operation"]: name for name, tool in _GROUPS[group].items()}
    ttl = "default" if group == "working" else None
    return _build_group(group, EntryOperations(working, now, ttl, names["read"], names["list"]))


def _build_group(group: str, operations: object, *, has_session: bool = True) -> Toolset:
    return Toolset(
        _build_tool(name, tool, getattr(operations, tool["operation"]), has_session=has_session)
        for name, tool in _GROUPS[group].items()
    )


def _build_tool(
    name: str,
    tool: Mapping[str, Any],
    operation: Callable[[Mapping[str, Any]], ToolResult],
    *,
    has_session: bool,
) -> Tool:
    """Return a tool of the table over its operation."""
    arguments = {
        argument: dict(_ARGUMENTS[schema] if isinstance(schema, str) else schema)
        for argument, schema in tool.get("arguments", {}).items()
    }
    if "session" in arguments and not has_session:
        arguments["session"]["description"] = arguments["session"]["description"].replace(_OR_THIS, "")
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": tool.get("required", []),
        "additionalProperties": False,
    }
    renamed: Mapping[str, str] = tool.get("rename", {})
    return Tool(
        spec=ToolSpec(name=name, description=tool["description"], parameters=parameters),
        run=lambda given: operation({renamed.get(each, each): value for each, value in given.items()}),
        reads_only=tool["effect"] == "reads",
        destructive=tool["effect"] == "removes",
        idempotent=tool["effect"] == "reads" or tool.get("repeatable", False),
    )
