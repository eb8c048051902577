"""What needs the owner's permission is nowhere to be found before the owner has said yes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reverie import Memory
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import Record
from reverie.llm.messages import ModelRequest
from tests.factories import MovableClock, believe
from tests.system.nights.models import seen

CONTENT = "Always pay with the company card"


def _answer(request: ModelRequest) -> str:
    names = [name for name, text in seen(request).turns if "company card" in text]
    return json.dumps({"preferences": [{"content": CONTENT, "evidence": names}]})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", model=believe(_answer), clock=MovableClock()) as memory:
        yield memory


def _propose(memory: Memory) -> Record:
    memory.session("cli:1").add("user", "Always pay with the company card, please.")
    memory.dreams.run(["infer"])
    (record,) = memory.dreams.proposals()
    assert record.content == CONTENT
    return record


def _is_found(memory: Memory, record: Record) -> bool:
    pack = memory.session("cli:2").context("How do I pay with the company card?")
    shown = record.id in pack.text or record.id in {hit.id for hit in (*pack.hits, *pack.standing)}
    found = {each.id for each in memory.list()} | {hit.id for hit in memory.search("company card")}
    return shown or record.id in found


def test_a_proposal_is_in_no_search_and_no_prompt_until_it_is_accepted(memory: Memory) -> None:
    record = _propose(memory)
    assert not _is_found(memory, record)
    accepted = memory.dreams.decide(record.id, "accept")
    assert not accepted.archived
    assert accepted.metadata["requires_user_permission"] == "true"
    assert _is_found(memory, record)
    assert memory.dreams.proposals() == []
    assert memory.history.log()[-1].actor == "owner"


def test_a_rejected_proposal_stays_away(memory: Memory) -> None:
    record = _propose(memory)
    rejected = memory.dreams.decide(record.id, "reject", reason="the card is gone")
    assert rejected.archive_reason == "rejected: the card is gone"
    memory.admin.purge(older_than=0)
    memory.session("cli:1").add("user", "Always pay with the company card, I said.")
    memory.dreams.run(["infer"])
    assert memory.dreams.proposals() == []
    assert not _is_found(memory, record)
    with pytest.raises(NotFound, match=f"was rejected: undo the change that `reverie blame {record.id}`"):
        memory.dreams.decide(record.id, "accept")
    [rejection] = [each for each in memory.history.log() if each.operation == "reject"]
    memory.history.undo(rejection.sequence)
    assert [each.id for each in memory.dreams.proposals()] == [record.id]


def test_a_proposal_for_later_is_listed_again_and_a_decision_can_be_undone(memory: Memory) -> None:
    record = _propose(memory)
    memory.dreams.decide(record.id, "later")
    assert [each.id for each in memory.dreams.proposals()] == [record.id]
    assert memory.history.log()[-1].operation == "postpone"
    memory.dreams.decide(record.id, "accept")
    memory.history.undo(batch=memory.history.log()[-1].batch)
    assert [each.id for each in memory.dreams.proposals()] == [record.id]
    assert not _is_found(memory, record)


def test_the_owner_is_asked_about_a_proposal_once(memory: Memory) -> None:
    record = _propose(memory)
    assert memory.dreams.ask(scope="user:bo") is None
    asked = memory.dreams.ask()
    assert asked is not None
    assert asked.content == CONTENT
    assert memory.dreams.ask() is None
    assert [each.id for each in memory.dreams.proposals()] == [record.id]
    assert not _is_found(memory, record)


def test_proposals_are_listed_and_asked_about_the_newest_first(tmp_path: Path) -> None:
    clock, texts = MovableClock(), (CONTENT, "Always confirm a new password by phone")

    def answer(request: ModelRequest) -> str:
        turns = seen(request).turns
        return json.dumps(
            {
                "preferences": [
                    {"content": text, "evidence": [name for name, said in turns if text in said]}
                    for text in texts
                ]
            }
        )

    with Memory.open(tmp_path / "memory", model=believe(answer), clock=clock) as memory:
        for text in texts:
            memory.session("cli:1").add("user", f"{text}, please.")
            memory.dreams.run(["infer"])
            clock.now += timedelta(days=1)
        assert [record.content for record in memory.dreams.proposals()] == [texts[1], texts[0]]
        asked = [memory.dreams.ask(), memory.dreams.ask()]
        assert [record and record.content for record in asked] == [texts[1], texts[0]]


@pytest.mark.parametrize(
    ("said", "is_kept"), [("Yes, please.", True), ("sí", True), ("No.", False), ("Nein, danke", False)]
)
def test_a_plain_yes_or_no_decides_what_was_asked(memory: Memory, said: str, is_kept: bool) -> None:
    _propose(memory)
    asked = memory.dreams.ask()
    assert asked is not None
    decided = memory.dreams.answer(asked.id, said)
    assert decided is not None
    assert decided.archived is not is_kept
    assert _is_found(memory, decided) is is_kept
    assert memory.dreams.proposals() == []
    assert memory.history.log()[-1].actor == "owner"


@pytest.mark.parametrize(
    "said", ["", "no idea", "yes and no", "ok", "Yes, but only below 50 €", "no, wait", "yesterday"]
)
def test_anything_but_a_plain_yes_or_no_leaves_a_proposal_waiting(memory: Memory, said: str) -> None:
    record = _propose(memory)
    memory.dreams.ask()
    assert memory.dreams.answer(record.id, said) is None
    assert [each.id for each in memory.dreams.proposals()] == [record.id]


def test_a_wrong_decision_is_refused(memory: Memory) -> None:
    record = _propose(memory)
    with pytest.raises(InvalidInput, match="accept, reject, later"):
        memory.dreams.decide(record.id, "yes")  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        memory.dreams.decide("ffffffffffff", "accept")


def test_no_tool_of_a_model_decides_a_proposal(memory: Memory) -> None:
    record = _propose(memory)
    tools = memory.tools(groups=["long_term", "memory", "fil", "scratchpad", "conversation", "pages"])
    for operation in ("promote", "update", "add", "search", "forget"):
        tools.call("memory", {"operation": operation, "id": record.id, "content": CONTENT, "query": CONTENT})
    after = memory.get(record.id)
    assert after is not None
    assert after.archived
    assert not any(word in name for name in tools.names for word in ("review", "decide", "accept", "restore"))
