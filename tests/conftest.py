"""Fixtures for all tests: a memory on disk, one in memory, and a clock that stands still."""

from __future__ import annotations

import gc
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from reverie import Memory
from tests import profiles
from tests.factories import MovableClock

assert profiles  # registers the profile
settings.load_profile("reverie")

# What is imported and collected stays, so garbage is collected only from `pytest_collection_finish` on.
gc.disable()
# It builds a parser when it is imported, for a format of jsonschema that no schema here uses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# A shell that starts the suite in the background makes it and its child processes ignore SIGINT.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep what importing and collecting made out of every later garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(autouse=True)
def _no_embedder_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep memories from using an embedder that happens to be installed: tests that want one name it."""
    monkeypatch.setattr("reverie.llm.embedding.AUTOMATIC_EMBEDDER", "none")


@pytest.fixture(autouse=True, scope="session")
def _user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use temporary folders in place of the data and state folders of the user who runs the tests."""
    folder = tmp_path_factory.mktemp("user-folders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _default_memory_untouched(_user_folders: Path) -> Iterator[None]:
    """Fail a test that writes to the default memory."""
    yield
    written = [path.name for path in _user_folders.iterdir()]
    for name in written:
        shutil.rmtree(_user_folders / name)
    assert written == [], "the test must name its memory (`--store`) or set `XDG_STATE_HOME`"


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(params=["sqlite", "in memory"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    where = ":memory:" if request.param == "in memory" else tmp_path / "memory"
    with Memory.open(where, clock=clock) as opened:
        yield opened
        assert opened.admin.check() == []
