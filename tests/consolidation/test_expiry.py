"""Records that name the last day on which they matter."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from reverie import Memory, Settings
from tests.factories import MovableClock


def test_a_plan_of_yesterday_is_in_no_prompt_and_no_search_unless_the_past_is_asked_for(
    tmp_path: Path,
) -> None:
    clock = MovableClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    with Memory.open(tmp_path / "m", clock=clock, settings=Settings(embedder=None)) as memory:
        plan = memory.save("The dentist appointment is tomorrow at nine", kind="task_state").record
        assert plan.until is not None
        assert memory.search("dentist appointment")
        clock.move(days=3)
        session = memory.session("cli:1")
        assert memory.search("dentist appointment") == []
        assert plan.id not in session.context("Where is my dentist appointment?").text
        asked = "Which dentist appointment did I have before?"
        (hit,) = memory.search(asked)
        assert hit.id == plan.id
        assert "held until 2026-03-0" in session.context(asked).text


def test_when_idle_it_is_ended_with_a_reason_and_an_end_that_was_undone_stays_undone(tmp_path: Path) -> None:
    clock = MovableClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    with Memory.open(tmp_path / "m", clock=clock, settings=Settings(embedder=None)) as memory:
        plan = memory.save("The dentist appointment is tomorrow at nine", kind="task_state").record
        pinned = memory.save("The exam is tomorrow at ten", kind="task_state", pinned=True).record
        clock.move(days=3)
        memory.dreams.run_due()
        ended = memory.get(plan.id)
        assert ended is not None
        assert ended.valid_to == plan.until
        assert memory.get(pinned.id) == pinned
        row = memory.history.log(plan.id, newest_first=True)[0]
        assert (row.actor, row.operation) == ("rules", "expire")
        memory.history.undo(row.batch)
        clock.move(hours=2)
        memory.dreams.run_due()
        assert memory.get(plan.id) == plan
