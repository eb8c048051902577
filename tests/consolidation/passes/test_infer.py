"""Preferences are inferred from the owner's words alone, often enough, and marked for what they are."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from evaluation.measures.scripted_verifier import answer_check

from reverie.consolidation.passes.infer import infer
from reverie.consolidation.plan import Plan
from reverie.consolidation.planning.inputs import PassInput
from reverie.consolidation.planning.requests import run_pass
from reverie.domain.conversation import Role, Turn
from reverie.domain.intake import needs_permission
from reverie.domain.record import Record
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest
from tests.consolidation.without_model import answer_without_model
from tests.factories import believe, make_turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
numbers = itertools.count(1)


def turn(content: str, role: Role = "user", *, session: str = "chat:1", scope: str = "") -> Turn:
    number = next(numbers)
    at = NOW - timedelta(minutes=1_000 - number)
    return make_turn(number, session, id=f"{number:012x}", role=role, content=content, at=at, scope=scope)


def cycle(
    turns: Sequence[Turn],
    answer: Callable[[ModelRequest], ModelReply | ModelFailure] | str = answer_without_model,
    *,
    records: Sequence[Record] = (),
    injected: Sequence[str] = (),
    proposals: Sequence[Record] = (),
) -> Plan:
    view = PassInput(
        now=NOW,
        turns=tuple(turns),
        records=tuple(records),
        proposals=tuple(proposals),
        new_id=lambda: f"{next(numbers):012x}",
    )
    how = believe((lambda ask: answer) if isinstance(answer, str) else answer)
    return run_pass(infer(replace(view, injected=tuple(injected))), how)


def found(plan: Plan) -> list[Record]:
    edits = [step.edit for step in (*plan.steps, *plan.proposals)]
    assert all(edit.before is None for edit in edits)
    return [edit.after for edit in edits if isinstance(edit.after, Record)]


def short(*evidence: Turn, content: str = "Prefers shorter answers", **more: Any) -> str:
    return preferences({"content": content, "evidence": [f"[{each.id}]" for each in evidence], **more})


def preferences(*given: dict[str, Any]) -> str:
    return json.dumps({"preferences": list(given)})


def test_two_turns_show_a_preference_or_one_that_states_it_for_good() -> None:
    said = [
        turn("Shorter please, the answer is too long"),
        turn("And shorter, please"),
        turn("And the weather?"),
    ]
    assert not cycle(said, short(said[0]))
    assert not cycle(said, short(said[2]))
    assert found(cycle(said, short(said[0], said[1])))
    for_good = turn("I always want shorter answers")
    assert found(cycle([for_good], short(for_good)))
    corrected = replace(turn("I said shorter!"), metadata={"signal": "correction"})
    assert found(cycle([corrected], short(corrected)))
    assert not cycle(said, short(said[0], said[1], strength="very_irritated", content="Prefers French prose"))


def test_a_preference_that_the_model_does_not_find_in_the_cited_turns_is_refused() -> None:
    said = [turn("I always want shorter answers"), turn("The weather, please")]
    asked: list[str] = []

    def infer_and_deny(ask: ModelRequest) -> ModelReply:
        if ask.purpose == "verify":
            asked.append(ask.messages[0].content)
            return ModelReply(text=answer_check(asked[-1], lambda _: False))
        return ModelReply(text=short(said[0]))

    view = PassInput(now=NOW, turns=tuple(said))
    plan = run_pass(infer(view), infer_and_deny)
    assert not plan.steps
    assert "the model calls it unsupported" in plan.refused[0].why
    assert "I always want shorter answers" in asked[0]
    assert "The weather" not in asked[0]


def test_what_is_inferred_says_so_and_names_its_turns() -> None:
    turns = [turn("I always want short answers!")]
    said = preferences(
        {
            "content": "Prefers short answers",
            "evidence": [turns[0].id, "ffffffffffff"],
        }
    )
    (record,) = found(cycle(turns, said))
    assert (record.category, record.kind, record.tags) == (
        "user-preferences/inferred",
        "preference",
        ("inferred",),
    )
    assert record.metadata == {"source": "inferred"}
    assert record.references == (turns[0].id,)
    assert record.origin == "agent"


def test_only_the_owners_turns_are_evidence() -> None:
    turns = [turn("Hello"), turn("You prefer short answers", "assistant"), turn("short answers!", "tool")]
    evidence = [each.id for each in turns[1:]]
    assert not cycle(turns, preferences({"content": "Prefers X", "evidence": evidence}))
    assert cycle([turns[1]]).skipped
    repeated = turn("hello"), turn("Hello")
    evidence = [each.id for each in repeated]
    plan = cycle(repeated, preferences({"content": "Prefers X", "evidence": evidence}))
    assert not plan, "the same words twice are one piece of evidence"


def test_security_credentials_and_money_need_permission_whatever_the_model_says() -> None:
    needing = (
        "Prefers to pay by card", "Wants API keys kept in a vault", "Log in with 2FA",
        "Prefers spending under 20 €", "Use sudo without asking",
    )  # fmt: skip
    others = (
        "Prefers short answers", "Likes tokenless prose", "Prefers dark mode", "Avoid accountability talk"
    )  # fmt: skip
    for content in (*needing, *others):
        turns = [turn(f"{content.replace('Wants', 'I want')}, always")]
        given = {"content": content, "evidence": [turns[0].id], "requires_user_permission": False}
        plan = cycle(turns, preferences(given))
        (record,) = found(plan)
        is_needed = content in needing
        assert record.permission is is_needed is needs_permission(content)
        assert bool(plan.proposals) is is_needed, "it is only proposed"


def test_a_proposal_is_not_proposed_again_in_other_words() -> None:
    turns = [turn("Always pay with the company card")]
    (proposed,) = found(cycle(turns, short(turns[0], content="Always pay with the company card")))
    plan = cycle(turns, short(turns[0], content="Pay with the company card always"), proposals=[proposed])
    assert not plan
    assert proposed.id in plan.refused[0].why


def test_a_category_outside_preferences_is_not_taken() -> None:
    turns = [turn("I never want tables!")]
    for category, kept in (
        ("user-preferences/tone", "user-preferences/tone"),
        ("project-context/x", "user-preferences/inferred"),
        ("../x", "user-preferences/inferred"),
    ):
        given = {
            "content": "Never wants tables",
            "evidence": [turns[0].id],
            "category": category,
        }
        assert found(cycle(turns, preferences(given)))[0].category == kept


def test_invented_numbers_and_known_preferences_are_refused() -> None:
    turns = [turn("I always want short answers of a few words")]
    given = {"content": "Prefers answers of at most 50 words", "evidence": [turns[0].id]}
    plan = cycle(turns, preferences(given))
    assert not plan
    assert "50" in plan.refused[0].why
    known = Record(
        id="a" * 12,
        content="prefers short answers",
        kind="preference",
        created_at=NOW,
        updated_at=NOW,
        last_seen_at=NOW,
    )
    given = {"content": "Prefers short answers", "evidence": [turns[0].id]}
    plan = cycle(turns, preferences(given), records=[known])
    assert not plan
    assert known.id in plan.refused[0].why


def test_scopes_are_asked_about_apart_and_kept() -> None:
    turns = [turn("I always want Tabs!", scope="user:alice"), turn("I always want Spaces!", scope="user:bob")]
    asked: list[str] = []

    def answer(ask: ModelRequest) -> ModelReply:
        asked.append(ask.messages[0].content)
        name, word = (turns[0].id, "tabs") if "Tabs" in asked[-1] else (turns[1].id, "spaces")
        return ModelReply(text=preferences({"content": f"Prefers {word}", "evidence": [name]}))

    records = found(cycle(turns, answer))
    assert {(record.scope, record.content) for record in records} == {
        ("user:alice", "Prefers tabs"), ("user:bob", "Prefers spaces"),
    }  # fmt: skip
    assert ["Spaces" in text and "Tabs" in text for text in asked] == [False, False]


def test_without_a_model_what_is_said_outright_and_again_is_taken() -> None:
    turns = [
        turn("I prefer tabs over spaces."), turn("Is it done?"), turn("Fine. I prefer tabs over spaces!"),
        turn("Never deploy on Friday"), turn("I prefer tea"), turn("Do I prefer tea?"),
    ]  # fmt: skip
    records = found(cycle(turns))
    assert [record.content for record in records] == ["I prefer tabs over spaces!"]
    assert records[0].references == (turns[0].id, turns[2].id)


def test_an_answer_that_cannot_be_used_changes_nothing() -> None:
    cases = [
        "",
        "none",
        '{"preferences": "none"}',
        '{"preferences": [3, null, {}]}',
        '{"preferences": [{"cont',
        "[]",
    ]
    for text in cases:
        assert not cycle([turn("Stop that!")], text)


def test_what_we_injected_is_no_evidence_when_it_comes_back() -> None:
    turns = [turn("Always answer in French."), turn("always answer in french")]
    assert found(cycle(turns))
    plan = cycle(turns, injected=["Always answer in French"])
    assert plan.skipped == "the owner has said nothing new"
