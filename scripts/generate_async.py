"""Write src/reverie/aio.py from the synchronous classes: `python scripts/generate_async.py [--check]`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from reverie.admin.administration import Administration
from reverie.admin.history import History, Journal
from reverie.consolidation.worker import Worker
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
from reverie.snapshot import Snapshot
from reverie.tools import Toolset

TARGET = Path(__file__).parents[1] / "src" / "reverie" / "aio.py"

CLASSES: dict[type, dict[str, str]] = {
    Toolset: {},
    WorkingMemory: {},
    KeyValueStore: {},
    Documents: {},
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
"""Classes to write, each after those it needs, with the attributes that `__init__` sets."""

PLAIN = {"now", "tool", "openai", "openai_responses", "anthropic", "mcp", "documents"}
"""Methods that wait for nothing, and so are not awaited."""

BLOCKING_PROPERTIES = {"state"}
"""Properties that read the store; they become methods to await."""

LEFT_OUT = {"open", "scoped", "folder", "cursors", "acting"}
"""Members that are written by hand below, or have no asynchronous form."""

HEADER = '''"""Asynchronous memory: every method of the synchronous classes, run on a worker thread.

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

%s

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
'''

BY_HAND = {
    MemoryReader: """
    def scoped(self, scope: str) -> AsyncMemoryReader:
        return AsyncMemoryReader(self.sync.scoped(scope))

    functools.update_wrapper(scoped, MemoryReader.scoped)
""",
    ScopedMemory: """
    @overload
    def scoped(self, scope: Literal["*"]) -> AsyncMemoryReader: ...  # type: ignore[overload-overlap]
    @overload
    def scoped(self, scope: str) -> AsyncScopedMemory: ...
    @functools.wraps(ScopedMemory.scoped)
    def scoped(self, scope: str) -> AsyncMemoryReader:
        memory: MemoryReader = self.sync.scoped(scope)
        return AsyncScopedMemory(memory) if isinstance(memory, ScopedMemory) else AsyncMemoryReader(memory)
""",
    Toolset: """
    def __len__(self) -> int:
        return len(self.sync)
""",
}


def write_class(cls: type, attributes: dict[str, str]) -> str:
    """Return the source of the asynchronous class."""
    name = cls.__name__
    base = cls.__bases__[0]
    bases = f"Async{base.__name__}" if base in CLASSES else f"_Wrapper[{name}]"
    lines = [f"class Async{name}({bases}):", f'    """`{name}`, asynchronous."""', ""]
    if base in CLASSES:
        lines += [f"    def __init__(self, sync: {name}) -> None:"]
        if cls is Memory:
            lines += [
                "        if not isinstance(sync, Memory):",
                '            raise TypeError("AsyncMemory() takes a Memory; open one with AsyncMemory.open(path)")',
            ]
        lines += [f"        self.sync: {name} = sync", ""]
    else:
        lines += [f"    sync: {name}", ""]
    for attribute, annotation in attributes.items():
        lines += write_property(cls, attribute, annotation)
    if cls is Memory:
        lines += write_open()
    if "__enter__" in vars(cls):
        lines += [
            f"    async def __aenter__(self) -> Async{name}:",
            "        return self",
            "",
            "    async def __aexit__(self, *_: object) -> None:",
            "        await self.close()",
            "",
        ]
    lines += BY_HAND.get(cls, "").splitlines()
    for member, value in vars(cls).items():
        if member.startswith("_") or member in LEFT_OUT:
            continue
        if isinstance(value, property | cached_property):
            function = value.fget if isinstance(value, property) else value.func
            lines += write_property(cls, member, get_result(function), function)
        elif inspect.isfunction(value):
            lines.append(f"    {member} = {write_method(name, member, get_result(value))}")
    return "\n".join(lines)


def write_method(cls: str, member: str, result: str) -> str:
    """Return the expression for one method."""
    if (cls, result) == ("Toolset", "Toolset"):
        return f"_composed(Toolset.{member})"
    if result == "Snapshot":
        return f"_opening_as(AsyncSnapshot, {cls}.{member})"
    run = "_plain" if member in PLAIN else "_on_thread"
    return f"{run}_as(Async{result}, {cls}.{member})" if is_wrapped(result) else f"{run}({cls}.{member})"


def write_property(cls: type, member: str, result: str, function: object = None) -> list[str]:
    """Return the source of one property."""
    doc = inspect.getdoc(function) or f"See `{cls.__name__}`."
    if member in BLOCKING_PROPERTIES:
        lines = [f"    async def {member}(self) -> {result}:"]
        answer = f"await asyncio.to_thread(lambda: self.sync.{member})"
    else:
        annotation = f"Async{result}" if is_wrapped(result) else result
        lines = ["    @property", f"    def {member}(self) -> {annotation}:"]
        answer = f"self.sync.{member}"
    lines.append(f'        """{doc.splitlines()[0]}"""')
    if is_wrapped(result):
        answer = f"Async{result}({answer})"
    return [*lines, f"        return {answer}", ""]


def write_open() -> list[str]:
    """Return the source of `AsyncMemory.open`, with the parameters of `Memory.open`."""
    source = inspect.getsource(Memory.open)
    head = source[source.index("    def open") : source.index('"""')].rstrip()
    parameters = [name for name in inspect.signature(Memory.open).parameters if name != "path"]
    passed = ", ".join(f"{name}={name}" for name in parameters)
    return [
        "    @classmethod",
        head.replace("-> Memory", "-> Opening[AsyncMemory]"),
        f"        return Opening(lambda: cls(Memory.open(path, {passed})))",
        "",
        "    open.__func__.__doc__ = Memory.open.__doc__  # type: ignore[attr-defined]",
        "",
    ]


def is_wrapped(result: str) -> bool:
    """Return whether a result has an asynchronous class of its own."""
    return any(result == cls.__name__ for cls in CLASSES)


def get_result(function: object) -> str:
    """Return the annotation of what a function returns."""
    return str(inspect.get_annotations(function)["return"])  # type: ignore[arg-type]


def write_imports(body: str) -> str:
    """Return the imports of every name of the synchronous modules that the body uses."""
    names: dict[str, set[str]] = {}
    for cls in CLASSES:
        for name, value in vars(sys.modules[cls.__module__]).items():
            module = getattr(value, "__module__", None)
            if isinstance(value, type) and str(module).startswith("reverie") and not name.startswith("_"):
                names.setdefault(value.__name__, set()).add(str(module))
    fixed = {
        "Answering": "reverie.llm.protocol",
        "Clock": "reverie.domain.text.timestamps",
        "Embedder": "reverie.llm.embedding",
        "Embedding": "reverie.llm.embedding",
        "Model": "reverie.llm.protocol",
        "NewId": "reverie.domain.text.ids",
        "ToolSpec": "reverie.llm.protocol",
    }
    used = set(re.findall(r"\b[A-Z]\w+", body))
    lines = ["from reverie.domain.text import ids, timestamps"]
    for name in sorted(used):
        if name in fixed:
            lines.append(f"from {fixed[name]} import {name}")
        elif name in names:
            lines.append(f"from {min(names[name])} import {name}")
    return "\n".join(lines)


def generate() -> str:
    """Return the source of aio.py, formatted."""
    body = "\n\n\n".join(write_class(cls, attributes) for cls, attributes in CLASSES.items())
    source = HEADER % write_imports(HEADER + body) + "\n\n" + body + "\n"
    for command in (["check", "--fix", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        source = subprocess.run(
            [str(Path(sys.executable).parent / "ruff"), *command, "--stdin-filename", str(TARGET), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return source


def main() -> int:
    """Write aio.py; with --check, only return 1 if it is not up to date."""
    source = generate()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(source, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == source:
        return 0
    sys.stderr.write(f"{TARGET} is not up to date: run python scripts/generate_async.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
