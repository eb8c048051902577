"""A memory in which several people save and talk, and all that one of them can see of it.

The same is done twice, once with what others do and once without; ids and times are those of who acts, so
that what the one sees must be the same to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reverie import Memory, ReverieError, ScopedMemory
from reverie.domain.record import FIL
from reverie.search.hits import SOURCES
from tests.factories import get_search_index

WORDS = (
    *("deploy", "Lisbon", "kitten", "allergic", "nuts", "the"),
    *("key", "42", "Friday", "prefers", "not", "api/v2"),
)
BEGINNING = datetime(2025, 6, 2, 9, 0, tzinfo=UTC)

Deed = tuple[str, str, tuple[Any, ...]]
"""Who, what, and with what."""


@dataclass
class World:
    """One memory, its clock, and the ids that each one's deeds made."""

    memory: Memory
    now: datetime = BEGINNING
    acting: str = ""
    made: dict[str, list[str]] = field(default_factory=dict)

    def clock(self) -> datetime:
        return self.now

    def new_id(self) -> str:
        ids = self.made.setdefault(self.acting, [])
        owner = {"alice": 1, "bob": 2}.get(self.acting, 3)
        ids.append(f"{owner:x}{len(ids):011x}")
        return ids[-1]

    @contextmanager
    def acts(self, who: str, at: int) -> Iterator[None]:
        """Somebody acts, at the number of their deed; everybody's clock agrees."""
        self.acting, self.now = who, BEGINNING + timedelta(minutes=at)
        yield

    def scoped(self, who: str) -> ScopedMemory:
        return self.memory.scoped({"alice": "user:alice", "bob": "user:bob", "owner": ""}[who])


def opened(path: Path | str) -> World:
    """A new memory, as a world."""
    world = World(memory=None)  # type: ignore[arg-type]
    world.memory = Memory.open(path, clock=lambda: world.now, new_id=world.new_id)
    return world


def do(world: World, at: int, deed: Deed) -> None:
    """Let somebody do something; what is refused is refused."""
    who, what, given = deed
    with world.acts(who, at), suppress(ReverieError):
        _DEEDS[what](world, world.scoped(who), *given)


def _save(world: World, scoped: ScopedMemory, text: str, category: str | None, tag: str, origin: str) -> None:
    scoped.save(text, category=category, tags=[tag], origin=origin)  # type: ignore[arg-type]


def _narrow(world: World, scoped: ScopedMemory, text: str) -> None:
    if scoped.scope:
        scoped.scoped("task:x").save(text)


def _talk(world: World, scoped: ScopedMemory, session: str, text: str) -> None:
    chat = scoped.session(session)
    chat.add("user", text, speaker=scoped.scope.removeprefix("user:"))
    chat.add("assistant", f"About that: {text}.")
    chat.working.set("noted", text)


def _change(world: World, scoped: ScopedMemory, which: int, text: str) -> None:
    if ids := [record.id for record in scoped.list(limit=None, archived=None)]:
        scoped.update(ids[which % len(ids)], content=text)


def _archive(world: World, scoped: ScopedMemory, which: int) -> None:
    if ids := [record.id for record in scoped.list(limit=None, archived=None)]:
        scoped.archive(ids[which % len(ids)], reason="old")


def _keep(world: World, scoped: ScopedMemory, text: str) -> None:
    scoped.scratchpad.set("note", text)
    scoped.key_value("app").put(("values",), "tone", {"text": text})
    scoped.key_value("memory-files").put((), "notes.txt", {"text": text})


def _write(world: World, scoped: ScopedMemory, text: str) -> None:
    scoped.pages.append("HISTORY.md", text)
    scoped.pages.write("MEMORY.md", f"# About\n\n{text}\n")


def _fold(world: World, scoped: ScopedMemory) -> None:
    get_search_index(world.memory).fold()


def _delete(world: World, scoped: ScopedMemory, session: str) -> None:
    scoped.delete_session(session)


_DEEDS: dict[str, Callable[..., None]] = {
    "save": _save,
    "narrow": _narrow,
    "talk": _talk,
    "change": _change,
    "archive": _archive,
    "keep": _keep,
    "write": _write,
    "fold": _fold,
    "delete": _delete,
}


def seen(world: World, scoped: ScopedMemory, queries: list[str]) -> dict[str, str]:
    """Everything that can be seen through one scope, in words."""
    found: dict[str, str] = {}
    world.acting, world.now = "alice", BEGINNING + timedelta(days=1)

    def note(name: str, look: Callable[[], object]) -> None:
        try:
            found[name] = repr(look())
        except ReverieError as error:
            found[name] = f"{type(error).__name__}: {error}"

    for mode in ("words", "literal"):
        for query in queries:
            for limit in (1, 10):
                here: dict[str, Any] = {"limit": limit, "mode": mode}
                told = f"{query} {here}"
                note(f"search {told}", lambda q=query, h=here: scoped.search(q, **h))
                note(f"turns {told}", lambda q=query, h=here: scoped.search(q, **h, sources="turns"))
                note(f"recall {told}", lambda q=query, h=here: scoped.search(q, **h, sources=SOURCES))
                note(f"history {told}", lambda q=query, h=here: scoped.search(q, **h, sources="pages"))
    for query in queries:
        note(f"sessions {query}", lambda q=query: scoped.search(q, unit="session", sources="turns"))
        note(f"within a session {query}", lambda q=query: scoped.search(q, session="chat:1", sources="turns"))
        note(f"fil {query}", lambda q=query: [scoped.search(q, kind=kind) for kind in FIL])
        note(f"by category {query}", lambda q=query: scoped.search(q, category="project"))
        note(f"scratchpad {query}", lambda q=query: scoped.scratchpad.search(q))
        note(f"shelf {query}", lambda q=query: scoped.key_value("app").search(q))
    note("files", lambda: [item.key for item in scoped.key_value("memory-files").items()])
    note("file", lambda: scoped.key_value("memory-files").get((), "notes.txt"))
    note("newest", lambda: scoped.search(None))
    note("records", lambda: scoped.list(limit=None, archived=None))
    note("recent", lambda: scoped.list())
    note("categories", scoped.categories)
    note("tags", scoped.tags)
    note("stats", scoped.stats)
    note("sessions", scoped.sessions)
    note("scratchpad", scoped.scratchpad.list)
    note("names of pages", scoped.pages.names)
    note("overview", scoped.pages.overview)
    note("page", scoped.pages.read)
    note("context of pages", scoped.pages.context)
    note("namespaces", lambda: scoped.key_value("app").namespaces())
    for session in ("chat:1", "chat:2", "user:bob//chat:1"):
        note(f"turns of {session}", lambda s=session: scoped.turns(s))
        note(f"state of {session}", lambda s=session: scoped.session(s).state)
        note(f"working of {session}", lambda s=session: scoped.session(s).working.list())
        for query in queries[:2]:
            note(f"prompt {session} {query}", lambda s=session, q=query: _prompt(scoped, s, q))
    return found | _told_by_tools(scoped, queries[0])


def _prompt(scoped: ScopedMemory, session: str, query: str) -> object:
    pack = scoped.session(session).context(query, record_shown=False)
    return pack.text, pack.explain()


def _told_by_tools(scoped: ScopedMemory, query: str) -> dict[str, str]:
    """What a model is told by each tool that only reads."""
    from reverie.tools import GROUPS

    found: dict[str, str] = {}
    for tool in scoped.tools(session="chat:1", groups=GROUPS).reading():
        wanted = tool.spec.parameters.get("required", ())
        given = {name: _argument(name, query) for name in wanted}
        tools = scoped.tools(session="chat:1", groups=GROUPS)
        found[f"tool {tool.name}"] = repr(tools.call(tool.name, given))
    return found


def _argument(name: str, query: str) -> object:
    return {"limit": 5, "id": "200000000000"}.get(name, query)
