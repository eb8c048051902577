"""Tools over a memory, by groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_values
from reverie.tools.records import (
    build_conversation_tools,
    build_long_term_tools,
    build_memory_tool,
    build_observation_tools,
    build_session_tools,
)
from reverie.tools.toolset import Toolset, escape_results
from reverie.tools.trust_guard import MemoryLike, SessionLike, guard_trust
from reverie.tools.working_memory import build_page_tools, build_scratchpad_tools, build_working_tools

GROUPS = ("long_term", "working", "memory", "fil", "scratchpad", "conversation", "sessions", "pages")
"""All groups of tools."""

DEFAULT_GROUPS = ("long_term", "working", "conversation", "pages")
"""Groups that a model gets by default, no two of which do the same. `memory` and `fil` are other ways to what
`long_term` does, and `scratchpad` is another place for what `working` and `long_term` keep."""


def memory_tools(
    memory: MemoryLike,
    *,
    session: str | SessionLike | None = None,
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
        raise InvalidInput(
            f"there is no group of tools {quote_value(unknown[0])}: there are {', '.join(GROUPS)}"
        )
    if session is None and "working" in groups and tuple(groups) != DEFAULT_GROUPS:
        raise InvalidInput("the group working needs a session: say which, or leave the group out")
    conversation = memory.session(session) if isinstance(session, str) else session
    if conversation is not None:
        memory = guard_trust(memory, conversation)
    record_source = source or (f"session:{conversation.id}"[:200] if conversation is not None else "")
    builders: dict[str, Callable[[], Toolset]] = {
        "long_term": lambda: build_long_term_tools(memory, now=clock, source=record_source),
        "working": lambda: (
            build_working_tools(conversation.working, now=clock) if conversation is not None else Toolset()
        ),
        "memory": lambda: build_memory_tool(memory, now=clock, source=record_source),
        "fil": lambda: build_observation_tools(memory, now=clock, source=record_source),
        "scratchpad": lambda: build_scratchpad_tools(memory.scratchpad, now=clock),
        "sessions": lambda: build_session_tools(
            memory, now=clock, session=None if conversation is None else conversation.id
        ),
        "conversation": lambda: build_conversation_tools(
            memory, now=clock, session=None if conversation is None else conversation.id
        ),
        "pages": lambda: build_page_tools(memory, now=clock),
    }
    return escape_results(tool for group in dict.fromkeys(groups) for tool in builders[group]())
