"""The setting `thinking` says what background work may do, and the log has every plan and apply."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory, Settings
from reverie.domain.errors import InvalidInput
from reverie.llm.protocol import ModelRequest
from tests.factories import MovableClock


def _save_event(memory: Memory, text: str = "We decided on Postgres") -> None:
    memory.save(text, kind="decision", layer="episodic")


def _states(memory: Memory) -> list[tuple[Any, Any]]:
    return [(entry["pass"], entry["state"]) for entry in memory.dreams.log()]


def test_a_plan_and_its_apply_in_a_program_are_one_logged_dream() -> None:
    with Memory.open(":memory:") as memory:
        _save_event(memory)
        plan = memory.dreams.plan("promote")
        assert _states(memory) == [("promote", "planned")]
        result = memory.dreams.apply(plan)
        [entry] = memory.dreams.log()
        assert (entry["plan"], entry["state"], entry["batch"]) == (plan.id, "applied", result.batch)


def test_a_plan_that_waits_blocks_the_due_dream_until_it_is_decided() -> None:
    clock = MovableClock()
    with Memory.open(":memory:", clock=clock) as memory:
        _save_event(memory)
        waiting = memory.dreams.keep_plan(memory.dreams.plan())
        clock.now += timedelta(days=2)
        memory.dreams.run_due()
        assert [record.layer for record in memory.list()] == ["episodic"], "the plan of the owner waits"
        memory.dreams.decide(waiting.id, "accept")
        assert _states(memory) == [("dream", "applied")]
        _save_event(memory, "Nell joined the choir")
        clock.now += timedelta(days=2)
        assert memory.dreams.run_due().outcomes


def test_with_off_no_dream_runs_and_no_model_is_asked(tmp_path: Path) -> None:
    clock, asked = MovableClock(), list[str]()

    def answer(request: ModelRequest) -> str:
        asked.append(request.purpose)
        return "{}"

    settings = Settings(thinking="off", memory_window=4)
    with Memory.open(tmp_path / "m", clock=clock, model=answer, settings=settings) as memory:
        _save_event(memory)
        memory.save("rough note", draft=True)
        session = memory.session("cli:1")
        for number in range(6):
            session.add("user", f"I live in house {number}")
            session.add("assistant", "Fine.")
        clock.now += timedelta(days=2)
        memory.dreams.run_due()
        assert asked == []
        assert {record.layer for record in memory.list() if record.kind == "decision"} == {"episodic"}
        assert memory.sessions()[0].state.window_start > 0, (
            "a window that is too long is shortened without a model"
        )
        memory.dreams.run()
        assert asked, "who asks for a dream gets one"


def test_with_ask_what_is_read_from_a_conversation_waits_for_the_owner() -> None:
    clock, asked = MovableClock(), list[str]()

    def answer(request: ModelRequest) -> str:
        asked.append(request.purpose)
        return '{"add": [{"content": "Ruth is vegan, by the way.", "kind": "fact", "category": "", "turns": ["T1"]}]}'

    settings = Settings(thinking="ask", dream_interval=None, learn=False)
    with Memory.open(":memory:", clock=clock, model=answer, settings=settings) as memory:
        session = memory.session("cli:1")
        session.add("user", "Book a table for two. Ruth is vegan, by the way.")
        session.add("assistant", "Done.")
        clock.now += timedelta(hours=2)
        memory.dreams.run_due()
        memory.dreams.run_due()
        assert asked == ["read"], "a conversation whose plan waits is not read again"
        assert memory.list() == []
        [waiting] = memory.dreams.kept_plans()
        memory.dreams.decide(waiting.id, "accept")
        assert [record.content for record in memory.list()] == ["Ruth is vegan, by the way."]


def test_only_three_values_are_accepted() -> None:
    with pytest.raises(InvalidInput, match="ask, tidy, off"):
        Settings(thinking="maybe")  # type: ignore[arg-type]
    assert Settings.load(environ={"REVERIE_THINKING": "ask"}).thinking == "ask"
