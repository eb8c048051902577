"""Background thinking over a real store: what it changes can be undone, and what it loses is nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from evaluation.measures.scripted_verifier import answer_check, collect_strings

from reverie.consolidation.dreams import Dreams
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import ModelUnavailable
from reverie.domain.filter import Filter
from reverie.domain.record import Record
from reverie.domain.text.ids import generate_id
from reverie.llm import model_from_function
from reverie.llm.protocol import ModelReply, ModelRequest
from reverie.search.analyzer import analyze
from reverie.settings import Settings
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.writer import StoreWriter
from tests.factories import make_record
from tests.support.contract.factories import undo_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(content: str, **more: object) -> Record:
    return make_record(**{"id": generate_id(), "content": content, "moment": NOW, **more})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    found = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield found
    found.close()


def dreaming(
    store: SQLiteStore, answer: Callable[[ModelRequest], str | ModelReply] | None = None, **more: object
) -> Dreams:
    model = None if answer is None else model_from_function(answer)
    writer = StoreWriter(store=store, clock=lambda: NOW)
    given = {"settings": Settings(), "plan_records": lambda records: [], **more}
    return Dreams(writer, model=model, **given)  # type: ignore[arg-type]


def added(store: SQLiteStore, *records: Record, actor: str = "owner") -> None:
    store.commit([Change(before=None, after=each) for each in records], actor=actor, at=NOW)


def live(store: SQLiteStore) -> dict[str, Record]:
    return {each.id: each for each in store.find(Filter())}


def said(store: SQLiteStore, *texts: str) -> list[Turn]:
    state = SessionState(id="chat:1", created_at=NOW)
    turns = [
        Turn(
            id=generate_id(),
            session="chat:1",
            position=n,
            role="user",
            content=text,
            at=NOW + timedelta(minutes=n),
        )
        for n, text in enumerate(texts)
    ]
    store.commit(
        [Change(before=None, after=state), *(Change(before=None, after=turn) for turn in turns)],
        actor="owner",
        at=NOW,
    )
    return turns


def merging(*sources: Record, content: str) -> Callable[[ModelRequest], str]:
    proposal = {"records": [each.id for each in sources], "content": content}
    return believing(json.dumps({"headlines": [proposal], "file": [], "lessons": []}))


def believing(text: str) -> Callable[[ModelRequest], str]:
    """A model that always answers the same, and supports what it says."""

    def answer(ask: ModelRequest) -> str:
        is_check = ask.purpose == "verify"
        return (
            answer_check(ask.messages[-1].content, collect_strings(text).__contains__) if is_check else text
        )

    return answer


def test_a_pass_without_anything_new_does_not_run(store: SQLiteStore) -> None:
    asked: list[ModelRequest] = []

    def answer(ask: ModelRequest) -> str:
        asked.append(ask)
        return json.dumps({"headlines": [], "file": [], "lessons": [], "preferences": []})

    added(store, record("One thing"))
    dream = dreaming(store, answer)
    dream._run_passes()
    assert len(asked) == 1, "a record without a category is filed"
    for _ in range(3):
        assert [outcome.state for outcome in dream._run_passes()] == ["skipped"] * 5
    assert len(asked) == 1
    added(store, record("Another thing"))
    dream._run_passes()
    assert len(asked) == 3, "two records may have a headline"
    assert "NEW" in asked[1].messages[0].content


def test_a_failing_model_leaves_the_cursor_for_the_turns_it_did_not_read(store: SQLiteStore) -> None:
    turns = said(store, "No! I always want short answers!", "shorter please")

    def failing(ask: ModelRequest) -> str:
        raise ModelUnavailable("too slow")

    (outcome,) = dreaming(store, failing)._run_passes(["preferences"])
    assert (outcome.state, outcome.why) == ("failed", "too slow")
    assert store.count("model.preferences.failed") == store.count("dream.preferences.failed") == 1
    preference = {"content": "Wants short answers", "signals": [{"turn": turns[0].id, "strength": "strong"}]}
    dreaming(store, believing(json.dumps({"preferences": [preference]})))._run_passes(["preferences"])
    assert [each.category for each in live(store).values()] == ["user-preferences/inferred"]


def test_a_bug_in_one_pass_does_not_stop_the_rest(store: SQLiteStore) -> None:
    added(store, record("We decided on Postgres", kind="decision", layer="episodic"))

    def unusable(ask: ModelRequest) -> str:
        return 3  # type: ignore[return-value]

    outcomes = dreaming(store, unusable)._run_passes()
    assert [outcome.name for outcome in outcomes] == [
        "enrich",
        "verify",
        "tidy",
        "preferences",
        "promote",
    ]
    assert outcomes[-1].state == "applied"
    assert next(iter(live(store).values())).layer == "semantic"


def test_undo_removes_a_headline_and_it_is_not_made_again(store: SQLiteStore) -> None:
    one, two = record("Rockbot runs on Kubernetes"), record("Rockbot needs 3 replicas")
    added(store, one, two)
    dream = dreaming(store, merging(one, two, content="Rockbot runs on Kubernetes, needs 3 replicas"))
    before = live(store)
    (outcome,) = dream._run_passes(["tidy"])
    rows = [row for row in store.journal() if row.batch == outcome.batch]
    store.commit(undo_of(rows), actor="owner", at=NOW, operation="undo")
    assert live(store) == before
    dream._run_passes(["tidy"])
    assert live(store) == before
    added(store, record("Rockbot runs on Kubernetes, and needs 3 replicas of it"))
    dream._run_passes(["tidy"])
    assert any(each.is_headline for each in live(store).values())


def test_a_users_own_prompt_replaces_the_one_that_ships(store: SQLiteStore, tmp_path: Path) -> None:
    (tmp_path / "dream.md").write_text("MINE {{records}}", encoding="utf-8")
    asked: list[str] = []

    def answer(ask: ModelRequest) -> str:
        asked.append(ask.messages[0].content)
        return "{}"

    one = record("One thing")
    added(store, one)
    dreaming(store, answer, profile=tmp_path)._run_passes(["tidy"])
    assert asked[0].startswith("MINE [K1] NEW (")
    (tmp_path / "dream.md").write_bytes(b"\xff\xfe")
    added(store, record("Another thing"))
    dreaming(store, answer, profile=tmp_path)._run_passes(["tidy"])
    assert "the memory of an assistant" in asked[1]


def test_all_passes_make_one_plan_each_on_what_the_one_before_leaves(store: SQLiteStore) -> None:
    one = record("Rockbot runs on Kubernetes", kind="decision", layer="episodic")
    two = record("Rockbot needs 3 replicas", kind="decision", layer="episodic")
    added(store, one, two, *(record(f"Shelf {n}") for n in range(100)))
    said(store, "I prefer tabs", "I prefer tabs.")
    there = live(store)
    dream = dreaming(store, merging(one, two, content="Rockbot runs on Kubernetes, needs 3 replicas"))
    plan = dream._plan_dream()
    assert not plan.failed
    applied = dream.apply(plan)
    assert len({row.batch for row in store.journal(after=store.sequence() - len(plan.steps))}) == 1
    made = next(each for each in live(store).values() if each.is_headline)
    assert made.layer == "episodic", "what a pass made is new to the next cycle only"
    rows = [row for row in store.journal() if row.batch == applied.batch]
    store.commit(undo_of(rows), actor="owner", at=NOW)
    assert live(store) == there


def test_switches_are_kept_and_unknown_passes_named(store: SQLiteStore) -> None:
    added(store, record("We decided on Postgres", kind="decision", layer="episodic"))
    said(store, "I prefer tabs", "I prefer tabs.")
    settings = Settings(promotion_enabled=False, preference_inference=False)
    outcomes = dreaming(store, settings=settings)._run_passes()
    assert [outcome.why for outcome in outcomes[3:]] == [
        "preference_inference is off",
        "promotion_enabled is off",
    ]


def test_a_record_that_was_only_said_again_is_no_news_to_a_pass(store: SQLiteStore) -> None:
    asked: list[ModelRequest] = []

    def answer(ask: ModelRequest) -> str:
        asked.append(ask)
        return json.dumps({"headlines": [], "file": [], "lessons": []})

    one = record("Ada lives in Bern")
    added(store, one, record("Bo plays chess"))
    dream = dreaming(store, answer)
    dream._run_passes()
    count = len(asked)
    again = replace(one, seen_count=2, importance=0.9, last_seen_at=NOW, references=("turn:1",))
    store.commit([Change(before=one, after=again)], actor="owner", at=NOW)
    assert not dream._has_news(), "counts and importance alone ask no model"
    dream._run_passes()
    assert len(asked) == count
    tagged = replace(again, tags=("people",))
    store.commit([Change(before=again, after=tagged)], actor="owner", at=NOW)
    dream._run_passes()
    assert len(asked) > count
