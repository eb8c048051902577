"""A memory in PostgreSQL: opened by its URL, searched as in a folder, forgotten honestly."""

from __future__ import annotations

import gc
import json
import os
import random
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from reverie import Memory, Settings
from reverie.consolidation.pair_judge import POSITION
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore, connections
from reverie.stores.postgres.connections import parse_postgres_url
from tests.factories import MovableClock
from tests.stores.postgres.server import OWNER, PostgresServer
from tests.support.contract.replay import replay

SUBJECTS = (
    "deploy",
    "tea",
    "Oslo",
    "invoice",
    "Ms Okafor",
    "the parser",
    "piano",
    "garden",
    "budget",
    "Rust",
)
VERBS = ("prefers", "moved to", "broke on", "is due on", "was paid by", "waits for", "learned", "forgot")
ENDS = ("2026-03-01", "Tuesday", "port 8080", "the blue house", "42 euros", "last week", "staging", "noon?")
QUESTIONS = (
    "When is the invoice due?", "who moved to Oslo", "tea", "deploys on Tuesdays", "8080", "parsr", "Ms Okafor piano",
    "what happened last week", "blue house garden", "2026-03-01", "nothing of this is known: zebra", "budget 42",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(index_cache=str(tmp_path / "cache"))


def fill(memory: Memory, clock: MovableClock) -> None:
    """Save, correct, archive and say things, in several scopes."""
    chance = random.Random(7)
    for number in range(120):
        clock.move(minutes=chance.randint(1, 300))
        place = memory.scoped(chance.choice(("user:a", "user:b"))) if number % 3 else memory
        text = f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {chance.choice(ENDS)} {number}"
        saved = place.save(
            text, category=chance.choice((None, "work", "home/garden")), tags=["x"] if number % 5 else []
        )
        if number % 7 == 0:
            place.archive(saved.record.id)
        elif number % 11 == 0:
            place.update(saved.record.id, content=f"{text}, corrected")
    for name in ("chat:1", "chat:2"):
        session = memory.session(name)
        for number in range(30):
            clock.move(minutes=2)
            session.add(
                "user" if number % 2 else "assistant", f"{chance.choice(SUBJECTS)} {chance.choice(ENDS)}?"
            )


def search_everything(memory: Memory) -> list[str]:
    """Return all answers with their scores and reasons, as text."""
    found = []
    for place in (memory, memory.scoped("user:a"), memory.scoped("user:b")):
        for question in QUESTIONS:
            for filters in ({}, {"category": "work", "tags": "x", "kind": "fact"}):
                hits = place.search(question, limit=20, **filters)
                found += [json.dumps(hit.to_dict(), sort_keys=True, default=str) for hit in hits]
                found.append(f"{question} {filters}: {len(hits)}")
    return found


def test_another_machine_finds_at_once_what_one_has_saved(url: str, tmp_path: Path) -> None:
    here, there = (Settings(index_cache=str(tmp_path / name)) for name in ("here", "there"))
    with Memory.open(url, settings=here) as one, Memory.open(url, settings=there) as two:
        for number in range(5):
            saver, finder = (one, two) if number % 2 else (two, one)
            saver.save(f"The code of door {number} is blue")
            assert finder.search(f"door {number}")[0].content == f"The code of door {number} is blue"


@pytest.mark.slow
def test_searches_are_those_of_sqlite_to_the_last_byte(url: str, settings: Settings, tmp_path: Path) -> None:
    clock = MovableClock()
    with Memory.open(tmp_path / "memory", settings=Settings(files="none"), clock=clock) as in_folder:
        fill(in_folder, clock)
        in_folder.dreams.judge_pending()
        rows = in_folder.history._store.journal(limit=100_000)
        with closing(PostgresStore(url, analyse=analyze)) as store:
            replay(rows, store)
            assert store.journal(limit=100_000) == rows
            store.commit([], actor="test", at=clock(), cursors={POSITION: str(len(rows))})
        with Memory.open(url, settings=settings, clock=clock) as in_database:
            expected = search_everything(in_folder)
            assert len(expected) > 300
            assert search_everything(in_database) == expected
        with Memory.open(url, settings=settings, clock=clock) as opened_again:
            assert search_everything(opened_again) == expected


def test_what_was_forgotten_is_gone_and_what_the_server_keeps_is_said(
    postgres: PostgresServer, url: str, settings: Settings, tmp_path: Path
) -> None:
    word = "".join(random.choices("bcdfglmnprst", k=24))
    with Memory.open(url, settings=settings) as memory:
        memory.save(f"A bird by the name of {word} lives here")
        memory.save("Likes tea")
        report = memory.admin.forget(match=word, dry_run=False)
        assert memory.search(word) == []
        assert report.pending == ()
        assert all(
            place in report.notes[-1]
            for place in ("write-ahead log", "backups of the server", "other machines")
        )
        assert memory.admin.check() == []
    postgres.execute("agents", "CHECKPOINT")
    for folder in (postgres.data / "base", tmp_path):
        holding = [
            path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
        ]
        assert holding == []


def test_a_copy_of_a_database_has_an_index_of_its_own(
    postgres: PostgresServer, settings: Settings, tmp_path: Path
) -> None:
    first, second = (f"d{uuid.uuid4().hex}" for _ in range(2))
    postgres.execute("postgres", f"CREATE DATABASE {first} OWNER {OWNER}")
    with Memory.open(postgres.url("acme", database=first), settings=settings) as memory:
        memory.save("The first one")
    postgres.execute("postgres", f"CREATE DATABASE {second} TEMPLATE {first} OWNER {OWNER}")
    for database, word in ((first, "candle"), (second, "lamp"), (first, "")):
        with Memory.open(postgres.url("acme", database=database), settings=settings) as memory:
            if word:
                memory.save_many(f"House {number} has a {word}" for number in range(250))
            assert bool(memory.search("candle")) == (database == first)
            assert bool(memory.search("lamp")) == (database == second)
            assert not memory.admin.doctor().findings
    for database in (first, second):
        postgres.execute("postgres", f"DROP DATABASE {database} WITH (FORCE)")


def test_memories_that_nobody_uses_are_released_without_being_closed(url: str, settings: Settings) -> None:
    gc.disable()  # a program with many objects collects seldom
    try:
        for number in range(12):
            memory = Memory.open(url, settings=settings)
            memory.save(f"Ferry {number} leaves at nine")
            assert memory.search("ferry")
        open_files = len(os.listdir("/proc/self/fd"))
        del memory
        until = time.monotonic() + 10
        address = parse_postgres_url(url).connection
        while any(place[1] == address for place in list(connections._pools)):
            assert time.monotonic() < until, address
            time.sleep(0.02)
        assert len(os.listdir("/proc/self/fd")) < open_files < 100
    finally:
        gc.enable()
