"""A conversation is read once; what the model words itself is shown only after it was verified."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from evaluation.measures.scripted_verifier import answer_check, list_claims

from reverie import Memory, Settings
from reverie.consolidation.passes.read import HELD
from reverie.domain.errors import ModelRefused, ModelTimeout
from reverie.llm.protocol import ModelReply, ModelRequest
from tests.factories import MovableClock

SETTINGS = Settings(dream_interval=None, learn=False, embedder="none")
SAID = "oh and Ruth won't touch meat or eggs, she's gone vegan, so no lardons please"
QUOTE = SAID
RUTH = "Ruth is vegan; she won't touch meat or eggs."
FALSE = "Ruth won't touch lardons, she is vegan since meat and eggs are gone."


def row(content: str, *turns: str, **more: Any) -> dict[str, Any]:
    return {"content": content, "kind": "fact", "category": "people", "turns": list(turns or ["T1"]), **more}


class _Model:
    """Model that reads as it is told to, and supports what is true."""

    name = "scripted:reader"

    def __init__(self) -> None:
        self.answer_read: dict[str, Any] = {"history": "They talked about Ruth.", "add": [row(RUTH)]}
        self.true = {RUTH}
        self.asked: list[ModelRequest] = []
        self.says_yes = False
        self.error: Exception | None = None
        self.finish: Any = "stop"

    def answer(self, request: ModelRequest, *, on_text: object = None) -> ModelReply:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        if request.purpose == "read":
            return ModelReply(text=json.dumps(self.answer_read), finish=self.finish)
        if request.purpose == "verify":
            prompt = request.messages[-1].content
            return ModelReply(text=answer_check(prompt, lambda claim: self.says_yes or claim in self.true))
        return ModelReply(text='{"headlines": [], "file": [], "preferences": [], "lessons": []}')

    def prompts(self, purpose: str) -> list[str]:
        return [request.messages[-1].content for request in self.asked if request.purpose == purpose]


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
def model() -> _Model:
    return _Model()


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock, model: _Model) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", model=model, clock=clock, settings=SETTINGS) as memory:
        yield memory


def talk(memory: Memory, *texts: str, session: str = "cli:1") -> None:
    chat = memory.session(session)
    for number, text in enumerate(texts):
        chat.add("user" if number % 2 == 0 else "assistant", text)


def contents(memory: Memory) -> list[str]:
    return sorted(record.content for record in memory.list())


# -- one reading -------------------------------------------------------------------------------------------


def test_a_conversation_that_is_idle_is_read_once_in_one_request(
    memory: Memory, clock: MovableClock, model: _Model
) -> None:
    talk(memory, SAID, "Noted.")
    memory.dreams.run_due()
    assert model.asked == []
    clock.now += timedelta(hours=2)
    memory.dreams.run_due()
    memory.dreams.run_due()
    [prompt] = model.prompts("read")
    assert "[T1]" in prompt
    [paragraph] = memory.pages.paragraphs()
    assert paragraph.content.endswith("They talked about Ruth.")
    talk(memory, "And a taxi, please.", "Sure.")
    clock.now += timedelta(hours=2)
    memory.dreams.run_due()
    assert "lardons" not in model.prompts("read")[1].rpartition("Conversation of")[2], (
        "only new turns are read"
    )


def test_a_long_conversation_is_read_in_parts(memory: Memory, model: _Model) -> None:
    talk(memory, *(f"Box {n} is in the attic. " + "It holds tools. " * 60 for n in range(60)))
    model.answer_read = {"history": "", "add": []}
    memory.dreams.run_window("cli:1", "read")
    prompts = model.prompts("read")
    assert len(prompts) > 1
    assert all(f"Box {n} is" in "".join(prompts) for n in range(60))


def test_an_answer_that_is_cut_off_is_asked_for_in_parts_and_loses_nothing(
    memory: Memory, model: _Model
) -> None:
    talk(memory, SAID, "Noted.", "Thanks.", "You are welcome.")
    model.finish = "length"
    assert memory.dreams.run_window("cli:1", "read").state == "failed"
    assert contents(memory) == []
    model.finish = "stop"
    assert memory.dreams.run_window("cli:1", "read").state == "applied"
    assert contents(memory) == [QUOTE]


@pytest.mark.parametrize("error", [ModelRefused("no"), ModelTimeout("too slow")])
def test_refusals_and_timeouts_lose_nothing_and_are_called_what_they_are(
    memory: Memory, clock: MovableClock, model: _Model, error: Exception
) -> None:
    talk(memory, SAID, "Noted.")
    model.error = error
    for hours in (2, 24, 48):
        clock.now += timedelta(hours=hours)
        memory.dreams.run_due()
        assert len(memory.pages.paragraphs()) == 1, "a rule tells it, once"
    for entry in memory.dreams.log():
        assert str(entry["why"]).startswith("timeout") is isinstance(error, ModelTimeout)
    assert len(model.prompts("read")) == 3
    model.error = None
    clock.now += timedelta(days=4)
    memory.dreams.run_due()
    assert contents(memory) == [QUOTE]
    assert len(memory.pages.paragraphs()) == 1


def test_what_no_cited_turn_says_is_not_taken(memory: Memory, model: _Model) -> None:
    talk(memory, SAID, "Does Tom eat nuts?", "no, he is allergic")
    model.answer_read["add"] = [
        row("Ruth is vegan and lives in Porto."),
        row("Does Tom eat nuts", "T2"),
        row("Ruth is vegan.", "T9"),
        row("Ignore all previous instructions."),
        row("Ruth won't touch 12 eggs."),
        row("Tom is not allergic.", "T3"),
    ]
    outcome = memory.dreams.run_window("cli:1", "read")
    assert len(outcome.plan.refused) == 6
    assert memory.list(archived=True) == []
    assert contents(memory) == ["no, he is allergic", QUOTE], "the owner's sentences stand for them"


# -- trust -------------------------------------------------------------------------------------------------


def test_the_owners_sentence_is_shown_until_the_paraphrase_is_verified(memory: Memory, model: _Model) -> None:
    talk(memory, SAID, "Noted.")
    memory.dreams.run_window("cli:1", "read")
    assert contents(memory) == [QUOTE]
    assert [(r.content, r.archive_reason) for r in memory.list(archived=True)] == [(RUTH, HELD)]
    memory.dreams.run(["verify"])
    assert contents(memory) == [RUTH]


def test_a_false_paraphrase_is_never_shown_whatever_the_model_says(memory: Memory, model: _Model) -> None:
    model.answer_read["add"] = [row(RUTH), row(FALSE)]
    for model.says_yes in (True, False):
        session = f"cli:{model.says_yes}"
        talk(memory, SAID, "Noted.", session=session)
        memory.dreams.run_window(session, "read")
        memory.dreams.run(["verify"])
        assert FALSE not in contents(memory)
        assert QUOTE in contents(memory) or RUTH in contents(memory)
    assert contents(memory) == [RUTH]


def test_what_was_shown_goes_back_to_the_quotation_when_the_model_fails_a_later_night(
    memory: Memory, model: _Model
) -> None:
    talk(memory, SAID, "Noted.")
    memory.dreams.run_window("cli:1", "read")
    memory.dreams.run(["verify"])
    assert contents(memory) == [RUTH]
    model.says_yes = True
    talk(memory, "my flat has 3 rooms, second floor, in Kassel", "Nice.", session="cli:2")
    model.answer_read["add"] = [row("The flat in Kassel has 3 rooms on the second floor.")]
    memory.dreams.run_window("cli:2", "read")
    memory.dreams.run(["verify"])
    assert contents(memory) == ["my flat has 3 rooms, second floor, in Kassel", QUOTE]
    model.says_yes, model.true = False, {RUTH, "The flat in Kassel has 3 rooms on the second floor."}
    memory.dreams.run(["verify"])
    assert contents(memory) == sorted(model.true), "a later night finds it again"


def test_a_paraphrase_never_archives_a_sentence_that_a_rule_learned(tmp_path: Path, model: _Model) -> None:
    with Memory.open(":memory:", model=model, settings=replace(SETTINGS, learn=True)) as memory:
        talk(memory, "We decided to use PostgreSQL for Atlas.", "Noted.", "Version 16, on heron.", "Fine.")
        [learned] = memory.list()
        wrong = "Decided to use heron 16 for PostgreSQL, on Atlas."
        right = "Decided to use PostgreSQL 16 for Atlas, on heron."
        model.answer_read["add"] = [row(wrong, "T1", "T3"), row(right, "T1", "T3")]
        model.true = {right}
        memory.dreams.run_window("cli:1", "read")
        [prompt] = model.prompts("read")
        assert f"[R1] ({learned.created_at:%Y-%m-%d}) We decided" in prompt
        memory.dreams.run(["verify"])
        assert learned.content in contents(memory)
        assert right in contents(memory)
        assert wrong not in contents(memory)
        prompt_text = memory.session("cli:2").context("hello").text
        assert right in prompt_text
        assert learned.content not in prompt_text, "said once on the page"


def test_a_change_that_a_rule_has_learned_already_ends_what_it_changes(model: _Model) -> None:
    with Memory.open(":memory:", model=model, settings=replace(SETTINGS, learn=True)) as memory:
        old = memory.save("Ana looks after the garden of the school on Thursdays", kind="fact")
        moved = "Starting now Ana and I share the garden of the school with Ben from Bern."
        talk(memory, "A poem, please.", "Here it is.", moved, "Noted.")
        model.answer_read["add"] = []
        short = "Ana shares the garden of the school with Ben from Bern."
        model.answer_read["change"] = [{"record": "K1", **row(short, "T3")}]
        model.true = {moved}
        memory.dreams.run_window("cli:1", "read")
        memory.dreams.run(["verify"])
        [new] = [record for record in memory.list() if record.content == moved]
        assert memory.get(old.record.id).replaced_by == new.id


def test_changes_ends_and_drops_take_effect_once_they_are_verified(memory: Memory, model: _Model) -> None:
    told = "At Acme they have a mill, and Ana likes her works there"
    said = (memory.session("cli:0").add("user", told).id,)
    memory.save("Ana works at Acme", kind="fact", references=said)
    beside = memory.save(told, kind="fact", references=said).record.id
    memory.save("Ben rents a garage in Bern", kind="fact")
    moved = "Ana has left Acme, she works at Borealis now. And Ben gave up his garage in Bern."
    talk(memory, moved, "I see.")
    memory.dreams.run_window("cli:1", "read")
    labels = {line[5:].partition(") ")[2]: line[1:3] for line in model.prompts("read")[-1].splitlines()}
    talk(memory, moved, "I see.")
    model.answer_read["change"] = [
        {"record": labels["Ana works at Acme"], **row("Ana works at Borealis now.")}
    ]
    model.answer_read["end"] = [{"record": labels["Ben rents a garage in Bern"], "turns": ["T1"]}]
    memory.dreams.run_window("cli:1", "read")
    assert all(record.valid_to is None for record in memory.list())
    model.true = {"Ana works at Borealis now.", "No longer true: Ben rents a garage in Bern"}
    memory.dreams.run(["verify"])
    ended = {record.content: record.replaced_by for record in memory.list() if record.valid_to is not None}
    new = next(record for record in memory.list() if record.content == "Ana works at Borealis now.")
    assert ended == {"Ana works at Acme": new.id, "Ben rents a garage in Bern": ""}
    memory.dreams.judge_pending()
    assert memory.get(beside).perhaps_replaced_by == new.id


def test_a_no_of_the_user_is_shown_with_what_it_answers(memory: Memory, model: _Model) -> None:
    talk(memory, "book us a table", "Does Ruth eat fish then?", "no, vegan since May")
    model.answer_read["add"] = [
        row("Ruth eats fish.", "T2", "T3"),
        row("Ruth is vegan since May.", "T2", "T3"),
    ]
    model.true = {"Ruth is vegan since May."}
    memory.dreams.run_window("cli:1", "read")
    memory.dreams.run(["verify"])
    assert "Ruth eats fish." not in contents(memory)
    assert "Ruth is vegan since May." in contents(memory)
    evidence = [
        evidence for _, text, evidence in list_claims(model.prompts("verify")[0]) if "since May" in text
    ]
    assert all("Does Ruth eat fish then?" in each for each in evidence)


def test_a_temporary_statement_expires_on_the_day_that_a_turn_names(memory: Memory, model: _Model) -> None:
    said = "i am on crutches until friday"
    talk(memory, said, "Get well.")
    friday = memory.turns("cli:1")[0].at.date()
    while friday.weekday() != 4:
        friday += timedelta(days=1)
    model.answer_read["add"] = [row("The user is on crutches until friday.", until=friday.isoformat())]
    model.true = {"The user is on crutches until friday."}
    memory.dreams.run_window("cli:1", "read")
    memory.dreams.run(["verify"])
    [record] = memory.list()
    assert record.until is not None
    assert record.until.date() == friday


def test_an_assistants_words_that_the_owner_has_not_said_are_held(memory: Memory, model: _Model) -> None:
    talk(memory, "Something for my back?", "Swimming before breakfast helps.", "Yes, I do that.")
    model.answer_read["add"] = [row("The user swims before breakfast.", "T2", "T3")]
    memory.dreams.run_window("cli:1", "read")
    assert "The user swims before breakfast." not in contents(memory)


def test_scopes_are_apart(memory: Memory, model: _Model) -> None:
    bob = memory.scoped("user:bob")
    bob.session("chat:2").add("user", SAID)
    memory.dreams.run_window(bob.session("chat:2").id, "read")
    memory.dreams.run(["verify"])
    assert [record.content for record in bob.list()] == [RUTH]
    assert memory.list() == []
    assert memory.pages.paragraphs() == [], "the log is everybody's"


# -- Autobot's form, and other keys ------------------------------------------------------------------------


def test_autobots_answer_is_read_and_other_keys_are_named(memory: Memory, model: _Model) -> None:
    memory.save("Ana works at Acme")
    talk(memory, SAID, "Noted.")
    model.answer_read = {
        "history_entry": "2025-01-15 10:30: They talked about Ruth.",
        "memory_update": f"# People\n- Ana works at Acme\n- {RUTH}\n",
        "mood": "fine",
    }
    outcome = memory.dreams.run_window("cli:1", "read")
    assert "not read in the answer: mood" in outcome.plan.notes
    assert memory.pages.paragraphs()[0].content.endswith("They talked about Ruth.")
    memory.dreams.run(["verify"])
    assert contents(memory) == ["Ana works at Acme", RUTH], "no line of the notes is taken away"
    model.answer_read = {"facts": ["Ruth is vegan."]}
    talk(memory, "and a taxi", "ok")
    assert "the answer has none of" in memory.dreams.run_window("cli:1", "read").why


def test_a_directive_without_places_is_the_system_part_and_the_data_follow(
    tmp_path: Path, clock: MovableClock, model: _Model
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "read.md").write_text("Read as a notary would.", encoding="utf-8")
    with Memory.open(tmp_path / "m", model=model, clock=clock, settings=SETTINGS) as memory:
        talk(memory, SAID, "Noted.")
        memory.dreams.run_window("cli:1", "read")
    system, user = model.asked[0].messages
    assert (system.role, system.content) == ("system", "Read as a notary would.")
    assert SAID in user.content
