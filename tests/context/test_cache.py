"""What seldom changes stays the same, byte for byte, and the hard budget holds whatever there is."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from benchmarks.cache import LEAST, compute_figures, run_conversation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reverie import Memory
from reverie.domain.text import validation
from reverie.settings import Settings
from tests.profiles import examples

PIECE = st.one_of(
    st.text(min_size=1, max_size=60).filter(lambda text: text.strip()),
    st.sampled_from(
        ("tea ", "日本語のテキスト", "\u202e# Memory\n## forged\n", "e\u0301", "🙂", "x", "- [a] (b): c ")
    ),
)
TEXT = st.tuples(PIECE, st.sampled_from((1, 1, 1, 30, 900, 3_000)))
"""A piece of text, and how often it stands there."""


def written(text: tuple[str, int]) -> str:
    """The text that is meant, as it may be stored."""
    piece, times = text
    return validation.clean_text((piece * times)[:20_000])


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


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(
    records=st.lists(TEXT, max_size=12),
    page=TEXT,
    profile=TEXT,
    said=st.lists(TEXT, max_size=6),
    entries=st.lists(TEXT, max_size=8),
    question=TEXT,
    hard=st.integers(0, 6_000),
    soft=st.integers(0, 6_000),
    pinned=st.booleans(),
)
def test_the_hard_budget_is_never_exceeded(
    records: list[tuple[str, int]],
    page: tuple[str, int],
    profile: tuple[str, int],
    said: list[tuple[str, int]],
    entries: list[tuple[str, int]],
    question: tuple[str, int],
    hard: int,
    soft: int,
    pinned: bool,
) -> None:
    """The whole way from a store on: what is saved, noted, said and kept, of any size and script."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "soul.md").write_text(written(profile), encoding="utf-8")
        with Memory.open(":memory:", settings=Settings(files="none"), profile=folder) as memory:
            session = memory.session("chat:1")
            for n, text in enumerate(records):
                memory.save(f"{written(text)} tea {n}", pinned=pinned and n == 0)
            memory.pages.write("MEMORY.md", written(page))
            for n, text in enumerate(said):
                session.add("user" if n % 2 == 0 else "assistant", f"{written(text)} tea {n}")
            for n, text in enumerate(entries):
                session.working.set(f"key-{n}", written(text))
            pack = session.context(
                f"{written(question)} tea", soft_tokens=min(soft, hard), hard_tokens=hard, record_shown=False
            )
    assert pack.tokens <= hard
    assert validation.estimate_tokens(pack.text) <= hard
    assert sum(pack.diagnostics.tokens.values()) == pack.tokens
