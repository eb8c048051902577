"""The decision of a save: created or reinforced, and never less than there was before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.record import KINDS, MOST_LABELS, ORIGINS, UNTRUSTED, Record, validate_record
from reverie.domain.similarity.deduplication import (
    Decision,
    can_deduplicate,
    decide,
    find_duplicate_groups,
    reinforce_record,
)
from tests.factories import make_record

THEN = datetime(2025, 1, 1, tzinfo=UTC)
NOW = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
LATER = datetime(2025, 12, 1, tzinfo=UTC)


def record(content: str = "Likes tea", number: int = 1, **fields: Any) -> Record:
    return validate_record(make_record(number, **({"content": content, "moment": THEN} | fields)))


def new_record(content: str = "Likes tea", **fields: Any) -> Record:
    return record(content, 99, **({"moment": NOW} | fields))


def after(decision: Decision) -> Record:
    return decision.after


TEXTS = st.sampled_from(
    [
        "Likes tea",
        "likes  TEA",
        "Likes tea.",
        "The user likes tea",
        "Likes tea. Drinks two cups a day.",
        "Likes tea. Drinks two cups a day. Owns four pots of clay.",
        "Does not like tea",
        "Likes green tea",
        "Likes tea because it is hot",
        "Works at Acme",
    ]
)
LABELS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=3, unique=True).map(tuple)
MOMENTS = st.sampled_from([None, THEN, NOW + timedelta(days=1), LATER])
FIELDS: dict[str, Any] = {
    "content": TEXTS,
    "tags": LABELS,
    "references": LABELS,
    "origin": st.sampled_from(ORIGINS),
    "category": st.sampled_from([None, "general", "project-context/a"]),
    "kind": st.sampled_from(["fact", "preference"]),
    "scope": st.sampled_from(["", "user:alice"]),
    "importance": st.sampled_from([0.1, 0.5, 0.9]),
    "confidence": st.sampled_from([0.1, 0.5, 0.9]),
    "pinned": st.booleans(),
    "seen_count": st.integers(1, 9),
    "expires_at": MOMENTS,
    "valid_to": st.sampled_from([None, LATER]),
    "metadata": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2),
    "archived_at": st.sampled_from([None, None, None, NOW]),
}
OLD_RECORDS = st.lists(st.fixed_dictionaries(FIELDS), max_size=5).map(
    lambda many: [record(number=n, **fields) for n, fields in enumerate(many)]
)
NEW_RECORDS = st.fixed_dictionaries(FIELDS | {"archived_at": st.none()}).map(
    lambda fields: new_record(**fields)
)


# -- what is decided -------------------------------------------------------------------------------------


def test_the_first_of_its_kind_is_created() -> None:
    new = new_record()
    assert decide(new, [], now=NOW) == Decision(old=None, after=new)
    assert decide(new, [record("Works at Acme")], now=NOW) == Decision(old=None, after=new)


@pytest.mark.parametrize("text", ["Likes tea", "LIKES  tea", "Likes tea!", "The user likes tea"])
def test_a_repetition_reinforces(text: str) -> None:
    old = record(tags=("a",), importance=0.3, confidence=0.9)
    decision = decide(new_record(text, tags=("b",), importance=0.7, confidence=0.2), [old], now=NOW)
    assert decision == Decision(
        old=old,
        after=replace(old, tags=("a", "b"), importance=0.7, seen_count=2, last_seen_at=NOW),
    )


def test_a_text_that_says_more_is_created() -> None:
    new = new_record("Likes tea. Drinks two cups a day.")
    assert decide(new, [record()], now=NOW) == Decision(old=None, after=new)


@pytest.mark.parametrize(
    "text", ["Does not like tea", "Likes green tea", "Likes tea only at night", "Liked tea", "Bob likes tea"]
)
def test_another_statement_is_created(text: str) -> None:
    assert decide(new_record(text), [record()], now=NOW).old is None


def test_the_very_words_come_before_a_near_repetition() -> None:
    same, near, part = (
        record("Likes Tea. It is hot.", 1),
        record("Likes tea! It's hot!", 2),
        record("Works at Acme", 3),
    )
    new = new_record("likes tea. it is hot.")
    assert decide(new, [part, near, same], now=NOW).old == same


@given(NEW_RECORDS, OLD_RECORDS, st.randoms())
def test_the_order_of_candidates_makes_no_difference(new: Record, olds: list[Record], random: Any) -> None:
    mixed = list(olds)
    random.shuffle(mixed)
    assert decide(new, mixed, now=NOW) == decide(new, olds, now=NOW)


# -- what may fold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"scope": "user:alice"}, {}),
        ({"kind": "preference"}, {}),
        ({"layer": "episodic"}, {}),
        ({"category": "general"}, {"category": "project-context/a"}),
        ({}, {"category": "general"}),
        ({"valid_to": LATER}, {}),
        ({"archived_at": NOW}, {}),
        ({"expires_at": LATER}, {}),
        ({"metadata": {"x": "1"}}, {"metadata": {"x": "2"}}),
        ({"origin": "web"}, {"origin": "owner"}),
        ({"origin": "owner"}, {"origin": "web", "metadata": {"x": "1"}}),
        ({"origin": "owner", "expires_at": NOW}, {"origin": "web", "expires_at": LATER}),
        ({"tags": tuple(map(str, range(MOST_LABELS)))}, {"tags": ("more",)}),
    ],
)
def test_what_would_be_lost_or_mixed_up_does_not_fold(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert not can_deduplicate(record(**old), new_record("Likes tea!", **new))
    assert can_deduplicate(record(), new_record("Likes tea!"))
    assert decide(new_record("Likes tea!", **new), [record(**old)], now=NOW).old is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"category": "general"}, {}),
        ({}, {"expires_at": LATER}),
        ({"expires_at": NOW + timedelta(days=1)}, {"expires_at": LATER}),
        ({"metadata": {"x": "1"}}, {"metadata": {"y": "2"}}),
        ({"origin": "owner"}, {"origin": "web"}),
        ({"origin": "web"}, {"origin": "tool"}),
        ({"origin": "web"}, {"origin": "agent"}),
    ],
)
def test_what_fits_folds(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert decide(new_record("Likes tea!", **new), [record(**old)], now=NOW).old is not None


def test_what_has_expired_takes_nothing_in_but_its_own_words_bring_it_back() -> None:
    old = record(expires_at=NOW - timedelta(seconds=1))
    assert decide(new_record("Likes tea!", expires_at=LATER), [old], now=NOW).old is None
    assert after(decide(new_record(expires_at=LATER), [old], now=NOW)).expires_at == LATER
    assert after(decide(new_record(), [old], now=NOW)).expires_at is None


# -- trust -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", sorted(UNTRUSTED))
def test_an_untrusted_text_never_changes_a_trusted_content(origin: Any) -> None:
    new = new_record("Likes tea. Drinks two cups a day.", origin=origin)
    assert decide(new, [record()], now=NOW) == Decision(old=None, after=new)
    assert decide(new, [record(origin=origin)], now=NOW) == Decision(old=None, after=new)


def test_an_untrusted_repetition_counts_but_gives_no_weight() -> None:
    old = record(importance=0.2, confidence=0.2)
    new = new_record(
        origin="web", importance=1.0, confidence=1.0, pinned=True, tags=("t",), category="general"
    )
    assert after(decide(new, [old], now=NOW)) == replace(old, seen_count=2, last_seen_at=NOW, tags=("t",))


def test_an_agent_that_repeats_an_untrusted_text_does_not_make_it_trusted() -> None:
    old = record(origin="web")
    for text in ("Likes tea", "Likes tea!"):
        assert after(decide(new_record(text, origin="agent"), [old], now=NOW)).origin == "web"


def test_the_owner_is_heard_beside_or_in_place_of_an_untrusted_record() -> None:
    old = record(origin="web", category="general", source="a page", metadata={"safe": "yes"}, seen_count=3)
    near = decide(new_record("Likes tea!"), [old], now=NOW)
    assert near.old is None
    mine = new_record("Likes Tea", source="chat", category="user-preferences")
    same = after(decide(mine, [old], now=NOW))
    assert (same.id, same.origin, same.content, same.source) == (old.id, "owner", "Likes Tea", "chat")
    assert (same.category, same.metadata, same.seen_count) == ("user-preferences", {}, 4)


def test_the_record_of_the_same_trust_is_taken_first() -> None:
    mine, page = record("Likes tea!", 1), record("Likes tea...", 2, origin="web", seen_count=9)
    for origin, expected in (("web", page), ("owner", mine), ("agent", mine)):
        decision = decide(new_record(origin=origin), [mine, page], now=NOW)
        assert decision.old is not None
        assert decision.old == expected


def test_a_pinned_record_is_reinforced_but_never_rewritten() -> None:
    pinned = record(pinned=True)
    assert decide(new_record("Likes tea!"), [pinned], now=NOW).old is not None
    assert decide(new_record("Likes tea. Drinks two cups a day."), [pinned], now=NOW).old is None


@given(NEW_RECORDS, OLD_RECORDS)
def test_trust_never_rises_but_by_the_owners_own_words(new: Record, olds: list[Record]) -> None:
    decision = decide(new, olds, now=NOW)
    if decision.old is None:
        return
    rank = ORIGINS.index
    if rank(decision.after.origin) < rank(decision.old.origin):
        assert new.origin == "owner"
        assert decision.after.content == new.content
    if new.origin in UNTRUSTED and decision.old.origin not in UNTRUSTED:
        assert decision.after.origin == decision.old.origin
        assert decision.after.content == decision.old.content
        assert decision.after.confidence == decision.old.confidence
        assert decision.after.importance == decision.old.importance
    if new.origin == "owner":
        assert decision.after.origin not in UNTRUSTED


# -- nothing is lost -------------------------------------------------------------------------------------


@given(NEW_RECORDS, OLD_RECORDS)
def test_no_decision_loses_tags_references_or_counts(new: Record, olds: list[Record]) -> None:
    decision = decide(new, olds, now=NOW)
    if decision.old is None:
        assert decision.after == new
        return
    old, merged = decision.old, decision.after
    assert {*old.tags, *new.tags} <= {*merged.tags}
    assert {*old.references, *new.references} <= {*merged.references}
    assert merged.seen_count == old.seen_count + 1
    assert merged.last_seen_at == max(old.last_seen_at, NOW)
    assert (merged.id, merged.created_at, merged.scope, merged.kind) == (
        old.id,
        old.created_at,
        new.scope,
        new.kind,
    )
    validate_record(merged)


@given(NEW_RECORDS, OLD_RECORDS)
def test_the_same_words_are_never_created_beside_a_live_record(new: Record, olds: list[Record]) -> None:
    twins = [r for r in olds if r.scope == new.scope and r.fingerprint == new.fingerprint and not r.archived]
    decision = decide(new, olds, now=NOW)
    if twins:
        assert decision.old is not None
        assert decision.old in twins
        assert decision.after.fingerprint == new.fingerprint


@given(NEW_RECORDS, OLD_RECORDS)
def test_what_is_kept_for_ever_never_goes_into_what_expires(new: Record, olds: list[Record]) -> None:
    decision = decide(new, olds, now=NOW)
    if new.expires_at is None and new.origin not in UNTRUSTED:
        assert after(decision).expires_at is None


@given(NEW_RECORDS, OLD_RECORDS)
def test_the_text_saved_stands_in_what_becomes_of_it(new: Record, olds: list[Record]) -> None:
    """Saving the same again finds the same record, and adds nothing but the count."""
    first = decide(new, olds, now=NOW)
    there = after(first)
    others = [old for old in olds if old.id != there.id]
    again = decide(replace(new, id="f" * 12), [*others, there], now=NOW)
    if first.old is None:
        assert again.old is not None
        assert again.old == there
    if again.old is not None and again.old == there:
        assert replace(again.after, seen_count=there.seen_count) == there


@given(NEW_RECORDS, NEW_RECORDS)
def test_reinforcing_twice_changes_nothing_but_the_count(old: Record, new: Record) -> None:
    once = reinforce_record(old, new, now=NOW)
    twice = reinforce_record(once, new, now=NOW)
    assert replace(twice, seen_count=once.seen_count) == once
    assert twice.seen_count == old.seen_count + 2


def test_a_reinforced_record_keeps_everything_else() -> None:
    old = record(category="general", source="chat", valid_from=THEN, pinned=True, seen_count=3)
    for kind in KINDS:
        new = new_record("Another text", kind=kind, source="mail", valid_to=LATER)
        assert reinforce_record(old, new, now=NOW) == replace(old, seen_count=4, last_seen_at=NOW)


def test_an_older_clock_never_moves_a_record_back() -> None:
    old = record(last_seen_at=NOW, updated_at=NOW)
    assert reinforce_record(old, new_record(), now=THEN).last_seen_at == NOW
    assert reinforce_record(old, new_record(), now=THEN).updated_at == NOW


# -- the same words, other circumstances -----------------------------------------------------------------


def test_the_same_words_in_another_category_stay_one_record_found_under_both() -> None:
    old = record(category="general")
    merged = after(decide(new_record(category="project-context/a"), [old], now=NOW))
    assert (merged.category, merged.tags) == ("general", ("project-context/a",))
    assert after(decide(new_record(category="general"), [record()], now=NOW)).category == "general"


def test_the_same_words_for_another_time_hold_over_both() -> None:
    old = record(valid_from=THEN, valid_to=NOW)
    merged = after(decide(new_record(valid_from=NOW, valid_to=LATER), [old], now=NOW))
    assert (merged.valid_from, merged.valid_to) == (THEN, LATER)
    always = after(decide(new_record(), [old], now=NOW))
    assert (always.valid_from, always.valid_to) == (None, None)


# -- the nightly merge -----------------------------------------------------------------------------------


def fold(*records: Record, changed: set[str] | None = None) -> list[tuple[str, str, int]]:
    """Id of the record that stays, ids of those that go, and how often the record was seen."""
    groups = find_duplicate_groups(records, {each.id for each in records} if changed is None else changed)
    return [
        (group.into.id[-1], "".join(sorted(each.id[-1] for each in group.duplicates)), group.after.seen_count)
        for group in groups
    ]


SHORT, LONG = "Likes tea", "Likes tea. Drinks two cups a day."


@pytest.mark.parametrize("changed", [1, 2])
def test_at_night_a_text_folds_into_a_later_one_that_says_more(changed: int) -> None:
    old, new = record(SHORT, 1, seen_count=3), record(LONG, 2, created_at=NOW)
    assert fold(old, new, changed={f"{changed:012x}"}) == [("2", "1", 4)]
    assert fold(old, new, record("The user likes tea", 3), record("Works at Acme", 4)) == [("2", "13", 5)]


def test_at_night_a_pinned_record_is_never_rewritten_and_the_owners_word_never_goes_into_a_page() -> None:
    assert fold(record(SHORT, 1, pinned=True), record(LONG, 2)) == []
    assert fold(record(SHORT, 1), record(LONG, 2, pinned=True)) == [("2", "1", 2)]
    assert fold(record(SHORT, 1), record(LONG, 2, origin="web")) == []
    assert fold(record("Likes tea!", 1, pinned=True), record(SHORT, 2), record(LONG, 3)) == [("1", "2", 2)]


def test_at_night_the_oldest_of_equal_texts_stays_whatever_else_begins_alike() -> None:
    first, second = record("Likes tea!", 1), record("The user likes tea", 2, created_at=NOW)
    other = record("Likes tea only at night. Drinks milk in the morning.", 3)
    assert fold(first, second, other) == [("1", "2", 2)]
