"""Fields of a record after its text was saved again: nothing is lost, and no repetition raises trust."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.record import ORIGINS, UNTRUSTED, Record, validate_record
from reverie.domain.similarity.deduplication import merge_same_texts, reinforce_record
from tests.factories import make_record

THEN = datetime(2025, 1, 1, tzinfo=UTC)
NOW = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
LATER = datetime(2025, 12, 1, tzinfo=UTC)


def record(content: str = "Likes tea", number: int = 1, **fields: Any) -> Record:
    return validate_record(make_record(number, **({"content": content, "moment": THEN} | fields)))


def new_record(content: str = "Likes tea", **fields: Any) -> Record:
    return record(content, 99, **({"moment": NOW} | fields))


LABELS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=3, unique=True).map(tuple)
MOMENTS = st.sampled_from([None, THEN, NOW + timedelta(days=1), LATER])
FIELDS: dict[str, Any] = {
    "content": st.sampled_from(["Likes tea", "likes  TEA", "Likes tea."]),
    "tags": LABELS,
    "references": LABELS,
    "origin": st.sampled_from(ORIGINS),
    "category": st.sampled_from([None, "general", "project-context/a"]),
    "kind": st.sampled_from(["fact", "preference", "constraint"]),
    "importance": st.sampled_from([0.1, 0.5, 0.9]),
    "confidence": st.sampled_from([0.1, 0.5, 0.9]),
    "pinned": st.booleans(),
    "seen_count": st.integers(1, 9),
    "expires_at": MOMENTS,
    "valid_to": st.sampled_from([None, LATER]),
    "metadata": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2),
}
OLD = st.fixed_dictionaries(FIELDS).map(lambda fields: record(number=1, **fields))
NEW = st.fixed_dictionaries(FIELDS).map(lambda fields: new_record(**fields))


def test_a_text_that_is_saved_again_is_reinforced() -> None:
    new = new_record("LIKES  tea!", tags=("b",), importance=0.7, confidence=0.2)
    old = record(tags=("a",), importance=0.3, confidence=0.9)
    assert reinforce_record(old, new, now=NOW) == replace(
        old, tags=("a", "b"), importance=0.7, seen_count=2, last_seen_at=NOW
    )


# -- trust -----------------------------------------------------------------------------------------------


def test_an_untrusted_repetition_counts_but_gives_no_weight() -> None:
    old = record(importance=0.2, confidence=0.2)
    given: dict[str, Any] = {"kind": "constraint", "importance": 1.0, "confidence": 1.0, "pinned": True}
    for origin in sorted(UNTRUSTED):
        new = new_record(origin=origin, tags=("t",), category="general", **given)
        assert reinforce_record(old, new, now=NOW) == replace(
            old, seen_count=2, last_seen_at=NOW, tags=("t",)
        )
    assert reinforce_record(record(origin="web"), new_record(origin="agent"), now=NOW).origin == "web"


def test_the_owners_own_words_replace_those_of_an_untrusted_record() -> None:
    old = record(origin="web", category="general", source="a page", metadata={"safe": "yes"}, seen_count=3)
    mine = new_record("Likes Tea", source="chat", category="user-preferences")
    same = reinforce_record(old, mine, now=NOW)
    assert (same.id, same.origin, same.content, same.source) == (old.id, "owner", "Likes Tea", "chat")
    assert (same.category, same.metadata, same.seen_count) == ("user-preferences", {}, 4)


@given(OLD, NEW)
def test_trust_never_rises_but_by_the_owners_own_words(old: Record, new: Record) -> None:
    after = reinforce_record(old, new, now=NOW)
    if ORIGINS.index(after.origin) < ORIGINS.index(old.origin):
        assert (new.origin, after.content) == ("owner", new.content)
    if new.origin in UNTRUSTED and old.origin not in UNTRUSTED:
        for name in [
            "origin",
            "kind",
            "content",
            "confidence",
            "importance",
            "category",
            "pinned",
            "metadata",
        ]:
            assert getattr(after, name) == getattr(old, name)
    if new.origin == "owner":
        assert after.origin not in UNTRUSTED


# -- nothing is lost -------------------------------------------------------------------------------------


@given(OLD, NEW)
def test_no_repetition_loses_tags_references_or_counts(old: Record, new: Record) -> None:
    after = reinforce_record(old, new, now=NOW)
    assert {*old.tags, *new.tags} <= {*after.tags}
    assert {*old.references, *new.references} <= {*after.references}
    assert after.seen_count == old.seen_count + 1
    assert after.last_seen_at == max(old.last_seen_at, NOW)
    assert (after.id, after.created_at, after.fingerprint) == (old.id, old.created_at, new.fingerprint)
    if new.expires_at is None and new.origin not in UNTRUSTED:
        assert after.expires_at is None
    validate_record(after)


def test_a_record_has_the_more_specific_kind() -> None:
    for kinds in ("fact preference preference", "preference fact preference", "decision preference decision",
                  "decision constraint constraint", "constraint decision constraint"):  # fmt: skip
        old, new, expected = kinds.split()
        assert reinforce_record(record(kind=old), new_record(kind=new), now=NOW).kind == expected


def test_the_same_text_in_another_category_stays_one_record_found_under_both() -> None:
    merged = reinforce_record(record(category="general"), new_record(category="project-context/a"), now=NOW)
    assert (merged.category, merged.tags) == ("general", ("project-context/a",))
    assert reinforce_record(record(), new_record(category="general"), now=NOW).category == "general"


def test_the_same_text_for_another_time_is_valid_in_both_and_a_replaced_one_is_valid_again() -> None:
    old = record(valid_from=THEN, valid_to=NOW, replaced_by="a" * 12)
    merged = reinforce_record(old, new_record(valid_from=NOW, valid_to=LATER), now=NOW)
    assert (merged.valid_from, merged.valid_to) == (THEN, LATER)
    always = reinforce_record(old, new_record(), now=NOW)
    assert (always.valid_from, always.valid_to, always.replaced_by) == (None, None, "")


def test_of_records_with_the_same_text_the_most_trusted_stays_then_the_oldest() -> None:
    page = record("Likes tea!", 1, origin="web", seen_count=4, tags=("p",))
    mine = record("likes tea", 2, created_at=NOW, references=("r",))
    first = record("Likes tea", 3, seen_count=2)
    changes = {change.id: change.after for change in merge_same_texts([page, mine, first], now=LATER)}
    stays = changes.pop(first.id)
    assert isinstance(stays, Record)
    assert (stays.seen_count, stays.tags, stays.references) == (7, ("p",), ("r",))
    assert all(
        isinstance(each, Record) and each.archive_reason == f"the same text as {first.id}"
        for each in changes.values()
    )
    assert len(changes) == 2
