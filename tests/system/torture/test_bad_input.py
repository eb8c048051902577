"""What cannot be is refused by name and changes nothing; a folder that is pulled away is never lied about."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from reverie import Memory, StoreUnavailable

SURROGATE = "\ud800"
EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))


def test_what_was_taken_from_its_place_takes_no_write(tmp_path: Path) -> None:
    for how in ("removed", "moved", "replaced"):
        folder, elsewhere = tmp_path / how, tmp_path / f"{how} elsewhere"
        memory = Memory.open(folder)
        memory.save("Said while it was there")
        if how == "removed":
            shutil.rmtree(folder)
        elif how == "moved":
            folder.rename(elsewhere)
        else:
            with Memory.open(elsewhere) as other:
                other.save("Said elsewhere")
            (elsewhere / "reverie.db").replace(folder / "reverie.db")
        for write in (
            lambda memory=memory: memory.save("Said to nobody"),
            lambda memory=memory: memory.session("s").add("user", "said to nobody"),
            lambda memory=memory: memory.scratchpad.set("key", "kept by nobody"),
        ):
            with pytest.raises(StoreUnavailable, match="removed, moved or replaced"):
                write()
        memory.close()
    with Memory.open(tmp_path / "moved elsewhere") as moved:
        assert [record.content for record in moved.list()] == ["Said while it was there"]
        assert moved.admin.check() == []


def test_closing_at_any_moment_and_twice_loses_nothing(tmp_path: Path) -> None:
    def work(memory: Memory, name: int) -> list[str]:
        told: list[str] = []
        with suppress(StoreUnavailable):
            for n in range(100_000):
                memory.save(f"Crate {name}n{n} is full")
                told.append(f"Crate {name}n{n} is full")
                memory.search("crate")
                session = memory.session("s")
                session.add("user", f"turn {name}n{n}")
                told.append(f"turn {name}n{n}")
                session.context("which crate is full?")
        return told

    for attempt in range(6):
        folder = tmp_path / str(attempt)
        memory = Memory.open(folder)
        with ThreadPoolExecutor(5) as threads:
            working = [threads.submit(work, memory, name) for name in range(3)]
            time.sleep(0.02 + 0.03 * attempt)
            for closing in [threads.submit(memory.close) for _ in range(2)]:
                closing.result(30)
            told = [text for each in working for text in each.result(30)]
        with Memory.open(folder) as again:
            there = {r.content for r in again.list(limit=None)} | {t.content for t in again.turns("s")}
            assert set(told) <= there
            assert again.admin.check() == []
