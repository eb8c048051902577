"""A memory that is opened again gives the same answers, with the same scores."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory
from tests.factories import get_search_index

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0"))
EXAMPLES = int(60 + 5 * SECONDS)

WORDS = ("kayak", "lantern", "trumpet", "quilt", "compass", "violin", "teapot", "ladder", "sextant", "anvil")

TEXTS = st.lists(
    st.lists(st.sampled_from((*WORDS, "plum", "pear", "fig", "naïve", "東京都")), min_size=2, max_size=9).map(
        " ".join
    ),
    min_size=1,
    max_size=30,
    unique=True,
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not SECONDS)
@given(
    texts=TEXTS,
    question=st.lists(st.sampled_from((*WORDS, "東京", "plum")), min_size=1, max_size=5).map(" ".join),
)
def test_the_same_question_has_the_same_answer_after_opening_again(texts: list[str], question: str) -> None:
    now = datetime(2025, 6, 2, tzinfo=UTC)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answers = []
        for n in range(3):
            with Memory.open(folder, clock=lambda: now) as memory:
                if n == 0:
                    memory.save_many({"content": text} for text in texts)
                    memory.session("s").add_many([{"role": "user", "content": text} for text in texts])
                hits = [
                    *memory.search(question, limit=50),
                    *memory.search(question, limit=50, sources="turns"),
                ]
                answers.append([(hit.id, hit.score) for hit in hits])
                if n == 1:
                    get_search_index(memory).fold()
        assert answers[0] == answers[1] == answers[2]
