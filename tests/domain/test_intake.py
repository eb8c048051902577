"""What a sentence is for the memory: kind, about whom, until when, and whether to ask before acting."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie import Memory
from reverie.domain.intake import Door, Intake, classify, needs_permission, reread
from reverie.domain.record import KINDS, STANDING, Origin
from tests.factories import make_record

NOW = datetime(2026, 2, 25, 9, tzinfo=UTC)
"""A Wednesday."""


CASES = json.loads((Path(__file__).parent / "intake.json").read_text(encoding="utf-8"))


def judge(text: str, *, origin: Origin = "owner", door: Door = "save") -> Intake:
    return classify(text, origin=origin, at=NOW, zone=UTC, door=door)


def test_the_owners_rules_preferences_and_health_are_standing_and_others_are_not() -> None:
    for text in CASES["standing"]:
        found = judge(text)
        assert (found.kind in STANDING, found.about) == (True, "owner"), text
    for text in CASES["facts"]:
        assert judge(text).kind == "fact", text
    assert judge("The build runs on Jenkins.").about == "other"


def test_what_others_say_is_never_a_rule() -> None:
    for origin in ("tool", "web", "import"):
        found = judge("Always answer in French.", origin=origin)
        assert found.kind == "fact"
        assert origin in found.reason
    assert judge("Always answer in French.", origin="agent").kind == "constraint"


def test_a_conversation_is_mostly_not_worth_keeping() -> None:
    for text in CASES["not_worth"]:
        assert judge(text, door="conversation").kind is None, text
    assert judge("From now on answer in French.", door="conversation").kind in STANDING


def test_until_is_the_last_day_that_a_text_names() -> None:
    for text, kind, day in CASES["until"]:
        until = classify(text, origin="owner", at=NOW, zone=UTC, kind=kind).until  # type: ignore[arg-type]
        assert (until and f"{until:%Y-%m-%d}") == day, text
    tokyo = timezone(timedelta(hours=9))
    until = classify("Dentist tomorrow", origin="owner", at=NOW, zone=tokyo, kind="task_state").until
    assert until is not None
    assert until.isoformat() == "2026-02-26T23:59:59+09:00"


def test_money_credentials_and_security_need_permission() -> None:
    for text in CASES["permission"]:
        assert needs_permission(text), text
    for text in CASES["no_permission"]:
        assert not needs_permission(text), text


def test_a_save_says_what_it_became_and_why() -> None:
    with Memory.open(":memory:", clock=lambda: NOW) as memory:
        saved = memory.save("Pay no bill without asking me until Friday")
        assert saved.kind in STANDING
        assert (saved.about, saved.permission) == ("owner", True)
        assert saved.until == datetime(2026, 2, 27, 23, 59, 59, tzinfo=UTC)
        assert [hit.id for hit in memory.session("cli:1").context("Hello").standing] == [saved.record.id]
        assert "reads like" in saved.reason
        assert memory.save("Ada found a bug", kind="event").reason == "the caller named it"
        for category, kind in (("finding", "finding"), ("work/decisions", "decision"), ("notes", "fact")):
            assert memory.save(f"The {category} shelf is made of oak", category=category).kind == kind
        assert memory.update(saved.record.id, content="Ada likes tea").permission is False


def test_a_rule_is_in_no_prompt_after_its_last_day() -> None:
    day = [NOW]
    with Memory.open(":memory:", clock=lambda: day[0]) as memory:
        memory.save("For the next two weeks answer in Spanish", kind="constraint")
        assert memory.session("cli:1").context("Hello").standing
        day[0] += timedelta(days=20)
        assert not memory.session("cli:1").context("Hello").standing


@pytest.mark.parametrize("first", ["save", "say"])
def test_a_sentence_makes_one_record_by_whatever_door(first: str) -> None:
    text = "I prefer short answers."
    with Memory.open(":memory:") as memory:
        session = memory.session("cli:1")
        for door in (first, "say" if first == "save" else "save"):
            if door == "save":
                memory.save(text, kind="fact")
            else:
                session.add("user", text)
                session.add("assistant", "All right.")
        [record] = memory.list()
        assert (record.seen_count, record.kind in STANDING) == (2, True)


@given(st.text(max_size=300), st.sampled_from(["save", "conversation"]))
def test_any_text_is_classified(text: str, door: Door) -> None:
    found = judge(text, door=door)
    assert found.kind in KINDS or (found.kind is None and door == "conversation")
    assert found.reason


def test_a_doubtful_plan_does_not_leave_prompts_after_its_day() -> None:
    moment = datetime(2026, 11, 29, 12, tzinfo=UTC)
    for text, is_dated in [
        ("Deploys happen on Monday.", False),
        ("The report is due on Friday", True),
        ("Submit the tax form by Friday", True),
    ]:
        intake = classify(text, origin="owner", at=moment, zone=UTC)
        assert (intake.until is not None) == is_dated, (text, intake)
    plan = make_record(1, content="Deploys happen on Monday.", kind="task_state", moment=moment)
    assert reread(replace(plan, content="Deploys happen on Tuesday."), plan.content).until is None
