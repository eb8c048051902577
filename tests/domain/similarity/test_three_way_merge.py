"""Two sides changed the same thing: nothing that either wrote is lost, and the person's word stands."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.errors import InvalidInput
from reverie.domain.page import Page
from reverie.domain.record import MOST_LABELS, Record, validate_record
from reverie.domain.similarity.three_way_merge import merge_text, merge_values
from tests.factories import make_page
from tests.profiles import examples
from tests.support.contract.factories import make_record, make_session, make_time

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))

# -- values ------------------------------------------------------------------------------------------------


def page(content: str, seconds: float = 0) -> Page:
    return make_page(content=content, updated_at=make_time(seconds))


def test_what_both_changed_is_joined_or_is_the_persons() -> None:
    tagged, archived = (
        make_record(tags=("a", "b", "c")),
        make_record(archived_at=make_time(1), archive_reason="old"),
    )
    pairs: list[tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
        # `a` was taken out by ours, `b` by theirs
        (tagged, {"tags": ("b", "c", "x", "y")}, {"tags": ("y", "c", "a", "z")}, {"tags": ("y", "c", "z", "x")}, ""),
        (make_record(seen_count=2), {"seen_count": 5}, {"seen_count": 3}, {"seen_count": 6}, ""),
        (tagged, {"last_seen_at": make_time(50)}, {"last_seen_at": make_time(10)}, {"last_seen_at": make_time(50)}, ""),
        (tagged, {"updated_at": make_time(20)}, {"updated_at": make_time(30)}, {"updated_at": make_time(30)}, ""),
        (archived, {"archived_at": make_time(2), "importance": 0.1}, {"archive_reason": "because"},
         {"archive_reason": "because", "importance": 0.1}, "archived_at archive_reason"),
        (make_session(), {"window_start": 4, "summary": "four turns", "status": "paused"}, {"summary": "my words"},
         {"summary": "my words", "status": "paused"}, "window_start summary"),
    ]  # fmt: skip
    for base, ours, theirs, merged, conflicts in pairs:
        value, found = merge_values(base, replace(base, **ours), replace(base, **theirs))
        assert value == replace(base, **merged)
        assert set(found) == set(conflicts.split())


def test_what_is_sound_alone_and_not_together_stays_sound() -> None:
    base = make_record(valid_from=make_time(10), valid_to=make_time(20))
    value, conflicts = merge_values(
        base, replace(base, valid_from=make_time(19)), replace(base, valid_to=make_time(15))
    )
    assert (value.valid_from, value.valid_to) == (make_time(10), make_time(15))
    assert conflicts == ("valid_from", "valid_to")
    many = make_record()
    ours = replace(many, tags=tuple(f"a{n}" for n in range(MOST_LABELS)))
    theirs = replace(many, tags=("mine",))
    value, conflicts = merge_values(many, ours, theirs)
    assert not conflicts
    assert validate_record(value).tags[0] == "mine"


def test_pages_merge_by_lines_and_never_conflict() -> None:
    value, conflicts = merge_values(page("a\nb\n"), page("a\nours\n", 5), page("a\ntheirs\n", 2))
    assert conflicts == ()
    assert value == page("a\ntheirs\nours\n", 5)


def test_without_a_base_whatever_differs_was_changed_by_both() -> None:
    ours = make_record(content="ours", tags=("a",), seen_count=3)
    theirs = make_record(content="theirs", tags=("b",), metadata={"k": "v"})
    value, conflicts = merge_values(None, ours, theirs)
    assert conflicts == ("content", "metadata")
    assert value.tags == ("b", "a")
    assert (value.seen_count, value.metadata) == (3, {"k": "v"})
    assert merge_values(None, ours, ours)[0] == ours


def test_versions_of_different_things_are_refused() -> None:
    with pytest.raises(InvalidInput, match="different objects"):
        merge_values(make_record(1), make_record(1), make_record(2))
    with pytest.raises(InvalidInput, match="different objects"):
        merge_values(None, make_record(1), make_record(2))


RECORDS = st.builds(
    make_record,
    content=st.sampled_from(["one", "two", "three"]),
    category=st.sampled_from([None, "a", "b/c"]),
    kind=st.sampled_from(["fact", "lesson"]),
    tags=st.lists(st.sampled_from("abcd"), unique=True).map(tuple),
    importance=st.sampled_from([0.1, 0.5]),
    pinned=st.booleans(),
    seen_count=st.integers(1, 5),
    updated_at=st.integers(0, 3).map(make_time),
    valid_from=st.sampled_from([None, make_time(0), make_time(9)]),
    valid_to=st.sampled_from([None, make_time(10), make_time(5)]).map(lambda moment: moment),
    parts=st.sampled_from([(), ("e" * 12,), ("e" * 12, "f" * 12)]),
    metadata=st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy")),
    archived_at=st.sampled_from([None, make_time(3)]),
).filter(lambda made: not (made.valid_from and made.valid_to and made.valid_to < made.valid_from))


@given(base=RECORDS, other=RECORDS)
def test_a_side_that_changed_nothing_leaves_the_other_as_it_is(base: Record, other: Record) -> None:
    for ours, theirs in ((base, other), (other, base), (other, other)):
        value, conflicts = merge_values(base, ours, theirs)
        assert (value, conflicts) == (other, ())


@given(base=RECORDS, ours=RECORDS, theirs=RECORDS)
def test_every_field_of_a_merge_comes_from_a_side_and_conflicts_are_exactly_the_clashes(
    base: Record, ours: Record, theirs: Record
) -> None:
    value, conflicts = merge_values(base, ours, theirs)
    validate_record(value)
    for name in ("content", "category", "kind", "importance", "pinned"):
        was, mine, yours = (getattr(one, name) for one in (base, ours, theirs))
        got = getattr(value, name)
        assert got == (mine if yours == was else yours)
        assert (name in conflicts) == (was not in (mine, yours) and mine != yours)
    for tag in value.tags:
        assert tag in ours.tags or tag in theirs.tags
    assert not {t for t in base.tags if t not in ours.tags} & set(value.tags)
    assert not {t for t in base.tags if t not in theirs.tags} & set(value.tags)
    assert set(value.tags) >= (set(ours.tags) | set(theirs.tags)) - set(base.tags)


# -- texts -------------------------------------------------------------------------------------------------


def test_merging_texts() -> None:
    for base, ours, theirs, result in CASES["merged"]:
        assert merge_text(base, ours, theirs) == result


REPEATING = st.lists(st.sampled_from(["", "", "a", "b", "---"]), max_size=12)


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@given(base=REPEATING, ours=REPEATING, theirs=REPEATING, ends=st.tuples(*[st.booleans()] * 3))
def test_a_side_that_left_the_text_alone_changes_nothing(
    base: list[str], ours: list[str], theirs: list[str], ends: tuple[bool, ...]
) -> None:
    one, two, three = (
        text_of(lines)[: None if end else -1] for lines, end in zip((base, ours, theirs), ends, strict=True)
    )
    assert merge_text(one, one, three) == three
    assert merge_text(one, two, one) == two
    assert merge_text(one, two, two) == two


@given(base=REPEATING, ours=REPEATING, theirs=REPEATING)
@settings(max_examples=examples(400))
def test_every_line_that_a_side_added_is_there_and_none_comes_from_nowhere(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    result = Counter(merge_text(text_of(base), text_of(ours), text_of(theirs)).split("\n")[:-1])
    was, mine, yours = Counter(base), Counter(ours), Counter(theirs)
    for line in {*was, *mine, *yours}:
        if mine[line] > was[line] or yours[line] > was[line]:
            assert result[line] > 0, f"{line!r} was added and is lost"
        if was[line] and mine[line] >= was[line] and yours[line] >= was[line]:
            assert result[line] > 0, f"{line!r} was taken out by nobody and is lost"
        assert result[line] <= mine[line] + yours[line], f"{line!r} comes from nowhere"
    assert set(result) <= {*mine, *yours}


def test_the_longest_texts_of_repeated_lines_merge_before_the_test_is_ended() -> None:
    """Whatever a page holds (200,000 characters, here nearly all of them line ends) a merge ends soon."""
    base = "a\n\n" * 40_000
    ours = "\nb\n" * 40_000
    theirs = "a\n\n\n" * 30_000 + "new\n"
    result = merge_text(base, ours, theirs)
    assert result.count("b") == 40_000
    assert "new\n" in result
