"""Search by postings in the database: the same answers, kept apart, forgotten and checked as all else."""

from __future__ import annotations

import random
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import InvalidInput, Memory, Settings
from reverie.admin.transfer.copying import copy_memory
from reverie.interfaces.cli.main import cli
from reverie.search.analyzer import analyze
from reverie.search.index.inverted_index import compute_brevity, compute_emphasis
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from tests.factories import MovableClock
from tests.profiles import examples
from tests.stores.postgres.server import PostgresServer
from tests.stores.postgres.test_memory import ENDS, SUBJECTS, VERBS, fill, search_everything
from tests.support.contract.factories import (
    make_additions,
    make_paragraph,
    make_removals,
)
from tests.support.contract.replay import replay

TABLES = "&index=tables"


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.url(uuid.uuid4().hex)


def execute_within(url: str, statement: str) -> None:
    """Run a statement as the owner of the tables, on the rows of one memory."""
    address = parse_postgres_url(url)
    with psycopg.connect(address.connection) as connection:
        connection.execute(
            "SELECT set_config('reverie.space', id::text, true) FROM reverie.space WHERE name = %s",
            [address.memory],
        )
        connection.execute(statement)


def read_postings(url: str) -> list[tuple[Any, ...]]:
    """Return all postings of a memory."""
    address = parse_postgres_url(url)
    with psycopg.connect(address.connection) as connection:
        connection.execute(
            "SELECT set_config('reverie.space', id::text, true) FROM reverie.space WHERE name = %s",
            [address.memory],
        )
        return connection.execute("SELECT * FROM reverie.posting").fetchall()


def test_the_url_chooses_the_index() -> None:
    address = parse_postgres_url("postgresql://db/agents?memory=a%20b&index=tables&sslmode=require")
    assert (address.index, address.memory) == ("tables", "a b")
    assert address.connection == "postgresql://db/agents?sslmode=require"
    assert parse_postgres_url(address.build_url("other")).index == "tables"
    assert parse_postgres_url("postgresql://db/agents").index == "cache"
    for wrong in ("index=", "index=table", "index=tables&index=tables"):
        with pytest.raises(InvalidInput, match="index=tables"):
            parse_postgres_url(f"postgresql://db/agents?{wrong}")


def test_weights_in_the_database_are_those_of_the_index_in_memory(url: str) -> None:
    PostgresStore(url, analyse=analyze).close()
    with psycopg.connect(parse_postgres_url(url).connection) as connection:
        brevities = connection.execute(
            "SELECT n, p.brevity FROM generate_series(0, 20000) AS n, "
            "LATERAL reverie.list_postings('record', n, '', '', '', ' tea ') AS p ORDER BY n"
        ).fetchall()
        emphases = connection.execute(
            "SELECT n, p.emphasis FROM generate_series(1, 20) AS n, "
            "LATERAL reverie.list_postings('turn', 9, '', '', '', repeat(' tea ', n)) AS p ORDER BY n"
        ).fetchall()
    assert brevities == [(length, compute_brevity(length)) for length in range(20_001)]
    assert emphases == [(times, compute_emphasis(times)) for times in range(1, 21)]


# -- the same answers ----------------------------------------------------------------------------------


def assert_same_answers(url: str, folder: Path, clock: MovableClock, *, is_made_last: bool) -> None:
    """Compare what a folder finds with what its journal lets a database find, by an index and by tables."""
    with Memory.open(folder, settings=Settings(files="none"), clock=clock) as memory:
        rows = memory.history._store.journal(limit=100_000)
        expected = search_everything(memory)
    with closing(PostgresStore(url if is_made_last else url + TABLES, analyse=analyze)) as store:
        replay(rows, store)
        assert store.journal(limit=100_000) == rows
    cached = Settings(index_cache=str(folder / "cache"))
    with Memory.open(url, settings=cached, clock=clock) as memory:
        assert search_everything(memory) == expected
    with Memory.open(url + TABLES, clock=clock) as memory:
        assert search_everything(memory) == expected
        assert memory.admin.check() == []
        assert not memory.admin.doctor().findings


def act_at_random(memory: Memory, clock: MovableClock, chance: random.Random, steps: int) -> None:
    """Do what makes, changes, hides and removes passages."""
    saved: list[tuple[Any, str]] = []
    store = memory.history._store
    for number in range(steps):
        clock.move(minutes=chance.randint(1, 2_000))
        text = (
            f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {chance.choice(ENDS)} {chance.randint(0, 9)}"
        )
        place = memory.scoped(chance.choice(("user:a", "user:b"))) if chance.random() < 0.7 else memory
        match chance.randint(0, 9):
            case 0 if saved:
                place, name = chance.choice(saved)
                place.archive(name)
            case 1 if saved:
                place, name = chance.choice(saved)
                if not place.get(name).archived:
                    place.update(name, content=f"{text} {text}", category=chance.choice((None, "work")))
            case 2:
                memory.session(chance.choice(("chat:1", "chat:2"))).add("user", f"{text}?")
            case 3:
                paragraph = make_paragraph(number, content=f"{text}.", at=clock())
                store.commit(make_additions(paragraph), actor="owner", at=clock())
                if chance.random() < 0.3:
                    store.commit(make_removals(paragraph), actor="owner", at=clock())
            case _:
                record = place.save(
                    text * chance.randint(1, 3),
                    category=chance.choice((None, "work", "work/deploys", "home")),
                    tags=chance.choice(([], ["x"])),
                    ttl=chance.choice((None, None, "1h", "90d")),
                    origin=chance.choice(("owner", "tool")),
                ).record
                saved.append((place, record.id))


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(
    max_examples=examples(40),
    deadline=None,
)
@given(seed=st.integers(0, 100_000), steps=st.integers(1, 60), is_made_last=st.booleans())
def test_answers_are_the_same_after_any_changes(
    postgres: PostgresServer, tmp_path: Path, seed: int, steps: int, is_made_last: bool
) -> None:
    clock, folder = MovableClock(), tmp_path / uuid.uuid4().hex
    with Memory.open(folder, settings=Settings(files="none"), clock=clock) as memory:
        act_at_random(memory, clock, random.Random(seed), steps)
    assert_same_answers(postgres.url(uuid.uuid4().hex), folder, clock, is_made_last=is_made_last)


def test_what_is_saved_is_found_and_folded_by_everyone_at_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Memory.open(url + TABLES) as one, Memory.open(url + TABLES) as two:
        for number in range(4):
            saver, finder = (one, two) if number % 2 else (two, one)
            saver.save(f"The code of door {number} is blue")
            assert finder.search(f"door {number}")[0].content == f"The code of door {number} is blue"
        assert one.save("the code of door 3 is blue").outcome == "reinforced"
        assert [hit.content for hit in two.search("dooor blu 2", limit=1)] == ["The code of door 2 is blue"]
        status = one.admin.stats().index
        assert (status.state, status.committed, status.waiting) == ("current", 4, 0)
        assert status.sequence == one.admin.stats().journal
    assert list(tmp_path.iterdir()) == [], "nothing is kept on this machine"


def test_programs_without_tables_maintain_them_too(url: str, tmp_path: Path) -> None:
    with Memory.open(url, settings=Settings(index_cache=str(tmp_path))) as memory:
        memory.save("Ms Okafor plays the piano")
        assert read_postings(url) == []
        with Memory.open(url + TABLES) as by_tables:
            saved = memory.save("The parser broke on Tuesday").record
            assert by_tables.search("parser")[0].record == saved
            memory.update(saved.id, content="The tokenizer broke on Tuesday")
            assert by_tables.search("parser") == []
            assert by_tables.search("tokenizer")[0].id == saved.id
            memory.archive(saved.id)
            assert by_tables.search("tokenizer") == []
            memory.history.undo(memory.history.log(newest_first=True)[0])
            assert by_tables.search("tokenizer")[0].id == saved.id
            assert memory.admin.check() == []


# -- kept apart, forgotten, checked, copied ------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 3])
def test_a_forgotten_word_is_in_no_posting_and_no_file(
    postgres: PostgresServer, url: str, others: int
) -> None:
    word = "".join(random.choices("bcdfglmnprst", k=24))
    with Memory.open(url + TABLES) as memory:
        memory.save(f"A bird by the name of {word} lives here")
        for number in range(others):
            memory.save(f"Likes tea number {number}")
        assert word in {row[5] for row in read_postings(url)}
        memory.admin.forget(match=word, dry_run=False)
        assert memory.search(word) == []
        assert memory.admin.check() == []
        assert word not in {row[5] for row in read_postings(url)}
        assert (others == 0) == (read_postings(url) == [])
    postgres.execute("agents", "CHECKPOINT")
    files = [path for path in (postgres.data / "base").rglob("*") if path.is_file()]
    assert [path for path in files if word.encode() in path.read_bytes()] == []


def test_postings_that_differ_are_reported_and_made_again(url: str, tmp_path: Path) -> None:
    with Memory.open(url + TABLES) as memory:
        for text in ("Likes tea", "Lives in Oslo", "Plays the piano"):
            memory.save(text)
        good = sorted(read_postings(url))
        for damage in (
            "DELETE FROM reverie.posting WHERE token = 'oslo'",
            "UPDATE reverie.posting SET emphasis = 7 WHERE token = 'tea'",
            "INSERT INTO reverie.posting SELECT 99, space, 2, 9, 'rw', 'zebra', '' FROM reverie.posting LIMIT 1",
        ):
            execute_within(url, damage)
            assert [problem.what for problem in memory.admin.check()] == [
                "postings of search: they differ from the passages"
            ]
            done = CliRunner().invoke(
                cli, ["doctor", "--fix", "--store", url], env={"XDG_CACHE_HOME": str(tmp_path)}
            )
            assert "postings of search" in done.output
            assert memory.admin.check() == []
            assert sorted(read_postings(url)) == good


def test_a_copy_into_a_database_has_postings_if_its_url_says_so(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    clock = MovableClock()
    with Memory.open(tmp_path / "from", settings=Settings(files="none"), clock=clock) as memory:
        fill(memory, clock)
        memory.dreams.judge_pending()
        expected = search_everything(memory)
    copy_memory(str(tmp_path / "from"), url + TABLES)
    assert read_postings(url) != []
    with Memory.open(url + TABLES, clock=clock) as memory:
        assert search_everything(memory) == expected
        assert memory.admin.check() == []
