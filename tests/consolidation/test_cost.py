"""What dreams cost is counted by month, a limit stops requests, and the limits of models are known."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reverie import Memory, Settings
from reverie.consolidation.asking import read_exam
from reverie.consolidation.gatherer import DEFAULT_COMPACTION_TOKENS, compute_compaction_tokens
from reverie.domain.errors import InvalidInput
from reverie.llm.protocol import ModelReply, ModelRequest, TokenUsage, find_known_model
from tests.factories import MovableClock


class _Model:
    """Model with a known name that answers claims as a test says."""

    name = "openai:gpt-5-mini"

    def __init__(self, supports: Any = lambda text: False) -> None:
        self.supports = supports
        self.requests = 0

    def answer(self, request: ModelRequest, *, on_text: object = None) -> ModelReply:
        self.requests += 1
        usage = TokenUsage(requests=1, input_tokens=1_000, output_tokens=500)
        if request.purpose != "verify":
            return ModelReply(text='{"headlines": [], "file": [], "preferences": [], "add": []}', usage=usage)
        lines = request.messages[-1].content.rpartition("Claims:\n")[2].splitlines()
        claims = [line.partition(": ")[::2] for line in lines if line.startswith("Claim ")]
        rows = [
            {"claim": int(head.split()[1]), "verdict": "supported" if self.supports(text) else "unsupported"}
            for head, text in claims
        ]
        return ModelReply(text=json.dumps({"claims": rows}), usage=usage)


def test_the_cost_of_a_month_is_counted_and_a_limit_stops_requests_and_says_so() -> None:
    clock, model = MovableClock(), _Model()
    settings = Settings(monthly_tokens=2_000, embedder="none", dream_interval=None)
    with Memory.open(":memory:", model=model, clock=clock, settings=settings) as memory:
        for number in range(3):
            memory.save(f"Box {number} is in the attic")
            memory.dreams.run(["tidy"])
        usage = memory.dreams.usage()
        assert (usage.requests, usage.tokens) == (2, 3_000)
        assert usage.cost == pytest.approx(2 * (1_000 * 0.25 + 500 * 2) / 1e6)
        failed = [each["why"] for each in memory.dreams.log() if each["state"] == "failed"]
        assert set(failed) == {"the monthly limit of tokens is reached"}
        assert [each["cost"] for each in memory.dreams.log()[:1]] == [pytest.approx(usage.cost / 2)]
        clock.now += timedelta(days=40)
        assert memory.dreams.usage().requests == 0
        memory.dreams.run(["tidy"])
        assert memory.dreams.usage().requests >= 1, "a new month begins"


def test_compaction_knows_what_a_model_reads() -> None:
    for settings, model, tokens in (
        (Settings(), "", DEFAULT_COMPACTION_TOKENS),
        (Settings(), "openai:gpt-4o-mini-2024-07-18", 102_400),
        (Settings(), "openai:unheard-of", DEFAULT_COMPACTION_TOKENS),
        (Settings(model_input_tokens=10_000), "openai:gpt-4o", 8_000),
        (Settings(compaction_tokens=9_000), "openai:gpt-4o", 9_000),
    ):
        assert compute_compaction_tokens(settings, model) == tokens
    assert find_known_model("anthropic:claude-haiku-4-5-20251001") is not None


def test_a_program_that_asks_for_it_thinks_by_itself() -> None:
    with Memory.open(":memory:", thinking=True) as memory:
        assert not memory.dreams.stop(timeout_s=0) or memory.dreams.stop()
        thread = memory.dreams
        thread.start()
        assert thread.stop()


def test_the_exam_is_stored_and_decides_where_no_control_can_be_made() -> None:
    right = {claim.text for claim, is_right in read_exam() if is_right}
    wrong = {claim.text for claim, is_right in read_exam() if not is_right}
    assert (len(read_exam()), len(right)) == (40, 20)
    for supports, is_passed in (
        (lambda text: text in right and text not in wrong, True),
        (lambda text: True, False),
        (lambda text: False, False),
    ):
        model = _Model(supports)
        with Memory.open(":memory:", model=model) as memory:
            report = memory.dreams.check_model()
            assert report.is_passed is is_passed
            assert sum(row.right for row in report.rows) == 20
            assert model.requests == 4
            assert memory.dreams._asker.is_trusted() is is_passed
    with Memory.open(":memory:") as memory, pytest.raises(InvalidInput, match="No model"):
        memory.dreams.check_model()
