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


@pytest.mark.slow
def test_the_stable_part_comes_first_and_changes_now_and_then(tmp_path: Path) -> None:
    prompts = run_conversation(tmp_path / "memory", turns=120)
    for prompt in prompts:
        stable = prompt.pack.stable_text
        assert stable
        assert prompt.whole.startswith(stable)
    assert len({prompt.pack.stable_text for prompt in prompts}) > 2, "or the share would say nothing"
    assert sum(bool(prompt.pack.hits) for prompt in prompts) > len(prompts) // 2
