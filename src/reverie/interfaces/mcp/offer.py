"""Tools and resources that a server offers for one scope of a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reverie.domain.errors import InvalidInput
from reverie.domain.scope import EVERY_SCOPE, parse_session_scope, validate_scope
from reverie.memory import Memory
from reverie.repositories.knowledge_graph import KnowledgeGraph
from reverie.scoped import ScopedMemory
from reverie.tools import DEFAULT_GROUPS, Toolset, memory_tools

GRAPH_GROUP = "knowledge_graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMemory:
    """Memory, tools and resources that a server offers to its clients.

    Attributes:
        memory: The open memory.
        view: The scope that clients see.
        tools: The offered tools.
        graph: The knowledge graph, if its tools are offered.
        text_only: Whether results of tools have no structured content.
    """

    memory: Memory
    view: ScopedMemory
    tools: Toolset
    graph: KnowledgeGraph | None = None
    text_only: bool = False


def create_offer(
    memory: Memory,
    *,
    scope: str = "",
    session: str | None = None,
    groups: Sequence[str] | None = None,
    knowledge_graph: bool = False,
    read_only: bool = False,
    prefix: str = "",
    text_only: bool = False,
) -> ServedMemory:
    """Create the offer of a server.

    Args:
        memory: The open memory.
        scope: Scope that clients see; empty for the common scope.
        session: Session of the tools; None for none.
        groups: Groups of tools, as in `Memory.tools`; None for the default groups, empty for none.
        knowledge_graph: Whether to add the nine tools of the reference memory server.
        read_only: Whether to offer only tools that change nothing.
        prefix: Prefix of all tool names.
        text_only: Whether results of tools have no structured content.

    Raises:
        InvalidInput: an argument is invalid, a group does not exist, or the session belongs to a scope and
            no scope is given.
    """
    view = memory.scoped(validate_scope(scope))
    last = [] if session is None else memory.scoped(EVERY_SCOPE).turns(session, start=-1)
    session_scope = last[0].scope if last else parse_session_scope(session or "")
    if session_scope and not scope:
        raise InvalidInput(
            f"session {session!r} belongs to the scope {session_scope!r}, which is not served: "
            "give that scope too"
        )
    chosen = list(DEFAULT_GROUPS if groups is None else groups)
    if knowledge_graph and GRAPH_GROUP not in chosen:
        chosen.append(GRAPH_GROUP)
    if tuple(chosen) == (*DEFAULT_GROUPS, GRAPH_GROUP) and session is None:
        chosen.remove("working")  # without a session, the default groups do not have it
    tools = memory_tools(view, session=session, groups=chosen)
    if read_only:
        tools = tools.reading()
    return ServedMemory(
        memory=memory,
        view=view,
        tools=tools.prefixed(prefix) if prefix else tools,
        graph=view.knowledge_graph() if GRAPH_GROUP in chosen else None,
        text_only=text_only,
    )
