"""Asynchronous memory: every method of the synchronous classes, run on a worker thread.

There is no second implementation: a read of the store takes some microseconds, and an asynchronous core used from
synchronous code would cost twenty times that. The classes are made here, when this module is imported, from the
synchronous ones; `aio.pyi`, which scripts/generate_async.py writes, declares them for type checkers.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Generator
from functools import cached_property
from typing import Any

from reverie.admin.administration import Administration
from reverie.admin.history.journal import Journal
from reverie.admin.history.undo import History
from reverie.consolidation.worker import Worker
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.pages import Pages
from reverie.repositories.prompts import PromptLog
from reverie.repositories.subjects import SubjectIndex
from reverie.repositories.working_memory import WorkingMemory
from reverie.scoped import ScopedMemory
from reverie.session import Session
from reverie.snapshot import Snapshot
from reverie.tools import Toolset

CLASSES: dict[type, dict[str, str]] = {
    Toolset: {},
    WorkingMemory: {},
    KeyValueStore: {},
    Pages: {},
    Journal: {},
    History: {},
    Worker: {},
    PromptLog: {},
    SubjectIndex: {},
    Administration: {},
    Session: {"id": "str", "working": "WorkingMemory"},
    MemoryReader: {"scope": "str", "settings": "Settings"},
    Snapshot: {"at": "datetime", "sequence": "int", "pages": "Pages", "history": "Journal"},
    ScopedMemory: {"pages": "Pages", "scratchpad": "WorkingMemory"},
    Memory: {"path": "Path | None"},
}
"""Classes with an asynchronous form, bases first, each with the attributes that `__init__` sets, and their types."""

PLAIN = frozenset(
    {
        *("now", "scoped", "tool", "openai", "openai_responses", "anthropic", "mcp"),
        *("only", "without", "reading", "renamed", "prefixed", "approved"),
    }
)
"""Methods that wait for nothing, and so are not awaited."""

OPENING = frozenset({"open", "as_of"})
"""Methods whose result is awaited, or entered with `async with`."""

BLOCKING_PROPERTIES = frozenset({"state"})
"""Properties that read the store; they become methods to await."""

LEFT_OUT = frozenset({"folder", "acting"})
"""Members without an asynchronous form."""


class Opening:
    """An object that is about to be opened: `await` it, or enter it with `async with`, which closes it at the end."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    def __await__(self) -> Generator[object, None, Any]:
        return asyncio.to_thread(self._work).__await__()

    async def __aenter__(self) -> Any:
        self._opened = await self
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()


class _Wrapper:
    """Asynchronous form of the object in `sync`."""

    _synchronous: type

    def __init__(self, sync: Any) -> None:
        if not isinstance(sync, self._synchronous):
            own, wanted = type(self).__name__, self._synchronous.__name__
            hint = "; open one with AsyncMemory.open(path)" if wanted == "Memory" else ""
            raise TypeError(f"{own}() takes a {wanted}{hint}")
        self.sync = sync


def _to_async(value: Any) -> Any:
    """Return the asynchronous form of a value whose class has one; any other value as it is."""
    own = next((each for each in type(value).__mro__ if each in CLASSES), None)
    return value if own is None else globals()[f"Async{own.__name__}"](value)


def _wrap_method(name: str, method: Callable[..., Any]) -> Any:
    if isinstance(method, classmethod):  # `Memory.open`
        opening = method.__func__

        @functools.wraps(opening)
        def open_async(cls: type, /, *args: Any, **kwargs: Any) -> Opening:
            return Opening(lambda: cls(opening(cls._synchronous, *args, **kwargs)))  # type: ignore[attr-defined]

        return classmethod(open_async)

    def call(self: _Wrapper, *args: Any, **kwargs: Any) -> Any:
        return _to_async(method(self.sync, *args, **kwargs))

    @functools.wraps(method)
    async def run(self: _Wrapper, /, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(call, self, *args, **kwargs)

    @functools.wraps(method)
    def run_opening(self: _Wrapper, /, *args: Any, **kwargs: Any) -> Opening:
        return Opening(lambda: call(self, *args, **kwargs))

    if name in OPENING:
        return run_opening
    return functools.wraps(method)(call) if name in PLAIN else run


def _wrap_property(name: str, doc: str | None) -> Any:
    def read(self: _Wrapper) -> Any:
        return _to_async(getattr(self.sync, name))

    async def run(self: _Wrapper) -> Any:
        return await asyncio.to_thread(read, self)

    run.__name__, run.__doc__ = name, doc
    return run if name in BLOCKING_PROPERTIES else property(read, doc=doc)


async def _enter(self: Any) -> Any:
    return self


async def _exit(self: Any, *_: object) -> None:
    await self.close()


def _build_class(cls: type, attributes: dict[str, str]) -> type:
    """Return the asynchronous form of a class."""
    base = cls.__bases__[0] if cls.__bases__[0] in CLASSES else None
    members: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"`{cls.__name__}`, asynchronous.",
        "_synchronous": cls,
        **{name: _wrap_property(name, f"See `{cls.__name__}`.") for name in attributes},
    }
    for name, value in vars(cls).items():
        if name.startswith("_") or name in LEFT_OUT:
            continue
        if isinstance(value, property | cached_property):
            members[name] = _wrap_property(name, value.__doc__)
        elif isinstance(value, classmethod) or inspect.isfunction(value):
            members[name] = _wrap_method(name, value)
    if "__enter__" in vars(cls):
        members |= {"__aenter__": _enter, "__aexit__": _exit}
    if "__len__" in vars(cls):
        members["__len__"] = lambda self: len(self.sync)
    return type(f"Async{cls.__name__}", (globals()[f"Async{base.__name__}"] if base else _Wrapper,), members)


for _cls, _attributes in CLASSES.items():
    globals()[f"Async{_cls.__name__}"] = _build_class(_cls, _attributes)
