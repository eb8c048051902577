"""What may a model do with long-term memory during a turn? Save, search, delete, list the categories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, Unpack

from reverie.asks import ToolSpec
from reverie.errors import InvalidInput
from reverie.filters import Restrictions, holds
from reverie.recall.hits import Hit
from reverie.records import Origin, Record
from reverie.saving import Saved
from reverie.tools.base import Told, Tool, Toolset, schema

_MOST_HITS = 10


class Remembering(Protocol):
    """What these tools need of a memory."""

    def save(
        self,
        content: str,
        *,
        category: str | None = None,
        tags: Sequence[str] = (),
        source: str = "",
        origin: Origin = "owner",
        scope: str = "",
    ) -> Saved:
        """Remember one thing."""
        ...

    def search(self, query: str | None = None, *, limit: int = 10, **only: Unpack[Restrictions]) -> list[Hit]:
        """Records that answer a question."""
        ...

    def get(self, id: str) -> Record | None:
        """The record of that id."""
        ...

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Take a record out of search."""
        ...

    def categories(self, *, scope: str | Sequence[str] | None = None) -> dict[str, int]:
        """How many live records each category has."""
        ...


def memory_tools(
    memory: Remembering, *, clock: Callable[[], datetime], source: str = "", scope: str = ""
) -> Toolset:
    """RockBot's four tools of long-term memory.

    Args:
        memory: What is saved to and searched.
        clock: What tells the time, for "3 days ago".
        source: What is noted as the source of what is saved, such as `session:telegram:1`.
        scope: Whose memory it is; nothing else is seen or written.
    """

    def save(given: Mapping[str, Any]) -> Told:
        saved = memory.save(
            _text(given, "content"),
            category=_optional(given, "category"),
            tags=_texts(given, "tags"),
            source=source,
            origin="agent",
            scope=scope,
        )
        where = f" in {saved.record.category}" if saved.record.category else ""
        if saved.outcome == "created":
            return Told(f"Saved as {saved.record.id}{where}.")
        verb = "Known already" if saved.outcome == "reinforced" else "Added to what was known"
        return Told(f"{verb}: {saved.record.id}{where}, seen {saved.record.seen_count} times.")

    def search(given: Mapping[str, Any]) -> Told:
        hits = memory.search(
            _optional(given, "query"),
            limit=_MOST_HITS,
            category=_optional(given, "category"),
            tags=_texts(given, "tags"),
            scope=[scope, ""] if scope else "",
        )
        if not hits:
            return Told("Found nothing. Try other words, or list_memory_categories to see what there is.")
        lines = [_line(hit, clock()) for hit in hits]
        return Told("\n".join([f"Found {len(hits)} {'memory' if len(hits) == 1 else 'memories'}:", *lines]))

    def delete(given: Mapping[str, Any]) -> Told:
        found = memory.get(_text(given, "id"))
        if found is None or found.archived or found.scope not in {"", scope}:
            return Told(f"There is no memory {given['id']}. search_memory finds the right id.")
        memory.archive(found.id, reason="deleted by the agent")
        return Told(f'Deleted {found.id}: "{found.content}". It is in the archive and can be restored.')

    def categories(given: Mapping[str, Any]) -> Told:
        del given
        found = memory.categories(scope=[scope, ""] if scope else "")
        if not found:
            return Told("There are no memories yet.")
        return Told(
            "\n".join(f"- {name or '(no category)'}: {count}" for name, count in sorted(found.items()))
        )

    return Toolset(
        [
            Tool(spec=_SAVE, run=save, idempotent=True),
            Tool(spec=_SEARCH, run=search, reads_only=True),
            Tool(spec=_DELETE, run=delete, destructive=True, idempotent=True),
            Tool(spec=_CATEGORIES, run=categories, reads_only=True),
        ]
    )


def ago(then: datetime, now: datetime) -> str:
    """How old something is: `today`, `1 day ago`, `7 days ago`.

    >>> from datetime import UTC
    >>> ago(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC))
    '7 days ago'
    """
    days = max(0, (now - then).days)
    return "today" if not days else "1 day ago" if days == 1 else f"{days} days ago"


def _line(hit: Hit, now: datetime) -> str:
    record = hit.record
    assert record is not None
    category = f" ({record.category})" if record.category else ""
    age = ago(record.updated_at, now)
    if record.valid_to is not None and not holds(record, now):
        age += f", held until {record.valid_to:%Y-%m-%d}, not any more"
    return f"- [{record.id}]{category}: {' '.join(record.content.split())} ({age})"


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given[name]
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {type(value).__name__}: pass a string")
    return value


def _optional(given: Mapping[str, Any], name: str) -> str | None:
    return _text(given, name) if given.get(name) not in (None, "") else None


def _texts(given: Mapping[str, Any], name: str) -> list[str]:
    value = given.get(name) or []
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidInput(f"{name} is {value!r}: pass a list of strings")
    return value


_STRING: Mapping[str, Any] = {"type": "string"}
_CATEGORY = {"type": "string", "description": "A slash path such as user-preferences/style."}
_TAGS = {"type": "array", "items": {"type": "string"}, "description": "Labels."}

_SAVE = ToolSpec(
    name="save_memory",
    description="Remember something for the long term: a fact, preference, decision or lesson, in one "
    "sentence that can be understood by itself. Saying it again does no harm.",
    parameters=schema(["content"], content=_STRING, category=_CATEGORY, tags=_TAGS),
)
_SEARCH = ToolSpec(
    name="search_memory",
    description="Search long-term memory. Without a query it lists what changed last.",
    parameters=schema(query=_STRING, category=_CATEGORY, tags=_TAGS),
)
_DELETE = ToolSpec(
    name="delete_memory",
    description="Delete a memory by the id that search_memory shows. It can be restored.",
    parameters=schema(["id"], id=_STRING),
)
_CATEGORIES = ToolSpec(
    name="list_memory_categories",
    description="List the categories of long-term memory with how many memories each has.",
    parameters=schema(),
)
