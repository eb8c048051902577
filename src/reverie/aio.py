"""Asynchronous memory: every method of the synchronous classes, run on a worker thread.

Written by scripts/generate_async.py; do not edit. There is no second implementation: a read of the store
takes some microseconds, and an asynchronous core used from synchronous code would cost twenty times that.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from reverie.admin.administration import Administration
from reverie.admin.history.journal import Journal
from reverie.admin.history.undo import History
from reverie.consolidation.worker import Worker
from reverie.domain.conversation import SessionState
from reverie.domain.text import ids, timestamps
from reverie.domain.text.ids import NewId
from reverie.domain.text.timestamps import Clock
from reverie.llm.embedding import Embedder, Embedding
from reverie.llm.protocol import Answering, Model, ToolSpec
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.repositories.documents import Documents
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.pages import Pages
from reverie.repositories.prompt_log import PromptLog
from reverie.repositories.subjects import SubjectIndex
from reverie.repositories.working_memory import WorkingMemory
from reverie.scoped import ScopedMemory
from reverie.session import Session
from reverie.settings import Settings
from reverie.snapshot import Snapshot
from reverie.tools.toolset import Toolset

_P = ParamSpec("_P")
_R = TypeVar("_R")
_A = TypeVar("_A")
_Sync = TypeVar("_Sync")
_SyncCovariant = TypeVar("_SyncCovariant", covariant=True)


class _Wraps(Protocol[_SyncCovariant]):
    @property
    def sync(self) -> _SyncCovariant: ...


class _Wrapper(Generic[_Sync]):
    def __init__(self, sync: _Sync) -> None:
        self.sync = sync


class _Closable(Protocol):
    def close(self) -> Awaitable[None]: ...


_Opened = TypeVar("_Opened", bound=_Closable)


class Opening(Generic[_Opened]):
    """An object that is about to be opened: `await` it, or enter it with `async with`, which closes it at the end."""

    def __init__(self, work: Callable[[], _Opened]) -> None:
        self._work = work

    def __await__(self) -> Generator[object, None, _Opened]:
        return asyncio.to_thread(self._work).__await__()

    async def __aenter__(self) -> _Opened:
        self._opened = await self
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()


def _on_thread(
    method: Callable[Concatenate[_Sync, _P], _R],
) -> Callable[Concatenate[_Wraps[_Sync], _P], Awaitable[_R]]:
    """Return `method` as an asynchronous one that runs on a worker thread."""

    @functools.wraps(method)
    async def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await asyncio.to_thread(method, self.sync, *args, **kwargs)

    return run


def _on_thread_as(
    wrap: Callable[[_R], _A], method: Callable[Concatenate[_Sync, _P], _R]
) -> Callable[Concatenate[_Wraps[_Sync], _P], Awaitable[_A]]:
    """Return `method` as an asynchronous one whose result is wrapped."""

    @functools.wraps(method)
    async def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _A:
        return wrap(await asyncio.to_thread(method, self.sync, *args, **kwargs))

    return run


def _opening_as(
    wrap: Callable[[_R], _Opened], method: Callable[Concatenate[_Sync, _P], _R]
) -> Callable[Concatenate[_Wraps[_Sync], _P], Opening[_Opened]]:
    """Return `method` as one that opens, on a worker thread, what `async with` closes."""

    @functools.wraps(method)
    def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> Opening[_Opened]:
        return Opening(lambda: wrap(method(self.sync, *args, **kwargs)))

    return run


def _plain(
    method: Callable[Concatenate[_Sync, _P], _R],
) -> Callable[Concatenate[_Wraps[_Sync], _P], _R]:
    """Return `method` as it is, because it waits for nothing."""

    @functools.wraps(method)
    def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(self.sync, *args, **kwargs)

    return run


def _plain_as(
    wrap: Callable[[_R], _A], method: Callable[Concatenate[_Sync, _P], _R]
) -> Callable[Concatenate[_Wraps[_Sync], _P], _A]:
    """Return `method` as one whose result is wrapped; it waits for nothing."""

    @functools.wraps(method)
    def run(self: _Wraps[_Sync], /, *args: _P.args, **kwargs: _P.kwargs) -> _A:
        return wrap(method(self.sync, *args, **kwargs))

    return run


def _composed(
    method: Callable[Concatenate[Toolset, _P], Toolset],
) -> Callable[Concatenate[AsyncToolset, _P], AsyncToolset]:
    """Return `method` as one that takes asynchronous objects and gives asynchronous tools."""

    @functools.wraps(method)
    def run(self: AsyncToolset, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncToolset:
        positional = [_unwrap(each) for each in args]
        named = {name: _unwrap(each) for name, each in kwargs.items()}
        return AsyncToolset(method(self.sync, *positional, **named))  # type: ignore[arg-type]

    return run


def _unwrap(value: object) -> object:
    return value.sync if isinstance(value, AsyncWorkingMemory) else value


class AsyncToolset(_Wrapper[Toolset]):
    """`Toolset`, asynchronous."""

    sync: Toolset

    def __len__(self) -> int:
        return len(self.sync)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools, in order."""
        return self.sync.names

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Descriptions of the tools for a model, for `ModelRequest.tools`."""
        return self.sync.specs

    tool = _plain(Toolset.tool)
    only = _composed(Toolset.only)
    without = _composed(Toolset.without)
    reading = _composed(Toolset.reading)
    renamed = _composed(Toolset.renamed)
    prefixed = _composed(Toolset.prefixed)
    approved = _composed(Toolset.approved)
    openai = _plain(Toolset.openai)
    openai_responses = _plain(Toolset.openai_responses)
    anthropic = _plain(Toolset.anthropic)
    mcp = _plain(Toolset.mcp)
    call = _on_thread(Toolset.call)
    call_message = _on_thread(Toolset.call_message)


class AsyncWorkingMemory(_Wrapper[WorkingMemory]):
    """`WorkingMemory`, asynchronous."""

    sync: WorkingMemory

    set = _on_thread(WorkingMemory.set)
    get = _on_thread(WorkingMemory.get)
    entry = _on_thread(WorkingMemory.entry)
    list = _on_thread(WorkingMemory.list)
    search = _on_thread(WorkingMemory.search)
    delete = _on_thread(WorkingMemory.delete)
    clear = _on_thread(WorkingMemory.clear)
    inventory = _on_thread(WorkingMemory.inventory)
    sanitize = _on_thread(WorkingMemory.sanitize)


class AsyncKeyValueStore(_Wrapper[KeyValueStore]):
    """`KeyValueStore`, asynchronous."""

    sync: KeyValueStore

    get = _on_thread(KeyValueStore.get)
    put = _on_thread(KeyValueStore.put)
    delete = _on_thread(KeyValueStore.delete)
    get_many = _on_thread(KeyValueStore.get_many)
    put_many = _on_thread(KeyValueStore.put_many)
    touch = _on_thread(KeyValueStore.touch)
    search = _on_thread(KeyValueStore.search)
    items = _on_thread(KeyValueStore.items)
    reading = _on_thread(KeyValueStore.reading)
    namespaces = _on_thread(KeyValueStore.namespaces)
    sweep = _on_thread(KeyValueStore.sweep)


class AsyncDocuments(_Wrapper[Documents]):
    """`Documents`, asynchronous."""

    sync: Documents

    kind = _on_thread(Documents.kind)
    read = _on_thread(Documents.read)
    is_confirmed = _on_thread(Documents.is_confirmed)
    listed = _on_thread(Documents.listed)
    create = _on_thread(Documents.create)
    edit = _on_thread(Documents.edit)
    remove = _on_thread(Documents.remove)
    move = _on_thread(Documents.move)
    clear = _on_thread(Documents.clear)


class AsyncPages(_Wrapper[Pages]):
    """`Pages`, asynchronous."""

    sync: Pages

    names = _on_thread(Pages.names)
    overview = _on_thread(Pages.overview)
    read = _on_thread(Pages.read)
    paragraphs = _on_thread(Pages.paragraphs)
    notes = _on_thread(Pages.notes)
    render_for_prompt = _on_thread(Pages.render_for_prompt)
    build_static_context = _on_thread(Pages.build_static_context)
    context = _on_thread(Pages.context)
    write = _on_thread(Pages.write)
    replace = _on_thread(Pages.replace)
    append = _on_thread(Pages.append)
    delete = _on_thread(Pages.delete)
    append_many = _on_thread(Pages.append_many)


class AsyncJournal(_Wrapper[Journal]):
    """`Journal`, asynchronous."""

    sync: Journal

    log = _on_thread(Journal.log)
    sequence = _on_thread(Journal.sequence)
    get = _on_thread(Journal.get)
    transaction = _on_thread(Journal.transaction)
    diff = _on_thread(Journal.diff)
    changes = _on_thread(Journal.changes)
    blame = _on_thread(Journal.blame)


class AsyncHistory(AsyncJournal):
    """`History`, asynchronous."""

    def __init__(self, sync: History) -> None:
        self.sync: History = sync

    undo = _on_thread(History.undo)


class AsyncWorker(_Wrapper[Worker]):
    """`Worker`, asynchronous."""

    sync: Worker

    @property
    def thinking(self) -> Literal["ask", "tidy", "off"]:
        """What background work may do automatically: the owner's choice, else the setting."""
        return self.sync.thinking

    set_thinking = _on_thread(Worker.set_thinking)
    plan = _on_thread(Worker.plan)
    apply = _on_thread(Worker.apply)
    run = _on_thread(Worker.run)
    run_window = _on_thread(Worker.run_window)
    judge_pending = _on_thread(Worker.judge_pending)
    usage = _on_thread(Worker.usage)
    check_model = _on_thread(Worker.check_model)
    log = _on_thread(Worker.log)
    keep_plan = _on_thread(Worker.keep_plan)
    kept_plans = _on_thread(Worker.kept_plans)
    proposals = _on_thread(Worker.proposals)
    kept_plan = _on_thread(Worker.kept_plan)
    decide = _on_thread(Worker.decide)
    ask = _on_thread(Worker.ask)
    answer = _on_thread(Worker.answer)
    start = _on_thread(Worker.start)
    wake = _on_thread(Worker.wake)
    stop = _on_thread(Worker.stop)
    run_safely = _on_thread(Worker.run_safely)
    run_due = _on_thread(Worker.run_due)
    find_next_due = _on_thread(Worker.find_next_due)
    is_dream_due = _on_thread(Worker.is_dream_due)
    is_enriching_due = _on_thread(Worker.is_enriching_due)


class AsyncPromptLog(_Wrapper[PromptLog]):
    """`PromptLog`, asynchronous."""

    sync: PromptLog

    list = _on_thread(PromptLog.list)
    get = _on_thread(PromptLog.get)


class AsyncSubjectIndex(_Wrapper[SubjectIndex]):
    """`SubjectIndex`, asynchronous."""

    sync: SubjectIndex

    list = _on_thread(SubjectIndex.list)
    find = _on_thread(SubjectIndex.find)
    counts = _on_thread(SubjectIndex.counts)


class AsyncAdministration(_Wrapper[Administration]):
    """`Administration`, asynchronous."""

    sync: Administration

    stats = _on_thread(Administration.stats)
    failures = _on_thread(Administration.failures)
    index_status = _on_thread(Administration.index_status)
    embed = _on_thread(Administration.embed)
    activity = _on_thread(Administration.activity)

    @property
    def prompts(self) -> AsyncPromptLog:
        """The prompt log of all sessions: which prompts a model was given, and why each line was in them."""
        return AsyncPromptLog(self.sync.prompts)

    check = _on_thread(Administration.check)
    doctor = _on_thread(Administration.doctor)
    purge = _on_thread(Administration.purge)
    forget = _on_thread(Administration.forget)
    redact = _on_thread(Administration.redact)
    backup = _on_thread(Administration.backup)
    export = _on_thread(Administration.export)
    import_from = _on_thread(Administration.import_from)
    exchange_files = _on_thread(Administration.exchange_files)


class AsyncSession(_Wrapper[Session]):
    """`Session`, asynchronous."""

    sync: Session

    @property
    def id(self) -> str:
        """See `Session`."""
        return self.sync.id

    @property
    def working(self) -> AsyncWorkingMemory:
        """See `Session`."""
        return AsyncWorkingMemory(self.sync.working)

    add = _on_thread(Session.add)
    add_many = _on_thread(Session.add_many)

    @property
    def is_recorded(self) -> bool:
        """Return whether turns are stored: not during an exchange or a conversation that is off the record."""
        return self.sync.is_recorded

    async def state(self) -> SessionState:
        """Return what is stored of the session beside its turns. A session without turns is active."""
        return await asyncio.to_thread(lambda: self.sync.state)

    turns = _on_thread(Session.turns)
    recent_turns = _on_thread(Session.recent_turns)
    stored_turns = _on_thread(Session.stored_turns)
    search = _on_thread(Session.search)
    determine_origin = _on_thread(Session.determine_origin)
    context = _on_thread(Session.context)
    redact_text = _on_thread(Session.redact_text)
    redact_json = _on_thread(Session.redact_json)
    remove_turns = _on_thread(Session.remove_turns)
    replace_turn = _on_thread(Session.replace_turn)
    rewrite_last_turn = _on_thread(Session.rewrite_last_turn)
    reset = _on_thread(Session.reset)
    feedback = _on_thread(Session.feedback)
    set_turn_metadata = _on_thread(Session.set_turn_metadata)
    pause = _on_thread(Session.pause)
    resume = _on_thread(Session.resume)
    terminate = _on_thread(Session.terminate)
    set_metadata = _on_thread(Session.set_metadata)
    flush = _on_thread(Session.flush)
    discard = _on_thread(Session.discard)


class AsyncMemoryReader(_Wrapper[MemoryReader]):
    """`MemoryReader`, asynchronous."""

    sync: MemoryReader

    @property
    def scope(self) -> str:
        """See `MemoryReader`."""
        return self.sync.scope

    @property
    def settings(self) -> Settings:
        """See `MemoryReader`."""
        return self.sync.settings

    def scoped(self, scope: str) -> AsyncMemoryReader:
        return AsyncMemoryReader(self.sync.scoped(scope))

    functools.update_wrapper(scoped, MemoryReader.scoped)
    get = _on_thread(MemoryReader.get)
    get_turn = _on_thread(MemoryReader.get_turn)
    get_paragraph = _on_thread(MemoryReader.get_paragraph)
    list = _on_thread(MemoryReader.list)
    list_own = _on_thread(MemoryReader.list_own)
    categories = _on_thread(MemoryReader.categories)
    tags = _on_thread(MemoryReader.tags)

    @property
    def subjects(self) -> AsyncSubjectIndex:
        """The names and categories that records share, and the number of records that each filter of `list` finds."""
        return AsyncSubjectIndex(self.sync.subjects)

    search = _on_thread(MemoryReader.search)
    left_out = _on_thread(MemoryReader.left_out)
    sessions = _on_thread(MemoryReader.sessions)
    turns = _on_thread(MemoryReader.turns)
    find_session = _on_thread(MemoryReader.find_session)
    title = _on_thread(MemoryReader.title)

    @property
    def prompts(self) -> AsyncPromptLog:
        """The prompt log of the sessions that can be seen here: which prompts a model was given, and why."""
        return AsyncPromptLog(self.sync.prompts)

    now = _plain(MemoryReader.now)
    scopes = _on_thread(MemoryReader.scopes)
    stats = _on_thread(MemoryReader.stats)


class AsyncSnapshot(AsyncMemoryReader):
    """`Snapshot`, asynchronous."""

    def __init__(self, sync: Snapshot) -> None:
        self.sync: Snapshot = sync

    @property
    def at(self) -> datetime:
        """See `Snapshot`."""
        return self.sync.at

    @property
    def sequence(self) -> int:
        """See `Snapshot`."""
        return self.sync.sequence

    @property
    def pages(self) -> AsyncPages:
        """See `Snapshot`."""
        return AsyncPages(self.sync.pages)

    @property
    def history(self) -> AsyncJournal:
        """See `Snapshot`."""
        return AsyncJournal(self.sync.history)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    session = _on_thread_as(AsyncSession, Snapshot.session)
    total_stats = _on_thread(Snapshot.total_stats)
    export = _on_thread(Snapshot.export)
    close = _on_thread(Snapshot.close)


class AsyncScopedMemory(AsyncMemoryReader):
    """`ScopedMemory`, asynchronous."""

    def __init__(self, sync: ScopedMemory) -> None:
        self.sync: ScopedMemory = sync

    @property
    def pages(self) -> AsyncPages:
        """See `ScopedMemory`."""
        return AsyncPages(self.sync.pages)

    @property
    def scratchpad(self) -> AsyncWorkingMemory:
        """See `ScopedMemory`."""
        return AsyncWorkingMemory(self.sync.scratchpad)

    @overload
    def scoped(self, scope: Literal["*"]) -> AsyncMemoryReader: ...  # type: ignore[overload-overlap]
    @overload
    def scoped(self, scope: str) -> AsyncScopedMemory: ...
    @functools.wraps(ScopedMemory.scoped)
    def scoped(self, scope: str) -> AsyncMemoryReader:
        memory: MemoryReader = self.sync.scoped(scope)
        return AsyncScopedMemory(memory) if isinstance(memory, ScopedMemory) else AsyncMemoryReader(memory)

    save = _on_thread(ScopedMemory.save)
    save_many = _on_thread(ScopedMemory.save_many)
    promote = _on_thread(ScopedMemory.promote)
    update = _on_thread(ScopedMemory.update)
    end = _on_thread(ScopedMemory.end)
    archive = _on_thread(ScopedMemory.archive)
    restore = _on_thread(ScopedMemory.restore)
    archive_many = _on_thread(ScopedMemory.archive_many)
    label = _on_thread(ScopedMemory.label)
    vouch = _on_thread(ScopedMemory.vouch)
    settle = _on_thread(ScopedMemory.settle)
    page = _on_thread(ScopedMemory.page)
    edit_page = _on_thread(ScopedMemory.edit_page)
    session = _on_thread_as(AsyncSession, ScopedMemory.session)
    consolidate_session = _on_thread(ScopedMemory.consolidate_session)
    delete_session = _on_thread(ScopedMemory.delete_session)
    tools = _on_thread_as(AsyncToolset, ScopedMemory.tools)
    key_value = _on_thread_as(AsyncKeyValueStore, ScopedMemory.key_value)
    documents = _plain_as(AsyncDocuments, ScopedMemory.documents)


class AsyncMemory(AsyncScopedMemory):
    """`Memory`, asynchronous."""

    def __init__(self, sync: Memory) -> None:
        if not isinstance(sync, Memory):
            raise TypeError("AsyncMemory() takes a Memory; open one with AsyncMemory.open(path)")
        self.sync: Memory = sync

    @property
    def path(self) -> Path | None:
        """See `Memory`."""
        return self.sync.path

    @classmethod
    def open(
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
        embedder: Embedder | Embedding | str | None = None,
        files: Literal["pages", "records", "none"] | None = None,
        busy_timeout: timedelta | None = None,
        thinking: bool = False,
    ) -> Opening[AsyncMemory]:
        return Opening(
            lambda: cls(
                Memory.open(
                    path,
                    settings=settings,
                    clock=clock,
                    new_id=new_id,
                    actor=actor,
                    profile=profile,
                    create=create,
                    model=model,
                    embedder=embedder,
                    files=files,
                    busy_timeout=busy_timeout,
                    thinking=thinking,
                )
            )
        )

    open.__func__.__doc__ = Memory.open.__doc__  # type: ignore[attr-defined]

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    refresh_files = _on_thread(Memory.refresh_files)
    flush = _on_thread(Memory.flush)
    close = _on_thread(Memory.close)
    warm_up = _on_thread(Memory.warm_up)

    @property
    def history(self) -> AsyncHistory:
        """History of all changes: log, blame, differences, and undo."""
        return AsyncHistory(self.sync.history)

    @property
    def dreams(self) -> AsyncWorker:
        """Background thinking: plan, apply, run, and a thread that does what is due."""
        return AsyncWorker(self.sync.dreams)

    @property
    def admin(self) -> AsyncAdministration:
        """Administration of all scopes: stats, check, doctor, purge, forget, redact, backup, import, export."""
        return AsyncAdministration(self.sync.admin)

    as_of = _opening_as(AsyncSnapshot, Memory.as_of)
