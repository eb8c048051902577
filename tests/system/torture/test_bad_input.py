"""What cannot be is refused by name and changes nothing; a folder that is pulled away is never lied about."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
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


def test_a_message_of_any_length_and_kind_is_packed_for(memory: Memory) -> None:
    session = memory.session("chat:2")
    for message in (
        "crate 7 " * 12_500,
        "x" * 100_000,
        "\x00\x1b[31m",
        SURROGATE * 5,
        "",
        "\u200b",
        "🎈" * 50_000,
    ):
        pack = session.context(message, record_shown=False)
        assert pack.tokens <= pack.hard_tokens
    assert session.context("crate 7 " * 12_500).hits


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if (
        os.geteuid() != 0
        or not shutil.which("mount")
        or subprocess.run(command, capture_output=True).returncode
    ):
        pytest.skip("needs to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_on_a_full_disk_writes_are_refused_and_reads_go_on(small_disk: Path) -> None:
    memory = Memory.open(small_disk / "memory")
    session = memory.session("s")
    session.add("user", "which pallet stands in hall 9?")
    saved: list[str] = []

    def fill() -> None:
        for n in range(5_000):
            saved.append(memory.save(f"Pallet {n} stands in hall {n * 3}" + " and waits" * 40).record.id)

    with pytest.raises(StoreUnavailable, match="disk is full"):
        fill()
    assert [record.id for record in memory.list(limit=None)][::-1] == saved
    assert memory.search("pallet 7", limit=1)[0].content.startswith("Pallet 7 ")
    assert session.context(record_shown=False).hits
    memory.close()
    with Memory.open(small_disk / "memory") as again:
        assert len(again.list(limit=None)) == len(saved)
        assert again.admin.check() == []


def test_closing_lets_go_of_the_files_even_where_it_cannot_write(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    memory = Memory.open(folder)
    memory.save("Crate 7 stands in hall 9")
    session = memory.session("s")
    session.add("user", "where is crate 7?")
    assert session.context().hits  # what was shown is written when it is closed
    shutil.rmtree(folder)
    with pytest.raises(StoreUnavailable):
        memory.close()
    assert [path for path in open_files() if path.startswith(str(folder))] == []
    memory.close()


def open_files() -> list[str]:
    """What this process has open, by path."""
    here = Path("/proc/self/fd")
    if not here.exists():
        pytest.skip("needs /proc")
    return [os.readlink(path) for path in here.iterdir() if os.path.lexists(path)]


def test_time_may_run_backwards(tmp_path: Path) -> None:
    now = [datetime(2025, 6, 2, tzinfo=UTC)]
    with Memory.open(tmp_path / "memory", clock=lambda: now[0]) as memory:
        session = memory.session("s")
        session.add("user", "the lighthouse was dark")
        session.working.set("key", "text", ttl="10m")
        memory.save("The lighthouse keeper sings", ttl="10m")
        now[0] -= timedelta(days=400)
        assert memory.save("The lighthouse keeper sings").outcome == "reinforced"
        assert session.add("user", "who sings in the lighthouse?").position == 1
        assert session.turns()[0].content == "the lighthouse was dark"
        assert "The lighthouse keeper sings" in session.context().text
        assert session.working.get("key") == "text"
        assert memory.admin.purge() == 0
        assert memory.admin.check() == []
