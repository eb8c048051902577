"""Where rules are not sure, the model says whether a later record has changed an earlier one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from evaluation.measures.scripted_verifier import answer_check

from reverie import Memory
from reverie.consolidation.passes.upkeep import MADE_UP
from reverie.llm import model_from_function
from reverie.llm.protocol import ModelRequest
from tests.factories import MovableClock

OLD, NEW = "The class on Mondays is taught by Mr. Bell", "Mrs. Ortiz gave the class on Mondays in the gym"


class Verifier:
    """A model that judges pairs, and answers nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.judge: Callable[[str], bool] = lambda pair: pair == f"{OLD} -> {NEW}"

    def __call__(self, request: ModelRequest) -> str:
        if request.purpose != "verify":
            return "{}"
        self.asked.append(request.messages[0].content)
        return answer_check(self.asked[-1], self.judge)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def model() -> Verifier:
    return Verifier()


@pytest.fixture
def memory(clock: MovableClock, model: Verifier) -> Iterator[Memory]:
    with Memory.open(":memory:", clock=clock, model=model, embedder="none") as memory:
        yield memory


def save_both(memory: Memory, clock: MovableClock, **fields: object) -> str:
    old = memory.save(OLD, **fields).record.id
    clock.now += timedelta(days=2)
    memory.save(NEW)
    assert memory.get(old).valid_to is None, "rules are not sure"
    return old


def test_a_record_ends_if_the_model_sees_a_change(
    memory: Memory, clock: MovableClock, model: Verifier
) -> None:
    old = save_both(memory, clock)
    [outcome] = memory.dreams.run(["supersede"]).outcomes
    assert outcome.state == "applied"
    ended = memory.get(old)
    assert ended.valid_to == clock.now, "since the later one"
    assert ended.content == OLD
    holding = memory.search("Who teaches the class on Mondays?", valid_at=clock.now)
    assert [hit.content for hit in holding] == [NEW]
    memory.dreams.run(["supersede"])
    assert len(model.asked) == 1, "a pair is asked about once"
    memory.history.undo(outcome.batch)
    assert memory.get(old).valid_to is None


def test_a_record_stays_if_both_hold_or_the_model_sees_changes_everywhere(
    memory: Memory, clock: MovableClock, model: Verifier
) -> None:
    model.judge = lambda pair: False
    old = save_both(memory, clock)
    memory.dreams.run(["supersede"])
    assert memory.get(old).valid_to is None

    def see_changes_everywhere(request: ModelRequest) -> str:
        assert MADE_UP[1] in request.messages[0].content
        verdicts = [{"pair": number, "why": "", "verdict": "changed"} for number in range(1, 9)]
        return json.dumps({"pairs": verdicts})

    with Memory.open(":memory:", clock=clock, model=see_changes_everywhere, embedder="none") as other:
        old = save_both(other, clock)
        [outcome] = other.dreams.run(["supersede"]).outcomes
        assert outcome.state == "skipped"
        assert other.get(old).valid_to is None


def test_protected_records_and_other_scopes_stay(
    memory: Memory, clock: MovableClock, model: Verifier
) -> None:
    pinned = save_both(memory, clock, pinned=True)
    memory.scoped("user:alice").save("The class on Mondays is taught by Mr. Bell, says Alice")
    model.judge = lambda pair: True
    memory.dreams.run(["supersede"])
    assert memory.get(pinned).valid_to is None
    assert not any("says Alice" in asked for asked in model.asked)


def test_what_a_night_verifies_is_one_request(memory: Memory, clock: MovableClock, model: Verifier) -> None:
    old = save_both(memory, clock)
    turn = memory.session("cli:1").add("user", "From now on, always answer in French.")
    purposes: list[str] = []

    def answer(request: ModelRequest) -> str:
        purposes.append(request.purpose)
        preference = {"content": "Wants answers in French", "evidence": [turn.id]}
        return json.dumps({"preferences": [preference]}) if request.purpose == "infer" else model(request)

    memory.dreams.cycle.model = model_from_function(answer)
    memory.dreams.run()
    assert purposes == ["merge", "infer", "verify"]
    assert "Claim 1" in model.asked[0]
    assert "Pair 1" in model.asked[0]
    assert memory.get(old).valid_to is not None


def test_a_model_that_sees_a_change_between_unrelated_records_is_not_believed(
    memory: Memory, clock: MovableClock, model: Verifier
) -> None:
    memory.save("Her boat has two red sails")
    old = save_both(memory, clock)
    clock.now += timedelta(days=2)
    memory.save("Mrs. Ortiz likes the class with Mr. Bell")
    model.judge = lambda pair: True
    memory.dreams.run(["supersede"])
    assert "Her boat has two red sails" in model.asked[0]
    assert memory.get(old).valid_to is None
