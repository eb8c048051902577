"""A pass asks and is answered, and a model is believed only if it denies what code has made false of its claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from evaluation.measures.scripted_verifier import answer_check, answer_claims, list_claims

from reverie.consolidation.answers import NO_MODEL
from reverie.consolidation.flows import (
    MAX_CHARACTERS,
    NO_CONTROL,
    NOT_BELIEVED,
    Claim,
    ClaimVerdicts,
    Flow,
    ask_in_parts,
    build_controls,
    run_pass,
    run_together,
    verify_claims,
)
from reverie.consolidation.values import PassInput
from reverie.domain.similarity.grounding import extract_content
from reverie.llm.protocol import ChatMessage, ModelFailure, ModelReply, ModelRequest, TokenUsage
from tests.factories import MovableClock

VIEW = PassInput(now=MovableClock().now)

# -- requests ------------------------------------------------------------------------------------------------


def question(text: str) -> ModelRequest:
    return ModelRequest(messages=(ChatMessage(role="user", content=text),), purpose="test")


def two_questions() -> Flow[list[tuple[str, int]]]:
    heard = []
    for text in ("first?", "second?"):
        reply = yield question(text)
        heard.append((reply.text if isinstance(reply, ModelReply) else reply.why, reply.usage.requests))
    return heard


def test_a_pass_is_resumed_with_the_answers_and_an_empty_one_is_asked_for_once_more() -> None:
    def run(*texts: str) -> list[tuple[str, int]]:
        given = (ModelReply(text=text, usage=TokenUsage(requests=1)) for text in texts)
        return run_pass(two_questions(), lambda ask: next(given))

    assert run("one", "two") == [("one", 1), ("two", 1)]
    assert run(" \n", "one", "", "", "never") == [("one", 2), ("", 2)]
    assert run_pass(two_questions(), lambda ask: NO_MODEL) == [("no model", 0)] * 2


def test_an_answer_that_is_cut_off_splits_the_question_and_no_item_is_left_out() -> None:
    def build(items: Sequence[str]) -> ModelRequest:
        return question(" ".join(items))

    def ask(items: str, longest: int) -> tuple[list[str], int]:
        asked: list[ModelRequest] = []

        def answer(request: ModelRequest) -> ModelReply:
            asked.append(request)
            is_cut = len(request.messages[0].content.split()) > longest
            return ModelReply(text="{}", finish="length" if is_cut else "stop", usage=TokenUsage(requests=1))

        parts = run_pass(ask_in_parts(items, build, forms={}), answer)
        assert sum(reply.usage.requests for _, reply in parts) == len(asked)
        return ["".join(part) for part, _ in parts], len(asked)

    assert ask("abcd", longest=4) == (["abcd"], 1)
    assert ask("abcd", longest=2) == (["ab", "cd"], 3)
    assert ask("abcde", longest=1) == (["a", "b", "c", "de"], 7)
    assert ask("a", longest=0) == (["a"], 1)


def test_the_claims_of_passes_that_run_together_are_one_request_for_each_scope() -> None:
    def checks(*scopes: str) -> Flow[list[tuple[int, int]]]:
        verdicts = []
        for scope in scopes:
            claims = tuple(fact(f"{name} of {scope or 'all'} has 7 boats") for name in ("Ann", "Bo"))
            found = yield from verify_claims(VIEW, claims, scope=scope)
            verdicts.append((len(found.reasons), found.usage.requests))
        return verdicts

    asked: list[ModelRequest] = []

    def answer(ask: ModelRequest) -> ModelReply:
        asked.append(ask)
        return ModelReply(text='{"claims": []}', usage=TokenUsage(requests=1))

    found = run_together([checks("alice", "bob"), checks("", "bob")], answer)
    assert found == [[(2, 1), (2, 1)], [(2, 1), (2, 0)]], "the cost counts once"
    assert [ask.scope for ask in asked] == ["", "alice", "bob"]
    assert "alice" not in asked[2].messages[0].content


# -- verification --------------------------------------------------------------------------------------------


def fact(text: str, said: str = "", kind: str = "fact") -> Claim:
    return Claim(kind=kind, text=text, evidence=(f"- [2026-03-02 09:00] USER: {said or text}",))


RUTH = fact("Ruth is vegan.", "Ruth is vegan, by the way")
ATLAS = fact("Atlas listens on port 5433.", "Atlas moved to port 5433")


def verify(
    *claims: Claim, answer: Callable[[str], str | ModelFailure], by_default: bool = False
) -> ClaimVerdicts:
    def ask(request: ModelRequest) -> ModelReply | ModelFailure:
        given = answer(request.messages[0].content)
        return ModelReply(text=given) if isinstance(given, str) else given

    view = replace(VIEW, is_trusted=by_default or None)
    return run_pass(verify_claims(view, claims, scope=""), ask)


def iter_controls(*texts: str) -> Iterator[str]:
    return (control.text for control in build_controls([fact(text) for text in texts]))


def test_controls_change_a_number_exchange_a_name_and_deny_in_other_languages_too() -> None:
    texts = [control.text for control in build_controls([RUTH, ATLAS])]
    assert texts == ["Atlas listens on port 5436.", "Atlas is vegan.", "Ruth is not vegan."]
    cases = {
        "Ruth ist nicht gegen Nüsse allergisch.": "Ruth ist gegen Nüsse allergisch.",
        "Ruth isst kein Fleisch und fährt immer Rad.": "Ruth isst ein Fleisch und fährt immer Rad.",
        "Ruth wohnt bei ihrer Schwester.": "Es stimmt nicht, dass Ruth wohnt bei ihrer Schwester.",
        "Ruth n'est pas végétarienne.": "Ruth est végétarienne.",
        "ルースは菜食主義者です。": "次のことは事実ではない、 ルースは菜食主義者です。",
    }
    for text, denied in cases.items():
        assert [*iter_controls(text)][-1] == denied
    false = fact("Atlas listens on port 5433.", "port 5433 belongs to Borealis, 5436 and 5440 are Atlas's")
    for control in build_controls([false, fact("Carla sails.")]):
        assert "5436" not in control.text, "a control is false even if the claim it is made of is"
        assert "5440" not in control.text


def test_an_honest_model_is_believed_claim_by_claim() -> None:
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return answer_check(prompt, {RUTH.text, ATLAS.text}.__contains__)

    verdicts = verify(RUTH, ATLAS, fact("Ruth runs 5 shops.", "Ruth runs past 5 shops"), answer=answer)
    assert len(list_claims(prompts[0])) == 3 + 3, "the prompt's own example is none"
    assert verdicts.is_believed
    assert [not why for why in verdicts.reasons] == [True, True, False]


def test_a_model_that_says_yes_or_denies_only_what_is_absurd_is_not_believed() -> None:
    def is_absurd(text: str, evidence: str) -> bool:
        return extract_content(text).isdisjoint(extract_content(evidence))

    for judge in (lambda text, evidence: True, lambda text, evidence: not is_absurd(text, evidence)):
        verdicts = verify(RUTH, ATLAS, answer=lambda prompt, judge=judge: answer_claims(prompt, judge))  # type: ignore[misc]
        assert verdicts.is_believed is False
        assert set(verdicts.reasons) == {NOT_BELIEVED}


def test_without_a_control_a_model_is_believed_only_by_its_exam() -> None:
    lone = fact("No longer true: lives in bern", "i left bern", kind="end")
    for by_default, believed, why in ((True, True, ""), (False, None, NO_CONTROL)):
        verdicts = verify(
            lone, by_default=by_default, answer=lambda prompt: answer_check(prompt, lambda text: True)
        )
        assert (verdicts.is_believed, verdicts.reasons) == (believed, (why,))


def test_of_two_verdicts_the_stricter_counts_and_a_missing_one_is_a_refusal() -> None:
    def answer(prompt: str) -> str:
        number = next(number for number, text, _ in list_claims(prompt) if text == RUTH.text)
        rows = [{"claim": number, "verdict": word, "missing": "x"} for word in ("supported", "contradicted")]
        return json.dumps({"claims": rows})

    ruth, atlas = verify(RUTH, ATLAS, answer=answer).reasons
    assert "contradicted: x" in ruth
    assert "did not say" in atlas


def test_what_has_no_room_is_not_judged_and_a_failure_is_said() -> None:
    long = [fact(f"Box {n} holds " + "tools " * 500) for n in range(20)]

    def answer(prompt: str) -> str:
        assert len(prompt) < 2 * MAX_CHARACTERS
        return answer_check(prompt, {each.text for each in long}.__contains__)

    assert "no room" in verify(*long, answer=answer).reasons[-1]
    failed = verify(*long, answer=lambda prompt: ModelFailure(why="timeout: too slow"))
    assert failed.failed == "timeout: too slow"
    assert len(failed.reasons) == 20
