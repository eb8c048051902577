"""Memory service for Google ADK: `Runner(..., memory_service=ReverieMemoryService(memory))`.

A user's sessions and memories are in a scope of its own. Events become turns, each once, however often a session is
added. A search finds records and turns; `add_memory` saves records, and `delete_memory` archives one. What nobody
confirmed is marked as such, because ADK puts what it finds into prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from reverie.domain.conversation import Role
from reverie.domain.errors import MissingExtra
from reverie.domain.record import UNTRUSTED
from reverie.domain.text import timestamps
from reverie.domain.text.escaping import NOT_CONFIRMED
from reverie.integrations import core
from reverie.repositories.records import NewRecord
from reverie.scoped import ScopedMemory
from reverie.search.hits import Hit

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types
except ImportError:
    raise MissingExtra(
        "a memory service of ADK needs google-adk 2.0 or newer: pip install 'reverie[google-adk]'"
    ) from None

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

_LONGEST_SCOPE_PART = 80


class ReverieMemoryService(BaseMemoryService):
    """Memory of ADK's agents. Each user of each application has a scope, such as `app:harbour/user:ada`."""

    def __init__(
        self, memory: core.AnyMemory, *, scope: Callable[[str, str], str] | None = None, limit: int = 10
    ) -> None:
        """Create the service.

        Args:
            memory: The memory.
            scope: Returns the scope of an application's user; None takes `app:APP/user:USER`.
            limit: Most memories that a search returns, 1 to 1,000.
        """
        self._memory = core.to_sync(memory)
        self._scope = scope or _build_scope
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Record the events of a session that are not recorded yet."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Record events that are not recorded yet as turns of a session; parts of a streamed answer are left out."""
        memory = self._open(app_name, user_id)
        texts = [text for event in events for text in convert_event(event)]
        name = f"adk:{session_id or 'events'}"
        await asyncio.to_thread(lambda: core.Conversation(memory, name).record(texts))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save memories as records of the origin `agent`, in one transaction.

        Args:
            memories: The memories; those without text are left out.
            custom_metadata: Metadata of each of them.

        Raises:
            InvalidInput: one of them cannot be saved; nothing was saved.
        """
        shared = _to_metadata(custom_metadata or {})
        records = [
            NewRecord(
                content=text,
                origin="agent",
                source=f"adk:{entry.author}" if entry.author else "adk",
                metadata=shared | _to_metadata(entry.custom_metadata),
            )
            for entry in memories
            if (text := _extract_text(entry.content))
        ]
        await asyncio.to_thread(self._open(app_name, user_id).save_many, records)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the records and turns that answer a query, best first."""
        hits = await asyncio.to_thread(
            self._open(app_name, user_id).search, query, sources=("records", "turns"), limit=self._limit
        )
        return SearchMemoryResponse(memories=[_build_entry(hit) for hit in hits])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Archive a record; a turn or an unknown id stays as it is.

        Args:
            memory_id: The id that a search returned. To erase content for good, use `Memory.admin.forget`.
        """
        memory = self._open(app_name, user_id)

        def archive() -> None:
            record = memory.get(memory_id) if memory_id else None
            if record is not None and not record.archived:
                memory.archive(record.id)

        await asyncio.to_thread(archive)

    def _open(self, app_name: str, user_id: str) -> ScopedMemory:
        return self._memory.scoped(self._scope(app_name, user_id))


def convert_event(event: Event) -> list[core.ItemText]:
    """Return the texts of an event: a message of the user or of an agent, calls and results of tools."""
    if event.partial or event.content is None:
        return []
    role: Role = "user" if event.author == "user" else "assistant"
    parts = event.content.parts or []
    calls = [
        core.build_call(part.function_call.id, part.function_call.name, part.function_call.args)
        for part in parts
        if part.function_call is not None
    ]
    said = core.build_texts(role, _extract_text(event.content), calls=calls, source_id=event.id)
    for number, part in enumerate(parts):
        if (response := part.function_response) is not None:
            answers = response.id or response.name or "call"
            said += core.build_texts(
                "tool", core.to_text(response.response), answers=answers, source_id=f"{event.id}:r{number}"
            )
    return said


def _build_entry(hit: Hit) -> MemoryEntry:
    turn, record = hit.turn, hit.record
    found = turn or record
    origin = None if found is None else found.origin
    speaker = turn.role if turn is not None else None if record is None else record.source or None
    at = turn.at if turn is not None else None if record is None else record.created_at
    text = f"({NOT_CONFIRMED}) {hit.content}" if origin in UNTRUSTED else hit.content
    role = "model" if speaker == "assistant" else "user"
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role=role, parts=[types.Part(text=text)]),
        author=speaker,
        timestamp=None if at is None else timestamps.format_time(at),
        custom_metadata={"score": hit.score, "origin": origin},
    )


def _extract_text(content: types.Content | None) -> str:
    parts = [] if content is None else content.parts or []
    return "\n".join(part.text for part in parts if part.text and not part.thought).strip()


def _to_metadata(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: core.to_text(value) for name, value in fields.items()}


def _build_scope(app_name: str, user_id: str) -> str:
    return "/".join(
        f"{kind}:{name.replace('/', '-').strip()[:_LONGEST_SCOPE_PART]}"
        for kind, name in (("app", app_name), ("user", user_id))
    )
