"""Whatever a model answers, a memory grows by what was said and not by what a model makes of it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.consolidation.passes.digest import LONGEST_NOTES
from reverie.consolidation.passes.infer import MOST_INFERRED
from reverie.consolidation.passes.merge import LEFT
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.material import Signal
from reverie.domain.errors import ModelUnavailable
from reverie.domain.page import Page
from reverie.llm import model_from_function
from reverie.llm.protocol import ModelReply, ModelRequest
from tests.consolidation.passes import test_digest, test_infer
from tests.consolidation.passes.test_merge import NOW, cycle, left, many, proposal, record
from tests.factories import MovableClock

TEA = "Ana likes green tea and drinks it at noon"
CAKE = "Ana likes green tea with lemon cake"


def summed_up(content: str, *texts: str) -> Plan:
    parts = [record(text) for text in texts or (TEA, CAKE)]
    ids = [each.id for each in parts]
    return cycle([*parts, *many(100)], proposal(merge=[{"sources": ids, "content": content}]), changed=parts)


def why(plan: Plan) -> str:
    return "; ".join(refusal.why for refusal in plan.refused)


def test_a_headline_is_not_longer_than_a_prompt_shows() -> None:
    long = [f"Ana likes tea of sort number {n} from the garden " + "very much indeed " * 30 for n in (1, 2)]
    refused = summed_up("; ".join(long), *long)
    assert not refused.steps
    assert "longer than a prompt shows" in why(refused)


def signal(number: int) -> Signal:
    return Signal(kind="correction", id=f"{number:012x}", text="No, use pnpm", before="npm", at=NOW)


def test_a_signal_teaches_one_anti_pattern() -> None:
    lessons = [
        {"domain": "d", "content": f"Don't use npm {'so ' * n}— instead pnpm", "evidence": [f"{s:012x}"]}
        for s in (1, 2)
        for n in range(30)
    ]
    records = many(3)
    plan = cycle(records, proposal(anti_patterns=lessons), signals=[signal(1), signal(2)])
    assert len(left(records, plan)) == 3 + 2
    assert len(plan.refused) == 58


def test_an_anti_pattern_is_one_sentence() -> None:
    lesson = {"domain": "d", "content": "Don't use npm " + "at all " * 100, "evidence": [f"{1:012x}"]}
    plan = cycle(many(3), proposal(anti_patterns=[lesson]), signals=[signal(1)])
    assert not plan.steps
    assert "longer than an anti-pattern" in why(plan)


def preference(content: str, *evidence: str) -> dict[str, Any]:
    return {"content": content, "evidence": list(evidence)}


def test_no_more_preferences_are_inferred_than_turns_were_said() -> None:
    turns = [test_infer.turn(f"I always want few words of few letters, attempt {n}") for n in range(3)]
    said = [preference(f"Prefers {'few ' * n} words of few letters", turns[0].id) for n in range(50)]
    assert len(test_infer.found(test_infer.cycle(turns, test_infer.preferences(*said)))) == 3
    turns = [test_infer.turn(f"I always want few words of few letters, attempt {n}") for n in range(60)]
    said = [preference(f"Prefers {'few ' * n} words of few letters", turns[0].id) for n in range(50)]
    plan = test_infer.cycle(turns, test_infer.preferences(*said))
    assert len(test_infer.found(plan)) == MOST_INFERRED
    assert len(plan.refused) == 50 - MOST_INFERRED


def test_a_model_makes_no_book_of_the_notes() -> None:
    page = Page(name="MEMORY.md", content="- word\n" * (LONGEST_NOTES // 7), updated_at=test_digest.NOW)
    plan, _ = test_digest.passed(test_digest.said("Done.", test_digest.CI), page=page)
    paragraph, changed, _ = test_digest.parts(plan)
    assert paragraph.content
    assert changed is None
    assert "too long" in why(plan)


@pytest.mark.slow
def test_what_waits_for_room_still_waits_after_a_night_that_failed(
    tmp_path: Path, clock: MovableClock
) -> None:
    fails = False
    shown: list[ModelRequest] = []

    def model(ask: ModelRequest) -> str | ModelReply:
        if fails:
            raise ModelUnavailable("no answer in time")
        shown.append(ask)
        return proposal()

    with Memory.open(tmp_path / "memory", clock=clock, model=model_from_function(model)) as memory:
        memory.save_many({"content": f"Shelf {n} holds box {n * 7} of lot {n * 3}"} for n in range(1_050))
        memory.dreams.run(["merge"])
        waiting = (memory._store.cursor(LEFT) or "").split()
        assert waiting
        fails = True
        clock.now += timedelta(days=1)
        memory.save("Shelf 9999 holds nothing")
        (outcome,) = memory.dreams.run(["merge"]).outcomes
        assert outcome.state == "failed"
        assert (memory._store.cursor(LEFT) or "").split() == waiting
        fails = False
        shown.clear()
        while memory._store.cursor(LEFT):
            memory.dreams.run(["merge"])
        seen = "\n".join(ask.messages[0].content for ask in shown)
        assert all(f"NEW [{name}]" in seen for name in waiting)


@pytest.mark.slow
def test_a_night_over_many_records_looks_at_few() -> None:
    """What resembles a record is found by its rarest words, so common ones cost nothing."""
    records = [record(f"The common text about the common thing number {n}") for n in range(3_000)]
    fresh = record("The common text about a zebra")
    alike = record("A zebra is what the text is about")
    shown: list[str] = []

    def answer(ask: ModelRequest) -> ModelReply:
        shown.append(ask.messages[0].content)
        return ModelReply(text=json.dumps({"merge": [], "archive": [], "refile": [], "anti_patterns": []}))

    cycle([*records, alike, fresh], answer, changed=[fresh])
    assert f"[{alike.id}]" in shown[0]


@pytest.mark.slow
def test_a_window_that_cannot_become_shorter_is_left_alone(tmp_path: Path, clock: MovableClock) -> None:
    """Not looked at every few seconds for ever: the last turns stay, however long they are."""
    with Memory.open(tmp_path / "memory", clock=clock) as memory:
        session = memory.session("chat:1")
        for number in range(6):
            session.add("user" if number % 2 == 0 else "assistant", f"{number} " + "word " * 20_000)
        clock.now += timedelta(hours=1)
        memory.dreams.run()
        memory.dreams.run_due()  # concludes the session that was left
        sequence = memory._store.sequence()
        assert memory.dreams.run_due().outcomes == ()
        assert memory._store.sequence() == sequence
        for number in range(20):
            session.add("user" if number % 2 == 0 else "assistant", f"{number} words")
        (outcome,) = (each for each in memory.dreams.run_due().outcomes if each.name == "compact")
        assert (outcome.state, len(session.turns())) == ("applied", 20)


def test_a_headline_is_not_longer_than_its_records_together() -> None:
    assert summed_up(f"{TEA}; {CAKE}").steps
    grown = summed_up(f"{TEA}; {CAKE}" + ", and so on" * 20)
    assert not grown.steps
    assert "longer than its records" in why(grown)


def test_a_headline_has_no_value_and_names_nobody_that_no_record_does() -> None:
    cases = [("At 5 pm", "17:00"), ("So says Mallory", "mallory"), ("See /etc/tea", "/etc/tea")]
    for added, named in cases:
        plan = summed_up(f"{TEA} with lemon cake. {added}")
        assert not plan.steps
        assert named in why(plan)
