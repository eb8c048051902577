"""Preferences are counted by the strength of their signals, and are verified."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from evaluation.measures.scripted_verifier import answer_check

from reverie.consolidation.flows import run_pass
from reverie.consolidation.passes.preferences import MAX_INFERRED, explain_unshown, infer_preferences
from reverie.consolidation.values import PassInput, Plan
from reverie.domain.conversation import SIGNAL, Turn
from reverie.domain.record import Record
from reverie.llm.protocol import ModelReply, ModelRequest
from tests.factories import make_record, make_turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turn(position: int, content: str, **more: Any) -> Turn:
    given = {"id": f"{position:012x}", "at": NOW - timedelta(minutes=60 - position), **more}
    return make_turn(position, content=content, **given)


def infer(
    turns: Sequence[Turn],
    *proposals: dict[str, Any],
    true: bool = True,
    key: str = "preferences",
    **more: Any,
) -> Plan:
    said = {each["content"] for each in proposals}

    def answer(request: ModelRequest) -> ModelReply:
        prompt = request.messages[-1].content
        if request.purpose == "verify":
            return ModelReply(text=answer_check(prompt, lambda claim: true and claim in said))
        return ModelReply(text=json.dumps({key: list(proposals)}))

    numbers = iter(range(900, 10_000))
    view = PassInput(now=NOW, turns=tuple(turns), new_id=lambda: f"{next(numbers):012x}", **more)
    return run_pass(infer_preferences(view), answer)


def preference(content: str, **signals: str) -> dict[str, Any]:
    return {
        "content": content,
        "category": "",
        "tags": [],
        "signals": [{"turn": name, "strength": strength} for name, strength in signals.items()],
    }


PLAIN = "Wants reports in plain text"
CASUAL = [turn(n, f"can the report number {n} be plain text") for n in range(1, 5)]


@pytest.mark.parametrize(
    ("strengths", "is_shown"),
    [
        (("casual",), False),
        (("casual", "casual"), False),
        (("casual", "casual", "casual"), True),
        (("mild",), False),
        (("mild", "mild"), True),
        (("mild", "casual"), False),
        (("strong",), False),
        (("strong", "mild"), True),
    ],
)
def test_casual_signals_count_three_times_and_mild_ones_twice(
    strengths: tuple[str, ...], is_shown: bool
) -> None:
    signals = {f"T{at}": strength for at, strength in enumerate(strengths, 1)}
    plan = infer(CASUAL, preference(PLAIN, **signals))
    assert bool(plan.steps) is is_shown, "a strong one counts so only where its turn bears it out"


@pytest.mark.parametrize(
    "said",
    [
        turn(1, "I read reports in plain text, always."),
        turn(1, "No, I said PLAIN text reports", metadata={SIGNAL: "correction"}),
        turn(1, "PLAIN text for REPORTS, how often do I have to say it!!"),
    ],
)
def test_one_strong_signal_is_enough(said: Turn) -> None:
    [step] = infer([said], preference("Wants reports in plain text", T1="strong")).steps
    record = step.edit.after
    assert isinstance(record, Record)
    assert (record.category, record.tags, record.kind) == (
        "user-preferences/inferred",
        ("inferred",),
        "preference",
    )
    assert dict(record.metadata) == {"source": "inferred"}
    assert record.references == (said.id,)


def test_a_preference_that_the_turns_do_not_show_is_refused() -> None:
    shown = preference(PLAIN, T1="casual", T2="casual", T3="casual")
    assert "unsupported" in infer(CASUAL, shown, true=False).refused[0].why
    invented = preference("Wants 12 reports in plain text", T1="casual", T2="casual", T3="casual")
    assert "12" in infer(CASUAL, invented).refused[0].why
    assert "last dream" in infer(CASUAL, preference(PLAIN, T9="strong")).refused[0].why


def test_only_the_owners_turns_are_evidence_and_what_comes_back_from_the_web_is_none() -> None:
    others = [
        turn(1, "I always want reports in plain text", role="assistant"),
        turn(2, "always plain text reports", role="tool", tool_call_id="c"),
    ]
    assert infer(others, preference(PLAIN, T1="strong")).skipped == "the owner has said nothing new"
    shown = make_record(id="f" * 12, content="I always want plain text.", moment=NOW, origin="web")
    echoed = infer([turn(1, "I always want plain text.")], preference(PLAIN), records=(shown,))
    assert echoed.skipped == "the owner has said nothing new"


def test_turns_of_the_week_before_count_if_a_new_one_shows_the_same() -> None:
    plan = infer(
        CASUAL[2:3], preference(PLAIN, T1="casual", T2="casual", T3="casual"), earlier=tuple(CASUAL[:2])
    )
    assert len(plan.steps) == 1


def test_money_and_credentials_are_only_proposed_and_marked() -> None:
    said = turn(1, "Always pay with the company card")
    plan = infer([said], preference("Always pays with the company card", T1="strong"))
    assert not plan.steps
    [step] = plan.proposals
    assert isinstance(step.edit.after, Record)
    assert step.edit.after.permission
    known = make_record(id="a" * 12, content="Always pay using the company card", moment=NOW)
    again = infer([said], preference("Always pays with the company card", T1="strong"), proposals=(known,))
    assert "proposed already" in again.refused[0].why


def test_rockbots_form_and_bare_evidence_are_read() -> None:
    said = turn(1, "I read reports in plain text, always.")
    saved = {"content": PLAIN, "category": "user-preferences/style", "tags": ["format"], "sourceIds": ["T1"]}
    [step] = infer([said], saved, key="toSave").steps
    assert isinstance(step.edit.after, Record)
    assert step.edit.after.category == "user-preferences/style"
    bare = {"content": PLAIN, "category": "", "tags": [], "evidence": ["T1"]}
    assert infer([said], bare).steps


def test_no_more_preferences_are_taken_than_turns_were_said() -> None:
    said = turn(1, "I always want few words of few letters")
    many = [preference(f"Wants {'few ' * n}words of few letters", T1="strong") for n in range(1, 50)]
    assert len(infer([said], *many).steps) == 1
    turns = [turn(n, f"I always want few words of few letters, attempt {n}") for n in range(1, 60)]
    assert len(infer(turns, *many).steps) == MAX_INFERRED


def test_a_repeated_text_is_one_signal() -> None:
    same = [(turn(n, "plain text reports please"), "mild") for n in range(2)]
    assert "two mild ones" in explain_unshown(PLAIN, same)
