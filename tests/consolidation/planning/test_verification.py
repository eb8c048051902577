"""A model is believed only if it denies what code has made false of its own claims."""

from __future__ import annotations

import json

import pytest
from evaluation.measures.scripted_verifier import answer_check, answer_claims, list_claims

from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.verification import (
    MAX_CHARACTERS,
    NO_CONTROL,
    NOT_BELIEVED,
    PROMPT,
    Claim,
    ClaimCheck,
    VerificationRequest,
    build_controls,
)
from reverie.domain.similarity.grounding import extract_content
from reverie.llm.protocol import ModelFailure, ModelReply
from tests.factories import MovableClock


def fact(text: str, said: str = "", kind: str = "fact") -> Claim:
    return Claim(kind=kind, text=text, evidence=(f"- [2026-03-02 09:00] USER: {said or text}",))


RUTH = fact("Ruth is vegan.", "Ruth is vegan, by the way")
ATLAS = fact("Atlas listens on port 5433.", "Atlas moved to port 5433")
TRUE = {RUTH.text, ATLAS.text}


def verify(
    *claims: Claim, answer: str | ModelFailure | None = None, by_default: bool = False
) -> VerificationRequest:
    return VerificationRequest(
        [
            ClaimCheck(
                claims=claims, prompt=PassInput(now=MovableClock().now).prompt(PROMPT), by_default=by_default
            )
        ]
    )


def test_controls_change_a_number_exchange_a_name_and_deny() -> None:
    texts = [control.text for control in build_controls([RUTH, ATLAS])]
    assert texts == ["Atlas listens on port 5436.", "Atlas is vegan.", "Ruth is not vegan."]


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("Ruth ist nicht gegen Nüsse allergisch.", "Ruth ist gegen Nüsse allergisch."),
        ("Ruth isst kein Fleisch und fährt immer Rad.", "Ruth isst ein Fleisch und fährt immer Rad."),
        ("Ruth wohnt bei ihrer Schwester.", "Es stimmt nicht, dass Ruth wohnt bei ihrer Schwester."),
        ("Ruth n'est pas végétarienne.", "Ruth est végétarienne."),
        ("ルースは菜食主義者です。", "次のことは事実ではない、 ルースは菜食主義者です。"),
    ],
)
def test_claims_of_other_languages_are_denied(text: str, denied: str) -> None:
    assert [control.text for control in build_controls([fact(text)])][-1] == denied


def test_a_control_is_false_even_if_the_claim_it_is_made_of_is() -> None:
    false = fact("Atlas listens on port 5433.", "port 5433 belongs to Borealis, 5436 and 5440 are Atlas's")
    for control in build_controls([false, fact("Carla sails.")]):
        assert "5436" not in control.text
        assert "5440" not in control.text


def test_an_honest_model_is_believed_claim_by_claim() -> None:
    false = fact("Ruth runs 5 shops.", "Ruth runs past 5 shops")
    request = verify(RUTH, ATLAS, false)
    prompt = request.build().messages[0].content
    assert len(list_claims(prompt)) == 3 + 3, "the prompt's own example is none"
    [verdicts] = request.read(ModelReply(text=answer_check(prompt, TRUE.__contains__)))
    assert verdicts.is_believed
    assert [not why for why in verdicts.reasons] == [True, True, False]


def test_a_model_that_says_yes_or_denies_only_what_is_absurd_is_not_believed() -> None:
    request = verify(RUTH, ATLAS)
    prompt = request.build().messages[0].content
    yes = answer_claims(prompt, lambda text, evidence: True)
    absurd = answer_claims(
        prompt, lambda text, evidence: not extract_content(text).isdisjoint(extract_content(evidence))
    )
    for answer in (yes, absurd):
        [verdicts] = request.read(ModelReply(text=answer))
        assert verdicts.is_believed is False
        assert set(verdicts.reasons) == {NOT_BELIEVED}


def test_without_a_control_a_model_is_believed_only_by_its_exam() -> None:
    lone = fact("No longer true: lives in bern", "i left bern", kind="end")
    assert not list(build_controls([lone]))
    for by_default, believed in ((True, True), (False, None)):
        request = verify(lone, by_default=by_default)
        answer = answer_check(request.build().messages[0].content, lambda text: True)
        [verdicts] = request.read(ModelReply(text=answer))
        assert verdicts.is_believed is believed
        assert verdicts.reasons == (("",) if by_default else (NO_CONTROL,))


def test_of_two_verdicts_the_stricter_counts_and_a_missing_one_is_a_refusal() -> None:
    request = verify(RUTH, ATLAS)
    claims = list_claims(request.build().messages[0].content)
    number = next(number for number, text, _ in claims if text == RUTH.text)
    rows = [{"claim": number, "verdict": word, "missing": "x"} for word in ("supported", "contradicted")]
    [verdicts] = request.read(ModelReply(text=json.dumps({"claims": rows})))
    ruth, atlas = verdicts.reasons
    assert "contradicted: x" in ruth
    assert "did not say" in atlas


def test_what_has_no_room_is_not_judged_and_a_failure_is_said() -> None:
    long = [fact(f"Box {n} holds " + "tools " * 500) for n in range(20)]
    request = verify(*long)
    prompt = request.build().messages[0].content
    assert len(prompt) < 2 * MAX_CHARACTERS
    [verdicts] = request.read(
        ModelReply(text=answer_check(prompt, {each.text for each in long}.__contains__))
    )
    assert "no room" in verdicts.reasons[-1]
    [failed] = request.read(ModelFailure(why="timeout: too slow"))
    assert failed.failed == "timeout: too slow"
    assert len(failed.reasons) == 20
