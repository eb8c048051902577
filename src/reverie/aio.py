"""The same memory for asyncio: every method of `Memory` and `Session`, run on a worker thread.

There is no second implementation: `_on_thread` takes the synchronous method and gives back an
asynchronous one with the same parameters, result and docstring. (A read of the store takes some
microseconds; an asynchronous core used from synchronous code would cost twenty times that.)
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from reverie.admin.history import Journal
from reverie.consolidation.worker import Worker
from reverie.domain.conversation import SessionState
from reverie.domain.record import Origin
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock
from reverie.llm.messages import ToolSpec
from reverie.llm.protocol import Answering, Model
from reverie.memory import Memory
from reverie.repositories.documents import Documents
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.knowledge_graph import KnowledgeGraph
from reverie.repositories.pages import Pages
from reverie.repositories.working_memory import WorkingMemory
from reverie.scoped import ScopedMemory
from reverie.session import Session
from reverie.settings import Settings
from reverie.snapshot import Snapshot
from reverie.tools import Toolset

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Sync = TypeVar("_Sync")
_SyncCovariant = TypeVar("_SyncCovariant", covariant=True)


class _Wraps(Protocol[_SyncCovariant]):
    """An asynchronous object that holds its synchronous one."""

    @property
    def sync(self) -> _SyncCovariant:
        """The synchronous object."""
        ...


def _on_thread(
    method: Callable[Concatenate[_Sync, _P], _R],
) -> Callable[Concatenate[_Wraps[_Sync], _P], Awaitable[_R]]:
    """`method` as an asynchronous one that runs on a worker thread."""

    @functools.wraps(method)
    async def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await asyncio.to_thread(method, self.sync, *args, **kwargs)

    return run


def _composed(
    method: Callable[Concatenate[Toolset, _P], Toolset],
) -> Callable[Concatenate[AsyncToolset, _P], AsyncToolset]:
    """`method` as one that gives asynchronous tools; it waits for nothing."""

    @functools.wraps(method)
    def run(self: AsyncToolset, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncToolset:
        return AsyncToolset(method(self.sync, *args, **kwargs))

    return run


def _plainly(
    method: Callable[Concatenate[_Sync, _P], _R],
) -> Callable[Concatenate[_Wraps[_Sync], _P], _R]:
    """`method` as it is, since it waits for nothing."""

    @functools.wraps(method)
    def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(self.sync, *args, **kwargs)

    return run


class AsyncToolset:
    """`Toolset`, asynchronous: calls are awaited, and run on a worker thread."""

    def __init__(self, sync: Toolset) -> None:
        self.sync = sync

    @property
    def names(self) -> tuple[str, ...]:
        """What the tools are called, in order."""
        return self.sync.names

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown, as an `Ask` carries it."""
        return self.sync.specs

    def __len__(self) -> int:
        return len(self.sync)

    tool = _plainly(Toolset.tool)
    openai = _plainly(Toolset.openai)
    openai_responses = _plainly(Toolset.openai_responses)
    anthropic = _plainly(Toolset.anthropic)
    mcp = _plainly(Toolset.mcp)
    only = _composed(Toolset.only)
    without = _composed(Toolset.without)
    reading = _composed(Toolset.reading)
    renamed = _composed(Toolset.renamed)
    prefixed = _composed(Toolset.prefixed)
    approved = _composed(Toolset.approved)
    call = _on_thread(Toolset.call)
    call_message = _on_thread(Toolset.call_message)


class AsyncWorkingMemory:
    """`WorkingMemory`, asynchronous."""

    def __init__(self, sync: WorkingMemory) -> None:
        self.sync = sync

    set = _on_thread(WorkingMemory.set)
    get = _on_thread(WorkingMemory.get)
    entry = _on_thread(WorkingMemory.entry)
    list = _on_thread(WorkingMemory.list)
    search = _on_thread(WorkingMemory.search)
    delete = _on_thread(WorkingMemory.delete)
    clear = _on_thread(WorkingMemory.clear)
    inventory = _on_thread(WorkingMemory.inventory)


class AsyncKeyValueStore:
    """`KeyValueStore`, asynchronous."""

    def __init__(self, sync: KeyValueStore) -> None:
        self.sync = sync

    get = _on_thread(KeyValueStore.get)
    get_many = _on_thread(KeyValueStore.get_many)
    put = _on_thread(KeyValueStore.put)
    put_many = _on_thread(KeyValueStore.put_many)
    touch = _on_thread(KeyValueStore.touch)
    delete = _on_thread(KeyValueStore.delete)
    search = _on_thread(KeyValueStore.search)
    namespaces = _on_thread(KeyValueStore.namespaces)
    sweep = _on_thread(KeyValueStore.sweep)


class AsyncKnowledgeGraph:
    """`KnowledgeGraph`, asynchronous."""

    def __init__(self, sync: KnowledgeGraph) -> None:
        self.sync = sync

    create_entities = _on_thread(KnowledgeGraph.create_entities)
    create_relations = _on_thread(KnowledgeGraph.create_relations)
    add_observations = _on_thread(KnowledgeGraph.add_observations)
    delete_entities = _on_thread(KnowledgeGraph.delete_entities)
    delete_observations = _on_thread(KnowledgeGraph.delete_observations)
    delete_relations = _on_thread(KnowledgeGraph.delete_relations)
    read_graph = _on_thread(KnowledgeGraph.read_graph)
    search_nodes = _on_thread(KnowledgeGraph.search_nodes)
    open_nodes = _on_thread(KnowledgeGraph.open_nodes)


class AsyncDocuments:
    """`reverie.repositories.documents.Documents`, asynchronous."""

    def __init__(self, sync: Documents) -> None:
        self.sync = sync

    kind = _on_thread(Documents.kind)
    read = _on_thread(Documents.read)
    listed = _on_thread(Documents.listed)
    is_confirmed = _on_thread(Documents.is_confirmed)
    create = _on_thread(Documents.create)
    edit = _on_thread(Documents.edit)
    remove = _on_thread(Documents.remove)
    move = _on_thread(Documents.move)


class AsyncPages:
    """`Pages`, asynchronous."""

    def __init__(self, sync: Pages) -> None:
        self.sync = sync

    names = _on_thread(Pages.names)
    overview = _on_thread(Pages.overview)
    read = _on_thread(Pages.read)
    paragraphs = _on_thread(Pages.paragraphs)
    notes = _on_thread(Pages.notes)
    context = _on_thread(Pages.context)
    write = _on_thread(Pages.write)
    replace = _on_thread(Pages.replace)
    append = _on_thread(Pages.append)
    delete = _on_thread(Pages.delete)


class AsyncJournal:
    """`Journal`, asynchronous."""

    def __init__(self, sync: Journal) -> None:
        self.sync = sync

    history = _on_thread(Journal.history)
    blame = _on_thread(Journal.blame)
    diff = _on_thread(Journal.diff)
    changes = _on_thread(Journal.changes)


class AsyncSession:
    """`Session`, asynchronous. `working` is an `AsyncWorkingMemory`; what only reads memory stays plain."""

    def __init__(self, sync: Session) -> None:
        self.sync = sync
        self.working = AsyncWorkingMemory(sync.working)

    @property
    def id(self) -> str:
        """The session's id."""
        return self.sync.id

    add = _on_thread(Session.add)
    add_many = _on_thread(Session.add_many)
    turns = _on_thread(Session.turns)
    replay = _on_thread(Session.replay)
    context = _on_thread(Session.context)
    redacted = _on_thread(Session.redacted)
    origin_of = _on_thread(Session.origin_of)
    search = _on_thread(Session.search)
    new = _on_thread(Session.new)
    pause = _on_thread(Session.pause)
    resume = _on_thread(Session.resume)
    terminate = _on_thread(Session.terminate)
    set_metadata = _on_thread(Session.set_metadata)
    feedback = _on_thread(Session.feedback)

    async def state(self) -> SessionState:
        """What is kept of the session beside its turns."""
        return await asyncio.to_thread(lambda: self.sync.state)


class AsyncSnapshot:
    """`Past`, asynchronous: what `AsyncMemory.as_of` gives."""

    def __init__(self, sync: Snapshot) -> None:
        self.sync = sync
        self.pages = AsyncPages(sync.pages)
        self.journal = AsyncJournal(sync.journal)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def session(self, id: str, *, scope: str = "") -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.session, id, scope=scope))

    session.__doc__ = Snapshot.session.__doc__

    close = _on_thread(Snapshot.close)
    get = _on_thread(Snapshot.get)
    get_turn = _on_thread(Snapshot.get_turn)
    get_paragraph = _on_thread(Snapshot.get_paragraph)
    records = _on_thread(Snapshot.records)
    recent = _on_thread(Snapshot.recent)
    categories = _on_thread(Snapshot.categories)
    tags = _on_thread(Snapshot.tags)
    search = _on_thread(Snapshot.search)
    search_turns = _on_thread(Snapshot.search_turns)
    search_history = _on_thread(Snapshot.search_history)
    recall = _on_thread(Snapshot.recall)
    recall_fil = _on_thread(Snapshot.recall_fil)
    recall_by_category = _on_thread(Snapshot.recall_by_category)
    sessions = _on_thread(Snapshot.sessions)
    turns = _on_thread(Snapshot.turns)
    export = _on_thread(Snapshot.export)
    history = _on_thread(Snapshot.history)
    stats = _on_thread(Snapshot.stats)
    scope_stats = _on_thread(Snapshot.scope_stats)
    check = _on_thread(Snapshot.check)


class AsyncWorker:
    """`Worker`, asynchronous."""

    def __init__(self, sync: Worker) -> None:
        self.sync = sync

    start = _on_thread(Worker.start)
    wake = _on_thread(Worker.wake)
    stop = _on_thread(Worker.stop)
    apply = _on_thread(Worker.apply)
    run = _on_thread(Worker.run)
    run_window = _on_thread(Worker.run_window)
    run_due = _on_thread(Worker.run_due)
    log = _on_thread(Worker.log)
    is_dream_due = _on_thread(Worker.is_dream_due)
    is_enriching_due = _on_thread(Worker.is_enriching_due)
    plan = _on_thread(Worker.plan)


class AsyncScopedMemory:
    """`ScopedMemory`, asynchronous: what `AsyncMemory.scoped` gives."""

    def __init__(self, sync: ScopedMemory) -> None:
        self.sync = sync
        self.scratchpad = AsyncWorkingMemory(sync.scratchpad)
        self.pages = AsyncPages(sync.pages)

    @property
    def scope(self) -> str:
        """Whose it is; what is written here belongs to it."""
        return self.sync.scope

    @property
    def chain(self) -> tuple[str, ...]:
        """What is seen here, the narrowest scope first."""
        return self.sync.chain

    @property
    def settings(self) -> Settings:
        """The memory's settings."""
        return self.sync.settings

    @functools.wraps(ScopedMemory.scoped)
    def scoped(self, scope: str) -> AsyncScopedMemory:
        return AsyncScopedMemory(self.sync.scoped(scope))

    async def session(self, id: str) -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.session, id))

    session.__doc__ = ScopedMemory.session.__doc__

    async def knowledge_graph(self) -> AsyncKnowledgeGraph:
        return AsyncKnowledgeGraph(self.sync.knowledge_graph())

    knowledge_graph.__doc__ = ScopedMemory.knowledge_graph.__doc__

    async def tools(self, *, session: str | None = None, groups: Sequence[str] | None = None) -> AsyncToolset:
        return AsyncToolset(await asyncio.to_thread(self.sync.tools, session=session, groups=groups))

    tools.__doc__ = ScopedMemory.tools.__doc__

    @functools.wraps(ScopedMemory.documents)
    def documents(
        self, *, actor: str = "agent", heard: Callable[[str], Origin] | None = None
    ) -> AsyncDocuments:
        return AsyncDocuments(self.sync.documents(actor=actor, heard=heard))

    async def shelf(self, name: str, *, origin: Origin = "agent") -> AsyncKeyValueStore:
        return AsyncKeyValueStore(self.sync.shelf(name, origin=origin))

    shelf.__doc__ = ScopedMemory.shelf.__doc__

    save = _on_thread(ScopedMemory.save)
    save_many = _on_thread(ScopedMemory.save_many)
    remember_fil = _on_thread(ScopedMemory.remember_fil)
    promote = _on_thread(ScopedMemory.promote)
    update = _on_thread(ScopedMemory.update)
    archive = _on_thread(ScopedMemory.archive)
    restore = _on_thread(ScopedMemory.restore)
    delete = _on_thread(ScopedMemory.delete)
    pin = _on_thread(ScopedMemory.pin)
    unpin = _on_thread(ScopedMemory.unpin)
    get = _on_thread(ScopedMemory.get)
    get_turn = _on_thread(ScopedMemory.get_turn)
    get_paragraph = _on_thread(ScopedMemory.get_paragraph)
    records = _on_thread(ScopedMemory.records)
    recent = _on_thread(ScopedMemory.recent)
    categories = _on_thread(ScopedMemory.categories)
    tags = _on_thread(ScopedMemory.tags)
    search = _on_thread(ScopedMemory.search)
    search_turns = _on_thread(ScopedMemory.search_turns)
    search_history = _on_thread(ScopedMemory.search_history)
    recall = _on_thread(ScopedMemory.recall)
    recall_fil = _on_thread(ScopedMemory.recall_fil)
    recall_by_category = _on_thread(ScopedMemory.recall_by_category)
    sessions = _on_thread(ScopedMemory.sessions)
    turns = _on_thread(ScopedMemory.turns)
    consolidate_session = _on_thread(ScopedMemory.consolidate_session)
    delete_session = _on_thread(ScopedMemory.delete_session)
    stats = _on_thread(ScopedMemory.stats)


class AsyncMemory:
    """`Memory`, asynchronous: `memory = await AsyncMemory.open("~/agent")`, or `async with`."""

    def __init__(self, sync: Memory) -> None:
        self.sync = sync
        self.scratchpad = AsyncWorkingMemory(sync.scratchpad)
        self.pages = AsyncPages(sync.pages)
        self.journal = AsyncJournal(sync.journal)

    @property
    def path(self) -> Path | None:
        """The folder; None in memory."""
        return self.sync.path

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.sync.settings

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock = timestamps.utc_now,
        new_id: NewId = ids.generate_id,
        actor: str = "owner",
        profile: str | os.PathLike[str] | None = None,
        create: bool = True,
        model: Model | Answering | str | None = None,
    ) -> AsyncMemory:
        memory = await asyncio.to_thread(
            Memory.open,
            path,
            settings=settings,
            clock=clock,
            new_id=new_id,
            actor=actor,
            profile=profile,
            create=create,
            model=model,
        )
        return cls(memory)

    open.__func__.__doc__ = Memory.open.__doc__  # type: ignore[attr-defined]

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def session(self, id: str, *, scope: str = "") -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.session, id, scope=scope))

    session.__doc__ = Memory.session.__doc__

    async def shelf(self, name: str, *, scope: str = "", origin: Origin = "agent") -> AsyncKeyValueStore:
        return AsyncKeyValueStore(self.sync.shelf(name, scope=scope, origin=origin))

    shelf.__doc__ = Memory.shelf.__doc__

    async def knowledge_graph(self, *, scope: str = "") -> AsyncKnowledgeGraph:
        return AsyncKnowledgeGraph(self.sync.knowledge_graph(scope=scope))

    knowledge_graph.__doc__ = Memory.knowledge_graph.__doc__

    async def tools(self, *, session: str | None = None, groups: Sequence[str] | None = None) -> AsyncToolset:
        return AsyncToolset(await asyncio.to_thread(self.sync.tools, session=session, groups=groups))

    tools.__doc__ = Memory.tools.__doc__

    @functools.wraps(Memory.scoped)
    def scoped(self, scope: str) -> AsyncScopedMemory:
        return AsyncScopedMemory(self.sync.scoped(scope))

    async def as_of(self, moment: datetime | int) -> AsyncSnapshot:
        return AsyncSnapshot(await asyncio.to_thread(self.sync.as_of, moment))

    as_of.__doc__ = Memory.as_of.__doc__

    @property
    def worker(self) -> AsyncWorker:
        """What does background work when it is due; see `Memory.worker`."""
        return AsyncWorker(self.sync.worker)

    undo = _on_thread(Memory.undo)
    doctor = _on_thread(Memory.doctor)
    plan = _on_thread(Memory.plan)
    apply = _on_thread(Memory.apply)
    close = _on_thread(Memory.close)
    save = _on_thread(Memory.save)
    save_many = _on_thread(Memory.save_many)
    remember_fil = _on_thread(Memory.remember_fil)
    get = _on_thread(Memory.get)
    get_turn = _on_thread(Memory.get_turn)
    get_paragraph = _on_thread(Memory.get_paragraph)
    records = _on_thread(Memory.records)
    recent = _on_thread(Memory.recent)
    categories = _on_thread(Memory.categories)
    tags = _on_thread(Memory.tags)
    search = _on_thread(Memory.search)
    search_turns = _on_thread(Memory.search_turns)
    search_history = _on_thread(Memory.search_history)
    recall = _on_thread(Memory.recall)
    recall_fil = _on_thread(Memory.recall_fil)
    recall_by_category = _on_thread(Memory.recall_by_category)
    update = _on_thread(Memory.update)
    archive = _on_thread(Memory.archive)
    restore = _on_thread(Memory.restore)
    delete = _on_thread(Memory.delete)
    pin = _on_thread(Memory.pin)
    unpin = _on_thread(Memory.unpin)
    purge = _on_thread(Memory.purge)
    sessions = _on_thread(Memory.sessions)
    turns = _on_thread(Memory.turns)
    consolidate_session = _on_thread(Memory.consolidate_session)
    delete_session = _on_thread(Memory.delete_session)
    export = _on_thread(Memory.export)
    backup = _on_thread(Memory.backup)
    import_ = _on_thread(Memory.import_)
    forgetting = _on_thread(Memory.forgetting)
    forget = _on_thread(Memory.forget)
    redact = _on_thread(Memory.redact)
    history = _on_thread(Memory.history)
    stats = _on_thread(Memory.stats)
    scope_stats = _on_thread(Memory.scope_stats)
    check = _on_thread(Memory.check)
