"""What the model wrote down from a conversation is withdrawn if it does not find it there when asked again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from evaluation.measures.scripted_verifier import answer_check

from reverie import Memory, Settings
from reverie.consolidation.passes.remember import MAX_VERIFIED
from reverie.consolidation.planning.verification import MADE_UP, QUOTED
from reverie.domain.errors import ModelUnavailable
from reverie.llm.protocol import ModelRequest
from tests.factories import MovableClock

TRUE = "Ruth is vegan."
FALSE = "Ruth has been vegan all her life."


class _Model:
    """Model that writes down what it is told to, and judges it when asked again."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.asked: list[str] = []
        self.is_away = False
        self.others = "{}"
        self.judge: Callable[[str], bool] = lambda claim: claim == TRUE
        self.verify: Callable[[str], str] = lambda prompt: answer_check(prompt, self.judge)

    def __call__(self, request: ModelRequest) -> str:
        if request.purpose == "remember":
            return json.dumps({"records": self.records})
        if request.purpose != "verify":
            return self.others
        self.asked.append(request.messages[0].content)
        if self.is_away:
            raise ModelUnavailable("too slow")
        return self.verify(self.asked[-1])


@pytest.fixture
def model() -> _Model:
    return _Model()


@pytest.fixture
def memory(model: _Model, request: pytest.FixtureRequest) -> Iterator[Memory]:
    """A memory in which the model alone writes facts down, unless a test asks for rules too."""
    settings = Settings(dream_interval=None, learn=getattr(request, "param", False))
    clock = MovableClock()
    with Memory.open(":memory:", model=model, clock=clock, settings=settings, embedder="none") as memory:
        yield memory


def _remember(memory: Memory, model: _Model, said: str, *contents: str, session: str = "cli:1") -> None:
    memory.session(session).add("user", said)
    memory.session(session).add("assistant", "Noted.")
    model.records = [{"content": each, "kind": "fact", "category": "", "turns": ["t1"]} for each in contents]
    outcome = memory.dreams.run_window(session, "remember")
    assert outcome.plan is not None
    assert not outcome.plan.refused, "code accepts it"


def _contents(memory: Memory) -> list[str]:
    return sorted(record.content for record in memory.list())


SAID = "Ruth is vegan, she has cooked for us all week, she has all her life ahead of her."


def test_a_fact_that_the_model_does_not_find_in_its_turns_is_withdrawn(memory: Memory, model: _Model) -> None:
    _remember(memory, model, SAID, TRUE, FALSE)
    assert _contents(memory) == [FALSE, TRUE]
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert _contents(memory) == [TRUE]
    [prompt] = model.asked
    assert SAID in prompt, "the turn is shown"
    [withdrawn] = memory.list(archived=True)
    assert withdrawn.archive_reason.startswith("withdrawn: the model calls it unsupported")
    memory.history.undo(batch=outcome.batch)
    assert _contents(memory) == [FALSE, TRUE]
    memory.dreams.run(["verify"])
    assert len(model.asked) == 1, "what was judged is not judged again"
    assert _contents(memory) == [FALSE, TRUE], "the owner's undo holds"


@pytest.mark.parametrize("memory", [True], indirect=True)
def test_a_sentence_that_a_withdrawn_fact_had_replaced_comes_back(memory: Memory, model: _Model) -> None:
    said = "We decided to use PostgreSQL for Atlas."
    content = "Decided to use PostgreSQL for Atlas, as the first of all."
    memory.session("cli:1").add("user", said)
    memory.session("cli:1").add("assistant", "Noted, as the first of all.")
    [learned] = memory.list()
    model.records = [{"content": content, "kind": "decision", "turns": ["t1", "t2"]}]
    memory.dreams.run_window("cli:1", "remember")
    assert _contents(memory) == [content]
    memory.dreams.run(["verify"])
    assert [record.id for record in memory.list()] == [learned.id]


def test_what_the_owner_has_changed_or_said_too_is_not_withdrawn(memory: Memory, model: _Model) -> None:
    _remember(memory, model, SAID, TRUE, FALSE)
    wrong = next(record for record in memory.list() if record.content == FALSE)
    memory.update(wrong.id, tags=["checked"])
    memory.dreams.run(["verify"])
    assert _contents(memory) == [FALSE, TRUE]


def _believe_what_is_made_up(prompt: str) -> str:
    """Deny every claim but the one that no message supports."""
    shown = prompt.rpartition("Claims:")[2]
    claims = re.findall(r"^Claim (\d+) \(\w+\): (.*)$", shown, re.MULTILINE)
    return json.dumps(
        {
            "claims": [
                {
                    "claim": int(number),
                    "missing": "",
                    "verdict": "supported" if text == MADE_UP else "unsupported",
                }
                for number, text in claims
            ]
        }
    )


def _deny_everything(prompt: str) -> str:
    """Deny every claim, even the one that quotes a turn."""
    return answer_check(prompt.replace(QUOTED, ""), lambda claim: False)


@pytest.mark.parametrize(
    "verify",
    [_believe_what_is_made_up, _deny_everything, lambda _: "I would rather not say", lambda _: "{}"],
)
def test_an_answer_that_does_not_count_withdraws_nothing(
    memory: Memory, model: _Model, verify: Callable[[str], str]
) -> None:
    _remember(memory, model, SAID, TRUE, FALSE)
    model.verify = verify
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert _contents(memory) == [FALSE, TRUE]
    assert outcome.plan is not None
    assert len(outcome.plan.refused) == 2, "it says so"


def test_a_night_without_an_answer_is_made_up_for(memory: Memory, model: _Model) -> None:
    _remember(memory, model, SAID, FALSE)
    model.is_away = True
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert outcome.state == "failed"
    model.is_away = False
    memory.dreams.run(["verify"])
    assert _contents(memory) == []


def test_a_fact_that_another_pass_files_is_withdrawn_all_the_same(memory: Memory, model: _Model) -> None:
    _remember(memory, model, SAID, FALSE)
    [wrong] = memory.list()
    model.others = json.dumps({"refile": [{"id": wrong.id, "category": "people/ruth", "tags": ["diet"]}]})
    memory.dreams.run()
    assert _contents(memory) == []


def test_a_fact_that_is_withdrawn_ends_no_other(memory: Memory, model: _Model) -> None:
    old, new = "The class on Mondays is taught by Mr. Bell", "Mrs. Ortiz teaches the class on Mondays now"
    pair = f"{old} -> {new}"
    model.judge = pair.__eq__
    earlier = memory.save(old, created_at=memory._clock() - timedelta(days=2)).record
    _remember(memory, model, f"{new}, in the film.", new)
    assert memory.get(earlier.id).valid_to is None, "rules are not sure"
    memory.dreams.run()
    assert any(new in prompt and old in prompt for prompt in model.asked), "the pair is asked about"
    assert _contents(memory) == [old]
    assert memory.get(earlier.id).valid_to is None


def test_more_facts_than_fit_are_verified_in_the_next_cycle(memory: Memory, model: _Model) -> None:
    for at in range(MAX_VERIFIED + 2):
        said = f"The {'big' if at % 2 else 'old'} shelf {at * 7} holds lot {at * 11}"
        _remember(memory, model, said, said, session=f"cli:{at}")
    learned = len(memory.list())
    memory.dreams.run(["verify"])
    assert len(memory.list()) == learned - MAX_VERIFIED
    memory.dreams.run(["verify"])
    assert memory.list() == []
    assert len(model.asked) == 2


HELD = "The user goes everywhere by bike and never got a driving licence."
IN_OTHER_WORDS = "everything i do is by bike, license never happened"


def test_a_fact_in_other_words_is_held_until_the_model_finds_it_in_its_turns(
    memory: Memory, model: _Model
) -> None:
    _remember(memory, model, IN_OTHER_WORDS, HELD)
    assert _contents(memory) == []
    assert HELD not in memory.session("cli:2").context("Who goes everywhere by bike?").text
    model.judge = HELD.__eq__
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert _contents(memory) == [HELD]
    memory.dreams.run(["verify"])
    assert len(model.asked) == 1
    assert outcome.batch is not None
    memory.history.undo(outcome.batch)
    assert _contents(memory) == []


@pytest.mark.parametrize("verify", [lambda _: "{}", lambda prompt: answer_check(prompt, lambda _: False)])
def test_a_fact_that_is_held_stays_so_if_the_model_does_not_confirm_it(
    memory: Memory, model: _Model, verify: Callable[[str], str]
) -> None:
    _remember(memory, model, IN_OTHER_WORDS, HELD)
    model.verify = verify
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert outcome.plan is not None
    assert (len(outcome.plan.refused), _contents(memory)) == (1, [])


@pytest.mark.parametrize("as_one_plan", [False, True])
def test_a_fact_that_was_held_is_new_to_the_next_dream(
    memory: Memory, model: _Model, as_one_plan: bool
) -> None:
    memory.save("The user goes by car.", created_at=memory._clock() - timedelta(days=2))
    _remember(memory, model, IN_OTHER_WORDS, HELD)
    model.judge = HELD.__eq__
    if as_one_plan:
        memory.dreams.apply(memory.dreams.plan())
    else:
        memory.dreams.run()
    assert HELD in _contents(memory)
    memory.dreams.run(["supersede"])
    assert HELD in model.asked[-1], "it may have changed what was known before"
    assert len(model.asked) == 2


@pytest.mark.parametrize("memory", [True], indirect=True)
def test_what_two_withdrawn_facts_had_replaced_comes_back_once(memory: Memory, model: _Model) -> None:
    memory.session("cli:1").add("user", "We decided to use PostgreSQL 16 for Atlas and Orion.")
    memory.session("cli:1").add("assistant", "Noted.")
    [learned] = memory.list()
    model.records = [
        {"content": "Decided to use PostgreSQL 16 for Atlas.", "kind": "decision", "turns": ["t1"]},
        {"content": "Decided to use PostgreSQL 16 for Orion.", "kind": "decision", "turns": ["t1"]},
    ]
    memory.dreams.run_window("cli:1", "remember")
    assert learned.id not in {record.id for record in memory.list()}
    [outcome] = memory.dreams.run(["verify"]).outcomes
    assert outcome.state == "applied"
    assert [record.id for record in memory.list()] == [learned.id]


def test_a_fact_that_was_held_and_is_known_by_then_reinforces_what_says_it(
    memory: Memory, model: _Model
) -> None:
    _remember(memory, model, IN_OTHER_WORDS, HELD)
    known = memory.save(HELD, source="owner").record
    model.judge = HELD.__eq__
    memory.dreams.run(["verify"])
    assert [(record.id, record.seen_count) for record in memory.list()] == [(known.id, 2)]
