"""What importing does not import: the start of a program does not pay for what it may never use."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import reverie
from reverie import Memory, MemoryReader, ScopedMemory

SLOW = {
    "asyncio",
    "base64",
    "calendar",
    "email",
    "http",
    "locale",
    "random",
    "shutil",
    "tempfile",
}
"""Modules of the standard library that take a millisecond or more, with what they import."""


def list_imported(statement: str) -> set[str]:
    """Return the modules that a new process has after a statement."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def list_below(modules: set[str], *packages: str) -> list[str]:
    return sorted(name for name in modules if name.startswith(packages))


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    imported = list_imported("import reverie")
    assert list_below(imported, "reverie") == ["reverie"]
    assert not imported & {"sqlite3", "tantivy", "logging", "dataclasses", "json"}


def test_the_memory_is_imported_without_models_tools_and_administration() -> None:
    imported = list_imported("from reverie import Memory, NotFound, Settings")
    unneeded = """
        admin.administration admin.doctor admin.erasure admin.history admin.transfer agent aio
        consolidation.flows consolidation.values consolidation.passes evals files.hand_edits integrations interfaces llm
        snapshot tools
    """
    assert list_below(imported, *(f"reverie.{part}" for part in unneeded.split())) == []
    assert not imported & {"asyncio", "click", "rich", "anyio", "pydantic", "httpx", "opentelemetry"}
    assert not imported & SLOW


def test_a_prompt_is_answered_without_what_only_others_need(tmp_path: Path) -> None:
    """A hook is a process of its own for each prompt, and people wait for it."""
    with Memory.open(tmp_path / "memory") as memory:
        memory.save_many(
            [{"content": f"Ana's desk {number} is in room {number + 10}"} for number in range(30)]
        )
    event = {"session_id": "s", "prompt": "Where is Ana's desk?"}
    folder, data = str(tmp_path / "memory"), json.dumps(event).encode()
    imported = list_imported(
        "from reverie.interfaces.hooks.runner import HookOptions, run\n"
        f"assert 'room' in run('user-prompt', HookOptions(store={folder!r}), {data!r})"
    )
    unneeded = """
        admin aio consolidation.flows consolidation.values consolidation.passes domain.similarity.deduplication
        domain.similarity.three_way_merge evals files.folder files.hand_edits
        integrations interfaces.cli interfaces.http interfaces.mcp llm.provider
        search.vectors snapshot stores.in_memory stores.postgres
        stores.sqlite.check stores.sqlite.rewriting tools
    """
    light = {"reverie.admin", "reverie.admin.transfer", "reverie.admin.transfer.transcripts"}
    assert list_below(imported - light, *(f"reverie.{part}" for part in unneeded.split())) == []
    assert not imported & SLOW


def test_every_public_name_is_there_and_no_other() -> None:
    for name in reverie.__all__:
        assert getattr(reverie, name) is not None
        assert name in dir(reverie)
    with pytest.raises(AttributeError, match="no attribute 'Memroy'"):
        reverie.Memroy  # type: ignore[attr-defined]  # noqa: B018


def list_members(cls: type) -> list[str]:
    names = {name for owner in cls.__mro__[:-1] for name in vars(owner)}
    return sorted(name for name in names if not name.startswith("_"))


def test_a_scope_is_named_by_scoped_alone() -> None:
    for cls in (MemoryReader, ScopedMemory, Memory):
        named = [
            name
            for name in list_members(cls)
            if inspect.isfunction(member := inspect.getattr_static(cls, name))
            and "scope" in inspect.signature(member).parameters
        ]
        assert named == ["scoped"]
