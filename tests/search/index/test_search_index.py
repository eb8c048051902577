"""The index follows the journal: the same answers whatever has been committed where."""

from __future__ import annotations

import os
import random
import shutil
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import StoreCorrupt, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.passage import CandidateQuery
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.search.index.tantivy_index import IndexCorrupt, TantivyIndex, WriterBusy
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.sqlite import SQLiteStore
from tests.profiles import examples
from tests.search.index.values import NOON, WORDS, put, record
from tests.support.contract.factories import make_additions

LIVE = Filter()


def wanted(*words: str) -> CandidateQuery:
    return CandidateQuery(words=[(analysed, 1.0) for word in words for analysed in analyse_word(word)])


def analyse_word(word: str) -> list[str]:
    return analyze(record(1, word)).terms.split()


def test_a_question_is_as_current_at_its_end_as_at_its_beginning(store: SQLiteStore, tmp_path: Path) -> None:
    here = SearchIndex(store, tmp_path / "index")
    there = SearchIndex(store, tmp_path / "index")
    put(store, None, record(1, "tea in the garden"))
    has_begun, is_saved = threading.Event(), threading.Event()

    def fold_and_search_in_an_older_view() -> None:
        with store.reading(), here.reading():
            store.sequence()
            has_begun.set()
            is_saved.wait(10)
            assert there.fold()
            here.search_any("record", wanted("tea"), LIVE, 10)

    other = threading.Thread(target=fold_and_search_in_an_older_view)
    other.start()
    assert has_begun.wait(10)
    put(store, None, record(2, "green tea"))
    with store.reading(), here.reading():
        assert len(here.search_any("record", wanted("tea"), LIVE, 10)) == 2
        is_saved.set()
        other.join()
        assert here.frequencies("record", analyse_word("tea"), None) == {"tea": 2}
        assert len(here.search_any("record", wanted("tea"), LIVE, 10)) == 2
    for index in (here, there):
        index.close()


def test_another_index_on_the_same_folder_sees_writes_and_commits(store: SQLiteStore, tmp_path: Path) -> None:
    here, there = (SearchIndex(store, tmp_path / "index") for _ in range(2))
    put(store, None, record(1, "tea in the garden"))
    assert there.search_any("record", wanted("tea"), LIVE, 10) == here.search_any(
        "record", wanted("tea"), LIVE, 10
    )
    assert here.fold()
    assert there.status().waiting == 0
    assert there.status().committed == 1
    put(store, record(1, "tea in the garden"), record(1, "coffee in the garden"))
    assert there.search_any("record", wanted("tea"), LIVE, 10) == []
    assert there.frequencies("record", ["tea", "coffe", "garden"], None) == {
        "tea": 0,
        "coffe": 1,
        "garden": 1,
    }
    here.close()
    there.close()


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "change", "archive", "remove", "fold"]),
        st.integers(0, 9),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
        st.sampled_from(["", "user:ann", "user:bob"]),
    ),
    max_size=25,
)


@settings(max_examples=examples(40), deadline=None)
@given(operations=OPERATIONS)
def test_candidates_and_frequencies_do_not_depend_on_what_was_committed(
    operations: list[tuple[str, int, list[str], str]],
) -> None:
    store = InMemoryStore(analyse=analyze)
    followed = SearchIndex(store, None)
    now: dict[int, Record] = {}
    for number, (what, target, words, scope) in enumerate(operations, start=1):
        if what == "fold":
            followed.fold()
        elif what == "add":
            new = record(number, f"{' '.join(words)} note{number}", scope=scope)
            put(store, None, new)
            now[number] = new
        elif now:
            key = sorted(now)[target % len(now)]
            old = now[key]
            if what == "change":
                now[key] = replace(old, content=f"{' '.join(words)} note{key}")
                put(store, old, now[key]) if now[key] != old else None
            elif what == "archive" and not old.archived:
                now[key] = replace(old, archived_at=NOON)
                put(store, old, now[key])
            elif what == "remove":
                put(store, old, None)
                del now[key]
        if number % 3 == 0:
            followed.frequencies("record", ["tea"], None)  # follow in steps, not only at the end
    fresh = SearchIndex(store, None)
    tokens = [token for word in WORDS for token in analyse_word(word)]
    live = [value for value in now.values() if not value.archived]
    for scopes in (None, ("",), ("user:ann", "user:bob")):
        seen = [value for value in live if scopes is None or value.scope in scopes]
        counted = {token: sum(token in analyze(value).terms.split() for value in seen) for token in tokens}
        assert followed.frequencies("record", tokens, scopes) == counted
        assert fresh.frequencies("record", tokens, scopes) == counted
        allowed = Filter(scopes=scopes)
        for token in tokens:
            one = CandidateQuery(words=[(token, 1.0)])
            found = followed.search_any("record", one, allowed, 50)
            assert len(found) == len(set(found)) == counted[token]
            assert set(found) == set(fresh.search_any("record", one, allowed, 50))


def test_the_index_of_an_earlier_format_is_removed(store: SQLiteStore, tmp_path: Path) -> None:
    earlier, newer = tmp_path / "index" / "1", tmp_path / "index" / "99"
    for folder in (earlier, newer):
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text("{}")
    index = SearchIndex(store, tmp_path / "index" / "2")
    index.status()
    assert not earlier.exists()
    assert newer.exists()
    index.close()


def test_filters_mean_the_same_in_the_commit_and_before_it() -> None:
    store = InMemoryStore(analyse=analyze)
    choose = random.Random(5)
    records = [
        record(
            number,
            f"tea note{number}",
            scope=choose.choice(["", "user:ann"]),
            category=choose.choice([None, "project", "project/reverie", "project-context"]),
            tags=tuple(choose.sample(["a", "b", "c"], 2)),
            kind=choose.choice(["fact", "decision", "lesson"]),
            layer=choose.choice(["semantic", "procedural"]),
            origin=choose.choice(["owner", "web"]),
            pinned=choose.random() < 0.3,
            created_at=NOON + timedelta(days=choose.randint(-5, 5)),
            valid_from=choose.choice([None, NOON - timedelta(days=1), NOON + timedelta(days=1)]),
            valid_to=choose.choice([None, NOON + timedelta(days=2)]),
        )
        for number in range(1, 120)
    ]
    for new in records:
        put(store, None, new)
    filters = [
        Filter(),
        Filter(scopes=("user:ann",)),
        Filter(scopes=("", "user:ann"), categories=("project",)),
        Filter(categories=("project-context",)),
        Filter(tags=("a", "b")),
        Filter(kinds=("decision", "lesson"), layers=("semantic",)),
        Filter(origins=("web",), pinned=True),
        Filter(pinned=False),
        Filter(created_after=NOON - timedelta(days=2), created_before=NOON + timedelta(days=2)),
        Filter(valid_at=NOON),
        Filter(valid_at=NOON + timedelta(days=2)),
    ]
    waiting = SearchIndex(store, None)
    folded = SearchIndex(store, None)
    assert folded.fold()
    for allowed in filters:
        expected = {r.id for r in store.find(allowed)}
        assert expected
        for index in (waiting, folded):
            keys = index.search_any("record", wanted("tea"), allowed, 200)
            assert {r.id for r in store.records(keys)} == expected, allowed


def test_turns_are_found_by_word_speaker_and_date(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index")
    state = SessionState(id="chat:1", created_at=NOON)
    turns = [
        Turn(id=f"{n:012x}", session="chat:1", position=n, role="user", speaker=name, content=text, at=NOON)
        for n, (name, text) in enumerate(
            [("Ann", "I planted roses"), ("Bob", "Lovely roses"), ("Ann", "Thanks")]
        )
    ]
    store.commit([Change(before=None, after=value) for value in (state, *turns)], actor="test", at=NOON)
    for _ in range(2):
        roses = index.search_any("turn", wanted("roses"), Filter(sessions=("chat:1",)), 10)
        assert [t.position for t in sorted(store.turns(roses), key=lambda t: t.position)] == [0, 1]
        by_ann = index.search_any("turn", CandidateQuery(words=[], speakers=[("ann", 1.0)]), Filter(), 10)
        assert sorted(t.position for t in store.turns(by_ann)) == [0, 2]
        in_march = index.search_any("turn", CandidateQuery(words=[], dates=[("@2025-03", 1.0)]), Filter(), 10)
        assert len(in_march) == 3
        assert index.search_any("turn", wanted("roses"), Filter(sessions=("chat:2",)), 10) == []
        index.fold()
    assert index.status().waiting == 0
    index.close()


def test_records_and_paragraphs_are_found_by_their_own_date(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index")
    put(store, None, record(1, "tea"))
    put(store, None, replace(record(2, "coffee"), created_at=NOON + timedelta(days=40)))
    line = Paragraph(id=f"{3:012x}", page=HISTORY, position=1.0, at=NOON, content="A walk in the garden")
    store.commit([Change(before=None, after=line)], actor="test", at=NOON)
    in_march = CandidateQuery(words=[], dates=[("@2025-03", 1.0)])
    for scopes in (None, ("",)):
        for _ in range(2):
            keys = index.search_any("record", in_march, replace(LIVE, scopes=scopes), 10)
            assert [one.content for one in store.records(keys)] == ["tea"]
            keys = index.search_any("paragraph", in_march, Filter(), 10)
            assert [one.id for one in store.paragraphs(keys)] == [line.id]
            assert index.search_any("turn", in_march, Filter(), 10) == []
            index.fold()


def test_an_index_deleted_while_in_use_answers_on_and_comes_back(store: SQLiteStore, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = SearchIndex(store, folder)
    for number in range(1, 30):
        put(store, None, record(number, f"tea note{number}"))
    assert index.fold()
    assert index.status().committed == 29
    shutil.rmtree(folder)
    assert len(index.search_any("record", wanted("tea"), LIVE, 100)) == 29
    put(store, None, record(99, "tea and cake"))
    assert len(index.search_any("record", wanted("tea"), LIVE, 100)) == 30
    _until(lambda: index.status().state == "current")
    assert len(index.search_any("record", wanted("tea"), LIVE, 100)) == 30
    index.fold()
    index.close()
    assert (folder / "meta.json").exists()
    again = SearchIndex(store, folder)
    assert len(again.search_any("record", wanted("tea"), LIVE, 100)) == 30
    assert again.status().committed == 30
    again.close()


@pytest.mark.parametrize("broken", ["meta.json", "segment"])
def test_a_broken_index_is_built_again(store: SQLiteStore, tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "index"
    index = SearchIndex(store, folder)
    for number in range(1, 30):
        put(store, None, record(number, f"tea note{number}"))
    assert index.fold()
    index.close()
    if broken == "meta.json":
        (folder / "meta.json").write_text("{")
    else:
        for file in folder.glob("*.store"):
            file.unlink()
        for file in folder.glob("*.term"):
            file.write_bytes(b"")
    again = SearchIndex(store, folder)
    assert len(again.search_any("record", wanted("tea"), LIVE, 100)) == 29
    again.close()


def test_an_index_of_another_store_is_not_believed(store: SQLiteStore, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = SearchIndex(store, folder)
    for number in range(1, 30):
        put(store, None, record(number, f"tea note{number}"))
    assert index.fold()
    index.close()
    with_less = SQLiteStore(tmp_path / "other.db", analyse=analyze)
    put(with_less, None, record(1, "coffee"))
    other = SearchIndex(with_less, folder)
    assert other.search_any("record", wanted("tea"), LIVE, 10) == []
    assert len(other.search_any("record", wanted("coffee"), LIVE, 10)) == 1
    other.close()
    with_less.close()


def test_where_the_disk_refuses_the_index_is_held_in_memory(
    store: SQLiteStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    index = SearchIndex(store, tmp_path / "file" / "index")
    put(store, None, record(1, "tea in the garden"))
    assert len(index.search_any("record", wanted("tea"), LIVE, 10)) == 1
    assert index.fold()
    assert len(index.search_any("record", wanted("tea"), LIVE, 10)) == 1
    status = index.status()
    assert (status.state, status.committed) == ("in memory", 1)
    assert status.problem
    assert "held in memory" in caplog.text
    index.close()


def test_only_one_writes_the_index_and_the_other_answers(store: SQLiteStore, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = SearchIndex(store, folder)
    put(store, None, record(1, "tea in the garden"))
    index.status()
    holder = TantivyIndex(folder)
    writer = holder._open_writer()
    with pytest.raises(WriterBusy):
        TantivyIndex(folder).write(lambda _: 1)
    assert index.fold() is False
    assert len(index.search_any("record", wanted("tea"), LIVE, 10)) == 1
    del writer
    assert index.fold() is True
    index.close()


def test_much_change_is_folded_in_the_background(store: SQLiteStore, tmp_path: Path) -> None:
    index = SearchIndex(store, tmp_path / "index", fold_at=50)
    for start in range(0, 200, 20):
        new = [record(n, f"tea note{n}") for n in range(start + 1, start + 21)]
        store.commit([Change(before=None, after=value) for value in new], actor="test", at=NOON)
        assert len(index.search_any("record", wanted("tea"), LIVE, 500)) == start + 20
    _until(lambda: index.status().waiting < 50)
    assert len(index.search_any("record", wanted("tea"), LIVE, 500)) == 200
    index.close()
    assert not [t for t in threading.enumerate() if t.name == "reverie-index"]


@pytest.mark.parametrize("forks", [False, True], ids=["", "with a child"])
def test_an_erasure_elsewhere_waits_for_no_load(store: SQLiteStore, tmp_path: Path, forks: bool) -> None:
    here, there = (SearchIndex(store, tmp_path / "index") for _ in range(2))
    new = [record(n, f"tea note{n}") for n in range(1, 1_101)]
    store.commit([Change(before=None, after=value) for value in new], actor="test", at=NOON)
    here.follow_soon()
    _until(lambda: not here._written.is_set())
    if forks and not (child := os.fork()):
        os._exit(threading.Event().wait(60))  # it would keep the lock of the index
    erasing = threading.Thread(target=there.scrub)
    erasing.start()
    for number in range(2_000, 2_080):
        put(store, None, record(number, f"green tea{number}"))
        erasing.join(0.1)
    assert not erasing.is_alive()
    here.close()
    if forks:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize("failure", [StoreUnavailable, StoreCorrupt])
def test_an_index_lost_while_it_is_folded_in_the_background_is_built_again(
    store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    index = SearchIndex(store, tmp_path / "index", fold_at=3)
    index.status()
    writing = TantivyIndex.write
    errors = [IndexCorrupt("File too large"), failure("the disk reports an error")]

    def refuse_twice(self: TantivyIndex, *given: object, **named: object) -> None:
        if errors:
            raise errors.pop(0)
        writing(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(TantivyIndex, "write", refuse_twice)
    store.commit(make_additions(*(record(n, f"tea {n}") for n in range(5))), actor="test", at=NOON)
    assert len(index.search_any("record", wanted("tea"), LIVE, 10)) == 5
    assert index._folding is not None
    index._folding.join()
    assert index.status().state == "rebuilding"
    index._folding.join()
    assert not errors
    assert (index.status().state, index.status().committed) == ("current", 5)
    assert len(index.search_any("record", wanted("tea"), LIVE, 10)) == 5
    index.close()


def test_closing_stops_following(store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = [record(n, f"tea note{n}") for n in range(1, 3_101)]
    store.commit([Change(before=None, after=value) for value in new], actor="test", at=NOON)
    index, read_searched, begun = SearchIndex(store, tmp_path), store.read_searched, threading.Event()

    def read_slowly(*arguments: Any) -> object:
        begun.set()
        _until(lambda: index._closing)
        return read_searched(*arguments)

    monkeypatch.setattr(store, "read_searched", read_slowly)
    index.follow_soon()
    assert begun.wait(10)
    index.close()
    assert TantivyIndex(tmp_path).sequence == 1_000
    assert (SearchIndex(store, tmp_path).status().committed, store.sequence()) == (3_100, 3_100)


def test_a_late_save_counts_once(store: SQLiteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, None, record(1, "tea in the garden"))
    read_searched, late = store.read_searched, [record(2, "green tea")]

    def save_and_read(*arguments: Any, **more: Any) -> object:
        while late:
            put(store, None, late.pop())
        return read_searched(*arguments, **more)

    monkeypatch.setattr(store, "read_searched", save_and_read)
    (index := SearchIndex(store, tmp_path / "index")).rebuild()
    assert index.frequencies("record", analyse_word("tea"), None) == {"tea": 2}


def test_an_index_that_is_deleted_while_it_is_written_is_reported_as_broken(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = TantivyIndex(folder)
    index.write(lambda _: 1)
    shutil.rmtree(folder)
    with pytest.raises(IndexCorrupt):
        index._make_private()


def test_garbage_is_reported_as_broken(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_bytes(b"\x00\x01")
    with pytest.raises(IndexCorrupt):
        TantivyIndex(tmp_path)


def _until(true: object, seconds: float = 10.0) -> None:
    import time

    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)
