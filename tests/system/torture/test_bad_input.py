"""What cannot be is refused by name and changes nothing; a folder that is pulled away is never lied about."""

from __future__ import annotations

import shutil
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

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
    for attempt in range(6):
        memory = Memory.open(tmp_path / str(attempt))
        told: list[str] = []
        wrong: list[BaseException] = []

        def work(
            name: int, memory: Memory = memory, told: list[str] = told, wrong: list[Any] = wrong
        ) -> None:
            try:
                for n in range(100_000):
                    memory.save(f"Crate {name}n{n} is full")
                    told.append(f"Crate {name}n{n} is full")
                    memory.search("crate")
                    session = memory.session("s")
                    session.add("user", f"turn {name}n{n}")
                    told.append(f"turn {name}n{n}")
                    session.context("which crate is full?")
            except StoreUnavailable:
                pass
            except BaseException as error:  # noqa: BLE001 - whatever it is, it fails the test below
                wrong.append(error)

        def close(memory: Memory = memory, wrong: list[Any] = wrong) -> None:
            try:
                memory.close()
            except BaseException as error:  # noqa: BLE001 - the same
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.02 + 0.03 * attempt)
        closers = [threading.Thread(target=close) for _ in range(2)]
        for thread in closers:
            thread.start()
        for thread in (*closers, *threads):
            thread.join(timeout=30)
            assert not thread.is_alive()
        assert wrong == []
        with Memory.open(tmp_path / str(attempt)) as again:
            there = {r.content for r in again.list(limit=None)} | {t.content for t in again.turns("s")}
            assert set(told) <= there
            assert again.admin.check() == []
