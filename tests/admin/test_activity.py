from __future__ import annotations

from datetime import date

import pytest

from reverie import InvalidInput, Memory
from reverie.settings import Settings
from tests.factories import MovableClock


def test_activity_counts_the_changes_of_each_day_in_the_zone_of_the_owner(clock: MovableClock) -> None:
    settings = Settings(embedder="none", time_zone="America/New_York")
    with Memory.open(":memory:", clock=clock, settings=settings) as memory:  # 2 June 2025, 5:00 there
        memory.save("The tap drips")
        memory.save("The tap drips")
        clock.move(hours=24 + 18)  # 3 June, 23:00
        memory.session("cli:1").add("user", "Hello")
        clock.move(hours=2)  # 4 June, 1:00
        memory.archive(memory.list()[0].id)
        found = memory.admin.activity(days=4)
        assert list(found) == [date(2025, 6, day) for day in (1, 2, 3, 4)]
        assert [found[day]["save"] + found[day]["reinforce"] for day in found] == [0, 2, 0, 0]
        assert [found[day]["say"] > 0 for day in found] == [False, False, True, False]
        assert [found[day]["archive"] for day in found] == [0, 0, 0, 1]
        with pytest.raises(InvalidInput, match="days"):
            memory.admin.activity(days=0)
