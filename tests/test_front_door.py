"""The public members of `Memory`: few, and each with a docstring."""

from __future__ import annotations

import inspect

from reverie import Memory, MemoryReader, ScopedMemory

MAX_MEMBERS = 54


def list_members(cls: type) -> list[str]:
    names = {name for owner in cls.__mro__[:-1] for name in vars(owner)}
    return sorted(name for name in names if not name.startswith("_"))


def test_a_memory_has_few_members() -> None:
    members = sorted({*list_members(Memory), "path", "folder", "scope", "settings", "pages", "scratchpad"})
    print(len(members), *members)
    assert len(members) <= MAX_MEMBERS


def test_a_scope_is_named_by_scoped_alone() -> None:
    for cls in (MemoryReader, ScopedMemory, Memory):
        named = [
            name
            for name in list_members(cls)
            if inspect.isfunction(member := inspect.getattr_static(cls, name))
            and "scope" in inspect.signature(member).parameters
        ]
        assert named == ["scoped"]
