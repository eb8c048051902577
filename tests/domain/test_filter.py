"""What a filter refuses."""

from __future__ import annotations

import pytest

from reverie.domain.errors import InvalidInput
from reverie.domain.filter import ListFilters, build_filter


@pytest.mark.parametrize("name", ["archived", "pinned"])
def test_a_word_for_yes_or_no_is_refused_and_not_taken_for_nothing(name: str) -> None:
    assert getattr(build_filter({name: True}, ListFilters), name) is True
    with pytest.raises(InvalidInput, match=f"{name} is 'yes': pass True, False, or None for both"):
        build_filter({name: "yes"}, ListFilters)
