"""What one server offers: tools and resources over one scope of a memory."""

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
    """What a server offers to its clients.

    Attributes:
        memory: The memory it stands on, open.
        view: The scope of it that clients see, and nothing else.
        tools: What they may call.
        session: The conversation that the tools are called in; None for none.
        graph: The knowledge graph, where its tools are offered.
    """

    memory: Memory
    view: ScopedMemory
    tools: Toolset
    session: str | None = None
    graph: KnowledgeGraph | None = None

    def find_tool(self, *names: str) -> str | None:
        """Return the name, with its prefix, of the first of these tools that is offered; None for none."""
        return next((tool for name in names for tool in self.tools.names if tool.endswith(name)), None)


def create_offer(
    memory: Memory,
    *,
    scope: str = "",
    session: str | None = None,
    groups: Sequence[str] | None = None,
    knowledge_graph: bool = False,
    read_only: bool = False,
    prefix: str = "",
) -> ServedMemory:
    """Create the offer of a server.

    Args:
        memory: The memory, open.
        scope: Whose memory clients see; empty for what is everybody's.
        session: The conversation that the tools are called in; None for none.
        groups: Which tools, as `Memory.tools` has them; None for the usual ones, empty for none.
        knowledge_graph: Whether the nine tools of the reference memory server are there too.
        read_only: Whether only tools that change nothing are there.
        prefix: What stands before the name of every tool.

    Raises:
        InvalidInput: an argument is not of its form, there is no such group, or the session is that of a
            scope and no scope is given.
    """
    view = memory.scoped(validate_scope(scope))
    last = [] if session is None else memory.scoped(EVERY_SCOPE).turns(session, start=-1)
    whose = last[0].scope if last else parse_session_scope(session or "")
    if whose and not scope:
        raise InvalidInput(
            f"session {session!r} belongs to the scope {whose!r}, which is not served: pass that scope too"
        )
    chosen = list(DEFAULT_GROUPS if groups is None else groups)
    if knowledge_graph and GRAPH_GROUP not in chosen:
        chosen.append(GRAPH_GROUP)
    if tuple(chosen) == (*DEFAULT_GROUPS, GRAPH_GROUP) and session is None:
        chosen.remove("working")  # the usual groups have it only where there is a session
    tools = memory_tools(view, session=session, groups=chosen)
    if read_only:
        tools = tools.reading()
    return ServedMemory(
        memory=memory,
        view=view,
        tools=tools.prefixed(prefix) if prefix else tools,
        session=session,
        graph=view.knowledge_graph() if GRAPH_GROUP in chosen else None,
    )
