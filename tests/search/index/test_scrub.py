"""What was forgotten is in no file of the index, and is counted by nobody who follows the journal."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.change import Change
from reverie.domain.filter import Filter
from reverie.domain.passage import CandidateQuery
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.search.index import search_index
from reverie.search.index.search_index import SearchIndex
from reverie.search.index.tantivy_index import TantivyIndex
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from tests.profiles import examples
from tests.search.index.values import NOON, WORDS, put, record

TOKENS = [
    token
    for word in WORDS
    for token in analyze(
        Record(id="1" * 12, content=word, created_at=NOON, updated_at=NOON, last_seen_at=NOON)
    ).terms.split()
]


def forget(store: Store, before: Record, after: Record | None = None) -> None:
    store.erase([Change(before=before, after=after)], actor="test", at=NOON)


def found(index: SearchIndex, token: str) -> list[int]:
    return index.search_any("record", CandidateQuery(words=[(token, 1.0)]), Filter(), 500)


def terms(folder: Path) -> set[str]:
    """Every word in the dictionaries of the commit on disk, whether a passage that lives has it or not."""
    searcher = tantivy.Index.open(str(folder)).searcher()
    fields = ("record_words", "turn_words", "marks", "labels")
    return {term for field in fields for term, *_ in searcher.terms_with_prefix(field, "")}


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "add",
                "add",
                "change",
                "archive",
                "remove",
                "fold",
                "forget",
                "forget the past",
                "scrub",
                "look",
            ]
        ),
        st.integers(0, 9),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        st.sampled_from(["", "user:ann", "user:bob"]),
    ),
    max_size=30,
)


def change(store: Store, now: dict[int, Record], what: str, target: int, new: Record) -> None:
    """Change one of the records there are now, or add the new one."""
    if what == "add":
        now[int(new.id, 16)] = new
        put(store, None, new)
    elif now:
        key = sorted(now)[target % len(now)]
        old = now.pop(key)
        if what == "remove":
            put(store, old, None)
        elif what == "forget":
            forget(store, old)
        else:
            after = replace(old, archived_at=NOON) if what == "archive" else replace(old, content=new.content)
            now[key] = after
            (forget if what == "forget the past" else put)(store, old, after)


@settings(max_examples=examples(60), deadline=None)
@given(operations=OPERATIONS)
def test_whoever_follows_finds_and_counts_as_if_it_had_never_been_said(
    operations: list[tuple[str, int, list[str], str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("index") / "index"
    store = InMemoryStore(analyse=analyze)
    here, there = (SearchIndex(store, folder) for _ in range(2))
    now: dict[int, Record] = {}
    for number, (what, target, words, scope) in enumerate(operations, start=1):
        if what == "fold":
            here.fold()
        elif what == "scrub":
            assert here.scrub()
        elif what == "look":
            there.frequencies("record", TOKENS, None)
        else:
            change(store, now, what, target, record(number, f"{' '.join(words)} note{number}", scope=scope))
    fresh = SearchIndex(store, None)
    live = [value for value in now.values() if not value.archived]
    for scopes in (None, ("",), ("user:ann", "user:bob")):
        seen = [value for value in live if scopes is None or value.scope in scopes]
        counted = {token: sum(token in analyze(value).terms.split() for value in seen) for token in TOKENS}
        for index in (here, there, fresh):
            assert index.frequencies("record", TOKENS, scopes) == counted
            for token in TOKENS:
                keys = index.search_any(
                    "record", CandidateQuery(words=[(token, 1.0)]), Filter(scopes=scopes), 50
                )
                assert len(keys) == len(set(keys)) == counted[token]
    keys_there = there.collect_keys("record")
    assert keys_there == fresh.collect_keys("record")
    for index in (here, there, fresh):
        index.close()


def test_a_scrubbed_index_has_no_word_of_what_went_in_any_file(store: SQLiteStore, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index, other = (SearchIndex(store, folder) for _ in range(2))
    secret = record(
        1, "quokka beside the lighthouse", tags=("wombat",), category="numbat/bilby", scope="dingo"
    )
    put(store, None, secret)
    for number in range(2, 40):
        put(store, None, record(number, f"tea note{number}"))
    assert index.fold()
    put(store, record(2, "tea note2"), record(2, "tea of kookaburra"))
    assert index.fold()
    assert len(found(other, "quokka")) == 1
    assert len(found(other, "kookaburra")) == 1
    (folder / "left-by-somebody.tmp").write_text("quokka")
    labels = {"tag=wombat", "category=numbat", "category=numbat/bilby", "scope=dingo"}
    words = {"quokka", "kookaburra", *labels}
    assert words <= terms(folder), "else this test could not fail"

    forget(store, secret)
    forget(store, record(2, "tea of kookaburra"), record(2, "tea note2"))
    for one in (index, other):
        assert found(one, "quokka") == found(one, "kookaburra") == []
        assert one.frequencies("record", ["quokka", "kookaburra", "tea"], None) == {
            "quokka": 0,
            "kookaburra": 0,
            "tea": 38,
        }
    assert words & terms(folder), "a forgotten word is in the files until they are emptied"
    assert index.scrub()
    assert not words & terms(folder)
    assert not (folder / "left-by-somebody.tmp").exists()
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    for file in folder.iterdir():
        assert b"quokka" not in file.read_bytes()
    for one in (index, other):
        assert one.frequencies("record", ["quokka", "tea"], None) == {"quokka": 0, "tea": 38}
        assert len(found(one, "tea")) == 38
    index.close()
    other.close()


def test_an_emptied_index_goes_on_from_its_open_files_and_is_built_again(
    store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_REBUILD_AT", 20)
    monkeypatch.setattr(search_index, "_QUIET_S", 1_000)
    folder = tmp_path / "index"
    index, other, closed = (SearchIndex(store, folder) for _ in range(3))
    secret = record(1, "quokka tea")
    put(store, None, secret)
    for number in range(2, 40):
        put(store, None, record(number, f"tea note{number}"))
    assert all(len(found(one, "tea")) == 39 for one in (index, other, closed))
    forget(store, secret)
    assert index.scrub()
    assert "tea" not in terms(folder)
    for one in (index, other, closed):
        assert one.status().state == "rebuilding"
        assert len(found(one, "tea")) == 38
        assert one.frequencies("record", ["quokka", "tea"], None) == {"quokka": 0, "tea": 38}
    closed.close()
    assert "tea" in terms(folder), "who closes builds it for the next process"
    monkeypatch.setattr(search_index, "_QUIET_S", 0)
    deadline = time.monotonic() + 60
    while {one.status().state for one in (index, other)} != {"current"} and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "quokka" not in terms(folder)
    for one in (index, other):
        assert one.status().waiting == 0
        assert len(found(one, "tea")) == 38
        one.close()


def test_the_index_stores_no_text_beside_its_words(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index")
    put(store, None, record(1, "quokka beside the lighthouse"))
    assert index.fold()
    searcher = tantivy.Index.open(str(tmp_path / "index")).searcher()
    hits = searcher.search(tantivy.Query.all_query(), 10).hits
    assert len(hits) == 2
    assert [searcher.doc(address).to_dict() for _, address in hits] == [{}, {}]
    index.close()


FOLLOW = """
import sys
from pathlib import Path
from reverie.search.analyzer import analyze
from reverie.domain.filter import Filter
from reverie.search.index.search_index import SearchIndex
from reverie.domain.passage import CandidateQuery
from reverie.stores.sqlite import SQLiteStore
store = SQLiteStore(Path(sys.argv[1]) / "reverie.db", analyse=analyze)
index = SearchIndex(store, Path(sys.argv[1]) / "index")
for _ in sys.stdin:
    found = index.search_any("record", CandidateQuery(words=[("quokka", 1.0)]), Filter(), 10)
    print(len(found), *index.frequencies("record", ["quokka", "tea"], None).values(), flush=True)
"""


@pytest.mark.slow
def test_another_process_that_has_everything_open_follows(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index")
    secret = record(1, "quokka tea")
    put(store, None, secret)
    for number in range(2, 30):
        put(store, None, record(number, f"tea note{number}"))
    assert index.fold()
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOW, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def answer() -> str:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write("\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        assert answer() == "1 1 29"
        forget(store, secret)
        assert answer() == "0 0 28"
        assert index.scrub()
        assert answer() == "0 0 28"
        assert "quokka" not in terms(tmp_path / "index")
        put(store, None, record(99, "another quokka"))
        assert answer() == "1 1 28"
        other.stdin.close()
        assert other.wait(timeout=30) == 0
    index.close()


def test_a_scrub_waits_for_another_writer_and_says_when_it_was_in_vain(
    store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    index = SearchIndex(store, folder)
    secret = record(1, "quokka")
    put(store, None, secret)
    assert index.fold()
    forget(store, secret)
    writer = TantivyIndex(folder)._open_writer()
    monkeypatch.setattr(search_index, "_WAIT_FOR_SCRUB_S", 0.2)
    assert index.scrub() is False
    assert found(index, "quokka") == []
    del writer
    assert index.scrub() is True
    assert "quokka" not in terms(folder)
    index.close()


def test_an_index_that_was_deleted_is_scrubbed_and_built_again(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index")
    put(store, None, record(1, "tea"))
    assert index.fold()
    for file in (tmp_path / "index").iterdir():
        file.unlink()
    assert index.scrub()
    assert len(found(index, "tea")) == 1
    index.close()
