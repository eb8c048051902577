"""What was erased is in no byte of the store's files, whoever else has them open."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from reverie.domain.change import Change, Value
from reverie.domain.conversation import ToolCall
from reverie.domain.filter import Filter
from reverie.domain.record import Record
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.connections import get_file_identity
from reverie.stores.sqlite.database_file import find_passages
from reverie.stores.sqlite.scrubbing import scrub_file
from tests.stores.sqlite.conftest import run
from tests.support.contract.factories import (
    NOW,
    add,
    analyse,
    erase,
    make_additions,
    make_change,
    make_page,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)
from tests.support.contract.replay import is_journal_consistent, read_contents
from tests.support.disks import small_disk

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def text(seed: int, *, words: int = 1500) -> str:
    """Words that stand in no other text: 1,500 of them are 15,000 characters, four pages of the file."""
    made = random.Random(seed)
    return " ".join("".join(made.choices(_LETTERS, k=9)) for _ in range(words))


def sample(texts: list[str]) -> set[str]:
    """Every fourth word of the texts: one at least of any five that follow one another."""
    return {word for one in texts for word in one.split()[::4]}


def left_of(path: Path, texts: list[str]) -> set[str]:
    """Which of these words stand in any file of the store, in any case."""
    stores = (path, find_passages(path.parent))
    files = [Path(f"{each}{suffix}") for each in stores for suffix in ("", "-wal", "-shm")]
    stored = b"".join(file.read_bytes() for file in files if file.exists()).lower()
    return {word for word in sample(texts) if word.encode() in stored}


def secrets_in(store: SQLiteStore) -> tuple[list[Change], list[str]]:
    """Fill the store with things to be forgotten among others; returns what removes them, and their words."""
    texts = [text(seed) for seed in range(12)]
    one = make_record(1, content=texts[0])
    call = ToolCall(id="c1", name="read", arguments=f'{{"path": "{texts[1]}"}}')
    said = make_turn(0, "chat:1", content=texts[2], tool_calls=(call,))
    state, note, told = (
        make_session("chat:1"),
        make_page(content=texts[3]),
        make_paragraph(1, content=texts[4]),
    )
    for number in range(100, 130):
        add(store, make_record(number, content=f"Kept {number} " + "k" * 900))
    store.commit(make_additions(state, said, note, told), actor="owner", note=f"about {texts[5]}", at=NOW)
    store.commit(make_additions(one), actor="owner", note=f"of {texts[6]}", at=NOW)
    for seed, version in enumerate(texts[7:10]):
        later = replace(one, content=version, updated_at=make_time(seed))
        assert store.measure("record", None).passages > 30  # so that all were analysed
        store.commit(make_change(one, later), actor="agent", at=NOW)
        one = later
        between = make_record(200 + seed, content=f"Between {seed} " + "b" * 2000)
        add(store, between)
    later_state, later_note = replace(state, summary=texts[10]), replace(note, content=texts[11])
    store.commit([*make_change(state, later_state), *make_change(note, later_note)], actor="agent", at=NOW)
    assert len(store.passages("record", range(500))) > 30
    return make_removals(one, said, later_state, later_note, told), texts


def test_not_one_word_is_left_of_the_past_of_what_stays(path: Path, store: SQLiteStore) -> None:
    removals, texts = secrets_in(store)
    there: list[Value] = [edit.value for edit in removals]
    left = [
        replace(value, summary="…")  # type: ignore[call-arg]
        if hasattr(value, "summary")
        else replace(value, content="…")  # type: ignore[arg-type]
        for value in there
    ]
    left[1] = replace(left[1], tool_calls=())  # type: ignore[call-arg]
    edits = [Change(before=before, after=after) for before, after in zip(there, left, strict=True)]
    store.erase(edits, actor="owner", at=NOW)
    assert store.scrub()
    assert left_of(path, texts) == set()
    assert store.turns(session="chat:1") == [left[1]]
    assert store.check() == []
    assert is_journal_consistent(store)


def test_not_one_word_is_left_of_what_had_been_purged_before(path: Path, store: SQLiteStore) -> None:
    one = make_record(1, content=text(99))
    add(store, one)
    store.commit(make_removals(one), actor="owner", at=NOW)
    empty = replace(one, content="…")
    store.erase([*make_additions(empty), *make_removals(empty)], actor="owner", at=NOW)
    assert store.scrub()
    assert left_of(path, [one.content]) == set()


@pytest.mark.slow
def test_not_one_word_is_left_in_pages_that_were_divided(tmp_path: Path) -> None:
    # Without the rewriting of both databases, each of these leaves words: in records, the journal, and passages.
    for seed in (10, 7, 28):
        path = tmp_path / str(seed) / "reverie.db"
        with contextlib.closing(
            SQLiteStore(path, analyse=analyse, passages=find_passages(path.parent))
        ) as store:
            gone = write_by_chance(store, seed)
            assert store.scrub()
        stored = path.read_bytes() + find_passages(path.parent).read_bytes()
        assert [word for content in gone for word in content.split() if word.encode() in stored] == []


def write_by_chance(store: SQLiteStore, seed: int) -> list[str]:
    """Save, change and erase records; return the texts of the erased ones."""
    choose = random.Random(seed)
    now: dict[int, Record] = {}
    past: dict[int, list[str]] = {}
    for number in range(1, 500):
        content = text(seed * 100_000 + number, words=choose.choice((5, 40)))
        if number < 60 or choose.random() < 0.3:
            now[number], past[number] = make_record(number, content=content), [content]
            add(store, now[number])
            continue
        chosen = choose.choice(list(now))
        if choose.random() < 0.6:
            later = replace(now[chosen], content=content, updated_at=make_time(number))
            store.commit(make_change(now[chosen], later), actor="agent", at=NOW)
            now[chosen] = later
            past[chosen].append(content)
        else:
            erase(store, make_removals(now.pop(chosen)))
        if number % 20 == 0:
            store.measure("record", None)  # so that all are analysed
    return [content for number in past.keys() - now.keys() for content in past[number]]


@pytest.mark.parametrize("last", ["", "PRAGMA wal_checkpoint(TRUNCATE); CREATE TABLE other (id)"])
def test_no_page_that_was_divided_since_the_last_erasure_has_erased_words(tmp_path: Path, last: str) -> None:
    path = tmp_path / "one.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript("PRAGMA journal_mode = WAL; PRAGMA secure_delete = ON")
        file.execute("CREATE TABLE kept (id INTEGER PRIMARY KEY, times INTEGER, body TEXT)")
        assert scrub_file(file, path, get_file_identity(path), 5)
        rows = [(number, 0, "erased " * 9) for number in random.Random(1).sample(range(1_000), 1_000)]
        file.executescript("BEGIN").executemany("INSERT INTO kept VALUES (?, ?, ?)", rows)
        file.executescript(f"UPDATE kept SET body = 'kept'; PRAGMA wal_checkpoint(FULL); {last}")
        assert b"erased" in path.read_bytes()
        assert scrub_file(file, path, get_file_identity(path), 5)
        file.executescript("UPDATE kept SET times = 1; PRAGMA wal_checkpoint(TRUNCATE)")
        assert b"erased" not in path.read_bytes()


# -- who is in the way -----------------------------------------------------------------------------------

HOLD = """
    import sqlite3, sys
    file = sqlite3.connect(sys.argv[1], isolation_level=None)
    file.execute("SELECT count(*) FROM journal").fetchone()
    if sys.argv[2] == "reading":
        file.execute("BEGIN")
        file.execute("SELECT count(*) FROM journal").fetchone()
    elif sys.argv[2] == "writing":
        file.execute("BEGIN IMMEDIATE")
    print("holding", flush=True)
    sys.stdin.readline()
"""


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("what", ["reading", "writing"])
def test_others_at_work_are_waited_for_and_then_reported(path: Path, what: str) -> None:
    store = SQLiteStore(path, analyse=analyse, busy_timeout=timedelta(seconds=0.4))
    with contextlib.closing(store):
        add(store, make_record(1, content=text(1)))
        erase(store, make_removals(make_record(1, content=text(1))))
        other = run(HOLD, path, what)
        assert other.stdout is not None
        assert other.stdout.readline() == "holding\n"
        assert not store.scrub()
        if what == "reading":
            add(store, make_record(2))
        finish(other)
        assert store.scrub()
        assert left_of(path, [text(1)]) == set()
        assert store.check() == []


def test_writers_and_readers_go_on_while_a_store_is_scrubbed(path: Path, store: SQLiteStore) -> None:
    done = threading.Event()

    def write(first: int) -> list[str]:
        acknowledged: list[str] = []
        while not done.is_set():
            one = make_record(first + len(acknowledged))
            add(store, one)
            acknowledged.append(one.id)
        return acknowledged

    def read() -> None:
        while not done.is_set():
            sequence = store.sequence()
            assert len(list(store.find(Filter()))) >= sequence

    with ThreadPoolExecutor(3) as threads:
        writing = [threads.submit(write, first) for first in (1, 10_000)]
        reading = threads.submit(read)
        finished = [store.scrub() for _ in range(5)]
        done.set()
        reading.result()
    assert any(finished)
    assert {one.id for one in store.find(Filter())} == {name for each in writing for name in each.result()}
    assert store.check() == []


SCRUBS = """
    import sys
    from pathlib import Path
    from reverie.stores.sqlite import SQLiteStore
    from reverie.stores.sqlite.database_file import find_passages
    from tests.support.contract.factories import NOW, analyse, make_additions, make_record
    path = Path(sys.argv[1])
    store = SQLiteStore(path, analyse=analyse, passages=find_passages(path.parent))
    store.measure("record", None)
    print("begun", flush=True)
    while True:
        store.scrub()
"""


@pytest.mark.slow
def test_whoever_is_killed_while_scrubbing_has_changed_nothing(path: Path, store: SQLiteStore) -> None:
    removals, texts = secrets_in(store)
    store.erase(removals, actor="owner", at=NOW)
    before, journal = read_contents(store), store.journal()
    for moment in (0.0, 0.003, 0.01, 0.02, 0.05):
        process = run(SCRUBS, path)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert (read_contents(store), store.journal()) == (before, journal)
        assert store.check() == []
    assert store.scrub()
    assert left_of(path, texts) == set()


def test_a_disk_without_room_for_a_second_copy_keeps_no_erased_word(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "reverie.db"
    with small_disk(path.parent, "9m"), contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        records = [make_record(number, content=text(number, words=1000)) for number in range(40)]
        store.commit(make_additions(*records), actor="owner", at=NOW)
        assert store.scrub()
        large = path.stat().st_size
        erase(store, make_removals(*records[:20]))
        (filler := path.with_name("filler")).write_bytes(bytes(shutil.disk_usage(path.parent).free - 8_000))
        assert store.scrub()
        assert not left_of(path, [one.content for one in records[:20]])
        assert path.stat().st_size == large
        filler.unlink()
        assert store.scrub()
        assert path.stat().st_size < large * 0.7
        assert len(list(store.find(Filter()))) == 20
        assert store.check() == []
