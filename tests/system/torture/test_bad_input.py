"""What cannot be is refused by name and changes nothing; a folder that is pulled away is never lied about."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory, StoreUnavailable
from reverie.domain.text.timestamps import parse_time
from tests.factories import get_search_index

SURROGATE = "\ud800"
EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory") as opened:
        opened.save_many({"content": f"Crate {n} stands in hall {n * 3}"} for n in range(250))
        opened.session("chat:1").add("user", "where is crate 7?")
        get_search_index(opened).fold()
        yield opened
        assert opened.admin.check() == []


REFUSED: tuple[Callable[[Memory], Any], ...] = (
        lambda memory: memory.archive(SURROGATE),
        lambda memory: memory.restore(SURROGATE),
        lambda memory: memory.update(SURROGATE, content="x"),
        lambda memory: memory.key_value(SURROGATE),
        lambda memory: memory.scoped(SURROGATE).categories(),
        lambda memory: memory.scoped(SURROGATE).sessions(),
        lambda memory: memory.scoped(SURROGATE),
        lambda memory: memory.scoped(SURROGATE).search("crate"),
        lambda memory: memory.search("crate", tags=[SURROGATE]),
        lambda memory: memory.search("crate", sources="turns", session=SURROGATE),
        lambda memory: memory.save("\u200b\u2060\ufeff"),
        lambda memory: memory.save("a fact", tags=5),
        lambda memory: memory.save("a fact", references=None),
        lambda memory: memory.save("a fact", created_at=EARLY),
        lambda memory: memory.save("a fact", valid_to=LATE),
        lambda memory: memory.search("crate", created_before=LATE),
        lambda memory: memory.session("chat:1").add("user", "hello", at=LATE),
        lambda memory: parse_time("9999-12-31T23:59:59-05:00"),
)  # fmt: skip


def test_what_cannot_be_is_refused_and_changes_nothing(memory: Memory) -> None:
    before = memory.history.log(limit=1_000)
    for call in REFUSED:
        with pytest.raises(InvalidInput) as refused:
            call(memory)
        assert len(str(refused.value)) < 300
        assert memory.history.log(limit=1_000) == before


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
