"""What reaches a pass, and when: rough notes, what a step put out, signals, echoes, and the days before."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory, Settings
from reverie.consolidation.worker import FIRST_PAUSE, LEASE, LEASE_TIME
from reverie.domain.errors import ModelRefused, ModelUnavailable
from reverie.llm.protocol import ModelReply, ModelRequest
from tests.factories import MovableClock

NUMBERED = re.compile(r"(Host h\d+) is in rack (\d+)\. Its port is (\d+)\.")
NOTE = "Ines likes jasmine tea. Staging listens on port 5433."


class Scripted:
    """A model that answers each pass by a function, and keeps what it was asked."""

    def __init__(self, **answers: Callable[[ModelRequest], str] | str) -> None:
        self.answers = answers
        self.asked: list[ModelRequest] = []

    def __call__(self, ask: ModelRequest) -> str | ModelReply:
        self.asked.append(ask)
        answer = self.answers.get(ask.purpose, "{}")
        return answer if isinstance(answer, str) else answer(ask)

    def questions(self, purpose: str) -> list[str]:
        return [ask.messages[-1].content for ask in self.asked if ask.purpose == purpose]


def split(*records: tuple[str, str]) -> str:
    return json.dumps({"records": [{"content": text, "category": category} for text, category in records]})


TEA_AND_PORT = split(
    ("Ines likes jasmine tea.", "user-preferences/tea"), ("Staging listens on port 5433.", "project-context")
)


def opened(clock: MovableClock, model: Any = None, path: str | Path = ":memory:", **more: Any) -> Memory:
    return Memory.open(path, clock=clock, model=model, settings=Settings(**more))


def contents(memory: Memory) -> list[str]:
    return sorted(record.content for record in memory.list(limit=1_000))


# -- enrich --------------------------------------------------------------------------------------------------


def test_a_rough_note_is_split_in_the_background_and_kept(clock: MovableClock, tmp_path: Path) -> None:
    with opened(clock, Scripted(enrich=TEA_AND_PORT), tmp_path) as memory:
        note = memory.save(NOTE, draft=True, origin="agent").record
        assert contents(memory) == [NOTE], "it is remembered at once, as it is"
        assert memory.dreams.run_due().outcomes == (), "nobody has been silent long enough"
        clock.now += timedelta(minutes=1)
        [outcome] = memory.dreams.run_due().outcomes
        assert (outcome.name, outcome.state) == ("enrich", "applied")
        assert contents(memory) == ["Ines likes jasmine tea.", "Staging listens on port 5433."]
        assert {record.origin for record in memory.list()} == {"agent"}
        assert all(not record.draft for record in memory.list())
        kept = memory.get(note.id)
        assert kept is not None
        assert (kept.content, kept.archived) == (NOTE, True)
        assert memory.dreams.run_due().outcomes == (), "once"
        memory.history.undo(batch=outcome.batch)
        assert contents(memory) == [NOTE]
        clock.now += timedelta(minutes=1)
        assert memory.dreams.run_due().outcomes == (), "what a person took back is not done again"


def test_a_note_nobody_could_split_is_tried_again_later_and_not_every_moment(clock: MovableClock) -> None:
    def fails(ask: ModelRequest) -> str:
        raise ModelUnavailable("too slow")

    model = Scripted(enrich=fails)
    with opened(clock, model) as memory:
        memory.save(NOTE, draft=True)
        clock.now += timedelta(minutes=1)
        assert [each.state for each in memory.dreams.run_due().outcomes] == ["failed"]
        assert memory.dreams.run_due().outcomes == (), "it waits"
        clock.now += FIRST_PAUSE
        assert [each.state for each in memory.dreams.run_due().outcomes] == ["failed"]
        clock.now += FIRST_PAUSE
        assert memory.dreams.run_due().outcomes == (), "longer each time"
        clock.now -= timedelta(days=400)
        assert memory.dreams._find_due_work(), "a clock that was set back holds nothing up"
        clock.now += timedelta(days=400)
        assert len(model.asked) == 2
        assert memory.admin.stats().failed == {"dream.enrich": 2, "model.enrich": 2}
        model.answers["enrich"] = TEA_AND_PORT
        clock.now += FIRST_PAUSE
        assert [each.state for each in memory.dreams.run_due().outcomes] == ["applied"]
        assert len(contents(memory)) == 2


def test_a_note_that_the_model_refuses_does_not_keep_the_others_waiting(clock: MovableClock) -> None:
    asked: list[str] = []

    def answer(ask: ModelRequest) -> str:
        asked.append(ask.messages[-1].content)
        if is_locked or "coffee" in asked[-1]:
            raise ModelRefused("against the rules")
        return TEA_AND_PORT

    is_locked = True
    with opened(clock, Scripted(enrich=answer)) as memory:
        memory.save("Bo likes coffee. Bo lives in Bonn.", draft=True)
        memory.save(NOTE, draft=True)
        plan = memory.dreams.plan("enrich")
        assert plan.failed, "where nothing is answered it may be the key, and both wait"
        assert (plan.steps, plan.cursors) == ((), {})
        is_locked = False
        memory.dreams.apply(memory.dreams.plan("enrich"))
        assert contents(memory) == [
            "Bo likes coffee. Bo lives in Bonn.",
            "Ines likes jasmine tea.",
            "Staging listens on port 5433.",
        ]
        asked.clear()
        assert memory.dreams.plan("enrich").skipped == "there is no rough note"
        assert not asked, "what was refused is not asked about again"


def test_without_a_model_a_note_stays_and_waits_for_one(clock: MovableClock, tmp_path: Path) -> None:
    with opened(clock, None, tmp_path) as memory:
        memory.save(NOTE, draft=True)
        clock.now += timedelta(days=2)
        memory.dreams.run_due()
        assert contents(memory) == [NOTE]
        assert "no model" in memory.dreams.plan("enrich").skipped
    with opened(clock, Scripted(enrich=TEA_AND_PORT), tmp_path, enrich=False) as memory:
        assert memory.dreams.plan("enrich").skipped == "enrich is off"
    with opened(clock, Scripted(enrich=TEA_AND_PORT), tmp_path) as memory:
        plan = memory.dreams.plan("enrich")
        assert contents(memory) == [NOTE], "a plan changes nothing"
        assert "jasmine" in str(plan)
        applied = memory.dreams.apply(plan)
        assert len(contents(memory)) == 2
        memory.history.undo(applied)
        assert contents(memory) == [NOTE]


# -- extract -------------------------------------------------------------------------------------------------

OUTPUT = "We ran the load test. The API is limited to 100 requests per minute. Avoid library X in future."


def test_what_a_step_taught_is_a_plan_that_can_be_made_and_undone(clock: MovableClock) -> None:
    limit = "The API is limited to 100 requests per minute"
    answer = json.dumps({"findings": [limit], "insights": [], "lessons": ["Avoid X"]})
    with opened(clock, Scripted(extract=answer)) as memory:
        memory.save(limit, kind="finding")
        plan = memory.dreams.plan("extract", output=OUTPUT, step="GOAL:load")
        assert memory.admin.stats().records == 1
        applied = memory.dreams.apply(plan)
        found = {record.content: record for record in memory.list()}
        assert {text: (each.kind, each.seen_count, each.source) for text, each in found.items()} == {
            limit: ("finding", 2, ""),
            "Avoid X": ("lesson", 1, "GOAL:load"),
        }
        memory.history.undo(applied)
        assert [record.seen_count for record in memory.list()] == [1]


def test_a_pass_says_what_it_needs(memory: Memory) -> None:
    known = "dream, enrich, verify, tidy, preferences, promote, extract"
    for name, given, named in (
        ("extract", {}, "output="),
        ("tidy", {"output": "x"}, "no other"),
        ("nap", {}, known),
    ):
        with pytest.raises(InvalidInput, match=named):
            memory.dreams.plan(name, **given)


# -- signals -------------------------------------------------------------------------------------------------


def test_signals_of_every_sort_reach_the_model_with_their_own_scope(clock: MovableClock) -> None:
    model = Scripted(tidy='{"headlines": [], "file": [], "lessons": []}')
    with opened(clock, model) as memory:
        chat = memory.session("cli:1")
        chat.add("user", "Send the report")
        answer = chat.add("assistant", "Sent it to everybody.")
        chat.feedback(answer.id, "down", note="should have asked")
        chat.add("user", "No, that's wrong, ask me before you send anything")
        chat.add("assistant", "Sorry.", tool_calls=[{"id": "c1", "name": "mail", "arguments": "{}"}])
        chat.add("tool", "Error: connection refused", tool_call_id="c1")
        chat.add("assistant", "It failed.")
        other = memory.scoped("user:bo").session("cli:2")
        other.add("user", "Hello")
        fine = other.add("assistant", "Hello Bo")
        other.feedback(fine.id, "down", note="too cheerful")
        for _ in range(2):  # what a dream has no request left for is shown in the next
            memory.dreams.run(["tidy"])
            clock.now += timedelta(days=1)
    shown = [text.rpartition("Signals:")[2] for text in model.questions("tidy") if "Signals:" in text]
    bos, tools, everybodys = sorted(
        shown, key=lambda text: ("should have asked" in text, "connection refused" in text)
    )
    for text in ("thumbs_down", "should have asked", "correction", "after “Sent it to everybody.”"):
        assert text in everybodys
    for text in ("] tool_failure after", "connection refused"):
        assert text in tools
        assert text not in everybodys, "what a tool says is shown by itself"
    assert "too cheerful" in bos
    assert "too cheerful" not in everybodys + tools


def test_an_anti_pattern_keeps_the_scope_and_the_trust_of_its_evidence(clock: MovableClock) -> None:
    def pattern(ask: ModelRequest) -> str:
        text = ask.messages[-1].content
        ids = [line.split("[")[1].split("]")[0] for line in text.splitlines() if "] tool_failure" in line]
        told = {"domain": "mail", "content": "Don't mail by SMTP — instead use the API", "evidence": ids}
        return json.dumps({"headlines": [], "file": [], "lessons": [told]})

    with opened(clock, Scripted(tidy=pattern)) as memory:
        chat = memory.scoped("user:bo").session("cli:2")
        chat.add("user", "Send it")
        chat.add("assistant", "", tool_calls=[{"id": "c1", "name": "mail", "arguments": "{}"}])
        chat.add("tool", "Error: connection refused", tool_call_id="c1")
        chat.add("assistant", "It failed.")
        memory.dreams.run(["tidy"])
        [found] = [each for each in memory.scoped("user:bo").list() if each.kind == "anti_pattern"]
        assert (found.scope, found.origin, found.category) == ("user:bo", "tool", "anti-patterns/mail")


# -- the lease -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lease_of_a_long_pass_is_renewed_and_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reverie.consolidation import worker

    monkeypatch.setattr(worker, "LEASE_TIME", timedelta(seconds=0.6))
    asked, answered = threading.Event(), threading.Event()

    def slow(ask: ModelRequest) -> str:
        asked.set()
        assert answered.wait(30)
        return "{}"

    with Memory.open(tmp_path, model=slow) as memory, Memory.open(tmp_path) as other:
        memory.save("Ines likes tea")
        dreaming = threading.Thread(target=memory.dreams.run)
        dreaming.start()
        assert asked.wait(30)
        pause = threading.Event()
        for _ in range(8):
            pause.wait(0.2)
            assert other.dreams.run().busy, "renewed, though it would have ended thrice"
        answered.set()
        dreaming.join(30)
        assert not other.dreams.run().busy
        assert other._store.entries(LEASE, now=other._clock()) == []
    assert timedelta(minutes=1) >= LEASE_TIME


def test_more_notes_than_one_plan_takes_are_all_split(clock: MovableClock) -> None:
    def answer(ask: ModelRequest) -> str:
        [(host, rack, port)] = NUMBERED.findall(ask.messages[-1].content)
        return split((f"{host} is in rack {rack}.", "general"), (f"Its port is {port}.", "general"))

    with opened(clock, Scripted(enrich=answer)) as memory:
        notes = [f"Host h{n} is in rack {n}. Its port is {n + 4000}." for n in range(45)]
        memory.save_many([{"content": note, "draft": True} for note in notes])
        for _ in range(3):
            memory.dreams.apply(memory.dreams.plan("enrich"))
        assert len(contents(memory)) == 90
        assert memory.dreams.plan("enrich").skipped
