"""What seldom changes stays the same, byte for byte, and the hard budget holds whatever there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.cache import LEAST, compute_figures, run_conversation


@pytest.mark.slow
def test_of_200_turns_the_stable_part_is_the_same_as_in_the_prompt_before(tmp_path: Path) -> None:
    prompts = run_conversation(tmp_path / "memory")
    found = compute_figures(prompts)
    assert found.prompts >= 100
    assert found.stable >= LEAST
    assert found.unchanged > 0.8
    assert 0 < found.whole < 1
    assert found.most_tokens <= found.hard_tokens
