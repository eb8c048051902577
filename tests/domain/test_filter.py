"""What a filter refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput
from reverie.domain.filter import MOST_VALUES, ListFilters, build_filter
from reverie.memory import Memory


def test_a_word_for_yes_or_no_is_refused_and_not_taken_for_nothing() -> None:
    for name in ["archived", "pinned"]:
        assert getattr(build_filter({name: True}, ListFilters), name) is True
        with pytest.raises(InvalidInput, match=f"{name} is 'yes': pass True, False, or None for both"):
            build_filter({name: "yes"}, ListFilters)


@pytest.mark.parametrize("name", ["category", "tags"])
def test_as_many_values_as_a_filter_takes_work_and_more_are_refused(tmp_path: Path, name: str) -> None:
    values = [f"value-{number}" for number in range(MOST_VALUES + 1)]
    with Memory.open(tmp_path / "memory") as memory:
        memory.save("The ferry leaves at nine", category=values[0], tags=values[:1])
        found = memory.list(**{name: values[:-1]})  # type: ignore[arg-type]
        assert len(found) == (1 if name == "category" else 0)
        assert len(memory.search("ferry", **{name: values[:-1]})) == len(found)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=f"{name} has 501 values: pass at most 500"):
            memory.list(**{name: values})  # type: ignore[arg-type]
