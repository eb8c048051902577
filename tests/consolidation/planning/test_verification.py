"""Claims stand if the model supports them, asked about them alone, and denies the one that is made up."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from evaluation.measures.scripted_verifier import answer_check

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.requests import run_pass
from reverie.consolidation.planning.verification import MADE_UP, Claim, ClaimVerdicts, verify_claims
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest, TokenUsage

VIEW = PassInput(now=datetime(2026, 3, 1, 12, tzinfo=UTC))
CLAIMS = [
    Claim(kind="fact", text=f"Ada has {number} cats", evidence=(f"- USER: {number} cats",))
    for number in range(3)
]


def verify(answer: str | ModelReply | ModelFailure) -> ClaimVerdicts:
    return run_pass(
        verify_claims(VIEW, CLAIMS), lambda _: ModelReply(text=answer) if isinstance(answer, str) else answer
    )


def test_each_claim_has_the_verdict_of_its_number() -> None:
    def deny_one(ask: ModelRequest) -> ModelReply:
        assert ask.purpose == "verify"
        return ModelReply(text=answer_check(ask.messages[0].content, lambda claim: "1 cats" not in claim))

    verdicts = run_pass(verify_claims(VIEW, CLAIMS), deny_one)
    assert [bool(why) for why in verdicts.reasons] == [False, True, False]
    assert run_pass(verify_claims(VIEW, []), deny_one) == ClaimVerdicts()


def test_a_model_that_supports_everything_supports_nothing() -> None:
    def believe_all(ask: ModelRequest) -> ModelReply:
        assert MADE_UP in ask.messages[0].content
        verdicts = [{"claim": n, "missing": "", "verdict": "supported"} for n in range(1, 5)]
        return ModelReply(text=json.dumps({"claims": verdicts}))

    assert all("made-up" in why for why in run_pass(verify_claims(VIEW, CLAIMS), believe_all).reasons)


def test_what_no_verdict_names_is_refused() -> None:
    first = {"claim": 1, "missing": "", "verdict": "Supported"}
    verdicts = verify(json.dumps({"claims": [first, {**first, "claim": 2, "verdict": "contradicted"}, 3]}))
    assert [bool(why) for why in verdicts.reasons] == [False, True, True]
    twice = [first, {**first, "verdict": "unsupported"}, first]
    assert all(verify(json.dumps({"claims": twice})).reasons), "of two verdicts the stricter counts"


def test_no_usable_answer_supports_nothing() -> None:
    for answer in ("", "Sure!", '{"claims": "all"}', ModelReply(text="[]", finish="length")):
        assert all(verify(answer).reasons)
    failed = verify(ModelFailure(why="too slow", usage=TokenUsage(requests=1)))
    assert (failed.failed, failed.usage.requests) == ("too slow", 1)
    assert all(failed.reasons)


def test_claims_that_one_question_does_not_hold_are_not_judged() -> None:
    long = [Claim(kind="fact", text=f"Fact {n}", evidence=("- USER: " + "so " * 6_000,)) for n in range(4)]
    asked: list[str] = []

    def believe(ask: ModelRequest) -> ModelReply:
        asked.append(ask.messages[0].content)
        return ModelReply(text=answer_check(asked[-1], lambda _: True))

    reasons = run_pass(verify_claims(VIEW, long), believe).reasons
    assert [bool(why) for why in reasons] == [False, False, True, True]
    assert len(asked) == 1
    assert "Fact 3" not in asked[0]
