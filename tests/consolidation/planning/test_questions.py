"""A question that is answered at too great a length is asked in parts."""

from __future__ import annotations

from collections.abc import Sequence

from reverie.consolidation.planning.flows import ask_in_parts, run_pass
from reverie.consolidation.planning.requests import (
    build_question,
)
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest, TokenUsage


def _build(items: Sequence[str]) -> ModelRequest:
    return build_question(" ".join(items), purpose="test", schema={}, answer_tokens=100)


def _ask(items: Sequence[str], longest: int) -> tuple[list[tuple[str, ...]], int]:
    asked: list[int] = []

    def answer(request: ModelRequest) -> ModelReply | ModelFailure:
        count = len(request.messages[0].content.split())
        asked.append(count)
        finish = "length" if count > longest else "stop"
        return ModelReply(text="{}", finish=finish, usage=TokenUsage(requests=1))  # type: ignore[arg-type]

    parts = run_pass(ask_in_parts(items, _build), answer)
    assert sum(reply.usage.requests for _, reply in parts) == len(asked)
    return [tuple(part) for part, _ in parts], len(asked)


def test_an_answer_that_is_cut_off_splits_the_question_and_no_item_is_left_out() -> None:
    assert _ask("abcd", longest=4) == ([("a", "b", "c", "d")], 1)
    assert _ask("abcd", longest=2) == ([("a", "b"), ("c", "d")], 3)
    assert _ask("abcde", longest=1) == ([("a",), ("b",), ("c",), ("d", "e")], 7)
    assert _ask("a", longest=0) == ([("a",)], 1)
