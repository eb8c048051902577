"""A merge is taken only if nothing is lost; whatever a model says, a memory keeps what it knows."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.consolidation.passes.merge import merge
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.driver import answer_without_model, run_pass
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.plan_builder import MERGE_DEPTH, MERGED_FROM
from reverie.consolidation.planning.signals import Signal
from reverie.domain.record import Record
from reverie.domain.similarity.deduplication import find_duplicate_groups
from reverie.domain.similarity.specifics import extract_specifics
from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest
from tests.factories import make_record

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
numbers = itertools.count(1)


def record(content: str, **more: Any) -> Record:
    made = NOW - timedelta(days=30) + timedelta(minutes=next(numbers))
    return make_record(id=fresh_id(), content=content, moment=made, **more)


def fresh_id() -> str:
    return f"{next(numbers):012x}"


def cycle(
    records: Sequence[Record],
    answer: Callable[[ModelRequest], ModelReply | ModelFailure] | str = answer_without_model,
    *,
    changed: Sequence[Record] | None = None,
    signals: Sequence[Signal] = (),
) -> Plan:
    new = frozenset(each.id for each in (records if changed is None else changed))
    view = PassInput(now=NOW, records=tuple(records), changed=new, new_id=fresh_id)
    how = (lambda ask: ModelReply(text=answer)) if isinstance(answer, str) else answer
    return run_pass(merge(view, find_duplicate_groups(records, new), signals), how)


def proposal(**lists: list[Any]) -> str:
    return json.dumps({"merge": [], "archive": [], "refile": [], "anti_patterns": [], **lists})


def left(records: Sequence[Record], plan: Plan) -> list[Record]:
    """The live records after the plan, made as a store makes it: each edit on what is there."""
    there = {each.id: each for each in records}
    for edit in plan.edits:
        if edit.before is None:
            assert edit.id not in there
        else:
            assert there[edit.id] == edit.before
        assert isinstance(edit.after, Record)
        there[edit.id] = edit.after
        live = [(each.scope, each.fingerprint) for each in there.values() if not each.archived]
        assert len(live) == len(set(live)), "two live records say the same"
    return [each for each in there.values() if not each.archived]


def many(count: int) -> list[Record]:
    return [record(f"Shelf {n} holds box {n * 7}") for n in range(count)]


# -- folding without a model ---------------------------------------------------------------------------


def test_near_repetitions_are_folded_before_anybody_is_asked() -> None:
    first = record("Prefers dark mode", tags=("ui",), seen_count=2)
    again = record("She prefers the dark mode.", tags=("editor",))
    same = record("prefers dark  mode!", tags=("night",), seen_count=3)
    other = record("Prefers light mode")
    records = [first, again, same, other, *many(200)]
    plan = cycle(records, changed=[first, again, same, other])
    kept = {each.id: each for each in left(records, plan)}
    assert same.id not in kept
    assert {first.id, other.id} <= set(kept)
    assert kept[first.id].seen_count == 5
    assert set(kept[first.id].tags) == {"ui", "night"}


def test_what_expires_and_what_is_pinned_does_not_take_the_others_along() -> None:
    pinned = record("Deploys happen on Tuesday.", pinned=True)
    plain = record("Deploys happen on Tuesday")
    plan = cycle([plain, pinned, *many(100)], changed=[plain, pinned])
    assert [step.edit.id for step in plan.steps if step.edit.after.archived] == [plain.id]  # type: ignore[union-attr]
    short = record("Deploys happen on Tuesday.", expires_at=NOW + timedelta(days=1))
    plan = cycle([short, plain, *many(100)], changed=[short, plain])
    kept = [
        each for each in left([short, plain], replace(plan, steps=plan.steps)) if "Tuesday" in each.content
    ]
    assert any(each.expires_at is None for each in kept)


def test_without_a_model_nothing_else_happens() -> None:
    records = many(60)
    plan = cycle(records)
    assert not plan
    assert plan.skipped
    assert "no model" in " ".join(plan.notes)


def test_nothing_new_asks_nobody() -> None:
    def never(ask: ModelRequest) -> ModelReply:
        raise AssertionError("asked")

    plan = cycle(many(10), never, changed=[])
    assert not plan
    assert plan.skipped == "nothing has changed since the last cycle"


# -- merging -------------------------------------------------------------------------------------------


def test_a_merge_that_keeps_everything_is_taken_and_all_its_sources_go() -> None:
    one = record(
        "Rockbot runs on Kubernetes", category="project-context/rockbot", tags=("k8s",), origin="owner"
    )
    two = record(
        "Rockbot needs 3 replicas", category="project-context/rockbot", tags=("ops",), origin="agent"
    )
    records = [one, two, *many(100)]
    said = "Rockbot runs on Kubernetes with 3 replicas, which it needs"
    plan = cycle(
        records, proposal(merge=[{"sources": [one.id, two.id], "content": said, "why": "one topic"}])
    )
    kept = left(records, plan)
    merged = next(each for each in kept if each.content == said)
    assert {one.id, two.id}.isdisjoint({each.id for each in kept})
    assert merged.metadata[MERGED_FROM].split() == [one.id, two.id]
    assert merged.metadata[MERGE_DEPTH] == "1"
    assert merged.origin == "agent", "trust never rises"
    assert set(merged.tags) == {"k8s", "ops"}
    assert merged.created_at == one.created_at
    created = next(n for n, edit in enumerate(plan.edits) if edit.before is None)
    assert created == 0, "the new record is in before the old ones go"


@pytest.mark.parametrize(
    ("texts", "said", "why"),
    [
        (["Budget is 500 EUR", "Budget is for Mara"], "The budget is for Mara", "500"),
        (
            ["Never deploy on Friday", "Deploys go through CI"],
            "Deploys go through CI, on Friday too",
            "not|deploy",
        ),
        (["Alice prefers tea", "Bob prefers tea"], "Alice prefers tea", "bob"),
        (["Config is in /etc/app.toml", "Config is TOML"], "Config is TOML", "/etc/app.toml"),
        (["Review took two hours", "Review was twice as long"], "Review took two hours", "twice"),
        (["Uses Python 3.11", "Uses type hints"], "Uses Python 3.12 with type hints", "3.11"),
        (["Ada likes red", "Ada likes blue"], "Ada likes red, blue and 7 more colours", "no source says: 7"),
    ],
)
def test_a_merge_that_loses_or_invents_something_is_refused_and_says_what(
    texts: list[str], said: str, why: str
) -> None:
    sources = [record(text) for text in texts]
    records = [*sources, *many(100)]
    names = [each.id for each in sources]
    plan = cycle(
        records,
        proposal(merge=[{"sources": names, "content": said}], archive=[{"id": names[0], "why": "old"}]),
    )
    assert not plan
    assert len(plan.refused) == 2, "a refused merge protects its sources from being archived too"
    assert any(part in plan.refused[0].why for part in why.split("|")), plan.refused[0].why
    assert plan.refused[0].protects == tuple(names)


def test_what_may_not_go_by_a_models_word_stays() -> None:
    kept = [
        record("Uses tabs", pinned=True),
        record("Uses spaces in YAML", importance=0.8),
        record("Uses black", seen_count=5),
        record("Uses ruff", scope="user:alice"),
    ]
    plain = record("Uses mypy")
    records = [*kept, plain, *many(300)]
    for each in kept:
        said = f"{each.content}. {plain.content}"
        plan = cycle(records, proposal(merge=[{"sources": [each.id, plain.id], "content": said}]))
        assert plain.id in {one.id for one in left(records, plan)}
        assert each.id in {one.id for one in left(records, plan)}
        plan = cycle(records, proposal(archive=[each.id]))
        if each.scope == "":
            assert not plan


def test_unknown_and_archived_ids_are_refused() -> None:
    gone = record("Uses vim", archived_at=NOW)
    one = record("Uses emacs")
    records = [gone, one, *many(100)]
    plan = cycle(
        records,
        proposal(
            merge=[{"sources": [one.id, "000000000000"], "content": "Uses emacs"}],
            archive=[{"id": "nonsense"}, {"id": gone.id}],
            refile=[{"id": "ffffffffffff", "category": "x"}],
        ),
    )
    assert not plan
    assert [("no live record" in refusal.why) for refusal in plan.refused] == [True] * 4


def test_merges_are_two_deep_at_most() -> None:
    def deep(content: str, depth: int) -> Record:
        return record(content, metadata=MappingProxyType({MERGE_DEPTH: str(depth), MERGED_FROM: "a"}))

    for depth, taken in ((1, True), (2, False)):
        one, two = deep("Runs on Linux", depth), record("Runs in Docker")
        records = [one, two, *many(100)]
        said = "Runs on Linux, in Docker: runs"
        plan = cycle(records, proposal(merge=[{"sources": [one.id, two.id], "content": said}]))
        assert bool(plan) is taken, plan.refused
        if taken:
            merged = plan.edits[0].after
            assert isinstance(merged, Record)
            assert merged.metadata[MERGE_DEPTH] == "2"


def test_a_cycle_archives_two_percent_at_most_and_says_when_it_stops() -> None:
    records = many(250)
    plan = cycle(records, proposal(archive=[{"id": each.id, "why": "noise"} for each in records]))
    assert len(plan.steps) == 5
    assert any("may archive 5 of 250" in note for note in plan.notes)
    few = many(49)
    assert not cycle(few, proposal(archive=[each.id for each in few])), (
        "a small memory is nobody's to thin out"
    )
    one, two = record("Rockbot runs on Linux"), record("Rockbot has 3 disks")
    said = "Rockbot runs on Linux and has 3 disks"
    assert cycle([one, two, *few], proposal(merge=[{"sources": [one.id, two.id], "content": said}]))


def test_a_merge_in_the_words_of_a_source_keeps_that_source() -> None:
    long = record("Ships on Monday and Thursday")
    short = record("Ships on Monday")
    records = [long, short, *many(100)]
    plan = cycle(
        records, proposal(merge=[{"sources": [short.id, long.id], "content": "ships on monday and thursday"}])
    )
    kept = {each.id for each in left(records, plan)}
    assert long.id in kept
    assert short.id not in kept


def test_a_merge_that_says_what_another_live_record_says_is_refused() -> None:
    one, two, third = record("Ships on Monday"), record("Ships via rail"), record("Ships on Monday via rail")
    records = [one, two, third, *many(100)]
    plan = cycle(
        records, proposal(merge=[{"sources": [one.id, two.id], "content": "Ships on Monday via rail"}])
    )
    assert not plan
    assert third.id in plan.refused[0].why


def test_contradicting_metadata_and_times_are_not_merged() -> None:
    one = record("Rate is fixed", metadata=MappingProxyType({"requires_user_permission": "true"}))
    two = record("Rate is low", metadata=MappingProxyType({"requires_user_permission": "false"}))
    three = record("Rate is old", valid_to=NOW)
    records = [one, two, three, *many(100)]
    for pair in ([one, two], [one, three]):
        names = [each.id for each in pair]
        said = ". ".join(each.content for each in pair)
        assert not cycle(records, proposal(merge=[{"sources": names, "content": said}]))
    four = record("Rate is high")
    said = f"{one.content}. {four.content}"
    plan = cycle([*records, four], proposal(merge=[{"sources": [one.id, four.id], "content": said}]))
    merged = plan.edits[0].after
    assert isinstance(merged, Record)
    assert merged.metadata["requires_user_permission"] == "true"


def test_categories_are_refined_and_tags_never_taken_away() -> None:
    one = record("Uses uv", category="general", tags=("python",))
    plan = cycle(
        [one], proposal(refile=[{"id": one.id, "category": "project-context/tools", "tags": ["packaging"]}])
    )
    after = plan.edits[0].after
    assert isinstance(after, Record)
    assert (after.category, after.tags) == ("project-context/tools", ("python", "packaging"))
    for bad in ("../x", "/abs", "a b"):
        assert not cycle([one], proposal(refile=[{"id": one.id, "category": bad}]))
    assert not cycle([replace(one, pinned=True)], proposal(refile=[{"id": one.id, "category": "x"}]))


def test_anti_patterns_need_a_correction() -> None:
    said = "Don't send mail without asking — instead show the draft first"
    answer = proposal(anti_patterns=[{"domain": "Email", "content": said, "evidence": ["aaaaaaaaaaaa"]}])
    assert not cycle(many(3), answer)
    text = "No, ask me before you send"
    signals = [Signal(kind="correction", id="aaaaaaaaaaaa", text=text, before="Sent.", at=NOW)]
    plan = cycle(many(3), answer, signals=signals)
    learned = plan.edits[0].after
    assert isinstance(learned, Record)
    assert (learned.kind, learned.category, learned.tags) == (
        "anti_pattern",
        "anti-patterns/email",
        ("anti-pattern",),
    )
    assert learned.references == ("aaaaaaaaaaaa",)


# -- what the model is told ------------------------------------------------------------------------------


def test_only_what_changed_is_shown_with_what_resembles_it_and_one_scope_at_a_time() -> None:
    alike = record("The staging database listens on port 5433")
    new = record("Staging database port is 5433 on lowwater")
    alice = record("Alice's staging database password is in the vault", scope="user:alice")
    records = [alike, new, alice, *many(50)]
    asked: list[str] = []

    def answer(ask: ModelRequest) -> ModelReply:
        asked.append(ask.messages[0].content)
        return ModelReply(text=proposal())

    cycle(records, answer, changed=[new, alice])
    assert len(asked) == 2
    assert [each.id in asked[0] for each in (alike, new, alice)] == [True, True, False]
    assert "Shelf 3" not in asked[0]
    assert [each.id in asked[1] for each in (alike, new, alice)] == [False, False, True]


def test_much_is_asked_in_parts() -> None:
    records = [record(f"Fact {n}: " + " ".join(f"w{n}x{m}" for m in range(100))) for n in range(120)]
    sizes: list[int] = []

    def answer(ask: ModelRequest) -> ModelReply:
        sizes.append(len(ask.messages[0].content))
        return ModelReply(text=proposal())

    cycle(records, answer)
    assert len(sizes) > 1
    assert max(sizes) < 60_000


@pytest.mark.parametrize(
    "reply",
    [
        ModelReply(text=""),
        ModelReply(text="I would merge the first two."),
        ModelReply(text='{"merge": [{"sources": ["00'),
        ModelReply(text=proposal(archive=["x"]), finish="length"),
        ModelReply(text="[1, 2, 3]"),
        ModelReply(text='{"merge": "all", "archive": 3, "refile": null, "anti_patterns": {}}'),
        ModelReply(text='{"merge": [{"sources": "000000000001", "content": {"text": "x"}}, 4, null]}'),
        ModelFailure(why="too slow"),
    ],
)
def test_an_answer_that_cannot_be_used_changes_nothing_and_is_said(reply: ModelReply | ModelFailure) -> None:
    plan = cycle(many(5), lambda ask: reply)
    assert not plan
    assert plan.refused or plan.failed or plan.skipped


# -- nothing is ever lost --------------------------------------------------------------------------------

WORDS = (
    "Ada Bob never likes deploys 3 4 3.11 3.12 on Friday Monday red blue /etc/app twice before port 80 443"
)
words = st.sampled_from(WORDS.split())
texts = st.lists(words, min_size=2, max_size=7).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=4, max_size=12, unique=True), st.integers(0, 2**32))
def test_whatever_a_model_proposes_no_specific_leaves_the_memory(contents: list[str], seed: int) -> None:
    chance = random.Random(seed)
    records = [record(text) for text in contents] + many(200)
    mine = records[: len(contents)]

    def picks() -> list[Record]:
        return chance.sample(mine, k=chance.randint(1, min(4, len(mine))))

    def proposals() -> Iterator[dict[str, Any]]:
        for _ in range(4):
            some = picks()
            said = ". ".join(each.content for each in some[: chance.randint(1, len(some))])
            yield {"sources": [each.id for each in some], "content": said}

    plan = cycle(records, proposal(merge=list(proposals())), changed=mine)
    kept = left(records, plan)
    for each in mine:
        assert any(
            not extract_specifics(each.content).find_missing_from(extract_specifics(one.content))
            for one in kept
        ), each.content
    assert len({each.id for each in records} - {each.id for each in kept}) <= 4


@pytest.mark.slow
def test_a_hundred_cycles_lose_nothing_and_do_not_grow() -> None:
    chance = random.Random(5)
    records = [record(f"Service {n} listens on port {8000 + n}", category="general") for n in range(148)]
    facts = [each.content for each in records]
    for _ in range(100):
        fresh = chance.sample(records, k=10)

        def answer(ask: ModelRequest, fresh: list[Record] = fresh) -> ModelReply:
            pairs = [chance.sample(fresh, k=2) for _ in range(3)]
            merges = [
                {"sources": [a.id, b.id], "content": chance.choice([a.content, f"{a.content}. {b.content}"])}
                for a, b in pairs
            ]
            return ModelReply(text=proposal(merge=merges))

        plan = cycle(records, answer, changed=fresh)
        records = left(records, plan)
    assert len(records) <= 148
    for fact in facts:
        assert any(
            not extract_specifics(fact).find_missing_from(extract_specifics(each.content)) for each in records
        ), fact


def test_a_record_does_not_come_to_be_found_by_every_word() -> None:
    old = record("Ada prefers tea", tags=("drinks",))
    words = [f"word{number}" for number in range(500)]
    for _ in range(10):
        plan = cycle([old], proposal(refile=[{"id": old.id, "tags": [*words[:30], "w" * 61]}]))
        (old,) = left([old], plan)
        words = words[8:]
    assert len(old.tags) <= 20
    assert max(map(len, old.tags)) <= 60


def test_what_two_sources_say_of_two_things_is_not_exchanged_by_a_merge() -> None:
    alice, bob = record("Alice's port is 5432"), record("Bob's port is 5433")
    swapped = {"sources": [alice.id, bob.id], "content": "Alice's port is 5433 and Bob's port is 5432"}
    plan = cycle([alice, bob], proposal(merge=[swapped]))
    assert not plan.steps
    assert [refusal.protects for refusal in plan.refused] == [(alice.id, bob.id)]


def test_what_a_model_refuses_to_read_of_the_web_does_not_hold_up_the_rest() -> None:
    page, own = record("How a bomb is made", origin="web"), record("Ada prefers tea")

    def answer(ask: ModelRequest) -> ModelReply | ModelFailure:
        if "bomb" in ask.messages[-1].content:
            return ModelFailure(why="against the rules", refused=True)
        return ModelReply(text=proposal(refile=[{"id": own.id, "category": "drinks"}]))

    plan = cycle([page, own], answer)
    assert not plan.failed
    assert len(plan.steps) == 1
    assert "against the rules" in plan.notes[-1]
    assert cycle([record("How a bomb is defused")], answer).failed, "one's own is tried again"


def test_a_merge_that_leaves_a_plain_word_out_is_refused() -> None:
    sources = [record("Ada is allergic to peanuts"), record("Ada likes peanuts on ice cream")]

    def merged(content: str) -> Plan:
        wanted = {"sources": [each.id for each in sources], "content": content}
        return cycle([*sources, *many(100)], proposal(merge=[wanted]), changed=sources)

    refused = merged("Ada likes peanuts on ice cream")
    assert not refused.steps
    assert any("allerg" in refusal.why for refusal in refused.refused)
    assert merged("Ada is allergic to peanuts, and likes peanuts on ice cream").steps
