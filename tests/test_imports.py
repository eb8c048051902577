"""What importing does not import: the start of a program does not pay for what it may never use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reverie


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
        consolidation.passes consolidation.planning evals files.hand_edits integrations interfaces llm
        snapshot tools
    """
    assert list_below(imported, *(f"reverie.{part}" for part in unneeded.split())) == []
    assert not imported & {"asyncio", "click", "rich", "anyio", "pydantic", "httpx"}


@pytest.mark.parametrize("name", reverie.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(reverie, name) is not None
    assert name in dir(reverie)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Memroy'"):
        reverie.Memroy  # noqa: B018
