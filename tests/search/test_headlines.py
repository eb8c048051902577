"""What is shown of records that have a headline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie import Change, Memory
from reverie.domain.headlines import build_headline
from reverie.domain.record import Record
from reverie.domain.text import tokenizer
from reverie.domain.text.ids import generate_id
from reverie.files.rebuild import rebuild
from reverie.search.analyzer import analyze
from reverie.search.headlines import Cluster
from tests.factories import NOW
from tests.support.contract.factories import make_record

FAMILY = ("Bea's daughter is called Mia", "Bea's husband is called Tom", "Bea has a dog that is called Rex")
SUM = "Bea lives with Tom, Mia and Rex"


def add_headline(memory: Memory, parts: Sequence[Record], content: str, **fields: Any) -> Record:
    headline = build_headline(parts, content, id=generate_id(), now=memory._clock(), **fields)
    memory._parts.writer.commit([Change(before=None, after=headline)], note="test")
    return headline


def save(memory: Memory, *texts: str, **fields: Any) -> list[Record]:
    return [memory.save(text, **fields).record for text in texts]


def contents(hits: Sequence[Any]) -> list[str]:
    return [hit.content for hit in hits]


def test_a_headline_stands_for_its_parts_where_another_record_answers_better(memory: Memory) -> None:
    headline = add_headline(memory, save(memory, *FAMILY), SUM)
    save(memory, "Bea works in a bakery")
    hits = memory.search("Where does Bea work?")
    assert contents(hits) == ["Bea works in a bakery", SUM]
    assert hits[1].record == headline
    assert "headline over" in str(hits[1].explanation)


def test_what_was_asked_for_is_shown_as_it_was_saved(memory: Memory) -> None:
    add_headline(memory, save(memory, *FAMILY), "Bea's dog Tom and daughter Rex are called Mia's")
    assert contents(memory.search("What is Bea's daughter called?"))[0] == FAMILY[0]
    assert contents(memory.search("dog"))[:1] == [FAMILY[2]]


def test_a_headline_without_the_words_of_a_part_never_stands_for_it(memory: Memory) -> None:
    add_headline(memory, save(memory, "Bea likes tea", "Bea likes long walks at night"), "She likes much")
    save(memory, "Bea works in a bakery")
    shown = contents(memory.search("Where does Bea work?"))
    assert {"Bea likes tea", "Bea likes long walks at night"} <= {*shown}


@pytest.mark.timeout(60)
def test_a_long_run_of_full_stops_is_read_once() -> None:
    headline = make_record(3)
    cluster = Cluster(headline, parts=(), told=(), tokens=frozenset(), sentences=frozenset())
    assert not cluster.repeats(make_record(1, content=f"{'。' * 60_000}x"))


def test_a_headline_stands_for_what_it_repeats_word_for_word(memory: Memory) -> None:
    add_headline(memory, save(memory, "Bea likes tea", "Bea likes jazz"), "Bea likes jazz. Bea likes tea.")
    assert contents(memory.search("What does Bea like?")) == ["Bea likes jazz. Bea likes tea."]


def test_a_headline_is_not_found_by_its_own_words(memory: Memory) -> None:
    parts = save(memory, *FAMILY)
    add_headline(memory, parts, "Bea's quartet: Tom, Mia and Rex")
    assert memory.search("quartet") == []
    assert memory.search("quartet", mode="literal") == []
    before = {hit.id: hit.explanation.matched for hit in memory.search("Tom")}
    assert before == {parts[1].id: ("tom",)}


def test_headlines_change_no_score(memory: Memory) -> None:
    parts = save(memory, *FAMILY, "Bea works in a bakery")
    before = [(hit.id, hit.score) for hit in memory.search("bakery work")]
    add_headline(memory, parts[:2], "Bea's family are Tom and Mia")
    assert [(hit.id, hit.score) for hit in memory.search("bakery work")] == before


def test_a_list_shows_the_headline_in_place_of_its_parts_and_the_parts_when_asked(memory: Memory) -> None:
    parts = save(memory, *FAMILY)
    headline = add_headline(memory, parts, SUM)
    (other,) = save(memory, "Bea works in a bakery")
    for order in ("newest", "oldest"):
        assert {each.id for each in memory.list(order=order)} == {headline.id, other.id}  # type: ignore[arg-type]
    assert {each.id for each in memory.list(parts=True)} == {other.id, *(part.id for part in parts)}
    assert [hit.record for hit in memory.search()][1:] == [headline]
    assert memory.list(limit=1, offset=1) == [headline]


def test_a_headline_no_longer_counts_when_a_part_has_changed(memory: Memory) -> None:
    for number, change in enumerate(
        (
            lambda parts, headline: memory.archive(parts[0].id),
            lambda parts, headline: memory.update(parts[0].id, content="Bea's daughter is called Maya"),
            lambda parts, headline: memory.update(parts[0].id, valid_to=NOW),
            lambda parts, headline: memory.archive(headline.id),
        )
    ):
        parts = save(memory, *(f"{text} ({number})" for text in FAMILY))
        headline = add_headline(memory, parts, f"{SUM} ({number})")
        assert headline in memory.list()
        change(parts, headline)
        listed = memory.list(limit=100)
        assert headline not in listed
        assert {part.id for part in parts[1:]} <= {each.id for each in listed}


def test_a_part_that_the_headline_leaves_out_is_always_shown(memory: Memory) -> None:
    parts = save(memory, *FAMILY)
    headline = add_headline(memory, parts, SUM, left_out=[parts[2].id])
    assert {each.id for each in memory.list()} == {headline.id, parts[2].id}
    save(memory, "Bea works in a bakery")
    assert FAMILY[2] in contents(memory.search("Where does Bea work?"))


def test_a_headline_takes_no_repetition_and_hinders_no_save(memory: Memory) -> None:
    headline = add_headline(memory, save(memory, *FAMILY), SUM)
    saved = memory.save(SUM)
    assert saved.outcome == "created"
    assert memory.get(headline.id) == headline


def test_a_filter_that_the_headline_does_not_pass_shows_its_parts(memory: Memory) -> None:
    parts = [
        memory.save(text, category=category).record
        for text, category in zip(FAMILY, ("a", "b", "b"), strict=True)
    ]
    add_headline(memory, parts, SUM, category="a")
    assert {each.id for each in memory.list(category="b")} == {parts[1].id, parts[2].id}


def test_a_headline_of_one_scope_is_seen_in_no_other(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    parts = [alice.save(text).record for text in FAMILY]
    headline = add_headline(memory, parts, SUM)
    assert memory.scoped("user:bob").list() == []
    assert alice.list() == [headline]


def test_undo_removes_the_headline(memory: Memory) -> None:
    parts = save(memory, *FAMILY)
    headline = add_headline(memory, parts, SUM)
    (entry,) = memory.history.log(headline.id)
    memory.history.undo(entry.batch)
    assert memory.get(headline.id) is None
    assert {each.id for each in memory.list()} == {part.id for part in parts}


WORDS = (
    *("bea", "tom", "mia", "rex", "dog", "cat", "tea", "port"),
    *("80", "443", "may", "june", "not", "never", "likes", "runs"),
)
TEXTS = st.lists(st.sampled_from(WORDS), min_size=2, max_size=6, unique=True).map(" ".join)


@given(
    clusters=st.lists(
        st.tuples(
            st.lists(TEXTS, min_size=2, max_size=4, unique=True), st.lists(TEXTS, min_size=1, max_size=3)
        ),
        min_size=1,
        max_size=3,
    ),
    others=st.lists(TEXTS, max_size=3),
    question=TEXTS,
)
def test_what_the_question_matched_is_what_is_shown(
    clusters: list[tuple[list[str], list[str]]], others: list[str], question: str
) -> None:
    with Memory.open(":memory:") as memory:
        save(memory, *others)
        made = [(save(memory, *texts), ". ".join(said)) for texts, said in clusters]
        before = memory.search(question, limit=50)
        under: dict[str, Record] = {}
        for parts, said in made:
            chosen = list({part.id: part for part in parts if part.id not in under}.values())
            if len(chosen) > 1:
                headline = add_headline(memory, chosen, said)
                under |= {part.id: headline for part in chosen}
        after = memory.search(question, limit=50)
        shown = {hit.id for hit in after}
        best = [
            hit
            for hit in before
            if not any(set(hit.explanation.matched) < set(o.explanation.matched) for o in before)
        ]
        for hit in before:
            if hit.id in shown:
                continue
            headline = under[hit.id]
            assert headline.id in shown
            assert set(hit.explanation.matched) <= {*tokenizer.tokenize(headline.content)}
            if hit in best:
                assert hit.content in re.split(r"\. ", headline.content), (
                    "what was asked for is shown in full"
                )
        assert shown <= {hit.id for hit in before} | {each.id for each in under.values()}


def test_a_headline_comes_through_export_import_and_a_rebuild_of_the_folder(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "one") as memory:
        headline = add_headline(memory, save(memory, *FAMILY), SUM)
        listed = memory.list()
        assert listed == [headline]
        memory.admin.export(tmp_path / "all.jsonl")
        memory.folder.sync()  # type: ignore[union-attr]
    with Memory.open(tmp_path / "two") as other:
        other.admin.import_from(tmp_path / "all.jsonl")
        assert other.list() == listed
    (tmp_path / "one" / "reverie.db").unlink()
    rebuild(tmp_path / "one", analyse=analyze)
    with Memory.open(tmp_path / "one") as memory:
        assert memory.list() == listed
        assert memory.admin.check() == []


def test_a_headline_that_somebody_words_anew_is_a_record_and_found(tmp_path: Path) -> None:
    for way in ("update", "by hand", "pin"):
        reword_headline(tmp_path / way, way)


def reword_headline(folder: Path, way: str) -> None:
    with Memory.open(folder) as memory:
        parts = save(memory, *FAMILY)
        headline = add_headline(memory, parts, "Bea's household: Tom, Mia and Rex")
        memory.folder.sync()  # type: ignore[union-attr]
        wording = headline.content if way == "pin" else "Bea's household: Tom, Mia, Rex and a parrot"
        if way == "update":
            memory.update(headline.id, content=wording)
        elif way == "pin":
            memory.update(headline.id, pinned=True)
        else:
            (file,) = (
                page for page in folder.rglob("*.md") if headline.id in page.read_text(encoding="utf-8")
            )
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(headline.content, wording), encoding="utf-8")
            memory.folder.sync()  # type: ignore[union-attr]
        assert contents(memory.search("household")) == [wording]
        assert {each.id for each in memory.list()} == {headline.id, *(part.id for part in parts)}
        assert memory.admin.check() == []


def test_a_prompt_for_a_question_shows_what_was_saved_and_not_the_headline(memory: Memory) -> None:
    parts = save(memory, *FAMILY)
    add_headline(memory, parts, "Bea's daughter Tom, her husband Rex and her dog Mia")
    prompt = memory.session("cli:1").context("What is Bea's husband called?").text
    assert FAMILY[1] in prompt
    assert "her dog Mia" not in prompt
